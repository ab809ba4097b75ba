/* The driver's reporting queue as a backend, and a reporter over it. */
#include <pagehint/reporter.h>
#include <pagehint/zone.h>

#include "support/balloon_serve.h"

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
		cmocka_unit_test(test_outcomes_of_the_backend),
		cmocka_unit_test(test_a_reporter_through_the_driver),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
