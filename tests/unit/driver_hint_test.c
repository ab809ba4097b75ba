/* Hint runs: ids, pages, STOP, and frames that stay until DONE. */
#include "support/balloon_serve.h"

static void want(struct dev *d, uint32_t id)
{
	d->config[PAGEHINT_BALLOON_CONFIG_HINT_CMD_ID / 4] = id;
	d->generation++;
}

static uint64_t hinted_pages(const struct dev *d)
{
	uint64_t bytes = 0;
	for (uint32_t i = 0; i < d->hints_n; i++)
		bytes += d->hints[i].len;
	return bytes >> 12;
}

static void test_a_whole_run(void **state)
{
	(void)state;
	struct dev *d = dev_new();
	d->take_most = 5000;
	dev_start(d);
	dev_settle(d, 2);
	assert_int_equal(d->ids_n, 0);
	want(d, 7);
	dev_settle(d, 3);
	assert_int_equal(d->ids_n, 2);
	assert_int_equal(d->ids[0], 7);
	assert_int_equal(d->ids[1], PAGEHINT_BALLOON_HINT_STOP);
	assert_int_equal(hinted_pages(d), 5000);
	assert_int_equal(dev_stats(d).hinting, 5000);
	assert_int_equal(dev_stats(d).hinted, 5000);
	assert_int_equal(dev_stats(d).hint_id, 7);
	/* they are kept however long it takes */
	dev_settle(d, 1000 * SECOND_NS);
	assert_int_equal(d->with_driver, 5000);
	assert_int_equal(d->ids_n, 2);
	want(d, PAGEHINT_BALLOON_HINT_DONE);
	dev_settle(d, 1001 * SECOND_NS);
	assert_int_equal(d->with_driver, 0);
	assert_int_equal(dev_stats(d).hinting, 0);
	/* the host may use the id again after the STOP */
	want(d, 7);
	dev_settle(d, 1002 * SECOND_NS);
	assert_int_equal(d->ids_n, 4);
	assert_int_equal(d->ids[2], 7);
	dev_delete(d);
}

static void test_a_new_round_tells_only_what_is_new(void **state)
{
	(void)state;
	struct dev *d = dev_new();
	d->take_most = 3000;
	dev_start(d);
	want(d, 2);
	dev_settle(d, 2);
	assert_int_equal(hinted_pages(d), 3000);
	d->take_most += 1000; /* somebody freed some */
	want(d, PAGEHINT_BALLOON_HINT_STOP);
	dev_settle(d, 3);
	want(d, 3);
	dev_settle(d, 4);
	assert_int_equal(hinted_pages(d), 4000);
	assert_int_equal(d->with_driver, 4000);
	const uint32_t expected[] = { 2, 0, 3, 0 };
	assert_int_equal(d->ids_n, 4);
	assert_memory_equal(d->ids, expected, sizeof(expected));
	dev_delete(d);
}

static void test_a_run_that_is_cancelled(void **state)
{
	(void)state;
	struct dev *d = dev_new();
	uint64_t deadline;
	d->queue_max[3] = 8;
	d->run_frames = 16;
	dev_start(d);
	want(d, 5);
	/* the ring is full, the rest waits */
	assert_int_equal(dev_step(d, 2, &deadline), 0);
	uint64_t taken = d->with_driver;
	assert_true(taken != 0 && taken < d->take_most);
	want(d, PAGEHINT_BALLOON_HINT_STOP);
	dev_settle(d, 3);
	assert_int_equal(d->with_driver, taken);
	assert_int_equal(d->ids[d->ids_n - 1], PAGEHINT_BALLOON_HINT_STOP);
	want(d, PAGEHINT_BALLOON_HINT_DONE);
	/* nothing returns that the device has not used */
	dev_settle(d, 4);
	assert_int_equal(d->with_driver, 0);
	dev_delete(d);
}

static void test_done_waits_for_the_device(void **state)
{
	(void)state;
	struct dev *d = dev_new();
	uint64_t deadline;
	d->take_most = 2048;
	dev_start(d);
	want(d, 5);
	assert_int_equal(dev_step(d, 2, &deadline), 0);
	want(d, PAGEHINT_BALLOON_HINT_DONE);
	assert_int_equal(dev_step(d, 3, &deadline), 0);
	assert_int_equal(d->with_driver, 2048);
	assert_int_equal(dev_serve(d, PAGEHINT_BALLOON_Q_HINT, DEV_EVERYTHING), 6);
	assert_int_equal(dev_step(d, 4, &deadline), 0);
	assert_int_equal(d->with_driver, 0);
	dev_delete(d);
}

