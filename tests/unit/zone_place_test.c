/*
 * Where blocks come from, and that a call which finds nothing changes nothing.
 */
#include "support/zone_rest.h"

#include <errno.h>
#include <stdlib.h>

#include "alloc/level.h"
#include "alloc/summary.h"

static void test_lowest_address_first(void **state)
{
	(void)state;
	for (uint32_t order = 0; order <= PAGEHINT_ORDER_MAX; order++) {
		struct pagehint_zone *zone = zone_full(2, 0, 9);
		uint64_t size = UINT64_C(1) << order, n = 2 * SECTION / size, step = n > 64 ? n / 64 : 1, frame;
		for (uint64_t i = 0; i < n; i++) {
			assert_int_equal(pagehint_zone_alloc(zone, order, &frame), 0);
			assert_int_equal(frame, i * size);
		}
		assert_int_equal(pagehint_zone_alloc(zone, order, &frame), -ENOSPC);
		/* of equally good holes the lowest, whatever the order they were made in */
		for (uint64_t i = n; i-- > 0;)
			if (i % step == 0)
				assert_int_equal(pagehint_zone_free(zone, i * size, order), 0);
		for (uint64_t i = 0; i < n; i += step) {
			assert_int_equal(pagehint_zone_alloc(zone, order, &frame), 0);
			if (step > 1) /* neighbours would have merged into better ones */
				assert_int_equal(frame, i * size);
		}
		assert_int_equal(pagehint_zone_alloc(zone, order, &frame), -ENOSPC);
		assert_int_equal(zone_at_rest(zone).out, 2 * SECTION);
		pagehint_zone_destroy(zone);
	}
}

static void test_tightest_first(void **state)
{
	(void)state;
	/* one free block of each order, each in a section of its own, the biggest at the lowest address */
	for (uint32_t ask = 0; ask < PAGEHINT_ORDER_MAX; ask++) {
		struct pagehint_zone *zone = zone_full(PAGEHINT_ORDER_MAX, 0, 9);
		uint64_t at[PAGEHINT_ORDER_MAX], frame;
		assert_int_equal(pagehint_zone_reserve(zone, 0, PAGEHINT_ORDER_MAX * SECTION, NULL), 0);
		for (uint32_t order = 0; order < PAGEHINT_ORDER_MAX; order++) {
			at[order] = (PAGEHINT_ORDER_MAX - 1 - order) * SECTION;
			struct pagehint_run run = { at[order], UINT64_C(1) << order };
			assert_int_equal(pagehint_zone_free_runs(zone, &run, 1, NULL), 0);
		}
		/* single frames: what lies in words is used from below before anything bigger is broken */
		for (uint32_t expected = 5; ask == 0 && expected < 6; expected--) {
			for (uint64_t left = UINT64_C(1) << expected; left != 0; left--) {
				assert_int_equal(pagehint_zone_alloc(zone, 0, &frame), 0);
				assert_in_range(frame, at[expected], at[expected] + (UINT64_C(1) << expected) - 1);
			}
		}
		for (uint32_t expected = ask == 0 ? 6 : ask; expected < PAGEHINT_ORDER_MAX; expected++) {
			assert_int_equal(pagehint_zone_alloc(zone, ask, &frame), 0);
			assert_int_equal(frame, at[expected]);
			/* what was split off is tighter than anything bigger: use it up */
			for (uint64_t left = (UINT64_C(1) << (expected - ask)) - 1; left != 0; left--) {
				assert_int_equal(pagehint_zone_alloc(zone, ask, &frame), 0);
				assert_in_range(frame, at[expected], at[expected] + (UINT64_C(1) << expected) - 1);
			}
		}
		assert_int_equal(pagehint_zone_alloc(zone, ask, &frame), -ENOSPC);
		zone_at_rest(zone);
		pagehint_zone_destroy(zone);
	}
}

