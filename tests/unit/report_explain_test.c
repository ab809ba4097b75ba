/* for every link that can be missing: the first line of the explanation names it */
#include <errno.h>
#include <string.h>

#include "fakes/rig.h"
#include "report/reporter.h"

#define BLOCKS 32u
#define BLOCK 512u

static const struct rig_how plain = { .frames = BLOCKS * BLOCK, .order = 9, .max_runs = 8 };

static void first_is(struct rig *rig, const char *prefix)
{
	rig_explain(rig);
	if (strncmp(rig->lines[0], prefix, strlen(prefix)) != 0)
		fail_msg("said \"%s\", not \"%s\"", rig->lines[0], prefix);
	assert_true(rig_said(rig, "model: "));
	assert_true(rig_said(rig, "fake: "));
}

static void start(struct rig *rig, const struct pagehint_reporter_opts *opts)
{
	struct rig_how how = plain;
	how.opts = opts;
	rig_start(rig, &how);
}

static void test_nothing_is_missing(void **state)
{
	(void)state;
	struct rig rig;
	start(&rig, NULL);
	first_is(&rig, "no look yet");
	model_give(rig.model, 0, 2 * BLOCK);
	rig_step(&rig, 0);
	first_is(&rig, "young: ");
	rig_run(&rig, 4 * SEC);
	first_is(&rig, "nothing stands in the way");
	rig_stop(&rig);
}

static void test_disabled(void **state)
{
	(void)state;
	struct rig rig;
	struct pagehint_reporter_opts opts = { .struct_size = sizeof(opts), .flags = PAGEHINT_REPORTER_DISABLED };
	start(&rig, &opts);
	model_give(rig.model, 0, 2 * BLOCK);
	rig_run(&rig, 4 * SEC);
	first_is(&rig, "disabled: nothing new is taken (4194304 bytes could be)");
	rig_stop(&rig);
}

static void test_no_region(void **state)
{
	(void)state;
	struct rig rig;
	start(&rig, NULL);
	rig.fake->regions_n = 1; /* of no frames */
	model_give(rig.model, 0, 2 * BLOCK);
	rig_run(&rig, 4 * SEC);
	first_is(&rig, "no region: ");
	rig_stop(&rig);
}

static void test_gate_closed_and_opened(void **state)
{
	(void)state;
	for (int async = 0; async < 2; async++) {
		struct rig rig;
		struct rig_how how = plain;
		how.async = async;
		how.max_runs = 2;
		rig_start(&rig, &how);
		assert_int_equal(pagehint_gate_close(rig.gate, PAGEHINT_INHIBIT_SNAPSHOT, NULL), 0);
		for (uint64_t b = 0; b < BLOCKS; b += 2)
			model_give(rig.model, b * BLOCK, BLOCK);
		for (uint64_t t = 2; t < 40; t += 2) {
			rig_run(&rig, t * SEC);
			first_is(&rig, "kept: the inhibit gate was closed");
		}
		assert_int_equal(rig.fake->batches, 0);
		/* one batch a look (two, where two are in flight before the first answer) was isolated for it */
		assert_true(rig_stats(&rig).isolated <= rig_stats(&rig).looks * 2 * (1 + async) * BLOCK * FRAME);
		assert_int_equal(rig_stats(&rig).backoffs, 0);
		assert_int_equal(pagehint_gate_open(rig.gate, PAGEHINT_INHIBIT_SNAPSHOT), 0);
		rig_run(&rig, 44 * SEC);
		assert_int_equal(model_count(rig.model, FRAME_REPORTED), 16 * BLOCK);
		rig_stop(&rig);
	}
}

static void test_pinned_region_does_not_stop_the_others(void **state)
{
	(void)state;
	struct rig rig;
	struct rig_how how = plain;
	how.max_runs = 2;
	rig_start(&rig, &how);
	rig.fake->answer = ANSWER_KEPT;
	rig.fake->why = PAGEHINT_WHY_PINNED;
	for (uint64_t b = 0; b < BLOCKS; b += 2)
		model_give(rig.model, b * BLOCK, BLOCK);
	rig.fake->regions_n = 2;
	rig.fake->regions[0] = (struct fake_region) { 0, 24 * BLOCK, 4096 };
	rig.fake->regions[1] = (struct fake_region) { 24 * BLOCK, 8 * BLOCK, 4096 };
	for (uint64_t t = 2; t < 40; t += 2) {
		rig_run(&rig, t * SEC);
		first_is(&rig, "kept: the region is pinned");
	}
	struct pagehint_reporter_stats s = rig_stats(&rig);
	assert_int_equal(s.kept_by[PAGEHINT_WHY_PINNED], s.kept);
	assert_int_equal(s.reported, 0);
	assert_int_equal(s.failed, 0);
	assert_int_equal(s.backoffs, 0);
	/* one batch a look at the most for the first region; the second takes what is its own */
	assert_true(rig.fake->batches <= 2 * s.looks);
	rig_stop(&rig);
}

