/*
 * An asynchronous backend: nothing is acknowledged before its discards have ended, what was made available first comes back
 * first, and resets, stops and closed gates wait for what is in flight.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <pagehint/gate.h>

#include "fakes/guest.h"

#define F GUEST_FREE
#define REPORT PAGEHINT_BALLOON_Q_REPORT
#define INFLATE PAGEHINT_BALLOON_Q_INFLATE

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

static void a_report_is_acknowledged_after_its_discard(void **state)
{
	(void)state;
	struct guest *g = open_async(0);
	put_report(g, F, 1);
	assert_int_equal(guest_kick(g, REPORT), 0);
	assert_int_equal(guest_got(g, REPORT), -1);
	assert_int_equal(g->n_batches, 1);
	assert_int_equal(guest_stats(g).in_flight, 1);
	assert_int_equal(pagehint_gate_in_flight(g->gate), 1);
	for (int i = 0; i < 20; i++) { /* it is looked for, ever more rarely */
		assert_true(g->work.deadline_ns > g->now && g->work.deadline_ns - g->now <= 10000000);
		step_later(g);
		assert_int_equal(guest_got(g, REPORT), -1);
	}
	g->interrupts = 0;
	guest_answer(g, 1);
	step_later(g);
	assert_int_equal(guest_got(g, REPORT), 1);
	assert_int_equal(g->interrupts, 1u << guest_index(g, REPORT));
	assert_int_equal(guest_stats(g).in_flight, 0);
	assert_int_equal(pagehint_gate_in_flight(g->gate), 0);
	assert_int_equal(g->work.deadline_ns, UINT64_MAX);
	guest_check(g);
	guest_close(g);
}

static void what_came_first_comes_back_first(void **state)
{
	(void)state;
	struct guest *g = open_async(0);
	g->newest = 1; /* the backend ends the newest first */
	for (uint64_t i = 0; i < 5; i++)
		put_report(g, F + 2 * i, i);
	assert_int_equal(guest_kick(g, REPORT), 0);
	assert_int_equal(g->n_batches, 5);
	for (uint32_t i = 0; i < 4; i++) {
		guest_answer(g, 1);
		step_later(g);
		assert_int_equal(guest_got(g, REPORT), -1);
	}
	guest_answer(g, 1);
	step_later(g);
	for (int64_t i = 0; i < 5; i++)
		assert_int_equal(guest_got(g, REPORT), i);
	guest_check(g);
	guest_close(g);
}

static void a_queue_does_not_wait_for_another(void **state)
{
	(void)state;
	struct guest *g = open_async(0);
	uint32_t pfn = (uint32_t)F + 100;
	put_report(g, F, 1);
	assert_int_equal(guest_kick(g, REPORT), 0);
	struct ph_ring_buffer list = { .addr = guest_pfns(g, &pfn, 1), .len = 4 };
	guest_give(g, pfn, 1);
	guest_put(g, INFLATE, &list, 1, 0, 2);
	assert_int_equal(guest_kick(g, INFLATE), 0);
	g->newest = 1;
	guest_answer(g, 1);
	step_later(g);
	assert_int_equal(guest_got(g, INFLATE), 2);
	assert_int_equal(guest_got(g, REPORT), -1);
	guest_answer(g, 1);
	step_later(g);
	assert_int_equal(guest_got(g, REPORT), 1);
	guest_close(g);
}

static void a_request_of_many_batches_ends_with_the_last(void **state)
{
	(void)state;
	struct guest *g = open_async(4);
	struct ph_ring_buffer buffers[10];
	for (uint64_t i = 0; i < 10; i++) {
		buffers[i] = (struct ph_ring_buffer) { .addr = (F + 2 * i) * 4096, .len = 4096 };
		guest_give(g, F + 2 * i, 1);
	}
	guest_put(g, REPORT, buffers, 0, 10, 3);
	assert_int_equal(guest_kick(g, REPORT), 0);
	assert_int_equal(g->n_batches, 3);
	assert_int_equal(g->n_runs, 10);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(guest_got(g, REPORT), -1);
		guest_answer(g, 1);
		step_later(g);
	}
	assert_int_equal(guest_got(g, REPORT), 3);
	assert_int_equal(guest_stats(g).freed, 10 * 4096);
	guest_check(g);
	guest_close(g);
}

