/*
 * A hostile guest on rings that are in order: whatever its buffers say, and whenever, the device neither dies nor discards a
 * byte that the guest may not give, its work stays within the budget, the counters tell, and after a reset it works.
 */
#include "support/hostile_guest.h"

/* ---- buffers that lie ---- */

static const struct {
	const char *what;
	uint64_t addr;
	uint32_t len;
	uint32_t breaks; /* on every queue */
} buffers[] = {
	{ "nothing at 0", 0, 0, 0 },
	{ "nothing at the top", UINT64_MAX, 0, 0 },
	{ "nothing in memory", F *PAGE, 0, 0 },
	{ "nothing in a hole", GUEST_HOLE_PAGE *PAGE, 0, 0 },
	{ "page 0", 0, 4096, 1 },
	{ "4 GiB from 0", 0, 0xffffffff, 1 },
	{ "4 GiB from memory on", F *PAGE, 0xffffffff, 1 },
	{ "4 GiB, aligned", F *PAGE, 0xfffff000, 1 },
	{ "below memory", (GUEST_PAGE - 1) * PAGE, 8192, 1 },
	{ "beyond memory", (GUEST_HOLE_PAGE - 1) * PAGE, 8192, 1 },
	{ "over the hole", (GUEST_HOLE_PAGE - 1) * PAGE, 514 * 4096, 1 },
	{ "in the hole", GUEST_HOLE_PAGE *PAGE, 4096, 1 },
	{ "beyond ROM", (GUEST_ROM_PAGE + GUEST_ROM - 1) * PAGE, 8192, 1 },
	{ "the last page of all", UINT64_MAX - 4095, 4095, 1 },
	{ "half of all", UINT64_C(1) << 63, 4096, 1 },
	{ "above 2^52 pages", UINT64_C(1) << 52, 4096, 1 },
	{ "ROM", GUEST_ROM_PAGE *PAGE, 4096, 0 },
	{ "all of ROM", GUEST_ROM_PAGE *PAGE, 64 * 4096, 0 },
	{ "two regions", (GUEST_HIGH_PAGE - 1) * PAGE, 8192, 0 },
	{ "a byte", F *PAGE + 1, 1, 0 },
	{ "three bytes over a page's end", F *PAGE + 4094, 3, 0 },
};

static void every_lie_of_a_buffer_is_found(void **state)
{
	(void)state;
	struct guest *g = open_guest();
	for (uint32_t role = 0; role < PAGEHINT_BALLOON_Q_COUNT; role++)
		for (size_t i = 0; i < sizeof(buffers) / sizeof(*buffers); i++)
			for (uint32_t wrong_way = 0; wrong_way < 2; wrong_way++) {
				begin(g);
				uint32_t f = wrong_way ? flags_of(role) ^ PH_DESC_WRITE : flags_of(role);
				desc(table_of(g, role), 0, buffers[i].addr, buffers[i].len, f, 0);
				offer(g, role, 0);
				run_dry(g, role);
				if (buffers[i].breaks) {
					broke(g, role, PAGEHINT_DEVICE_DROP_ADDRESS, buffers[i].what);
				} else {
					if (guest_stats(g).broken != counted.broken || g->n_runs != 0)
						fail_msg("%s on queue %u", buffers[i].what, role);
					assert_int_equal(used_idx(g, role), role != PAGEHINT_BALLOON_Q_STATS);
					guest_check(g);
				}
				is_well(g);
			}
	guest_close(g);
}

