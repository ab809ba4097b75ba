/* A domain as a backend: what a reporter gives it leaves the domain, what is populated is there again, and nothing else. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <pagehint/backend.h>
#include <pagehint/bitmap.h>
#include <pagehint/origin.h>
#include <pagehint/reporter.h>
#include <pagehint/xen.h>
#include <pagehint/zone.h>

#include "fakes/fake_xen.h"
#include "support/chance.h"

#define FRAMES UINT64_C(16384)

static struct fake_xen fake;
static struct pagehint_bitmap *present;
static struct pagehint_xen *xen;
static struct pagehint_backend *backend;

static int open_with(uint32_t flags, int knows)
{
	struct pagehint_bitmap_opts bits = { .struct_size = sizeof(bits), .span = 65536 };
	struct pagehint_xen_opts opts = { .struct_size = sizeof(opts), .domid = FAKE_DOMID, .flags = flags };
	fake_xen_setup(&fake, 0, 1 << 17, 1 << 17);
	if (knows) {
		assert_int_equal(pagehint_bitmap_new(&bits, &present), 0);
		assert_int_equal(pagehint_bitmap_add(present, 0, 65536), 0);
		opts.present = present;
	}
	assert_int_equal(pagehint_xen_new(&fake_xen_calls, &fake, &opts, &xen), 0);
	assert_int_equal(pagehint_xen_backend_new(xen, NULL, &backend), 0);
	return 0;
}

static int setup(void **test)
{
	(void)test;
	return open_with(0, 1);
}

static int setup_blind(void **test)
{
	(void)test;
	return open_with(PAGEHINT_XEN_NO_SCRUB, 0);
}

static int teardown(void **test)
{
	(void)test;
	int r = pagehint_backend_free(backend);
	r = r == 0 ? pagehint_xen_free(xen) : r;
	pagehint_bitmap_free(present);
	present = NULL;
	fake_xen_teardown(&fake);
	return r;
}

static void test_life(void **test)
{
	(void)test;
	struct pagehint_backend *other = NULL;
	struct pagehint_backend_opts opts = { .struct_size = sizeof(opts), .frame_shift = 14 };
	assert_int_equal(pagehint_xen_backend_new(xen, NULL, &other), -EBUSY);
	assert_int_equal(pagehint_xen_free(xen), -EBUSY);
	assert_int_equal(pagehint_backend_free(backend), 0);
	assert_int_equal(pagehint_xen_backend_new(xen, &opts, &other), -EINVAL);
	assert_int_equal(pagehint_xen_backend_new(NULL, NULL, &other), -EINVAL);
	opts.frame_shift = 12;
	assert_int_equal(pagehint_xen_backend_new(xen, &opts, &backend), 0);
	assert_string_equal(pagehint_backend_name(backend), "xen");
}

static void test_populate_in_any_order(void **test)
{
	(void)test;
	const struct pagehint_run runs[] = { { 5000, 600 }, { 10, 20 }, { 1024, 1024 } };
	uint32_t done = 0;
	assert_int_equal(pagehint_backend_populate(backend, runs, 3, &done), 0);
	assert_int_equal(done, 3);
	assert_int_equal(fake.current, 1644);
	assert_int_equal(pagehint_backend_populate(backend, runs, 3, &done), 0); /* present is all that is wanted */
	assert_int_equal(fake.current, 1644);
	fake_xen_check(&fake);
}

/* Where nobody knows what is there, a failure must not leave frames that the next try would lose. */
static void test_populate_fails_blind(void **test)
{
	(void)test;
	const struct pagehint_run runs[] = { { 0, 100 }, { 200, 100 }, { 400, 100 } };
	uint32_t done = 9;
	fake.max = 250;
	assert_int_equal(pagehint_backend_populate(backend, runs, 3, &done), -ENOSPC);
	assert_int_equal(done, 2);
	assert_int_equal(fake.current, 200);
	fake.max = 1000;
	assert_int_equal(pagehint_backend_populate(backend, runs + done, 1, &done), 0);
	assert_int_equal(fake.current, 300);
	fake_xen_check(&fake);
}

static void test_zero_is_obeyed(void **test)
{
	(void)test;
	const struct pagehint_run run = { 0, 64 };
	struct pagehint_outcome sum;
	assert_int_equal(pagehint_backend_populate(backend, &run, 1, NULL), 0);
	fake_xen_dirty(&fake);
	assert_int_equal(pagehint_backend_discard(backend, &run, 1, PAGEHINT_DISCARD_ZERO, NULL, &sum, NULL), 0);
	assert_int_equal(sum.freed, 64 << 12);
	assert_int_equal(fake.leaked, 0); /* although the handle does not wipe by itself */
	assert_int_equal(pagehint_backend_populate(backend, &run, 1, NULL), 0);
	fake_xen_dirty(&fake);
	assert_int_equal(pagehint_backend_discard(backend, &run, 1, 0, NULL, &sum, NULL), 0);
	assert_int_equal(fake.leaked, 64);
}

static uint32_t lines;
static void count_line(void *ctx, const char *text)
{
	(void)ctx;
	lines += strstr(text, "domain 7 has 0 of") != NULL || strstr(text, "cannot be asked") != NULL;
}

