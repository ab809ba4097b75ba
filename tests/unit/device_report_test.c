/*
 * Reports: what the guest says is free goes to the backend in one batch of maximal runs, or is acknowledged and kept, by the
 * rules that stand in the table below.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include <pagehint/gate.h>

#include "fakes/guest.h"

#define F GUEST_FREE
#define RUN(page, pages) ((struct pagehint_run) { (page), (pages) })
#define REPORT PAGEHINT_BALLOON_Q_REPORT

static void a_request_is_one_batch_of_maximal_runs(void **state)
{
	(void)state;
	struct guest *g = guest_open(NULL);
	guest_boot(g, 0);
	struct pagehint_run pages[] = { RUN(F + 512, 512), RUN(F, 512), RUN(F + 2048, 16), RUN(F + 1024, 512) };
	struct pagehint_run expected[] = { RUN(F, 1536), RUN(F + 2048, 16) };
	guest_give(g, F, 1536);
	guest_give(g, F + 2048, 16);
	guest_report(g, pages, 4);
	guest_expect(g, expected, 2);
	guest_check(g);
	struct pagehint_device_stats stats = guest_stats(g);
	assert_int_equal(stats.report_ranges, 4);
	assert_int_equal(stats.report_bytes, 1552 * 4096);
	assert_int_equal(stats.batches, 1);
	assert_int_equal(stats.freed, 1552 * 4096);
	assert_int_equal(stats.popped, 1);
	assert_int_equal(stats.completed, 1);
	guest_close(g);
}

static void what_overlaps_is_discarded_once(void **state)
{
	(void)state;
	struct guest *g = guest_open(NULL);
	guest_boot(g, 0);
	struct pagehint_run pages[] = { RUN(F + 8, 8), RUN(F + 4, 8), RUN(F + 9, 1), RUN(F + 4, 8) };
	guest_give(g, F + 4, 12);
	guest_report(g, pages, 4);
	guest_expect(g, &RUN(F + 4, 12), 1);
	assert_int_equal(guest_dropped(g, PAGEHINT_DEVICE_DROP_DUPLICATE), 13);
	guest_check(g);
	guest_close(g);
}

static void ranges_that_are_acknowledged_and_kept(void **state)
{
	(void)state;
	const uint64_t page = 4096, low_end = GUEST_HIGH_PAGE * page;
	const struct {
		const char *what;
		uint32_t host_page_shift, drop;
		uint64_t addr, len;
	} cases[] = {
		{ "not at a page", 12, PAGEHINT_DEVICE_DROP_UNALIGNED, F * page + 1, page },
		{ "not a whole page", 12, PAGEHINT_DEVICE_DROP_UNALIGNED, F * page, page - 1 },
		{ "a byte", 12, PAGEHINT_DEVICE_DROP_UNALIGNED, F * page, 1 },
		{ "a page and a half", 12, PAGEHINT_DEVICE_DROP_UNALIGNED, F * page, page + 2048 },
		{ "not a host page", 16, PAGEHINT_DEVICE_DROP_UNALIGNED, F * page, page },
		{ "not at a host page", 16, PAGEHINT_DEVICE_DROP_UNALIGNED, F * page + page, 16 * page },
		{ "in two regions", 12, PAGEHINT_DEVICE_DROP_STRADDLE, low_end - page, 2 * page },
		{ "in two regions, large", 12, PAGEHINT_DEVICE_DROP_STRADDLE, F * page, low_end - F * page + page },
		{ "ROM", 12, PAGEHINT_DEVICE_DROP_PINNED, GUEST_ROM_PAGE * page, page },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct guest_how how = { .host_page_shift = cases[i].host_page_shift };
		struct guest *g = guest_open(&how);
		guest_boot(g, 0);
		guest_report_bytes(g, cases[i].addr, (uint32_t)cases[i].len);
		if (g->calls != 0 || guest_dropped(g, cases[i].drop) != 1)
			fail_msg("%s", cases[i].what);
		guest_check(g);
		/* and the device is none the worse for it */
		guest_give(g, F + 64, 16);
		guest_report(g, &RUN(F + 64, 16), 1);
		guest_expect(g, &RUN(F + 64, 16), 1);
		guest_close(g);
	}
}

