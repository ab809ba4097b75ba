/*
 * The bitmap origin: bounds of a harvest, sections that come and go, and how much is free. Age is in bitmap_origin_test.c.
 */
#include "support/embedder.h"

#define REPORTED PAGEHINT_RELEASE_REPORTED
#define KEPT PAGEHINT_RELEASE_KEPT
#define NOW PAGEHINT_HARVEST_NOW
#define PEEK PAGEHINT_HARVEST_PEEK

static void harvest_checks_what_is_asked(void **state)
{
	(void)state;
	struct embedder *e = emb_new(1, 1, 9, 0);
	pagehint_origin_free(e->origin);
	struct pagehint_bitmap_origin_opts opts = emb_opts(e, 9, 0);
	opts.min_order = 4;
	assert_int_equal(pagehint_bitmap_origin_new(e->bitmap, &opts, &e->origin), 0);
	struct pagehint_harvest ask = emb_ask(e, 3, 0);
	assert_int_equal(e->origin->ops.harvest(e->origin->ctx, &ask, e->runs, &e->got), -EINVAL);
	ask.order = 16;
	assert_int_equal(e->origin->ops.harvest(e->origin->ctx, &ask, e->runs, &e->got), -EINVAL);
	ask.order = 4;
	ask.from = ask.to + 1;
	assert_int_equal(e->origin->ops.harvest(e->origin->ctx, &ask, e->runs, &e->got), -EINVAL);
	ask.from = ask.to = UINT64_MAX; /* beyond the span there is nothing, which is no error */
	assert_int_equal(e->origin->ops.harvest(e->origin->ctx, &ask, e->runs, &e->got), 0);
	assert_int_equal(e->got.next, UINT64_MAX);
	emb_delete(e);
}

/* Bounded harvests, one after the other, do what one big harvest does, and look at nothing twice. */
static void a_harvest_goes_on_where_it_ended(void **state)
{
	(void)state;
	const struct {
		uint32_t order, max_runs, max_work;
		uint64_t max_frames;
	} bounds[] = { { 0, 1, 0, 100 },        { 0, MAX_RUNS, 1, UINT64_MAX },
		       { 2, 3, 7, 12 },         { 6, 1, 0, 64 },
		       { 9, 1, 0, 512 },        { 9, MAX_RUNS, 1, 700 },
		       { 9, 2, 0, UINT64_MAX }, { 8, MAX_RUNS, 3, UINT64_MAX } };
	for (size_t i = 0; i < sizeof(bounds) / sizeof(*bounds); i++) {
		struct embedder *e = emb_new(4, 4, 9, 0);
		for (uint64_t at = 0; at < 20; at++)
			emb_free(e, SECTION - 6000 + at * 1200, 1100);
		emb_free(e, 3 * SECTION, SECTION);
		emb_look(e, bounds[i].order, PEEK);
		emb_look(e, bounds[i].order, PEEK);
		uint64_t want = e->got.frames, got = 0;
		struct pagehint_harvest ask = emb_ask(e, bounds[i].order, 0);
		ask.max_frames = bounds[i].max_frames;
		ask.max_runs = bounds[i].max_runs;
		ask.max_work = bounds[i].max_work;
		unsigned calls = 0;
		while (ask.from < ask.to && calls++ < 100000) {
			assert_int_equal(e->origin->ops.harvest(e->origin->ctx, &ask, e->runs, &e->got), 0);
			assert_true(e->got.frames <= bounds[i].max_frames && e->got.runs <= bounds[i].max_runs);
			assert_true(e->got.next > ask.from);
			assert_int_equal(e->got.young, 0); /* a second look at anything would see released frames */
			got += e->got.frames;
			ask.from = e->got.next;
			emb_give_back(e, KEPT);
		}
		assert_true(want >= SECTION);
		assert_int_equal(got, want);
		assert_true(calls > 1);
		emb_delete(e);
	}
}

static void runs_stay_inside_the_range_asked_for(void **state)
{
	(void)state;
	static const uint32_t orders[] = { 3, 9 };
	for (size_t i = 0; i < 2; i++) {
		struct embedder *e = emb_new(1, 1, 9, 0);
		emb_free(e, 0, SECTION);
		struct pagehint_harvest ask = emb_ask(e, orders[i], NOW);
		uint64_t block = UINT64_C(1) << orders[i];
		ask.from = 2 * block + 1;
		ask.to = 7 * block - 1;
		assert_int_equal(e->origin->ops.harvest(e->origin->ctx, &ask, e->runs, &e->got), 0);
		assert_int_equal(e->got.runs, 1);
		assert_int_equal(e->runs[0].frame, 3 * block);
		assert_int_equal(e->runs[0].frames, 3 * block);
		assert_int_equal(e->got.next, ask.to);
		emb_give_back(e, REPORTED);
		emb_delete(e);
	}
}

