/*
 * The bitmap origin with a small allocator behind it: age, threshold, refusal, what was reported.
 * Bounds and hotplug are in bitmap_harvest_test.c.
 */
#include "support/embedder.h"

#define REPORTED PAGEHINT_RELEASE_REPORTED
#define KEPT PAGEHINT_RELEASE_KEPT
#define NOW PAGEHINT_HARVEST_NOW
#define PEEK PAGEHINT_HARVEST_PEEK

static void options_are_checked(void **state)
{
	(void)state;
	struct embedder *e = emb_new(1, 1, 9, 0);
	pagehint_origin_free(e->origin);
	struct pagehint_bitmap_origin_opts good = emb_opts(e, 9, 0), bad;
	struct pagehint_origin *origin = NULL;
	assert_int_equal(pagehint_bitmap_origin_new(NULL, &good, &origin), -EINVAL);
	assert_int_equal(pagehint_bitmap_origin_new(e->bitmap, NULL, &origin), -EINVAL);
	bad = good;
	bad.isolate = NULL;
	assert_int_equal(pagehint_bitmap_origin_new(e->bitmap, &bad, &origin), -EINVAL);
	bad = good;
	bad.release = NULL;
	assert_int_equal(pagehint_bitmap_origin_new(e->bitmap, &bad, &origin), -EINVAL);
	bad = good;
	bad.order = 16;
	assert_int_equal(pagehint_bitmap_origin_new(e->bitmap, &bad, &origin), -EINVAL);
	bad = good;
	bad.min_order = 10;
	assert_int_equal(pagehint_bitmap_origin_new(e->bitmap, &bad, &origin), -EINVAL);
	bad = good;
	bad.min_order = UINT32_MAX;
	assert_int_equal(pagehint_bitmap_origin_new(e->bitmap, &bad, &origin), -EINVAL);
	bad = good;
	bad.flags = 1;
	assert_int_equal(pagehint_bitmap_origin_new(e->bitmap, &bad, &origin), -EINVAL);
	bad = good;
	bad.frame_shift = 11;
	assert_int_equal(pagehint_bitmap_origin_new(e->bitmap, &bad, &origin), -EINVAL);
	bad = good;
	bad.frame_shift = 31;
	assert_int_equal(pagehint_bitmap_origin_new(e->bitmap, &bad, &origin), -EINVAL);
	struct {
		struct pagehint_bitmap_origin_opts opts;
		uint64_t tail;
	} longer = { good, 1 };
	longer.opts.struct_size = sizeof(longer);
	assert_int_equal(pagehint_bitmap_origin_new(e->bitmap, &longer.opts, &origin), -E2BIG);
	assert_null(origin);

	good.order = 0; /* the default */
	assert_int_equal(pagehint_bitmap_origin_new(e->bitmap, &good, &e->origin), 0);
	assert_int_equal(e->origin->ops.order, 9);
	assert_int_equal(e->origin->ops.min_order, 0);
	assert_int_equal(e->origin->ops.frame_shift, 12);
	assert_int_equal(pagehint_bitmap_origin_new(e->bitmap, &good, &origin), -EBUSY); /* one origin a bitmap */
	assert_null(origin);
	emb_delete(e);
}

static void two_looks_make_a_maximal_run(void **state)
{
	(void)state;
	struct embedder *e = emb_new(3, 3, 9, 0);
	emb_free(e, SECTION - 1000, 3000); /* over a section border; whole blocks are [-512, +1536) of it */
	assert_int_equal(emb_look(e, 9, 0), 0);
	assert_int_equal(e->got.young, 2048);
	assert_int_equal(e->isolated, 0);
	assert_int_equal(emb_look(e, 9, 0), 2048);
	assert_int_equal(e->got.young, 0);
	assert_int_equal(e->got.runs, 1);
	assert_int_equal(e->runs[0].frame, SECTION - 512);
	assert_int_equal(e->isolated, 1);
	assert_int_equal(pagehint_bitmap_count(e->bitmap), 3000 - 2048);
	assert_int_equal(emb_count(e, 9).below, 3000 - 2048);
	emb_give_back(e, REPORTED);
	assert_int_equal(e->reported, 2048);
	emb_delete(e);
}