static void test_gone(void **test)
{
	(void)test;
	const struct pagehint_run runs[] = { { 0, 64 }, { 100, 64 } };
	const struct pagehint_sink sink = { .line = count_line };
	struct pagehint_outcome out[2], sum;
	uint32_t done = 0;
	lines = 0;
	pagehint_backend_explain(backend, &sink);
	assert_int_equal(lines, 1);
	assert_int_equal(pagehint_backend_populate(backend, runs, 2, NULL), 0);
	fake.fault = FAULT_DIES;
	fake.fault_at = 1;
	fake.fault_after = 10;
	assert_int_equal(pagehint_backend_discard(backend, runs, 2, 0, out, &sum, &done), -ENODEV);
	assert_int_equal(done, 2);
	assert_int_equal(sum.freed, 10 << 12);
	assert_int_equal(sum.failed, 118 << 12);
	assert_int_equal(out[1].failed_why, PAGEHINT_WHY_GONE);
	assert_int_equal(pagehint_backend_populate(backend, runs, 2, &done), -ENODEV);
	assert_int_equal(done, 0);
	lines = 0;
	pagehint_backend_explain(backend, &sink);
	assert_int_equal(lines, 1);
}

static void balanced(struct pagehint_zone *zone)
{
	struct pagehint_zone_stats z = { .struct_size = sizeof(z) };
	assert_int_equal(pagehint_zone_stats(zone, &z), 0);
	assert_int_equal(z.total, FRAMES);
	assert_int_equal(z.free + z.cached + z.out + z.isolated + z.in_flight + z.transit, z.total);
	assert_int_equal(pagehint_zone_check(zone, NULL), 0);
	assert_int_equal(fake.current, pagehint_bitmap_count(present));
	fake_xen_check(&fake);
}

static void step(struct pagehint_reporter *reporter, uint64_t *now)
{
	for (int i = 0; i < 40; i++) {
		uint64_t next = 0;
		assert_int_equal(pagehint_reporter_step(reporter, *now, 0, &next), 0);
		if (next == UINT64_MAX)
			return;
		*now = next > *now ? next : *now + 1;
	}
}

/* Takes, uses and frees blocks; some calls of the hypervisor fail meanwhile. */
static void test_reporter(void **test)
{
	(void)test;
	static struct pagehint_run block[4096];
	const struct pagehint_run all = { 0, FRAMES };
	struct pagehint_zone_opts opts = { .struct_size = sizeof(opts), .flags = PAGEHINT_ZONE_STALE };
	struct pagehint_zone *zone = NULL;
	struct pagehint_origin *origin = NULL;
	struct pagehint_reporter *reporter = NULL;
	uint64_t now = 1, next = 0;
	state = 88172645463325252;
	assert_int_equal(pagehint_xen_populate(xen, &all, 1, 0, NULL, NULL), 0);
	assert_int_equal(pagehint_zone_new(&opts, &zone), 0);
	assert_int_equal(pagehint_zone_add(zone, 0, FRAMES), 0);
	assert_int_equal(pagehint_zone_origin_new(zone, &origin), 0);
	assert_int_equal(pagehint_reporter_new(origin, backend, NULL, &reporter), 0);
	for (int round = 0; round < 30; round++) {
		uint32_t n = 0, order = 0;
		uint64_t frame = 0;
		while (n < 200 && pagehint_zone_alloc(zone, order = (uint32_t)rnd(8), &frame) == 0) {
			block[n] = (struct pagehint_run) { frame, UINT64_C(1) << order };
			assert_int_equal(pagehint_backend_populate(backend, &block[n++], 1, NULL), 0);
			assert_int_equal(fake_xen_has(&fake, frame, UINT64_C(1) << order), UINT64_C(1) << order);
		}
		for (uint32_t i = 0; i < n; i++)
			assert_int_equal(pagehint_zone_free_runs(zone, &block[i], 1, NULL), 0);
		if (round % 3 == 1) {
			fake.fault = round % 2 == 0 ? FAULT_SHORT : FAULT_ERROR;
			fake.fault_error = -EAGAIN;
			fake.fault_at = 1 + rnd(3);
			fake.fault_after = rnd(512);
		}
		step(reporter, &now);
		fake.fault_at = 0;
		balanced(zone);
	}
	step(reporter, &now);
	step(reporter, &now);
	assert_int_equal(fake.current, 0); /* all of it was free: all of it has gone back */
	assert_int_equal(fake.leaked, 0);
	assert_int_equal(pagehint_reporter_stop(reporter, now, &next), 0);
	assert_int_equal(pagehint_reporter_free(reporter), 0);
	pagehint_origin_free(origin);
	pagehint_zone_destroy(zone);
}

#define CASE(name, how) cmocka_unit_test_setup_teardown(name, how, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_life, setup),
		CASE(test_populate_in_any_order, setup),
		CASE(test_populate_fails_blind, setup_blind),
		CASE(test_zero_is_obeyed, setup_blind),
		CASE(test_gone, setup),
		CASE(test_reporter, setup),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