/* A part of a run may come back on its own: the rest stays with the reporter. */
static void runs_come_back_in_parts(void **state)
{
	(void)state;
	struct embedder *e = emb_new(1, 1, 9, 0);
	emb_free(e, 0, 1536);
	assert_int_equal(emb_look(e, 9, NOW), 1536);
	const struct pagehint_run parts[] = { { 512, 512 }, { 0, 512 }, { 1024, 512 } };
	e->origin->ops.release(e->origin->ctx, &parts[0], REPORTED);
	assert_int_equal(e->frames[0], AT_REPORTER);
	e->origin->ops.release(e->origin->ctx, &parts[1], KEPT);
	e->origin->ops.release(e->origin->ctx, &parts[2], REPORTED);
	assert_int_equal(emb_count(e, 9).reported, 1024);
	assert_int_equal(emb_look(e, 9, NOW), 512);
	assert_int_equal(e->runs[0].frame, 0);
	emb_give_back(e, REPORTED);
	emb_delete(e);
}

static void sections_come_and_go_while_reporting(void **state)
{
	(void)state;
	struct embedder *e = emb_new(8, 0, 9, 0);
	struct pagehint_run span;
	assert_int_equal(e->origin->ops.next_span(e->origin->ctx, 0, &span), -ENOENT);
	assert_int_equal(emb_look(e, 9, 0), 0);
	emb_plug(e, 2 * SECTION, 2 * SECTION);
	emb_plug(e, 6 * SECTION, SECTION);
	assert_int_equal(e->origin->ops.next_span(e->origin->ctx, 0, &span), 0);
	assert_int_equal(span.frame, 2 * SECTION);
	assert_int_equal(span.frames, 2 * SECTION); /* neighbours are one span */
	assert_int_equal(e->origin->ops.next_span(e->origin->ctx, 4 * SECTION, &span), 0);
	assert_int_equal(span.frame, 6 * SECTION);
	emb_free(e, 2 * SECTION, 2 * SECTION);
	emb_free(e, 6 * SECTION, SECTION);
	assert_int_equal(emb_look(e, 9, NOW), 3 * SECTION);
	assert_int_equal(e->got.runs, 2);

	/* The second run's section is unplugged while the run is at the backend, and another one is plugged. */
	memset(e->frames + 6 * SECTION, NOT_THERE, (size_t)SECTION);
	assert_int_equal(pagehint_bitmap_remove(e->bitmap, 6 * SECTION, SECTION), 0);
	emb_plug(e, 7 * SECTION, SECTION); /* in the slot of the one that went */
	emb_give_back(e, REPORTED);
	assert_int_equal(e->released, 3 * SECTION);
	emb_free(e, 7 * SECTION, SECTION);
	assert_int_equal(emb_count(e, 9).reported, 2 * SECTION);
	assert_int_equal(emb_look(e, 9, 0), 0);
	assert_int_equal(e->got.young, SECTION); /* it has no marks of its predecessor */
	assert_int_equal(emb_look(e, 9, 0), SECTION);
	assert_int_equal(e->runs[0].frame, 7 * SECTION);
	emb_give_back(e, REPORTED);

	/* A section that comes again is unreported again. */
	memset(e->frames + 7 * SECTION, NOT_THERE, (size_t)SECTION);
	assert_int_equal(pagehint_bitmap_remove(e->bitmap, 7 * SECTION, SECTION), 0);
	emb_plug(e, 7 * SECTION, SECTION);
	emb_free(e, 7 * SECTION, SECTION);
	assert_int_equal(emb_look(e, 9, NOW), SECTION);
	emb_give_back(e, REPORTED);
	emb_delete(e);
}

static void counts_know_what_is_too_small(void **state)
{
	(void)state;
	struct embedder *e = emb_new(1, 1, 9, 0);
	emb_free(e, 0, 512);
	emb_free(e, 1024 + 16, 48); /* holds blocks of order 4, and one of order 5 */
	emb_free(e, 2048, 511);
	static const uint64_t below[] = { 0, 1, 3, 7, 15, 16 + 31, 48 + 63, 48 + 127, 48 + 255, 48 + 511 };
	for (uint32_t order = 0; order < 10; order++)
		assert_int_equal(emb_count(e, order).below, below[order]);
	assert_int_equal(emb_count(e, 15).below, 512 + 48 + 511);
	assert_int_equal(emb_count(e, 99).below, 512 + 48 + 511);
	assert_int_equal(emb_count(e, 9).free, 512 + 48 + 511);
	struct pagehint_origin_free small = { .struct_size = 16, .free = 0, .reported = 77 };
	e->origin->ops.get_free(e->origin->ctx, 9, &small);
	assert_int_equal(small.free, 512 + 48 + 511);
	assert_int_equal(small.reported, 77); /* beyond the caller's struct */
	emb_delete(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(harvest_checks_what_is_asked),
		cmocka_unit_test(a_harvest_goes_on_where_it_ended),
		cmocka_unit_test(runs_stay_inside_the_range_asked_for),
		cmocka_unit_test(runs_come_back_in_parts),
		cmocka_unit_test(sections_come_and_go_while_reporting),
		cmocka_unit_test(counts_know_what_is_too_small),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