static void a_buffer_outside_memory_breaks_the_device(void **state)
{
	(void)state;
	const uint64_t page = 4096;
	const struct {
		uint64_t addr, len;
	} cases[] = {
		{ 0, page },
		{ (GUEST_PAGE - 1) * page, page },
		{ (GUEST_PAGE - 1) * page, 2 * page },
		{ GUEST_HOLE_PAGE * page, page },
		{ (GUEST_HOLE_PAGE - 1) * page, 2 * page },
		{ F * page, UINT32_MAX },
		{ F * page, UINT32_MAX & ~4095u },
		{ UINT64_MAX - page, page },
		{ UINT64_MAX & ~4095ull, 4095 },
		{ UINT64_C(1) << 63, page },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct guest *g = guest_open(NULL);
		guest_boot(g, 0);
		struct ph_ring_buffer buffers[] = { { .addr = F * page, .len = page },
						    { .addr = cases[i].addr, .len = (uint32_t)cases[i].len } };
		int alone = cases[i].len > 2 * page; /* a chain has 4 GiB at the most */
		guest_put(g, REPORT, buffers + alone, 0, alone ? 1 : 2, 1);
		assert_int_equal(guest_kick(g, REPORT), 0);
		assert_int_equal(g->events, PAGEHINT_DEVICE_EVENT_NEEDS_RESET | PAGEHINT_DEVICE_EVENT_CONFIG);
		assert_true(pagehint_device_status(g->device) & PAGEHINT_VIRTIO_STATUS_NEEDS_RESET);
		assert_int_equal(guest_got(g, REPORT), -1);
		assert_int_equal(g->calls, 0); /* nothing of that request */
		assert_int_equal(guest_dropped(g, PAGEHINT_DEVICE_DROP_ADDRESS), 1);
		/* it stands still until a reset, on every queue; then all is well */
		uint32_t pfn = (uint32_t)F;
		struct ph_ring_buffer list = { .addr = guest_pfns(g, &pfn, 1), .len = 4 };
		guest_put(g, PAGEHINT_BALLOON_Q_INFLATE, &list, 1, 0, 2);
		assert_int_equal(guest_kick(g, PAGEHINT_BALLOON_Q_INFLATE), 0);
		assert_int_equal(guest_step(g), 0);
		assert_int_equal(guest_got(g, PAGEHINT_BALLOON_Q_INFLATE), -1);
		assert_int_equal(pagehint_device_reset(g->device), 0);
		assert_int_equal(pagehint_device_status(g->device), 0);
		guest_boot(g, 0);
		guest_give(g, F, 1);
		guest_report(g, &RUN(F, 1), 1);
		guest_expect(g, &RUN(F, 1), 1);
		guest_check(g);
		guest_close(g);
	}
}

static void a_buffer_the_device_may_only_read_is_kept(void **state)
{
	(void)state;
	struct guest *g = guest_open(NULL);
	guest_boot(g, 0);
	struct ph_ring_buffer buffers[] = { { .addr = F * 4096, .len = 4096 },
					    { .addr = (F + 1) * 4096, .len = 4096 } };
	guest_give(g, F + 1, 1);
	guest_put(g, REPORT, buffers, 1, 1, 1);
	assert_int_equal(guest_kick(g, REPORT), 0);
	assert_int_equal(guest_got(g, REPORT), 1);
	guest_expect(g, &RUN(F + 1, 1), 1);
	assert_int_equal(guest_dropped(g, PAGEHINT_DEVICE_DROP_READABLE), 1);
	guest_check(g);
	guest_close(g);
}

static void poison_forbids_reports_and_not_inflation(void **state)
{
	(void)state;
	struct guest *g = guest_open(NULL);
	unsigned char poison[4] = { 0xaa, 0xaa, 0xaa, 0xaa }, none[4] = { 0 }, back[4];
	uint32_t pfn = (uint32_t)F + 9;
	guest_boot(g, 0);
	assert_int_equal(pagehint_device_config_write(g->device, g->now, 12, poison, 4), 0);
	guest_report(g, &RUN(F, 8), 1);
	assert_int_equal(g->calls, 0);
	assert_int_equal(guest_dropped(g, PAGEHINT_DEVICE_DROP_POISON), 1);
	guest_give(g, pfn, 1);
	guest_inflate(g, &pfn, 1);
	guest_expect(g, &RUN(pfn, 1), 1);
	/* a zero written again allows it again; a reset forgets */
	assert_int_equal(pagehint_device_config_write(g->device, g->now, 12, none, 4), 0);
	guest_give(g, F, 8);
	guest_report(g, &RUN(F, 8), 1);
	assert_int_equal(g->n_runs, 2);
	assert_int_equal(pagehint_device_config_write(g->device, g->now, 12, poison, 4), 0);
	assert_int_equal(pagehint_device_reset(g->device), 0);
	guest_boot(g, 0);
	assert_int_equal(pagehint_device_config_read(g->device, 12, back, 4), 0);
	assert_memory_equal(back, none, 4);
	guest_check(g);
	guest_close(g);
}

