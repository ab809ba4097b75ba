/*
 * Frames that a cache has marked as out in advance, but still holds: no way of freeing them gets through, those that it has
 * handed out can be freed by anybody, and nothing stays marked when it lets go.
 */
#include "support/zone_rest.h"

#include <errno.h>

#include "alloc/lend.h"
#include "alloc/level.h"
#include "alloc/track.h"

#define WORD 64u

static uint64_t lent_of(struct pagehint_zone *zone, uint64_t frame)
{
	return ph_lend_mask(zone, ph_zone_word_name((uint32_t)ph_zone_slot(zone, frame), ph_zone_offset(frame) / WORD));
}

static uint64_t marks_of(struct pagehint_zone *zone, uint64_t frame)
{
	return atomic_load(ph_track_word(zone, (uint32_t)ph_zone_slot(zone, frame), 0, ph_zone_offset(frame) / WORD));
}

/* every way of freeing a frame, or it and its neighbours (which are lent), is refused, and changes nothing */
static void expect_refused(struct pagehint_zone *zone, struct pagehint_cache *cache, uint64_t frame, int neighbours_too)
{
	struct pagehint_zone_stats before = zone_at_rest(zone), after;
	struct pagehint_run run = { frame, 1 };
	uint64_t pair[2] = { frame & ~UINT64_C(1), frame | 1 };
	uint32_t done = 9;
	assert_int_equal(pagehint_zone_free(zone, frame, 0), -EALREADY);
	assert_int_equal(pagehint_cache_free(cache, frame, 0), -EALREADY);
	assert_int_equal(pagehint_zone_free_runs(zone, &run, 1, &done), -EALREADY);
	assert_int_equal(done, 0);
	assert_int_equal(pagehint_zone_free_batch(zone, 0, 1, &frame, &done), -EALREADY);
	assert_int_equal(done, 0);
	if (neighbours_too) {
		assert_int_equal(pagehint_zone_free(zone, frame & ~UINT64_C(3), 2), -EALREADY);
		assert_int_equal(pagehint_zone_free_batch(zone, 0, 2, pair, &done), -EALREADY);
		assert_int_equal(done, 0);
	}
	after = zone_at_rest(zone);
	assert_int_equal(before.out, after.out);
	assert_int_equal(before.cached, after.cached);
}

static void test_what_is_lent_is_not_out(void **state)
{
	(void)state;
	const uint32_t kinds[] = { 0, PAGEHINT_ZONE_STRICT, PAGEHINT_ZONE_LADDER };
	for (unsigned k = 0; k < 3; k++) {
		struct pagehint_zone *zone = zone_full(1, kinds[k], 9);
		struct pagehint_cache *owner, *other;
		uint64_t got[WORD];
		assert_int_equal(pagehint_cache_open(zone, &owner), 0);
		assert_int_equal(pagehint_cache_open(zone, &other), 0);
		for (unsigned i = 0; i < 8; i++)
			assert_int_equal(pagehint_cache_alloc(owner, 0, &got[i]), 0);
		if (!(kinds[k] & PAGEHINT_ZONE_LADDER)) { /* there each frame has to be asked about */
			assert_int_equal(lent_of(zone, got[0]), PH_FULL << 8);
			assert_int_equal(marks_of(zone, got[0]), PH_FULL);
		}
		for (uint64_t f = got[0] + 8; f < got[0] + WORD; f += 5) {
			expect_refused(zone, owner, f, 1);
			expect_refused(zone, other, f, 1);
		}
		/* what was handed out comes back from wherever */
		struct pagehint_run run = { got[4], 2 };
		assert_int_equal(pagehint_zone_free(zone, got[0], 0), 0);
		assert_int_equal(pagehint_cache_free(owner, got[1], 0), 0);
		assert_int_equal(pagehint_cache_free(other, got[2], 0), 0);
		assert_int_equal(pagehint_zone_free_batch(zone, 0, 1, &got[3], NULL), 0);
		assert_int_equal(pagehint_zone_free_runs(zone, &run, 1, NULL), 0);
		for (unsigned i = 0; i < 6; i++)
			expect_refused(zone, other, got[i], 0);
		assert_int_equal(zone_at_rest(zone).out, 2);
		pagehint_cache_drain(owner);
		assert_int_equal(lent_of(zone, got[0]), 0);
		assert_int_equal(marks_of(zone, got[0]), 3u << 6);
		expect_refused(zone, owner, got[0] + 20, 1);
		assert_int_equal(pagehint_cache_free(other, got[6], 0), 0);
		assert_int_equal(pagehint_cache_free(other, got[7], 0), 0);
		pagehint_cache_close(owner);
		pagehint_cache_close(other);
		zone_gone_home(zone);
	}
}

