/* A zone as origin: one at a time, and the reporter's whole way over it with a backend that accepts everything. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>

#include <pagehint/cache.h>
#include <pagehint/host.h>
#include <pagehint/origin.h>
#include <pagehint/reporter.h>
#include <pagehint/zone.h>

#include "alloc/harvest.h"

#define FRAME UINT64_C(4096)
#define GRANULE UINT64_C(512)
#define SECOND UINT64_C(1000000000)

static struct pagehint_zone *zone;
static struct pagehint_origin *origin;
static struct pagehint_backend *backend;
static struct pagehint_reporter *reporter;
static uint64_t now;

static int start(void **state)
{
	(void)state;
	struct pagehint_zone_opts opts = { .struct_size = sizeof(opts), .flags = PAGEHINT_ZONE_LADDER };
	struct pagehint_reporter_opts pace = { .struct_size = sizeof(pace), .interval_ns = SECOND };
	now = 0;
	assert_int_equal(pagehint_zone_new(&opts, &zone), 0);
	assert_int_equal(pagehint_zone_add(zone, 0, PAGEHINT_SECTION_FRAMES), 0);
	assert_int_equal(pagehint_zone_origin_new(zone, &origin), 0);
	assert_int_equal(pagehint_null_new(NULL, &backend), 0);
	assert_int_equal(pagehint_reporter_new(origin, backend, &pace, &reporter), 0);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	uint64_t deadline;
	assert_int_equal(pagehint_reporter_stop(reporter, now, &deadline), 0);
	assert_int_equal(pagehint_reporter_free(reporter), 0);
	pagehint_origin_free(origin);
	assert_int_equal(pagehint_backend_free(backend), 0);
	assert_int_equal(pagehint_zone_check(zone, NULL), 0);
	pagehint_zone_destroy(zone);
	return 0;
}

static struct pagehint_reporter_stats intervals(unsigned n)
{
	struct pagehint_reporter_stats s = { .struct_size = sizeof(s) };
	uint64_t end = now + n * SECOND;
	while (now <= end)
		assert_int_equal(pagehint_reporter_step(reporter, now, 0, &now), 0);
	assert_int_equal(pagehint_reporter_stats(reporter, &s), 0);
	return s;
}

static void test_one_origin_a_zone(void **state)
{
	(void)state;
	struct pagehint_origin *other = NULL;
	assert_int_equal(pagehint_zone_origin_new(NULL, &other), -EINVAL);
	assert_int_equal(pagehint_zone_origin_new(zone, NULL), -EINVAL);
	assert_int_equal(pagehint_zone_origin_new(zone, &other), -EBUSY);
	assert_null(other);
	struct pagehint_zone_opts opts = { .struct_size = sizeof(opts) };
	struct pagehint_zone *second;
	assert_int_equal(pagehint_zone_new(&opts, &second), 0);
	for (int i = 0; i < 2; i++) { /* free makes room for the next */
		assert_int_equal(pagehint_zone_origin_new(second, &other), 0);
		pagehint_origin_free(other);
	}
	pagehint_zone_destroy(second);
}

static void test_what_was_used_goes_back_once(void **state)
{
	(void)state;
	uint64_t frame[3];
	for (int i = 0; i < 3; i++)
		assert_int_equal(pagehint_zone_alloc(zone, 9, &frame[i]), 0);
	assert_int_equal(intervals(3).isolated, 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pagehint_zone_free(zone, frame[i], 9), 0);
	assert_int_equal(intervals(3).reported, 3 * GRANULE * FRAME);
	assert_int_equal(intervals(5).reported, 3 * GRANULE * FRAME);
	assert_int_equal(pagehint_zone_alloc(zone, 3, frame), 0);
	assert_int_equal(pagehint_zone_free(zone, frame[0], 3), 0);
	assert_int_equal(intervals(3).reported, 4 * GRANULE * FRAME);
}

static void test_pressure_reaches_single_frames(void **state)
{
	(void)state;
	uint64_t frames[512];
	uint32_t n;
	assert_int_equal(pagehint_zone_alloc_batch(zone, 0, 512, frames, &n), 0);
	for (uint32_t i = 0; i < n; i += 2) /* every second one: nothing bigger than a frame is free */
		assert_int_equal(pagehint_zone_free(zone, frames[i], 0), 0);
	struct pagehint_reporter_stats s = intervals(3);
	assert_int_equal(s.isolated, 0);
	assert_int_equal(s.below_order, 256 * FRAME);
	assert_int_equal(pagehint_reporter_pressure(reporter, PAGEHINT_PRESSURE_SOME, 0), 0);
	s = intervals(3);
	assert_int_equal(s.isolated, 0);
	assert_int_equal(s.order, 4);
	assert_int_equal(s.below_order, 256 * FRAME);
	assert_int_equal(pagehint_reporter_pressure(reporter, PAGEHINT_PRESSURE_FULL, 0), 0);
	s = intervals(3);
	assert_int_equal(s.reported, 256 * FRAME);
	assert_int_equal(s.below_order, 0);
	for (uint32_t i = 1; i < n; i += 2)
		assert_int_equal(pagehint_zone_free(zone, frames[i], 0), 0);
	assert_int_equal(pagehint_reporter_pressure(reporter, PAGEHINT_PRESSURE_NONE, 0), 0);
	s = intervals(3);
	assert_int_equal(s.reported, (256 + 512) * FRAME); /* the granule is whole again, and half of it is not clean */
}

