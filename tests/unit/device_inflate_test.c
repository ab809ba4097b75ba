/*
 * Inflation and deflation: pages become maximal runs of one batch, and what is no page of the guest's is ignored.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <pagehint/gate.h>

#include "fakes/guest.h"

#define F ((uint32_t)GUEST_FREE)
#define RUN(page, pages) ((struct pagehint_run) { (page), (pages) })

static void pages_in_any_order_become_maximal_runs(void **state)
{
	(void)state;
	struct guest *g = guest_open(NULL);
	guest_boot(g, 0);
	/* upwards, downwards, alone, and a gap filled late */
	uint32_t pfns[] = { F + 4, F + 5, F + 6, F + 21, F + 20, F + 19, F + 100, F + 8, F + 7, F + 50 };
	struct pagehint_run expected[] = { RUN(F + 4, 5), RUN(F + 19, 3), RUN(F + 50, 1), RUN(F + 100, 1) };
	for (uint32_t i = 0; i < 10; i++)
		guest_give(g, pfns[i], 1);
	guest_inflate(g, pfns, 10);
	guest_expect(g, expected, 4);
	guest_check(g);
	struct pagehint_device_stats stats = guest_stats(g);
	assert_int_equal(stats.inflate_pages, 10);
	assert_int_equal(stats.batches, 1);
	assert_int_equal(stats.runs, 4);
	assert_int_equal(stats.freed, 10 * 4096);
	assert_int_equal(g->calls, 1);
	assert_true(guest_is_wiped(g, F + 100));
	guest_close(g);
}

static void a_run_ends_where_its_region_ends(void **state)
{
	(void)state;
	for (uint32_t no_extent = 0; no_extent < 2; no_extent++) {
		struct guest_how how = { .no_extent = no_extent };
		struct guest *g = guest_open(&how);
		guest_boot(g, 0);
		uint32_t h = (uint32_t)GUEST_HIGH_PAGE, pfns[] = { h - 2, h - 1, h, h + 1 };
		struct pagehint_run expected[] = { RUN(h - 2, 2), RUN(h, 2) };
		guest_give(g, h - 2, 4);
		guest_inflate(g, pfns, 4);
		if (!no_extent) /* without it the handle below joins what touches, whatever we say */
			guest_expect(g, expected, 2);
		assert_int_equal(guest_stats(g).runs, 2);
		guest_close(g);
	}
}

static void what_is_named_twice_is_discarded_once(void **state)
{
	(void)state;
	struct guest *g = guest_open(NULL);
	guest_boot(g, 0);
	uint32_t pfns[] = { F + 1, F + 2, F + 2, F + 1, F + 9, F + 1 };
	struct pagehint_run expected[] = { RUN(F + 1, 2), RUN(F + 9, 1) };
	guest_give(g, F + 1, 2);
	guest_give(g, F + 9, 1);
	guest_inflate(g, pfns, 6);
	guest_expect(g, expected, 2);
	assert_int_equal(guest_dropped(g, PAGEHINT_DEVICE_DROP_DUPLICATE), 3);
	guest_check(g);
	guest_close(g);
}

/* a page number is 32 bits on the wire, and no shift may make another page of it */
static void page_numbers_at_every_edge_are_ignored_outside_memory(void **state)
{
	(void)state;
	struct guest *g = guest_open(NULL);
	guest_boot(g, 0);
	uint32_t end = (uint32_t)GUEST_HOLE_PAGE, rom = (uint32_t)GUEST_ROM_PAGE;
	uint32_t bad[] = { 0,          1,          (uint32_t)GUEST_PAGE - 1,
			   end,        rom - 1,    rom + 64,
			   0x7fffffff, 0x80000000, 0x80000001,
			   0xfff00000, 0xfffffffe, 0xffffffff,
			   0x00100000 };
	uint32_t n = sizeof(bad) / sizeof(*bad);
	guest_inflate(g, bad, n);
	assert_int_equal(g->n_runs, 0);
	assert_int_equal(guest_dropped(g, PAGEHINT_DEVICE_DROP_BAD_PFN), n);
	uint32_t pinned[] = { rom, rom + 63 };
	guest_inflate(g, pinned, 2);
	assert_int_equal(guest_dropped(g, PAGEHINT_DEVICE_DROP_PINNED), 2);
	assert_int_equal(g->n_runs, 0);
	/* good ones among bad ones count */
	uint32_t mixed[] = { 0xffffffff, F + 3, 0 };
	guest_give(g, F + 3, 1);
	guest_inflate(g, mixed, 3);
	guest_expect(g, &RUN(F + 3, 1), 1);
	guest_check(g);
	guest_close(g);
}

