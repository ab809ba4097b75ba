/*
 * Restoring memory from a file that is in the page cache: all of it, in one thread; the time until a new process can touch its
 * first page; and how big a snapshot is that holds only what is not free.
 *
 * The check reads every page back, after whoever brought it is gone.
 */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <pagehint/map.h>
#include <pagehint/pager.h>
#include <pagehint/source.h>

#include "restore/snapshot.h"
#include "shim/shim.h"

#define BYTES ((uint64_t)256 << 20)
#define PIECE ((uint64_t)2 << 20)
#define PAGES (BYTES / PAGE)

enum way { OURS, COPY_2M, COPY_4K, PREAD };

struct restore {
	enum way way;
	int shared;
	unsigned char *memory;
	const unsigned char *file; /* mapped */
	int fd, memfd, uffd;
	struct pagehint_pager *pager;
	struct pagehint_source *source;
	int failed;
};

struct shape {
	enum way way;
	int shared;
};

/* The file is made once, and stays warm: every round reads all of it. */
static int file_fd = -1;

static int make_file(void)
{
	if (file_fd >= 0)
		return 0;
	file_fd = snapshot_temporary();
	if (file_fd < 0 || ftruncate(file_fd, (off_t)BYTES) != 0)
		return -1;
	unsigned char *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file_fd, 0);
	if (at == MAP_FAILED)
		return -1;
	for (uint64_t i = 0; i < PAGES; i++)
		for (uint64_t k = 0; k < PAGE; k += sizeof(uint64_t))
			memcpy(at + i * PAGE + k, &(uint64_t) { i * 3 + 1 }, sizeof(uint64_t));
	munmap(at, BYTES);
	return 0;
}

/* Memory that a machine's own host has not given it yet is slow once, and is no way's fault: use as much as is needed before. */
static void warm_memory(void)
{
	unsigned char *at = snapshot_room(BYTES + PIECE, -1);
	if (at == NULL)
		return;
	madvise(at, BYTES + PIECE, MADV_HUGEPAGE);
	for (uint64_t i = 0; i < BYTES + PIECE; i += PAGE)
		at[i] = 1;
	munmap(at, BYTES + PIECE);
}

static int register_plain(struct restore *r)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register all = { .range = { (uintptr_t)r->memory, BYTES }, .mode = UFFDIO_REGISTER_MODE_MISSING };
	r->uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	return r->uffd < 0 || ioctl(r->uffd, UFFDIO_API, &api) != 0 || ioctl(r->uffd, UFFDIO_REGISTER, &all) != 0;
}

static int register_ours(struct restore *r)
{
	struct pagehint_pager_region region = {
		.struct_size = sizeof(region),
		.frames = PAGES,
		.host_addr = (uintptr_t)r->memory,
		.backing = r->shared ? PAGEHINT_BACKING_SHARED : PAGEHINT_BACKING_ANON,
	};
	if (pagehint_source_file_new(file_fd, 0, BYTES, &region.source) != 0 ||
	    pagehint_pager_new(NULL, &r->pager) != 0)
		return -1;
	r->source = region.source;
	return pagehint_pager_add(r->pager, &region);
}

static void *restore_open(const void *arg)
{
	const struct shape *s = arg;
	struct restore *r = calloc(1, sizeof(*r));
	if (r == NULL || make_file() != 0)
		return NULL;
	warm_memory();
	r->way = s->way;
	r->shared = s->shared;
	r->memfd = s->shared ? memfd_create("restore", MFD_CLOEXEC) : -1;
	if (s->shared && (r->memfd < 0 || ftruncate(r->memfd, (off_t)BYTES) != 0))
		return NULL;
	r->memory = snapshot_room(BYTES, r->memfd);
	r->file = mmap(NULL, BYTES, PROT_READ, MAP_SHARED | MAP_POPULATE, file_fd, 0);
	r->uffd = -1;
	if (r->memory == NULL || r->file == MAP_FAILED)
		return NULL;
	if (r->way == OURS ? register_ours(r) != 0 : r->way != PREAD && register_plain(r) != 0) {
		fprintf(stderr, "restore: no userfaultfd here\n");
		return NULL;
	}
	return r;
}

static void fill(struct restore *r)
{
	uint64_t deadline = 0, sum = 0, bytes;
	while (deadline != UINT64_MAX && !r->failed) {
		r->failed |= pagehint_pager_fill(r->pager, UINT32_MAX, 1, PIECE * 8, &bytes, &deadline) != 0;
		sum += bytes;
	}
	r->failed |= sum != BYTES;
}

