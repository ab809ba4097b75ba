/*
 * Saved state: saved in any state, loaded into a fresh engine, which goes on as if it had been there all the time.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "fakes/guest.h"

#define F GUEST_FREE
#define RUN(page, pages) ((struct pagehint_run) { (page), (pages) })

static void resume(struct guest *g)
{
	for (uint32_t role = 0; role < PAGEHINT_BALLOON_Q_COUNT; role++)
		if (guest_index(g, role) >= 0)
			assert_int_equal(guest_start(g, role, PAGEHINT_DEVICE_QUEUE_RESUME, 0, 0), 0);
	guest_settle(g);
}

static void move(struct guest *g)
{
	struct guest_blob b = guest_save(g);
	guest_replace(g, 3);
	assert_int_equal(pagehint_device_load(g->device, g->now, b.bytes, b.length), 0);
	struct guest_blob again = guest_save(g);
	if (g->how.host_page_shift == 0) { /* the order of blocks in the table may differ */
		assert_int_equal(again.length, b.length);
	}
	resume(g);
}

static void send_bytes(struct guest *g, uint32_t role, const void *bytes, uint32_t n, uint64_t cookie)
{
	struct ph_ring_buffer buffer = { .addr = guest_list(g, bytes, n), .len = n };
	guest_put(g, role, &buffer, 1, 0, cookie);
	assert_int_equal(guest_kick(g, role), 0);
}

static void everything_the_guest_knows_goes_along(void **state)
{
	(void)state;
	const uint64_t forms[] = { 0, PAGEHINT_VIRTIO_F_INDIRECT_DESC, PAGEHINT_VIRTIO_F_EVENT_IDX,
				   PAGEHINT_VIRTIO_F_RING_PACKED,
				   PAGEHINT_VIRTIO_F_RING_PACKED | PAGEHINT_VIRTIO_F_EVENT_IDX };
	for (uint32_t f = 0; f < 5; f++) {
		struct guest_how how = { .ring_size = 8 };
		how.opts.features = PAGEHINT_BALLOON_F_ALL | PAGEHINT_VIRTIO_F_VERSION_1 | forms[f];
		struct guest *g = guest_open(&how);
		unsigned char actual[4] = { 7, 0, 0, 0 }, poison[4] = { 0, 0, 0, 9 }, stat[10] = { 4, 0, 55 },
			      config[2][16];
		uint32_t id = 0, pfn = (uint32_t)F;
		guest_boot(g, 0);
		assert_int_equal(pagehint_device_set_status(g->device, 15), 0);
		for (uint64_t i = 0; i < 13; i++) { /* rings have gone round */
			guest_give(g, F + i, 1);
			guest_report(g, &RUN(F + i, 1), 1);
			guest_deflate(g, &pfn, 1);
		}
		assert_int_equal(pagehint_device_set_target(g->device, g->now, 100 * 4096, NULL), 0);
		g->now += 40;
		assert_int_equal(pagehint_device_config_write(g->device, g->now, 4, actual, 4), 0);
		assert_int_equal(pagehint_device_config_write(g->device, g->now, 12, poison, 4), 0);
		send_bytes(g, PAGEHINT_BALLOON_Q_STATS, stat, 10, 1);
		g->now += 60;
		assert_int_equal(pagehint_device_hint_start(g->device, &id), 0);
		unsigned char command[4] = { (unsigned char)id, 0, 0, 0 };
		send_bytes(g, PAGEHINT_BALLOON_Q_HINT, command, 4, 2);
		assert_int_equal(guest_got(g, PAGEHINT_BALLOON_Q_HINT), 2);
		assert_int_equal(pagehint_device_config_read(g->device, 0, config[0], 16), 0);
		guest_settle(g);
		move(g);
		assert_int_equal(pagehint_device_config_read(g->device, 0, config[1], 16), 0);
		assert_memory_equal(config[0], config[1], 16);
		assert_int_equal(pagehint_device_status(g->device), 15);
		assert_int_equal(pagehint_device_hint_state(g->device, &id), PAGEHINT_DEVICE_HINT_STARTED);
		struct pagehint_device_sample sample = { .struct_size = sizeof(sample) };
		assert_int_equal(pagehint_device_sample(g->device, g->now, &sample), 0);
		assert_int_equal(sample.age_ns, 60); /* older than this clock */
		assert_int_equal(sample.value[4], 55);
		struct pagehint_device_progress p = { .struct_size = sizeof(p) };
		assert_int_equal(pagehint_device_progress(g->device, g->now, &p), 0);
		assert_int_equal(p.moved_pages, 7);
		assert_int_equal(p.left_pages, 93);
		/* and it goes on: poisoned reports, hints, the statistics buffer that was with the old one */
		guest_refill(g);
		guest_report(g, &RUN(F + 20, 1), 1);
		assert_int_equal(g->n_runs, 0);
		struct ph_ring_buffer pages = { .addr = F * 4096, .len = 4096 };
		guest_put(g, PAGEHINT_BALLOON_Q_HINT, &pages, 0, 1, 3);
		assert_int_equal(guest_kick(g, PAGEHINT_BALLOON_Q_HINT), 0);
		assert_int_equal(g->hint_id, id);
		assert_int_equal(pagehint_device_stats_request(g->device), 0);
		assert_int_equal(guest_got(g, PAGEHINT_BALLOON_Q_STATS), 1);
		guest_give(g, pfn, 1);
		guest_inflate(g, &pfn, 1);
		guest_expect(g, &RUN(pfn, 1), 1);
		guest_check(g);
		guest_close(g);
	}
}

