/*
 * Many frames at once: batches, runs, adjacent frames at any alignment, and freeing any part of anything.
 */
#include "support/zone_rest.h"

#include <errno.h>
#include <stdlib.h>

static void test_batches_of_every_order(void **state)
{
	(void)state;
	for (size_t k = 0; k < ZONE_KINDS; k++) {
		struct pagehint_zone *zone = zone_full(3, zone_kinds[k], 9);
		uint64_t frames[200];
		uint32_t n, done;
		for (uint32_t order = 0; order <= PAGEHINT_ORDER_MAX; order++) {
			uint64_t size = UINT64_C(1) << order;
			uint32_t fits = (uint32_t)(3 * SECTION / size < 200 ? 3 * SECTION / size : 200);
			n = 7;
			assert_int_equal(pagehint_zone_alloc_batch(zone, order, 0, frames, &n), 0);
			assert_int_equal(n, 0);
			assert_int_equal(pagehint_zone_alloc_batch(zone, order, fits, frames, &n), 0);
			assert_int_equal(n, fits);
			for (uint32_t i = 0; i < n; i++) /* lowest first, each once */
				assert_int_equal(frames[i], i * size);
			assert_int_equal(zone_at_rest(zone).out, fits * size);
			if (fits < 200) { /* there is no more: what there is is said */
				n = 7;
				assert_int_equal(pagehint_zone_alloc_batch(zone, order, 3, frames + fits, &n), -ENOSPC);
				assert_int_equal(n, 0);
			}
			assert_int_equal(pagehint_zone_free_batch(zone, order, fits, frames, &done), 0);
			assert_int_equal(done, fits);
			assert_int_equal(zone_at_rest(zone).out, 0);
			if (fits < 200) {
				assert_int_equal(pagehint_zone_alloc_batch(zone, order, 200, frames, &n), -ENOSPC);
				assert_int_equal(n, fits);
				assert_int_equal(pagehint_zone_free_batch(zone, order, n, frames, NULL), 0);
			}
		}
		n = 7;
		assert_int_equal(pagehint_zone_alloc_batch(zone, 19, 1, frames, &n), -EINVAL);
		assert_int_equal(pagehint_zone_free_batch(zone, 19, 1, frames, &done), -EINVAL);
		assert_int_equal(done, 0);
		assert_int_equal(pagehint_zone_free_batch(zone, 0, 0, frames, &done), 0);
		zone_gone_home(zone);
	}
}

static void test_a_batch_stops_at_the_bad_block(void **state)
{
	(void)state;
	for (size_t k = 0; k < ZONE_KINDS; k++) {
		struct pagehint_zone *zone = zone_full(1, zone_kinds[k], 9);
		if (zone_kinds[k] & PAGEHINT_ZONE_UNTRACKED) {
			zone_gone_home(zone);
			continue;
		}
		for (uint32_t order = 0; order < 12; order++) {
			const uint64_t size = UINT64_C(1) << order;
			for (uint32_t bad = 0; bad < 16; bad++) {
				uint64_t frames[16];
				uint32_t n, done = 99;
				assert_int_equal(pagehint_zone_alloc_batch(zone, order, 16, frames, &n), 0);
				uint64_t good = frames[bad];
				int expected = -EALREADY;
				switch (bad % 4) {
				case 0: /* twice in the array; the first entry has no earlier one, so is free already */
					if (bad == 0)
						assert_int_equal(pagehint_zone_free(zone, good, order), 0);
					else
						frames[bad] = frames[bad - 1];
					break;
				case 1:
					frames[bad] = SECTION;
					expected = -ERANGE;
					break;
				case 2: /* never handed out */
					frames[bad] = SECTION - size;
					break;
				default:
					if (order == 0)
						frames[bad] = SECTION - 1;
					else {
						frames[bad] = good + 1;
						expected = -EINVAL;
					}
				}
				assert_int_equal(pagehint_zone_free_batch(zone, order, 16, frames, &done), expected);
				assert_int_equal(done, bad);
				assert_int_equal(zone_at_rest(zone).out, (bad == 0 ? 15 : 16 - bad) * size);
				if (bad != 0)
					assert_int_equal(pagehint_zone_free(zone, good, order), 0);
				assert_int_equal(
					pagehint_zone_free_batch(zone, order, 15 - bad, frames + bad + 1, NULL), 0);
				assert_int_equal(zone_at_rest(zone).out, 0);
			}
		}
		zone_gone_home(zone);
	}
}

