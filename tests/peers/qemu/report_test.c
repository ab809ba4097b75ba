/* Free page reporting: memory leaves the file, the right bytes and no others. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "board.h"

#define REPORTING ",free-page-reporting=on"

static struct board b;

/* Waits for one batch to end; returns its result. */
static int end_of_batch(uint64_t expect_cookie)
{
	const struct pagehint_run *runs;
	uint64_t cookie = 0;
	int32_t result = 1;
	uint32_t n;
	BOARD_UNTIL(&b, pagehint_driver_reap(b.driver, &cookie, &result, &runs, &n) == 0);
	assert_int_equal(cookie, expect_cookie);
	return result;
}

static void test_all_of_what_is_aligned_leaves(void **state)
{
	(void)state;
	struct pagehint_run runs[16];
	uint64_t asked = 0, first = 64 * MIB / FRAME;
	board_open(&b, 256 * MIB, REPORTING ",free-page-hint=on,deflate-on-oom=on");
	board_start(&b);
	board_fill(&b, first, 128 * MIB / FRAME);
	/* every other 2 MiB, and some runs of 4 MiB: what lies between stays */
	for (uint32_t i = 0; i < 16; i++) {
		runs[i] = (struct pagehint_run) { first + i * 2048, i % 4 == 0 ? 1024 : 512 };
		asked += runs[i].frames * FRAME;
	}
	uint64_t before = qemu_host_bytes(&b.q);
	assert_int_equal(pagehint_driver_report(b.driver, runs, 16, 7), 0);
	assert_int_equal(end_of_batch(7), 0);
	uint64_t freed = before - qemu_host_bytes(&b.q);
	for (uint32_t i = 0; i < 16; i++)
		assert_true(board_holds(&b, runs[i].frame + runs[i].frames, 2048 - runs[i].frames));
	assert_int_equal(board_stats(&b).reported * FRAME, asked);
	assert_int_equal(freed, asked);
	printf("RESULT qemu.report.file_blocks_freed_pct.%s %.1f\n", board_how.name,
	       100.0 * (double)freed / (double)asked);
	board_close(&b);
}

static void test_a_batch_larger_than_the_ring(void **state)
{
	(void)state;
	struct pagehint_run runs[400];
	uint64_t first = 32 * MIB / FRAME;
	board_open(&b, 256 * MIB, REPORTING);
	board_start(&b);
	board_fill(&b, first, 400 * 64);
	for (uint32_t i = 0; i < 400; i++)
		runs[i] = (struct pagehint_run) { first + i * 64, 32 };
	uint64_t before = qemu_host_bytes(&b.q);
	assert_int_equal(pagehint_driver_report(b.driver, runs, 400, 1), 0);
	assert_int_equal(end_of_batch(1), 0);
	assert_int_equal(before - qemu_host_bytes(&b.q), 400 * 32 * FRAME);
	for (uint32_t i = 0; i < 400; i++)
		assert_true(board_holds(&b, runs[i].frame + 32, 32));
	/* 400 buffers in requests as large as the ring, and not a notification each */
	assert_true(board_stats(&b).requests <= (400 + board_stats(&b).report_ring - 1) / board_stats(&b).report_ring);
	assert_true(board_stats(&b).kicks <= board_stats(&b).requests);
	board_close(&b);
}

static void test_numbering_is_found_out(void **state)
{
	(void)state;
	struct pagehint_run run = { 64 * MIB / FRAME, 512 };
	/* hints offered and not accepted, statistics neither; then hints not offered at all; and a transitional device */
	static const char *const devices[] = { REPORTING ",free-page-hint=on", REPORTING,
					       REPORTING ",disable-legacy=off" };
	for (uint32_t i = 0; i < (board_how.is_mmio ? 2 : 3); i++) {
		board_open(&b, 128 * MIB, devices[i]);
		b.opts.features = ~(uint64_t)(PAGEHINT_BALLOON_F_FREE_PAGE_HINT | PAGEHINT_BALLOON_F_STATS_VQ);
		board_start(&b);
		board_fill(&b, run.frame, run.frames);
		uint64_t before = qemu_host_bytes(&b.q);
		assert_int_equal(pagehint_driver_report(b.driver, &run, 1, i), 0);
		assert_int_equal(end_of_batch(i), 0);
		assert_int_equal(before - qemu_host_bytes(&b.q), 2 * MIB);
		board_close(&b);
	}
}

