/*
 * Which frames hold old bytes, and what is zeroed of them: for allocations, in the background, and by the reporter.
 */
#include "support/scrub_memory.h"

#include <errno.h>

#include <pagehint/backend.h>
#include <pagehint/origin.h>
#include <pagehint/reporter.h>

#define SCRUB PAGEHINT_ZONE_SCRUB
#define SECOND UINT64_C(1000000000)

static struct pagehint_zone *zone;
static struct scrub_memory memory;

static void open_zone(uint32_t flags, uint64_t frames)
{
	zone = zone_empty(1, 1, flags, 9);
	if (frames != 0)
		assert_int_equal(pagehint_zone_add(zone, 0, frames), 0);
	scrub_memory_open(&memory, zone, SECTION);
}

static void close_zone(void)
{
	scrub_memory_close(&memory);
	zone_gone_home(zone);
}

/* a block that somebody had */
static void use(uint64_t frame, uint64_t frames)
{
	struct pagehint_run run = { frame, frames };
	assert_int_equal(pagehint_zone_reserve(zone, frame, frames, NULL), 0);
	memset(memory.bytes + frame, 0xa5, (size_t)frames);
	assert_int_equal(pagehint_zone_free_runs(zone, &run, 1, NULL), 0);
}

static void test_fresh_memory_is_not_zeroed(void **state)
{
	(void)state;
	open_zone(SCRUB, SECTION);
	for (uint32_t order = 0; order <= PAGEHINT_ORDER_MAX; order++) {
		uint64_t frame;
		assert_int_equal(pagehint_scrub_alloc(zone, order, PAGEHINT_ALLOC_ZERO, &memory.scrubber, &frame), 0);
		assert_int_equal(pagehint_zone_free(zone, frame, order), 0);
		assert_int_equal(scrub_stats_of(zone).unclean, UINT64_C(1) << order);
		/* a new one in its place is fresh again */
		assert_int_equal(pagehint_zone_remove(zone, 0, SECTION, NULL), 0);
		assert_int_equal(pagehint_zone_add(zone, 0, SECTION), 0);
		assert_int_equal(scrub_stats_of(zone).clean, SECTION);
	}
	assert_int_equal(memory.calls, 0);
	assert_int_equal(scrub_stats_of(zone).spared, 2 * SECTION - 1);
	close_zone();
}

static void test_what_somebody_had_is_zeroed_once(void **state)
{
	(void)state;
	for (size_t k = 0; k < ZONE_KINDS; k++) {
		int stale = (zone_kinds[k] & PAGEHINT_ZONE_STALE) != 0;
		for (uint32_t order = 0; order <= 12; order++) {
			uint64_t size = UINT64_C(1) << order;
			open_zone(zone_kinds[k] | SCRUB, 4096);
			memset(memory.bytes, stale ? 0xa5 : 0, 4096);
			assert_int_equal(scrub_cost(&memory, order), stale ? size : 0);
			assert_int_equal(scrub_cost(&memory, order), size); /* somebody had it since */
			assert_int_equal(scrub_stats_of(zone).unclean, stale ? 4096 : size);
			close_zone();
		}
	}
}

static void test_a_merged_block_is_as_unclean_as_its_halves(void **state)
{
	(void)state;
	open_zone(SCRUB, 4096);
	use(0, 2048);
	uint64_t calls = memory.calls;
	assert_int_equal(scrub_cost(&memory, 12), 2048);
	assert_int_equal(memory.calls - calls, 1);
	assert_int_equal(pagehint_zone_remove(zone, 0, 4096, NULL), 0);
	assert_int_equal(pagehint_zone_add(zone, 0, 4096), 0);
	use(2048, 2048);
	assert_int_equal(scrub_cost(&memory, 12), 2048);
	/* pieces here and there: each is one call, over borders of words */
	assert_int_equal(pagehint_zone_remove(zone, 0, 4096, NULL), 0);
	assert_int_equal(pagehint_zone_add(zone, 0, 4096), 0);
	calls = memory.calls;
	use(1, 1);
	use(60, 200);
	use(4095, 1);
	assert_int_equal(scrub_cost(&memory, 12), 202);
	assert_int_equal(memory.calls - calls, 3);
	close_zone();
}