static void a_backend_without_room_is_asked_again_and_sees_each_run_once(void **state)
{
	(void)state;
	struct guest *g = open_async(2);
	g->room = 1;
	struct ph_ring_buffer buffers[10];
	for (uint64_t i = 0; i < 10; i++) {
		buffers[i] = (struct ph_ring_buffer) { .addr = (F + 2 * i) * 4096, .len = 4096 };
		guest_give(g, F + 2 * i, 1);
	}
	guest_put(g, REPORT, buffers, 0, 10, 3);
	put_report(g, F + 50, 4);
	assert_int_equal(guest_kick(g, REPORT), 0);
	for (int i = 0; i < 6; i++) {
		assert_int_equal(g->n_batches, 1);
		assert_true(g->work.deadline_ns != UINT64_MAX);
		guest_answer(g, 1);
		step_later(g);
	}
	assert_int_equal(guest_got(g, REPORT), 3);
	step_later(g);
	assert_int_equal(guest_got(g, REPORT), 4);
	assert_int_equal(g->n_runs, 11);
	for (uint64_t i = 0; i < 10; i++)
		assert_int_equal(g->runs[i].frame, F + 2 * i);
	guest_check(g);
	guest_close(g);
}

static void requests_in_flight_are_bounded(void **state)
{
	(void)state;
	struct guest *g = open_async(0);
	for (uint64_t i = 0; i < 40; i++)
		put_report(g, F + 2 * i, i);
	assert_int_equal(guest_kick(g, REPORT), 0);
	assert_int_equal(g->n_batches, 16);
	uint64_t back = 0;
	while (back < 40) {
		guest_answer(g, 3);
		step_later(g);
		for (int64_t c; (c = guest_got(g, REPORT)) >= 0; back++)
			assert_int_equal(c, back);
		assert_true(g->n_batches <= 16);
	}
	guest_check(g);
	guest_close(g);
}

static void a_reset_is_complete_only_when_nothing_is_in_flight(void **state)
{
	(void)state;
	struct guest *g = open_async(0);
	put_report(g, F, 1);
	put_report(g, F + 2, 2);
	assert_int_equal(guest_kick(g, REPORT), 0);
	assert_int_equal(pagehint_device_free(g->device), -EBUSY);
	assert_int_equal(pagehint_device_reset(g->device), -EAGAIN);
	assert_int_equal(pagehint_device_reset(g->device), -EAGAIN);
	assert_int_not_equal(pagehint_device_status(g->device), 0);
	assert_int_equal(pagehint_device_set_features(g->device, 0), -EBUSY);
	assert_int_equal(pagehint_device_set_status(g->device, 1), -EAGAIN);
	assert_int_equal(guest_kick(g, REPORT), -ENOENT);
	guest_answer(g, 1);
	step_later(g);
	assert_int_equal(g->work.events, 0);
	guest_answer(g, 1);
	step_later(g);
	assert_int_equal(g->work.events, PAGEHINT_DEVICE_EVENT_RESET_DONE);
	assert_int_equal(guest_got(g, REPORT), -1); /* the old ring is not touched any more */
	assert_int_equal(pagehint_device_status(g->device), 0);
	assert_int_equal(guest_stats(g).resets, 1);
	assert_int_equal(guest_stats(g).in_flight, 0);
	guest_boot(g, 0);
	put_report(g, F, 3);
	guest_answer(g, 1);
	assert_int_equal(guest_kick(g, REPORT), 0);
	step_later(g);
	assert_int_equal(guest_got(g, REPORT), 3);
	guest_close(g);
}