static void test_poison(void **state)
{
	(void)state;
	struct pagehint_run run = { 64 * MIB / FRAME, 512 };
	board_open(&b, 128 * MIB, REPORTING ",page-poison=on");
	b.opts.flags = PAGEHINT_DRIVER_POISON;
	b.opts.poison_val = 0xaaaaaaaa;
	board_start(&b);
	/* the device was told, and nothing is sent that would free nothing */
	assert_int_equal(board_config(&b, PAGEHINT_BALLOON_CONFIG_POISON_VAL), 0xaaaaaaaa);
	board_fill(&b, run.frame, run.frames);
	uint64_t before = qemu_host_bytes(&b.q), requests = board_stats(&b).requests;
	assert_int_equal(pagehint_driver_report(b.driver, &run, 1, 3), 0);
	assert_int_equal(end_of_batch(3), -EOPNOTSUPP);
	assert_int_equal(board_stats(&b).requests, requests);
	assert_int_equal(qemu_host_bytes(&b.q), before);
	assert_true(board_holds(&b, run.frame, run.frames));
	board_close(&b);
	/* a poison of zero is what a discarded page reads as: reports free memory */
	board_open(&b, 128 * MIB, REPORTING ",page-poison=on");
	b.opts.flags = PAGEHINT_DRIVER_POISON;
	board_start(&b);
	board_fill(&b, run.frame, run.frames);
	before = qemu_host_bytes(&b.q);
	assert_int_equal(pagehint_driver_report(b.driver, &run, 1, 4), 0);
	assert_int_equal(end_of_batch(4), 0);
	assert_int_equal(before - qemu_host_bytes(&b.q), 2 * MIB);
	board_close(&b);
	/* no way to tell the device: nothing may be reported at all */
	board_open(&b, 128 * MIB, REPORTING ",free-page-hint=on,page-poison=off");
	b.opts.flags = PAGEHINT_DRIVER_POISON;
	board_start(&b);
	assert_int_equal(
		board_stats(&b).features & (PAGEHINT_BALLOON_F_PAGE_REPORTING | PAGEHINT_BALLOON_F_FREE_PAGE_HINT), 0);
	board_close(&b);
}

static void test_a_device_that_wants_access_platform(void **state)
{
	(void)state;
	uint64_t bytes, dma_bytes;
	board_open(&b, 128 * MIB, REPORTING ",iommu_platform=on");
	assert_int_equal(pagehint_driver_size(&b.opts, &bytes, &dma_bytes), 0);
	b.opts.dma_bytes = dma_bytes;
	b.memory = aligned_alloc(64, (size_t)((bytes + 63) / 64 * 64));
	assert_int_equal(
		pagehint_driver_init(b.memory, bytes, b.q.ram + BOARD_DMA, b.virtio, &b.ops, &b, &b.opts, &b.driver),
		0);
	assert_int_equal(pagehint_driver_start(b.driver, qemu_now()), -EOPNOTSUPP);
	assert_int_equal(board_stats(&b).state, PAGEHINT_DRIVER_OFF);
	board_close(&b);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_of_what_is_aligned_leaves),
		cmocka_unit_test(test_a_batch_larger_than_the_ring),
		cmocka_unit_test(test_numbering_is_found_out),
		cmocka_unit_test(test_poison),
		cmocka_unit_test(test_a_device_that_wants_access_platform),
	};
	if (board_arguments(argc, argv) != 0)
		return 2;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
