/* what becomes of runs of which a part, or everything, was kept */
#include <string.h>

#include "fakes/rig.h"

#define BLOCKS 32u
#define BLOCK 64u /* frames of order 6 */

/* Half of every run is freed, half kept for this reason. */
static struct pagehint_reporter_stats halves(uint32_t why, uint64_t until, uint64_t *ret_batches)
{
	struct rig rig;
	struct rig_how how = { .frames = BLOCKS * BLOCK, .order = 6, .max_runs = 8 };
	rig_start(&rig, &how);
	rig.fake->answer = ANSWER_HALF;
	rig.fake->half_why = why;
	model_give(rig.model, 0, 4 * BLOCK);
	model_give(rig.model, 6 * BLOCK, BLOCK);
	rig_run(&rig, until);
	struct pagehint_reporter_stats s = rig_stats(&rig);
	*ret_batches = rig.fake->batches;
	rig_stop(&rig);
	return s;
}

/* What is kept because of where it lies is kept again: asking once is enough, and each byte is counted for what it is. */
static void test_a_part_kept_for_where_it_lies_is_not_asked_again(void **state)
{
	(void)state;
	static const uint32_t whys[] = { PAGEHINT_WHY_ALIGNMENT, PAGEHINT_WHY_PAGE_CACHE };
	for (unsigned i = 0; i < 2; i++) {
		uint64_t batches;
		struct pagehint_reporter_stats s = halves(whys[i], 200 * SEC, &batches);
		assert_int_equal(batches, 1);
		assert_int_equal(s.isolated, 5 * BLOCK * FRAME);
		assert_int_equal(s.reported, 5 * BLOCK * FRAME / 2);
		assert_int_equal(s.kept, 5 * BLOCK * FRAME / 2);
		assert_int_equal(s.kept_by[whys[i]], s.kept);
		assert_int_equal(s.backoffs, 0);
	}
}

/* What is kept for anything else may be given back another time. */
static void test_a_part_kept_for_anything_else_is_asked_again(void **state)
{
	(void)state;
	for (uint32_t why = PAGEHINT_WHY_NONE + 1; why < PAGEHINT_WHY_COUNT; why++) {
		uint64_t batches;
		if (why == PAGEHINT_WHY_ALIGNMENT || why == PAGEHINT_WHY_PAGE_CACHE)
			continue;
		struct pagehint_reporter_stats s = halves(why, 40 * SEC, &batches);
		assert_int_equal(batches, 10); /* aged anew each time */
		assert_int_equal(s.reported, 0);
		assert_int_equal(s.kept, s.isolated);
	}
}

static void give_every_other(struct rig *rig, uint64_t from, uint64_t to)
{
	for (uint64_t b = from; b < to; b += 2)
		model_give(rig->model, b * BLOCK, BLOCK);
}

/* What is wholly kept is asked about ever less often; the wakes stay one an interval. */
static void test_what_is_always_kept_is_left_in_peace(void **state)
{
	(void)state;
	for (uint32_t why = PAGEHINT_WHY_NONE + 1; why < PAGEHINT_WHY_COUNT; why++) {
		for (int async = 0; async < 2; async++) {
			struct rig rig;
			struct rig_how how = { .frames = BLOCKS * BLOCK, .order = 6, .max_runs = 4, .async = async };
			if (why == PAGEHINT_WHY_INHIBITED || why == PAGEHINT_WHY_PINNED ||
			    why == PAGEHINT_WHY_NOT_TRIED)
				continue;
			rig_start(&rig, &how);
			rig.fake->answer = ANSWER_KEPT;
			rig.fake->why = why;
			give_every_other(&rig, 0, BLOCKS); /* four batches a try */
			rig_run(&rig, 1000 * SEC);         /* 500 intervals */
			struct pagehint_reporter_stats s = rig_stats(&rig);
			assert_true(s.backoffs <= 6 + 500 / 32);
			assert_true(s.backoffs >= 500 / 36);
			assert_true(s.batches <= 4 * s.backoffs);
			assert_true(rig.steps <= 501 + 8 * s.backoffs);
			assert_int_equal(s.kept, s.isolated);
			assert_int_equal(s.failed, 0);
			rig.fake->answer = ANSWER_FREED; /* and it is never given up */
			rig_run(&rig, 1070 * SEC);
			assert_int_equal(model_count(rig.model, FRAME_REPORTED), BLOCKS / 2 * BLOCK);
			rig_stop(&rig);
		}
	}
}

/* Memory above what is asked for in vain, and below it, comes back in time all the same. */
static void test_what_is_kept_holds_up_nothing_else(void **state)
{
	(void)state;
	for (unsigned low = 0; low < 2; low++) {
		struct rig rig;
		struct rig_how how = { .frames = BLOCKS * BLOCK, .order = 6, .max_runs = 2 };
		uint64_t good = low ? 0 : 20;
		rig_start(&rig, &how);
		rig.fake->why = PAGEHINT_WHY_PAGE_CACHE;
		rig.fake->kept_from = 4 * BLOCK;
		rig.fake->kept_to = 16 * BLOCK;
		give_every_other(&rig, 4, 16);
		rig_run(&rig, 20 * SEC);
		for (unsigned i = 0; i < 100; i++) {
			assert_true(i == 0 || model_alloc(rig.model, good * BLOCK, 2 * BLOCK) == 0);
			model_give(rig.model, good * BLOCK, 2 * BLOCK);
			rig_run(&rig, rig.now + 4 * SEC);
			assert_true(model_is(rig.model, good * BLOCK, 2 * BLOCK, FRAME_REPORTED));
		}
		assert_true(rig_stats(&rig).backoffs <= 6 + 210 / 32);
		assert_true(model_is(rig.model, 4 * BLOCK, BLOCK, FRAME_FREE));
		rig_stop(&rig);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_part_kept_for_where_it_lies_is_not_asked_again),
		cmocka_unit_test(test_a_part_kept_for_anything_else_is_asked_again),
		cmocka_unit_test(test_what_is_always_kept_is_left_in_peace),
		cmocka_unit_test(test_what_is_kept_holds_up_nothing_else),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
