/* Free page hint runs: who may begin one, which hints count, how it ends. Nothing that was hinted is ever discarded. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <pagehint/gate.h>

#include "fakes/guest.h"
#include "virtio/device_hint.h"

#define F GUEST_FREE
#define HINT PAGEHINT_BALLOON_Q_HINT

static void send_id(struct guest *g, uint32_t id)
{
	unsigned char b[4] = { (unsigned char)id, (unsigned char)(id >> 8), (unsigned char)(id >> 16),
			       (unsigned char)(id >> 24) };
	struct ph_ring_buffer buffer = { .addr = guest_list(g, b, 4), .len = 4 };
	guest_put(g, HINT, &buffer, 1, 0, 1);
	assert_int_equal(guest_kick(g, HINT), 0);
	assert_int_equal(guest_got(g, HINT), 1);
	assert_int_equal(g->used, 0);
}

static void send_pages(struct guest *g, uint64_t addr, uint32_t len)
{
	struct ph_ring_buffer buffer = { .addr = addr, .len = len };
	guest_put(g, HINT, &buffer, 0, 1, 2);
	assert_int_equal(guest_kick(g, HINT), 0);
	assert_int_equal(guest_got(g, HINT), 2);
	assert_int_equal(g->used, 0);
}

static uint32_t cmd_id(struct guest *g)
{
	unsigned char b[4];
	assert_int_equal(pagehint_device_config_read(g->device, 8, b, 4), 0);
	return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static void a_run_from_start_to_done(void **state)
{
	(void)state;
	struct guest *g = guest_open(NULL);
	uint32_t id = 0;
	guest_boot(g, 0);
	assert_int_equal(cmd_id(g), PAGEHINT_BALLOON_HINT_STOP);
	assert_int_equal(pagehint_device_hint_start(g->device, &id), 0);
	assert_true(id >= 2);
	assert_int_equal(guest_step(g), 0);
	assert_int_equal(g->work.events, PAGEHINT_DEVICE_EVENT_CONFIG);
	assert_int_equal(cmd_id(g), id);
	assert_int_equal(pagehint_device_hint_start(g->device, NULL), -EBUSY);
	send_id(g, id);
	assert_int_equal(g->work.events, PAGEHINT_DEVICE_EVENT_HINT);
	assert_int_equal(pagehint_device_hint_state(g->device, NULL), PAGEHINT_DEVICE_HINT_STARTED);
	assert_int_equal(cmd_id(g), id); /* a change of the target in the middle must not look like a stop */
	send_pages(g, F * 4096, 4 << 20);
	send_pages(g, (F + 2048) * 4096, 4096);
	assert_int_equal(g->n_hinted, 2);
	assert_int_equal(g->hint_id, id);
	assert_int_equal(g->hinted[0].frame, F);
	assert_int_equal(g->hinted[0].frames, 1024);
	send_id(g, PAGEHINT_BALLOON_HINT_STOP);
	assert_int_equal(pagehint_device_hint_state(g->device, NULL), PAGEHINT_DEVICE_HINT_STOPPED);
	assert_int_equal(cmd_id(g), PAGEHINT_BALLOON_HINT_STOP);
	send_pages(g, F * 4096, 4096);
	assert_int_equal(g->n_hinted, 2);
	assert_int_equal(pagehint_device_hint_done(g->device), 0);
	assert_int_equal(cmd_id(g), PAGEHINT_BALLOON_HINT_DONE);
	assert_int_equal(pagehint_device_hint_done(g->device), -EALREADY);
	assert_int_equal(pagehint_device_hint_stop(g->device), -EALREADY);
	assert_int_equal(guest_stats(g).hint_ranges, 2);
	assert_int_equal(guest_stats(g).hint_bytes, (4 << 20) + 4096);
	assert_int_equal(g->calls, 0);
	guest_check(g); /* nothing was wiped */
	guest_close(g);
}