static void test_the_list_is_a_bound(void **state)
{
	(void)state;
	struct dev *d = dev_new();
	d->opts.max_hints = 40;
	d->run_frames = 1;
	dev_start(d);
	want(d, 9);
	dev_settle(d, 2);
	assert_int_equal(d->with_driver, 40);
	assert_int_equal(d->hints_n, 40);
	assert_int_equal(d->ids[1], PAGEHINT_BALLOON_HINT_STOP);
	dev_delete(d);
}

/* One run that is longer than was asked for, each time. */
static uint32_t long_takes;
static int take_too_long(void *ctx, uint32_t what_for, uint64_t frames, struct pagehint_run *runs, uint32_t max,
			 uint32_t *ret_n)
{
	struct dev *d = ctx;
	d->run_frames = frames + 1;
	assert_true(++long_takes < 100);
	return dev_take(ctx, what_for, frames + 1, runs, max < 1 ? max : 1, ret_n);
}

static void test_a_take_that_is_wrong_ends_the_run(void **state)
{
	(void)state;
	struct dev *d = dev_new();
	d->opts.frame_shift = 20; /* a descriptor has 1024 of these */
	d->ops.take = take_too_long;
	long_takes = 0;
	dev_start(d);
	want(d, 5);
	dev_settle(d, 2);
	assert_int_equal(long_takes, 1);
	assert_int_equal(d->with_driver, 0);
	assert_int_equal(dev_stats(d).hinting, 0);
	assert_int_equal(d->hints_n, 0);
	assert_int_equal(d->ids_n, 2); /* begun, and ended in order */
	assert_int_equal(d->ids[1], PAGEHINT_BALLOON_HINT_STOP);
	dev_delete(d);
}

static void test_memory_is_wanted_elsewhere(void **state)
{
	(void)state;
	struct dev *d = dev_new();
	uint64_t given = 0, deadline;
	d->offered &= ~PAGEHINT_BALLOON_F_DEFLATE_ON_OOM;
	d->take_most = 8000;
	dev_start(d);
	want(d, 5);
	dev_settle(d, 2);
	assert_int_equal(d->with_driver, 8000);
	assert_int_equal(pagehint_driver_oom(d->driver, 1000, 3, &given), 0);
	assert_in_range(given, 1000, 1511);
	assert_int_equal(d->with_driver, 8000 - given);
	assert_int_equal(dev_step(d, 4, &deadline), 0);
	dev_delete(d);
}

static void test_a_reset_in_the_middle(void **state)
{
	(void)state;
	struct dev *d = dev_new();
	uint64_t deadline;
	dev_start(d);
	want(d, 5);
	dev_target(d, 700);
	assert_int_equal(dev_step(d, 2, &deadline), 0);
	assert_true(dev_stats(d).hinting != 0);
	assert_int_equal(pagehint_driver_reset(d->driver, 3), 0);
	assert_int_equal(d->with_driver, 0);
	memset(d->told, 0, sizeof(d->told));
	d->told_n = 0;
	assert_int_equal(pagehint_driver_start(d->driver, 4), 0);
	dev_settle(d, 5);
	assert_int_equal(d->told_n, 700);
	assert_int_equal(d->ids[0], 5); /* the run goes on with the device as it is now */
	dev_delete(d);
}

/* Frames that are wanted elsewhere are not taken for hints in the same breath. */
static void test_out_of_memory_ends_a_run(void **state)
{
	(void)state;
	struct dev *d = dev_new();
	uint64_t given = 0, deadline;
	d->queue_max[PAGEHINT_BALLOON_Q_HINT] = 4;
	dev_start(d);
	want(d, 5);
	assert_int_equal(dev_step(d, 2, &deadline), 0);
	assert_int_equal(dev_serve(d, PAGEHINT_BALLOON_Q_HINT, DEV_EVERYTHING), 4); /* the id, and three runs */
	uint32_t told = d->hints_n;
	assert_int_equal(told, 3);
	(void)!pagehint_driver_oom(d->driver, 1, 3, &given);
	dev_settle(d, 4);
	assert_int_equal(d->hints_n, told);
	assert_int_equal(d->ids_n, 2);
	assert_int_equal(d->ids[1], PAGEHINT_BALLOON_HINT_STOP);
	dev_delete(d);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_whole_run),
		cmocka_unit_test(test_a_new_round_tells_only_what_is_new),
		cmocka_unit_test(test_a_run_that_is_cancelled),
		cmocka_unit_test(test_done_waits_for_the_device),
		cmocka_unit_test(test_the_list_is_a_bound),
		cmocka_unit_test(test_a_take_that_is_wrong_ends_the_run),
		cmocka_unit_test(test_memory_is_wanted_elsewhere),
		cmocka_unit_test(test_a_reset_in_the_middle),
		cmocka_unit_test(test_out_of_memory_ends_a_run),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