static void copy(struct restore *r, uint64_t piece)
{
	for (uint64_t at = 0; at < BYTES && !r->failed; at += piece) {
		struct uffdio_copy c = { .dst = (uintptr_t)r->memory + at,
					 .src = (uintptr_t)r->file + at,
					 .len = piece };
		r->failed |= ioctl(r->uffd, UFFDIO_COPY, &c) != 0;
	}
}

static void restore(void *ctx, uint64_t n)
{
	struct restore *r = ctx;
	(void)n;
	if (r->way == OURS)
		fill(r);
	else if (r->way == COPY_2M)
		copy(r, PIECE);
	else if (r->way == COPY_4K)
		copy(r, PAGE);
	else /* not lazily at all: the bound of reading */
		r->failed |= snapshot_read(file_fd, r->memory, BYTES) != 0;
}

static int check(void *ctx)
{
	struct restore *r = ctx;
	static unsigned char in_core[PAGES];
	if (r->failed || mincore(r->memory, BYTES, in_core) != 0)
		return -1;
	for (uint64_t i = 0; i < PAGES; i++) {
		if ((in_core[i] & 1) == 0)
			return -1; /* reading it would wait for nobody */
		if (memcmp(r->memory + i * PAGE, r->file + i * PAGE, PAGE) != 0)
			return -1;
	}
	return 0;
}

static void restore_close(void *ctx)
{
	struct restore *r = ctx;
	if (r->pager != NULL && pagehint_pager_free(r->pager) != 0)
		abort();
	pagehint_source_free(r->source);
	if (r->uffd >= 0)
		close(r->uffd);
	if (r->memfd >= 0)
		close(r->memfd);
	munmap(r->memory, BYTES);
	munmap((void *)(uintptr_t)r->file, BYTES);
	free(r);
}

/* ---- figures ---- */

static double median_of(const struct bench_result *results, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(results[i].name, name) == 0)
			return results[i].median;
	return 0;
}

static void publish(const struct bench_result *results, size_t n, const char *own, const char *other, const char *key)
{
	double a = median_of(results, n, own), b = median_of(results, n, other);
	if (a > 0 && b > 0)
		bench_publish(key, b / a, "x");
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

static void summary(const struct bench_result *results, size_t n)
{
	double ms[9], blocks_over_used = 0;
	publish(results, n, "anon", "anon.copy2m", "restore.anon.vs_copy2m");
	publish(results, n, "anon", "anon.one_page", "restore.anon.vs_one_page");
	publish(results, n, "shared", "shared.copy2m", "restore.shared.vs_copy2m");
	publish(results, n, "shared", "shared.one_page", "restore.shared.vs_one_page");
	for (unsigned i = 0; i < 9; i++)
		if (snapshot_first_access(&ms[i]) != 0) {
			fprintf(stderr, "restore: first access failed\n");
			exit(1);
		}
	qsort(ms, 9, sizeof(ms[0]), by_value);
	bench_publish("restore.first_access_ms", ms[4], "ms");
	bench_publish("restore.first_access_worst_ms", ms[8], "ms");
	if (snapshot_size(&blocks_over_used) != 0) {
		fprintf(stderr, "restore: the snapshot is wrong\n");
		exit(1);
	}
	bench_publish("restore.snapshot_blocks_over_used", blocks_over_used, "x");
}

static const struct shape anon_ours = { OURS, 0 }, anon_copy2m = { COPY_2M, 0 }, anon_copy4k = { COPY_4K, 0 },
			  anon_pread = { PREAD, 0 }, shared_ours = { OURS, 1 }, shared_copy2m = { COPY_2M, 1 },
			  shared_copy4k = { COPY_4K, 1 };

#define CASE(NAME, BASELINE, SHAPE)                                                                                    \
	{                                                                                                              \
		.name = NAME, .baseline = BASELINE, .n = PAGES, .bytes = BYTES, .open = restore_open, .arg = &(SHAPE), \
		.batch = restore, .check = check, .teardown = restore_close                                            \
	}

int main(int argc, char **argv)
{
	static const struct bench_case cases[] = {
		CASE("anon", "anon.copy2m", anon_ours),
		CASE("anon.copy2m", NULL, anon_copy2m),
		CASE("anon.one_page", "anon.copy2m", anon_copy4k),
		CASE("anon.pread", "anon.copy2m", anon_pread),
		CASE("shared", "shared.copy2m", shared_ours),
		CASE("shared.copy2m", NULL, shared_copy2m),
		CASE("shared.one_page", "shared.copy2m", shared_copy4k),
	};
	return bench_main(argc, argv, "restore", cases, sizeof(cases) / sizeof(cases[0]), summary);
}
