/* The balloon and its target, out of memory, statistics, and the time at which each wants to be called again. */
#include "support/balloon_serve.h"

static uint32_t actual(const struct dev *d)
{
	return d->config[PAGEHINT_BALLOON_CONFIG_ACTUAL / 4];
}

static void test_the_balloon_follows_its_target(void **state)
{
	(void)state;
	static const uint32_t targets[] = { 1, 5000, 5000, 4999, 20000, 3, 0, 12345 };
	struct dev *d = dev_new();
	dev_start(d);
	for (uint32_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
		dev_target(d, targets[i]);
		dev_settle(d, 2);
		assert_int_equal(actual(d), targets[i]);
		assert_int_equal(d->told_n, targets[i]);
		assert_int_equal(dev_stats(d).held, targets[i]);
		assert_int_equal(d->with_driver, targets[i]);
	}
	assert_int_equal(dev_stats(d).inflated - dev_stats(d).deflated, 12345);
	assert_int_equal(pagehint_driver_reset(d->driver, 3), 0);
	assert_int_equal(d->with_driver, 0);
	dev_delete(d);
}

static void test_actual_follows_answers(void **state)
{
	(void)state;
	struct dev *d = dev_new();
	uint64_t deadline;
	dev_start(d);
	dev_target(d, 3000);
	assert_int_equal(dev_step(d, 2, &deadline), 0);
	/* on their way: not in the balloon yet, whatever the target */
	assert_int_equal(dev_stats(d).inflating, 3000);
	assert_int_equal(actual(d), 0);
	assert_int_equal(d->kicks, 2); /* the first statistics, and one for three requests */
	assert_int_equal(dev_serve(d, PAGEHINT_BALLOON_Q_INFLATE, 1), 1);
	assert_int_equal(dev_step(d, 3, &deadline), 0);
	assert_int_equal(actual(d), 1024);
	dev_settle(d, 4);
	assert_int_equal(actual(d), 3000);
	/* the way back counts until the device knows */
	dev_target(d, 0);
	assert_int_equal(dev_step(d, 5, &deadline), 0);
	assert_int_equal(dev_stats(d).deflating, 3000);
	assert_int_equal(actual(d), 3000);
	assert_int_equal(d->with_driver, 3000);
	dev_settle(d, 6);
	assert_int_equal(actual(d), 0);
	assert_int_equal(d->with_driver, 0);
	dev_delete(d);
}

static void test_larger_frames(void **state)
{
	(void)state;
	struct dev *d = dev_new();
	d->opts.frame_shift = 14;
	d->run_frames = 128;
	d->take_most = 4000;
	dev_start(d);
	/* four pages a frame; what is no whole frame is left */
	dev_target(d, 4 * 1000 + 3);
	dev_settle(d, 2);
	assert_int_equal(d->with_driver, 1000);
	assert_int_equal(d->told_n, 4000);
	assert_int_equal(actual(d), 4000);
	dev_delete(d);
}

static void test_before_inflate_comes_first_and_once(void **state)
{
	(void)state;
	struct dev *d = dev_new();
	dev_start(d);
	dev_target(d, 9000);
	dev_settle(d, 2);
	assert_int_equal(d->before_n, 1);
	assert_int_equal(d->order[0], 'b');
	assert_int_equal(d->order[1], 't');
	dev_target(d, 9500);
	dev_settle(d, 3);
	assert_int_equal(d->before_n, 2);
	dev_delete(d);
}

static void test_a_stuck_balloon_is_quiet(void **state)
{
	(void)state;
	struct dev *d = dev_new();
	uint64_t now = SECOND_NS, deadline = 0;
	dev_start(d);
	d->take_error = -ENOSPC;
	dev_target(d, 1000);
	uint32_t wakes = 0;
	for (; now < 100 * SECOND_NS; wakes++) {
		assert_int_equal(pagehint_driver_step(d->driver, now, &deadline), 0);
		assert_true(deadline > now);
		now = deadline;
	}
	/* 1 + 2 + 4 .. 32 s: rather less than once a second */
	assert_true(wakes <= 10);
	assert_true(d->takes >= 3);
	assert_int_equal(dev_stats(d).take_failures, d->takes);
	d->take_error = 0;
	dev_settle(d, now);
	assert_int_equal(actual(d), 1000);
	dev_delete(d);
}

