/* a reporter among backends, origins, callers and options that are not as they should be */
#include <errno.h>
#include <string.h>

#include "fakes/rig.h"
#include "report/reporter.h"

#define BLOCKS 32u
#define BLOCK 512u /* frames of order 9 */

static const struct rig_how plain = { .frames = BLOCKS * BLOCK, .order = 9, .max_runs = 8 };
static const struct rig_how later = { .frames = BLOCKS * BLOCK, .order = 9, .max_runs = 8, .async = 1 };

static void test_time_that_goes_back_is_no_long_silence(void **state)
{
	(void)state;
	struct rig rig;
	rig_start(&rig, &later);
	rig.fake->silent = 1;
	model_give(rig.model, 0, BLOCK);
	rig_run(&rig, 3 * SEC);
	assert_int_equal(rig_stats(&rig).in_flight, BLOCK * FRAME);
	rig.now = SEC;
	rig_step(&rig, 0);
	rig_explain(&rig);
	assert_false(rig_said(&rig, "backend silent"));
	rig.fake->silent = 0;
	rig_stop(&rig);
}

/* What a backend refused was not given back, so it does not count against the rate. */
static void test_refused_is_not_paid_for(void **state)
{
	(void)state;
	struct rig rig;
	struct pagehint_reporter_opts opts = { .struct_size = sizeof(opts), .rate = MIB / 100 };
	struct rig_how how = later;
	how.opts = &opts;
	rig_start(&rig, &how);
	model_give(rig.model, 0, BLOCK);
	rig.fake->error = -EIO;
	rig_run(&rig, 2 * SEC);
	assert_int_equal(rig_stats(&rig).kept, BLOCK * FRAME);
	assert_int_equal(rig_stats(&rig).failed, BLOCK * FRAME);
	rig.fake->error = 0;
	rig_run(&rig, 8 * SEC); /* aged anew; a bucket takes 200 s to fill */
	assert_int_equal(rig_stats(&rig).reported, BLOCK * FRAME);
	rig_stop(&rig);
}

static void test_asynchronous_batches_and_stop(void **state)
{
	(void)state;
	struct rig rig;
	rig_start(&rig, &later);
	rig.fake->silent = 1;
	for (uint64_t b = 0; b < BLOCKS; b += 2) /* 16 runs: two batches of 8 */
		model_give(rig.model, b * BLOCK, BLOCK);
	rig_run(&rig, 2 * SEC);
	assert_int_equal(rig_stats(&rig).in_flight, 16 * BLOCK * FRAME);
	assert_int_equal(rig.fake->held_n, 2);
	assert_int_equal(pagehint_reporter_free(rig.rep), -EBUSY);
	uint64_t deadline = 5;
	assert_int_equal(pagehint_reporter_stop(rig.rep, rig.now, &deadline), -EAGAIN);
	assert_true(deadline > rig.now && deadline <= rig.now + 2 * SEC);
	rig.fake->silent = 0;
	rig.fake->backwards = 1;
	assert_int_equal(pagehint_reporter_stop(rig.rep, deadline, &deadline), 0);
	assert_int_equal(rig_stats(&rig).reported, 16 * BLOCK * FRAME);
	assert_int_equal(rig.model->taken, 0);
	pagehint_reporter_enable(rig.rep, 1); /* and it can go on */
	model_give(rig.model, BLOCK, BLOCK);
	rig_run(&rig, rig.now + 20 * SEC);
	assert_int_equal(rig_stats(&rig).reported, 17 * BLOCK * FRAME);
	rig_stop(&rig);
}

static void test_a_silent_backend_wakes_nobody_often(void **state)
{
	(void)state;
	struct rig rig;
	rig_start(&rig, &later);
	rig.fake->silent = 1;
	model_give(rig.model, 0, BLOCKS * BLOCK);
	rig_run(&rig, 20 * SEC);
	uint64_t before = rig.steps;
	rig_run(&rig, 2020 * SEC);
	assert_true(rig.steps - before <= 1001); /* 1000 intervals */
	rig.fake->silent = 0;
	rig_stop(&rig);
}