static void test_every_way_back_is_noticed(void **state)
{
	(void)state;
	struct pagehint_cache *cache;
	uint64_t frames[64], frame;
	uint32_t n;
	open_zone(SCRUB, 64);
	assert_int_equal(pagehint_zone_alloc_batch(zone, 0, 64, frames, &n), 0);
	assert_int_equal(pagehint_zone_free_batch(zone, 0, 64, frames, &n), 0);
	assert_int_equal(scrub_stats_of(zone).unclean, 64);
	assert_int_equal(scrub_cost(&memory, 6), 64);
	assert_int_equal(pagehint_zone_remove(zone, 0, 64, NULL), 0);
	assert_int_equal(pagehint_zone_add(zone, 0, 64), 0);
	assert_int_equal(pagehint_cache_open(zone, &cache), 0);
	assert_int_equal(pagehint_cache_alloc(cache, 0, &frame), 0);
	memory.bytes[frame] = 0xa5;
	assert_int_equal(pagehint_cache_free(cache, frame, 0), 0);
	assert_int_equal(pagehint_cache_alloc(cache, 0, &frames[0]), 0); /* it never left the cache */
	assert_int_equal(frames[0], frame);
	struct pagehint_run run = { frame, 1 };
	uint64_t zeroed = memory.zeroed;
	assert_int_equal(pagehint_scrub_runs(zone, &memory.scrubber, &run, 1), 0);
	assert_int_equal(memory.zeroed - zeroed, 1);
	assert_int_equal(memory.bytes[frame], 0);
	assert_int_equal(pagehint_cache_free(cache, frame, 0), 0);
	pagehint_cache_close(cache);
	assert_int_equal(scrub_stats_of(zone).unclean, 1); /* the other 63 were only in the cache */
	close_zone();
	/* an untracked zone does not know what is out, but what comes back */
	open_zone(SCRUB | PAGEHINT_ZONE_UNTRACKED, 64);
	assert_int_equal(pagehint_zone_alloc_batch(zone, 0, 64, frames, &n), 0);
	assert_int_equal(pagehint_zone_free_batch(zone, 0, 64, frames, &n), 0);
	assert_int_equal(scrub_stats_of(zone).unclean, 64);
	close_zone();
}

static void test_a_zone_that_does_not_know_zeroes_everything(void **state)
{
	(void)state;
	uint64_t cursor = 0, frames = 7;
	open_zone(0, 4096);
	assert_int_equal(scrub_cost(&memory, 10), 1024);
	assert_int_equal(scrub_stats_of(zone).unclean, 4096);
	assert_int_equal(pagehint_scrub_step(zone, &memory.scrubber, 64, &cursor, &frames), -EINVAL);
	assert_int_equal(frames, 7);
	close_zone();
}

