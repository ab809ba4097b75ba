/*
 * Shrinking a guest and growing it again: by shared state, beside a balloon of 4 KiB pages and reports of 2 MiB blocks.
 *
 * An operation is 2 MiB; a batch is all free memory of a zone of 4 GiB. Times are CPU time of the host's thread.
 *   untouched.*   memory that was never used is held (claimed and marked); `whole`: all of it is free; `pieces`: every other
 *                 granule is broken by a frame that is out, so no two that are free are adjacent
 *   shrink.*      the same of memory that was used: it is discarded, too, over a backend that does nothing
 *   soft.*        free memory that was used is reclaimed and put back, at most 64 MiB at a time, over the same backend
 *   grow.*        what is held is given back
 *   report.*, inflate4k  the balloon device of this library serves the same memory, 32 buffers of 2 MiB a request, or 256
 *                 pages of 4 KiB, over the same backend: what the device costs without what all share, the discard
 *   touched.*     a memfd that was written, and really is discarded; `raw`: the same runs by bare fallocate
 *   guest.*       a guest thread allocates and frees as fast as it can, alone or while the host reclaims the memfd: an
 *                 operation is an allocation and a free, CPU time of the guest's thread
 * Checks: the host's own counts, what the backend was asked for, and the blocks of the memfd.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <pagehint/backend.h>
#include <pagehint/cache.h>
#include <pagehint/host.h>
#include <pagehint/map.h>
#include <pagehint/reclaimer.h>
#include <pagehint/zone.h>

#include "reclaim/balloon.h"
#include "reclaim/plot.h"
#include "shim/shim.h"

/* ---- a zone and its host ---- */

struct rig {
	struct pagehint_zone *zone;
	struct pagehint_map *map; /* of real memory, or NULL */
	struct pagehint_backend *backend;
	struct pagehint_reclaimer *host;
	unsigned char *memory;
	int fd;
	int pieces;
	uint64_t wanted, got; /* of all batches [bytes] */
	int failed;
};

static void fill_memory(struct rig *r)
{
	for (uint64_t at = 0; at < MEMORY; at += PAGE)
		*(volatile unsigned char *)(r->memory + at) = 1;
}

static void make_memory(struct rig *r)
{
	struct pagehint_region_desc region = { .struct_size = sizeof(region), .frames = MEMORY / PAGE };
	uint64_t id;
	r->fd = memfd_create("bench", MFD_CLOEXEC);
	if (r->fd < 0 || ftruncate(r->fd, (off_t)MEMORY) != 0)
		abort();
	r->memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
	if (r->memory == MAP_FAILED)
		abort();
	region.host_addr = (uintptr_t)r->memory;
	region.fd = r->fd;
	if (pagehint_map_new(NULL, &r->map) || pagehint_map_add(r->map, &region, &id) ||
	    pagehint_madvise_new(r->map, NULL, NULL, &r->backend))
		abort();
}

/* Every block is handed out and freed again, but for a frame in every other one where the zone is to be in pieces. */
static void use_all(struct rig *r)
{
	static uint64_t blocks[BLOCKS];
	uint32_t n;
	int all = pagehint_zone_alloc_batch(r->zone, 9, (uint32_t)BLOCKS, blocks, &n);
	if (n != (r->pieces ? BLOCKS / 2 : BLOCKS) || (all != 0) != r->pieces)
		abort();
	if (pagehint_zone_free_batch(r->zone, 9, n, blocks, NULL) != 0)
		abort();
}

static void break_up(struct rig *r)
{
	struct pagehint_run run = { 0, 1 };
	for (uint64_t b = 0; b < BLOCKS; b += 2) {
		run.frame = b * 512;
		if (pagehint_zone_reserve(r->zone, run.frame, 1, NULL) != 0)
			abort();
	}
}

static struct rig *open_rig(int pieces, int real)
{
	struct pagehint_zone_opts opts = { .struct_size = sizeof(opts),
					   .max_sections = SECTIONS,
					   .flags = PAGEHINT_ZONE_SHARED };
	struct rig *r = calloc(1, sizeof(*r));
	if (r == NULL || pagehint_zone_new(&opts, &r->zone) || pagehint_zone_add(r->zone, 0, MEMORY / PAGE))
		return NULL;
	r->pieces = pieces;
	if (real)
		make_memory(r);
	else if (pagehint_null_new(NULL, &r->backend))
		return NULL;
	if (pagehint_reclaimer_new(r->zone, r->backend, NULL, &r->host))
		return NULL;
	if (pieces)
		break_up(r);
	return r;
}

static void close_rig(void *ctx)
{
	struct rig *r = ctx;
	pagehint_reclaimer_free(r->host);
	pagehint_backend_free(r->backend);
	pagehint_zone_destroy(r->zone);
	if (r->map != NULL) {
		pagehint_map_free(r->map);
		munmap(r->memory, MEMORY);
		close(r->fd);
	}
	free(r);
}

static void *open_whole(void)
{
	return open_rig(0, 0);
}

static void *open_pieces(void)
{
	return open_rig(1, 0);
}