static void a_length_that_makes_no_entry_is_ignored_and_acknowledged(void **state)
{
	(void)state;
	struct guest *g = guest_open(NULL);
	guest_boot(g, 0);
	uint32_t pfns[] = { F + 1, F + 2 };
	for (uint32_t len = 1; len <= 7; len++) {
		struct ph_ring_buffer list = { .addr = guest_pfns(g, pfns, 2), .len = len };
		guest_refill(g);
		guest_put(g, PAGEHINT_BALLOON_Q_INFLATE, &list, 1, 0, len);
		assert_int_equal(guest_kick(g, PAGEHINT_BALLOON_Q_INFLATE), 0);
		assert_int_equal(guest_got(g, PAGEHINT_BALLOON_Q_INFLATE), len);
		guest_expect(g, &RUN(F + 1, 1), len < 4 ? 0 : 1);
	}
	assert_int_equal(guest_dropped(g, PAGEHINT_DEVICE_DROP_BAD_LENGTH), 6);
	guest_close(g);
}

/* a number may begin in one buffer and end in the next; every buffer of a chain counts */
static void a_list_may_be_cut_anywhere(void **state)
{
	(void)state;
	struct guest *g = guest_open(NULL);
	guest_boot(g, 0);
	uint32_t pfns[] = { F + 1, F + 2, F + 3, F + 10 };
	uint64_t at = guest_pfns(g, pfns, 4);
	struct pagehint_run expected[] = { RUN(F + 1, 3), RUN(F + 10, 1) };
	for (uint32_t cut = 1; cut < 16; cut++) {
		guest_refill(g);
		guest_give(g, F + 1, 3);
		guest_give(g, F + 10, 1);
		struct ph_ring_buffer buffers[] = { { .addr = at, .len = cut }, { .addr = at + cut, .len = 16 - cut } };
		guest_put(g, PAGEHINT_BALLOON_Q_INFLATE, buffers, 2, 0, 1);
		assert_int_equal(guest_kick(g, PAGEHINT_BALLOON_Q_INFLATE), 0);
		assert_int_equal(guest_got(g, PAGEHINT_BALLOON_Q_INFLATE), 1);
		guest_expect(g, expected, 2);
		guest_check(g);
	}
	guest_close(g);
}

/* ---- deflate ---- */

static void deflated_pages_are_made_present_before_they_are_acknowledged(void **state)
{
	(void)state;
	struct guest_how how = { .opts.flags = PAGEHINT_DEVICE_POPULATE };
	struct guest *g = guest_open(&how);
	guest_boot(g, 0);
	uint32_t pfns[] = { F + 8, F + 7, F + 30, 0xffffffff, F + 8 };
	guest_deflate(g, pfns, 5);
	assert_int_equal(g->n_populated, 2);
	assert_int_equal(g->populated[0].frame, F + 7);
	assert_int_equal(g->populated[0].frames, 2);
	assert_int_equal(g->populated[1].frame, F + 30);
	assert_int_equal(guest_stats(g).populated, 3 * 4096);
	assert_int_equal(guest_stats(g).deflate_pages, 4);
	assert_int_equal(guest_dropped(g, PAGEHINT_DEVICE_DROP_BAD_PFN), 1);
	guest_close(g);
}

static void without_the_flag_nothing_is_made_present(void **state)
{
	(void)state;
	struct guest *g = guest_open(NULL);
	guest_boot(g, 0);
	uint32_t pfn = F + 8;
	guest_deflate(g, &pfn, 1);
	assert_int_equal(g->n_populated, 0);
	assert_int_equal(g->calls, 0);
	guest_close(g);
}

