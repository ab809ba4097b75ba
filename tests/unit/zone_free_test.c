/*
 * Alloc and free of every order, and every wrong free: twice, misaligned, outside, of another order, of what sits in a cache.
 */
#include "support/zone_rest.h"

#include <errno.h>
#include <pthread.h>

static int is_tracked(uint32_t flags)
{
	return !(flags & PAGEHINT_ZONE_UNTRACKED);
}

static void test_every_order_comes_and_goes(void **state)
{
	(void)state;
	for (size_t k = 0; k < ZONE_KINDS; k++) {
		struct pagehint_zone *zone = zone_full(2, zone_kinds[k], 9);
		for (uint32_t order = 0; order <= PAGEHINT_ORDER_MAX; order++) {
			uint64_t first, second, size = UINT64_C(1) << order;
			assert_int_equal(pagehint_zone_alloc(zone, order, &first), 0);
			assert_int_equal(pagehint_zone_alloc(zone, order, &second), 0);
			assert_int_equal(first, 0);
			assert_int_equal(second, size);
			struct pagehint_zone_stats s = zone_at_rest(zone);
			assert_int_equal(s.out, 2 * size);
			assert_int_equal(s.free, 2 * SECTION - 2 * size);
			assert_int_equal(pagehint_zone_free(zone, first, order), 0);
			assert_int_equal(zone_at_rest(zone).out, size);
			assert_int_equal(pagehint_zone_free(zone, second, order), 0);
			assert_int_equal(zone_at_rest(zone).out, 0);
		}
		zone_gone_home(zone);
	}
}

static void test_a_second_free_of_every_order_is_refused(void **state)
{
	(void)state;
	for (size_t k = 0; k < ZONE_KINDS; k++) {
		if (!is_tracked(zone_kinds[k]))
			continue;
		struct pagehint_zone *zone = zone_full(2, zone_kinds[k], 9);
		for (uint32_t order = 0; order <= PAGEHINT_ORDER_MAX; order++) {
			uint64_t frame, other;
			assert_int_equal(pagehint_zone_alloc(zone, order, &other), 0);
			assert_int_equal(pagehint_zone_alloc(zone, order, &frame), 0);
			assert_int_equal(pagehint_zone_free(zone, frame, order), 0);
			assert_int_equal(pagehint_zone_free(zone, frame, order), -EALREADY);
			assert_int_equal(zone_at_rest(zone).out, UINT64_C(1) << order);
			struct pagehint_run run = { frame, UINT64_C(1) << order };
			assert_int_equal(pagehint_zone_free_runs(zone, &run, 1, NULL), -EALREADY);
			assert_int_equal(zone_at_rest(zone).out, UINT64_C(1) << order);
			assert_int_equal(pagehint_zone_free(zone, other, order), 0);
		}
		zone_gone_home(zone);
	}
}

static void test_misaligned_and_outside(void **state)
{
	(void)state;
	for (size_t k = 0; k < ZONE_KINDS; k++) {
		struct pagehint_zone *zone = zone_empty(3, 5, zone_kinds[k], 9);
		assert_int_equal(pagehint_zone_add(zone, 0, SECTION), 0);
		assert_int_equal(pagehint_zone_add(zone, 2 * SECTION, SECTION / 2), 0); /* half a section */
		for (uint32_t order = 0; order <= PAGEHINT_ORDER_MAX; order++) {
			uint64_t frame, size = UINT64_C(1) << order;
			assert_int_equal(pagehint_zone_alloc(zone, order, &frame), 0);
			for (uint64_t off = 1; off < size; off <<= 1) {
				assert_int_equal(pagehint_zone_free(zone, frame + off, order), -EINVAL);
				assert_int_equal(pagehint_zone_free(zone, frame + size - off, order), -EINVAL);
			}
			const uint64_t outside[] = { SECTION,
						     2 * SECTION + SECTION / 2,
						     3 * SECTION,
						     5 * SECTION,
						     UINT64_C(1) << 40,
						     UINT64_C(1) << 63,
						     UINT64_MAX - SECTION + 1 };
			for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++)
				assert_int_equal(pagehint_zone_free(zone, outside[i] & ~(size - 1), order), -ERANGE);
			const uint32_t orders[] = { 19, 20, 31, 32, 63, 64, UINT32_MAX };
			for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
				uint64_t untouched = 5;
				assert_int_equal(pagehint_zone_free(zone, 0, orders[i]), -EINVAL);
				assert_int_equal(pagehint_zone_alloc(zone, orders[i], &untouched), -EINVAL);
				assert_int_equal(untouched, 5);
			}
			assert_int_equal(zone_at_rest(zone).out, size);
			assert_int_equal(pagehint_zone_free(zone, frame, order), 0);
		}
		zone_gone_home(zone);
	}
}

