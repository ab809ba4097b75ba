/*
 * whole: work on all of a big machine's memory at once: which 2 MiB blocks are free, and setting up; see own.h.
 */
#include <stdlib.h>
#include <string.h>

#include <pagehint/zone.h>

#include "crew.h"
#include "own.h"
#include "shuffle.h"
#include "subject_zone.h"

void *own_half_huge(const struct own_plan *plan, struct block *blocks, uint64_t *ret_n)
{
	const struct loops *loops = plan->who->loops;
	struct job job = { .blocks = blocks, .n = plan->frames >> HUGE_ORDER, .order = HUGE_ORDER };
	uint64_t seed = SHUFFLE_SEED, half = job.n / 2, failed;
	void *state = plan->who->open(plan->frames, 1);
	if (state == NULL)
		return NULL;
	loops->fill(state, 0, &job);
	failed = job.done != job.n;
	shuffle_blocks(blocks, job.n, &seed);
	job.blocks = blocks + half;
	job.n -= half;
	loops->empty(state, 0, &job);
	plan->who->drain(state, 0);
	*ret_n = half;
	if (failed + job.failed == 0)
		return state;
	plan->who->close(state);
	return NULL;
}

struct enumeration {
	const struct own_plan *plan;
	void *state;
	struct block *blocks;
	uint64_t kept; /* blocks in hand */
	uint64_t huge; /* 2 MiB blocks in all */
	uint64_t *bitmap;
	uint64_t words;
	int failed;
};

static void enum_close(void *ctx)
{
	struct enumeration *e = ctx;
	if (e->state != NULL)
		e->plan->who->close(e->state);
	bench_unmap(e->blocks, e->huge * sizeof(struct block));
	free(e->bitmap);
	free(e);
}

static void *enum_open(const void *arg)
{
	struct enumeration *e = calloc(1, sizeof(*e));
	if (e == NULL)
		return NULL;
	e->plan = arg;
	e->huge = e->plan->frames >> HUGE_ORDER;
	e->words = (e->huge + 63) / 64;
	e->blocks = bench_map(e->huge * sizeof(struct block));
	e->bitmap = calloc(e->words, 8);
	e->state = e->bitmap == NULL ? NULL : own_half_huge(e->plan, e->blocks, &e->kept);
	if (e->state != NULL)
		return e;
	enum_close(e);
	return NULL;
}

static void enum_prepare(void *ctx, uint64_t n)
{
	struct enumeration *e = ctx;
	(void)n;
	memset(e->bitmap, 0, e->words * 8);
}

static double enum_timed(void *ctx, uint64_t n)
{
	struct enumeration *e = ctx;
	(void)n;
	double start = crew_cpu_ns();
	e->failed |= e->plan->who->huge_blocks(e->state, e->bitmap);
	return crew_cpu_ns() - start;
}

/* Each block is in somebody's hand or in the bitmap, never both. */
static int enum_check(void *ctx)
{
	struct enumeration *e = ctx;
	uint64_t wrong = 0, bits = 0;
	for (uint64_t i = 0; i < e->kept; i++) {
		uint64_t block = e->blocks[i].frame >> HUGE_ORDER;
		wrong += e->bitmap[block / 64] >> (block % 64) & 1;
	}
	for (uint64_t i = 0; i < e->words; i++)
		bits += (uint64_t)__builtin_popcountll(e->bitmap[i]);
	return e->failed || wrong != 0 || bits != e->huge - e->kept ? -1 : 0;
}

const struct own_work own_enum = { "enum", enum_open, enum_prepare, enum_timed, enum_check, enum_close };

struct beginning {
	const struct own_plan *plan;
	struct pagehint_zone *zone;
};

static void *init_open(const void *arg)
{
	struct beginning *b = calloc(1, sizeof(*b));
	if (b != NULL)
		b->plan = arg;
	return b;
}

static void init_prepare(void *ctx, uint64_t n)
{
	struct beginning *b = ctx;
	(void)n;
	pagehint_zone_destroy(b->zone);
	b->zone = NULL;
}

static double init_timed(void *ctx, uint64_t n)
{
	struct beginning *b = ctx;
	(void)n;
	double start = crew_cpu_ns();
	b->zone = zone_make(b->plan->frames, 0);
	return crew_cpu_ns() - start;
}

/* All is free, and the last frame can be had. */
static int init_check(void *ctx)
{
	struct beginning *b = ctx;
	struct pagehint_zone_stats stats = { .struct_size = sizeof(stats) };
	uint64_t busy;
	if (b->zone == NULL || pagehint_zone_stats(b->zone, &stats) != 0 || stats.free != b->plan->frames)
		return -1;
	return pagehint_zone_reserve(b->zone, b->plan->frames - 1, 1, &busy);
}

static void init_close(void *ctx)
{
	init_prepare(ctx, 0);
	free(ctx);
}

const struct own_work own_init = { "init", init_open, init_prepare, init_timed, init_check, init_close };
