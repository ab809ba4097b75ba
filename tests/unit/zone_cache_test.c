/*
 * A cache: what it holds, when it lets go, and that its slot is safe through park, drain by others, and close.
 */
#include "support/zone_rest.h"

#include <errno.h>

#include "alloc/cache.h"

static void test_caches_come_and_go(void **state)
{
	(void)state;
	struct pagehint_zone_opts opts = { .struct_size = sizeof(opts), .max_caches = 3 };
	struct pagehint_zone *zone;
	struct pagehint_cache *c[3], *none = NULL;
	assert_int_equal(pagehint_zone_new(&opts, &zone), 0);
	assert_int_equal(pagehint_zone_add(zone, 0, SECTION), 0);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(pagehint_cache_open(zone, &c[i]), 0);
		assert_int_equal(pagehint_cache_held(c[i]), 0);
	}
	assert_int_equal(pagehint_cache_open(zone, &none), -ENOSPC);
	assert_null(none);
	pagehint_cache_close(c[1]);
	assert_int_equal(zone_at_rest(zone).caches, 2);
	assert_int_equal(pagehint_cache_open(zone, &c[1]), 0);
	assert_int_equal(pagehint_cache_park(c[2]), 0);
	pagehint_cache_close(c[2]); /* while parked */
	assert_int_equal(pagehint_cache_open(zone, &c[2]), 0);
	uint64_t frame;
	assert_int_equal(pagehint_cache_alloc(c[2], 0, &frame), 0); /* the new owner finds it not parked */
	assert_int_equal(pagehint_cache_free(c[2], frame, 0), 0);
	for (unsigned i = 0; i < 3; i++)
		pagehint_cache_close(c[i]);
	pagehint_cache_close(NULL);
	pagehint_cache_close(c[0]); /* closed twice: nothing happens */
	assert_int_equal(zone_at_rest(zone).caches, 0);
	zone_gone_home(zone);
}

static void test_every_order_through_a_cache(void **state)
{
	(void)state;
	for (size_t k = 0; k < ZONE_KINDS; k++) {
		struct pagehint_zone *zone = zone_full(2, zone_kinds[k], 9);
		struct pagehint_cache *cache;
		uint64_t frame, size;
		assert_int_equal(pagehint_cache_open(zone, &cache), 0);
		for (uint32_t order = 0; order <= PAGEHINT_ORDER_MAX; order++) {
			size = UINT64_C(1) << order;
			assert_int_equal(pagehint_cache_alloc(cache, order, &frame), 0);
			assert_int_equal(frame % size, 0);
			assert_int_equal(zone_at_rest(zone).out, size);
			assert_int_equal(pagehint_cache_free(cache, frame, order), 0);
			assert_int_equal(zone_at_rest(zone).out, 0);
			if (!(zone_kinds[k] & PAGEHINT_ZONE_UNTRACKED))
				assert_int_equal(pagehint_cache_free(cache, frame, order), -EALREADY);
			assert_int_equal(pagehint_cache_free(cache, 7 * SECTION, order), -ERANGE);
			if (order != 0)
				assert_int_equal(pagehint_cache_free(cache, frame + 1, order), -EINVAL);
			zone_at_rest(zone);
		}
		assert_int_equal(pagehint_cache_alloc(cache, 19, &frame), -EINVAL);
		assert_int_equal(pagehint_cache_free(cache, 0, 19), -EINVAL);
		pagehint_cache_close(cache);
		zone_gone_home(zone);
	}
}

