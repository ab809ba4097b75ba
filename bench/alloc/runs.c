/*
 * runs: 128 MiB a call out of memory in pieces, against block after block from the model of Linux; see own.h.
 */
#include <stdlib.h>

#include <pagehint/zone.h>

#include "crew.h"
#include "hands.h"
#include "own.h"
#include "subject_zone.h"

#define PIECE 32768u   /* frames of one alloc_runs */
#define PIECE_RUNS 64u /* it never needs more: each 2 MiB block is free whole or not at all */

struct runs {
	const struct own_plan *plan;
	void *state;
	struct pagehint_zone *zone; /* NULL: a model */
	struct pagehint_run *runs;  /* in hand */
	struct block *blocks;       /* first what stays in hand, then a model's blocks */
	uint64_t kept, n_runs;
	uint64_t want; /* frames of a pass */
	uint64_t got;
	uint64_t failed;
};

/* The model's way: as many blocks of 2 MiB. */
static struct job model_job(struct runs *b)
{
	struct job job = { .blocks = b->blocks + b->kept, .n = b->want >> HUGE_ORDER, .order = HUGE_ORDER };
	return job;
}

static void take_runs(struct runs *b)
{
	if (b->zone == NULL) {
		struct job job = model_job(b);
		b->plan->who->loops->fill(b->state, 0, &job);
		b->got = job.done << HUGE_ORDER;
		return;
	}
	b->n_runs = 0;
	for (b->got = 0; b->got < b->want; b->got += PIECE) {
		uint32_t n = 0;
		if (pagehint_zone_alloc_runs(b->zone, PIECE, b->runs + b->n_runs, PIECE_RUNS, &n) != 0)
			break;
		b->n_runs += n;
	}
}

static void give_runs(struct runs *b)
{
	if (b->got == 0)
		return;
	if (b->zone == NULL) {
		struct job job = model_job(b);
		b->plan->who->loops->empty(b->state, 0, &job);
		b->failed += job.failed;
	} else {
		uint32_t done = 0;
		b->failed += pagehint_zone_free_runs(b->zone, b->runs, (uint32_t)b->n_runs, &done) != 0;
		b->failed += done != b->n_runs;
	}
	b->got = 0;
}

static void *runs_open(const void *arg)
{
	const struct own_plan *plan = arg;
	struct runs *b = calloc(1, sizeof(*b));
	if (b == NULL)
		return NULL;
	b->plan = plan;
	b->blocks = bench_map((plan->frames >> HUGE_ORDER) * sizeof(struct block));
	b->runs = bench_map((plan->frames / PIECE + 1) * PIECE_RUNS * sizeof(struct pagehint_run));
	b->state = own_half_huge(plan, b->blocks, &b->kept);
	if (b->state == NULL)
		abort();
	if (plan->who == &subject_zone || plan->who == &subject_untracked)
		b->zone = ((struct zone_subject *)b->state)->zone;
	b->want = plan->frames / 2;
	return b;
}

static void runs_empty(void *ctx, uint64_t n)
{
	(void)n;
	give_runs(ctx);
}

static void runs_fill(void *ctx, uint64_t n)
{
	struct runs *b = ctx;
	(void)n;
	if (b->got == 0)
		take_runs(b);
}

static double runs_take(void *ctx, uint64_t n)
{
	struct runs *b = ctx;
	double start = crew_cpu_ns();
	take_runs(b);
	double ns = crew_cpu_ns() - start;
	b->failed += b->got != n;
	return ns;
}

static double runs_give(void *ctx, uint64_t n)
{
	struct runs *b = ctx;
	b->failed += b->got != n;
	double start = crew_cpu_ns();
	give_runs(b);
	return crew_cpu_ns() - start;
}

static int runs_check(void *ctx)
{
	struct runs *b = ctx;
	struct hands *h = hands_new(b->plan->frames);
	runs_fill(b, 0);
	hands_hold(h, b->blocks, b->zone == NULL ? b->kept + (b->got >> HUGE_ORDER) : b->kept);
	for (uint64_t i = 0; i < b->n_runs; i++)
		hands_hold_run(h, b->runs[i].frame, b->runs[i].frames);
	int bad = b->failed != 0 || hands_overlaps(h) != 0 || hands_held(h) != b->plan->frames;
	hands_free(h);
	return bad ? -1 : 0;
}

static void runs_close(void *ctx)
{
	struct runs *b = ctx;
	bench_unmap(b->blocks, (b->plan->frames >> HUGE_ORDER) * sizeof(struct block));
	bench_unmap(b->runs, (b->plan->frames / PIECE + 1) * PIECE_RUNS * sizeof(struct pagehint_run));
	b->plan->who->close(b->state);
	free(b);
}

const struct own_work own_runs_alloc = { "runs.alloc", runs_open, runs_empty, runs_take, runs_check, runs_close };
const struct own_work own_runs_free = { "runs.free", runs_open, runs_fill, runs_give, runs_check, runs_close };
