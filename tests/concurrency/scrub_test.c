/*
 * Threads that write to what they have and want zeroes, one that scrubs in the background, and a reporter, on one zone. Each frame
 * has a word of real memory, with no atomics: whoever sees another one's bytes, or a scrub that is half done, is told, and a
 * race on the memory itself is a race that the sanitizer sees.
 */
#include "support/zone_crowd.h"

#include <pagehint/scrub.h>

#include "alloc/harvest.h"
#include "alloc/scrub.h"

#define WORKERS 2u
#define HELD 16u
#define FRAMES 2048u

struct thing {
	uint64_t frame;
	uint32_t order;
};

static struct crowd crowd;
static uint64_t words[FRAMES]; /* the memory */

static int zero(void *ctx, uint64_t frame, uint64_t frames)
{
	(void)ctx;
	for (uint64_t f = frame; f < frame + frames; f++)
		words[f] = 0;
	return 0;
}

static const struct pagehint_scrubber scrubber = { sizeof(scrubber), NULL, zero };

static void check_zero(struct member *m, uint64_t frame, uint64_t frames)
{
	for (uint64_t f = frame; f < frame + frames; f++)
		must(m, words[f] == 0);
}

static void *work(void *arg)
{
	struct member *m = arg;
	struct pagehint_cache *cache;
	struct thing held[HELD];
	uint32_t n = 0;
	must(m, pagehint_cache_open(crowd.zone, &cache) == 0);
	for (unsigned long i = 0; i < crowd.rounds || n != 0; i++) {
		if (n < HELD && i < crowd.rounds && draw(m, 2)) {
			uint32_t order = (uint32_t)draw(m, 8), zeroed = (uint32_t)draw(m, 2), cached = draw(m, 3) == 0;
			struct pagehint_run run = { 0, UINT64_C(1) << order };
			int r;
			if (cached) {
				order = 0;
				run.frames = 1;
				r = pagehint_cache_alloc(cache, 0, &run.frame);
				if (r == 0 && zeroed)
					must(m, pagehint_scrub_runs(crowd.zone, &scrubber, &run, 1) == 0);
			} else {
				r = pagehint_scrub_alloc(crowd.zone, order, zeroed ? PAGEHINT_ALLOC_ZERO : 0, &scrubber,
							 &run.frame);
			}
			must(m, r == 0 || r == -ENOSPC || r == -EAGAIN);
			if (r != 0)
				continue;
			own(m, run.frame, run.frames);
			if (zeroed)
				check_zero(m, run.frame, run.frames);
			for (uint64_t f = run.frame; f < run.frame + run.frames; f++)
				words[f] = m->id;
			held[n++] = (struct thing) { run.frame, order };
		} else if (n != 0) {
			uint32_t k = (uint32_t)draw(m, n);
			struct thing t = held[k];
			held[k] = held[--n];
			for (uint64_t f = t.frame; f < t.frame + (UINT64_C(1) << t.order); f++)
				must(m, words[f] == m->id); /* nobody zeroed what we have */
			disown(m, t.frame, UINT64_C(1) << t.order);
			must(m, (t.order == 0 ? pagehint_cache_free(cache, t.frame, 0)
					      : pagehint_zone_free(crowd.zone, t.frame, t.order)) == 0);
		}
	}
	pagehint_cache_close(cache);
	atomic_fetch_add(&crowd.done, 1);
	return NULL;
}

static void *scrub(void *arg)
{
	struct member *m = arg;
	uint64_t cursor = 0, frames;
	while (atomic_load(&crowd.done) < WORKERS) {
		frames = UINT64_MAX;
		must(m, pagehint_scrub_step(crowd.zone, &scrubber, draw(m, 200) + 1, &cursor, &frames) == 0);
		must(m, frames <= 200);
		if (cursor == 0)
			sched_yield();
	}
	return NULL;
}

static void *report(void *arg)
{
	struct member *m = arg;
	struct pagehint_run runs[8];
	struct pagehint_harvested got;
	while (atomic_load(&crowd.done) < WORKERS) {
		const struct pagehint_harvest ask = {
			.to = FRAMES, .max_frames = 512, .max_runs = 8, .order = 6, .flags = PAGEHINT_HARVEST_NOW
		};
		must(m, ph_harvest(crowd.zone, &ask, runs, &got) == 0);
		for (uint32_t i = 0; i < got.runs; i++) {
			int zeroed = draw(m, 2) != 0;
			own(m, runs[i].frame, runs[i].frames);
			if (zeroed) {
				zero(NULL, runs[i].frame, runs[i].frames);
				ph_scrub_zeroed(crowd.zone, &runs[i]);
			}
			disown(m, runs[i].frame, runs[i].frames);
			ph_harvest_release(crowd.zone, &runs[i],
					   zeroed ? PAGEHINT_RELEASE_REPORTED : PAGEHINT_RELEASE_KEPT);
		}
		sched_yield();
	}
	return NULL;
}

static void test_nobody_sees_old_bytes(void **state)
{
	(void)state;
	void *(*const bodies[])(void *) = { work, work, scrub, report };
	const uint32_t kinds[] = { 0, PAGEHINT_ZONE_STALE | PAGEHINT_ZONE_STRICT, PAGEHINT_ZONE_UNTRACKED };
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		struct pagehint_zone *zone = zone_empty(1, 1, kinds[k] | PAGEHINT_ZONE_SCRUB, 6);
		struct pagehint_scrub_stats s = { .struct_size = sizeof(s) };
		uint64_t cursor = 0, frames;
		for (uint32_t f = 0; f < FRAMES; f++)
			words[f] = kinds[k] & PAGEHINT_ZONE_STALE ? 77 : 0;
		assert_int_equal(pagehint_zone_add(zone, 0, FRAMES), 0);
		crowd_gather(&crowd, zone, FRAMES, 100000);
		crowd_run(&crowd, bodies, 4, 20261130 + k);
		crowd_leave(&crowd);
		/* whatever is left unclean is cleaned now; then all of it is zero */
		do
			assert_int_equal(pagehint_scrub_step(zone, &scrubber, FRAMES, &cursor, &frames), 0);
		while (cursor != 0);
		assert_int_equal(pagehint_scrub_stats(zone, &s), 0);
		assert_int_equal(s.clean, FRAMES);
		for (uint32_t f = 0; f < FRAMES; f++)
			assert_int_equal(words[f], 0);
		print_message("%llu frames scrubbed, %llu zeroed for allocations, %llu spared\n",
			      (unsigned long long)s.scrubbed, (unsigned long long)s.zeroed,
			      (unsigned long long)s.spared);
		zone_gone_home(zone);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nobody_sees_old_bytes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