/* What a free of `wrong` at the start of a block of `order` must say; the neighbours of the block are free. */
static int expect_wrong(uint32_t flags, uint32_t order, uint32_t wrong)
{
	if (order / 6 != wrong / 6 || wrong > order)
		return -EINVAL;
	return flags & PAGEHINT_ZONE_STRICT ? -EINVAL : 0; /* a part of the block */
}

static void test_every_wrong_order_of_every_order(void **state)
{
	(void)state;
	for (size_t k = 0; k < ZONE_KINDS; k++) {
		uint32_t flags = zone_kinds[k];
		if (!is_tracked(flags))
			continue;
		struct pagehint_zone *zone = zone_full(1, flags, 9);
		for (uint32_t order = 0; order <= PAGEHINT_ORDER_MAX; order++) {
			for (uint32_t wrong = 0; wrong <= PAGEHINT_ORDER_MAX; wrong++) {
				uint64_t frame, size = UINT64_C(1) << order, part = UINT64_C(1) << wrong;
				if (wrong == order)
					continue;
				assert_int_equal(pagehint_zone_alloc(zone, order, &frame), 0);
				int expected = expect_wrong(flags, order, wrong);
				assert_int_equal(pagehint_zone_free(zone, frame, wrong), expected);
				uint64_t left = expected == 0 ? size - part : size;
				assert_int_equal(zone_at_rest(zone).out, left);
				if (wrong < order) { /* the last part of the block, too */
					expected = expect_wrong(flags, order, wrong);
					assert_int_equal(pagehint_zone_free(zone, frame + size - part, wrong),
							 expected);
					left -= expected == 0 ? part : 0;
					assert_int_equal(zone_at_rest(zone).out, left);
				}
				struct pagehint_run rest = { frame + (left == size ? 0 : part), left };
				if (left == size)
					assert_int_equal(pagehint_zone_free(zone, frame, order), 0);
				else if (left != 0)
					assert_int_equal(pagehint_zone_free_runs(zone, &rest, 1, NULL), 0);
				assert_int_equal(zone_at_rest(zone).out, 0);
			}
		}
		zone_gone_home(zone);
	}
}

static void test_neighbours_in_one_free(void **state)
{
	(void)state;
	for (size_t k = 0; k < ZONE_KINDS; k++) {
		uint32_t flags = zone_kinds[k];
		if (!is_tracked(flags))
			continue;
		for (uint32_t order = 0; order < PAGEHINT_ORDER_MAX; order++) {
			struct pagehint_zone *zone = zone_full(1, flags, 9);
			uint64_t a, b, size = UINT64_C(1) << order;
			assert_int_equal(pagehint_zone_alloc(zone, order, &a), 0);
			assert_int_equal(pagehint_zone_alloc(zone, order, &b), 0);
			assert_int_equal(b, a + size);
			int same_level = order / 6 == (order + 1) / 6;
			int r = pagehint_zone_free(zone, a, order + 1);
			assert_int_equal(r, same_level && !(flags & PAGEHINT_ZONE_STRICT) ? 0 : -EINVAL);
			assert_int_equal(zone_at_rest(zone).out, r == 0 ? 0 : 2 * size);
			if (r < 0) {
				assert_int_equal(pagehint_zone_free(zone, b, order), 0);
				/* one half of it is out: still refused, still nothing lost */
				assert_int_equal(pagehint_zone_free(zone, a, order + 1), -EINVAL);
				assert_int_equal(pagehint_zone_free(zone, a, order), 0);
			}
			zone_gone_home(zone);
		}
	}
}

