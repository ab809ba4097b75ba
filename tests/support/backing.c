#include "support/backing.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "memory/map.h"
#include "support/huge_pages.h"

#define HUGE_PAGE ((size_t)2 << 20)

static size_t bytes_of(const struct subject *s)
{
	return (size_t)(s->unit * UNITS);
}

int64_t proc_value(const char *path, const char *key)
{
	char line[256];
	long long value = -1;
	FILE *f = fopen(path, "r");
	if (f == NULL)
		return -1;
	while (fgets(line, sizeof(line), f) != NULL)
		if (strncmp(line, key, strlen(key)) == 0 && line[strlen(key)] == ':')
			if (sscanf(line + strlen(key) + 1, "%lld", &value) == 1)
				break;
	fclose(f);
	return value;
}

static int not_applicable(const char *name, const char *why)
{
	printf("not applicable: %s: %s\n", name, why);
	fflush(stdout);
	return 0;
}

/* Address space that starts at a multiple of a huge page. */
static void *room(size_t bytes)
{
	unsigned char *p = mmap(NULL, bytes + HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	size_t skip = (HUGE_PAGE - (uintptr_t)p % HUGE_PAGE) % HUGE_PAGE;
	if (skip != 0)
		munmap(p, skip);
	munmap(p + skip + bytes, HUGE_PAGE - skip);
	return p + skip;
}

static int file_of(const struct subject *s)
{
	char path[] = "pagehint-conformance-XXXXXX";
	if (s->kind == FILE_PRIVATE) {
		int fd = mkstemp(path);
		unlink(path);
		return fd;
	}
	return memfd_create("conformance", MFD_CLOEXEC | (s->kind == HUGETLB ? MFD_HUGETLB : 0));
}

static void write_file(const struct subject *s)
{
	unsigned char block[65536];
	memset(block, IN_FILE, sizeof(block));
	for (size_t at = 0; at < bytes_of(s); at += sizeof(block))
		assert_int_equal(pwrite(s->fd, block, sizeof(block), (off_t)at), sizeof(block));
}

static int make_memory(struct subject *s)
{
	int has_file = s->kind == SHARED || s->kind == HUGETLB || s->kind == FILE_PRIVATE || s->kind == MEMFD_PRIVATE;
	int shared = s->kind == SHARED || s->kind == SHARED_ANON || s->kind == HUGETLB;
	int flags = MAP_FIXED | (shared ? MAP_SHARED : MAP_PRIVATE) | (has_file ? 0 : MAP_ANONYMOUS);
	if (has_file) {
		s->fd = file_of(s);
		assert_true(s->fd >= 0);
		assert_int_equal(ftruncate(s->fd, (off_t)bytes_of(s)), 0);
		if (s->kind == FILE_PRIVATE || s->kind == MEMFD_PRIVATE)
			write_file(s);
	}
	void *at = room(bytes_of(s));
	if (s->kind == HUGETLB) /* a fixed mapping over small pages is allowed when it is aligned */
		flags |= MAP_HUGETLB;
	s->memory = mmap(at, bytes_of(s), PROT_READ | PROT_WRITE, flags, s->fd, 0);
	assert_ptr_equal(s->memory, at);
	if (s->kind == LOCKED && mlock(s->memory, bytes_of(s)) < 0)
		return not_applicable(s->name, "memory cannot be locked (RLIMIT_MEMLOCK)");
	if (s->kind == THP)
		return madvise(s->memory, bytes_of(s), MADV_HUGEPAGE) == 0 ||
		       not_applicable(s->name, "the kernel has no transparent huge pages");
	if (s->kind != HUGETLB)
		(void)madvise(s->memory, bytes_of(s), MADV_NOHUGEPAGE); /* fails where there are none */
	return 1;
}

static void make_backend(struct subject *s)
{
	struct pagehint_map_opts opts = { .struct_size = sizeof(opts), .host_page_shift = s->host_page_shift };
	struct pagehint_region_desc desc = {
		.struct_size = sizeof(desc),
		.frame = FIRST_FRAME,
		.frames = bytes_of(s) >> 12,
		.host_addr = (uintptr_t)s->memory,
		.fd = s->kind == FILE_PRIVATE || s->kind == MEMFD_PRIVATE || s->fd >= 0 ? s->fd : -1,
	};
	struct pagehint_backend_opts how = { .struct_size = sizeof(how), .gate = s->gate };
	assert_int_equal(ph_map_new_with(&opts, s->sys == NULL ? &ph_sys_real : s->sys, &s->map), 0);
	assert_int_equal(pagehint_map_add(s->map, &desc, &s->id), 0);
	struct pagehint_region_info info = { .struct_size = sizeof(info) };
	assert_int_equal(pagehint_map_lookup(s->map, FIRST_FRAME, &info), 0);
	assert_int_equal(info.backing, s->expected);
	if (s->kind == NOTHING)
		assert_int_equal(pagehint_null_new(&how, &s->backend), 0);
	else
		assert_int_equal(pagehint_madvise_new(s->map, NULL, &how, &s->backend), 0);
}

/* What cannot fail, and is all that a failed case needs: what it has of the machine goes back. */
static void forget_memory(struct subject *s)
{
	if (s->memory != NULL)
		munmap(s->memory, bytes_of(s));
	if (s->fd >= 0)
		close(s->fd);
	s->memory = NULL;
	s->fd = -1;
	if (s->kind == HUGETLB)
		huge_pages_return();
}

int subject_prepare(struct subject *s)
{
	s->unit = s->kind == HUGETLB || s->kind == THP ? HUGE_PAGE : 65536;
	s->memory = NULL;
	s->fd = -1;
	s->map = NULL;
	s->backend = NULL;
	const char *why_not = s->kind == HUGETLB ? huge_pages_borrow(UNITS) : NULL;
	if (why_not != NULL)
		return not_applicable(s->name, why_not);
	if (make_memory(s))
		return 1;
	forget_memory(s);
	return 0;
}

int subject_open(struct subject *s)
{
	if (!subject_prepare(s))
		return 0;
	make_backend(s);
	return 1;
}

void subject_close(struct subject *s)
{
	assert_int_equal(pagehint_backend_free(s->backend), 0);
	assert_int_equal(pagehint_map_remove(s->map, s->id), 0);
	assert_int_equal(pagehint_map_free(s->map), 0);
	forget_memory(s);
}

int subject_cleanup(void **state)
{
	struct subject *s = *state;
	if (s->memory != NULL)
		forget_memory(s);
	if (s->kind == HUGETLB)
		huge_pages_return();
	return 0;
}

/* The sum of one attribute over all mappings that lie in the region; remapping cuts it into several. */
static uint64_t smaps_sum(const struct subject *s, const char *key)
{
	char line[512];
	uint64_t sum = 0, start, end, kib, low = (uintptr_t)s->memory, high = low + bytes_of(s);
	int inside = 0;
	FILE *f = fopen("/proc/self/smaps", "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f) != NULL) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &start, &end) == 2)
			inside = start >= low && end <= high;
		else if (inside && strncmp(line, key, strlen(key)) == 0 && line[strlen(key)] == ':' &&
			 sscanf(line + strlen(key) + 1, "%" SCNu64, &kib) == 1)
			sum += kib * 1024;
	}
	fclose(f);
	return sum;
}

static uint64_t blocks_of(const struct stat *st)
{
	return (uint64_t)st->st_blocks * 512;
}

uint64_t host_holds(const struct subject *s)
{
	char path[96];
	struct stat st;
	switch (s->kind) {
	case SHARED:
	case HUGETLB:
		assert_int_equal(fstat(s->fd, &st), 0);
		return blocks_of(&st);
	case SHARED_ANON: /* its file has no name but this one */
		snprintf(path, sizeof(path), "/proc/self/map_files/%" PRIxPTR "-%" PRIxPTR, (uintptr_t)s->memory,
			 (uintptr_t)s->memory + bytes_of(s));
		return stat(path, &st) == 0 ? blocks_of(&st) : smaps_sum(s, "Rss");
	default:
		return smaps_sum(s, "Anonymous");
	}
}
