/*
 * zone_oracle: a zone in the open, one byte a frame, and what the reporter does to it; for zone_ops.h alone.
 */
#ifndef TESTS_MODEL_ZONE_ORACLE_H
#define TESTS_MODEL_ZONE_ORACLE_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pagehint/cache.h>
#include <pagehint/zone.h>

#include "alloc/harvest.h"
#include "support/chance.h"

#ifndef SECTIONS
#define SECTIONS 3u
#endif
/* frames FIRST .. FRAMES - 1 are looked after; those before are never present */
#ifndef FRAMES
#define FIRST UINT64_C(0)
#define FRAMES (SECTIONS * PAGEHINT_SECTION_FRAMES)
#endif
#define MAX_BLOCKS 4096u
#define CACHES 3u

enum { ABSENT = 0, FREE, OUT, ISOLATED };

struct block {
	uint64_t frame, frames;
	uint32_t order; /* > ORDER_MAX: a run */
};

static struct {
	struct pagehint_zone *zone;
	struct pagehint_cache *cache[CACHES];
	int parked[CACHES];
	uint8_t state[FRAMES];
	uint8_t clean[FRAMES]; /* 1 = not handed out since its last discard (or ever) */
	struct block blocks[MAX_BLOCKS];
	uint32_t n_blocks;
	struct pagehint_run isolated[64];
	uint32_t n_isolated;
	uint64_t seed, rereported, flags, granule;
	unsigned round;
} m;

static void line(void *ctx, const char *text)
{
	(void)ctx;
	printf("check: %s\n", text);
}

static uint64_t count(uint8_t what)
{
	uint64_t n = 0;
	for (uint64_t i = FIRST; i < FRAMES; i++)
		n += m.state[i] == what;
	return n;
}

static void change(uint64_t frame, uint64_t frames, uint8_t from, uint8_t to)
{
	for (uint64_t i = frame; i < frame + frames; i++) {
		REQUIRE(i < FRAMES && m.state[i] == from);
		m.state[i] = to;
		if (to == OUT)
			m.clean[i] = 0;
	}
}

static void remember(uint64_t frame, uint64_t frames, uint32_t order)
{
	change(frame, frames, FREE, OUT);
	REQUIRE(m.n_blocks < MAX_BLOCKS);
	m.blocks[m.n_blocks++] = (struct block) { frame, frames, order };
}

static struct block forget(uint32_t i)
{
	struct block b = m.blocks[i];
	m.blocks[i] = m.blocks[--m.n_blocks];
	change(b.frame, b.frames, OUT, FREE);
	return b;
}

static void release_one(void)
{
	struct pagehint_run run = m.isolated[--m.n_isolated];
	uint32_t how = rnd(4) ? PAGEHINT_RELEASE_REPORTED : PAGEHINT_RELEASE_KEPT;
	if (run.frames > 1 && rnd(4) == 0) { /* give back in two parts */
		struct pagehint_run front = { run.frame, rnd(run.frames - 1) + 1 };
		run.frame += front.frames;
		run.frames -= front.frames;
		ph_harvest_release(m.zone, &front, PAGEHINT_RELEASE_KEPT);
		change(front.frame, front.frames, ISOLATED, FREE);
	}
	ph_harvest_release(m.zone, &run, how);
	change(run.frame, run.frames, ISOLATED, FREE);
	if (how != PAGEHINT_RELEASE_REPORTED)
		return;
	/* without a ladder only whole granules are remembered */
	uint64_t size = m.flags & PAGEHINT_ZONE_LADDER ? 1 : UINT64_C(1) << m.granule;
	for (uint64_t i = (run.frame + size - 1) / size * size; i + size <= run.frame + run.frames; i += size)
		memset(m.clean + i, 1, size);
}

static void op_harvest(void)
{
	struct pagehint_run runs[24];
	struct pagehint_harvested got;
	int ladder = (m.flags & PAGEHINT_ZONE_LADDER) != 0;
	uint32_t g = (uint32_t)m.granule, orders[] = { g, g, g + 1, g + 7, 0, 4, 7 };
	uint64_t from = rnd(2) ? 0 : FIRST + rnd(FRAMES - FIRST);
	while (m.n_isolated > 30)
		release_one();
	struct pagehint_harvest ask = {
		.from = from,
		.to = from + rnd(FRAMES - from) + 1,
		.max_frames = rnd(3) ? UINT64_MAX : rnd(5000),
		.max_runs = (uint32_t)rnd(24) + 1,
		.order = orders[rnd(ladder ? 7 : 4)],
		.flags = (uint32_t)rnd(8) == 0 ? PAGEHINT_HARVEST_PEEK : (uint32_t)rnd(2),
		.max_work = rnd(3) ? 0 : (uint32_t)rnd(3000),
	};
	if (ask.order > PAGEHINT_ORDER_MAX || (ask.order < m.granule && !ladder))
		return;
	REQUIRE(ph_harvest(m.zone, &ask, runs, &got) == 0);
	REQUIRE(got.next >= ask.from && got.next <= ask.to);
	if (ask.flags & PAGEHINT_HARVEST_PEEK) {
		REQUIRE(got.runs == 0);
		return;
	}
	REQUIRE(got.runs <= ask.max_runs && got.frames <= ask.max_frames);
	uint64_t sum = 0;
	for (uint32_t i = 0; i < got.runs; i++) {
		sum += runs[i].frames;
		REQUIRE(runs[i].frame >= ask.from && runs[i].frame + runs[i].frames <= ask.to);
		if (i > 0) /* in address order, and maximal: neighbours are one run */
			REQUIRE(runs[i].frame > runs[i - 1].frame + runs[i - 1].frames);
		uint64_t unit = UINT64_C(1) << ask.order;
		REQUIRE(runs[i].frame % unit == 0 && runs[i].frames % unit == 0);
		/* no run is discarded again of which no frame was handed out since */
		uint64_t dirty = 0;
		for (uint64_t at = runs[i].frame; at < runs[i].frame + runs[i].frames; at++)
			dirty += m.clean[at] == 0;
		if (dirty == 0)
			m.rereported++;
		change(runs[i].frame, runs[i].frames, FREE, ISOLATED);
		m.isolated[m.n_isolated++] = runs[i];
	}
	REQUIRE(sum == got.frames);
	if (rnd(2))
		ph_harvest_depart(m.zone, got.frames);
	else
		for (uint32_t n = got.runs; n != 0; n--)
			release_one();
}

#endif
