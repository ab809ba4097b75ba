/* The rate is in real bytes and bounds every stretch of time; the hold-back spaces reports; both wait without a sleep. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "fakes/guest.h"
#include "virtio/device_rate.h"

#define F GUEST_FREE
#define RUN(page, pages) ((struct pagehint_run) { (page), (pages) })
#define REPORT PAGEHINT_BALLOON_Q_REPORT
#define SECOND UINT64_C(1000000000)
#define MIB UINT64_C(1048576)

static void no_stretch_of_time_gives_more_than_the_rate(void **state)
{
	(void)state;
	struct pagehint_device_knobs knobs = { .struct_size = sizeof(knobs), .rate = 8 * MIB };
	struct guest_how how = { .bare = 1, .ring_size = 128, .opts.knobs = &knobs };
	struct guest *g = guest_open(&how);
	uint64_t at[200], bytes[200];
	uint32_t n = 0, sent = 0;
	guest_boot(g, 0);
	guest_settle(g);
	uint64_t begin = g->now;
	struct ph_ring_buffer mib = { .addr = F * 4096, .len = (uint32_t)MIB };
	for (; sent < 100; sent++)
		guest_put(g, REPORT, &mib, 0, 1, sent);
	assert_int_equal(guest_kick(g, REPORT), 0);
	uint64_t done = guest_stats(g).freed;
	bytes[n] = done;
	at[n++] = g->now;
	while (guest_stats(g).completed < sent) {
		assert_true(g->work.deadline_ns > g->now && g->work.deadline_ns != UINT64_MAX);
		assert_true(n < 200);
		/* a step too early does nothing */
		g->now = g->work.deadline_ns - 1;
		assert_int_equal(guest_step(g), 0);
		assert_int_equal(guest_stats(g).freed, done);
		g->now = g->work.deadline_ns;
		assert_int_equal(guest_step(g), 0);
		bytes[n] = guest_stats(g).freed - done;
		done = guest_stats(g).freed;
		at[n++] = g->now;
	}
	for (uint32_t from = 0; from < n; from++) {
		uint64_t sum = 0;
		for (uint32_t to = from; to < n; to++) {
			sum += bytes[to];
			uint64_t ns = at[to] - at[from];
			/* rate * (t + 0.1 s) and one request */
			assert_true(sum <= (ns + SECOND / 10) / 1000 * 8 * MIB / 1000000 + MIB + 8192);
		}
	}
	/* and all of it is back in time: a bound in time, too */
	assert_int_equal(done, 100 * MIB);
	assert_true(g->now - begin <= 100 * MIB * SECOND / (8 * MIB) + SECOND / 10);
	assert_int_equal(guest_stats(g).rate_waits, n - 1);
	guest_close(g);
}

static void what_does_not_go_costs_nothing(void **state)
{
	(void)state;
	struct pagehint_device_knobs knobs = { .struct_size = sizeof(knobs), .rate = 4096 };
	struct guest_how how = { .bare = 1, .opts.knobs = &knobs };
	struct guest *g = guest_open(&how);
	guest_boot(g, 0);
	guest_settle(g);
	g->keeps = 1;
	for (int i = 0; i < 100; i++)
		guest_report(g, &RUN(F, 512), 1); /* each is answered at once */
	assert_int_equal(guest_stats(g).rate_waits, 0);
	guest_report(g, &RUN(GUEST_ROM_PAGE, 8), 1);
	g->keeps = 0;
	guest_report(g, &RUN(F, 2), 1);
	struct ph_ring_buffer page = { .addr = F * 4096, .len = 4096 };
	guest_put(g, REPORT, &page, 0, 1, 1);
	assert_int_equal(guest_kick(g, REPORT), 0);
	assert_int_equal(guest_got(g, REPORT), -1);
	/* two pages at a page a second, less what the last tenth of a second had saved */
	uint64_t wait = g->work.deadline_ns - g->now;
	assert_true(wait >= 2 * SECOND - SECOND / 10 && wait <= 2 * SECOND);
	/* no limit any more: at once */
	assert_int_equal(pagehint_device_tune(g->device, NULL), 0);
	guest_settle(g);
	assert_int_equal(guest_got(g, REPORT), 1);
	guest_close(g);
}