static void test_runs_are_few_and_exact(void **state)
{
	(void)state;
	const uint64_t asks[] = { 1,    2,    3,    63,    64,      65,          511,         512,        513,
				  4095, 4097, 5000, 99999, SECTION, SECTION + 1, 2 * SECTION, 3 * SECTION };
	for (size_t k = 0; k < ZONE_KINDS; k++) {
		struct pagehint_zone *zone = zone_full(3, zone_kinds[k], 9);
		for (size_t i = 0; i < sizeof(asks) / sizeof(asks[0]); i++) {
			struct pagehint_run runs[8] = { { 0, 0 } };
			uint32_t n = 0;
			assert_int_equal(pagehint_zone_alloc_runs(zone, asks[i], runs, 8, &n), 0);
			uint64_t sum = 0;
			for (uint32_t r = 0; r < n; r++)
				sum += runs[r].frames;
			assert_int_equal(sum, asks[i]);
			assert_true(n <= 3); /* of an empty zone: no more than borders to cross */
			assert_int_equal(zone_at_rest(zone).out, asks[i]);
			uint32_t done;
			assert_int_equal(pagehint_zone_free_runs(zone, runs, n, &done), 0);
			assert_int_equal(done, n);
			assert_int_equal(zone_at_rest(zone).out, 0);
		}
		struct pagehint_run run;
		uint32_t n = 5;
		assert_int_equal(pagehint_zone_alloc_runs(zone, 0, &run, 1, &n), -EINVAL);
		assert_int_equal(pagehint_zone_alloc_runs(zone, 1, &run, 0, &n), -EINVAL);
		assert_int_equal(pagehint_zone_alloc_runs(zone, 3 * SECTION + 1, &run, 1, &n), -ENOSPC);
		assert_int_equal(pagehint_zone_alloc_runs(zone, UINT64_MAX, &run, 1, &n), -ENOSPC);
		assert_int_equal(n, 5);
		zone_gone_home(zone);
	}
}

static void test_runs_that_do_not_fit_change_nothing(void **state)
{
	(void)state;
	struct pagehint_zone *zone = zone_full(1, 0, 9);
	for (uint64_t f = 0; f < SECTION; f += 2) /* every other frame is reserved: only single frames are free */
		assert_int_equal(pagehint_zone_reserve(zone, f, 1, NULL), 0);
	uint64_t before[PAGEHINT_ORDER_MAX + 1], after[PAGEHINT_ORDER_MAX + 1];
	struct pagehint_run runs[10];
	uint32_t n = 5;
	pagehint_zone_free_orders(zone, before);
	assert_int_equal(pagehint_zone_alloc_runs(zone, 11, runs, 10, &n), -ENOSPC);
	assert_int_equal(pagehint_zone_alloc_runs(zone, SECTION / 2 + 1, runs, 10, &n), -ENOSPC);
	assert_int_equal(n, 5);
	pagehint_zone_free_orders(zone, after);
	assert_memory_equal(before, after, sizeof(before));
	assert_int_equal(before[0], SECTION / 2);
	assert_int_equal(zone_at_rest(zone).out, SECTION / 2);
	assert_int_equal(pagehint_zone_alloc_runs(zone, 10, runs, 10, &n), 0);
	assert_int_equal(n, 10);
	assert_int_equal(zone_at_rest(zone).out, SECTION / 2 + 10);
	pagehint_zone_destroy(zone);
}

static void test_adjacent_frames_at_every_alignment(void **state)
{
	(void)state;
	for (size_t k = 0; k < ZONE_KINDS; k++) {
		struct pagehint_zone *zone = zone_full(4, zone_kinds[k], 9);
		uint64_t pin, frame;
		assert_int_equal(pagehint_zone_alloc(zone, 0, &pin), 0); /* frame 0: nothing starts there */
		for (unsigned a = 0; a <= 20; a++) {
			const uint64_t align = UINT64_C(1) << a,
				       n[] = { 1, 63, 65, 1000, align, SECTION + 77, 2 * SECTION };
			for (size_t i = 0; i < sizeof(n) / sizeof(n[0]); i++) {
				uint64_t lowest = align, last = 4 * SECTION;
				frame = 99;
				int r = pagehint_zone_alloc_contig(zone, n[i], align, &frame);
				if (lowest + n[i] > last) {
					assert_int_equal(r, -ENOSPC);
					assert_int_equal(frame, 99);
					continue;
				}
				assert_int_equal(r, 0);
				assert_int_equal(frame, lowest); /* first fit */
				assert_int_equal(zone_at_rest(zone).out, n[i] + 1);
				struct pagehint_run run = { frame, n[i] };
				assert_int_equal(pagehint_zone_free_runs(zone, &run, 1, NULL), 0);
			}
			assert_int_equal(zone_at_rest(zone).out, 1);
		}
		assert_int_equal(pagehint_zone_alloc_contig(zone, 1, UINT64_C(1) << 63, &frame), -ENOSPC);
		assert_int_equal(pagehint_zone_alloc_contig(zone, 0, 1, &frame), -EINVAL);
		assert_int_equal(pagehint_zone_alloc_contig(zone, 1, 3, &frame), -EINVAL);
		assert_int_equal(pagehint_zone_alloc_contig(zone, 1, UINT64_MAX, &frame), -EINVAL);
		assert_int_equal(pagehint_zone_alloc_contig(zone, UINT64_MAX, 0, &frame), -ENOSPC);
		assert_int_equal(pagehint_zone_alloc_contig(zone, 4 * SECTION, 0, &frame), -ENOSPC);
		assert_int_equal(pagehint_zone_free(zone, pin, 0), 0);
		assert_int_equal(pagehint_zone_alloc_contig(zone, 4 * SECTION, 0, &frame), 0);
		assert_int_equal(zone_at_rest(zone).free, 0);
		struct pagehint_run all = { 0, 4 * SECTION };
		assert_int_equal(pagehint_zone_free_runs(zone, &all, 1, NULL), 0);
		zone_gone_home(zone);
	}
}