/* A cache whose place in the table is another's marks its frames one by one. */
static void test_a_place_that_is_taken(void **state)
{
	(void)state;
	struct pagehint_zone_opts opts = { .struct_size = sizeof(opts), .max_caches = 2 };
	struct pagehint_zone *zone;
	struct pagehint_cache *first, *second;
	uint64_t a, b, more;
	assert_int_equal(pagehint_zone_new(&opts, &zone), 0);
	assert_int_equal(pagehint_zone_add(zone, 0, SECTION), 0);
	/* the only two words that are to be had share a place */
	uint64_t other = 1;
	while (ph_lend_place(zone, ph_zone_word_name(0, (uint32_t)other)) !=
	       ph_lend_place(zone, ph_zone_word_name(0, 0)))
		other++;
	assert_true(other < PH_L0_WORDS - 1);
	assert_int_equal(pagehint_zone_reserve(zone, WORD, (other - 1) * WORD, NULL), 0);
	assert_int_equal(pagehint_zone_reserve(zone, (other + 1) * WORD, SECTION - (other + 1) * WORD, NULL), 0);
	assert_int_equal(pagehint_cache_open(zone, &first), 0);
	assert_int_equal(pagehint_cache_open(zone, &second), 0);
	assert_int_equal(pagehint_cache_alloc(first, 0, &a), 0);
	assert_int_equal(pagehint_cache_alloc(second, 0, &b), 0);
	assert_int_equal(a / WORD, 0);
	assert_int_equal(b / WORD, other);
	assert_int_equal(ph_popcount(lent_of(zone, a)), WORD - 1);
	assert_int_equal(lent_of(zone, b), 0);
	assert_int_equal(marks_of(zone, b), 1);
	for (uint64_t i = 0; i < 2; i++) {
		struct pagehint_cache *cache = i == 0 ? second : first;
		expect_refused(zone, cache, a + 9, 1);
		expect_refused(zone, cache, b + 9, 1);
	}
	/* it lends its next word when the place is free */
	pagehint_cache_drain(first);
	for (unsigned i = 1; i < WORD; i++)
		assert_int_equal(pagehint_cache_alloc(second, 0, &more), 0);
	assert_int_equal(marks_of(zone, b), PH_FULL);
	assert_int_equal(pagehint_cache_alloc(second, 0, &more), 0);
	assert_int_equal(more, a + 1);
	assert_int_equal(ph_popcount(lent_of(zone, more)), WORD - 2);
	zone_at_rest(zone);
	pagehint_cache_close(first);
	pagehint_cache_close(second);
	pagehint_zone_destroy(zone);
}

/*
 * Two threads free a frame at once: the wrong one has passed his first look when it is lent again, and clears its mark. The cache
 * lets go of it: he believes that he freed it, so it is his to give back, and in no other place.
 */