static void a_deflate_nobody_asked_for_is_counted_as_want_of_memory(void **state)
{
	(void)state;
	struct guest *g = guest_open(NULL);
	uint32_t pfn = F + 8;
	guest_boot(g, 0);
	assert_int_equal(pagehint_device_set_target(g->device, g->now, 100 * 4096, NULL), 0);
	unsigned char bytes[4] = { 100, 0, 0, 0 };
	assert_int_equal(pagehint_device_config_write(g->device, g->now, 4, bytes, 4), 0);
	guest_deflate(g, &pfn, 1);
	assert_int_equal(guest_stats(g).oom_pages, 1);
	assert_int_equal(pagehint_device_set_target(g->device, g->now, 50 * 4096, NULL), 0);
	guest_deflate(g, &pfn, 1);
	assert_int_equal(guest_stats(g).oom_pages, 1);
	guest_close(g);
}

/* ---- bounds ---- */

static void a_list_longer_than_the_budget_goes_on_in_steps_and_is_one_batch(void **state)
{
	(void)state;
	struct guest_how how = { .opts.budget = 64 };
	struct guest *g = guest_open(&how);
	enum { N = 1000 };
	uint32_t pfns[N];
	guest_boot(g, 0);
	for (uint32_t i = 0; i < N; i++)
		pfns[i] = F + i;
	guest_give(g, F, N);
	guest_settle(g);
	struct ph_ring_buffer list = { .addr = guest_pfns(g, pfns, N), .len = 4 * N };
	guest_put(g, PAGEHINT_BALLOON_Q_INFLATE, &list, 1, 0, 9);
	assert_int_equal(guest_kick(g, PAGEHINT_BALLOON_Q_INFLATE), 0);
	assert_int_equal(g->work.more, 1);
	assert_int_equal(g->work.deadline_ns, g->now);
	assert_int_equal(g->n_runs, 0);
	assert_int_equal(guest_got(g, PAGEHINT_BALLOON_Q_INFLATE), -1);
	uint32_t steps = 0;
	for (; g->work.more != 0; steps++) {
		uint64_t before = guest_stats(g).inflate_pages;
		assert_int_equal(guest_step(g), 0);
		assert_true(guest_stats(g).inflate_pages - before <= 64);
	}
	assert_true(steps >= N / 64);
	guest_expect(g, &RUN(F, N), 1);
	assert_int_equal(guest_got(g, PAGEHINT_BALLOON_Q_INFLATE), 9);
	guest_check(g);
	guest_close(g);
}

static void a_closed_gate_acknowledges_and_discards_nothing(void **state)
{
	(void)state;
	for (uint32_t reason = 0; reason < PAGEHINT_INHIBIT_COUNT; reason++) {
		struct guest *g = guest_open(NULL);
		uint32_t pfn = F + 3;
		guest_boot(g, 0);
		assert_int_equal(pagehint_gate_close(g->gate, reason, NULL), 0);
		guest_inflate(g, &pfn, 1);
		assert_int_equal(g->calls, 0);
		assert_int_equal(guest_dropped(g, PAGEHINT_DEVICE_DROP_INHIBITED), 1);
		assert_int_equal(pagehint_gate_open(g->gate, reason), 0);
		guest_give(g, pfn, 1);
		guest_inflate(g, &pfn, 1);
		guest_expect(g, &RUN(pfn, 1), 1);
		guest_check(g);
		guest_close(g);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pages_in_any_order_become_maximal_runs),
		cmocka_unit_test(a_run_ends_where_its_region_ends),
		cmocka_unit_test(what_is_named_twice_is_discarded_once),
		cmocka_unit_test(page_numbers_at_every_edge_are_ignored_outside_memory),
		cmocka_unit_test(a_length_that_makes_no_entry_is_ignored_and_acknowledged),
		cmocka_unit_test(a_list_may_be_cut_anywhere),
		cmocka_unit_test(deflated_pages_are_made_present_before_they_are_acknowledged),
		cmocka_unit_test(without_the_flag_nothing_is_made_present),
		cmocka_unit_test(a_deflate_nobody_asked_for_is_counted_as_want_of_memory),
		cmocka_unit_test(a_list_longer_than_the_budget_goes_on_in_steps_and_is_one_batch),
		cmocka_unit_test(a_closed_gate_acknowledges_and_discards_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