static void deflation_and_hints_never_wait_for_the_rate(void **state)
{
	(void)state;
	struct pagehint_device_knobs knobs = { .struct_size = sizeof(knobs), .rate = 1 };
	struct guest_how how = { .bare = 1, .opts.knobs = &knobs };
	struct guest *g = guest_open(&how);
	uint32_t pfn = (uint32_t)F;
	guest_boot(g, 0);
	guest_inflate(g, &pfn, 1);
	guest_deflate(g, &pfn, 1);
	struct ph_ring_buffer list = { .addr = guest_pfns(g, &pfn, 1), .len = 4 };
	guest_put(g, PAGEHINT_BALLOON_Q_INFLATE, &list, 1, 0, 1);
	assert_int_equal(guest_kick(g, PAGEHINT_BALLOON_Q_INFLATE), 0);
	assert_int_equal(guest_got(g, PAGEHINT_BALLOON_Q_INFLATE), -1);
	guest_deflate(g, &pfn, 1);
	guest_close(g);
}

static void the_hold_back_spaces_reports_and_nothing_else(void **state)
{
	(void)state;
	struct pagehint_device_knobs knobs = { .struct_size = sizeof(knobs), .holdback_ns = 3 * SECOND };
	struct guest_how how = { .bare = 1, .opts.knobs = &knobs };
	struct guest *g = guest_open(&how);
	uint32_t pfn = (uint32_t)F;
	guest_boot(g, 0);
	guest_report(g, &RUN(F, 1), 1);
	struct ph_ring_buffer page = { .addr = F * 4096, .len = 4096 };
	guest_put(g, REPORT, &page, 0, 1, 1);
	assert_int_equal(guest_kick(g, REPORT), 0);
	assert_int_equal(guest_got(g, REPORT), -1);
	guest_settle(g);
	assert_int_equal(g->work.deadline_ns, g->now + 3 * SECOND);
	guest_inflate(g, &pfn, 1);
	g->now += 3 * SECOND - 1;
	guest_settle(g);
	assert_int_equal(guest_got(g, REPORT), -1);
	g->now += 1;
	guest_settle(g);
	assert_int_equal(guest_got(g, REPORT), 1);
	guest_close(g);
}

static void the_arithmetic_neither_wraps_nor_drifts(void **state)
{
	(void)state;
	struct ph_device_rate r = { 0 };
	ph_device_rate_set(&r, 5, 3); /* three bytes a second */
	ph_device_rate_take(&r, 3);
	assert_true(ph_device_rate_when(&r, 5) == 5 + SECOND);
	for (uint64_t now = 5; now < 5 + SECOND; now += SECOND / 1000) /* asking often earns no more, no less */
		assert_true(ph_device_rate_when(&r, now) > now && ph_device_rate_when(&r, now) <= 5 + SECOND + 3);
	assert_true(ph_device_rate_when(&r, 5 + SECOND + 3) == 5 + SECOND + 3);
	ph_device_rate_take(&r, UINT64_MAX);
	assert_true(ph_device_rate_when(&r, 6 + SECOND + 3) > UINT64_MAX / 4);
	ph_device_rate_give_back(&r, UINT64_MAX);
	assert_true(ph_device_rate_when(&r, 6 + SECOND + 3) == 6 + SECOND + 3);
	ph_device_rate_set(&r, 0, UINT64_MAX); /* more than can be counted is no limit */
	ph_device_rate_take(&r, UINT64_MAX);
	assert_true(ph_device_rate_when(&r, 7) == 7);
	ph_device_rate_set(&r, 0, UINT64_C(1) << 60);
	ph_device_rate_take(&r, UINT64_C(1) << 60);
	assert_true(ph_device_rate_when(&r, 0) >= SECOND && ph_device_rate_when(&r, 0) <= SECOND + 1);
	assert_true(ph_device_rate_when(&r, UINT64_MAX - 1) == UINT64_MAX - 1);
	assert_true(ph_device_later(UINT64_MAX - 5, 100) == UINT64_MAX - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_stretch_of_time_gives_more_than_the_rate),
		cmocka_unit_test(what_does_not_go_costs_nothing),
		cmocka_unit_test(deflation_and_hints_never_wait_for_the_rate),
		cmocka_unit_test(the_hold_back_spaces_reports_and_nothing_else),
		cmocka_unit_test(the_arithmetic_neither_wraps_nor_drifts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