/* every page number near every edge, alone: only a free page of memory may go */
static void page_numbers_at_every_edge(void **state)
{
	(void)state;
	const uint64_t edges[] = { 0,
				   GUEST_PAGE,
				   F,
				   GUEST_HIGH_PAGE,
				   GUEST_HOLE_PAGE,
				   GUEST_ROM_PAGE,
				   GUEST_ROM_PAGE + GUEST_ROM,
				   UINT64_C(1) << 20,
				   UINT64_C(1) << 31,
				   UINT64_C(1) << 32 };
	struct guest *g = open_guest();
	begin(g);
	for (size_t e = 0; e < sizeof(edges) / sizeof(*edges); e++)
		for (int64_t d = -2; d <= 2; d++) {
			uint32_t pfn = (uint32_t)(edges[e] + (uint64_t)d);
			int memory = pfn >= GUEST_PAGE && pfn < GUEST_HOLE_PAGE;
			if (pfn >= GUEST_PAGE && pfn < F)
				continue; /* the rings: the guest may, and would lose them */
			guest_refill(g);
			if (memory)
				guest_give(g, pfn, 1);
			guest_inflate(g, &pfn, 1);
			guest_deflate(g, &pfn, 1);
			assert_int_equal(g->n_runs, memory);
			guest_check(g);
		}
	guest_close(g);
}

/* ---- lies in time ---- */

static void write_poison(struct guest *g, uint32_t value)
{
	unsigned char b[4] = { (unsigned char)value, (unsigned char)(value >> 8), (unsigned char)(value >> 16),
			       (unsigned char)(value >> 24) };
	assert_int_equal(pagehint_device_config_write(g->device, g->now, 12, b, 4), 0);
}

static void poison_that_changes_while_reports_run(void **state)
{
	(void)state;
	struct guest *g = open_guest();
	begin(g);
	assert_int_equal(pagehint_device_set_status(g->device, 15), 0);
	for (uint32_t i = 0; i < 200; i++) {
		write_poison(g, i % 3 == 0 ? 0 : i);
		guest_refill(g);
		if (i % 3 == 0)
			guest_give(g, F, 2);
		guest_report(g, &RUN(F, 2), 1);
		assert_int_equal(g->n_runs, i % 3 == 0);
		guest_check(g);
	}
	assert_int_equal(guest_dropped(g, PAGEHINT_DEVICE_DROP_POISON), 133);
	assert_true(guest_dropped(g, PAGEHINT_DEVICE_DROP_LATE_POISON) > 100);
	guest_close(g);
}

static void command(struct guest *g, uint32_t id)
{
	unsigned char b[4] = { (unsigned char)id, (unsigned char)(id >> 8), (unsigned char)(id >> 16),
			       (unsigned char)(id >> 24) };
	struct ph_ring_buffer list = { .addr = guest_list(g, b, 4), .len = 4 };
	guest_put(g, PAGEHINT_BALLOON_Q_HINT, &list, 1, 0, 1);
	assert_int_equal(guest_kick(g, PAGEHINT_BALLOON_Q_HINT), 0);
	assert_int_equal(guest_got(g, PAGEHINT_BALLOON_Q_HINT), 1);
}

static void stale_and_reused_hint_ids(void **state)
{
	(void)state;
	struct guest *g = open_guest();
	struct ph_ring_buffer page = { .addr = F * PAGE, .len = 4096 };
	uint32_t runs = 0, hinted = 0;
	begin(g);
	for (uint32_t round = 0; round < 300; round++) {
		uint32_t id = 0, began = 0;
		if (pagehint_device_hint_start(g->device, &id) == 0)
			runs++;
		const uint32_t ids[] = { id - 1, id + 1, 1, id, id, 0, id, id ^ 0x80000000, 0xffffffff };
		for (uint32_t i = 0; i < 9; i++) {
			command(g, ids[i]);
			began = ids[i] == id ? (i == 3 || i == 4) : ids[i] == 0 ? 0 : began;
			guest_put(g, PAGEHINT_BALLOON_Q_HINT, &page, 0, 1, 2);
			assert_int_equal(guest_kick(g, PAGEHINT_BALLOON_Q_HINT), 0);
			assert_int_equal(guest_got(g, PAGEHINT_BALLOON_Q_HINT), 2);
			hinted += began;
			assert_int_equal(g->n_hinted, hinted); /* only between its own start and its stop */
		}
	}
	assert_int_equal(runs, 300);
	assert_int_equal(g->calls, 0);
	guest_check(g);
	guest_close(g);
}

