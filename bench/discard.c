/*
 * What the library costs on top of the system calls it makes: the same runs given back raw, through a backend, and by a
 * reporter from a zone. Private anonymous memory and a shared memfd; every other 2 MiB of 128 MiB, so that nothing merges.
 *
 * The check asks the kernel (mincore), not the library: each run that was to go is gone, each between them is still there.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <pagehint/backend.h>
#include <pagehint/host.h>
#include <pagehint/map.h>
#include <pagehint/origin.h>
#include <pagehint/reporter.h>
#include <pagehint/zone.h>

#include "shim/shim.h"

#define PAGE 4096u
#define RUN_BYTES (2u << 20)
#define RUN_ORDER 9u
#define RUNS 32u
#define REGION_BYTES ((uint64_t)RUNS * 2 * RUN_BYTES)
#define STEPS_MAX 10000u

struct place {
	char *memory;
	int fd; /* -1 for private anonymous memory */
	struct pagehint_map *map;
	struct pagehint_backend *backend;
	struct pagehint_zone *zone;
	struct pagehint_origin *origin;
	struct pagehint_reporter *reporter;
	struct pagehint_run runs[RUNS];
	struct iovec iov[RUNS];
	uint64_t now_ns;
	int failed;
};

static void need(struct place *p, int result, const char *what)
{
	if (result == 0)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(-result));
	p->failed = 1;
}

static struct place *place_new(int shared)
{
	struct place *p = calloc(1, sizeof(*p));
	if (p == NULL)
		return NULL;
	p->fd = shared ? memfd_create("bench", MFD_CLOEXEC) : -1;
	if (shared && (p->fd < 0 || ftruncate(p->fd, (off_t)REGION_BYTES) != 0))
		abort();
	p->memory = mmap(NULL, REGION_BYTES, PROT_READ | PROT_WRITE, shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS,
			 p->fd, 0);
	if (p->memory == MAP_FAILED)
		abort();
	madvise(p->memory, REGION_BYTES, MADV_NOHUGEPAGE);
	memset(p->memory, 1, REGION_BYTES);
	for (unsigned i = 0; i < RUNS; i++) {
		uint64_t offset = (uint64_t)i * 2 * RUN_BYTES;
		p->runs[i] = (struct pagehint_run) { offset / PAGE, RUN_BYTES / PAGE };
		p->iov[i] = (struct iovec) { p->memory + offset, RUN_BYTES };
	}
	return p;
}

static void add_backend(struct place *p)
{
	struct pagehint_region_desc desc = { .struct_size = sizeof(desc),
					     .frames = REGION_BYTES / PAGE,
					     .host_addr = (uintptr_t)p->memory,
					     .fd = p->fd };
	uint64_t id;
	need(p, pagehint_map_new(NULL, &p->map), "map");
	need(p, p->failed ? 0 : pagehint_map_add(p->map, &desc, &id), "region");
	need(p, p->failed ? 0 : pagehint_madvise_new(p->map, NULL, NULL, &p->backend), "backend");
}

/* a zone over the region, all of it handed out */
static void add_reporter(struct place *p)
{
	struct pagehint_zone_opts opts = { .struct_size = sizeof(opts), .flags = PAGEHINT_ZONE_STALE };
	uint64_t blocks[RUNS * 2];
	uint32_t n;
	need(p, p->failed ? 0 : pagehint_zone_new(&opts, &p->zone), "zone");
	need(p, p->failed ? 0 : pagehint_zone_add(p->zone, 0, REGION_BYTES / PAGE), "frames");
	need(p, p->failed ? 0 : pagehint_zone_alloc_batch(p->zone, RUN_ORDER, RUNS * 2, blocks, &n), "blocks");
	need(p, p->failed ? 0 : pagehint_zone_origin_new(p->zone, &p->origin), "origin");
	need(p, p->failed ? 0 : pagehint_reporter_new(p->origin, p->backend, NULL, &p->reporter), "reporter");
}

static void place_free(void *ctx)
{
	struct place *p = ctx;
	uint64_t deadline;
	if (p->reporter != NULL && pagehint_reporter_stop(p->reporter, p->now_ns, &deadline) != 0)
		abort();
	pagehint_reporter_free(p->reporter);
	pagehint_origin_free(p->origin);
	pagehint_zone_destroy(p->zone);
	pagehint_backend_free(p->backend);
	pagehint_map_free(p->map);
	munmap(p->memory, REGION_BYTES);
	if (p->fd >= 0)
		close(p->fd);
	free(p);
}

static void *anon_raw(void)
{
	return place_new(0);
}

static void *memfd_raw(void)
{
	return place_new(1);
}

static void *with_backend(struct place *p, int reporter)
{
	if (p == NULL)
		return NULL;
	add_backend(p);
	if (reporter)
		add_reporter(p);
	if (!p->failed)
		return p;
	place_free(p);
	return NULL;
}

static void *anon_backend(void)
{
	return with_backend(place_new(0), 0);
}

static void *memfd_backend(void)
{
	return with_backend(place_new(1), 0);
}

static void *anon_reporter(void)
{
	return with_backend(place_new(0), 1);
}

