/*
 * Random operations on a zone over memory with real bytes. A zeroed allocation never has a byte that is not zero, and no frame is
 * zeroed that was clean: the oracle knows of each frame whether somebody had it since it was last zeroed or discarded.
 * Usage: model-scrub [seed [rounds]]; the seed is printed, so that any failure can be had again.
 */
#include "support/scrub_memory.h"

#include <errno.h>

#include "alloc/harvest.h"
#include "alloc/scrub.h"
#include "support/rounds.h"

#define FRAMES 8192u
#define MAX_BLOCKS 512u
#define CACHES 2u

enum { ABSENT = 0, FREE, OUT, ISOLATED };

struct block {
	uint64_t frame, frames;
	uint32_t order; /* above PAGEHINT_ORDER_MAX: a run */
};

static struct {
	struct pagehint_zone *zone;
	struct scrub_memory memory;
	struct pagehint_cache *cache[CACHES];
	uint8_t state[FRAMES], unclean[FRAMES];
	struct block blocks[MAX_BLOCKS];
	uint32_t n;
	uint32_t flags;
	uint64_t cursor, wanted; /* frames wanted as zeroes */
	uint64_t in_vain;        /* frames zeroed that were clean */
	uint64_t seed;
	unsigned round;
} m;

#include "support/chance.h"

/* each frame that is zeroed must be unclean, and in nobody's hands */
static void inside(struct scrub_memory *memory, uint64_t frame, uint64_t frames)
{
	(void)memory;
	for (uint64_t f = frame; f < frame + frames; f++) {
		REQUIRE(m.state[f] == FREE);
		m.in_vain += m.unclean[f] == 0;
		m.unclean[f] = 0;
	}
}

static void change(uint64_t frame, uint64_t frames, uint8_t from, uint8_t to)
{
	for (uint64_t f = frame; f < frame + frames; f++) {
		REQUIRE(f < FRAMES && m.state[f] == from);
		m.state[f] = to;
	}
}

/* The embedder has it, and writes to it, or not. */
static void have(uint64_t frame, uint64_t frames, uint32_t order, int zeroed)
{
	for (uint64_t f = frame; zeroed && f < frame + frames; f++)
		REQUIRE(m.memory.bytes[f] == 0);
	m.wanted += zeroed ? frames : 0;
	change(frame, frames, FREE, OUT);
	if (rnd(8) != 0)
		memset(m.memory.bytes + frame, 1 + (int)rnd(255), (size_t)frames);
	m.blocks[m.n++] = (struct block) { frame, frames, order };
}

static void op_alloc(void)
{
	uint32_t order = (uint32_t)rnd(11), zeroed = (uint32_t)rnd(2);
	uint64_t frame;
	int r = pagehint_scrub_alloc(m.zone, order, zeroed ? PAGEHINT_ALLOC_ZERO : 0, &m.memory.scrubber, &frame);
	REQUIRE(r == 0 || r == -ENOSPC || r == -EAGAIN);
	if (r == 0)
		have(frame, UINT64_C(1) << order, order, (int)zeroed);
}

static void op_alloc_otherwise(void)
{
	struct pagehint_run runs[8];
	uint64_t frame, frames[32];
	uint32_t n = 0, zeroed = (uint32_t)rnd(2), c = (uint32_t)rnd(CACHES), order = 99;
	switch (rnd(4)) {
	case 0:
		if (pagehint_cache_alloc(m.cache[c], 0, &frame) < 0)
			return;
		runs[n++] = (struct pagehint_run) { frame, 1 };
		order = 0;
		break;
	case 1:
		if (pagehint_zone_alloc_runs(m.zone, rnd(600) + 1, runs, 8, &n) < 0)
			return;
		break;
	case 2:
		if (pagehint_zone_alloc_contig(m.zone, runs[0].frames = rnd(600) + 1, 1, &runs[0].frame) < 0)
			return;
		n = 1;
		break;
	default:
		if (pagehint_zone_alloc_batch(m.zone, 0, 4, frames, &n) < 0 && n == 0)
			return;
		for (uint32_t i = 0; i < n; i++)
			runs[i] = (struct pagehint_run) { frames[i], 1 };
		order = 0;
	}
	if (zeroed)
		REQUIRE(pagehint_scrub_runs(m.zone, &m.memory.scrubber, runs, n) == 0);
	for (uint32_t i = 0; i < n; i++)
		have(runs[i].frame, runs[i].frames, order, (int)zeroed);
}

static void op_free(void)
{
	if (m.n == 0)
		return;
	uint32_t i = (uint32_t)rnd(m.n);
	struct block b = m.blocks[i];
	m.blocks[i] = m.blocks[--m.n];
	memset(m.unclean + b.frame, 1, (size_t)b.frames);
	change(b.frame, b.frames, OUT, FREE);
	struct pagehint_run run = { b.frame, b.frames };
	if (b.order > PAGEHINT_ORDER_MAX || rnd(4) == 0)
		REQUIRE(pagehint_zone_free_runs(m.zone, &run, 1, NULL) == 0);
	else if (b.order == 0 && rnd(2))
		REQUIRE(pagehint_cache_free(m.cache[rnd(CACHES)], b.frame, 0) == 0);
	else if (rnd(2))
		REQUIRE(pagehint_zone_free_batch(m.zone, b.order, 1, &b.frame, NULL) == 0);
	else
		REQUIRE(pagehint_zone_free(m.zone, b.frame, b.order) == 0);
}

