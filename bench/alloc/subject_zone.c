/*
 * subject_zone: the library as a subject, tracked and untracked, with a cache a thread. Through its public face and its shared
 * library, as an embedder calls it.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include <pagehint/cache.h>
#include <pagehint/zone.h>

#include "subject_zone.h"

#define RETRIES 10000u

/*
 * -EAGAIN: a block is between two levels in another thread's hands, or in its cache. An embedder tries again, and so do we;
 * bounded, so that a block which never comes is a failure.
 */
static __attribute__((noinline)) uint64_t take_again(struct zone_subject *s, unsigned thread, uint32_t order, int r)
{
	uint64_t frame;
	for (unsigned i = 0; r == -EAGAIN && i < RETRIES; i++) {
		sched_yield();
		r = pagehint_cache_alloc(s->caches[thread], order, &frame);
		if (r == 0)
			return frame;
	}
	return SUBJECT_NONE;
}

static inline uint64_t take(void *state, unsigned thread, uint32_t order)
{
	struct zone_subject *s = state;
	uint64_t frame;
	int r = pagehint_cache_alloc(s->caches[thread], order, &frame);
	return r == 0 ? frame : take_again(s, thread, order, r);
}

static inline int give(void *state, unsigned thread, uint64_t frame, uint32_t order)
{
	struct zone_subject *s = state;
	return pagehint_cache_free(s->caches[thread], frame, order);
}

#define LOOPS zone_loops
#include "loops.h"

struct pagehint_zone *zone_make(uint64_t frames, uint32_t flags)
{
	struct pagehint_zone_opts opts = { .struct_size = sizeof(opts), .flags = flags };
	struct pagehint_zone *zone;
	opts.max_sections = (frames + PAGEHINT_SECTION_FRAMES - 1) / PAGEHINT_SECTION_FRAMES;
	if (pagehint_zone_new(&opts, &zone) != 0)
		return NULL;
	if (pagehint_zone_add(zone, 0, frames) == 0)
		return zone;
	pagehint_zone_destroy(zone);
	return NULL;
}

static void close_zone(void *state)
{
	struct zone_subject *s = state;
	for (unsigned i = 0; i < ZONE_THREADS; i++)
		pagehint_cache_close(s->caches[i]);
	pagehint_zone_destroy(s->zone);
	free(s);
}

static void *open_zone(uint64_t frames, unsigned threads, uint32_t flags)
{
	struct zone_subject *s = calloc(1, sizeof(*s));
	if (s == NULL)
		return NULL;
	s->frames = frames;
	s->zone = zone_make(frames, flags);
	int r = s->zone == NULL;
	for (unsigned i = 0; i < threads && r == 0; i++)
		r = pagehint_cache_open(s->zone, &s->caches[i]);
	if (r == 0)
		return s;
	close_zone(s);
	return NULL;
}

static void *open_tracked(uint64_t frames, unsigned threads)
{
	return open_zone(frames, threads, 0);
}

static void *open_untracked(uint64_t frames, unsigned threads)
{
	return open_zone(frames, threads, PAGEHINT_ZONE_UNTRACKED);
}

static void drain(void *state, unsigned thread)
{
	struct zone_subject *s = state;
	pagehint_cache_drain(s->caches[thread]);
}

static uint64_t span(uint64_t frames)
{
	return frames;
}

static int huge_blocks(void *state, uint64_t *bitmap)
{
	struct zone_subject *s = state;
	uint64_t n = s->frames >> HUGE_ORDER;
	return pagehint_zone_granules(s->zone, PAGEHINT_GRANULES_WHOLE, 0, n, bitmap, (n + 63) / 64);
}

const struct subject subject_zone = { .name = "zone",
				      .threads = ZONE_THREADS,
				      .span = span,
				      .open = open_tracked,
				      .close = close_zone,
				      .drain = drain,
				      .huge_blocks = huge_blocks,
				      .loops = &zone_loops };

const struct subject subject_untracked = { .name = "untracked",
					   .threads = ZONE_THREADS,
					   .span = span,
					   .open = open_untracked,
					   .close = close_zone,
					   .drain = drain,
					   .huge_blocks = huge_blocks,
					   .loops = &zone_loops };