static void test_below_order_and_below_least(void **state)
{
	(void)state;
	struct rig rig;
	start(&rig, NULL);
	model_give(rig.model, 1, BLOCK);
	rig_run(&rig, 4 * SEC);
	first_is(&rig, "below order: in blocks smaller than order 9 (2097152 bytes)");
	rig_stop(&rig);

	struct rig_how how = plain;
	how.order = 4;
	rig_start(&rig, &how);
	rig.fake->regions_n = 1;
	rig.fake->regions[0] = (struct fake_region) { 0, BLOCKS * BLOCK, 2 * MIB };
	model_give(rig.model, 16, 32);
	rig_run(&rig, 4 * SEC);
	first_is(&rig, "below least: smaller than what frees anything on its backing (131072 bytes)");
	assert_int_equal(rig_stats(&rig).below_least, 32 * FRAME);
	assert_int_equal(rig_stats(&rig).isolated, 0);
	rig_stop(&rig);
}

static void test_held_back(void **state)
{
	(void)state;
	struct rig rig;
	struct pagehint_reporter_opts opts = { .struct_size = sizeof(opts), .watermark = 6 * MIB };
	start(&rig, &opts);
	model_give(rig.model, 0, 10 * BLOCK);
	rig_run(&rig, 4 * SEC);
	first_is(&rig, "held back: watermark or recent re-use (6291456 bytes)");
	assert_int_equal(rig_stats(&rig).reported, 14 * MIB);
	assert_int_equal(rig_stats(&rig).held_back, 6 * MIB);
	assert_true(model_is(rig.model, 7 * BLOCK, 3 * BLOCK, FRAME_FREE)); /* the highest */
	rig_stop(&rig);
}

static void test_backing_off(void **state)
{
	(void)state;
	struct rig rig;
	start(&rig, NULL);
	rig.fake->answer = ANSWER_FAILED;
	rig.fake->why = PAGEHINT_WHY_SYSCALL;
	model_give(rig.model, 0, 10 * BLOCK);
	rig_run(&rig, 3 * SEC);
	first_is(&rig, "backing off: 2000 ms more after failure 1 in a row, error 5");
	assert_true(rig_said(&rig, "kept: the kernel refused"));
	rig_stop(&rig);
}

static void test_hidden(void **state)
{
	(void)state;
	struct rig rig;
	start(&rig, NULL);
	rig.model->hidden = 100;
	rig_run(&rig, 4 * SEC);
	first_is(&rig, "hidden: free, but in caches (409600 bytes)");
	rig_stop(&rig);
}

/* Ten blocks are free, and the backend takes them and says nothing. */
static void start_silent(struct rig *rig)
{
	struct rig_how how = plain;
	how.async = 1;
	rig_start(rig, &how);
	rig->fake->silent = 1;
	model_give(rig->model, 0, 10 * BLOCK);
}

static void test_silent_backend(void **state)
{
	(void)state;
	struct rig rig;
	start_silent(&rig);
	rig_run(&rig, 5 * SEC);
	rig_explain(&rig);
	assert_false(rig_said(&rig, "backend silent"));
	rig_run(&rig, 8 * SEC);
	first_is(&rig, "backend silent: no answer for 6000 ms, 20971520 bytes in flight");
	rig.fake->silent = 0;
	rig_stop(&rig);
}

/* Many small rests are young at the last look that was over; what holds the rest up is the look that waits now. */
static void test_rate_and_room(void **state)
{
	(void)state;
	struct rig rig;
	struct pagehint_reporter_opts opts = { .struct_size = sizeof(opts), .rate = MIB };
	start(&rig, &opts);
	model_give(rig.model, 0, 10 * BLOCK);
	rig_step(&rig, 0);
	first_is(&rig, "young: ");
	rig_run(&rig, 3 * SEC);
	assert_true(rig.rep->cycle.last.young != 0);
	first_is(&rig, "rate: waiting");
	rig_run(&rig, 60 * SEC);
	first_is(&rig, "nothing stands in the way");
	rig_stop(&rig);

	struct rig_how how = plain;
	how.async = 1;
	how.max_runs = 1;
	rig_start(&rig, &how);
	rig.fake->silent = 1;
	for (uint64_t b = 0; b < BLOCKS; b += 2)
		model_give(rig.model, b * BLOCK, BLOCK);
	rig_run(&rig, 3 * SEC);
	assert_true(rig.rep->cycle.last.young != 0);
	first_is(&rig, "room: waiting");
	assert_true(rig_said(&rig, "in flight: 4194304 bytes"));
	rig.fake->silent = 0;
	rig_stop(&rig);
}