/* The reporter has some of it, and discards it, or not; it reads as zero then, or not. */
static void op_report(void)
{
	struct pagehint_run runs[16];
	struct pagehint_harvested got;
	const struct pagehint_harvest ask = { .to = FRAMES,
					      .max_frames = rnd(3000) + 512,
					      .max_runs = 16,
					      .order = m.flags & PAGEHINT_ZONE_LADDER ? (uint32_t)rnd(10) : 9,
					      .flags = PAGEHINT_HARVEST_NOW };
	REQUIRE(ph_harvest(m.zone, &ask, runs, &got) == 0);
	for (uint32_t i = 0; i < got.runs; i++) {
		change(runs[i].frame, runs[i].frames, FREE, ISOLATED);
		uint64_t what = rnd(3);
		if (what == 0) {
			memset(m.memory.bytes + runs[i].frame, 0, (size_t)runs[i].frames);
			memset(m.unclean + runs[i].frame, 0, (size_t)runs[i].frames);
			ph_scrub_zeroed(m.zone, &runs[i]);
		}
		change(runs[i].frame, runs[i].frames, ISOLATED, FREE);
		ph_harvest_release(m.zone, &runs[i], what == 2 ? PAGEHINT_RELEASE_KEPT : PAGEHINT_RELEASE_REPORTED);
	}
}

static void op_step(void)
{
	uint64_t most = rnd(300) + 1, frames = 0;
	REQUIRE(pagehint_scrub_step(m.zone, &m.memory.scrubber, most, &m.cursor, &frames) == 0);
	REQUIRE(frames <= most && m.cursor < FRAMES + SECTION);
}

/* A part goes, and another one comes in its place: fresh, or with somebody's bytes. */
static void op_plug(void)
{
	uint64_t frame = rnd(FRAMES / 64) * 64, frames = (rnd(20) + 1) * 64;
	int stale = (m.flags & PAGEHINT_ZONE_STALE) != 0;
	if (frame + frames > FRAMES || pagehint_zone_remove(m.zone, frame, frames, NULL) < 0)
		return;
	change(frame, frames, FREE, ABSENT);
	memset(m.memory.bytes + frame, stale ? 0xee : 0, (size_t)frames);
	memset(m.unclean + frame, stale, (size_t)frames);
	REQUIRE(pagehint_zone_add(m.zone, frame, frames) == 0);
	change(frame, frames, ABSENT, FREE);
}

static void settle(void)
{
	uint64_t unclean = 0, free_frames = 0;
	for (uint32_t c = 0; c < CACHES; c++)
		pagehint_cache_drain(m.cache[c]);
	for (uint32_t f = 0; f < FRAMES; f++) {
		free_frames += m.state[f] == FREE;
		unclean += m.state[f] == FREE && m.unclean[f];
	}
	struct pagehint_scrub_stats s = scrub_stats_of(m.zone);
	REQUIRE(zone_at_rest(m.zone).free == free_frames);
	REQUIRE(s.unclean == unclean && s.clean == free_frames - unclean);
	REQUIRE(s.scrubbed + s.zeroed == m.memory.zeroed && s.zeroed + s.spared == m.wanted);
	REQUIRE(m.in_vain == 0);
}

static void run(uint64_t seed, unsigned rounds, uint32_t flags)
{
	int stale = (flags & PAGEHINT_ZONE_STALE) != 0;
	memset(&m, 0, sizeof(m));
	m.seed = seed;
	m.flags = flags;
	state = seed * 2654435761u + 88172645463325252u;
	m.zone = zone_empty(1, 1, flags | PAGEHINT_ZONE_SCRUB, 9);
	scrub_memory_open(&m.memory, m.zone, FRAMES);
	m.memory.inside = inside;
	memset(m.memory.bytes, stale ? 0xee : 0, FRAMES);
	memset(m.unclean, stale, FRAMES);
	memset(m.state, FREE, FRAMES);
	REQUIRE(pagehint_zone_add(m.zone, 0, FRAMES) == 0);
	for (uint32_t c = 0; c < CACHES; c++)
		REQUIRE(pagehint_cache_open(m.zone, &m.cache[c]) == 0);
	for (m.round = 0; m.round < rounds; m.round++) {
		uint64_t what = rnd(100), filling = m.round / 300 % 2;
		if (m.n + 16 > MAX_BLOCKS || what < (filling ? 25u : 45u))
			op_free();
		else if (what < 70)
			op_alloc();
		else if (what < 85)
			op_alloc_otherwise();
		else if (what < 92)
			op_step();
		else if (what < 96)
			op_report();
		else
			op_plug();
		if (m.round % 200 == 199)
			settle();
	}
	while (m.n != 0)
		op_free();
	for (uint32_t c = 0; c < CACHES; c++)
		pagehint_cache_drain(m.cache[c]);
	do
		op_step();
	while (m.cursor != 0);
	do
		op_step();
	while (m.cursor != 0);
	settle();
	REQUIRE(scrub_stats_of(m.zone).unclean == 0);
	for (uint32_t f = 0; f < FRAMES; f++)
		REQUIRE(m.memory.bytes[f] == 0);
	struct pagehint_scrub_stats s = scrub_stats_of(m.zone);
	printf("seed %" PRIu64 " flags %u: %" PRIu64 " frames wanted as zeroes, %" PRIu64
	       " of them zeroed then, %" PRIu64 " scrubbed before\n",
	       seed, flags, m.wanted, s.zeroed, s.scrubbed);
	for (uint32_t c = 0; c < CACHES; c++)
		pagehint_cache_close(m.cache[c]);
	scrub_memory_close(&m.memory);
	zone_gone_home(m.zone);
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 20261130;
	unsigned rounds = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 0) : (unsigned)rounds_scaled(12000);
	for (size_t k = 0; k < ZONE_KINDS; k++)
		run(seed + k, rounds, zone_kinds[k]);
	return 0;
}
