/* what becomes of runs of which a part, or everything, was kept */
#include <string.h>

#include "fakes/rig.h"

#define BLOCKS 32u
#define BLOCK 512u

/* Half of every run is freed, half kept for this reason. */
static struct pagehint_reporter_stats halves(uint32_t why, uint64_t until, uint64_t *ret_batches)
{
	struct rig rig;
	struct rig_how how = { .frames = BLOCKS * BLOCK, .order = 9, .max_runs = 8 };
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_part_kept_for_where_it_lies_is_not_asked_again),
		cmocka_unit_test(test_a_part_kept_for_anything_else_is_asked_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
