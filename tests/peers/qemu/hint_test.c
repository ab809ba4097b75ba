/* Hints through a real migration, and the driver's life across a save and a restore. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "board.h"
#include "virtio/driver.h"

static struct board b;

static void set_bandwidth(uint64_t bytes)
{
	qmp_do(&b.q, "{'execute':'migrate-set-parameters','arguments':{'max-bandwidth':%llu}}",
	       (unsigned long long)bytes);
}

/* The driver has said all it has to say, and the device has heard it. */
static int is_told(void)
{
	return b.driver->hints.phase == PH_HINT_STOPPED &&
	       b.driver->queues[PAGEHINT_BALLOON_Q_HINT].ring.in_flight == 0;
}

/*
 * Starts a migration into a file and steps until it is over. It crawls until all hints are told: which pages were sent before
 * that would depend on the machine otherwise.
 */
static void migrate(const char *path)
{
	struct json_object *status, *answer;
	int is_over = 0, has_failed = 0;
	set_bandwidth(65536);
	qmp_do(&b.q, "{'execute':'migrate','arguments':{'uri':'exec:cat > %s'}}", path);
	if ((board_stats(&b).features & PAGEHINT_BALLOON_F_FREE_PAGE_HINT) != 0)
		BOARD_UNTIL(&b, is_told());
	set_bandwidth(1024 * MIB);
	while (!is_over) {
		assert_int_equal(board_step(&b), 0);
		answer = qmp(&b.q, "{'execute':'query-migrate'}");
		if (json_object_object_get_ex(answer, "status", &status)) {
			has_failed = strcmp(json_object_get_string(status), "failed") == 0;
			is_over = has_failed || strcmp(json_object_get_string(status), "completed") == 0;
		}
		json_object_put(answer);
		qemu_pause();
	}
	assert_false(has_failed);
}

#define NEED_HINTS ",free-page-hint=on,free-page-reporting=on,deflate-on-oom=on"

/* used and free again: worth a hint; what was never used is not */
static void make_free_memory(uint64_t bytes)
{
	uint64_t frames[128], n = bytes / (2 * MIB);
	for (uint64_t i = 0; i < n; i++) {
		assert_int_equal(pagehint_zone_alloc(b.zone, 9, &frames[i]), 0);
		board_fill(&b, frames[i], 512);
	}
	for (uint64_t i = 0; i < n; i++)
		assert_int_equal(pagehint_zone_free(b.zone, frames[i], 9), 0);
}

/* The same guest in another QEMU: driver, zone and rings go on where they were. */
static void restore(const char *path)
{
	struct qemu_ask ask = { .ram_bytes = b.q.ram_bytes, .is_mmio = board_how.is_mmio, .incoming = path };
	char properties[200];
	struct qemu old = b.q;
	snprintf(properties, sizeof(properties), "%s" NEED_HINTS, board_how.is_packed ? ",packed=on" : "");
	ask.device = properties;
	ask.ram_at = old.ram; /* the driver knows its rings by this address */
	qemu_start(&b.q, &ask);
	struct qemu gone = old;
	gone.ram = NULL; /* mapped over: there is nothing left to unmap */
	gone.ram_bytes = 1;
	qemu_stop(&gone);
	for (;;) {
		struct json_object *answer = qmp(&b.q, "{'execute':'query-status'}"), *status;
		assert_true(json_object_object_get_ex(answer, "status", &status));
		int is_running = strcmp(json_object_get_string(status), "running") == 0;
		json_object_put(answer);
		if (is_running)
			break;
		qemu_pause();
	}
}

static char saved[] = "/dev/shm/pagehint-saved-XXXXXX";

static void make_file(void)
{
	strcpy(saved + strlen(saved) - 6, "XXXXXX");
	int fd = mkstemp(saved);
	assert_true(fd >= 0);
	close(fd);
}

static int is_zero(uint64_t frame)
{
	const uint64_t *words = (const uint64_t *)(const void *)(b.q.ram + frame * FRAME);
	for (uint64_t i = 0; i < FRAME / 8; i++)
		if (words[i] != 0)
			return 0;
	return 1;
}