static void test_less_room_than_thought(void **state)
{
	(void)state;
	struct rig rig;
	struct pagehint_reporter_opts opts = { .struct_size = sizeof(opts), .max_in_flight = 4 };
	struct rig_how how = later;
	how.opts = &opts;
	how.max_runs = 2;
	rig_start(&rig, &how);
	rig.fake->capacity = 1;
	rig.fake->silent = 1;
	for (uint64_t b = 0; b < BLOCKS; b += 2)
		model_give(rig.model, b * BLOCK, BLOCK);
	rig_run(&rig, 2 * SEC);
	assert_int_equal(rig.fake->held_n, 1);
	assert_int_equal(rig_stats(&rig).in_flight, 2 * BLOCK * FRAME);
	assert_int_equal(rig_stats(&rig).kept_by[PAGEHINT_WHY_NOT_TRIED],
			 2 * BLOCK * FRAME); /* refused once, then known */
	assert_int_equal(rig_stats(&rig).backoffs, 0);
	rig.fake->silent = 0;
	rig_run(&rig, 60 * SEC);
	assert_int_equal(model_count(rig.model, FRAME_REPORTED), 16 * BLOCK);
	/* and when there is more room again, it is found */
	rig.fake->capacity = 4;
	rig.fake->silent = 1;
	for (uint64_t b = 1; b < BLOCKS; b += 2)
		model_set(rig.model, (b - 1) * BLOCK, BLOCK, FRAME_USED);
	for (uint64_t b = 1; b < BLOCKS; b += 2)
		model_give(rig.model, b * BLOCK, BLOCK);
	rig_run(&rig, 66 * SEC);
	assert_int_equal(rig.fake->held_n, 4);
	rig.fake->silent = 0;
	rig_stop(&rig);
}

static void again(void *ctx)
{
	struct rig *rig = ctx;
	uint64_t deadline = 99;
	assert_int_equal(pagehint_reporter_step(rig->rep, rig->now, 0, &deadline), -EDEADLK);
	assert_int_equal(pagehint_reporter_stop(rig->rep, rig->now, &deadline), -EDEADLK);
	assert_int_equal(pagehint_reporter_free(rig->rep), -EBUSY);
	assert_int_equal(deadline, 99);
	rig_stats(rig);
	rig_explain(rig);
	pagehint_reporter_enable(rig->rep, 1);
	rig->polls++;
}

static void test_calls_back_in(void **state)
{
	(void)state;
	for (int async = 0; async < 2; async++) {
		struct rig rig;
		rig_start(&rig, async ? &later : &plain);
		rig.fake->during = rig.model->during = again;
		rig.fake->during_ctx = rig.model->during_ctx = &rig;
		model_give(rig.model, 0, 3 * BLOCK);
		rig_run(&rig, 4 * SEC);
		assert_true(rig.polls >= 4); /* harvest, discard or submit, release */
		assert_int_equal(rig_stats(&rig).reported, 3 * BLOCK * FRAME);
		rig.fake->during = rig.model->during = NULL;
		rig_stop(&rig);
	}
}

static void test_probe_is_passed_on(void **state)
{
	(void)state;
	for (uint32_t probe = 0; probe < 2; probe++) {
		struct rig rig;
		struct pagehint_reporter_opts opts = { .struct_size = sizeof(opts),
						       .flags = probe * PAGEHINT_REPORTER_PROBE };
		struct rig_how how = plain;
		how.opts = &opts;
		rig_start(&rig, &how);
		model_give(rig.model, 0, BLOCK);
		rig_run(&rig, 2 * SEC);
		assert_int_equal(rig.fake->last_flags, probe * PAGEHINT_DISCARD_PROBE);
		rig_stop(&rig);
	}
}

static void refused(struct rig *rig, const struct pagehint_reporter_opts *opts, int with)
{
	struct pagehint_reporter *rep = (void *)rig;
	assert_int_equal(pagehint_reporter_new(rig->origin, rig->backend, opts, &rep), with);
	assert_ptr_equal(rep, rig);
}