static void requests_in_flight_are_done_again(void **state)
{
	(void)state;
	for (uint32_t packed = 0; packed < 2; packed++) {
		struct guest_how how = { .async = 1, .ring_size = 16 };
		how.opts.features = PAGEHINT_DEVICE_FEATURES_DEFAULT | (packed ? PAGEHINT_VIRTIO_F_RING_PACKED : 0);
		struct guest *g = guest_open(&how);
		guest_boot(g, 0);
		guest_settle(g);
		struct ph_ring_buffer buffers[3];
		for (uint64_t i = 0; i < 5; i++) {
			for (uint64_t b = 0; b < 3; b++)
				buffers[b] =
					(struct ph_ring_buffer) { .addr = (F + 8 * i + 2 * b) * 4096, .len = 4096 };
			guest_give(g, F + 8 * i, 5);
			guest_put(g, PAGEHINT_BALLOON_Q_REPORT, buffers, 0, 3, i);
		}
		guest_answer(g, 2);
		assert_int_equal(guest_kick(g, PAGEHINT_BALLOON_Q_REPORT), 0);
		g->now += 10000000;
		assert_int_equal(guest_step(g), 0);
		assert_int_equal(guest_got(g, PAGEHINT_BALLOON_Q_REPORT), 0);
		assert_int_equal(guest_got(g, PAGEHINT_BALLOON_Q_REPORT), 1);
		assert_int_equal(guest_stats(g).in_flight, 3);
		g->n_runs = 0;
		move(g);
		assert_int_equal(g->n_runs, 9);
		guest_answer(g, 3);
		g->now += 10000000;
		assert_int_equal(guest_step(g), 0);
		for (int64_t i = 2; i < 5; i++)
			assert_int_equal(guest_got(g, PAGEHINT_BALLOON_Q_REPORT), i);
		assert_int_equal(guest_got(g, PAGEHINT_BALLOON_Q_REPORT), -1);
		guest_check(g);
		guest_close(g);
	}
}

static void a_request_half_walked_is_begun_again(void **state)
{
	(void)state;
	struct guest_how how = { .opts.budget = 64 };
	struct guest *g = guest_open(&how);
	uint32_t pfns[1000];
	guest_boot(g, 0);
	guest_settle(g);
	for (uint32_t i = 0; i < 1000; i++)
		pfns[i] = (uint32_t)F + i;
	guest_give(g, F, 1000);
	struct ph_ring_buffer list = { .addr = guest_pfns(g, pfns, 1000), .len = 4000 };
	guest_put(g, PAGEHINT_BALLOON_Q_INFLATE, &list, 1, 0, 5);
	assert_int_equal(guest_kick(g, PAGEHINT_BALLOON_Q_INFLATE), 0);
	assert_int_equal(guest_step(g), 0);
	assert_int_equal(guest_got(g, PAGEHINT_BALLOON_Q_INFLATE), -1);
	move(g);
	assert_int_equal(guest_got(g, PAGEHINT_BALLOON_Q_INFLATE), 5);
	guest_expect(g, &RUN(F, 1000), 1);
	guest_check(g);
	guest_close(g);
}