static void requests_while_it_is_reset(void **state)
{
	(void)state;
	struct guest_how how = { .async = 1, .ring_size = SIZE };
	struct guest *g = guest_open(&how);
	guest_boot(g, 0);
	struct ph_ring_buffer page = { .addr = F * PAGE, .len = 4096 };
	guest_give(g, F, 1);
	guest_put(g, PAGEHINT_BALLOON_Q_REPORT, &page, 0, 1, 1);
	assert_int_equal(guest_kick(g, PAGEHINT_BALLOON_Q_REPORT), 0);
	assert_int_equal(pagehint_device_reset(g->device), -EAGAIN);
	for (uint32_t role = 0; role < PAGEHINT_BALLOON_Q_COUNT; role++) {
		desc(table_of(g, role), 0, good_buffer(g, role), 4, flags_of(role), 0);
		offer(g, role, 0);
		assert_int_equal(guest_start(g, role, 0, 0, 0), -EBUSY);
		assert_int_equal(guest_kick(g, role), -ENOENT);
		assert_int_equal(guest_step(g), 0);
	}
	assert_int_equal(guest_dropped(g, PAGEHINT_DEVICE_DROP_NOT_READY), 5);
	assert_int_equal(guest_stats(g).popped, 1);
	assert_int_equal(g->n_runs, 1);
	guest_answer(g, 1);
	assert_int_equal(guest_step(g), 0);
	assert_int_equal(pagehint_device_status(g->device), 0);
	for (uint32_t role = 0; role < PAGEHINT_BALLOON_Q_COUNT; role++)
		assert_int_equal(guest_kick(g, role), -ENOENT);
	guest_check(g);
	guest_close(g);
}

/* ---- floods ---- */

#define FLOOD 64u

/* a guest that makes a head available again as soon as it sees that it came back */
static void refill_ring(struct guest *g)
{
	uint16_t used =
		ph_le16_get(&((struct ph_used *)guest_place(g, PAGEHINT_BALLOON_Q_REPORT, 0, FLOOD).device)->idx);
	struct ph_avail *avail = guest_place(g, PAGEHINT_BALLOON_Q_REPORT, 0, FLOOD).driver;
	ph_le16_release(&avail->idx, (uint16_t)(used + FLOOD));
}

static void a_guest_that_never_stops_is_served_in_portions(void **state)
{
	(void)state;
	struct guest_how how = { .ring_size = FLOOD, .opts.budget = 256 };
	struct guest *g = guest_open(&how);
	guest_boot(g, 0);
	guest_settle(g);
	struct ph_ring_place place = guest_place(g, PAGEHINT_BALLOON_Q_REPORT, 0, FLOOD);
	struct ph_avail *avail = place.driver;
	for (uint16_t i = 0; i < FLOOD; i++) {
		desc(place.desc, i, (F + 2 * i) * PAGE, 4096, PH_DESC_WRITE, 0);
		ph_le16_put(&avail->ring[i], i);
	}
	guest_give(g, F, 2 * FLOOD);
	ph_le16_release(&avail->idx, FLOOD);
	g->inside = refill_ring;
	uint64_t before = 0;
	for (uint32_t i = 0; i < 20; i++) {
		assert_int_equal(guest_kick(g, PAGEHINT_BALLOON_Q_REPORT), 0);
		uint64_t popped = guest_stats(g).popped - before;
		assert_true(popped > FLOOD && popped <= 256);
		assert_int_equal(g->work.more, 1u << guest_index(g, PAGEHINT_BALLOON_Q_REPORT));
		before += popped;
		g->n_runs = 0;
	}
	assert_int_equal(guest_stats(g).broken, 0);
	guest_check(g);
	guest_close(g);
}