static void poison_that_was_not_negotiated_reads_zero_and_means_nothing(void **state)
{
	(void)state;
	struct guest *g = guest_open(NULL);
	unsigned char poison[4] = { 0xaa, 0xaa, 0xaa, 0xaa }, back[4];
	guest_boot(g, PAGEHINT_DEVICE_FEATURES_DEFAULT & ~PAGEHINT_BALLOON_F_PAGE_POISON);
	assert_int_equal(pagehint_device_config_write(g->device, g->now, 12, poison, 4), 0);
	assert_int_equal(pagehint_device_config_read(g->device, 12, back, 4), 0);
	assert_memory_equal(back, "\0\0\0\0", 4);
	assert_int_equal(guest_dropped(g, PAGEHINT_DEVICE_DROP_CONFIG), 1);
	guest_give(g, F, 8);
	guest_report(g, &RUN(F, 8), 1);
	guest_expect(g, &RUN(F, 8), 1);
	guest_check(g);
	guest_close(g);
}

static void the_least_size_is_in_bytes_and_changes_at_run_time(void **state)
{
	(void)state;
	struct guest *g = guest_open(NULL);
	struct pagehint_device_knobs knobs = { .struct_size = sizeof(knobs), .min_report_bytes = 64 << 10 };
	guest_boot(g, 0);
	assert_int_equal(pagehint_device_tune(g->device, &knobs), 0);
	struct pagehint_run pages[] = { RUN(F, 15), RUN(F + 32, 16) };
	guest_give(g, F + 32, 16);
	guest_report(g, pages, 2);
	guest_expect(g, &RUN(F + 32, 16), 1);
	assert_int_equal(guest_dropped(g, PAGEHINT_DEVICE_DROP_SMALL), 1);
	assert_int_equal(pagehint_device_tune(g->device, NULL), 0);
	guest_give(g, F, 15);
	guest_report(g, pages, 1);
	assert_int_equal(g->n_runs, 2);
	knobs.min_report_bytes = (UINT64_C(1) << 30) + 1;
	assert_int_equal(pagehint_device_tune(g->device, &knobs), -EINVAL);
	guest_check(g);
	guest_close(g);
}

static void a_pin_forbids_its_region_and_no_other(void **state)
{
	(void)state;
	struct guest *g = guest_open(NULL);
	uint64_t in_flight = 9;
	guest_boot(g, 0);
	assert_int_equal(pagehint_map_pin(g->map, g->high, &in_flight), 0);
	assert_int_equal(in_flight, 0);
	struct pagehint_run pages[] = { RUN(GUEST_HIGH_PAGE, 16), RUN(F, 16) };
	guest_give(g, F, 16);
	guest_report(g, pages, 2);
	guest_expect(g, &RUN(F, 16), 1);
	assert_int_equal(guest_dropped(g, PAGEHINT_DEVICE_DROP_PINNED), 1);
	assert_int_equal(pagehint_map_unpin(g->map, g->high), 0);
	guest_give(g, GUEST_HIGH_PAGE, 16);
	guest_report(g, pages, 1);
	assert_int_equal(g->n_runs, 2);
	guest_check(g);
	guest_close(g);
}