static void test_a_parked_cache_only_unparks(void **state)
{
	(void)state;
	struct pagehint_zone *zone = zone_full(1, 0, 9);
	struct pagehint_cache *cache;
	uint64_t frame, other = 5;
	assert_int_equal(pagehint_cache_open(zone, &cache), 0);
	assert_int_equal(pagehint_cache_unpark(cache), -EALREADY);
	assert_int_equal(pagehint_cache_alloc(cache, 0, &frame), 0);
	assert_int_equal(pagehint_cache_park(cache), 0);
	assert_int_equal(pagehint_cache_park(cache), -EALREADY);
	for (uint32_t order = 0; order <= PAGEHINT_ORDER_MAX; order++) {
		assert_int_equal(pagehint_cache_alloc(cache, order, &other), -EBUSY);
		assert_int_equal(pagehint_cache_free(cache, frame, order), -EBUSY);
	}
	pagehint_cache_drain(cache); /* of no effect: others may be at it */
	assert_int_equal(pagehint_cache_held(cache), 63);
	assert_int_equal(other, 5);
	struct pagehint_zone_stats s = zone_at_rest(zone);
	assert_int_equal(s.cached, 63);
	assert_int_equal(s.out, 1);
	assert_int_equal(pagehint_zone_free(zone, frame, 0), 0);
	assert_int_equal(pagehint_zone_alloc(zone, PAGEHINT_ORDER_MAX, &other), 0); /* drained by another */
	assert_int_equal(other, 0);
	assert_int_equal(pagehint_cache_held(cache), 0);
	assert_int_equal(pagehint_cache_unpark(cache), 0);
	assert_int_equal(pagehint_cache_alloc(cache, 0, &frame), -ENOSPC);
	assert_int_equal(pagehint_zone_free(zone, other, PAGEHINT_ORDER_MAX), 0);
	assert_int_equal(pagehint_cache_alloc(cache, 0, &frame), 0);
	assert_int_equal(pagehint_cache_free(cache, frame, 0), 0);
	pagehint_cache_close(cache);
	zone_gone_home(zone);
}

static void test_while_another_drains_it(void **state)
{
	(void)state;
	struct pagehint_zone *zone = zone_full(1, 0, 9);
	struct pagehint_cache *cache;
	assert_int_equal(pagehint_cache_open(zone, &cache), 0);
	assert_int_equal(pagehint_cache_park(cache), 0);
	atomic_store(&cache->control, PH_CACHE_DRAINING); /* as the drainer does */
	assert_int_equal(pagehint_cache_unpark(cache), -EAGAIN);
	assert_int_equal(pagehint_cache_park(cache), -EALREADY);
	uint64_t frame;
	assert_int_equal(pagehint_cache_alloc(cache, 0, &frame), -EBUSY);
	pagehint_cache_close(cache); /* leaves the slot to the drainer */
	assert_int_equal(atomic_load(&cache->control), PH_CACHE_CLOSING);
	struct pagehint_cache *next;
	assert_int_equal(pagehint_cache_open(zone, &next), 0);
	assert_ptr_not_equal(next, cache);
	atomic_store(&cache->control, PH_CACHE_FREE);
	pagehint_cache_close(next);
	zone_gone_home(zone);
}