static void the_largest_chains_are_walked_in_portions(void **state)
{
	(void)state;
	/* a list of a megabyte of page numbers, all of them wrong, or all the same */
	for (uint32_t same = 0; same < 2; same++) {
		struct guest *g = open_guest();
		uint64_t words = 0x40000, page = F + 1024;
		begin(g);
		for (uint64_t i = 0; i < words; i++)
			memcpy((unsigned char *)guest_at(g, page) + 4 * i,
			       same ? "\x03\x02\x04\x00" : "\xff\xff\xff\xff", 4);
		for (uint64_t p = page; p < page + 256; p++)
			g->given[p - GUEST_PAGE] = 0;
		desc(table_of(g, 0), 0, page * PAGE, (uint32_t)words * 4, 0, 0);
		offer(g, 0, 0);
		uint64_t last = 0, calls = 0;
		assert_int_equal(guest_kick(g, 0), 0);
		while (g->work.more != 0) {
			uint64_t now = guest_stats(g).inflate_pages + guest_dropped(g, PAGEHINT_DEVICE_DROP_BAD_PFN);
			assert_true(now - last <= 256);
			last = now;
			calls++;
			assert_int_equal(guest_step(g), 0);
		}
		assert_true(calls >= words / 256 - 1);
		assert_int_equal(used_idx(g, 0), 1);
		assert_int_equal(g->n_runs, same * words / 4096); /* one a batch */
		guest_close(g);
	}
}

/* as many buffers as a chain can have, each over two regions, on a budget below that */
static void chains_that_cost_more_than_the_budget_come_to_an_end(void **state)
{
	(void)state;
	for (uint32_t role = 0; role < PAGEHINT_BALLOON_Q_COUNT; role++) {
		struct guest_how how = { .ring_size = 128, .opts.budget = 64 };
		struct guest *g = guest_open(&how);
		struct ph_ring_buffer all[128];
		guest_boot(g, 0);
		for (uint32_t i = 0; i < 128; i++)
			all[i] = (struct ph_ring_buffer) { .addr = (GUEST_HIGH_PAGE - 1) * PAGE, .len = 8192 };
		guest_put(g, role, all, flags_of(role) == 0 ? 128 : 0, flags_of(role) == 0 ? 0 : 128, 4);
		run_dry(g, role);
		assert_int_equal(guest_got(g, role), role == PAGEHINT_BALLOON_Q_STATS ? -1 : 4);
		assert_int_equal(guest_stats(g).broken, 0);
		guest_check(g);
		guest_close(g);
	}
}

static void floods_of_config_writes_and_kicks_cost_nothing(void **state)
{
	(void)state;
	struct guest *g = open_guest();
	begin(g);
	for (uint32_t i = 0; i < 20000; i++) {
		unsigned char b[16];
		memset(b, (int)i, sizeof(b));
		(void)!pagehint_device_config_write(g->device, g->now, i % 17, b, (i / 17) % 17);
		(void)!pagehint_device_queue_kick(g->device, i % 7, g->now, &g->work);
	}
	assert_int_equal(g->calls, 0);
	assert_int_equal(guest_stats(g).popped, 0);
	assert_int_equal(g->lines, 0);
	struct pagehint_device_progress p = { .struct_size = sizeof(p) };
	assert_int_equal(pagehint_device_progress(g->device, g->now, &p), 0);
	assert_true(p.actual_pages <= p.memory_pages);
	write_poison(g, 0);
	is_well(g);
	guest_close(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_lie_of_a_buffer_is_found),
		cmocka_unit_test(page_numbers_at_every_edge),
		cmocka_unit_test(poison_that_changes_while_reports_run),
		cmocka_unit_test(stale_and_reused_hint_ids),
		cmocka_unit_test(requests_while_it_is_reset),
		cmocka_unit_test(a_guest_that_never_stops_is_served_in_portions),
		cmocka_unit_test(the_largest_chains_are_walked_in_portions),
		cmocka_unit_test(chains_that_cost_more_than_the_budget_come_to_an_end),
		cmocka_unit_test(floods_of_config_writes_and_kicks_cost_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
