/*
 * batch: 512 frames a call, see own.h.
 */
#include <stdlib.h>

#include <pagehint/zone.h>

#include "crew.h"
#include "hands.h"
#include "own.h"
#include "subject_zone.h"

#define BATCH 512u

struct batch {
	const struct own_plan *plan;
	void *state;
	struct pagehint_zone *zone;
	uint64_t *frames; /* in hand */
	uint64_t want;    /* frames of a pass */
	uint64_t got;
	uint64_t failed;
};

static void take_batches(struct batch *b)
{
	for (b->got = 0; b->got < b->want;) {
		uint32_t n = 0;
		int r = pagehint_zone_alloc_batch(b->zone, 0, BATCH, b->frames + b->got, &n);
		b->got += n;
		if (r != 0)
			break;
	}
}

static void give_batches(struct batch *b)
{
	uint64_t at = 0;
	for (; at < b->got; at += BATCH)
		b->failed += pagehint_zone_free_batch(b->zone, 0, BATCH, b->frames + at, NULL) != 0;
	b->got = 0;
}

static void *batch_open(const void *arg)
{
	struct batch *b = calloc(1, sizeof(*b));
	if (b == NULL)
		return NULL;
	b->plan = arg;
	b->state = b->plan->who->open(b->plan->frames, 0);
	if (b->state == NULL)
		abort();
	b->zone = ((struct zone_subject *)b->state)->zone;
	b->want = b->plan->frames;
	b->frames = bench_map(b->want * sizeof(*b->frames));
	take_batches(b); /* once, so that every word has been used */
	b->failed += b->got != b->want;
	give_batches(b);
	return b;
}

static void batch_empty(void *ctx, uint64_t n)
{
	(void)n;
	give_batches(ctx);
}

static void batch_fill(void *ctx, uint64_t n)
{
	struct batch *b = ctx;
	(void)n;
	if (b->got == 0)
		take_batches(b);
}

static double batch_take(void *ctx, uint64_t n)
{
	struct batch *b = ctx;
	double start = crew_cpu_ns();
	take_batches(b);
	double ns = crew_cpu_ns() - start;
	b->failed += b->got != n;
	return ns;
}

static double batch_give(void *ctx, uint64_t n)
{
	struct batch *b = ctx;
	b->failed += b->got != n;
	double start = crew_cpu_ns();
	give_batches(b);
	return crew_cpu_ns() - start;
}

static int batch_check(void *ctx)
{
	struct batch *b = ctx;
	struct hands *h = hands_new(b->plan->frames);
	batch_fill(b, 0);
	for (uint64_t i = 0; i < b->got; i++)
		hands_hold_run(h, b->frames[i], 1);
	int bad = b->failed != 0 || hands_overlaps(h) != 0 || hands_held(h) != b->want;
	hands_free(h);
	return bad ? -1 : 0;
}

static void batch_close(void *ctx)
{
	struct batch *b = ctx;
	bench_unmap(b->frames, b->want * sizeof(*b->frames));
	b->plan->who->close(b->state);
	free(b);
}

const struct own_work own_batch_alloc = {
	"batch.alloc", batch_open, batch_empty, batch_take, batch_check, batch_close
};
const struct own_work own_batch_free = { "batch.free", batch_open, batch_fill, batch_give, batch_check, batch_close };