static int take_wrong(void *ctx, uint32_t what_for, uint64_t frames, struct pagehint_run *runs, uint32_t max,
		      uint32_t *ret_n)
{
	struct dev *d = ctx;
	int r = dev_take(ctx, what_for, frames + (d->takes == 0), runs, max, ret_n); /* one frame too many */
	return r;
}

static void test_a_take_that_is_wrong_is_given_back(void **state)
{
	(void)state;
	struct dev *d = dev_new();
	uint64_t deadline;
	d->ops.take = take_wrong;
	dev_start(d);
	dev_target(d, 100);
	assert_int_equal(dev_step(d, 2, &deadline), 0);
	assert_int_equal(d->with_driver, 0);
	assert_int_equal(dev_stats(d).take_failures, 1);
	dev_settle(d, 2 + SECOND_NS);
	assert_int_equal(actual(d), 100);
	dev_delete(d);
}

static void test_rings_that_take_few_requests(void **state)
{
	(void)state;
	struct dev *d = dev_new();
	uint64_t deadline;
	d->queue_max[0] = d->queue_max[1] = 2;
	d->run_frames = 100; /* several runs a request, so that what is undone has an order */
	dev_start(d);
	dev_target(d, 9000);
	assert_int_equal(dev_step(d, 2, &deadline), 0);
	assert_int_equal(d->with_driver, 2 * 1024); /* the third request was undone */
	assert_int_equal(dev_stats(d).inflating, 2 * 1024);
	dev_settle(d, 3);
	assert_int_equal(actual(d), 9000);
	dev_target(d, 10);
	assert_int_equal(dev_step(d, 4, &deadline), 0);
	assert_int_equal(dev_stats(d).deflating, 2 * 1024);
	assert_int_equal(dev_stats(d).held, 9000 - 2 * 1024);
	dev_settle(d, 5);
	assert_int_equal(d->with_driver, 10);
	assert_int_equal(d->told_n, 10);
	dev_delete(d);
}

static void test_room_for_runs_is_a_bound(void **state)
{
	(void)state;
	struct dev *d = dev_new();
	d->opts.max_held = 128;
	d->run_frames = 1;
	dev_start(d);
	dev_target(d, 10000);
	dev_settle(d, 2);
	assert_in_range(dev_stats(d).held, 64, 128);
	dev_target(d, 0);
	dev_settle(d, 3);
	assert_int_equal(d->with_driver, 0);
	dev_delete(d);
}

static void test_out_of_memory(void **state)
{
	(void)state;
	struct dev *d = dev_new();
	uint64_t given = 0, deadline, now = SECOND_NS, sum = 0;
	d->offered &= ~PAGEHINT_BALLOON_F_MUST_TELL_HOST;
	d->opts.oom_frames = 64;
	dev_start(d);
	assert_int_equal(pagehint_driver_oom(d->driver, 0, now, &given), -EINVAL);
	dev_target(d, 8000);
	dev_settle(d, now);
	for (uint64_t batch = 64; batch <= 1024; batch *= 2) {
		assert_int_equal(pagehint_driver_oom(d->driver, 1, now, &given), 0);
		assert_int_equal(given, batch);
		sum += given;
		assert_int_equal(d->with_driver, 8000 - sum);
		now += 1000000;
		dev_settle(d, now);
		assert_int_equal(actual(d), 8000 - sum); /* told, and not inflated again */
	}
	/* more than a batch, when so many are wanted */
	assert_int_equal(pagehint_driver_oom(d->driver, 3000, now, &given), 0);
	assert_int_equal(given, 3000);
	sum += given;
	dev_settle(d, now);
	assert_int_equal(dev_step(d, now, &deadline), 0);
	assert_int_equal(deadline, now + 10 * SECOND_NS);
	dev_settle(d, deadline - 1);
	assert_int_equal(d->with_driver, 8000 - sum);
	dev_settle(d, deadline);
	assert_int_equal(d->with_driver, 8000);
	/* after the quiet time batches are small again; all there is, and no more */
	assert_int_equal(pagehint_driver_oom(d->driver, 1, deadline, &given), 0);
	assert_int_equal(given, 64);
	for (uint32_t i = 0; i < 100 && d->with_driver != 0; i++) {
		int r = pagehint_driver_oom(d->driver, 5000, deadline, &given);
		assert_true(r == 0 || r == -EAGAIN);
		dev_settle(d, deadline);
	}
	assert_int_equal(d->with_driver, 0);
	assert_int_equal(pagehint_driver_oom(d->driver, 1, deadline, &given), 0);
	assert_int_equal(given, 0);
	dev_delete(d);
}

