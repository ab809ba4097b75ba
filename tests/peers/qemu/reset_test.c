/* Reset and starting again, and a device that broke: nothing is lost, nothing is doubled, and it works afterwards. */
#include <errno.h>

#include "board.h"

static struct board b;

static uint64_t zone_free(void)
{
	struct pagehint_zone_stats stats = { .struct_size = sizeof(stats) };
	assert_int_equal(pagehint_zone_stats(b.zone, &stats), 0);
	return stats.free;
}

/* Inflates, reports and deflates once; all of it works. */
static void work(void)
{
	struct pagehint_run run = { 0, 512 };
	const struct pagehint_run *runs;
	uint64_t cookie;
	int32_t result = 1;
	uint32_t n;
	board_target(&b, 50 * MIB);
	BOARD_UNTIL(&b, board_stats(&b).held == 50 * MIB / FRAME);
	assert_int_equal(board_actual(&b), 50 * MIB);
	assert_int_equal(pagehint_zone_alloc(b.zone, 9, &run.frame), 0);
	board_fill(&b, run.frame, 512);
	uint64_t before = qemu_host_bytes(&b.q);
	assert_int_equal(pagehint_driver_report(b.driver, &run, 1, 5), 0);
	BOARD_UNTIL(&b, pagehint_driver_reap(b.driver, &cookie, &result, &runs, &n) == 0);
	assert_int_equal(result, 0);
	assert_int_equal(before - qemu_host_bytes(&b.q), 2 * MIB);
	assert_int_equal(pagehint_zone_free(b.zone, run.frame, 9), 0);
	board_target(&b, 20 * MIB);
	BOARD_UNTIL(&b, board_stats(&b).held == 20 * MIB / FRAME && board_stats(&b).deflating == 0);
}

static void start_again(void)
{
	int r = -EAGAIN;
	for (uint32_t i = 0; i < 1000 && r == -EAGAIN; i++)
		r = pagehint_driver_start(b.driver, qemu_now());
	assert_int_equal(r, 0);
}

static void test_reset_and_start_again(void **state)
{
	(void)state;
	board_open(&b, 256 * MIB, ",free-page-reporting=on,free-page-hint=on");
	uint64_t all = zone_free(), deadline;
	board_start(&b);
	for (uint32_t round = 0; round < 3; round++) {
		work();
		assert_int_equal(pagehint_driver_start(b.driver, qemu_now()), -EALREADY);
		assert_int_equal(pagehint_driver_reset(b.driver, qemu_now()), 0);
		assert_int_equal(zone_free(), all);
		assert_int_equal(board_stats(&b).held, 0);
		assert_int_equal(pagehint_driver_step(b.driver, qemu_now(), &deadline), -ENODEV);
		start_again();
		/* the target outlives a reset: the balloon comes back by itself */
		BOARD_UNTIL(&b, board_stats(&b).held == 20 * MIB / FRAME);
		assert_int_equal(board_actual(&b), 20 * MIB);
	}
	board_close(&b);
}

static void test_a_broken_device_recovers(void **state)
{
	(void)state;
	struct pagehint_run beyond = { UINT64_C(1) << 40, 512 };
	const struct pagehint_run *runs;
	uint64_t cookie = 0, given;
	int32_t result = 0;
	uint32_t n = 0;
	board_open(&b, 256 * MIB, ",free-page-reporting=on");
	uint64_t all = zone_free();
	board_start(&b);
	work();
	/* an address outside of memory: QEMU says that the device needs a reset */
	assert_int_equal(pagehint_driver_report(b.driver, &beyond, 1, 77), 0);
	uint64_t give_up = qemu_now() + UINT64_C(10000000000);
	while (board_step(&b) == 0 && qemu_now() < give_up)
		qemu_pause();
	assert_int_equal(board_stats(&b).state, PAGEHINT_DRIVER_BROKEN);
	assert_int_equal(board_step(&b), -ENODEV);
	/* until the reset the batch is in flight, the balloon held, and nothing new goes in */
	assert_int_equal(pagehint_driver_reap(b.driver, &cookie, &result, &runs, &n), -EAGAIN);
	assert_int_equal(pagehint_driver_report(b.driver, &beyond, 1, 78), -ENODEV);
	assert_int_equal(pagehint_driver_oom(b.driver, 1, qemu_now(), &given), -ENODEV);
	assert_int_equal(zone_free(), all - 20 * MIB / FRAME);
	assert_int_equal(pagehint_driver_reset(b.driver, qemu_now()), 0);
	assert_int_equal(pagehint_driver_reap(b.driver, &cookie, &result, &runs, &n), 0);
	assert_int_equal(cookie, 77);
	assert_int_equal(result, -ENODEV);
	assert_int_equal(n, 1);
	assert_int_equal(runs[0].frame, beyond.frame);
	assert_int_equal(pagehint_driver_reap(b.driver, &cookie, &result, &runs, &n), -EAGAIN);
	assert_int_equal(zone_free(), all);
	start_again();
	work();
	assert_int_equal(pagehint_driver_reset(b.driver, qemu_now()), 0);
	assert_int_equal(zone_free(), all);
	assert_int_equal(pagehint_zone_check(b.zone, NULL), 0);
	board_close(&b);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reset_and_start_again),
		cmocka_unit_test(test_a_broken_device_recovers),
	};
	if (board_arguments(argc, argv) != 0)
		return 2;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
