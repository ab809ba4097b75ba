/* what a reporter takes, when, and in which pieces */
#include <errno.h>
#include <string.h>

#include "fakes/rig.h"
#include "report/reporter.h"

#define BLOCKS 32u
#define BLOCK 512u /* frames of order 9 */

static const struct rig_how plain = { .frames = BLOCKS * BLOCK, .order = 9, .max_runs = 8 };

static void test_free_memory_comes_back_after_two_looks(void **state)
{
	(void)state;
	struct rig rig;
	rig_start(&rig, &plain);
	model_give(rig.model, 0, 4 * BLOCK);
	model_give(rig.model, 10 * BLOCK, 2 * BLOCK);
	model_give(rig.model, 20 * BLOCK, BLOCK - 1); /* too small */
	rig_step(&rig, 0);
	assert_int_equal(rig_stats(&rig).isolated, 0);
	assert_int_equal(rig.deadline, 2 * SEC);
	assert_int_equal(rig.model->quiesced, 1);
	rig_run(&rig, 2 * SEC);
	struct pagehint_reporter_stats s = rig_stats(&rig);
	assert_int_equal(s.reported, 6 * BLOCK * FRAME);
	assert_int_equal(s.runs, 2); /* maximal */
	assert_int_equal(s.batches, 1);
	assert_int_equal(s.looks, 2);
	assert_int_equal(s.below_order, (BLOCK - 1) * FRAME);
	assert_true(model_is(rig.model, 0, 4 * BLOCK, FRAME_REPORTED));
	rig_run(&rig, 20 * SEC);
	assert_int_equal(rig_stats(&rig).isolated, 6 * BLOCK * FRAME); /* not again */
	assert_int_equal(rig_stats(&rig).looks, 11);
	assert_int_equal(rig.steps, 11); /* one wake an interval */
	rig_stop(&rig);
}

static void test_touched_between_is_too_young(void **state)
{
	(void)state;
	struct rig rig;
	rig_start(&rig, &plain);
	model_give(rig.model, 0, BLOCK);
	rig_run(&rig, SEC);
	assert_int_equal(model_alloc(rig.model, 3, 1), 0);
	model_give(rig.model, 3, 1);
	rig_run(&rig, 3 * SEC);
	assert_int_equal(rig_stats(&rig).isolated, 0);
	rig_run(&rig, 4 * SEC);
	assert_int_equal(rig_stats(&rig).reported, BLOCK * FRAME);
	rig_stop(&rig);
}

static void test_time_may_stand_or_go_back(void **state)
{
	(void)state;
	struct rig rig;
	rig_start(&rig, &plain);
	model_give(rig.model, 0, BLOCK);
	rig.now = 50 * SEC;
	rig_step(&rig, 0);
	rig.now = SEC;
	rig_step(&rig, 0);
	assert_int_equal(rig.deadline, 52 * SEC);
	assert_int_equal(rig_stats(&rig).isolated, 0);
	rig_stop(&rig);
}

static void test_pressure_walks_down_the_ladder(void **state)
{
	(void)state;
	struct rig rig;
	rig_start(&rig, &plain);
	model_give(rig.model, 0, 16); /* 64 KiB */
	model_give(rig.model, 1024, 5);
	rig_run(&rig, 10 * SEC);
	assert_int_equal(rig_stats(&rig).isolated, 0);
	assert_int_equal(rig_stats(&rig).below_order, 21 * FRAME);
	assert_int_equal(pagehint_reporter_pressure(rig.rep, 3, 0), -EINVAL);
	assert_int_equal(pagehint_reporter_pressure(rig.rep, PAGEHINT_PRESSURE_SOME, 0), 0);
	rig_step(&rig, 0); /* at once, not at the next look */
	assert_int_equal(rig_stats(&rig).order, 4);
	assert_int_equal(rig_stats(&rig).pressure, PAGEHINT_PRESSURE_SOME);
	rig_run(&rig, 13 * SEC);
	assert_int_equal(rig_stats(&rig).reported, 16 * FRAME);
	assert_int_equal(rig_stats(&rig).below_order, 5 * FRAME);
	assert_int_equal(pagehint_reporter_pressure(rig.rep, PAGEHINT_PRESSURE_FULL, SEC), 0);
	rig_step(&rig, 0);
	assert_int_equal(rig.model->last_flags & PAGEHINT_HARVEST_NOW, PAGEHINT_HARVEST_NOW);
	assert_int_equal(rig_stats(&rig).reported, 21 * FRAME);
	assert_int_equal(rig_stats(&rig).below_order, 0);
	rig_run(&rig, 20 * SEC);
	assert_int_equal(rig_stats(&rig).order, 9);
	assert_int_equal(rig_stats(&rig).pressure, PAGEHINT_PRESSURE_NONE);
	rig_stop(&rig);
}