static void only_a_run_that_was_asked_for_begins(void **state)
{
	(void)state;
	struct guest *g = guest_open(NULL);
	uint32_t first = 0, second = 0;
	guest_boot(g, 0);
	const uint32_t lies[] = { 2, 3, 1, UINT32_MAX, 0x80000001 };
	for (uint32_t i = 0; i < 5; i++) {
		send_id(g, lies[i]); /* nobody asked */
		send_pages(g, F * 4096, 4096);
	}
	assert_int_equal(guest_dropped(g, PAGEHINT_DEVICE_DROP_BAD_ID), 5);
	assert_int_equal(pagehint_device_hint_start(g->device, &first), 0);
	send_pages(g, F * 4096, 4096); /* before it has begun */
	send_id(g, first + 1);
	send_pages(g, F * 4096, 4096);
	assert_int_equal(g->n_hinted, 0);
	send_id(g, first);
	send_id(g, first); /* twice */
	assert_int_equal(guest_dropped(g, PAGEHINT_DEVICE_DROP_BAD_ID), 7);
	/* the host stops it: what comes late is stale, and so is the old id in the next run */
	assert_int_equal(pagehint_device_hint_stop(g->device), 0);
	send_pages(g, F * 4096, 4096);
	assert_int_equal(pagehint_device_hint_start(g->device, &second), 0);
	assert_int_not_equal(first, second);
	send_id(g, first);
	send_pages(g, F * 4096, 4096);
	assert_int_equal(g->n_hinted, 0);
	send_id(g, second);
	send_pages(g, F * 4096, 4096);
	assert_int_equal(g->n_hinted, 1);
	assert_int_equal(guest_dropped(g, PAGEHINT_DEVICE_DROP_STALE_HINT), 9);
	guest_check(g);
	guest_close(g);
}

static void post_copy_forbids_the_start_and_every_range(void **state)
{
	(void)state;
	struct guest *g = guest_open(NULL);
	uint32_t id = 0;
	guest_boot(g, 0);
	assert_int_equal(pagehint_gate_close(g->gate, PAGEHINT_INHIBIT_POSTCOPY, NULL), 0);
	assert_int_equal(pagehint_device_hint_start(g->device, &id), -EBUSY);
	assert_int_equal(cmd_id(g), 0);
	assert_int_equal(pagehint_gate_open(g->gate, PAGEHINT_INHIBIT_POSTCOPY), 0);
	/* a snapshot is what hints are for */
	assert_int_equal(pagehint_gate_close(g->gate, PAGEHINT_INHIBIT_SNAPSHOT, NULL), 0);
	assert_int_equal(pagehint_device_hint_start(g->device, &id), 0);
	send_id(g, id);
	send_pages(g, F * 4096, 4096);
	assert_int_equal(g->n_hinted, 1);
	assert_int_equal(pagehint_gate_close(g->gate, PAGEHINT_INHIBIT_POSTCOPY, NULL), 0);
	send_pages(g, F * 4096, 4096);
	assert_int_equal(g->n_hinted, 1);
	assert_int_equal(guest_dropped(g, PAGEHINT_DEVICE_DROP_INHIBITED), 1);
	guest_close(g);
}

static void hints_are_whole_pages_of_memory(void **state)
{
	(void)state;
	struct guest *g = guest_open(NULL);
	uint32_t id = 0;
	guest_boot(g, 0);
	assert_int_equal(pagehint_device_hint_start(g->device, &id), 0);
	send_id(g, id);
	send_pages(g, F * 4096 + 1, 3 * 4096 - 1);
	assert_int_equal(g->n_hinted, 1);
	assert_int_equal(g->hinted[0].frame, F + 1);
	assert_int_equal(g->hinted[0].frames, 2);
	send_pages(g, F * 4096 + 1, 4096);
	assert_int_equal(g->n_hinted, 1);
	assert_int_equal(guest_dropped(g, PAGEHINT_DEVICE_DROP_UNALIGNED), 1);
	send_pages(g, (GUEST_HIGH_PAGE - 1) * 4096, 8192);
	assert_int_equal(guest_dropped(g, PAGEHINT_DEVICE_DROP_STRADDLE), 1);
	assert_int_equal(g->n_hinted, 1);
	struct ph_ring_buffer outside = { .addr = GUEST_HOLE_PAGE * 4096, .len = 4096 };
	guest_put(g, HINT, &outside, 0, 1, 3);
	assert_int_equal(guest_kick(g, HINT), 0);
	assert_true(g->work.events & PAGEHINT_DEVICE_EVENT_NEEDS_RESET);
	guest_close(g);
}

static void an_id_of_the_wrong_length_is_none(void **state)
{
	(void)state;
	struct guest *g = guest_open(NULL);
	uint32_t id = 0;
	guest_boot(g, 0);
	assert_int_equal(pagehint_device_hint_start(g->device, &id), 0);
	for (uint32_t len = 1; len <= 6; len++) {
		unsigned char b[8] = { (unsigned char)id, 0, 0, 0, 0xff, 0xff };
		struct ph_ring_buffer buffer = { .addr = guest_list(g, b, 8), .len = len };
		guest_put(g, HINT, &buffer, 1, 0, len);
		assert_int_equal(guest_kick(g, HINT), 0);
		assert_int_equal(guest_got(g, HINT), len);
		assert_int_equal(pagehint_device_hint_state(g->device, NULL) == PAGEHINT_DEVICE_HINT_STARTED, len >= 4);
	}
	assert_int_equal(guest_dropped(g, PAGEHINT_DEVICE_DROP_BAD_LENGTH), 3);
	guest_close(g);
}