static void test_parts_of_blocks_of_every_order(void **state)
{
	(void)state;
	for (size_t k = 0; k < ZONE_KINDS; k++) {
		struct pagehint_zone *zone = zone_full(1, zone_kinds[k], 9);
		for (uint32_t order = 0; order <= PAGEHINT_ORDER_MAX; order++) {
			uint64_t frame, size = UINT64_C(1) << order;
			const uint64_t cuts[] = { 1, size / 2, size - 1, size / 3, size / 2 + 1, 64, 4096 };
			for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
				uint64_t cut = cuts[i];
				if (cut == 0 || cut >= size)
					continue;
				assert_int_equal(pagehint_zone_alloc(zone, order, &frame), 0);
				struct pagehint_run parts[] = { { frame + cut, size - cut }, { frame, cut } };
				struct pagehint_run beyond = { frame, size + 1 };
				if (!(zone_kinds[k] & PAGEHINT_ZONE_UNTRACKED) && order < PAGEHINT_ORDER_MAX)
					assert_int_equal(pagehint_zone_free_runs(zone, &beyond, 1, NULL), -EALREADY);
				assert_int_equal(zone_at_rest(zone).out, size);
				assert_int_equal(pagehint_zone_free_runs(zone, &parts[0], 1, NULL), 0);
				assert_int_equal(zone_at_rest(zone).out, cut);
				if (!(zone_kinds[k] & PAGEHINT_ZONE_UNTRACKED)) {
					uint32_t done = 9;
					struct pagehint_run twice[] = { parts[1], parts[0] };
					assert_int_equal(pagehint_zone_free(zone, frame, order), -EINVAL);
					assert_int_equal(zone_at_rest(zone).out, cut);
					assert_int_equal(pagehint_zone_free_runs(zone, twice, 2, &done), -EALREADY);
					assert_int_equal(done, 1);
				} else {
					assert_int_equal(pagehint_zone_free_runs(zone, &parts[1], 1, NULL), 0);
				}
				assert_int_equal(zone_at_rest(zone).out, 0);
			}
		}
		zone_gone_home(zone);
	}
}

static void test_bad_runs(void **state)
{
	(void)state;
	struct pagehint_zone *zone = zone_empty(2, 4, 0, 9);
	assert_int_equal(pagehint_zone_add(zone, 0, SECTION), 0);
	assert_int_equal(pagehint_zone_add(zone, 2 * SECTION, SECTION - 64), 0);
	assert_int_equal(pagehint_zone_reserve(zone, 0, SECTION, NULL), 0);
	assert_int_equal(pagehint_zone_reserve(zone, 2 * SECTION, SECTION - 64, NULL), 0);
	const struct {
		struct pagehint_run run;
		int expected;
	} bad[] = {
		{ { 0, 0 }, -EINVAL },
		{ { UINT64_MAX, 2 }, -EINVAL },
		{ { 1, UINT64_MAX }, -EINVAL },
		{ { 0, SECTION + 1 }, -ERANGE },
		{ { SECTION, 1 }, -ERANGE },
		{ { SECTION - 1, SECTION + 2 }, -ERANGE },
		{ { 3 * SECTION - 64, 1 }, -ERANGE },
		{ { 3 * SECTION - 65, 2 }, -ERANGE },
		{ { 4 * SECTION, 1 }, -ERANGE },
		{ { 0, UINT64_MAX }, -ERANGE },
		{ { UINT64_MAX - 1, 1 }, -ERANGE },
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		uint32_t done = 9;
		uint64_t busy = 9;
		assert_int_equal(pagehint_zone_free_runs(zone, &bad[i].run, 1, &done), bad[i].expected);
		assert_int_equal(done, 0);
		assert_int_equal(pagehint_zone_reserve(zone, bad[i].run.frame, bad[i].run.frames, &busy),
				 bad[i].expected);
		assert_int_equal(busy, 9);
		assert_int_equal(zone_at_rest(zone).free, 0);
	}
	assert_int_equal(pagehint_zone_free_runs(zone, NULL, 0, NULL), 0);
	struct pagehint_run all[] = { { 2 * SECTION, SECTION - 64 }, { 0, SECTION } };
	assert_int_equal(pagehint_zone_free_runs(zone, all, 2, NULL), 0);
	zone_gone_home(zone);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_batches_of_every_order),
		cmocka_unit_test(test_a_batch_stops_at_the_bad_block),
		cmocka_unit_test(test_runs_are_few_and_exact),
		cmocka_unit_test(test_runs_that_do_not_fit_change_nothing),
		cmocka_unit_test(test_adjacent_frames_at_every_alignment),
		cmocka_unit_test(test_parts_of_blocks_of_every_order),
		cmocka_unit_test(test_bad_runs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