static void test_psi_fd_is_asked_in_every_step(void **state)
{
	(void)state;
	struct rig rig;
	struct pagehint_reporter_opts opts = {
		.struct_size = sizeof(opts), .flags = PAGEHINT_REPORTER_PSI, .psi_fd = 77, .pressure_hold_ns = 5 * SEC
	};
	struct rig_how how = plain;
	how.opts = &opts;
	rig_start(&rig, &how);
	rig_run(&rig, 4 * SEC);
	assert_int_equal(rig.polls, rig.steps);
	rig.pri = 1;
	rig.now = 5 * SEC;
	rig_step(&rig, 0);
	assert_int_equal(rig_stats(&rig).pressure, PAGEHINT_PRESSURE_SOME);
	rig_run(&rig, 20 * SEC);
	assert_int_equal(rig_stats(&rig).pressure, PAGEHINT_PRESSURE_NONE);
	rig.pri = -EBADF;
	rig_step(&rig, 0);
	rig_explain(&rig);
	assert_true(rig_said(&rig, "pressure: the PSI fd"));
	rig_stop(&rig);
}

static void test_regions_cut_runs_and_raise_orders(void **state)
{
	(void)state;
	struct rig rig;
	rig_start(&rig, &plain);
	/* a hole; a region that ends in the middle of free memory; one whose pages are 4 MiB; one that nothing frees */
	rig.fake->regions_n = 3;
	rig.fake->regions[0] = (struct fake_region) { 3 * BLOCK, 5 * BLOCK, 4096 };
	rig.fake->regions[1] = (struct fake_region) { 8 * BLOCK, 9 * BLOCK, 4 * MIB };
	rig.fake->regions[2] = (struct fake_region) { 17 * BLOCK, 15 * BLOCK, UINT64_C(8) << 30 };
	model_give(rig.model, 0, BLOCKS * BLOCK);
	rig_run(&rig, 2 * SEC);
	struct pagehint_reporter_stats s = rig_stats(&rig);
	assert_int_equal(s.runs, 2);
	assert_true(model_is(rig.model, 0, 3 * BLOCK, FRAME_FREE));
	assert_true(model_is(rig.model, 3 * BLOCK, 13 * BLOCK, FRAME_REPORTED));
	assert_true(model_is(rig.model, 16 * BLOCK, 16 * BLOCK, FRAME_FREE)); /* half of 4 MiB, and the last region */
	rig_explain(&rig);
	assert_true(rig_said(&rig, "no region"));
	rig_stop(&rig);
}

/* Regions found behind holes begin exactly where they begin. */
static void test_a_region_behind_a_hole_is_found_exactly(void **state)
{
	(void)state;
	for (uint64_t start = 1; start < 3000; start += 37) {
		struct rig rig;
		struct rig_how how = { .frames = 8192, .order = 0, .max_runs = 64 };
		rig_start(&rig, &how);
		rig.fake->regions_n = 1;
		rig.fake->regions[0] = (struct fake_region) { start, 4096, 4096 };
		model_give(rig.model, 0, 8192);
		rig_run(&rig, 2 * SEC);
		assert_int_equal(model_count(rig.model, FRAME_REPORTED), 4096);
		assert_true(model_is(rig.model, start, 4096, FRAME_REPORTED));
		assert_int_equal(rig.rep->cycle.last.no_region, 4096);
		assert_true(rig.fake->extents < 200);
		rig_stop(&rig);
	}
}

static void test_spans_with_holes_share_a_batch(void **state)
{
	(void)state;
	struct rig rig;
	rig_start(&rig, &plain);
	for (uint64_t b = 0; b < BLOCKS; b += 4) {
		model_set(rig.model, b * BLOCK, BLOCK, FRAME_ABSENT);
		model_give(rig.model, (b + 1) * BLOCK, BLOCK);
	}
	rig_run(&rig, 2 * SEC);
	struct pagehint_reporter_stats s = rig_stats(&rig);
	assert_int_equal(s.runs, 8);
	assert_int_equal(s.batches, 1);
	rig_stop(&rig);
}

static void test_a_budget_bounds_a_step_and_loses_nothing(void **state)
{
	(void)state;
	struct rig rig;
	rig_start(&rig, &plain);
	model_give(rig.model, 0, BLOCKS * BLOCK);
	rig_step(&rig, 0);
	rig.now = rig.deadline;
	for (unsigned i = 1; i <= 10; i++) {
		rig_step(&rig, 7 * MIB); /* three blocks */
		assert_int_equal(rig_stats(&rig).reported, i * 6 * MIB);
		assert_int_equal(rig.deadline, rig.now);
	}
	rig_step(&rig, 7 * MIB);
	assert_int_equal(rig_stats(&rig).reported, BLOCKS * BLOCK * FRAME);
	assert_true(rig.deadline > rig.now);
	rig_stop(&rig);
}

