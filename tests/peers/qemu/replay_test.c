/*
 * The recorded build, end to end: a zone allocates and frees what the trace says, every page is written, the reporter gives
 * back through the driver to QEMU, and the file's blocks say what the host pays. The trace's clock is simulated; QEMU answers
 * in its own time, for which the trace waits.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pagehint/cache.h>
#include <pagehint/origin.h>
#include <pagehint/reporter.h>

#include "backing.h"
#include "board.h"
#include "content.h"
#include "trace.h"

#define INTERVAL_NS UINT64_C(100000000)
#define NO_FRAME UINT32_MAX

struct replay {
	struct board board;
	struct trace trace;
	struct backing backing; /* the guest's memory, as the record of contents wants it */
	struct content content;
	struct pagehint_cache *cache;
	struct pagehint_origin *origin;
	struct pagehint_backend *backend;
	struct pagehint_reporter *reporter;
	uint32_t *frame_of; /* by number of the allocation */
	uint64_t next_step_ns;
	uint64_t base_bytes; /* of the file, before the zone was used */
};

static struct replay r;

static void after_discard(void *ctx, const struct pagehint_run *run, const struct pagehint_outcome *outcome)
{
	struct replay *replay = ctx;
	assert_int_equal(outcome->accepted, outcome->asked);
	content_discard(&replay->content, run, outcome);
}

/* All that the reporter wants to do at this time, and all of QEMU's answers to it. */
static void step(uint64_t now_ns)
{
	uint64_t deadline, give_up = qemu_now() + QEMU_WAIT_MS * UINT64_C(1000000);
	do {
		assert_int_equal(pagehint_reporter_step(r.reporter, now_ns, 0, &deadline), 0);
		assert_true(qemu_now() < give_up);
	} while (deadline <= now_ns || board_stats(&r.board).batches_in_flight != 0);
	r.next_step_ns = deadline;
}

static void run_until(uint64_t now_ns)
{
	while (r.next_step_ns <= now_ns)
		step(r.next_step_ns);
}

static void play_event(const struct trace_event *event)
{
	uint64_t frame = 0;
	if (event->kind == TRACE_FREE_FOREIGN)
		return;
	if (event->kind == TRACE_ALLOC) {
		assert_int_equal(pagehint_cache_alloc(r.cache, event->order, &frame), 0);
		content_alloc(&r.content, frame, event->order, event->id);
		r.frame_of[event->id] = (uint32_t)frame;
		return;
	}
	frame = r.frame_of[event->id];
	r.frame_of[event->id] = NO_FRAME;
	content_free(&r.content, frame, event->order);
	assert_int_equal(pagehint_cache_free(r.cache, frame, event->order), 0);
}

static void open_all(void)
{
	struct trace_error error;
	struct pagehint_hooks hooks = { .struct_size = sizeof(hooks), .ctx = &r, .after_discard = after_discard };
	struct pagehint_backend_opts how = { .struct_size = sizeof(how), .hooks = &hooks };
	struct pagehint_reporter_opts opts = { .struct_size = sizeof(opts), .interval_ns = INTERVAL_NS };
	memset(&r, 0, sizeof(r));
	assert_int_equal(trace_load(TRACE_DATA "/build.trace.zst", &r.trace, &error), 0);
	uint64_t bytes = (trace_peak_live(&r.trace) / 2 * 3 + 64 * MIB) / (64 * MIB) * (64 * MIB);
	board_open(&r.board, bytes, ",free-page-reporting=on,free-page-hint=on");
	r.board.opts.poll_ns = 0; /* its time stands still while the trace waits: nothing is silent then */
	board_start(&r.board);
	assert_int_equal(board_step(&r.board), 0);
	r.base_bytes = qemu_host_bytes(&r.board.q);
	r.backing = (struct backing) { .kind = BACKING_MEMFD,
				       .fd = r.board.q.ram_fd,
				       .base = r.board.q.ram,
				       .bytes = bytes,
				       .unit_bytes = FRAME };
	assert_int_equal(content_open(&r.content, &r.backing), 0);
	r.frame_of = malloc(((size_t)r.trace.allocs + 1) * sizeof(*r.frame_of));
	assert_non_null(r.frame_of);
	memset(r.frame_of, 0xff, ((size_t)r.trace.allocs + 1) * sizeof(*r.frame_of));
	assert_int_equal(pagehint_cache_open(r.board.zone, &r.cache), 0);
	assert_int_equal(pagehint_zone_origin_new(r.board.zone, &r.origin), 0);
	assert_int_equal(pagehint_driver_backend_new(r.board.driver, &how, &r.backend), 0);
	assert_int_equal(pagehint_reporter_new(r.origin, r.backend, &opts, &r.reporter), 0);
}