/* Behind a closed gate it is the gate, whatever the rate; and it is not waited for the rate there. */
static void test_the_gate_comes_before_the_rate(void **state)
{
	(void)state;
	struct rig rig;
	struct pagehint_reporter_opts opts = { .struct_size = sizeof(opts), .rate = MIB };
	start(&rig, &opts);
	assert_int_equal(pagehint_gate_close(rig.gate, PAGEHINT_INHIBIT_SNAPSHOT, NULL), 0);
	model_give(rig.model, 0, 10 * BLOCK);
	for (uint64_t t = 2; t < 40; t++) {
		rig_run(&rig, t * SEC);
		first_is(&rig, "kept: the inhibit gate was closed");
	}
	assert_int_equal(pagehint_gate_open(rig.gate, PAGEHINT_INHIBIT_SNAPSHOT), 0);
	rig_stop(&rig);
}

static void test_everything_is_in_flight(void **state)
{
	(void)state;
	struct rig rig;
	start_silent(&rig);
	for (uint64_t t = 20; t < 60; t++) { /* up to two intervals after it was sent */
		rig_run(&rig, t * SEC / 10);
		first_is(&rig, "in flight: 20971520 bytes");
	}
	rig_run(&rig, 6 * SEC);
	first_is(&rig, "backend silent: ");
	assert_false(rig_said(&rig, "in flight: 20971520 bytes"));
	rig.fake->silent = 0;
	rig_run(&rig, 9 * SEC);
	first_is(&rig, "nothing stands in the way");
	rig_stop(&rig);
}

/* Kept at the edges of what was given back is said, but after what holds the rest up. */
static void test_edges_and_what_is_in_vain(void **state)
{
	(void)state;
	struct rig rig;
	struct pagehint_reporter_opts opts = { .struct_size = sizeof(opts), .rate = MIB };
	start(&rig, &opts);
	rig.fake->answer = ANSWER_HALF;
	model_give(rig.model, 0, 10 * BLOCK);
	rig_run(&rig, 3 * SEC);
	first_is(&rig, "rate: waiting");
	assert_true(rig_said(&rig, "kept: clean page-cache pages"));
	rig_stop(&rig);

	start(&rig, NULL);
	rig.fake->answer = ANSWER_KEPT;
	rig.fake->why = PAGEHINT_WHY_PAGE_CACHE;
	model_give(rig.model, 0, 10 * BLOCK);
	for (uint64_t t = 2; t < 100; t++) {
		rig_run(&rig, t * SEC);
		first_is(&rig, "kept: clean page-cache pages");
	}
	/* tried at 2, 6 (it aged anew), 10, 18, 34 and 66 s, the last look was at 98 s */
	first_is(&rig, "kept: clean page-cache pages of a file; in vain 6 times, not tried for 32000 ms more "
		       "(20971520 bytes)");
	rig_stop(&rig);
}

static void test_nobody_to_tell(void **state)
{
	(void)state;
	struct rig rig;
	struct pagehint_sink deaf = { &rig, NULL };
	start(&rig, NULL);
	for (int forked = 0; forked < 2; forked++) {
		rig.pid += forked;
		pagehint_reporter_explain(rig.rep, NULL);
		pagehint_reporter_explain(rig.rep, &deaf);
		pagehint_reporter_explain(NULL, &deaf);
	}
	rig.pid--;
	first_is(&rig, "no look yet");
	rig_stop(&rig);
}

static void test_origin_that_fails(void **state)
{
	(void)state;
	struct rig rig;
	start(&rig, NULL);
	rig.model->fail_at = 2; /* the harvest of the first look */
	rig.model->fail_with = -EIO;
	rig_step(&rig, 0);
	first_is(&rig, "origin: 1 calls failed in the last look, error 5");
	rig_run(&rig, 6 * SEC);
	first_is(&rig, "nothing stands in the way");
	rig_stop(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_is_missing),
		cmocka_unit_test(test_disabled),
		cmocka_unit_test(test_no_region),
		cmocka_unit_test(test_gate_closed_and_opened),
		cmocka_unit_test(test_pinned_region_does_not_stop_the_others),
		cmocka_unit_test(test_below_order_and_below_least),
		cmocka_unit_test(test_held_back),
		cmocka_unit_test(test_backing_off),
		cmocka_unit_test(test_hidden),
		cmocka_unit_test(test_silent_backend),
		cmocka_unit_test(test_rate_and_room),
		cmocka_unit_test(test_the_gate_comes_before_the_rate),
		cmocka_unit_test(test_everything_is_in_flight),
		cmocka_unit_test(test_edges_and_what_is_in_vain),
		cmocka_unit_test(test_nobody_to_tell),
		cmocka_unit_test(test_origin_that_fails),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