static void test_misuse_is_refused(void **state)
{
	(void)state;
	const struct pagehint_scrubber none = { .struct_size = sizeof(none) };
	struct {
		struct pagehint_scrubber scrubber;
		uint64_t tail;
	} longer = { none, 1 };
	struct pagehint_run run = { 0, 1 }, empty = { 0, 0 }, gone = { 64, 1 };
	uint64_t frame = 5, cursor = 9, frames = 7;
	open_zone(SCRUB, 64);
	longer.scrubber.struct_size = sizeof(longer);
	assert_int_equal(pagehint_scrub_alloc(zone, 0, 2, &memory.scrubber, &frame), -EINVAL);
	assert_int_equal(pagehint_scrub_alloc(zone, 0, PAGEHINT_ALLOC_ZERO, NULL, &frame), -EINVAL);
	assert_int_equal(pagehint_scrub_alloc(zone, 0, PAGEHINT_ALLOC_ZERO, &none, &frame), -EINVAL);
	assert_int_equal(pagehint_scrub_alloc(zone, 0, PAGEHINT_ALLOC_ZERO, &longer.scrubber, &frame), -E2BIG);
	assert_int_equal(pagehint_scrub_alloc(zone, 19, PAGEHINT_ALLOC_ZERO, &memory.scrubber, &frame), -EINVAL);
	assert_int_equal(pagehint_scrub_alloc(zone, 7, PAGEHINT_ALLOC_ZERO, &memory.scrubber, &frame), -ENOSPC);
	assert_int_equal(pagehint_scrub_runs(zone, NULL, &run, 1), -EINVAL);
	assert_int_equal(pagehint_scrub_runs(zone, &memory.scrubber, &empty, 1), -EINVAL);
	assert_int_equal(pagehint_scrub_runs(zone, &memory.scrubber, &gone, 1), -ERANGE);
	assert_int_equal(pagehint_scrub_step(zone, &memory.scrubber, 0, &cursor, &frames), -EINVAL);
	assert_int_equal(pagehint_scrub_step(zone, &none, 1, &cursor, &frames), -EINVAL);
	assert_int_equal(frame, 5);
	assert_int_equal(cursor, 9);
	assert_int_equal(frames, 7);
	assert_int_equal(pagehint_scrub_alloc(zone, 0, 0, NULL, &frame), 0); /* nobody asked for zeroes */
	assert_int_equal(pagehint_zone_free(zone, frame, 0), 0);
	struct pagehint_scrub_stats small = { .struct_size = 4 };
	assert_int_equal(pagehint_scrub_stats(zone, &small), -EINVAL);
	close_zone();
}

static void test_what_cannot_be_zeroed_goes_back(void **state)
{
	(void)state;
	uint64_t frame = 5, cursor = 0, frames = 0;
	open_zone(SCRUB, 256);
	use(0, 10);
	use(20, 10);
	use(64, 5);
	memory.refuses_at = 1; /* the first run is zeroed, the second is not */
	memory.with = -EIO;
	assert_int_equal(pagehint_scrub_alloc(zone, 8, PAGEHINT_ALLOC_ZERO, &memory.scrubber, &frame), -EIO);
	assert_int_equal(frame, 5);
	assert_int_equal(zone_at_rest(zone).free, 256);
	memory.refuses_at = (int)memory.calls;
	memory.with = 3; /* no error number */
	assert_int_equal(pagehint_scrub_alloc(zone, 8, PAGEHINT_ALLOC_ZERO, &memory.scrubber, &frame), -EINVAL);
	close_zone();
	/* in the background: what was zeroed before is told, and the next step goes on behind what failed */
	open_zone(SCRUB, 256);
	use(0, 10);
	use(20, 10);
	use(64, 5);
	memory.refuses_at = 1;
	memory.with = -EIO;
	assert_int_equal(pagehint_scrub_step(zone, &memory.scrubber, 1000, &cursor, &frames), -EIO);
	assert_int_equal(frames, 10);
	assert_int_equal(cursor, 64);
	assert_int_equal(scrub_stats_of(zone).unclean, 15);
	assert_int_equal(zone_at_rest(zone).free, 256);
	assert_int_equal(pagehint_scrub_step(zone, &memory.scrubber, 1000, &cursor, &frames), 0);
	assert_int_equal(frames, 5);
	assert_int_equal(cursor, 0);
	close_zone();
}

