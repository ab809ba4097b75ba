/*
 * The promise about time, on the recorded build: whatever is free at a moment of it, in whole granules, is back within
 * T = bytes / rate + 2 intervals, whatever had been going on before. And what came back was given back once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pagehint/host.h>
#include <pagehint/origin.h>
#include <pagehint/reporter.h>
#include <pagehint/zone.h>

#include "support/rounds.h"
#include "trace.h"

#define SECOND UINT64_C(1000000000)
#define INTERVAL (SECOND / 10) /* the build is short */
#define GRANULE_FRAMES 512u
#define MOMENTS 12u
#define NO_FRAME UINT32_MAX

struct machine {
	struct pagehint_zone *zone;
	struct pagehint_origin *origin;
	struct pagehint_backend *backend;
	struct pagehint_reporter *reporter;
	uint64_t frames, granules, words;
	uint64_t *whole, *reported;
	uint32_t *frame_of;
	uint64_t next_ns;
	uint64_t now_ns;
	uint64_t ahead_ns; /* time that passed while the build stood still */
};

static struct trace trace;

static void start(struct machine *m, uint64_t rate)
{
	struct pagehint_zone_opts zone = { .struct_size = sizeof(zone) };
	const struct pagehint_reporter_opts opts = { .struct_size = sizeof(opts),
						     .interval_ns = INTERVAL,
						     .rate = rate };
	memset(m, 0, sizeof(*m));
	m->frames = (trace_peak_live(&trace) / 4096 / 2 * 3 + 32768) / 32768 * 32768;
	m->granules = m->frames / GRANULE_FRAMES;
	m->words = (m->granules + 63) / 64;
	zone.max_sections = (m->frames + PAGEHINT_SECTION_FRAMES - 1) / PAGEHINT_SECTION_FRAMES;
	assert_int_equal(pagehint_zone_new(&zone, &m->zone), 0);
	assert_int_equal(pagehint_zone_add(m->zone, 0, m->frames), 0);
	assert_int_equal(pagehint_zone_origin_new(m->zone, &m->origin), 0);
	assert_int_equal(pagehint_null_new(NULL, &m->backend), 0);
	assert_int_equal(pagehint_reporter_new(m->origin, m->backend, &opts, &m->reporter), 0);
	m->whole = calloc((size_t)m->words, 8);
	m->reported = calloc((size_t)m->words, 8);
	m->frame_of = malloc(((size_t)trace.allocs + 1) * sizeof(*m->frame_of));
	assert_true(m->whole != NULL && m->reported != NULL && m->frame_of != NULL);
	memset(m->frame_of, 0xff, ((size_t)trace.allocs + 1) * sizeof(*m->frame_of));
}

static void stop(struct machine *m, uint64_t now_ns)
{
	uint64_t deadline;
	assert_int_equal(pagehint_reporter_stop(m->reporter, now_ns, &deadline), 0);
	assert_int_equal(pagehint_reporter_free(m->reporter), 0);
	pagehint_origin_free(m->origin);
	assert_int_equal(pagehint_backend_free(m->backend), 0);
	assert_int_equal(pagehint_zone_check(m->zone, NULL), 0);
	pagehint_zone_destroy(m->zone);
	free(m->whole);
	free(m->reported);
	free(m->frame_of);
}

static void run_until(struct machine *m, uint64_t now_ns)
{
	while (m->next_ns <= now_ns)
		assert_int_equal(pagehint_reporter_step(m->reporter, m->next_ns, 0, &m->next_ns), 0);
}

/* Fills `whole` with the granules that are wholly free and not reported; returns bytes. */
static uint64_t unreported(struct machine *m)
{
	uint64_t n = 0;
	assert_int_equal(pagehint_zone_granules(m->zone, PAGEHINT_GRANULES_WHOLE, 0, m->granules, m->whole, m->words),
			 0);
	assert_int_equal(
		pagehint_zone_granules(m->zone, PAGEHINT_GRANULES_REPORTED, 0, m->granules, m->reported, m->words), 0);
	for (uint64_t w = 0; w < m->words; w++) {
		m->whole[w] &= ~m->reported[w];
		for (uint64_t bits = m->whole[w]; bits != 0; bits &= bits - 1)
			n++;
	}
	return n * GRANULE_FRAMES * 4096;
}

/* The build stands still for T. Returns bytes that came back meanwhile. */
static uint64_t check_moment(struct machine *m, uint64_t rate)
{
	struct pagehint_reporter_stats before = { .struct_size = sizeof(before) }, after = before;
	uint64_t bytes = unreported(m);
	uint64_t t = 2 * INTERVAL + (rate == 0 ? 0 : (uint64_t)((long double)bytes * SECOND / rate) + 1);
	assert_int_equal(pagehint_reporter_stats(m->reporter, &before), 0);
	m->now_ns += t;
	run_until(m, m->now_ns);
	assert_int_equal(unreported(m), 0);
	assert_int_equal(pagehint_reporter_stats(m->reporter, &after), 0);
	assert_int_equal(after.reported - before.reported, bytes); /* each once, and nothing else */
	m->ahead_ns += t;
	return bytes;
}

static void play_event(struct machine *m, const struct trace_event *e)
{
	uint64_t frame;
	if (e->kind == TRACE_ALLOC) {
		assert_int_equal(pagehint_zone_alloc(m->zone, e->order, &frame), 0);
		m->frame_of[e->id] = (uint32_t)frame;
	} else if (e->kind != TRACE_FREE_FOREIGN) {
		assert_int_equal(pagehint_zone_free(m->zone, m->frame_of[e->id], e->order), 0);
		m->frame_of[e->id] = NO_FRAME;
	}
}

static void check_rate(uint64_t rate)
{
	struct machine m;
	uint64_t seen = 0;
	size_t n = (size_t)rounds_scaled((unsigned long)trace.n / 2); /* half of it is build enough */
	start(&m, rate);
	for (size_t i = 0; i < n; i++) {
		m.now_ns = trace.events[i].us * 1000 + m.ahead_ns;
		run_until(&m, m.now_ns);
		play_event(&m, &trace.events[i]);
		if (i % (n / MOMENTS) == n / MOMENTS - 1)
			seen += check_moment(&m, rate);
	}
	/* the build is over */
	for (size_t i = 0; i < n; i++) {
		const struct trace_event *e = &trace.events[i];
		if (e->kind == TRACE_ALLOC && m.frame_of[e->id] != NO_FRAME)
			assert_int_equal(pagehint_zone_free(m.zone, m.frame_of[e->id], e->order), 0);
	}
	seen += check_moment(&m, rate);
	assert_true(seen > UINT64_C(64) << 20);
	stop(&m, m.now_ns);
}

static void test_at_any_rate(void **state)
{
	(void)state;
	check_rate(0);
}

static void test_within_the_rate(void **state)
{
	(void)state;
	check_rate(UINT64_C(100) << 20);
}

static int load(void **state)
{
	struct trace_error error;
	(void)state;
	return trace_load(TEST_TRACE, &trace, &error);
}

static int unload(void **state)
{
	(void)state;
	trace_free(&trace);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_at_any_rate),
					    cmocka_unit_test(test_within_the_rate) };
	return cmocka_run_group_tests(tests, load, unload);
}