static void test_out_of_memory_and_must_tell_host(void **state)
{
	(void)state;
	struct dev *d = dev_new();
	uint64_t given = 7, deadline;
	dev_start(d);
	dev_target(d, 3000);
	dev_settle(d, 2);
	assert_int_equal(pagehint_driver_oom(d->driver, 100, 3, &given), -EAGAIN);
	assert_int_equal(given, 0);
	assert_int_equal(d->with_driver, 3000);
	assert_int_equal(dev_serve(d, PAGEHINT_BALLOON_Q_DEFLATE, DEV_EVERYTHING), 1);
	assert_int_equal(dev_step(d, 4, &deadline), 0);
	assert_int_equal(d->with_driver, 3000 - 256);
	dev_delete(d);
	/* the balloon is the host's without the feature */
	d = dev_new();
	d->offered &= ~PAGEHINT_BALLOON_F_DEFLATE_ON_OOM;
	dev_start(d);
	dev_target(d, 3000);
	dev_settle(d, 2);
	given = 7;
	assert_int_equal(pagehint_driver_oom(d->driver, 100, 3, &given), -EOPNOTSUPP);
	assert_int_equal(given, 7);
	assert_int_equal(d->with_driver, 3000);
	dev_delete(d);
}

static void test_statistics(void **state)
{
	(void)state;
	struct dev *d = dev_new();
	static const unsigned char entries[20] = { 4, 0, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 2, 0, 2 };
	dev_start(d);
	dev_settle(d, 2);
	assert_int_equal(d->stats_bytes, 20);
	assert_int_equal(d->stats_calls, 1);
	dev_settle(d, 100 * SECOND_NS); /* nobody asks: nothing is filled, and the device is not silent */
	assert_int_equal(d->stats_calls, 1);
	dev_ask_stats(d);
	dev_settle(d, 101 * SECOND_NS);
	assert_int_equal(d->stats_calls, 2);
	assert_memory_equal(d->stats, entries, 20);
	assert_int_equal(dev_stats(d).stats_told, 1);
	dev_delete(d);
}

static void test_an_unsteady_config_is_asked_again(void **state)
{
	(void)state;
	struct dev *d = dev_new();
	uint64_t deadline;
	dev_start(d);
	dev_target(d, 500);
	d->is_unsteady = 1;
	assert_int_equal(dev_step(d, 2, &deadline), 0);
	assert_int_equal(deadline, 2); /* at once */
	assert_int_equal(dev_stats(d).target, 0);
	d->is_unsteady = 0;
	assert_int_equal(pagehint_driver_step(d->driver, 2, &deadline), 0);
	assert_int_equal(dev_stats(d).target, 500);
	dev_delete(d);
}

static void test_polling(void **state)
{
	(void)state;
	struct dev *d = dev_new();
	uint64_t deadline;
	d->opts.poll_ns = 1000;
	dev_start(d);
	assert_int_equal(pagehint_driver_step(d->driver, 5000, &deadline), 0);
	assert_int_equal(deadline, 6000);
	dev_target(d, 100);
	assert_int_equal(pagehint_driver_step(d->driver, 5999, &deadline), 0);
	assert_int_equal(dev_stats(d).target, 0);
	assert_int_equal(pagehint_driver_step(d->driver, 6000, &deadline), 0);
	assert_int_equal(dev_stats(d).target, 100);
	dev_delete(d);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_balloon_follows_its_target),
		cmocka_unit_test(test_actual_follows_answers),
		cmocka_unit_test(test_larger_frames),
		cmocka_unit_test(test_before_inflate_comes_first_and_once),
		cmocka_unit_test(test_a_stuck_balloon_is_quiet),
		cmocka_unit_test(test_a_take_that_is_wrong_is_given_back),
		cmocka_unit_test(test_rings_that_take_few_requests),
		cmocka_unit_test(test_room_for_runs_is_a_bound),
		cmocka_unit_test(test_out_of_memory),
		cmocka_unit_test(test_out_of_memory_and_must_tell_host),
		cmocka_unit_test(test_statistics),
		cmocka_unit_test(test_an_unsteady_config_is_asked_again),
		cmocka_unit_test(test_polling),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