static void a_stop_waits_and_what_was_not_acknowledged_is_done_again(void **state)
{
	(void)state;
	struct guest *g = open_async(0);
	uint32_t base = 99, index = (uint32_t)guest_index(g, REPORT);
	for (uint64_t i = 0; i < 3; i++)
		put_report(g, F + 2 * i, i);
	assert_int_equal(guest_kick(g, REPORT), 0);
	guest_answer(g, 1);
	step_later(g);
	assert_int_equal(guest_got(g, REPORT), 0);
	assert_int_equal(pagehint_device_queue_stop(g->device, index, &base), -EAGAIN);
	assert_int_equal(base, 99);
	put_report(g, F + 10, 3);
	assert_int_equal(guest_kick(g, REPORT), 0); /* stopping: nothing new is taken */
	assert_int_equal(g->n_batches, 2);
	guest_answer(g, 2);
	step_later(g);
	assert_int_equal(pagehint_device_queue_stop(g->device, index, &base), 0);
	assert_int_equal(base, 3); /* all that had been taken was finished */
	assert_int_equal(guest_start(g, REPORT, 0, base, 0), 0);
	guest_settle(g);
	guest_answer(g, 1);
	step_later(g);
	for (int64_t i = 1; i < 4; i++)
		assert_int_equal(guest_got(g, REPORT), i);
	assert_int_equal(guest_got(g, REPORT), -1);
	guest_check(g);
	guest_close(g);
}

/* the process died with requests in flight: its successor begins at the used index */
static void a_successor_goes_on_at_the_used_index(void **state)
{
	(void)state;
	struct guest *g = open_async(0);
	for (uint64_t i = 0; i < 3; i++)
		put_report(g, F + 2 * i, i);
	guest_answer(g, 1);
	assert_int_equal(guest_kick(g, REPORT), 0);
	step_later(g);
	assert_int_equal(guest_got(g, REPORT), 0);
	guest_answer(g, 2);
	struct pagehint_device *dead = g->device;
	struct pagehint_device_opts opts = g->how.opts;
	/* what the dead one had in flight ends nowhere; here it must be drained to be freed */
	assert_int_equal(pagehint_device_reset(dead), 0);
	assert_int_equal(pagehint_device_free(dead), 0);
	assert_int_equal(pagehint_device_new(g->map, g->backend, g->gate, &opts, &g->device), 0);
	assert_int_equal(pagehint_device_set_features(g->device, PAGEHINT_DEVICE_FEATURES_DEFAULT), 0);
	assert_int_equal(guest_start(g, REPORT, PAGEHINT_DEVICE_QUEUE_FROM_USED, 0, 0), 0);
	guest_settle(g);
	guest_answer(g, 2);
	step_later(g);
	assert_int_equal(guest_got(g, REPORT), 1);
	assert_int_equal(guest_got(g, REPORT), 2);
	assert_int_equal(guest_got(g, REPORT), -1);
	guest_check(g);
	guest_close(g);
}

static void a_gate_closed_meanwhile_knows_what_is_on_its_way(void **state)
{
	(void)state;
	struct guest *g = open_async(0);
	uint64_t in_flight = 0;
	put_report(g, F, 1);
	assert_int_equal(guest_kick(g, REPORT), 0);
	assert_int_equal(pagehint_gate_close(g->gate, PAGEHINT_INHIBIT_PINNED, &in_flight), 0);
	assert_int_equal(in_flight, 1);
	put_report(g, F + 2, 2);
	assert_int_equal(guest_kick(g, REPORT), 0);
	assert_int_equal(g->n_batches, 1);
	assert_int_equal(guest_got(g, REPORT), -1); /* in order: it waits for the first */
	guest_answer(g, 1);
	step_later(g);
	assert_int_equal(pagehint_gate_in_flight(g->gate), 0);
	assert_int_equal(guest_got(g, REPORT), 1);
	assert_int_equal(guest_got(g, REPORT), 2);
	assert_false(guest_is_wiped(g, F + 2));
	assert_int_equal(pagehint_gate_open(g->gate, PAGEHINT_INHIBIT_PINNED), 0);
	guest_close(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_report_is_acknowledged_after_its_discard),
		cmocka_unit_test(what_came_first_comes_back_first),
		cmocka_unit_test(a_queue_does_not_wait_for_another),
		cmocka_unit_test(a_request_of_many_batches_ends_with_the_last),
		cmocka_unit_test(a_backend_without_room_is_asked_again_and_sees_each_run_once),
		cmocka_unit_test(requests_in_flight_are_bounded),
		cmocka_unit_test(a_reset_is_complete_only_when_nothing_is_in_flight),
		cmocka_unit_test(a_stop_waits_and_what_was_not_acknowledged_is_done_again),
		cmocka_unit_test(a_successor_goes_on_at_the_used_index),
		cmocka_unit_test(a_gate_closed_meanwhile_knows_what_is_on_its_way),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
