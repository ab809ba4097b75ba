/* Reports: batches, requests as large as the ring takes, and how each ends. */
#include "support/balloon_serve.h"

static int reap(struct dev *d, uint64_t *cookie, int32_t *result)
{
	const struct pagehint_run *runs;
	uint32_t n;
	return pagehint_driver_reap(d->driver, cookie, result, &runs, &n);
}

static void test_a_batch_is_one_notification(void **state)
{
	(void)state;
	struct dev *d = dev_new();
	struct pagehint_run runs[1024];
	uint64_t cookie = 0, deadline;
	int32_t result = 1;
	const struct pagehint_run *back = NULL;
	uint32_t n = 0;
	dev_start(d);
	assert_int_equal(dev_step(d, 2, &deadline), 0);
	for (uint32_t i = 0; i < 1024; i++)
		runs[i] = (struct pagehint_run) { 2000 * (uint64_t)i, 512 };
	uint32_t kicks = d->kicks;
	assert_int_equal(pagehint_driver_report(d->driver, runs, 1024, 42), 0);
	assert_int_equal(d->kicks, kicks + 1);
	memset(runs, 0, sizeof(runs)); /* they were copied */
	assert_int_equal(reap(d, &cookie, &result), -EAGAIN);
	/* 16 requests of 64 buffers each, through indirect tables */
	assert_int_equal(dev_serve(d, PAGEHINT_BALLOON_Q_REPORT, 15), 15);
	assert_int_equal(reap(d, &cookie, &result), -EAGAIN);
	assert_int_equal(dev_serve(d, PAGEHINT_BALLOON_Q_REPORT, 15), 1);
	assert_int_equal(pagehint_driver_reap(d->driver, &cookie, &result, &back, &n), 0);
	assert_int_equal(cookie, 42);
	assert_int_equal(result, 0);
	assert_int_equal(n, 1024);
	assert_int_equal(d->reports_n, 1024);
	for (uint32_t i = 0; i < 1024; i++) {
		assert_int_equal(back[i].frame, 2000 * (uint64_t)i);
		assert_int_equal(d->reports[i].addr, 2000 * (uint64_t)i << 12);
		assert_int_equal(d->reports[i].len, 2 << 20);
	}
	assert_int_equal(reap(d, &cookie, &result), -EAGAIN);
	assert_int_equal(dev_stats(d).reported, 1024 * 512);
	dev_delete(d);
}

static void test_direct_descriptors_and_small_rings(void **state)
{
	(void)state;
	for (uint32_t packed = 0; packed < 2; packed++) {
		struct dev *d = dev_new();
		struct pagehint_run runs[100];
		uint64_t cookie = 0;
		int32_t result = 1;
		d->offered &= ~PAGEHINT_VIRTIO_F_INDIRECT_DESC;
		d->offered |= packed ? PAGEHINT_VIRTIO_F_RING_PACKED : 0;
		d->queue_max[4] = 8;
		dev_start(d);
		for (uint32_t i = 0; i < 100; i++)
			runs[i] = (struct pagehint_run) { 1000 * (uint64_t)i, 16 };
		assert_int_equal(pagehint_driver_report(d->driver, runs, 100, 7), 0);
		uint32_t rounds = 0;
		for (; reap(d, &cookie, &result) == -EAGAIN; rounds++)
			assert_int_equal(dev_serve(d, PAGEHINT_BALLOON_Q_REPORT, DEV_EVERYTHING), 1);
		assert_int_equal(rounds, 13); /* 8 buffers a time */
		assert_int_equal(d->report_bytes, 100 * 16 * 4096);
		dev_delete(d);
	}
}

static void test_long_runs_are_cut(void **state)
{
	(void)state;
	struct dev *d = dev_new();
	/* 9 GiB and a bit: more than a descriptor, and more than a request may have */
	struct pagehint_run run = { UINT64_C(1) << 20, (UINT64_C(9) << 18) + 5 };
	uint64_t cookie, end = run.frame << 12;
	int32_t result;
	dev_start(d);
	assert_int_equal(pagehint_driver_report(d->driver, &run, 1, 1), 0);
	assert_int_equal(dev_serve(d, PAGEHINT_BALLOON_Q_REPORT, DEV_EVERYTHING), 5);
	assert_int_equal(reap(d, &cookie, &result), 0);
	for (uint32_t i = 0; i < d->reports_n; i++) {
		assert_int_equal(d->reports[i].addr, end);
		assert_int_equal(d->reports[i].len % 4096, 0);
		end += d->reports[i].len;
	}
	assert_int_equal(end, (run.frame + run.frames) << 12);
	dev_delete(d);
}

static void test_room_and_order_of_batches(void **state)
{
	(void)state;
	struct dev *d = dev_new();
	struct pagehint_run run = { 0, 512 };
	uint64_t cookie;
	int32_t result;
	dev_start(d);
	for (uint64_t i = 0; i < 4; i++, run.frame += 512)
		assert_int_equal(pagehint_driver_report(d->driver, &run, 1, i), 0);
	assert_int_equal(pagehint_driver_report(d->driver, &run, 1, 4), -EAGAIN);
	assert_int_equal(dev_stats(d).batches_in_flight, 4);
	assert_int_equal(dev_serve(d, PAGEHINT_BALLOON_Q_REPORT, 2), 2);
	assert_int_equal(reap(d, &cookie, &result), 0);
	assert_int_equal(cookie, 0);
	assert_int_equal(pagehint_driver_report(d->driver, &run, 1, 4), 0);
	assert_int_equal(dev_serve(d, PAGEHINT_BALLOON_Q_REPORT, DEV_EVERYTHING), 3);
	for (uint64_t i = 1; i < 5; i++) {
		assert_int_equal(reap(d, &cookie, &result), 0);
		assert_int_equal(cookie, i);
	}
	dev_delete(d);
}

