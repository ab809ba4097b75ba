#include "versus.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "clock.h"
#include "engine.h"
#include "host.h"
#include "pattern.h"
#include "progress.h"

#define INTERVAL_NS UINT64_C(100000000)
#define BATCH 1024u
#define STEPS_MAX 1000u

struct shape {
	struct pagehint_run *runs; /* maximal runs of freed granules */
	uint32_t n;
	uint64_t bytes; /* in them */
};

/* Which granules stay in use: one in four, drawn by a fixed rule so that every round and every machine has the same runs. */
static int stays(uint64_t granule)
{
	uint64_t x = granule * UINT64_C(0x9e3779b97f4a7c15);

	return ((x ^ (x >> 31)) * UINT64_C(0xbf58476d1ce4e5b9)) >> 62 == 0;
}

static int shape_make(struct shape *shape, uint64_t granules)
{
	*shape = (struct shape) { .runs = calloc((size_t)granules, sizeof(*shape->runs)) };
	if (!shape->runs)
		return -ENOMEM;
	for (uint64_t granule = 0; granule < granules; granule++) {
		if (stays(granule))
			continue;
		if (granule == 0 || stays(granule - 1))
			shape->runs[shape->n++].frame = granule << GRANULE_ORDER;
		shape->runs[shape->n - 1].frames += GRANULE_FRAMES;
		shape->bytes += GRANULE_BYTES;
	}
	return 0;
}

/* Steps at the reporter's own deadlines until so much is back. */
static int step_until_back(struct pagehint_reporter *reporter, uint64_t bytes)
{
	struct pagehint_reporter_stats stats = { .struct_size = sizeof(stats) };
	uint64_t now_ns = INTERVAL_NS;
	uint64_t deadline = 0;
	int rc = 0;

	for (unsigned i = 0; i < STEPS_MAX; i++) {
		rc = pagehint_reporter_step(reporter, now_ns, 0, &deadline);
		rc = rc ? rc : pagehint_reporter_stats(reporter, &stats);
		if (rc || stats.reported >= bytes)
			return rc;
		now_ns = deadline > now_ns ? deadline : now_ns;
	}
	return -ETIME;
}

/* Everything out, everything written, then the shape freed. Blocks come in any order: each is found by its frame. */
static int fill(struct engine *engine, const struct backing *backing, const struct shape *shape)
{
	uint64_t frame;
	int rc = 0;

	for (uint64_t i = 0; i < backing->bytes / GRANULE_BYTES && !rc; i++)
		rc = pagehint_zone_alloc(engine->zone, GRANULE_ORDER, &frame);
	for (uint64_t at = 0; at < backing->bytes; at += PAGE_BYTES)
		page_touch(backing->base + at);
	return rc ? rc : pagehint_zone_free_runs(engine->zone, shape->runs, shape->n, NULL);
}

static int time_reporter(const struct backing *backing, const struct shape *shape, uint64_t *ret_ns, struct why *why)
{
	struct engine_ask ask = { .backing = backing, .interval_ns = INTERVAL_NS };
	struct engine engine;
	uint64_t started;
	int rc = engine_open(&engine, &ask, why);

	if (rc)
		return rc;
	rc = fill(&engine, backing, shape);
	started = clock_used_ns();
	rc = rc ? rc : step_until_back(engine.reporter, shape->bytes);
	*ret_ns = clock_used_ns() - started;
	if (rc)
		snprintf(why->text, sizeof(why->text), "%s: reporter against raw calls: %s",
			 backing_name(backing->kind), strerror(-rc));
	if (engine_close(&engine, UINT64_MAX / 2, why) && !rc)
		rc = -EBUSY;
	return rc;
}