static void what_was_handed_out_between_two_looks_is_young(void **state)
{
	(void)state;
	static const uint32_t orders[] = { 0, 3, 6, 7, 9, 15 };
	for (size_t i = 0; i < sizeof(orders) / sizeof(*orders); i++) {
		uint64_t block = UINT64_C(1) << orders[i];
		struct embedder *e = emb_new(2, 2, 15, 0);
		emb_free(e, 0, 2 * block);
		assert_int_equal(emb_look(e, orders[i], 0), 0);
		emb_alloc(e, block + block / 2, 1);
		emb_free(e, block + block / 2, 1);
		assert_int_equal(emb_look(e, orders[i], 0), block);
		assert_int_equal(e->runs[0].frame, 0);
		assert_int_equal(e->got.young, block);
		emb_give_back(e, REPORTED);
		assert_int_equal(emb_look(e, orders[i], 0), block);
		assert_int_equal(e->runs[0].frame, block);
		emb_give_back(e, REPORTED);
		emb_delete(e);
	}
}

/* A block is found old, and handed out and freed before it is taken: it is young then, and stays where it is. */
static void what_is_touched_during_the_look_is_young(void **state)
{
	(void)state;
	struct embedder *e = emb_new(1, 1, 9, 0);
	emb_free(e, 0, 512);
	emb_free(e, 1024, 512);
	assert_int_equal(emb_look(e, 9, 0), 0);
	e->touch = 1100; /* when the first block is isolated, the second was looked at already */
	assert_int_equal(emb_look(e, 9, 0), 512);
	assert_int_equal(e->runs[0].frame, 0);
	assert_int_equal(e->touch, UINT64_MAX);
	emb_give_back(e, REPORTED);
	assert_int_equal(pagehint_bitmap_count(e->bitmap), 1024);
	assert_int_equal(emb_look(e, 9, 0), 0);
	assert_int_equal(emb_look(e, 9, 0), 512);
	assert_int_equal(e->runs[0].frame, 1024);
	emb_give_back(e, REPORTED);
	emb_delete(e);
}

static void pressure_does_not_wait_and_peek_takes_nothing(void **state)
{
	(void)state;
	struct embedder *e = emb_new(1, 1, 9, 0);
	emb_free(e, 512, 1024);
	assert_int_equal(emb_look(e, 9, PEEK | NOW), 0);
	assert_int_equal(e->got.frames, 1024);
	assert_int_equal(e->got.runs, 0);
	assert_int_equal(emb_look(e, 9, PEEK), 0);
	assert_int_equal(e->got.frames, 1024); /* the look before made them old */
	assert_int_equal(e->isolated, 0);
	emb_free(e, 2048, 512);
	assert_int_equal(emb_look(e, 9, NOW), 1536);
	assert_int_equal(e->got.runs, 2);
	emb_give_back(e, REPORTED);
	assert_int_equal(emb_look(e, 9, NOW), 0); /* pressure is no reason to report again */
	emb_delete(e);
}

static void below_the_threshold_nothing_is_taken(void **state)
{
	(void)state;
	struct embedder *e = emb_new(1, 1, 9, 2000);
	emb_free(e, 0, 1999);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(emb_look(e, 9, i == 2 ? NOW : 0), 0);
		assert_int_equal(e->got.young, 1536);
		assert_int_equal(e->got.frames, 0);
	}
	assert_int_equal(emb_count(e, 9).free, 1999);
	assert_int_equal(e->isolated + e->refused, 0);
	emb_free(e, 5000, 1); /* now there are 2000, and the looks have aged them */
	assert_int_equal(emb_look(e, 9, 0), 1536);
	emb_give_back(e, REPORTED);
	emb_delete(e);
}