static void a_chain_may_carry_the_id_and_pages(void **state)
{
	(void)state;
	struct guest *g = guest_open(NULL);
	uint32_t id = 0;
	guest_boot(g, 0);
	assert_int_equal(pagehint_device_hint_start(g->device, &id), 0);
	unsigned char b[4] = { (unsigned char)id, 0, 0, 0 };
	uint64_t at = guest_list(g, b, 4);
	struct ph_ring_buffer buffers[50] = { { .addr = at, .len = 2 }, { .addr = at + 2, .len = 2 } };
	for (uint32_t i = 2; i < 50; i++)
		buffers[i] = (struct ph_ring_buffer) { .addr = (F + 2 * i) * 4096, .len = 4096 };
	guest_put(g, HINT, buffers, 2, 48, 7);
	assert_int_equal(guest_kick(g, HINT), 0);
	assert_int_equal(guest_got(g, HINT), 7);
	assert_int_equal(g->n_hinted, 48);
	assert_int_equal(g->hinted[47].frame, F + 98);
	guest_close(g);
}

static void done_at_the_end_when_so_wanted(void **state)
{
	(void)state;
	struct guest_how how = { .opts.flags = PAGEHINT_DEVICE_HINT_AUTO_DONE };
	struct guest *g = guest_open(&how);
	uint32_t id = 0;
	guest_boot(g, 0);
	assert_int_equal(pagehint_device_hint_start(g->device, &id), 0);
	send_id(g, id);
	send_id(g, PAGEHINT_BALLOON_HINT_STOP);
	assert_int_equal(cmd_id(g), PAGEHINT_BALLOON_HINT_DONE);
	assert_int_equal(g->work.events, PAGEHINT_DEVICE_EVENT_HINT | PAGEHINT_DEVICE_EVENT_CONFIG);
	guest_close(g);
}

static void a_reset_ends_the_run_and_its_id_does_not_come_back(void **state)
{
	(void)state;
	struct guest *g = guest_open(NULL);
	uint32_t id = 0, next = 0;
	guest_boot(g, 0);
	assert_int_equal(pagehint_device_hint_start(g->device, &id), 0);
	send_id(g, id);
	assert_int_equal(pagehint_device_reset(g->device), 0);
	assert_int_equal(pagehint_device_hint_state(g->device, NULL), PAGEHINT_DEVICE_HINT_STOPPED);
	guest_boot(g, 0);
	send_id(g, id);
	send_pages(g, F * 4096, 4096);
	assert_int_equal(g->n_hinted, 0);
	assert_int_equal(pagehint_device_hint_start(g->device, &next), 0);
	assert_int_not_equal(id, next);
	guest_close(g);
}

static void ids_go_round_and_spare_a_run_that_was_not_ended(void **state)
{
	(void)state;
	struct ph_hint hint = { .id = UINT32_MAX - 1 };
	assert_int_equal(ph_hint_start(&hint), 0);
	assert_int_equal(hint.id, UINT32_MAX);
	assert_int_equal(ph_hint_command(&hint, UINT32_MAX, 0), 1);
	assert_int_equal(ph_hint_command(&hint, 0, 0), 1);
	assert_int_equal(ph_hint_start(&hint), 0);
	assert_int_equal(hint.id, 2); /* 0 and 1 are words */
	assert_int_equal(ph_hint_stop(&hint), 0);
	/* the guest has not said STOP to run 2; all ids later it is still its own */
	hint.id = 1;
	assert_int_equal(ph_hint_start(&hint), -EAGAIN);
	assert_int_equal(hint.state, PAGEHINT_DEVICE_HINT_STOPPED);
	assert_int_equal(ph_hint_command(&hint, 0, 0), 0);
	assert_int_equal(ph_hint_start(&hint), 0);
	/* STOP to the run before does not end one that was only asked for */
	assert_int_equal(ph_hint_command(&hint, 0, 0), 0);
	assert_int_equal(hint.state, PAGEHINT_DEVICE_HINT_REQUESTED);
	assert_int_equal(ph_hint_done(&hint), 0);
	assert_int_equal(ph_hint_cmd_id(&hint), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_run_from_start_to_done),
		cmocka_unit_test(only_a_run_that_was_asked_for_begins),
		cmocka_unit_test(post_copy_forbids_the_start_and_every_range),
		cmocka_unit_test(hints_are_whole_pages_of_memory),
		cmocka_unit_test(an_id_of_the_wrong_length_is_none),
		cmocka_unit_test(a_chain_may_carry_the_id_and_pages),
		cmocka_unit_test(done_at_the_end_when_so_wanted),
		cmocka_unit_test(a_reset_ends_the_run_and_its_id_does_not_come_back),
		cmocka_unit_test(ids_go_round_and_spare_a_run_that_was_not_ended),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