static void test_steps_are_bounded_and_come_round(void **state)
{
	(void)state;
	uint64_t cursor = 0, frames, sum = 0, steps = 0;
	open_zone(SCRUB | PAGEHINT_ZONE_STALE, SECTION);
	do {
		assert_int_equal(pagehint_scrub_step(zone, &memory.scrubber, 1000, &cursor, &frames), 0);
		assert_true(frames <= 1000);
		sum += frames;
		steps++;
		zone_at_rest(zone);
	} while (cursor != 0);
	assert_int_equal(sum, SECTION);
	assert_int_equal(steps, (SECTION + 999) / 1000);
	assert_int_equal(memory.zeroed, SECTION);
	assert_int_equal(scrub_stats_of(zone).clean, SECTION);
	assert_int_equal(scrub_stats_of(zone).scrubbed, SECTION);
	assert_int_equal(scrub_cost(&memory, PAGEHINT_ORDER_MAX), 0);
	close_zone();
	/* with little to do it is the words looked at that are bounded */
	zone = zone_empty(3, 3, SCRUB, 9);
	assert_int_equal(pagehint_zone_add(zone, 0, 3 * SECTION), 0);
	scrub_memory_open(&memory, zone, 3 * SECTION);
	use(3 * SECTION - 1, 1);
	cursor = 0;
	assert_int_equal(pagehint_scrub_step(zone, &memory.scrubber, 1000, &cursor, &frames), 0);
	assert_int_equal(frames, 0);
	assert_int_equal(cursor, 2 * SECTION);
	assert_int_equal(pagehint_scrub_step(zone, &memory.scrubber, 1000, &cursor, &frames), 0);
	assert_int_equal(frames, 1);
	assert_int_equal(cursor, 0);
	close_zone();
}

/* What is scrubbed is in nobody's reach, and accounted for. */
static void look_around(struct scrub_memory *m, uint64_t frame, uint64_t frames)
{
	struct pagehint_zone_stats s = { .struct_size = sizeof(s) };
	uint64_t got, unwanted[64];
	uint32_t n = 0;
	assert_int_equal(pagehint_zone_stats(m->zone, &s), 0);
	assert_true(s.isolated >= frames && s.isolated <= 64);
	assert_int_equal(s.free + s.out + s.isolated, s.total);
	assert_int_equal(pagehint_zone_remove(m->zone, 0, 64, NULL), -EBUSY);
	/* all that is free can be had, and then nothing is left, but may come */
	assert_int_equal(pagehint_zone_alloc_batch(m->zone, 0, 64, unwanted, &n), -EAGAIN);
	for (uint32_t i = 0; i < n; i++)
		assert_true(unwanted[i] < frame || unwanted[i] >= frame + frames);
	assert_int_equal(pagehint_zone_alloc(m->zone, 0, &got), -EAGAIN);
	assert_int_equal(pagehint_zone_free_batch(m->zone, 0, n, unwanted, NULL), 0);
}

static void test_nobody_has_what_is_scrubbed(void **state)
{
	(void)state;
	uint64_t cursor = 0, frames;
	open_zone(SCRUB, 64);
	use(3, 20);
	use(40, 1);
	memory.inside = look_around;
	assert_int_equal(pagehint_scrub_step(zone, &memory.scrubber, 1000, &cursor, &frames), 0);
	assert_int_equal(memory.calls, 2);
	assert_int_equal(frames, 21);
	close_zone();
}

/* ---- the reporter ---- */

static uint32_t how; /* 0 freed, 1 a part of one run is kept, 2 lazily */

static int discard(void *ctx, const struct pagehint_run *runs, uint32_t n, uint32_t flags,
		   struct pagehint_outcome *outcomes, uint32_t *ret_done)
{
	struct scrub_memory *m = ctx;
	(void)flags;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t bytes = runs[i].frames << 12;
		outcomes[i] = (struct pagehint_outcome) { .asked = bytes, .freed = bytes };
		memset(m->bytes + runs[i].frame, 0, (size_t)runs[i].frames);
		if (how == 1 && i == 0) {
			outcomes[i].freed -= 4096;
			outcomes[i].kept = 4096;
			outcomes[i].kept_why = PAGEHINT_WHY_ALIGNMENT;
			m->bytes[runs[i].frame] = 0xa5;
		} else if (how == 2) {
			outcomes[i].freed = 0;
			outcomes[i].lazy = bytes;
			outcomes[i].lazy_why = PAGEHINT_WHY_MADV_FREE;
			memset(m->bytes + runs[i].frame, 0xa5, (size_t)runs[i].frames);
		}
	}
	*ret_done = n;
	return 0;
}