static void a_refused_run_is_dropped_until_it_is_freed_again(void **state)
{
	(void)state;
	struct embedder *e = emb_new(1, 1, 9, 0);
	emb_free(e, 0, 2048);
	assert_int_equal(emb_look(e, 9, 0), 0);
	e->steal = 700;
	assert_int_equal(emb_look(e, 9, 0), 0);
	assert_int_equal(e->got.runs, 0);
	assert_int_equal(e->refused, 1);
	assert_int_equal(pagehint_bitmap_count(e->bitmap), 0);
	assert_int_equal(e->frames[700], IN_USE); /* and the rest is still the allocator's */
	assert_int_equal(e->frames[0], IS_FREE);
	e->steal = UINT64_MAX;
	assert_int_equal(emb_look(e, 9, NOW), 0);
	for (uint64_t i = 0; i < 2048; i++) { /* it works through everything once */
		if (e->frames[i] == IS_FREE)
			emb_alloc(e, i, 1);
		emb_free(e, i, 1);
	}
	assert_int_equal(emb_look(e, 9, 0), 0);
	assert_int_equal(emb_look(e, 9, 0), 2048);
	emb_give_back(e, REPORTED);
	emb_delete(e);
}

/* Handed out and freed between the take and isolate: the run is the reporter's, so no bit of it may look free. */
static void what_is_isolated_is_not_marked_free(void **state)
{
	(void)state;
	struct embedder *e = emb_new(1, 1, 9, 0);
	emb_free(e, 0, 1024);
	e->borrow = 77;
	assert_int_equal(emb_look(e, 9, NOW), 1024);
	assert_int_equal(pagehint_bitmap_count(e->bitmap), 0);
	emb_give_back(e, REPORTED);
	assert_int_equal(emb_look(e, 9, NOW), 0);
	emb_delete(e);
}

/* Both ways an embedder may answer a release: with the bits set again, and without. */
static void nothing_is_reported_twice(void **state)
{
	(void)state;
	for (int silent = 0; silent < 2; silent++) {
		struct embedder *e = emb_new(1, 1, 9, 0);
		e->silent = silent;
		emb_free(e, 0, 4096);
		emb_look(e, 9, 0);
		assert_int_equal(emb_look(e, 9, 0), 4096);
		emb_give_back(e, REPORTED);
		assert_int_equal(emb_count(e, 9).reported, silent ? 0 : 4096);
		for (int i = 0; i < 5; i++)
			assert_int_equal(emb_look(e, 9, i & 1 ? NOW : 0), 0);
		assert_int_equal(e->got.young, 0);
		assert_int_equal(emb_count(e, 9).handed_out, 0);

		emb_alloc(e, 1024, 512); /* refaults are to be expected for just these */
		assert_int_equal(emb_count(e, 9).handed_out, 512);
		emb_free(e, 1024, 512);
		assert_int_equal(emb_look(e, 9, 0), 0);
		assert_int_equal(e->got.young, 512);
		assert_int_equal(emb_look(e, 9, 0), 512);
		assert_int_equal(e->runs[0].frame, 1024);
		emb_give_back(e, REPORTED);
		assert_int_equal(emb_look(e, 9, NOW), 0);
		assert_int_equal(emb_count(e, 9).handed_out, 512);
		emb_delete(e);
	}
}

static void a_block_with_one_frame_touched_is_reported_whole(void **state)
{
	(void)state;
	struct embedder *e = emb_new(1, 1, 9, 0);
	emb_free(e, 0, 1024);
	assert_int_equal(emb_look(e, 9, NOW), 1024);
	emb_give_back(e, REPORTED);
	emb_alloc(e, 600, 1);
	emb_free(e, 600, 1);
	assert_int_equal(emb_look(e, 9, 0), 0);
	assert_int_equal(e->got.young, 512);
	assert_int_equal(emb_count(e, 9).reported, 1023);
	assert_int_equal(emb_look(e, 0, PEEK), 0);
	assert_int_equal(e->got.frames, 1); /* at order 0 just that frame would go */
	assert_int_equal(emb_look(e, 9, 0), 512);
	assert_int_equal(e->runs[0].frame, 512);
	emb_give_back(e, REPORTED);
	assert_int_equal(emb_count(e, 9).reported, 1024);
	assert_int_equal(emb_count(e, 9).handed_out, 1);
	emb_delete(e);
}