static void test_a_budget_below_a_block_only_looks(void **state)
{
	(void)state;
	struct rig rig;
	rig_start(&rig, &plain);
	model_give(rig.model, 0, BLOCKS * BLOCK);
	for (unsigned i = 0; i < 4; i++) {
		rig_step(&rig, MIB);
		assert_true(rig.deadline > rig.now);
		rig.now = rig.deadline;
	}
	assert_int_equal(rig_stats(&rig).isolated, 0);
	rig_explain(&rig);
	assert_true(rig_said(&rig, "budget: below one block"));
	rig_stop(&rig);
}

static void test_a_step_limit_below_a_block_still_moves(void **state)
{
	(void)state;
	struct rig rig;
	struct pagehint_reporter_opts opts = { .struct_size = sizeof(opts), .max_bytes_per_step = 4096 };
	struct rig_how how = plain;
	how.opts = &opts;
	rig_start(&rig, &how);
	model_give(rig.model, 0, 3 * BLOCK);
	rig_run(&rig, 2 * SEC);
	assert_int_equal(rig_stats(&rig).reported, 3 * BLOCK * FRAME);
	assert_int_equal(rig.fake->largest, BLOCK);
	rig_stop(&rig);
}

static void test_switched_off_and_on(void **state)
{
	(void)state;
	struct rig rig;
	struct pagehint_reporter_opts opts = { .struct_size = sizeof(opts), .flags = PAGEHINT_REPORTER_DISABLED };
	struct rig_how how = plain;
	how.opts = &opts;
	rig_start(&rig, &how);
	model_give(rig.model, 0, 3 * BLOCK);
	rig_run(&rig, 10 * SEC);
	assert_int_equal(rig_stats(&rig).isolated, 0);
	assert_int_equal(rig.steps, 6);
	pagehint_reporter_enable(rig.rep, 1);
	rig_run(&rig, 12 * SEC); /* ageing went on: one look is enough */
	assert_int_equal(rig_stats(&rig).reported, 3 * BLOCK * FRAME);
	pagehint_reporter_enable(rig.rep, 0);
	model_give(rig.model, 5 * BLOCK, BLOCK);
	rig_run(&rig, 20 * SEC);
	assert_int_equal(rig_stats(&rig).isolated, 3 * BLOCK * FRAME);
	rig_stop(&rig);
}

/* A large origin: every step stays within its bound of words, and the look goes on where it stopped. */
static void test_work_is_bounded(void **state)
{
	(void)state;
	struct rig rig;
	struct rig_how how = { .frames = UINT64_C(10) << 20, .order = 0, .max_runs = 8 };
	rig_start(&rig, &how);
	model_give(rig.model, how.frames - 4, 4);
	rig_run(&rig, 0);
	assert_int_equal(rig.steps, 3); /* 160 Ki words of 64 frames */
	rig_run(&rig, 2 * SEC);
	assert_int_equal(rig_stats(&rig).reported, 4 * FRAME);
	rig_stop(&rig);
}

/* Nothing said: four seconds, and twice that until everything is back. */
static void test_the_default_interval(void **state)
{
	(void)state;
	struct rig rig;
	struct pagehint_reporter *usual;
	struct pagehint_reporter_stats stats = { .struct_size = sizeof(stats) };
	uint64_t deadline;
	rig_start(&rig, &(struct rig_how) { .frames = 64, .order = 0, .max_runs = 8 });
	assert_int_equal(pagehint_reporter_new(rig.origin, rig.backend, NULL, &usual), 0);
	assert_int_equal(pagehint_reporter_step(usual, 0, 0, &deadline), 0);
	assert_int_equal(deadline, 4 * SEC);
	assert_int_equal(pagehint_reporter_stats(usual, &stats), 0);
	assert_int_equal(stats.bound_ns, 8 * SEC);
	assert_int_equal(pagehint_reporter_free(usual), 0);
	rig_stop(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_free_memory_comes_back_after_two_looks),
		cmocka_unit_test(test_touched_between_is_too_young),
		cmocka_unit_test(test_time_may_stand_or_go_back),
		cmocka_unit_test(test_pressure_walks_down_the_ladder),
		cmocka_unit_test(test_psi_fd_is_asked_in_every_step),
		cmocka_unit_test(test_regions_cut_runs_and_raise_orders),
		cmocka_unit_test(test_a_region_behind_a_hole_is_found_exactly),
		cmocka_unit_test(test_spans_with_holes_share_a_batch),
		cmocka_unit_test(test_a_budget_bounds_a_step_and_loses_nothing),
		cmocka_unit_test(test_a_budget_below_a_block_only_looks),
		cmocka_unit_test(test_a_step_limit_below_a_block_still_moves),
		cmocka_unit_test(test_switched_off_and_on),
		cmocka_unit_test(test_work_is_bounded),
		cmocka_unit_test(test_the_default_interval),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