/* A granule that is whole gets its time also while pieces are taken: pieces have no age, and it must not be cut into some. */
static void test_a_whole_granule_ages_under_some_pressure(void **state)
{
	(void)state;
	uint64_t frame;
	assert_int_equal(intervals(2).isolated, 0);
	assert_int_equal(pagehint_zone_alloc(zone, 9, &frame), 0);
	assert_int_equal(pagehint_zone_free(zone, frame, 9), 0);
	assert_int_equal(pagehint_reporter_pressure(reporter, PAGEHINT_PRESSURE_SOME, 0), 0);
	struct pagehint_reporter_stats s = { .struct_size = sizeof(s) };
	uint64_t next = now;
	assert_int_equal(pagehint_reporter_step(reporter, now, 0, &next), 0); /* a look begins at once */
	assert_int_equal(pagehint_reporter_stats(reporter, &s), 0);
	assert_int_equal(s.order, 4);
	assert_int_equal(s.isolated, 0);
	now = next;
	assert_int_equal(intervals(3).reported, GRANULE * FRAME);
}

/* What was reported in pieces counts as reported, in the sums and granule by granule. */
static void test_pieces_are_counted_as_reported(void **state)
{
	(void)state;
	uint64_t frames[512], bits = 0;
	struct pagehint_origin_free f = { .struct_size = sizeof(f) };
	uint32_t n;
	assert_int_equal(pagehint_zone_alloc_batch(zone, 0, 512, frames, &n), 0);
	for (uint32_t i = 0; i < n; i += 2)
		assert_int_equal(pagehint_zone_free(zone, frames[i], 0), 0);
	ph_harvest_free(zone, 9, &f);
	assert_int_equal(f.reported, f.free - 256);
	assert_int_equal(pagehint_reporter_pressure(reporter, PAGEHINT_PRESSURE_FULL, 0), 0);
	(void)intervals(3);
	ph_harvest_free(zone, 9, &f);
	assert_int_equal(f.reported, f.free);
	assert_int_equal(pagehint_zone_granules(zone, PAGEHINT_GRANULES_REPORTED, 0, 64, &bits, 1), 0);
	assert_int_equal(bits, ~UINT64_C(1)); /* the first is not whole */
	for (uint32_t i = 1; i < n; i += 2)
		assert_int_equal(pagehint_zone_free(zone, frames[i], 0), 0);
	ph_harvest_free(zone, 9, &f);
	assert_int_equal(f.reported, f.free - 256);
	assert_int_equal(pagehint_zone_granules(zone, PAGEHINT_GRANULES_REPORTED, 0, 64, &bits, 1), 0);
	assert_int_equal(bits, ~UINT64_C(1)); /* whole, but half of it was used since */
	(void)intervals(3);
	assert_int_equal(pagehint_zone_granules(zone, PAGEHINT_GRANULES_REPORTED, 0, 64, &bits, 1), 0);
	assert_int_equal(bits, ~UINT64_C(0));
}

static void test_a_cache_is_asked_to_let_go(void **state)
{
	(void)state;
	struct pagehint_cache *cache;
	uint64_t frame, other;
	assert_int_equal(pagehint_cache_open(zone, &cache), 0);
	assert_int_equal(pagehint_cache_alloc(cache, 0, &frame), 0);
	assert_int_equal(pagehint_cache_free(cache, frame, 0), 0);
	assert_int_equal(intervals(4).isolated, 0); /* the thread has not called since */
	assert_int_equal(pagehint_cache_alloc(cache, 10, &other),
			 0); /* any call will do; of this order nothing is kept */
	assert_int_equal(pagehint_cache_free(cache, other, 10), 0);
	assert_true(intervals(4).reported >= GRANULE * FRAME);
	pagehint_cache_close(cache);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_one_origin_a_zone, start, stop),
		cmocka_unit_test_setup_teardown(test_what_was_used_goes_back_once, start, stop),
		cmocka_unit_test_setup_teardown(test_pressure_reaches_single_frames, start, stop),
		cmocka_unit_test_setup_teardown(test_a_whole_granule_ages_under_some_pressure, start, stop),
		cmocka_unit_test_setup_teardown(test_pieces_are_counted_as_reported, start, stop),
		cmocka_unit_test_setup_teardown(test_a_cache_is_asked_to_let_go, start, stop),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