static void test_hinted_pages_are_skipped(void **state)
{
	(void)state;
	uint64_t keep, free_before, frames = 256 * MIB / FRAME, used = 0, skipped = 0;
	struct pagehint_zone_stats zone = { .struct_size = sizeof(zone) };
	unsigned char *was_used = calloc(1, (size_t)frames);
	assert_non_null(was_used);
	board_open(&b, 256 * MIB, NEED_HINTS);
	board_start(&b);
	make_free_memory(128 * MIB);
	assert_int_equal(pagehint_zone_alloc(b.zone, 9, &keep), 0);
	board_fill(&b, keep, 512);
	assert_int_equal(pagehint_zone_stats(b.zone, &zone), 0);
	free_before = zone.free;
	for (uint64_t f = BOARD_ZONE / FRAME; f < frames; f++) {
		was_used[f] = !is_zero(f);
		used += was_used[f];
	}
	assert_int_equal(used, 128 * MIB / FRAME);
	make_file();
	migrate(saved);
	/* the host has said DONE: all frames come back */
	BOARD_UNTIL(&b, board_stats(&b).hinting == 0);
	assert_int_equal(board_config(&b, PAGEHINT_BALLOON_CONFIG_HINT_CMD_ID), PAGEHINT_BALLOON_HINT_DONE);
	assert_true(board_stats(&b).hint_id >= 2);
	assert_int_equal(pagehint_zone_stats(b.zone, &zone), 0);
	assert_int_equal(zone.free, free_before);
	assert_int_equal(pagehint_zone_check(b.zone, NULL), 0);
	/* what was not sent is zero on the other side */
	restore(saved);
	for (uint64_t f = BOARD_ZONE / FRAME; f < frames; f++)
		skipped += was_used[f] && is_zero(f);
	assert_true(board_holds(&b, keep, 512));
	uint64_t hinted = board_stats(&b).hinted;
	printf("RESULT qemu.hint.skipped_pages.%s %llu\n", board_how.name, (unsigned long long)skipped);
	printf("RESULT qemu.hint.hinted_pages.%s %llu\n", board_how.name, (unsigned long long)hinted);
	assert_int_equal(hinted, (128 - 2) * MIB / FRAME);
	assert_int_equal(skipped, hinted);
	board_close(&b);
	unlink(saved);
	free(was_used);
}

static void test_save_and_restore(void **state)
{
	(void)state;
	struct pagehint_run run = { 200 * MIB / FRAME, 512 };
	const struct pagehint_run *runs;
	uint64_t cookie, keep;
	int32_t result = 1;
	uint32_t n;
	make_file();
	board_open(&b, 256 * MIB, NEED_HINTS);
	board_start(&b);
	assert_int_equal(pagehint_zone_alloc(b.zone, 9, &keep), 0);
	board_fill(&b, keep, 512);
	board_target(&b, 64 * MIB);
	BOARD_UNTIL(&b, board_stats(&b).held == 64 * MIB / FRAME);
	migrate(saved);
	BOARD_UNTIL(&b, board_stats(&b).hinting == 0);
	restore(saved);
	/* target and actual came along, and so did the rings */
	assert_int_equal(board_actual(&b), 64 * MIB);
	assert_true(board_holds(&b, keep, 512));
	board_target(&b, 96 * MIB);
	BOARD_UNTIL(&b, board_stats(&b).held == 96 * MIB / FRAME);
	assert_int_equal(board_actual(&b), 96 * MIB);
	assert_int_equal(pagehint_zone_reserve(b.zone, run.frame, run.frames, NULL), 0);
	board_fill(&b, run.frame, run.frames);
	uint64_t before = qemu_host_bytes(&b.q);
	assert_int_equal(pagehint_driver_report(b.driver, &run, 1, 9), 0);
	BOARD_UNTIL(&b, pagehint_driver_reap(b.driver, &cookie, &result, &runs, &n) == 0);
	assert_int_equal(result, 0);
	assert_int_equal(before - qemu_host_bytes(&b.q), 2 * MIB);
	board_target(&b, 0);
	BOARD_UNTIL(&b, board_stats(&b).held == 0 && board_stats(&b).deflating == 0);
	assert_int_equal(board_actual(&b), 0);
	assert_true(board_holds(&b, keep, 512));
	board_close(&b);
	unlink(saved);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hinted_pages_are_skipped),
		cmocka_unit_test(test_save_and_restore),
	};
	if (board_arguments(argc, argv) != 0)
		return 2;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