static void test_a_failed_allocation_changes_nothing(void **state)
{
	(void)state;
	for (uint32_t order = 1; order <= PAGEHINT_ORDER_MAX; order++) {
		struct pagehint_zone *zone = zone_full(2, 0, 9);
		uint64_t size = UINT64_C(1) << order, before[19], after[19], frame = 5, frames[3] = { 5, 5, 5 };
		/* one frame of every block of this order is taken: the rest of it is free, but no block is */
		for (uint64_t f = 0; f < 2 * SECTION; f += size)
			assert_int_equal(pagehint_zone_reserve(zone, f + size / 2, 1, NULL), 0);
		struct pagehint_zone_stats was = zone_at_rest(zone);
		pagehint_zone_free_orders(zone, before);
		uint64_t *words = malloc(2 * 4096 * 8);
		assert_non_null(words);
		for (uint32_t w = 0; w < 2 * 4096; w++)
			words[w] = atomic_load(ph_zone_level_word(zone, w / 4096, 0, w % 4096));
		for (uint32_t ask = order; ask <= PAGEHINT_ORDER_MAX; ask++) {
			uint32_t n = 9;
			uint64_t contig = UINT64_C(1) << ask;
			assert_int_equal(pagehint_zone_alloc(zone, ask, &frame), -ENOSPC);
			assert_int_equal(pagehint_zone_alloc_batch(zone, ask, 3, frames, &n), -ENOSPC);
			assert_int_equal(n, 0);
			assert_int_equal(pagehint_zone_alloc_contig(zone, contig, 0, &frame), -ENOSPC);
			assert_int_equal(pagehint_zone_alloc_contig(zone, contig + 1, contig, &frame), -ENOSPC);
			struct pagehint_run run;
			assert_int_equal(pagehint_zone_alloc_runs(zone, contig, &run, 1, &n), -ENOSPC);
			assert_int_equal(pagehint_zone_reserve(zone, 0, contig, NULL), -EBUSY);
			struct pagehint_zone_stats s = zone_at_rest(zone);
			assert_int_equal(s.free, was.free);
			assert_int_equal(s.out, was.out);
		}
		assert_int_equal(frame, 5);
		assert_int_equal(frames[0], 5);
		pagehint_zone_free_orders(zone, after);
		assert_memory_equal(before, after, sizeof(before));
		for (uint32_t w = 0; w < 2 * 4096; w++)
			assert_int_equal(words[w], atomic_load(ph_zone_level_word(zone, w / 4096, 0, w % 4096)));
		free(words);
		pagehint_zone_destroy(zone);
	}
}

/*
 * Summaries say too little for a moment while another thread narrows them, and between two looks of a search. A refusal must
 * not be built on that: with every summary blind there is still room for every order.
 */
static void test_no_refusal_while_a_summary_is_being_narrowed(void **state)
{
	(void)state;
	for (uint32_t order = 0; order <= PAGEHINT_ORDER_MAX; order++) {
		for (uint32_t from = order; from <= PAGEHINT_ORDER_MAX; from++) {
			struct pagehint_zone *zone = zone_full(2, 0, 9);
			uint64_t frame, big;
			/* one free block of order `from` in the second section, and nothing else */
			assert_int_equal(pagehint_zone_reserve(zone, 0, 2 * SECTION, NULL), 0);
			struct pagehint_run run = { SECTION, UINT64_C(1) << from };
			assert_int_equal(pagehint_zone_free_runs(zone, &run, 1, NULL), 0);
			for (uint32_t level = 0; level < PH_WHOLE_LEVEL; level++)
				for (uint32_t c = 0; c < PH_CLASSES; c++)
					atomic_store(&ph_zone_sum(zone, level, c)[0], 0);
			assert_int_equal(pagehint_zone_alloc(zone, order, &frame), 0);
			assert_int_equal(frame, SECTION);
			for (uint32_t slot = 0; slot < 2; slot++)
				ph_summary_mend(zone, slot, 0); /* whoever narrowed them would have */
			zone_at_rest(zone);
			assert_int_equal(pagehint_zone_free(zone, frame, order), 0);
			assert_int_equal(pagehint_zone_alloc(zone, from, &big), 0);
			assert_int_equal(pagehint_zone_alloc(zone, order, &frame), -ENOSPC);
			pagehint_zone_destroy(zone);
		}
	}
}

/* A block that is on its way between two levels is seen nowhere: that is no reason to say that there is none. */
static void test_no_refusal_while_frames_move_between_levels(void **state)
{
	(void)state;
	struct pagehint_zone *zone = zone_full(1, 0, 9);
	struct ph_section *head = ph_zone_head(zone, 0);
	uint64_t frame = 5;
	/* as a split does: the section is taken, nothing is published below yet */
	atomic_fetch_add(&head->begun, SECTION);
	atomic_store(&ph_zone_whole(zone)[0], 0);
	assert_int_equal(pagehint_zone_hidden(zone), SECTION);
	for (uint32_t order = 0; order <= PAGEHINT_ORDER_MAX; order++)
		assert_int_equal(pagehint_zone_alloc(zone, order, &frame), -EAGAIN);
	assert_int_equal(pagehint_zone_alloc_contig(zone, 1, 0, &frame), -EAGAIN);
	assert_int_equal(pagehint_zone_alloc_contig(zone, SECTION, 0, &frame), -EAGAIN);
	struct pagehint_run run;
	uint32_t n;
	assert_int_equal(pagehint_zone_alloc_runs(zone, 1, &run, 1, &n), -EAGAIN);
	assert_int_equal(frame, 5);
	atomic_store(&ph_zone_whole(zone)[0], 1);
	atomic_fetch_add(&head->ended, SECTION);
	zone_gone_home(zone);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lowest_address_first),
		cmocka_unit_test(test_tightest_first),
		cmocka_unit_test(test_a_failed_allocation_changes_nothing),
		cmocka_unit_test(test_no_refusal_while_a_summary_is_being_narrowed),
		cmocka_unit_test(test_no_refusal_while_frames_move_between_levels),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
