/* Inflate and deflate towards QEMU's target, out of memory, statistics. */
#include <errno.h>
#include <stdio.h>

#include "board.h"

#define QUIET_NS UINT64_C(1500000000)

static struct board b;

static uint64_t zone_free(void)
{
	struct pagehint_zone_stats stats = { .struct_size = sizeof(stats) };
	assert_int_equal(pagehint_zone_stats(b.zone, &stats), 0);
	return stats.free;
}

/* Takes blocks of 2 MiB, writes to them and frees them: memory that the host pays for and nobody uses. */
static void use_and_free(uint64_t bytes)
{
	uint64_t frames[256], n = bytes / (2 * MIB);
	assert_true(n <= 256);
	for (uint64_t i = 0; i < n; i++) {
		assert_int_equal(pagehint_zone_alloc(b.zone, 9, &frames[i]), 0);
		board_fill(&b, frames[i], 512);
	}
	for (uint64_t i = 0; i < n; i++)
		assert_int_equal(pagehint_zone_free(b.zone, frames[i], 9), 0);
}

static void test_the_balloon_follows_its_target(void **state)
{
	(void)state;
	static const uint64_t targets[] = { 100 * MIB, 40 * MIB, 41 * MIB + 5 * FRAME, 140 * MIB, 0, 64 * MIB };
	board_open(&b, 256 * MIB, "");
	board_start(&b);
	uint64_t all = zone_free();
	for (uint32_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
		board_target(&b, targets[i]);
		uint64_t pages = board_config(&b, PAGEHINT_BALLOON_CONFIG_NUM_PAGES);
		BOARD_UNTIL(&b, board_stats(&b).target == pages && board_stats(&b).held == pages &&
					board_stats(&b).deflating == 0);
		assert_int_equal(board_actual(&b), pages * FRAME);
		assert_int_equal(zone_free(), all - pages);
	}
	assert_int_equal(board_actual(&b), 64 * MIB);
	printf("RESULT qemu.balloon.actual_over_target.%s %.3f\n", board_how.name,
	       (double)board_actual(&b) / (64.0 * (double)MIB));
	assert_int_equal(pagehint_driver_reset(b.driver, qemu_now()), 0);
	assert_int_equal(zone_free(), all);
	assert_int_equal(pagehint_zone_check(b.zone, NULL), 0);
	board_close(&b);
}

static void test_inflating_gains_memory(void **state)
{
	(void)state;
	board_open(&b, 256 * MIB, "");
	board_start(&b);
	/* a third of the guest was used once, the rest never; some pieces are in use */
	uint64_t frame, pieces[40];
	use_and_free(80 * MIB);
	for (uint32_t i = 0; i < 40; i++) {
		assert_int_equal(pagehint_zone_alloc(b.zone, 0, &frame), 0);
		board_fill(&b, frame, 1);
		pieces[i] = frame;
	}
	uint64_t before = qemu_host_bytes(&b.q);
	board_target(&b, 72 * MIB);
	BOARD_UNTIL(&b, board_stats(&b).held == 72 * MIB / FRAME);
	assert_int_equal(b.before_inflate, 72 * MIB / FRAME);
	double gained = (double)(before - qemu_host_bytes(&b.q)) / (72.0 * (double)MIB);
	printf("RESULT qemu.inflate.gained_over_inflated.%s %.3f\n", board_how.name, gained);
	assert_true(gained >= 0.9);
	for (uint32_t i = 0; i < 40; i++)
		assert_true(board_holds(&b, pieces[i], 1));
	board_close(&b);
}