static void test_bad_options(void **state)
{
	(void)state;
	struct rig rig;
	struct {
		struct pagehint_reporter_opts o;
		uint64_t more;
	} longer;
	rig_start(&rig, &plain);
	memset(&longer, 0, sizeof(longer));
	longer.o.struct_size = sizeof(longer.o);
	struct pagehint_reporter_opts *o = &longer.o;
	o->flags = 8;
	refused(&rig, o, -EINVAL);
	o->flags = PAGEHINT_REPORTER_PSI;
	o->psi_fd = -1;
	refused(&rig, o, -EINVAL);
	o->flags = 0;
	o->max_in_flight = 65;
	refused(&rig, o, -EINVAL);
	o->max_in_flight = 64;
	o->holdback_intervals = 65;
	refused(&rig, o, -EINVAL);
	o->holdback_intervals = 64;
	rig.origin->ops.get_free = NULL; /* cannot say what is free */
	refused(&rig, o, -EINVAL);
	o->holdback_intervals = 0;
	o->watermark = 1;
	refused(&rig, o, -EINVAL);
	o->watermark = 0;
	rig.origin->ops.frame_shift = 14;
	refused(&rig, o, -EINVAL);
	rig.origin->ops.frame_shift = 12;
	o->struct_size = 3;
	refused(&rig, o, -EINVAL);
	o->struct_size = sizeof(longer);
	longer.more = 1;
	refused(&rig, o, -E2BIG);
	longer.more = 0;
	struct pagehint_reporter *rep = NULL;
	assert_int_equal(pagehint_reporter_new(rig.origin, rig.backend, o, &rep), 0);
	assert_int_equal(pagehint_reporter_free(rep), 0);
	assert_int_equal(pagehint_reporter_new(NULL, rig.backend, NULL, &rep), -EINVAL);
	assert_int_equal(pagehint_reporter_new(rig.origin, NULL, NULL, &rep), -EINVAL);
	assert_int_equal(pagehint_reporter_new(rig.origin, rig.backend, NULL, NULL), -EINVAL);
	uint64_t deadline;
	assert_int_equal(pagehint_reporter_step(NULL, 0, 0, &deadline), -EINVAL);
	assert_int_equal(pagehint_reporter_step(rig.rep, 0, 0, NULL), -EINVAL);
	assert_int_equal(pagehint_reporter_stop(NULL, 0, &deadline), -EINVAL);
	assert_int_equal(pagehint_reporter_pressure(NULL, 0, 0), -EINVAL);
	assert_int_equal(pagehint_reporter_free(NULL), 0);
	pagehint_reporter_enable(NULL, 1);
	rig_stop(&rig);
}

static void test_statistics_by_size(void **state)
{
	(void)state;
	struct rig rig;
	struct {
		struct pagehint_reporter_stats s;
		uint64_t more;
	} longer;
	rig_start(&rig, &plain);
	rig_step(&rig, 0);
	memset(&longer, 0xff, sizeof(longer));
	longer.s.struct_size = 16;
	assert_int_equal(pagehint_reporter_stats(rig.rep, &longer.s), 0);
	assert_int_equal(longer.s.steps, 1);
	assert_true(longer.s.looks == UINT64_MAX);
	longer.s.struct_size = sizeof(longer);
	assert_int_equal(pagehint_reporter_stats(rig.rep, &longer.s), 0);
	assert_int_equal(longer.s.struct_size, sizeof(longer));
	assert_int_equal(longer.s.looks, 1);
	assert_int_equal(longer.more, 0);
	longer.s.struct_size = 7;
	assert_int_equal(pagehint_reporter_stats(rig.rep, &longer.s), -EINVAL);
	assert_int_equal(pagehint_reporter_stats(rig.rep, NULL), -EINVAL);
	assert_int_equal(pagehint_reporter_stats(NULL, &longer.s), -EINVAL);
	rig_stop(&rig);
}

/* An origin that does not get on must not keep the step. */
static int spans_that_stand(void *ctx, uint64_t from, struct pagehint_run *ret_span)
{
	(void)ctx;
	(void)from;
	*ret_span = (struct pagehint_run) { 0, BLOCK };
	return 0;
}