static void parts_of_larger_pages_go_along(void **state)
{
	(void)state;
	struct guest_how how = { .host_page_shift = 16 };
	struct guest *g = guest_open(&how);
	guest_boot(g, 0);
	for (uint32_t i = 0; i < 15; i++) {
		uint32_t pfns[2] = { (uint32_t)F + 512 + i, (uint32_t)GUEST_HIGH_PAGE + 32 + i };
		guest_give(g, pfns[0], 1);
		guest_give(g, pfns[1], 1);
		guest_inflate(g, pfns, 2);
	}
	assert_int_equal(g->n_runs, 0);
	move(g);
	assert_int_equal(guest_stats(g).partial_pages, 30);
	uint32_t last[2] = { (uint32_t)F + 512 + 15, (uint32_t)GUEST_HIGH_PAGE + 47 };
	guest_give(g, last[0], 1);
	guest_give(g, last[1], 1);
	guest_inflate(g, last, 2);
	struct pagehint_run expected[] = { RUN(F + 512, 16), RUN(GUEST_HIGH_PAGE + 32, 16) };
	guest_expect(g, expected, 2);
	guest_check(g);
	guest_close(g);
}

/* memory that is not there any more takes its parts with it; nothing else is lost */
static void parts_of_other_memory_are_forgotten(void **state)
{
	(void)state;
	struct guest_how how = { .host_page_shift = 16 };
	struct guest *g = guest_open(&how);
	guest_boot(g, 0);
	uint32_t pfns[2] = { (uint32_t)F, (uint32_t)GUEST_HIGH_PAGE };
	guest_inflate(g, pfns, 2);
	struct guest_blob b = guest_save(g);
	guest_replace(g, 3);
	assert_int_equal(pagehint_map_remove(g->map, g->high), 0);
	assert_int_equal(pagehint_device_load(g->device, g->now, b.bytes, b.length), 0);
	assert_int_equal(guest_stats(g).partial_pages, 1);
	assert_int_equal(guest_dropped(g, PAGEHINT_DEVICE_DROP_PARTIAL), 1);
	guest_close(g);
}

static void a_broken_device_stays_broken(void **state)
{
	(void)state;
	struct guest *g = guest_open(NULL);
	guest_boot(g, 0);
	struct ph_ring_buffer outside = { .addr = 4096, .len = 4096 };
	guest_put(g, PAGEHINT_BALLOON_Q_REPORT, &outside, 0, 1, 1);
	assert_int_equal(guest_kick(g, PAGEHINT_BALLOON_Q_REPORT), 0);
	struct guest_blob b = guest_save(g);
	guest_replace(g, 3);
	assert_int_equal(pagehint_device_load(g->device, g->now, b.bytes, b.length), 0);
	assert_int_equal(pagehint_device_status(g->device), PAGEHINT_VIRTIO_STATUS_NEEDS_RESET);
	assert_int_equal(guest_start(g, PAGEHINT_BALLOON_Q_REPORT, PAGEHINT_DEVICE_QUEUE_RESUME, 0, 0), -EBUSY);
	assert_int_equal(pagehint_device_reset(g->device), 0);
	guest_boot(g, 0);
	guest_close(g);
}

/* what was not told the guest before the move is told after it */
static void news_are_not_lost(void **state)
{
	(void)state;
	struct guest_how how = { .bare = 1 };
	struct guest *g = guest_open(&how);
	unsigned char stat[10] = { 4, 0, 55 };
	guest_boot(g, 0);
	send_bytes(g, PAGEHINT_BALLOON_Q_STATS, stat, 10, 1);
	guest_settle(g);
	g->interrupts = g->events = 0;
	assert_int_equal(pagehint_device_set_target(g->device, g->now, 4096, NULL), 0);
	assert_int_equal(pagehint_device_stats_request(g->device), 0);
	move(g);
	assert_int_equal(g->events & PAGEHINT_DEVICE_EVENT_CONFIG, PAGEHINT_DEVICE_EVENT_CONFIG);
	assert_int_equal(g->interrupts, 1u << guest_index(g, PAGEHINT_BALLOON_Q_STATS));
	guest_close(g);
}

static void a_fresh_device_saves_and_loads(void **state)
{
	(void)state;
	struct guest_how how = { .bare = 1 };
	struct guest *g = guest_open(&how);
	struct guest_blob b = guest_save(g);
	assert_int_equal(pagehint_device_load(g->device, g->now, b.bytes, b.length), 0);
	struct guest_blob again = guest_save(g);
	assert_int_equal(b.length, again.length);
	assert_memory_equal(b.bytes, again.bytes, b.length);
	guest_close(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(everything_the_guest_knows_goes_along),
		cmocka_unit_test(requests_in_flight_are_done_again),
		cmocka_unit_test(a_request_half_walked_is_begun_again),
		cmocka_unit_test(parts_of_larger_pages_go_along),
		cmocka_unit_test(parts_of_other_memory_are_forgotten),
		cmocka_unit_test(a_broken_device_stays_broken),
		cmocka_unit_test(news_are_not_lost),
		cmocka_unit_test(a_fresh_device_saves_and_loads),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