static void *open_real(void)
{
	return open_rig(0, 1);
}

static void give_all_back(struct rig *r)
{
	uint64_t got;
	if (pagehint_reclaimer_give_back(r->host, UINT64_MAX, &got) == 0)
		r->failed = 1; /* there cannot be so much */
}

typedef int (*host_call)(struct pagehint_reclaimer *host, uint64_t bytes, uint64_t *ret_bytes);

/* CPU time of one call of the host, which must do all of n blocks. */
static double time_call(void *ctx, uint64_t n, host_call call)
{
	struct rig *r = ctx;
	uint64_t got;
	double from = balloon_cpu_ns();
	int error = call(r->host, n * BLOCK, &got);
	double to = balloon_cpu_ns();
	r->failed |= error != 0;
	r->wanted += n * BLOCK;
	r->got += got;
	return to - from;
}

static void prepare_hold(void *ctx, uint64_t n)
{
	(void)n;
	give_all_back(ctx);
}

static double time_hold(void *ctx, uint64_t n)
{
	return time_call(ctx, n, pagehint_reclaimer_hold);
}

static void prepare_grow(void *ctx, uint64_t n)
{
	struct rig *r = ctx;
	uint64_t got;
	r->failed |= pagehint_reclaimer_hold(r->host, n * BLOCK, &got) != 0;
}

static double time_grow(void *ctx, uint64_t n)
{
	return time_call(ctx, n, pagehint_reclaimer_give_back);
}

static void prepare_shrink(void *ctx, uint64_t n)
{
	prepare_hold(ctx, n);
	use_all(ctx);
}

static void prepare_soft(void *ctx, uint64_t n)
{
	struct rig *r = ctx;
	(void)n;
	use_all(r);
	if (r->map != NULL)
		fill_memory(r);
}

static double time_soft(void *ctx, uint64_t n)
{
	return time_call(ctx, n, pagehint_reclaimer_reclaim);
}

static double time_raw(void *ctx, uint64_t n)
{
	struct rig *r = ctx;
	double from = balloon_cpu_ns();
	for (uint64_t at = 0; at < n * BLOCK; at += 64 << 20)
		r->failed |= fallocate(r->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at, 64 << 20) != 0;
	return balloon_cpu_ns() - from;
}

static int check(void *ctx)
{
	struct rig *r = ctx;
	struct stat st;
	if (r->failed || r->got != r->wanted)
		return -1;
	if (r->map != NULL && (fstat(r->fd, &st) != 0 || st.st_blocks != 0))
		return -1; /* the host holds none of it */
	give_all_back(r);
	return pagehint_zone_check(r->zone, NULL) == 0 ? 0 : -1;
}

/* ---- the guest meanwhile ---- */

struct shrink {
	struct rig *rig;
	_Atomic int done;
};

static void *shrink(void *ctx)
{
	struct shrink *s = ctx;
	uint64_t got;
	int error = pagehint_reclaimer_reclaim(s->rig->host, MEMORY, &got);
	s->rig->failed |= (error != 0 && error != -28) || got < MEMORY / 2; /* ENOSPC: the guest has some of it now */
	atomic_store(&s->done, 1);
	return NULL;
}

#define HELD 256u

static double allocate_until(struct rig *r, struct shrink *s, uint64_t least)
{
	static uint64_t frames[HELD];
	struct pagehint_cache *cache;
	uint64_t ops = 0, seed = 1;
	if (pagehint_cache_open(r->zone, &cache) != 0)
		abort();
	for (uint32_t i = 0; i < HELD; i++)
		r->failed |= pagehint_cache_alloc(cache, i % 16 == 0 ? 3 : 0, &frames[i]) != 0;
	double from = balloon_cpu_ns();
	while (ops < least || (s != NULL && !atomic_load(&s->done))) {
		for (uint32_t k = 0; k < 1024; k++, ops++) {
			seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
			uint32_t i = (uint32_t)(seed >> 33) % HELD, order = i % 16 == 0 ? 3 : 0;
			r->failed |= pagehint_cache_free(cache, frames[i], order) != 0;
			int error;
			do
				error = pagehint_cache_alloc(cache, order, &frames[i]);
			while (error == -11); /* all that is free is away for a moment */
			r->failed |= error != 0;
		}
	}
	double each = (balloon_cpu_ns() - from) / (double)ops;
	for (uint32_t i = 0; i < HELD; i++)
		pagehint_cache_free(cache, frames[i], i % 16 == 0 ? 3 : 0);
	pagehint_cache_close(cache);
	return each;
}

static double time_alone(void *ctx, uint64_t n)
{
	return allocate_until(ctx, NULL, n) * (double)n;
}

static double time_shrinking(void *ctx, uint64_t n)
{
	struct shrink s = { .rig = ctx };
	pthread_t thread;
	if (pthread_create(&thread, NULL, shrink, &s) != 0)
		abort();
	double each = allocate_until(ctx, &s, 1);
	pthread_join(thread, NULL);
	return each * (double)n;
}