static void close_all(uint64_t now_ns)
{
	uint64_t deadline, free_frames;
	struct pagehint_zone_stats zone = { .struct_size = sizeof(zone) };
	while (pagehint_reporter_stop(r.reporter, now_ns, &deadline) == -EAGAIN)
		qemu_pause();
	assert_int_equal(pagehint_cache_unpark(r.cache), 0);
	for (uint32_t id = 0; id < r.trace.allocs; id++)
		assert_true(r.frame_of[id] == NO_FRAME || r.frame_of[id] < r.content.frames);
	assert_int_equal(pagehint_zone_stats(r.board.zone, &zone), 0);
	free_frames = zone.free + zone.cached;
	assert_int_equal(free_frames + r.content.live, zone.total);
	assert_int_equal(pagehint_reporter_free(r.reporter), 0);
	assert_int_equal(pagehint_backend_free(r.backend), 0);
	pagehint_origin_free(r.origin);
	pagehint_cache_close(r.cache);
	assert_int_equal(pagehint_zone_check(r.board.zone, NULL), 0);
	content_close(&r.content);
	free(r.frame_of);
	trace_free(&r.trace);
	board_close(&r.board);
}

static double host_over_live(void)
{
	return (double)(qemu_host_bytes(&r.board.q) - r.base_bytes) / (double)(r.content.live << 12);
}

static void test_the_build(void **state)
{
	(void)state;
	open_all();
	for (size_t i = 0; i < r.trace.n; i++) {
		run_until(r.trace.events[i].us * 1000);
		play_event(&r.trace.events[i]);
	}
	uint64_t end_ns = r.trace.events[r.trace.n - 1].us * 1000;
	assert_int_equal(pagehint_cache_park(r.cache), 0);
	run_until(end_ns + 2 * INTERVAL_NS);
	double ended = host_over_live();
	printf("RESULT qemu.replay.host_over_live.2m.%s %.3f\n", board_how.name, ended);
	assert_int_equal(pagehint_reporter_pressure(r.reporter, PAGEHINT_PRESSURE_FULL, 0), 0);
	step(end_ns + 2 * INTERVAL_NS);
	run_until(end_ns + 4 * INTERVAL_NS);
	double pressed = host_over_live();
	printf("RESULT qemu.replay.host_over_live.pressed.%s %.3f\n", board_how.name, pressed);
	content_check(&r.content, 0, r.content.frames);
	printf("RESULT qemu.replay.corrupt_pages.%s %llu\n", board_how.name, (unsigned long long)r.content.corrupt);
	printf("checked %llu pages; %llu MiB reported in %llu batches, %llu requests, %llu notifications\n",
	       (unsigned long long)r.content.checked, (unsigned long long)(board_stats(&r.board).reported >> 8),
	       (unsigned long long)board_stats(&r.board).batches, (unsigned long long)board_stats(&r.board).requests,
	       (unsigned long long)board_stats(&r.board).kicks);
	assert_true(r.content.live != 0 && r.content.checked > r.content.live);
	assert_int_equal(r.content.corrupt, 0);
	assert_true(ended <= 1.25);
	assert_true(pressed <= 1.05);
	close_all(end_ns + 5 * INTERVAL_NS);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_build),
	};
	if (board_arguments(argc, argv) != 0)
		return 2;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