static void test_a_mark_that_a_wrong_free_cleared(void **state)
{
	(void)state;
	for (int puts_back = 0; puts_back < 2; puts_back++) {
		struct pagehint_zone *zone = zone_full(1, 0, 9);
		struct pagehint_cache *cache;
		uint64_t got, stolen;
		assert_int_equal(pagehint_cache_open(zone, &cache), 0);
		assert_int_equal(pagehint_cache_alloc(cache, 0, &got), 0);
		stolen = got + 20;
		ph_word *mark = ph_track_word0(zone, 0, (uint32_t)(stolen / WORD));
		uint64_t bit = UINT64_C(1) << stolen % WORD;
		assert_true(atomic_fetch_and(mark, ~bit) & bit);
		if (puts_back) /* his second look came before the lending ended */
			assert_true(lent_of(zone, stolen) & bit);
		pagehint_cache_drain(cache);
		assert_int_equal(lent_of(zone, stolen), 0);
		assert_int_equal(marks_of(zone, got), 1);
		assert_int_equal(pagehint_cache_held(cache), 0);
		/* it did not go back with the others */
		uint64_t word = atomic_load(ph_zone_level_word(zone, 0, 0, (uint32_t)(stolen / WORD)));
		assert_int_equal(word, PH_FULL & ~bit & ~UINT64_C(1));
		if (puts_back) { /* nobody has it, and whoever frees it brings it home */
			atomic_fetch_or(mark, bit);
			assert_int_equal(zone_at_rest(zone).out, 2);
			assert_int_equal(pagehint_zone_free(zone, stolen, 0), 0);
		} else {
			ph_level_put_block(zone, 0, (uint32_t)stolen, 0);
		}
		assert_int_equal(zone_at_rest(zone).free, SECTION - 1);
		assert_int_equal(pagehint_zone_free(zone, stolen, 0), -EALREADY);
		assert_int_equal(pagehint_cache_free(cache, got, 0), 0);
		pagehint_cache_close(cache);
		zone_gone_home(zone);
	}
}

/* Of each order up to 9 the block that was freed last is kept, unless it can merge. */
static void test_a_block_of_each_order_is_kept(void **state)
{
	(void)state;
	for (size_t k = 0; k < ZONE_KINDS; k++) {
		struct pagehint_zone *zone = zone_full(1, zone_kinds[k], 9);
		struct pagehint_cache *cache;
		uint64_t block[4], again;
		assert_int_equal(pagehint_cache_open(zone, &cache), 0);
		for (uint32_t order = 1; order <= 10; order++) {
			uint64_t size = UINT64_C(1) << order, kept = order < 10 ? size : 0;
			pagehint_cache_drain(cache);
			for (unsigned i = 0; i < 4; i++)
				assert_int_equal(pagehint_cache_alloc(cache, order, &block[i]), 0);
			assert_int_equal(pagehint_cache_free(cache, block[0], order), 0);
			assert_int_equal(pagehint_cache_held(cache), kept);
			assert_int_equal(pagehint_cache_free(cache, block[2], order), 0); /* takes its room */
			assert_int_equal(pagehint_cache_held(cache), kept);
			assert_int_equal(pagehint_cache_alloc(cache, order, &again), 0);
			assert_int_equal(again, order < 10 ? block[2] : block[0]);
			assert_int_equal(pagehint_cache_held(cache), 0);
			assert_int_equal(pagehint_cache_free(cache, block[1], order), 0); /* its buddy is free or was */
			zone_at_rest(zone);
			assert_int_equal(pagehint_cache_free(cache, again, order), 0);
			assert_int_equal(pagehint_cache_free(cache, block[3], order), 0);
			if (!(zone_kinds[k] & PAGEHINT_ZONE_UNTRACKED))
				assert_int_equal(pagehint_cache_free(cache, block[2], order), -EALREADY);
			assert_int_equal(zone_at_rest(zone).out, 0);
		}
		/* who wants all of it gets it, once the cache lets go */
		assert_int_equal(pagehint_cache_alloc(cache, PAGEHINT_ORDER_MAX, &again), 0);
		assert_int_equal(pagehint_cache_free(cache, again, PAGEHINT_ORDER_MAX), 0);
		pagehint_cache_close(cache);
		zone_gone_home(zone);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_lent_is_not_out),
		cmocka_unit_test(test_a_place_that_is_taken),
		cmocka_unit_test(test_a_mark_that_a_wrong_free_cleared),
		cmocka_unit_test(test_a_block_of_each_order_is_kept),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