static void what_was_kept_ages_anew(void **state)
{
	(void)state;
	struct embedder *e = emb_new(1, 1, 9, 0);
	emb_free(e, 0, 512);
	emb_look(e, 9, 0);
	assert_int_equal(emb_look(e, 9, 0), 512);
	emb_give_back(e, KEPT);
	assert_int_equal(e->reported, 0);
	assert_int_equal(emb_look(e, 9, 0), 0);
	assert_int_equal(e->got.young, 512);
	assert_int_equal(emb_look(e, 9, 0), 512);
	emb_give_back(e, REPORTED);
	emb_delete(e);
}

static void a_new_origin_knows_nothing_of_the_old_one(void **state)
{
	(void)state;
	struct embedder *e = emb_new(1, 1, 9, 0);
	emb_free(e, 0, 1024);
	emb_look(e, 9, 0);
	assert_int_equal(emb_look(e, 9, 0), 1024);
	emb_give_back(e, REPORTED);
	pagehint_origin_free(e->origin);
	emb_alloc(e, 0, 512); /* nobody watches */
	emb_free(e, 0, 512);
	struct pagehint_bitmap_origin_opts opts = emb_opts(e, 9, 0);
	assert_int_equal(pagehint_bitmap_origin_new(e->bitmap, &opts, &e->origin), 0);
	assert_int_equal(emb_count(e, 9).reported, 0);
	assert_int_equal(emb_count(e, 9).handed_out, 0);
	assert_int_equal(emb_look(e, 9, 0), 0);
	assert_int_equal(emb_look(e, 9, 0), 1024);
	emb_give_back(e, REPORTED);
	emb_delete(e);
}

static void keep_lines(void *ctx, const char *text)
{
	char *all = ctx;
	strncat(all, text, 4095 - strlen(all));
	strncat(all, "\n", 4095 - strlen(all));
}

static void explain_names_what_is_in_the_way(void **state)
{
	(void)state;
	char text[4096] = "";
	struct pagehint_sink sink = { text, keep_lines };
	struct embedder *e = emb_new(1, 0, 9, 100);
	e->origin->ops.explain(e->origin->ctx, &sink);
	assert_non_null(strstr(text, "no section is present"));
	assert_non_null(strstr(text, "fewer than the threshold of 100"));
	emb_plug(e, 0, SECTION);
	emb_free(e, 0, 600);
	e->steal = 3;
	emb_look(e, 9, NOW);
	text[0] = 0;
	e->origin->ops.explain(e->origin->ctx, &sink);
	assert_non_null(strstr(text, "88 frames are marked free, 0 of them reported, 88 in blocks below order 9"));
	assert_non_null(strstr(text, "1 runs of 512 frames were dropped"));
	emb_delete(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options_are_checked),
		cmocka_unit_test(two_looks_make_a_maximal_run),
		cmocka_unit_test(what_was_handed_out_between_two_looks_is_young),
		cmocka_unit_test(what_is_touched_during_the_look_is_young),
		cmocka_unit_test(pressure_does_not_wait_and_peek_takes_nothing),
		cmocka_unit_test(below_the_threshold_nothing_is_taken),
		cmocka_unit_test(a_refused_run_is_dropped_until_it_is_freed_again),
		cmocka_unit_test(what_is_isolated_is_not_marked_free),
		cmocka_unit_test(nothing_is_reported_twice),
		cmocka_unit_test(a_block_with_one_frame_touched_is_reported_whole),
		cmocka_unit_test(what_was_kept_ages_anew),
		cmocka_unit_test(a_new_origin_knows_nothing_of_the_old_one),
		cmocka_unit_test(explain_names_what_is_in_the_way),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