struct holder {
	struct pagehint_zone *zone;
	struct pagehint_cache *cache;
	uint64_t frame;
	int park;
};

/* another thread's: it takes two frames and puts one back, into its cache */
static void *hold(void *arg)
{
	struct holder *h = arg;
	uint64_t kept;
	if (pagehint_cache_open(h->zone, &h->cache) != 0 || pagehint_cache_alloc(h->cache, 0, &h->frame) != 0 ||
	    pagehint_cache_alloc(h->cache, 0, &kept) != 0 || pagehint_cache_free(h->cache, h->frame, 0) != 0 ||
	    pagehint_cache_free(h->cache, kept, 0) != 0)
		return h;
	return h->park ? (pagehint_cache_park(h->cache) == 0 ? NULL : h) : NULL;
}

static void test_free_of_what_another_threads_cache_holds(void **state)
{
	(void)state;
	for (size_t k = 0; k < 2 * ZONE_KINDS; k++) {
		uint32_t flags = zone_kinds[k / 2];
		struct holder h = { .zone = zone_full(1, flags, 9), .park = k % 2 };
		struct pagehint_cache *mine;
		pthread_t thread;
		void *failed;
		if (!is_tracked(flags)) {
			pagehint_zone_destroy(h.zone);
			continue;
		}
		assert_int_equal(pagehint_cache_open(h.zone, &mine), 0);
		assert_int_equal(pthread_create(&thread, NULL, hold, &h), 0);
		assert_int_equal(pthread_join(thread, &failed), 0);
		assert_null(failed);
		for (uint32_t order = 0; order <= PAGEHINT_ORDER_MAX; order++) {
			uint64_t frame = h.frame & ~((UINT64_C(1) << order) - 1), cached = zone_at_rest(h.zone).cached;
			struct pagehint_run run = { frame, UINT64_C(1) << order };
			uint32_t done = 9;
			assert_true(cached > 0);
			assert_int_equal(pagehint_zone_free(h.zone, frame, order), -EALREADY);
			assert_int_equal(pagehint_cache_free(mine, frame, order), -EALREADY);
			assert_int_equal(pagehint_zone_free_batch(h.zone, order, 1, &frame, &done), -EALREADY);
			assert_int_equal(done, 0);
			assert_int_equal(pagehint_zone_free_runs(h.zone, &run, 1, NULL), -EALREADY);
			assert_int_equal(zone_at_rest(h.zone).cached, cached);
			assert_int_equal(zone_at_rest(h.zone).out, 0);
		}
		pagehint_cache_close(mine);
		pagehint_cache_close(h.cache);
		zone_gone_home(h.zone);
	}
}

static void test_an_untracked_zone_refuses_what_does_not_exist(void **state)
{
	(void)state;
	struct pagehint_zone *zone = zone_empty(1, 1, PAGEHINT_ZONE_UNTRACKED, 9);
	assert_int_equal(pagehint_zone_add(zone, 64, SECTION - 64), 0);
	for (uint32_t order = 0; order <= PAGEHINT_ORDER_MAX; order++)
		assert_int_equal(pagehint_zone_free(zone, 0, order), -ERANGE);
	zone_gone_home(zone);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_order_comes_and_goes),
		cmocka_unit_test(test_a_second_free_of_every_order_is_refused),
		cmocka_unit_test(test_misaligned_and_outside),
		cmocka_unit_test(test_every_wrong_order_of_every_order),
		cmocka_unit_test(test_neighbours_in_one_free),
		cmocka_unit_test(test_free_of_what_another_threads_cache_holds),
		cmocka_unit_test(test_an_untracked_zone_refuses_what_does_not_exist),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