static int check_guest(void *ctx)
{
	struct rig *r = ctx;
	return r->failed || pagehint_zone_check(r->zone, NULL) != 0 ? -1 : 0;
}

/* ---- figures ---- */

static double worse(double a, double b)
{
	return a > b ? a : b;
}

static void summary(const struct bench_result *results, size_t n)
{
	double untouched =
		worse(result_of(results, n, "untouched.whole", 0), result_of(results, n, "untouched.pieces", 0));
	/* like with like: reports of adjacent blocks, and of blocks that are apart */
	double report = result_of(results, n, "report.adjacent", 0), apart = result_of(results, n, "report.apart", 0);
	double whole = result_of(results, n, "shrink.whole", 0), pieces = result_of(results, n, "shrink.pieces", 0);
	double soft = result_of(results, n, "soft.whole", 0), soft_pieces = result_of(results, n, "soft.pieces", 0);
	double inflate = result_of(results, n, "inflate4k", 0);
	double touched = result_of(results, n, "touched.shared", 1), dip = result_of(results, n, "guest.shrinking", 1);
	if (untouched > 0)
		bench_publish("reclaim.untouched.ns_per_2m", untouched, "ns");
	if (touched > 0)
		bench_publish("reclaim.touched.vs_raw_discard", 1 / touched, "x");
	if (whole > 0 && inflate > 0)
		bench_publish("reclaim.shared_vs_inflate4k", inflate / whole, "x");
	if (pieces > 0 && inflate > 0)
		bench_publish("reclaim.shared_vs_inflate4k.pieces", inflate / pieces, "x");
	if (whole > 0 && report > 0)
		bench_publish("reclaim.shared_vs_report", report / whole, "x");
	if (pieces > 0 && apart > 0)
		bench_publish("reclaim.shared_vs_report.pieces", apart / pieces, "x");
	if (soft > 0 && report > 0)
		bench_publish("reclaim.soft_vs_report", report / soft, "x");
	if (soft_pieces > 0 && apart > 0)
		bench_publish("reclaim.soft_vs_report.pieces", apart / soft_pieces, "x");
	if (dip > 0)
		bench_publish("reclaim.guest_dip_pct", dip > 1 ? 100 - 100 / dip : 0, "%");
	if (inflate > 0)
		plot_times("build/bench-reclaim.svg", BENCH_DIR "/reclaim/published.csv", results, n);
}

#define CASE(NAME, BASELINE, N, BATCHES, SETUP, PREPARE, TIMED, CHECK, CLOSE)                                       \
	{                                                                                                           \
		.name = NAME, .baseline = BASELINE, .n = N, .batches = BATCHES, .setup = SETUP, .prepare = PREPARE, \
		.timed = TIMED, .check = CHECK, .teardown = CLOSE                                                   \
	}

int main(int argc, char **argv)
{
	static const struct bench_case cases[] = {
		CASE("inflate4k", NULL, BLOCKS, 5, balloon_inflate, NULL, balloon_time, balloon_check, balloon_close),
		CASE("report.adjacent", NULL, BLOCKS, 50, balloon_report, NULL, balloon_time, balloon_check,
		     balloon_close),
		CASE("report.apart", NULL, BLOCKS / 2, 50, balloon_report_apart, NULL, balloon_time, balloon_check,
		     balloon_close),
		CASE("shrink.whole", "report.adjacent", BLOCKS, 50, open_whole, prepare_shrink, time_hold, check,
		     close_rig),
		CASE("shrink.pieces", "report.apart", BLOCKS / 2, 50, open_pieces, prepare_shrink, time_hold, check,
		     close_rig),
		CASE("untouched.whole", "report.adjacent", BLOCKS, 50, open_whole, prepare_hold, time_hold, check,
		     close_rig),
		CASE("untouched.pieces", "report.apart", BLOCKS / 2, 50, open_pieces, prepare_hold, time_hold, check,
		     close_rig),
		CASE("soft.whole", "report.adjacent", BLOCKS, 50, open_whole, prepare_soft, time_soft, check,
		     close_rig),
		CASE("soft.pieces", "report.apart", BLOCKS / 2, 50, open_pieces, prepare_soft, time_soft, check,
		     close_rig),
		CASE("grow.whole", "report.adjacent", BLOCKS, 50, open_whole, prepare_grow, time_grow, check,
		     close_rig),
		CASE("grow.pieces", "report.apart", BLOCKS / 2, 50, open_pieces, prepare_grow, time_grow, check,
		     close_rig),
		CASE("touched.raw", NULL, BLOCKS, 1, open_real, prepare_soft, time_raw, check, close_rig),
		CASE("touched.shared", "touched.raw", BLOCKS, 1, open_real, prepare_soft, time_soft, check, close_rig),
		CASE("guest.alone", NULL, 20000000, 1, open_real, prepare_soft, time_alone, check_guest, close_rig),
		CASE("guest.shrinking", "guest.alone", 20000000, 1, open_real, prepare_soft, time_shrinking,
		     check_guest, close_rig),
	};
	return bench_main(argc, argv, "reclaim", cases, sizeof(cases) / sizeof(cases[0]), summary);
}
