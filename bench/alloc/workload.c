#include "workload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hands.h"
#include "shuffle.h"

#define ORDERS_SPARE 4u /* a pass begins anywhere in so many times the orders that it needs */
#define MIX_HALVES 11u  /* mean frames of a block in a mix, in halves: 9 * 1/2 + 512 / 512 = 5.5 */

struct run {
	const struct plan *plan;
	void *state;
	struct job jobs[CREW_MAX];
	struct block *blocks; /* of all threads, thread i from i * stride on */
	uint8_t *orders;      /* likewise, from i * stride * ORDERS_SPARE on */
	uint64_t stride;      /* room of a thread [blocks] */
	uint64_t live;        /* what a thread holds between passes [blocks] */
	uint64_t seed;
	int holding;
};

static int is_bulk(const struct workload *w)
{
	return w->kind == WORK_ALLOC || w->kind == WORK_FREE;
}

/* All there is for one thread. Several leave room, since what one's cache holds the others cannot have. */
static uint64_t share(const struct plan *p)
{
	uint64_t blocks = p->frames >> p->work->order;
	if (p->work->kind == WORK_MIX)
		blocks = p->frames / MIX_HALVES;
	else if (p->threads > 1)
		blocks -= p->work->order == 0 ? 8192 : 4;
	return blocks / p->threads;
}

/* What a thread holds between passes; a pass deals with each of these once. */
static uint64_t live_of(const struct plan *p)
{
	int half = p->work->kind == WORK_PAIRS || p->work->kind == WORK_CHURN;
	return half ? share(p) / 2 : share(p);
}

uint64_t workload_ops(const struct plan *p)
{
	return is_bulk(p->work) ? live_of(p) : 2 * live_of(p);
}

/* Jobs of all threads: n blocks of each, from `first` of its share on. */
static void assign(struct run *r, uint64_t first, uint64_t n)
{
	for (unsigned i = 0; i < r->plan->threads; i++) {
		struct job *job = &r->jobs[i];
		job->blocks = r->blocks + i * r->stride + first;
		job->n = n;
		job->order = r->plan->work->order;
	}
}

static void drain(struct run *r)
{
	for (unsigned i = 0; i < r->plan->threads; i++)
		r->plan->who->drain(r->state, i);
}

static void untimed(struct run *r, loop_fn loop)
{
	crew_prepare(loop, r->state, r->jobs, r->plan->threads);
}

/* The first n of each thread in random order: its own, or everybody's. */
static void shuffle(struct run *r, uint64_t n)
{
	unsigned threads = r->plan->threads;
	if (!r->plan->work->cross) {
		for (unsigned i = 0; i < threads; i++)
			shuffle_blocks(r->blocks + i * r->stride, n, &r->seed);
		return;
	}
	for (unsigned i = 0; i < threads; i++) {
		for (uint64_t k = 0; k < n; k++) {
			uint64_t other = shuffle_below(&r->seed, n * threads);
			struct block *a = &r->blocks[i * r->stride + k];
			struct block *b = &r->blocks[other / n * r->stride + other % n], held = *a;
			*a = *b;
			*b = held;
		}
	}
}

static void empty_all(struct run *r)
{
	assign(r, 0, r->stride);
	untimed(r, r->plan->who->loops->empty);
	drain(r);
	r->holding = 0;
}

static void fill_all(struct run *r)
{
	assign(r, 0, r->stride);
	untimed(r, r->plan->who->loops->fill);
	for (unsigned i = 0; i < r->plan->threads; i++)
		r->jobs[i].failed += r->jobs[i].done != r->stride;
	r->holding = 1;
}

/* Half of all, at random places, and one pass that is not timed. */
static void half_fill(struct run *r)
{
	const struct loops *loops = r->plan->who->loops;
	fill_all(r);
	shuffle(r, r->stride);
	assign(r, r->live, r->stride - r->live);
	untimed(r, loops->empty);
	workload_prepare(r, 0);
	untimed(r, r->plan->work->kind == WORK_CHURN ? loops->churn : loops->pairs);
}

static void mix_fill(struct run *r)
{
	size_t n = r->plan->threads * r->stride * ORDERS_SPARE;
	r->orders = bench_map(n);
	for (size_t i = 0; i < n; i++)
		r->orders[i] = (uint8_t)__builtin_ctzll(shuffle_next(&r->seed) >> 20 | 1u << HUGE_ORDER);
	for (uint64_t i = 0; i < r->stride * r->plan->threads; i++)
		r->blocks[i].order = NO_BLOCK;
	for (unsigned pass = 0; pass < 2; pass++) {
		workload_prepare(r, 0);
		untimed(r, r->plan->who->loops->mix);
	}
}