static void *memfd_reporter(void)
{
	return with_backend(place_new(1), 1);
}

/* makes every run resident again */
static void touch(void *ctx, uint64_t n)
{
	struct place *p = ctx;
	for (uint64_t i = 0; i < n; i++)
		memset(p->iov[i].iov_base, 1, RUN_BYTES);
}

/* the same through the zone: the blocks are handed out, used and freed; what is timed begins after that */
static void touch_and_free(void *ctx, uint64_t n)
{
	struct place *p = ctx;
	for (uint64_t i = 0; i < n; i++) {
		uint64_t busy;
		if (p->now_ns > 0)
			need(p, pagehint_zone_reserve(p->zone, p->runs[i].frame, p->runs[i].frames, &busy), "reserve");
	}
	touch(ctx, n);
	need(p, pagehint_zone_free_runs(p->zone, p->runs, (uint32_t)n, NULL), "free");
}

/* the best raw way for anonymous memory: one process_madvise of all runs where the kernel takes it on oneself */
static void raw_madvise(void *ctx, uint64_t n)
{
	struct place *p = ctx;
	static int pidfd = -1;
	if (pidfd == -1)
		pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	if (syscall(SYS_process_madvise, pidfd, p->iov, n, MADV_DONTNEED, 0) == (long)(n * RUN_BYTES))
		return;
	for (uint64_t i = 0; i < n; i++)
		if (madvise(p->iov[i].iov_base, RUN_BYTES, MADV_DONTNEED) != 0)
			need(p, -errno, "madvise");
}

static void raw_punch(void *ctx, uint64_t n)
{
	struct place *p = ctx;
	for (uint64_t i = 0; i < n; i++)
		if (fallocate(p->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(p->runs[i].frame * PAGE),
			      RUN_BYTES) != 0)
			need(p, -errno, "fallocate");
}

static void discard(void *ctx, uint64_t n)
{
	struct place *p = ctx;
	struct pagehint_outcome sum;
	need(p, pagehint_backend_discard(p->backend, p->runs, (uint32_t)n, 0, NULL, &sum, NULL), "discard");
	if (sum.accepted + sum.freed != n * RUN_BYTES)
		need(p, -EIO, "discard: not all was taken");
}

/* both looks, the discards and the releases, as fast as deadlines allow; time is simulated */
static void report(void *ctx, uint64_t n)
{
	struct place *p = ctx;
	struct pagehint_reporter_stats stats = { .struct_size = sizeof(stats) };
	need(p, pagehint_reporter_stats(p->reporter, &stats), "stats");
	uint64_t wanted = stats.reported + n * RUN_BYTES;
	for (unsigned i = 0; i < STEPS_MAX && !p->failed && stats.reported < wanted; i++) {
		uint64_t deadline;
		need(p, pagehint_reporter_step(p->reporter, p->now_ns, 0, &deadline), "step");
		if (deadline != UINT64_MAX && deadline > p->now_ns)
			p->now_ns = deadline;
		else
			p->now_ns++;
		need(p, pagehint_reporter_stats(p->reporter, &stats), "stats");
	}
}

static int check(void *ctx)
{
	struct place *p = ctx;
	static unsigned char vec[REGION_BYTES / PAGE];
	if (p->failed || mincore(p->memory, REGION_BYTES, vec) != 0)
		return -1;
	for (uint64_t i = 0; i < REGION_BYTES / PAGE; i++) {
		unsigned wanted = (i / (RUN_BYTES / PAGE)) % 2; /* even 2 MiB went, odd ones stay */
		if ((vec[i] & 1u) != wanted)
			return -1;
	}
	return 0;
}

static void summary(const struct bench_result *results, size_t n)
{
	double worst = 0;
	for (size_t i = 0; i < n; i++) {
		if (strstr(results[i].name, "reporter") != NULL && results[i].min_ratio > worst)
			worst = results[i].min_ratio;
	}
	bench_publish("reporter_vs_raw", 1 / worst, "x"); /* of minima: GiB/s of the reporter / GiB/s of raw calls */
}

#define CASE(NAME, BASELINE, SETUP, PREPARE, BATCH)                                                               \
	{                                                                                                         \
		.name = NAME, .baseline = BASELINE, .n = RUNS, .bytes = (uint64_t)RUNS * RUN_BYTES, .batches = 3, \
		.setup = SETUP, .prepare = PREPARE, .batch = BATCH, .check = check, .teardown = place_free        \
	}

int main(int argc, char **argv)
{
	static const struct bench_case cases[] = {
		CASE("anon.raw", NULL, anon_raw, touch, raw_madvise),
		CASE("anon.backend", "anon.raw", anon_backend, touch, discard),
		CASE("anon.reporter", "anon.raw", anon_reporter, touch_and_free, report),
		CASE("memfd.raw", NULL, memfd_raw, touch, raw_punch),
		CASE("memfd.backend", "memfd.raw", memfd_backend, touch, discard),
		CASE("memfd.reporter", "memfd.raw", memfd_reporter, touch_and_free, report),
	};
	return bench_main(argc, argv, "discard", cases, sizeof(cases) / sizeof(cases[0]), summary);
}