static int harvest_that_stands(void *ctx, const struct pagehint_harvest *ask, struct pagehint_run *runs,
			       struct pagehint_harvested *ret)
{
	(void)ctx;
	(void)runs;
	*ret = (struct pagehint_harvested) { .next = ask->from };
	return 0;
}

static int harvest_that_runs_away(void *ctx, const struct pagehint_harvest *ask, struct pagehint_run *runs,
				  struct pagehint_harvested *ret)
{
	(void)ctx;
	(void)runs;
	*ret = (struct pagehint_harvested) { .next = ask->to + 1 };
	return 0;
}

static void test_an_origin_that_does_not_get_on(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		struct rig rig;
		rig_start(&rig, &plain);
		if (i == 0)
			rig.origin->ops.next_span = spans_that_stand;
		else
			rig.origin->ops.harvest = i == 1 ? harvest_that_stands : harvest_that_runs_away;
		model_give(rig.model, 0, BLOCK);
		rig_run(&rig, 6 * SEC);
		assert_int_equal(rig.steps, 4);
		assert_int_equal(rig_stats(&rig).reported, i == 0 ? BLOCK * FRAME : 0);
		rig_explain(&rig);
		assert_true(rig_said(&rig, "origin: 1 calls failed in the last look, error 22"));
		rig_stop(&rig);
	}
}

static void test_a_success_ends_the_doubling(void **state)
{
	(void)state;
	struct rig rig;
	rig_start(&rig, &plain);
	model_give(rig.model, 0, BLOCK);
	rig.fake->error = -EIO;
	rig_run(&rig, 60 * SEC);
	assert_true(rig_stats(&rig).backoffs >= 4);
	rig.fake->error = 0;
	rig_run(&rig, 200 * SEC);
	assert_int_equal(rig_stats(&rig).reported, BLOCK * FRAME);
	model_give(rig.model, BLOCK, BLOCK);
	rig.fake->error = -EIO;
	rig_run(&rig, 204 * SEC);
	rig_explain(&rig);
	assert_true(rig_said(&rig, "backing off: 2000 ms more after failure 1 in a row"));
	rig.fake->error = 0;
	rig_stop(&rig);
}

/* A look that pressure begins does not end the interval in which re-use is counted. */
static void test_pressure_does_not_shorten_the_window(void **state)
{
	(void)state;
	struct rig rig;
	struct pagehint_reporter_opts opts = { .struct_size = sizeof(opts), .holdback_intervals = 1 };
	struct rig_how how = plain;
	how.opts = &opts;
	rig_start(&rig, &how);
	model_give(rig.model, 0, 8 * BLOCK);
	rig_run(&rig, 2 * SEC);
	assert_int_equal(model_count(rig.model, FRAME_REPORTED), 8 * BLOCK);
	assert_int_equal(model_alloc(rig.model, 0, 4 * BLOCK), 0);
	model_give(rig.model, 0, 4 * BLOCK);
	for (int i = 0; i < 6; i++) {
		assert_int_equal(pagehint_reporter_pressure(rig.rep, i % 2 == 0 ? PAGEHINT_PRESSURE_SOME : 0, 0), 0);
		rig.now += SEC / 10;
		rig_step(&rig, 0);
		assert_int_equal(model_count(rig.model, FRAME_FREE), 4 * BLOCK);
	}
	rig_stop(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_time_that_goes_back_is_no_long_silence),
		cmocka_unit_test(test_refused_is_not_paid_for),
		cmocka_unit_test(test_asynchronous_batches_and_stop),
		cmocka_unit_test(test_a_silent_backend_wakes_nobody_often),
		cmocka_unit_test(test_less_room_than_thought),
		cmocka_unit_test(test_calls_back_in),
		cmocka_unit_test(test_probe_is_passed_on),
		cmocka_unit_test(test_bad_options),
		cmocka_unit_test(test_statistics_by_size),
		cmocka_unit_test(test_an_origin_that_does_not_get_on),
		cmocka_unit_test(test_a_success_ends_the_doubling),
		cmocka_unit_test(test_pressure_does_not_shorten_the_window),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
