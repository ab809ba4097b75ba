#include "backing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <pagehint/map.h>

#include "host.h"
#include "hugepool.h"
#include "pattern.h"

#ifndef MFD_HUGE_2MB
#define MFD_HUGE_2MB (21u << 26) /* linux/memfd.h, which glibc's header does not include */
#endif
#define FRESH_STRIDE 8u /* file: one page in so many has content */

static const struct {
	const char *name;
	uint32_t claim;
} kinds[BACKINGS] = {
	{ "anon", PAGEHINT_BACKING_ANON },         { "thp", PAGEHINT_BACKING_ANON },
	{ "memfd", PAGEHINT_BACKING_SHARED },      { "hugetlb", PAGEHINT_BACKING_HUGETLB },
	{ "file", PAGEHINT_BACKING_FILE_PRIVATE },
};

const char *backing_name(uint32_t kind)
{
	return kinds[kind].name;
}

uint32_t backing_claim(uint32_t kind)
{
	return kinds[kind].claim;
}

static int say(struct why *why, int rc, const char *format, ...) __attribute__((format(printf, 3, 4)));

static int say(struct why *why, int rc, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why->text, sizeof(why->text), format, args);
	va_end(args);
	return rc;
}

uint64_t backing_fresh_seed(const struct backing *backing, uint64_t frame)
{
	return backing->kind == BACKING_FILE && frame % FRESH_STRIDE == 0 ? pattern_seed(frame, UINT64_MAX, 0) : 0;
}

/* A file that has no name, as long as the backing, with content in some pages. */
static int open_snapshot(const struct backing *backing)
{
	const char *directory = getenv("TMPDIR");
	uint64_t page[PAGE_BYTES / 8];
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/giveback-XXXXXX", directory && *directory ? directory : "/var/tmp");
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	unlink(path);
	if (ftruncate(fd, (off_t)backing->bytes)) {
		int rc = -errno;

		close(fd);
		return rc;
	}
	for (uint64_t frame = 0; frame < backing->bytes >> PAGE_SHIFT; frame += FRESH_STRIDE) {
		pattern_write(page, backing_fresh_seed(backing, frame));
		if (pwrite(fd, page, sizeof(page), (off_t)(frame << PAGE_SHIFT)) != (ssize_t)sizeof(page)) {
			close(fd);
			return -ENOSPC;
		}
	}
	return fd;
}

static int open_file(struct backing *backing, struct why *why)
{
	if (backing->kind == BACKING_MEMFD)
		backing->fd = memfd_create("giveback", MFD_CLOEXEC);
	else if (backing->kind == BACKING_HUGETLB)
		backing->fd = memfd_create("giveback", MFD_CLOEXEC | MFD_HUGETLB | MFD_HUGE_2MB);
	else if (backing->kind == BACKING_FILE)
		backing->fd = open_snapshot(backing);
	else
		return 0;
	if (backing->fd < 0) {
		int rc = backing->kind == BACKING_FILE ? backing->fd : -errno;

		backing->fd = -1;
		return say(why, backing->kind == BACKING_HUGETLB ? -ENODEV : rc, "%s: its file cannot be made: %s",
			   backing_name(backing->kind), strerror(-rc));
	}
	if (backing->kind != BACKING_FILE && ftruncate(backing->fd, (off_t)backing->bytes))
		return say(why, -errno, "%s: its file cannot be made so long", backing_name(backing->kind));
	return 0;
}

static int map(struct backing *backing)
{
	int is_shared = backing->kind == BACKING_MEMFD || backing->kind == BACKING_HUGETLB;
	int flags = MAP_FIXED | MAP_NORESERVE | (is_shared ? MAP_SHARED : MAP_PRIVATE) |
		    (backing->fd < 0 ? MAP_ANONYMOUS : 0);
	void *at = mmap(backing->base, backing->bytes, PROT_READ | PROT_WRITE, flags, backing->fd, 0);

	if (at == MAP_FAILED)
		return -errno;
	if (backing->kind == BACKING_HUGETLB)
		return 0;
	/* refused by kernels without huge pages, where it changes nothing */
	if (madvise(at, backing->bytes, backing->kind == BACKING_THP ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) &&
	    backing->kind == BACKING_THP)
		return -ENODEV;
	return 0;
}

/* Surroundings without access keep the kernel from joining the mapping with a neighbour. */
static int reserve_addresses(struct backing *backing)
{
	uintptr_t base;
	void *at;

	backing->reserved_bytes = backing->bytes + 2 * GRANULE_BYTES;
	at = mmap(NULL, backing->reserved_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return -errno;
	backing->reserved = at;
	base = ((uintptr_t)at + GRANULE_BYTES) & ~(uintptr_t)(GRANULE_BYTES - 1);
	backing->base = backing->reserved + (base - (uintptr_t)at);
	return 0;
}

/* Huge pages may be switched off, or be no longer to be had: one touch tells. */
static int check_thp(struct backing *backing, struct why *why)
{
	uint64_t bytes = 0;
	int rc;

	page_touch(backing->base);
	rc = host_bytes(backing, &bytes);
	if (rc)
		return say(why, rc, "thp: smaps cannot be read: %s", strerror(-rc));
	if (bytes != GRANULE_BYTES)
		return say(
			why, -ENODEV,
			"thp: the host gives no transparent huge pages (/sys/kernel/mm/transparent_hugepage/enabled)");
	return backing_reset(backing);
}

int backing_open(struct backing *backing, uint32_t kind, uint64_t bytes, struct why *why)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	int rc;

	*backing = (struct backing) { .kind = kind, .fd = -1, .bytes = bytes };
	backing->unit_bytes = kind == BACKING_THP || kind == BACKING_HUGETLB ? GRANULE_BYTES : page;
	if (kind == BACKING_HUGETLB) {
		rc = hugepool_check(bytes / GRANULE_BYTES, &backing->huge_used_before, why);
		if (rc)
			return rc;
	}
	rc = open_file(backing, why);
	if (!rc) {
		rc = reserve_addresses(backing);
		rc = rc ? rc : map(backing);
		if (rc)
			say(why, rc, "%s: cannot be mapped: %s", backing_name(kind), strerror(-rc));
	}
	if (!rc && kind == BACKING_THP)
		rc = check_thp(backing, why);
	if (rc)
		backing_close(backing);
	return rc;
}

int backing_reset(struct backing *backing)
{
	if (backing->kind == BACKING_MEMFD || backing->kind == BACKING_HUGETLB)
		return fallocate(backing->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)backing->bytes)
			       ? -errno
			       : 0;
	return map(backing);
}

void backing_close(struct backing *backing)
{
	if (backing->reserved)
		munmap(backing->reserved, backing->reserved_bytes);
	if (backing->fd >= 0)
		close(backing->fd);
	*backing = (struct backing) { .kind = backing->kind, .fd = -1 };
}