static void test_it_lets_go_at_the_next_call(void **state)
{
	(void)state;
	for (unsigned next_call = 0; next_call < 5; next_call++) {
		struct pagehint_zone *zone = zone_full(1, 0, 9);
		struct pagehint_cache *cache;
		uint64_t frame, keep, big = 5;
		assert_int_equal(pagehint_cache_open(zone, &cache), 0);
		assert_int_equal(pagehint_cache_alloc(cache, 0, &keep), 0);
		assert_int_equal(pagehint_cache_alloc(cache, 0, &frame), 0);
		assert_int_equal(pagehint_cache_free(cache, frame, 0), 0);
		assert_int_equal(pagehint_zone_free(zone, keep, 0), 0);
		/* all frames are free, but 63 of them lie in a cache that is not parked */
		assert_int_equal(pagehint_zone_hidden(zone), 63);
		assert_int_equal(pagehint_zone_alloc(zone, PAGEHINT_ORDER_MAX, &big), -EAGAIN);
		assert_int_equal(pagehint_zone_alloc_contig(zone, SECTION, 0, &big), -EAGAIN);
		struct pagehint_run run;
		uint32_t n = 7;
		assert_int_equal(pagehint_zone_alloc_runs(zone, SECTION, &run, 1, &n), -EAGAIN);
		assert_int_equal(pagehint_zone_alloc_batch(zone, PAGEHINT_ORDER_MAX, 1, &big, &n), -EAGAIN);
		assert_int_equal(n, 0);
		assert_int_equal(big, 5);
		zone_at_rest(zone);
		switch (next_call) {
		case 0:
			assert_int_equal(pagehint_cache_free(cache, frame, 0), -EALREADY);
			break;
		case 1:
			assert_int_equal(pagehint_cache_alloc(cache, PAGEHINT_ORDER_MAX, &big), 0);
			assert_int_equal(pagehint_cache_free(cache, big, PAGEHINT_ORDER_MAX), 0);
			break;
		case 2:
			assert_int_equal(pagehint_cache_park(cache), 0);
			assert_int_equal(pagehint_cache_unpark(cache), 0);
			break;
		case 3:
			pagehint_cache_drain(cache);
			break;
		default:
			pagehint_cache_close(cache);
			cache = NULL;
		}
		assert_int_equal(zone_at_rest(zone).cached, 0);
		assert_int_equal(pagehint_zone_alloc(zone, PAGEHINT_ORDER_MAX, &big), 0);
		assert_int_equal(pagehint_zone_alloc(zone, 0, &frame), -ENOSPC); /* nothing is hidden any more */
		assert_int_equal(pagehint_zone_free(zone, big, PAGEHINT_ORDER_MAX), 0);
		pagehint_cache_close(cache);
		zone_gone_home(zone);
	}
}

/* Its own frames are no reason for it to refuse. */
static void test_it_drains_itself_when_nothing_else_helps(void **state)
{
	(void)state;
	struct pagehint_zone *zone = zone_full(1, 0, 9);
	struct pagehint_cache *cache;
	uint64_t frame;
	assert_int_equal(pagehint_cache_open(zone, &cache), 0);
	assert_int_equal(pagehint_cache_alloc(cache, 0, &frame), 0);
	assert_int_equal(pagehint_cache_free(cache, frame, 0), 0);
	assert_int_equal(pagehint_cache_held(cache), 64);
	assert_int_equal(pagehint_cache_alloc(cache, PAGEHINT_ORDER_MAX, &frame), 0);
	assert_int_equal(pagehint_cache_free(cache, frame, PAGEHINT_ORDER_MAX), 0);
	pagehint_cache_close(cache);
	zone_gone_home(zone);
}

static void test_it_spans_few_granules(void **state)
{
	(void)state;
	for (uint32_t granule = 1; granule <= 18; granule++) {
		struct pagehint_zone *zone = zone_full(2, 0, granule);
		struct pagehint_cache *cache;
		uint64_t all = 2 * SECTION;
		assert_int_equal(pagehint_cache_open(zone, &cache), 0);
		assert_int_equal(pagehint_zone_reserve(zone, 0, all, NULL), 0);
		uint64_t random = 88172645463325252u + granule, freed = 0;
		for (unsigned i = 0; i < 3000; i++) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			int r = pagehint_cache_free(cache, (random >> 20) % all, 0);
			assert_true(r == 0 || r == -EALREADY);
			freed += r == 0;
			struct pagehint_zone_stats s = { .struct_size = sizeof(s) };
			assert_int_equal(pagehint_zone_stats(zone, &s), 0);
			uint64_t a_word = granule >= 6 ? 1 : 64u >> granule;
			assert_true(s.cached_granules <= PH_CACHE_WORDS * a_word);
			assert_true(s.cached_granules >= 1);
			assert_int_equal(s.free + s.cached, freed);
			assert_int_equal(s.cached, pagehint_cache_held(cache));
		}
		zone_at_rest(zone);
		pagehint_cache_close(cache);
		assert_int_equal(zone_at_rest(zone).free, freed);
		pagehint_zone_destroy(zone);
	}
}