static void the_used_length_is_zero_unless_the_unratified_bit_says_otherwise(void **state)
{
	(void)state;
	for (uint32_t flag = 0; flag < 2; flag++)
		for (uint32_t zero = 0; zero < 2; zero++)
			for (uint32_t keeps = 0; keeps < 2; keeps++) {
				struct guest_how how = { .reads_zero = zero };
				how.opts.flags = flag ? PAGEHINT_DEVICE_INIT_REPORTED : 0;
				struct guest *g = guest_open(&how);
				g->keeps = keeps;
				guest_boot(g, 0);
				assert_int_equal(pagehint_device_negotiated(g->device) >> 6 & 1, flag);
				guest_give(g, F, 24);
				struct ph_ring_buffer buffers[] = { { .addr = F * 4096, .len = 4096 * 8 },
								    { .addr = (F + 16) * 4096, .len = 4096 * 8 } };
				guest_put(g, REPORT, buffers, 0, 2, 1);
				assert_int_equal(guest_kick(g, REPORT), 0);
				assert_int_equal(guest_got(g, REPORT), 1);
				assert_int_equal(g->used, flag && zero && !keeps ? 16 * 4096 : 0);
				/* one part that is not discarded is enough for none */
				buffers[1].len = 4095;
				guest_put(g, REPORT, buffers, 0, 2, 2);
				assert_int_equal(guest_kick(g, REPORT), 0);
				assert_int_equal(guest_got(g, REPORT), 2);
				assert_int_equal(g->used, 0);
				guest_close(g);
			}
}

static void a_gate_of_either_handle_keeps_reports(void **state)
{
	(void)state;
	for (uint32_t backend_gate = 0; backend_gate < 2; backend_gate++) {
		struct guest_how how = { .backend_gate = backend_gate, .no_gate = backend_gate };
		struct guest *g = guest_open(&how);
		guest_boot(g, 0);
		assert_int_equal(pagehint_gate_close(g->gate, PAGEHINT_INHIBIT_SNAPSHOT, NULL), 0);
		guest_report(g, &RUN(F, 8), 1);
		assert_int_equal(g->calls, 0);
		assert_int_equal(guest_stats(g).kept, backend_gate ? 8 * 4096 : 0);
		assert_int_equal(guest_dropped(g, PAGEHINT_DEVICE_DROP_INHIBITED), !backend_gate);
		assert_int_equal(pagehint_gate_open(g->gate, PAGEHINT_INHIBIT_SNAPSHOT), 0);
		guest_check(g);
		guest_close(g);
	}
}

/* the ring's shapes make no difference to what is discarded */
static void every_form_of_ring_reports_alike(void **state)
{
	(void)state;
	const uint64_t bits[] = { PAGEHINT_VIRTIO_F_INDIRECT_DESC, PAGEHINT_VIRTIO_F_EVENT_IDX,
				  PAGEHINT_VIRTIO_F_RING_PACKED, PAGEHINT_VIRTIO_F_IN_ORDER };
	for (uint32_t form = 0; form < 16; form++) {
		struct guest_how how = { .ring_size = 32 };
		how.opts.features = PAGEHINT_BALLOON_F_ALL | PAGEHINT_VIRTIO_F_VERSION_1;
		for (uint32_t b = 0; b < 4; b++)
			how.opts.features |= form >> b & 1 ? bits[b] : 0;
		struct guest *g = guest_open(&how);
		guest_boot(g, 0);
		for (uint64_t i = 0; i < 100; i++) {
			struct pagehint_run pages[32];
			for (uint64_t p = 0; p < 32; p++)
				pages[p] = RUN(F + (i % 50) * 64 + 2 * p, 1);
			guest_refill(g);
			guest_give(g, F + (i % 50) * 64, 64);
			guest_report(g, pages, 32);
			guest_expect(g, pages, 32);
		}
		guest_check(g);
		guest_close(g);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_is_one_batch_of_maximal_runs),
		cmocka_unit_test(what_overlaps_is_discarded_once),
		cmocka_unit_test(ranges_that_are_acknowledged_and_kept),
		cmocka_unit_test(a_buffer_outside_memory_breaks_the_device),
		cmocka_unit_test(a_buffer_the_device_may_only_read_is_kept),
		cmocka_unit_test(poison_forbids_reports_and_not_inflation),
		cmocka_unit_test(poison_that_was_not_negotiated_reads_zero_and_means_nothing),
		cmocka_unit_test(the_least_size_is_in_bytes_and_changes_at_run_time),
		cmocka_unit_test(a_pin_forbids_its_region_and_no_other),
		cmocka_unit_test(the_used_length_is_zero_unless_the_unratified_bit_says_otherwise),
		cmocka_unit_test(a_gate_of_either_handle_keeps_reports),
		cmocka_unit_test(every_form_of_ring_reports_alike),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