/* Two granules were used; the reporter takes them. Returns what a zeroed allocation of them costs then. */
static uint64_t cost_after_reports(uint32_t caps, uint32_t answer)
{
	const struct pagehint_backend_ops ops = {
		.struct_size = sizeof(ops), .name = "bytes", .caps = caps, .discard = discard
	};
	const struct pagehint_reporter_opts pace = { .struct_size = sizeof(pace), .interval_ns = SECOND };
	struct pagehint_reporter_stats s = { .struct_size = sizeof(s) };
	struct pagehint_origin *origin;
	struct pagehint_backend *backend;
	struct pagehint_reporter *reporter;
	uint64_t now = 0;
	how = answer;
	open_zone(SCRUB, 2048);
	use(0, 512);
	use(1024, 512);
	assert_int_equal(pagehint_zone_origin_new(zone, &origin), 0);
	assert_int_equal(pagehint_backend_new(&ops, &memory, NULL, &backend), 0);
	assert_int_equal(pagehint_reporter_new(origin, backend, &pace, &reporter), 0);
	while (now < 5 * SECOND)
		assert_int_equal(pagehint_reporter_step(reporter, now, 0, &now), 0);
	assert_int_equal(pagehint_reporter_stats(reporter, &s), 0);
	assert_true(s.reported != 0);
	assert_int_equal(pagehint_reporter_stop(reporter, now, &now), 0);
	assert_int_equal(pagehint_reporter_free(reporter), 0);
	pagehint_origin_free(origin);
	assert_int_equal(pagehint_backend_free(backend), 0);
	uint64_t cost = scrub_cost(&memory, 11);
	close_zone();
	return cost;
}

static void test_what_was_discarded_is_clean_if_it_reads_zero(void **state)
{
	(void)state;
	assert_int_equal(cost_after_reports(PAGEHINT_BACKEND_READS_ZERO, 0), 0);
	assert_int_equal(cost_after_reports(0, 0), 1024);
	assert_int_equal(cost_after_reports(PAGEHINT_BACKEND_READS_ZERO, 1), 1024); /* they may have been one call */
	assert_int_equal(cost_after_reports(PAGEHINT_BACKEND_READS_ZERO, 2), 1024);
}

static void test_every_section_counts(void **state)
{
	(void)state;
	uint64_t cursor = 0, frames;
	zone = zone_empty(2, 2, SCRUB, 9);
	assert_int_equal(pagehint_zone_add(zone, 0, 2 * SECTION), 0);
	scrub_memory_open(&memory, zone, 2 * SECTION);
	use(SECTION + 512, 512);
	assert_int_equal(scrub_stats_of(zone).unclean, 512);
	assert_int_equal(scrub_stats_of(zone).clean, 2 * SECTION - 512);
	do
		assert_int_equal(pagehint_scrub_step(zone, &memory.scrubber, SECTION, &cursor, &frames), 0);
	while (cursor != 0);
	assert_int_equal(memory.zeroed, 512);
	assert_int_equal(scrub_stats_of(zone).clean, 2 * SECTION);
	close_zone();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fresh_memory_is_not_zeroed),
		cmocka_unit_test(test_what_somebody_had_is_zeroed_once),
		cmocka_unit_test(test_a_merged_block_is_as_unclean_as_its_halves),
		cmocka_unit_test(test_every_way_back_is_noticed),
		cmocka_unit_test(test_a_zone_that_does_not_know_zeroes_everything),
		cmocka_unit_test(test_misuse_is_refused),
		cmocka_unit_test(test_what_cannot_be_zeroed_goes_back),
		cmocka_unit_test(test_steps_are_bounded_and_come_round),
		cmocka_unit_test(test_every_section_counts),
		cmocka_unit_test(test_nobody_has_what_is_scrubbed),
		cmocka_unit_test(test_what_was_discarded_is_clean_if_it_reads_zero),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
