/*
 * scrub_memory.h: memory of one byte a frame, and a scrubber that zeroes it and remembers what it was asked for.
 */
#ifndef TESTS_SUPPORT_SCRUB_MEMORY_H
#define TESTS_SUPPORT_SCRUB_MEMORY_H

#include "support/zone_rest.h"

#include <stdlib.h>

#include <pagehint/scrub.h>

struct scrub_memory {
	uint8_t *bytes; /* one a frame */
	uint64_t frames;
	uint64_t calls, zeroed; /* [calls], [frames] */
	int refuses_at;         /* the call that fails, from 0; -1 = none */
	int with;               /* what it fails with */
	void (*inside)(struct scrub_memory *m, uint64_t frame, uint64_t frames);
	struct pagehint_zone *zone;
	struct pagehint_scrubber scrubber;
};

static inline int scrub_memory_zero(void *ctx, uint64_t frame, uint64_t frames)
{
	struct scrub_memory *m = ctx;
	assert_true(frames != 0 && frame + frames <= m->frames);
	if ((uint64_t)m->refuses_at == m->calls++)
		return m->with;
	if (m->inside != NULL)
		m->inside(m, frame, frames);
	memset(m->bytes + frame, 0, (size_t)frames);
	m->zeroed += frames;
	return 0;
}

static inline void scrub_memory_open(struct scrub_memory *m, struct pagehint_zone *zone, uint64_t frames)
{
	memset(m, 0, sizeof(*m));
	m->bytes = calloc((size_t)frames, 1);
	assert_non_null(m->bytes);
	m->frames = frames;
	m->refuses_at = -1;
	m->zone = zone;
	m->scrubber = (struct pagehint_scrubber) { sizeof(m->scrubber), m, scrub_memory_zero };
}

static inline void scrub_memory_close(struct scrub_memory *m)
{
	free(m->bytes);
}

static inline struct pagehint_scrub_stats scrub_stats_of(const struct pagehint_zone *zone)
{
	struct pagehint_scrub_stats s = { .struct_size = sizeof(s) };
	assert_int_equal(pagehint_scrub_stats(zone, &s), 0);
	return s;
}

/* Frames zeroed by a zeroed allocation of this order, which is given back. */
static inline uint64_t scrub_cost(struct scrub_memory *m, uint32_t order)
{
	uint64_t frame, before = m->zeroed;
	assert_int_equal(pagehint_scrub_alloc(m->zone, order, PAGEHINT_ALLOC_ZERO, &m->scrubber, &frame), 0);
	for (uint64_t i = 0; i < UINT64_C(1) << order; i++)
		assert_int_equal(m->bytes[frame + i], 0);
	assert_int_equal(pagehint_zone_free(m->zone, frame, order), 0);
	return m->zeroed - before;
}

#endif