static int raw_anon(const struct backing *backing, const struct shape *shape)
{
	static int has_no_batch; /* the kernel refuses process_madvise on oneself */
	struct iovec vector[BATCH];
	int pidfd = has_no_batch ? -1 : (int)syscall(SYS_pidfd_open, getpid(), 0);
	int rc = 0;

	for (uint32_t from = 0; from < shape->n && pidfd >= 0 && !has_no_batch;) {
		uint64_t bytes = 0;
		uint32_t n = 0;

		for (; from < shape->n && n < BATCH; n++, from++) {
			vector[n].iov_base = backing->base + (shape->runs[from].frame << PAGE_SHIFT);
			vector[n].iov_len = shape->runs[from].frames << PAGE_SHIFT;
			bytes += vector[n].iov_len;
		}
		has_no_batch = syscall(SYS_process_madvise, pidfd, vector, n, MADV_DONTNEED, 0) != (long)bytes;
	}
	if (pidfd >= 0)
		close(pidfd);
	for (uint32_t i = 0; i < shape->n && (pidfd < 0 || has_no_batch) && !rc; i++)
		rc = madvise(backing->base + (shape->runs[i].frame << PAGE_SHIFT), shape->runs[i].frames << PAGE_SHIFT,
			     MADV_DONTNEED)
			     ? -errno
			     : 0;
	return rc;
}

static int raw_memfd(const struct backing *backing, const struct shape *shape)
{
	int rc = 0;

	for (uint32_t i = 0; i < shape->n && !rc; i++)
		rc = fallocate(backing->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			       (off_t)(shape->runs[i].frame << PAGE_SHIFT),
			       (off_t)(shape->runs[i].frames << PAGE_SHIFT))
			     ? -errno
			     : 0;
	return rc;
}

static int time_raw(const struct backing *backing, const struct shape *shape, uint64_t *ret_ns, struct why *why)
{
	uint64_t started;
	int rc;

	for (uint64_t at = 0; at < backing->bytes; at += PAGE_BYTES)
		page_touch(backing->base + at);
	started = clock_used_ns();
	rc = backing->kind == BACKING_ANON ? raw_anon(backing, shape) : raw_memfd(backing, shape);
	*ret_ns = clock_used_ns() - started;
	if (rc)
		snprintf(why->text, sizeof(why->text), "%s: the raw calls: %s", backing_name(backing->kind),
			 strerror(-rc));
	return rc;
}

/* One side's turn; what it claims to have done is checked with the host. */
static int turn(const struct backing *backing, const struct shape *shape, int is_raw, double *ret_speed,
		struct why *why)
{
	uint64_t left = 0;
	uint64_t ns = 1;
	int rc = is_raw ? time_raw(backing, shape, &ns, why) : time_reporter(backing, shape, &ns, why);

	if (rc)
		return rc;
	rc = host_bytes(backing, &left);
	if (!rc && left != backing->bytes - shape->bytes) {
		snprintf(why->text, sizeof(why->text), "%s: %s left %llu bytes with the host instead of %llu",
			 backing_name(backing->kind), is_raw ? "raw calls" : "the reporter", (unsigned long long)left,
			 (unsigned long long)(backing->bytes - shape->bytes));
		return -EUCLEAN;
	}
	*ret_speed = (double)shape->bytes / (1u << 30) / ((double)(ns ? ns : 1) / 1e9);
	return rc;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static struct versus_side sum_up(double *speeds)
{
	qsort(speeds, VERSUS_ROUNDS, sizeof(*speeds), compare);
	return (struct versus_side) { speeds[0], speeds[VERSUS_ROUNDS / 2], speeds[VERSUS_ROUNDS - 1] };
}

int versus_run(uint32_t kind, uint64_t bytes, struct versus *versus, struct why *why)
{
	double speeds[2][VERSUS_ROUNDS] = { { 0 } };
	struct backing backing;
	struct shape shape;
	int rc = backing_open(&backing, kind, bytes, why);

	if (rc)
		return rc;
	rc = shape_make(&shape, bytes / GRANULE_BYTES);
	for (unsigned round = 0; round < VERSUS_ROUNDS && !rc; round++) {
		progress("speed", round, VERSUS_ROUNDS);
		for (unsigned i = 0; i < 2 && !rc; i++) {
			int is_raw = (round + i) % 2 == 0;

			rc = turn(&backing, &shape, is_raw, &speeds[is_raw][round], why);
		}
	}
	progress_done();
	free(shape.runs);
	backing_close(&backing);
	if (rc)
		return rc;
	versus->reporter = sum_up(speeds[0]);
	versus->raw = sum_up(speeds[1]);
	versus->ratio = versus->reporter.median / versus->raw.median;
	return 0;
}