void *workload_open(const void *arg)
{
	const struct plan *p = arg;
	struct run *r = calloc(1, sizeof(*r));
	if (r == NULL)
		return NULL;
	r->plan = p;
	r->stride = share(p);
	r->live = live_of(p);
	r->seed = SHUFFLE_SEED;
	r->blocks = bench_map(p->threads * r->stride * sizeof(struct block));
	memset(r->blocks, 0, p->threads * r->stride * sizeof(struct block));
	r->state = p->who->open(p->frames, p->threads);
	if (r->state == NULL) {
		workload_close(r);
		return NULL;
	}
	if (p->work->kind == WORK_MIX) {
		mix_fill(r);
	} else if (is_bulk(p->work)) { /* every record and word has been used once before anything is timed */
		fill_all(r);
		empty_all(r);
	} else {
		half_fill(r);
	}
	return r;
}

void workload_prepare(void *ctx, uint64_t n)
{
	struct run *r = ctx;
	(void)n;
	if (r->plan->work->kind == WORK_ALLOC && r->holding)
		empty_all(r);
	if (r->plan->work->kind == WORK_FREE) {
		drain(r);
		fill_all(r);
	}
	if (!is_bulk(r->plan->work) || r->plan->work->shuffled)
		shuffle(r, r->live);
	assign(r, 0, r->live);
	for (unsigned i = 0; i < r->plan->threads && r->orders != NULL; i++)
		r->jobs[i].orders = r->orders + i * r->stride * ORDERS_SPARE +
				    shuffle_below(&r->seed, r->stride * (ORDERS_SPARE - 1));
}

double workload_timed(void *ctx, uint64_t n)
{
	struct run *r = ctx;
	const struct loops *loops = r->plan->who->loops;
	const loop_fn by_kind[] = { [WORK_ALLOC] = loops->fill,
				    [WORK_FREE] = loops->empty,
				    [WORK_PAIRS] = loops->pairs,
				    [WORK_CHURN] = loops->churn,
				    [WORK_MIX] = loops->mix };
	enum work_kind kind = r->plan->work->kind;
	double ns = crew_run(by_kind[kind], r->state, r->jobs, r->plan->threads);
	(void)n;
	r->holding = kind != WORK_FREE;
	for (unsigned i = 0; i < r->plan->threads; i++)
		r->jobs[i].failed += r->jobs[i].done != r->live;
	return ns;
}

int workload_check(void *ctx)
{
	struct run *r = ctx;
	const struct plan *p = r->plan;
	uint64_t failed = 0;
	if (!r->holding) { /* all of it must be there to be had again, once each */
		drain(r);
		fill_all(r);
	}
	struct hands *h = hands_new(p->who->span(p->frames));
	for (unsigned i = 0; i < p->threads; i++) {
		hands_hold(h, r->blocks + i * r->stride, r->live);
		failed += r->jobs[i].failed;
	}
	if (p->work->kind == WORK_MIX) {
		double pct = hands_huge_free_pct(h);
		if (p->outcome->rounds++ == 0 || pct < p->outcome->least_huge_free_pct)
			p->outcome->least_huge_free_pct = pct;
	} else {
		failed += hands_held(h) != (p->threads * r->live) << p->work->order;
	}
	uint64_t overlaps = hands_overlaps(h);
	hands_free(h);
	if (failed + overlaps != 0)
		fprintf(stderr, "%s.%s: %llu calls failed, %llu overlaps\n", p->work->name, p->who->name,
			(unsigned long long)failed, (unsigned long long)overlaps);
	return failed + overlaps == 0 ? 0 : -1;
}

void workload_close(void *ctx)
{
	struct run *r = ctx;
	const struct plan *p = r->plan;
	if (r->state != NULL)
		p->who->close(r->state);
	bench_unmap(r->blocks, p->threads * r->stride * sizeof(struct block));
	if (r->orders != NULL)
		bench_unmap(r->orders, p->threads * r->stride * ORDERS_SPARE);
	free(r);
}

uint64_t workload_live(const struct plan *p, unsigned passes, uint64_t *ret_ops)
{
	struct run *r = workload_open(p);
	uint64_t span = p->who->span(p->frames), failed = 0;
	if (r == NULL)
		return 1;
	atomic_uchar *owned = bench_map(span);
	for (unsigned i = 0; i < p->threads; i++) {
		r->jobs[i].owned = owned;
		for (uint64_t k = 0; k < r->live; k++)
			failed += atomic_exchange(&owned[r->blocks[i * r->stride + k].frame], 1) != 0;
	}
	*ret_ops = 0;
	for (unsigned pass = 0; pass < passes; pass++) {
		workload_prepare(r, 0);
		crew_run(p->who->loops->live, r->state, r->jobs, p->threads);
		for (unsigned i = 0; i < p->threads; i++) {
			failed += r->jobs[i].done != r->live;
			*ret_ops += 2 * r->jobs[i].done;
		}
	}
	for (unsigned i = 0; i < p->threads; i++)
		failed += r->jobs[i].failed;
	bench_unmap(owned, span);
	workload_close(r);
	return failed;
}
