/*
 * embedder: an allocator of somebody else, as small as it can be: one byte a frame says whether the frame is free.
 * It marks what is free in a bitmap and counts what the origin asks of it. For tests of the bitmap origin.
 */
#ifndef TESTS_SUPPORT_EMBEDDER_H
#define TESTS_SUPPORT_EMBEDDER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <pagehint/bitmap.h>
#include <pagehint/origin.h>

#include "report/origin.h"

#define SECTION ((uint64_t)PAGEHINT_BITMAP_SECTION_BITS)
#define MAX_RUNS 64u

enum { NOT_THERE, IN_USE, IS_FREE, AT_REPORTER };

struct embedder {
	struct pagehint_bitmap *bitmap;
	struct pagehint_origin *origin;
	unsigned char *frames; /* what each is */
	uint64_t span;
	int silent;        /* release does not set bits again */
	uint64_t steal;    /* isolate finds this frame handed out just now; UINT64_MAX = none */
	uint64_t borrow;   /* isolate finds this frame handed out and freed just now; UINT64_MAX = none */
	uint64_t touch;    /* the next isolate sees this frame, elsewhere, handed out and freed; UINT64_MAX = none */
	uint64_t isolated; /* calls that said 0 */
	uint64_t refused;  /* calls that said -EBUSY */
	uint64_t released; /* frames that came back, */
	uint64_t reported; /* of them: reported */
	struct pagehint_run runs[MAX_RUNS];
	struct pagehint_harvested got;
};

static inline void emb_fill(struct embedder *e, uint64_t first, uint64_t n, int from, int to)
{
	for (uint64_t i = first; i < first + n; i++) {
		if (e->frames[i] != from)
			fail_msg("frame %llu is %d, not %d", (unsigned long long)i, e->frames[i], from);
		e->frames[i] = (unsigned char)to;
	}
}

static inline void emb_free(struct embedder *e, uint64_t first, uint64_t n)
{
	emb_fill(e, first, n, IN_USE, IS_FREE);
	assert_int_equal(pagehint_bitmap_set(e->bitmap, first, n, NULL), 0);
}

static inline void emb_alloc(struct embedder *e, uint64_t first, uint64_t n)
{
	emb_fill(e, first, n, IS_FREE, IN_USE);
	assert_int_equal(pagehint_bitmap_clear(e->bitmap, first, n, NULL), 0);
}

/* new frames are in use until they are freed */
static inline void emb_plug(struct embedder *e, uint64_t first, uint64_t n)
{
	emb_fill(e, first, n, NOT_THERE, IN_USE);
	assert_int_equal(pagehint_bitmap_add(e->bitmap, first, n), 0);
}

static inline int emb_isolate(void *ctx, const struct pagehint_run *run)
{
	struct embedder *e = ctx;
	if (e->touch != UINT64_MAX) {
		emb_alloc(e, e->touch, 1);
		emb_free(e, e->touch, 1);
		e->touch = UINT64_MAX;
	}
	for (uint64_t i = run->frame; i < run->frame + run->frames; i++) {
		assert_int_equal(pagehint_bitmap_test(e->bitmap, i),
				 0); /* the origin has taken the bits before it asks */
		if (i == e->steal || i == e->borrow)
			emb_alloc(e, i, 1);
		if (i == e->borrow)
			emb_free(e, i, 1);
	}
	for (uint64_t i = run->frame; i < run->frame + run->frames; i++)
		if (e->frames[i] != IS_FREE) {
			e->refused++;
			return -EBUSY;
		}
	emb_fill(e, run->frame, run->frames, IS_FREE, AT_REPORTER);
	e->isolated++;
	return 0;
}

static inline void emb_release(void *ctx, const struct pagehint_run *run, uint32_t reported)
{
	struct embedder *e = ctx;
	e->released += run->frames;
	e->reported += reported ? run->frames : 0;
	if (e->frames[run->frame] == NOT_THERE) /* was unplugged meanwhile */
		return;
	emb_fill(e, run->frame, run->frames, AT_REPORTER, IS_FREE);
	if (!e->silent)
		assert_int_equal(pagehint_bitmap_set(e->bitmap, run->frame, run->frames, NULL), 0);
}

static inline struct pagehint_bitmap_origin_opts emb_opts(struct embedder *e, uint32_t order, uint64_t threshold)
{
	struct pagehint_bitmap_origin_opts opts = { .struct_size = sizeof(opts),
						    .ctx = e,
						    .isolate = emb_isolate,
						    .release = emb_release,
						    .threshold = threshold,
						    .order = order };
	return opts;
}

/* `sections` of span, of which `present` are there, all in use */
static inline struct embedder *emb_new(uint64_t sections, uint64_t present, uint32_t order, uint64_t threshold)
{
	struct embedder *e = calloc(1, sizeof(*e));
	assert_non_null(e);
	e->span = sections * SECTION;
	e->steal = e->borrow = e->touch = UINT64_MAX;
	e->frames = calloc(1, (size_t)e->span);
	assert_non_null(e->frames);
	struct pagehint_bitmap_opts bits = { .struct_size = sizeof(bits), .span = e->span };
	assert_int_equal(pagehint_bitmap_new(&bits, &e->bitmap), 0);
	if (present != 0)
		emb_plug(e, 0, present * SECTION);
	struct pagehint_bitmap_origin_opts opts = emb_opts(e, order, threshold);
	assert_int_equal(pagehint_bitmap_origin_new(e->bitmap, &opts, &e->origin), 0);
	return e;
}

static inline void emb_delete(struct embedder *e)
{
	pagehint_origin_free(e->origin);
	pagehint_bitmap_free(e->bitmap);
	free(e->frames);
	free(e);
}

static inline struct pagehint_harvest emb_ask(const struct embedder *e, uint32_t order, uint32_t flags)
{
	struct pagehint_harvest ask = {
		.from = 0, .to = e->span, .max_frames = UINT64_MAX, .max_runs = MAX_RUNS, .order = order, .flags = flags
	};
	return ask;
}

/* one look at everything; returns the frames it isolated */
static inline uint64_t emb_look(struct embedder *e, uint32_t order, uint32_t flags)
{
	struct pagehint_harvest ask = emb_ask(e, order, flags);
	uint64_t frames = 0;
	assert_int_equal(e->origin->ops.harvest(e->origin->ctx, &ask, e->runs, &e->got), 0);
	assert_int_equal(e->got.next, e->span);
	for (uint32_t i = 0; i < e->got.runs; i++)
		frames += e->runs[i].frames;
	if (!(flags & PAGEHINT_HARVEST_PEEK))
		assert_int_equal(e->got.frames, frames);
	return frames;
}

/* everything that the last look isolated goes back */
static inline void emb_give_back(struct embedder *e, uint32_t how)
{
	for (uint32_t i = 0; i < e->got.runs; i++)
		e->origin->ops.release(e->origin->ctx, &e->runs[i], how);
	e->got.runs = 0;
}

static inline struct pagehint_origin_free emb_count(struct embedder *e, uint32_t order)
{
	struct pagehint_origin_free sum = { .struct_size = sizeof(sum) };
	e->origin->ops.get_free(e->origin->ctx, order, &sum);
	return sum;
}

#endif