static void test_out_of_memory(void **state)
{
	(void)state;
	uint64_t given, sum = 0, batch = 256, last = 0;
	board_open(&b, 256 * MIB, ",deflate-on-oom=on");
	b.opts.quiet_ns = QUIET_NS;
	board_start(&b);
	board_target(&b, 128 * MIB);
	BOARD_UNTIL(&b, board_stats(&b).held == 128 * MIB / FRAME);
	/* at once, each time twice as much, and the balloon does not come back for a while */
	for (uint32_t i = 0; i < 3; i++, batch *= 2) {
		last = qemu_now();
		assert_int_equal(pagehint_driver_oom(b.driver, 1, last, &given), 0);
		assert_int_equal(given, batch);
		sum += given;
		BOARD_UNTIL(&b, board_actual(&b) == 128 * MIB - sum * FRAME);
	}
	assert_int_equal(b.given, sum);
	do {
		assert_int_equal(board_step(&b), 0);
		if (b.now < last + QUIET_NS)
			assert_int_equal(board_stats(&b).inflating, 0);
		qemu_pause();
	} while (b.now < last + QUIET_NS);
	BOARD_UNTIL(&b, board_stats(&b).held == 128 * MIB / FRAME);
	assert_int_equal(board_actual(&b), 128 * MIB);
	board_close(&b);
	/* not negotiated: the balloon is the host's */
	board_open(&b, 128 * MIB, "");
	board_start(&b);
	board_target(&b, 32 * MIB);
	BOARD_UNTIL(&b, board_stats(&b).held == 32 * MIB / FRAME);
	assert_int_equal(pagehint_driver_oom(b.driver, 1, qemu_now(), &given), -EOPNOTSUPP);
	assert_int_equal(board_stats(&b).held, 32 * MIB / FRAME);
	board_close(&b);
}

static uint32_t get_stats(void *ctx, struct pagehint_driver_stat *stats, uint32_t max)
{
	struct board *board = ctx;
	assert_true(max >= 3);
	board->stats_asked++;
	stats[0] = (struct pagehint_driver_stat) { .tag = PAGEHINT_BALLOON_STAT_MEMFREE, .value = 111 * MIB };
	stats[1] = (struct pagehint_driver_stat) { .tag = PAGEHINT_BALLOON_STAT_MAJFLT, .value = board->stats_asked };
	stats[2] = (struct pagehint_driver_stat) { .tag = 4711, .value = 1 }; /* which nobody knows */
	return 3;
}

static int64_t stat_of(const char *path)
{
	return qmp_number(
		&b.q, path,
		"{'execute':'qom-get','arguments':{'path':'/machine/peripheral/b0','property':'guest-stats'}}");
}

static void test_statistics(void **state)
{
	(void)state;
	board_open(&b, 128 * MIB, "");
	b.ops.get_stats = get_stats;
	board_start(&b);
	assert_int_equal(board_step(&b), 0);
	assert_int_equal(b.stats_asked, 1); /* filled once, and kept by the device */
	qmp_do(&b.q, "{'execute':'qom-set','arguments':{'path':'/machine/peripheral/b0',"
		     "'property':'guest-stats-polling-interval','value':1}}");
	BOARD_UNTIL(&b, board_stats(&b).stats_told >= 1 && stat_of("stats.stat-major-faults") >= 2);
	assert_int_equal(stat_of("stats.stat-free-memory"), 111 * MIB);
	assert_int_equal(stat_of("stats.stat-total-memory"), INT64_MAX); /* QEMU's word for: never told */
	board_close(&b);
}

/* Nothing is looked at but after an interrupt, and when a step says at once: whoever asks for too few stands still here. */
static void test_interrupts_are_enough(void **state)
{
	(void)state;
	uint64_t give_up = qemu_now() + QEMU_WAIT_MS * UINT64_C(1000000), steps = 0, deadline = UINT64_MAX, now;
	board_open(&b, 256 * MIB, "");
	b.opts.poll_ns = 0;
	board_start(&b);
	assert_int_equal(board_step(&b), 0);
	assert_int_equal(pagehint_driver_interrupt(b.driver, 0), 0); /* the device has nothing to say */
	board_target(&b, 100 * MIB);
	while (board_stats(&b).held != 100 * MIB / FRAME) {
		now = qemu_now();
		assert_true(now < give_up);
		if (!pagehint_driver_interrupt(b.driver, 0) && deadline > now)
			continue;
		assert_int_equal(pagehint_driver_step(b.driver, now, &deadline), 0);
		steps++;
	}
	assert_int_equal(board_actual(&b), 100 * MIB);
	assert_in_range(steps, 2, 1000);
	board_close(&b);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_balloon_follows_its_target),
		cmocka_unit_test(test_inflating_gains_memory),
		cmocka_unit_test(test_out_of_memory),
		cmocka_unit_test(test_statistics),
		cmocka_unit_test(test_interrupts_are_enough),
	};
	if (board_arguments(argc, argv) != 0)
		return 2;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
