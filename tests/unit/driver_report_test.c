/* Reports: batches, requests as large as the ring takes, ends, and the backend over them. */
#include <pagehint/reporter.h>
#include <pagehint/zone.h>

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

static void test_outcomes_of_the_backend(void **state)
{
	(void)state;
	const struct pagehint_run runs[] = { { 0, 512 }, { 2048, 1024 } };
	struct pagehint_outcome out[2];
	uint64_t cookie = 0;
	uint32_t n = 0;
	/* acknowledged; in vain; reset */
	for (uint32_t how = 0; how < 3; how++) {
		struct dev *d = dev_new();
		struct pagehint_backend *backend;
		struct pagehint_backend_opts wrong = { .struct_size = sizeof(wrong), .frame_shift = 16 };
		if (how == 1)
			d->offered &= ~PAGEHINT_BALLOON_F_PAGE_REPORTING;
		dev_start(d);
		assert_int_equal(pagehint_driver_backend_new(d->driver, &wrong, &backend), -EINVAL);
		assert_int_equal(pagehint_driver_backend_new(NULL, NULL, &backend), -EINVAL);
		assert_int_equal(pagehint_driver_backend_new(d->driver, NULL, &backend), 0);
		assert_string_equal(pagehint_backend_name(backend), "virtio");
		assert_int_equal(pagehint_backend_max_runs(backend), 1024);
		assert_int_equal(pagehint_backend_submit(backend, runs, 2, 0, 9), 0);
		if (how == 0) {
			/* never before the device has answered */
			assert_int_equal(pagehint_backend_reap(backend, 2, out, &cookie, &n), -EAGAIN);
			assert_int_equal(dev_serve(d, PAGEHINT_BALLOON_Q_REPORT, 9), 1);
		}
		if (how == 2) {
			assert_int_equal(pagehint_backend_reap(backend, 2, out, &cookie, &n), -EAGAIN);
			assert_int_equal(pagehint_driver_reset(d->driver, 2), 0);
		}
		assert_int_equal(pagehint_backend_reap(backend, 2, out, &cookie, &n), 0);
		assert_int_equal(cookie, 9);
		assert_int_equal(n, 2);
		assert_int_equal(how == 0 ? out[1].accepted : how == 1 ? out[1].kept : out[1].failed, 4 << 20);
		assert_int_equal(out[0].asked, 2 << 20);
		if (how == 1)
			assert_int_equal(out[0].kept_why, PAGEHINT_WHY_CANNOT);
		if (how == 2) {
			assert_int_equal(out[0].failed_why, PAGEHINT_WHY_GONE);
			assert_int_equal(out[0].error, -ENODEV);
			assert_int_equal(pagehint_backend_submit(backend, runs, 2, 0, 10), -ENODEV);
		}
		assert_int_equal(pagehint_backend_free(backend), 0);
		dev_delete(d);
	}
}

/* A reporter over a zone: what it took comes back when the device answers, or is reset, and not before. */
static void test_a_reporter_through_the_driver(void **state)
{
	(void)state;
	struct dev *d = dev_new();
	struct pagehint_zone_opts opts = { .struct_size = sizeof(opts) };
	struct pagehint_zone_stats zs = { .struct_size = sizeof(zs) };
	struct pagehint_zone *zone;
	struct pagehint_origin *origin;
	struct pagehint_backend *backend;
	struct pagehint_reporter *reporter;
	uint64_t frame, deadline, now = 0;
	dev_start(d);
	assert_int_equal(pagehint_zone_new(&opts, &zone), 0);
	assert_int_equal(pagehint_zone_add(zone, 0, DEV_FRAMES), 0);
	assert_int_equal(pagehint_zone_origin_new(zone, &origin), 0);
	assert_int_equal(pagehint_driver_backend_new(d->driver, NULL, &backend), 0);
	assert_int_equal(pagehint_reporter_new(origin, backend, NULL, &reporter), 0);
	for (uint32_t round = 0; round < 2; round++) {
		assert_int_equal(pagehint_zone_alloc(zone, 12, &frame), 0);
		assert_int_equal(pagehint_zone_free(zone, frame, 12), 0);
		for (uint32_t i = 0; i < 20; i++, now += SECOND_NS / 2)
			assert_int_equal(pagehint_reporter_step(reporter, now, 0, &deadline), 0);
		assert_int_equal(pagehint_zone_stats(zone, &zs), 0);
		assert_int_equal(zs.in_flight, 4096);
		if (round == 0)
			assert_int_equal(dev_serve(d, PAGEHINT_BALLOON_Q_REPORT, DEV_EVERYTHING), 1);
		else
			assert_int_equal(pagehint_driver_reset(d->driver, now), 0);
		assert_int_equal(pagehint_reporter_step(reporter, now, 0, &deadline), 0);
		assert_int_equal(pagehint_zone_stats(zone, &zs), 0);
		assert_int_equal(zs.free, DEV_FRAMES);
	}
	struct pagehint_reporter_stats stats = { .struct_size = sizeof(stats) };
	assert_int_equal(pagehint_reporter_stats(reporter, &stats), 0);
	assert_int_equal(stats.reported, 16 << 20);
	assert_int_equal(stats.kept_by[PAGEHINT_WHY_GONE], 16 << 20);
	assert_int_equal(d->report_bytes, 16 << 20);
	assert_int_equal(pagehint_reporter_free(reporter), 0);
	assert_int_equal(pagehint_backend_free(backend), 0);
	pagehint_origin_free(origin);
	assert_int_equal(pagehint_zone_check(zone, NULL), 0);
	pagehint_zone_destroy(zone);
	dev_delete(d);
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
		cmocka_unit_test(test_outcomes_of_the_backend),
		cmocka_unit_test(test_a_reporter_through_the_driver),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