/* Frees are kept by word; a word that needs the entry of another sends that one home whole. */
static void test_frees_go_back_by_word(void **state)
{
	(void)state;
	struct pagehint_zone *zone = zone_full(1, 0, 9);
	struct pagehint_cache *cache;
	const uint64_t entries = PH_CACHE_FREED;
	uint64_t frame;
	assert_int_equal(pagehint_cache_open(zone, &cache), 0);
	assert_int_equal(pagehint_zone_reserve(zone, 0, SECTION, NULL), 0);
	for (uint64_t word = 0; word < entries; word++)
		for (uint64_t f = 0; f < 10; f++)
			assert_int_equal(pagehint_cache_free(cache, word * 64 + f, 0), 0);
	assert_int_equal(pagehint_cache_held(cache), entries * 10);
	assert_int_equal(pagehint_cache_free(cache, (3 + entries) * 64, 0), 0); /* where word 3 was */
	assert_int_equal(pagehint_cache_held(cache), (entries - 1) * 10 + 1);
	assert_int_equal(zone_at_rest(zone).free, 10);
	assert_int_equal(pagehint_zone_alloc(zone, 0, &frame), 0);
	assert_int_equal(frame, 3 * 64);
	pagehint_cache_close(cache);
	pagehint_zone_destroy(zone);
}

/* The place of a section that went serves another: what a cache once held there must not come out under the old number. */
static void test_a_slot_changes_hands_under_a_cache(void **state)
{
	(void)state;
	for (unsigned first = 0; first < 3;
	     first++) { /* what the cache still knows of: nothing, word 0 handed out, drained */
		struct pagehint_zone *zone = zone_empty(1, 2, 0, 9);
		struct pagehint_cache *cache;
		uint64_t frame, other;
		assert_int_equal(pagehint_zone_add(zone, 0, SECTION), 0);
		assert_int_equal(pagehint_cache_open(zone, &cache), 0);
		if (first != 0) {
			assert_int_equal(pagehint_cache_alloc(cache, 0, &frame), 0);
			if (first == 2) {
				assert_int_equal(pagehint_zone_alloc(zone, 0, &other), 0);
				assert_int_equal(pagehint_cache_free(cache, other, 0), 0);
			}
			pagehint_cache_drain(cache);
			assert_int_equal(pagehint_zone_free(zone, frame, 0), 0);
		}
		assert_int_equal(pagehint_zone_remove(zone, 0, SECTION, NULL), 0);
		assert_int_equal(pagehint_zone_add(zone, SECTION, SECTION), 0);
		for (unsigned i = 0; i < 130; i++) { /* words that the cache may remember by their place */
			assert_int_equal(pagehint_zone_alloc(zone, 0, &frame), 0);
			assert_in_range(frame, SECTION, 2 * SECTION - 1);
			assert_int_equal(pagehint_cache_free(cache, frame, 0), 0);
			assert_int_equal(pagehint_cache_alloc(cache, 0, &other), 0);
			assert_in_range(other, SECTION, 2 * SECTION - 1);
			zone_at_rest(zone);
		}
		pagehint_cache_close(cache);
		pagehint_zone_destroy(zone);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_slot_changes_hands_under_a_cache),
		cmocka_unit_test(test_caches_come_and_go),
		cmocka_unit_test(test_every_order_through_a_cache),
		cmocka_unit_test(test_a_parked_cache_only_unparks),
		cmocka_unit_test(test_while_another_drains_it),
		cmocka_unit_test(test_it_lets_go_at_the_next_call),
		cmocka_unit_test(test_it_drains_itself_when_nothing_else_helps),
		cmocka_unit_test(test_it_spans_few_granules),
		cmocka_unit_test(test_frees_go_back_by_word),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
