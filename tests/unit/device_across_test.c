/*
 * What one queue has on its way concerns another: an end that is found by the wrong call, and a page taken back while it is in a
 * larger one that is being discarded.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "fakes/guest.h"

#define F GUEST_FREE
#define REPORT PAGEHINT_BALLOON_Q_REPORT
#define INFLATE PAGEHINT_BALLOON_Q_INFLATE
#define DEFLATE PAGEHINT_BALLOON_Q_DEFLATE

static struct guest *open_async(uint32_t max_runs)
{
	struct guest_how how = { .async = 1, .max_runs = max_runs };
	struct guest *g = guest_open(&how);
	guest_boot(g, 0);
	guest_settle(g);
	return g;
}

static void put_report(struct guest *g, uint64_t page, uint64_t cookie)
{
	struct ph_ring_buffer buffer = { .addr = page * 4096, .len = 4096 };
	guest_give(g, page, 1);
	guest_put(g, REPORT, &buffer, 0, 1, cookie);
}

static void step_later(struct guest *g)
{
	g->now = g->work.deadline_ns > g->now && g->work.deadline_ns != UINT64_MAX ? g->work.deadline_ns
										   : g->now + 1000000;
	assert_int_equal(guest_step(g), 0);
}

/* any call may be the one that finds the last discard ended: what waited for it must not wait for the next request */
static void a_kick_of_one_queue_brings_back_what_ended_on_another(void **state)
{
	(void)state;
	struct guest *g = open_async(0);
	for (uint32_t role = 0; role < PAGEHINT_BALLOON_Q_COUNT; role++) {
		if (role == REPORT)
			continue;
		put_report(g, F + 2 * role, role);
		assert_int_equal(guest_kick(g, REPORT), 0);
		assert_int_equal(guest_got(g, REPORT), -1);
		g->interrupts = 0;
		guest_answer(g, 1);
		assert_int_equal(guest_kick(g, role), 0);
		assert_int_equal(guest_got(g, REPORT), role);
		if (role == 0) /* after that the driver here does not ask for one */
			assert_int_equal(g->interrupts, 1u << guest_index(g, REPORT));
	}
	guest_check(g);
	guest_close(g);
}

static void put_list(struct guest *g, uint32_t role, uint32_t pfn, uint64_t cookie)
{
	struct ph_ring_buffer list = { .addr = guest_pfns(g, &pfn, 1), .len = 4 };
	guest_put(g, role, &list, 1, 0, cookie);
	assert_int_equal(guest_kick(g, role), 0);
}

/*
 * The last part of a larger page sends the parts along that the guest got acknowledged long ago: who takes one of them back must
 * not hear of it before they are gone, or what the guest then writes goes with them.
 */
static void a_deflate_waits_for_the_larger_page_that_is_on_its_way(void **state)
{
	(void)state;
	for (uint32_t full = 0; full < 2; full++) { /* on its way to a backend without room, too */
		struct guest_how how = { .async = 1, .host_page_shift = 13 };
		struct guest *g = guest_open(&how);
		guest_boot(g, 0);
		guest_settle(g);
		put_list(g, INFLATE, (uint32_t)F, 1);
		assert_int_equal(guest_got(g, INFLATE), 1);
		assert_int_equal(g->n_batches, 0);
		if (full) {
			g->room = 1;
			guest_give(g, F + 100, 2);
			struct ph_ring_buffer two = { .addr = (F + 100) * 4096, .len = 8192 };
			guest_put(g, REPORT, &two, 0, 1, 9);
			assert_int_equal(guest_kick(g, REPORT), 0);
			assert_int_equal(g->n_batches, 1);
		}
		guest_give(g, F, 2);
		put_list(g, INFLATE, (uint32_t)F + 1, 2);
		assert_int_equal(g->n_batches, 1);
		put_list(g, DEFLATE, (uint32_t)F, 3);
		put_list(g, DEFLATE, (uint32_t)F + 200, 4); /* comes back in its turn */
		for (uint32_t i = 0; i < full; i++) {
			assert_int_equal(guest_got(g, DEFLATE), -1);
			guest_answer(g, 1);
			step_later(g);
			assert_int_equal(g->n_batches, 1);
		}
		step_later(g);
		assert_int_equal(guest_got(g, DEFLATE), -1);
		assert_true(g->work.deadline_ns != UINT64_MAX);
		guest_answer(g, 1);
		step_later(g);
		assert_int_equal(guest_got(g, INFLATE), 2);
		assert_int_equal(guest_got(g, DEFLATE), 3);
		assert_int_equal(guest_got(g, DEFLATE), 4);
		assert_true(guest_is_wiped(g, F));
		guest_check(g);
		guest_close(g);
	}
}

/* pages that were not the guest's to take back cannot be in the way */
static void a_deflate_waits_for_nothing_else(void **state)
{
	(void)state;
	struct guest_how how = { .async = 1, .host_page_shift = 13 };
	struct guest *g = guest_open(&how);
	uint32_t pfns[] = { (uint32_t)F, (uint32_t)F + 1 };
	guest_boot(g, 0);
	guest_settle(g);
	guest_give(g, F, 2);
	struct ph_ring_buffer list = { .addr = guest_pfns(g, pfns, 2), .len = 8 };
	guest_put(g, INFLATE, &list, 1, 0, 1);
	assert_int_equal(guest_kick(g, INFLATE), 0);
	assert_int_equal(g->n_batches, 1);
	put_list(g, DEFLATE, (uint32_t)F + 200, 2);
	assert_int_equal(guest_got(g, DEFLATE), 2);
	guest_answer(g, 1);
	step_later(g);
	assert_int_equal(guest_got(g, INFLATE), 1);
	guest_check(g);
	guest_close(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_kick_of_one_queue_brings_back_what_ended_on_another),
		cmocka_unit_test(a_deflate_waits_for_the_larger_page_that_is_on_its_way),
		cmocka_unit_test(a_deflate_waits_for_nothing_else),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