static void test_bad_reports(void **state)
{
	(void)state;
	struct dev *d = dev_new();
	struct pagehint_run run = { 0, 0 };
	uint64_t cookie;
	int32_t result;
	dev_init(d);
	run.frames = 1;
	assert_int_equal(pagehint_driver_report(d->driver, &run, 1, 1), -ENODEV);
	assert_int_equal(pagehint_driver_start(d->driver, 1), 0);
	assert_int_equal(pagehint_driver_report(d->driver, NULL, 1, 1), -EINVAL);
	assert_int_equal(pagehint_driver_report(d->driver, &run, 0, 1), -EINVAL);
	assert_int_equal(pagehint_driver_report(d->driver, &run, 1025, 1), -EINVAL);
	run.frames = 0;
	assert_int_equal(pagehint_driver_report(d->driver, &run, 1, 1), -EINVAL);
	run = (struct pagehint_run) { UINT64_C(1) << 52, 1 };
	assert_int_equal(pagehint_driver_report(d->driver, &run, 1, 1), -EINVAL);
	run = (struct pagehint_run) { UINT64_MAX, UINT64_MAX };
	assert_int_equal(pagehint_driver_report(d->driver, &run, 1, 1), -EINVAL);
	assert_int_equal(reap(d, &cookie, &result), -EAGAIN);
	assert_int_equal(reap(d, NULL, &result), -EINVAL);
	assert_int_equal(dev_stats(d).requests, 0);
	dev_delete(d);
}

static void test_reports_in_vain_end_at_once(void **state)
{
	(void)state;
	for (uint32_t poison = 0; poison < 3; poison++) {
		struct dev *d = dev_new();
		struct pagehint_run run = { 0, 512 };
		uint64_t cookie;
		int32_t result = 1;
		d->opts.flags = poison != 0 ? PAGEHINT_DRIVER_POISON : 0;
		d->opts.poison_val = poison == 1 ? 0xaa : 0;
		if (poison == 0)
			d->offered &= ~PAGEHINT_BALLOON_F_PAGE_REPORTING;
		dev_start(d);
		assert_int_equal(pagehint_driver_report(d->driver, &run, 1, 3), 0);
		if (poison == 2) {
			assert_int_equal(dev_serve(d, PAGEHINT_BALLOON_Q_REPORT, 9), 1); /* zero may be discarded */
			assert_int_equal(reap(d, &cookie, &result), 0);
			assert_int_equal(result, 0);
		} else {
			assert_int_equal(reap(d, &cookie, &result), 0);
			assert_int_equal(result, -EOPNOTSUPP);
			assert_int_equal(dev_stats(d).requests, 0);
		}
		dev_delete(d);
	}
}

/* Whoever reports need not step before: what ended the silence counts at once. */
static void test_silence_ends_with_an_answer_or_a_reset(void **state)
{
	(void)state;
	for (int is_reset = 0; is_reset < 2; is_reset++) {
		struct dev *d = dev_new();
		struct pagehint_run run = { 512, 512 };
		const struct pagehint_run *runs;
		uint64_t deadline, cookie, now = 60 * SECOND_NS;
		int32_t result;
		uint32_t n;
		dev_start(d);
		dev_settle(d, 2);
		assert_int_equal(pagehint_driver_report(d->driver, &run, 1, 1), 0);
		assert_int_equal(dev_step(d, now, &deadline), -ENODEV);
		assert_int_equal(dev_stats(d).state, PAGEHINT_DRIVER_SILENT);
		assert_int_equal(pagehint_driver_report(d->driver, &run, 1, 2), -ENODEV);
		if (is_reset) {
			assert_int_equal(pagehint_driver_reset(d->driver, now), 0);
			assert_int_equal(pagehint_driver_start(d->driver, now), 0);
		} else {
			assert_int_equal(dev_serve(d, PAGEHINT_BALLOON_Q_REPORT, DEV_EVERYTHING), 1);
		}
		assert_int_equal(pagehint_driver_reap(d->driver, &cookie, &result, &runs, &n), 0);
		assert_int_equal(result, is_reset ? -ENODEV : 0);
		assert_int_equal(dev_stats(d).state, PAGEHINT_DRIVER_RUNNING);
		assert_int_equal(pagehint_driver_report(d->driver, &run, 1, 3), 0);
		dev_delete(d);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_batch_is_one_notification),
		cmocka_unit_test(test_direct_descriptors_and_small_rings),
		cmocka_unit_test(test_long_runs_are_cut),
		cmocka_unit_test(test_room_and_order_of_batches),
		cmocka_unit_test(test_bad_reports),
		cmocka_unit_test(test_reports_in_vain_end_at_once),
		cmocka_unit_test(test_silence_ends_with_an_answer_or_a_reset),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
