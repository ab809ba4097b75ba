/*
 * flush_oracle: CPUs that keep translations, owners that come and go, in the open; for flush_test.c alone.
 *
 * A CPU that accesses a frame of a live owner keeps a translation to it until it flushes, whatever becomes of the owner. A
 * flush has three moments (tick, the flush itself, done) with everything else in between. The clock jumps, too, as if many
 * flushes had been: up to the ends of turns of 2^32, and over whole ones.
 */
#ifndef TESTS_MODEL_FLUSH_ORACLE_H
#define TESTS_MODEL_FLUSH_ORACLE_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pagehint/flush.h>
#include <pagehint/zone.h>

#include "alloc/flush.h"
#include "support/chance.h"

#define SECTION ((uint64_t)PAGEHINT_SECTION_FRAMES)
#define CPUS 67u
#define WORDS 2u
#define LOW 1024u /* frames on each side of the border of the first two sections */
#define HIGH 512u /* frames at the start of the last section: it goes and comes */
#define FRAMES (2 * LOW + HIGH)
#define HIGH_AT (9 * SECTION)
#define MAX_BLOCKS 512u
#define BATCH 24u
#define OWNERS 9u
#define WRITER 200u  /* in a TLB: whoever wrote the content */
#define GARBAGE 201u /* content that an old owner wrote late */

enum { STOPPED, RUNNING, STAMP_TOO_EARLY, FLUSH_TOO_EARLY, CONTENT_TOO_EARLY, NO_FLUSH };
static const char *const names[] = { "stopped owners",  "running owners",    "stamp too early",
				     "flush too early", "content too early", "no flush" };

struct block {
	uint32_t first, order; /* first: index into the oracle's frames */
};

struct batch {
	struct block blocks[BATCH];
	uint32_t n;
	struct pagehint_flush_filter filter;
	uint64_t newest; /* as whole times */
	int loose;       /* a stamp of it was older than a turn: a flush too many is allowed */
};

static struct {
	struct pagehint_zone *zone;
	struct pagehint_flush *flush;
	uint8_t pte[FRAMES]; /* owner; 0 = none */
	uint8_t content[FRAMES];
	uint8_t tlb[CPUS][FRAMES];
	uint64_t time[FRAMES / 64]; /* of the newest free */
	uint64_t rest;              /* newest of what went with its section */
	uint64_t done[CPUS], tick[CPUS];
	uint8_t moment[CPUS]; /* of a CPU's own flush */
	struct block blocks[MAX_BLOCKS];
	uint32_t n_blocks;
	int how, loose;
	uint64_t batches, asked, cpus_asked, stale, dirty, replugged, seed;
	unsigned round;
} m;

static uint64_t frame_of(uint32_t i)
{
	return i < 2 * LOW ? SECTION - LOW + i : HIGH_AT + (i - 2 * LOW);
}

static uint32_t index_of(uint64_t frame)
{
	return frame < HIGH_AT ? (uint32_t)(frame - (SECTION - LOW)) : (uint32_t)(frame - HIGH_AT) + 2 * LOW;
}

static void flush_now(uint32_t cpu, uint64_t tick)
{
	memset(m.tlb[cpu], 0, sizeof(m.tlb[cpu]));
	REQUIRE(pagehint_flush_done(m.flush, cpu, tick) == 0);
	if (m.done[cpu] < tick)
		m.done[cpu] = tick;
}

/* one moment of a flush that a CPU makes for reasons of its own */
static void op_own_flush(uint32_t cpu)
{
	switch (m.moment[cpu]) {
	case 0:
		m.tick[cpu] = pagehint_flush_tick(m.flush);
		break;
	case 1:
		memset(m.tlb[cpu], 0, sizeof(m.tlb[cpu]));
		break;
	default:
		REQUIRE(pagehint_flush_done(m.flush, cpu, m.tick[cpu]) == 0);
		if (m.done[cpu] < m.tick[cpu])
			m.done[cpu] = m.tick[cpu];
	}
	m.moment[cpu] = (uint8_t)((m.moment[cpu] + 1) % 3);
}

static void access_block(struct block b)
{
	for (uint64_t k = rnd(4); k != 0; k--) {
		uint32_t i = b.first + (uint32_t)rnd(UINT64_C(1) << b.order);
		m.tlb[rnd(CPUS)][i] = m.pte[i];
	}
}

static void unmap(struct block b)
{
	for (uint32_t i = 0; i < 1u << b.order; i++)
		m.pte[b.first + i] = 0;
}

static void stamp(struct block b)
{
	uint64_t frame = frame_of(b.first), now = pagehint_flush_clock(m.flush);
	struct pagehint_run run = { frame, UINT64_C(1) << b.order };
	if (rnd(2))
		REQUIRE(pagehint_flush_freed(m.flush, &run, 1) == 0);
	else
		REQUIRE(pagehint_flush_freed_blocks(m.flush, b.order, 1, &frame) == 0);
	for (uint32_t w = b.first / 64; w <= (b.first + (1u << b.order) - 1) / 64; w++)
		m.time[w] = now;
}

/* Some neighbours, or all, get on with their flushes; a CPU may be left at any moment of one. */
static void some_own_flushes(void)
{
	uint32_t first = (uint32_t)rnd(CPUS), n = (uint32_t)rnd(rnd(3) ? 4 : CPUS + 1);
	for (uint32_t k = 0; k < n; k++)
		for (uint64_t moments = rnd(5); moments != 0; moments--)
			op_own_flush((first + k) % CPUS);
}

static void free_block(uint32_t at)
{
	struct block b = m.blocks[at];
	m.blocks[at] = m.blocks[--m.n_blocks];
	if (m.how == STAMP_TOO_EARLY)
		stamp(b);
	some_own_flushes();
	access_block(b);
	unmap(b);
	some_own_flushes();
	if (m.how != STAMP_TOO_EARLY)
		stamp(b);
	some_own_flushes();
	REQUIRE(pagehint_zone_free(m.zone, frame_of(b.first), b.order) == 0);
}

static void op_free(void)
{
	if (m.n_blocks != 0)
		free_block((uint32_t)rnd(m.n_blocks));
}

/* old owners that still run write through translations that they should not have any more */
static void op_late_write(void)
{
	uint32_t first = (uint32_t)rnd(FRAMES), n = (uint32_t)rnd(256);
	if (m.how != RUNNING && m.how != CONTENT_TOO_EARLY)
		return;
	for (uint32_t cpu = 0; cpu < CPUS; cpu++)
		for (uint32_t i = first; i < first + n && i < FRAMES; i++)
			if (m.tlb[cpu][i] != 0 && m.tlb[cpu][i] != m.pte[i])
				m.content[i] = GARBAGE;
}

static void op_jump(void)
{
	uint64_t now = pagehint_flush_clock(m.flush), turn = UINT64_C(1) << 32;
	uint64_t to = now + rnd(1000);
	if (rnd(3) == 0)
		to = (now | (turn - 1)) - rnd(3); /* just before the end of a turn */
	else if (rnd(3) == 0)
		to = now + turn * rnd(2) + (turn >> rnd(20)) - rnd(40);
	if (to > now)
		atomic_store(&m.flush->clock, to + ((uint32_t)to == 0));
}

/* The last section goes, unless a batch has some of it, and comes back. */
static void op_replug(void)
{
	for (uint32_t at = m.n_blocks; at-- > 0;)
		if (m.blocks[at].first >= 2 * LOW)
			free_block(at);
	if (pagehint_zone_remove(m.zone, HIGH_AT, HIGH, NULL) != 0)
		return;
	REQUIRE(pagehint_flush_remove(m.flush, HIGH_AT, SECTION) == 0);
	for (uint32_t w = 2 * LOW / 64; w < FRAMES / 64; w++) {
		if (m.time[w] > m.rest)
			m.rest = m.time[w];
		if (m.time[w] != 0 && pagehint_flush_clock(m.flush) - m.time[w] >= UINT32_MAX)
			m.loose = 1;
		m.time[w] = 0;
	}
	m.replugged++;
	REQUIRE(pagehint_zone_add(m.zone, HIGH_AT, HIGH) == 0);
}

/* up to n things that others do meanwhile */
static void noise(unsigned n)
{
	for (uint64_t k = rnd(n + 1); k != 0; k--)
		switch (rnd(16)) {
		case 0:
		case 1:
		case 2:
			op_free();
			break;
		case 3:
			if (rnd(8) == 0)
				op_jump();
			break;
		case 4:
			if (rnd(10) == 0)
				op_replug();
			break;
		case 5:
		case 6:
			op_late_write();
			break;
		case 7:
		case 8:
		case 9:
			some_own_flushes();
			break;
		default:
			if (m.n_blocks != 0)
				access_block(m.blocks[rnd(m.n_blocks)]);
		}
}

/* Notes what a taken block brings, by whole times. */
static void note(struct batch *b, struct block taken)
{
	uint64_t now = pagehint_flush_clock(m.flush);
	b->blocks[b->n++] = taken;
	for (uint32_t w = taken.first / 64; w <= (taken.first + (1u << taken.order) - 1) / 64; w++) {
		if (m.time[w] > b->newest)
			b->newest = m.time[w];
		b->loose |= m.time[w] != 0 && now - m.time[w] >= UINT32_MAX;
	}
	if (m.rest > b->newest)
		b->newest = m.rest;
}

static void take_batch(struct batch *b)
{
	uint32_t n = 1 + (uint32_t)rnd(BATCH);
	pagehint_flush_begin(&b->filter);
	for (uint32_t k = 0; k < n && m.n_blocks + b->n < MAX_BLOCKS; k++) {
		uint64_t frame;
		uint32_t order = (uint32_t)rnd(rnd(4) ? 4 : 10);
		if (pagehint_zone_alloc(m.zone, order, &frame) != 0)
			continue;
		struct pagehint_run run = { frame, UINT64_C(1) << order };
		if (rnd(2))
			REQUIRE(pagehint_flush_add(m.flush, &b->filter, &run, 1) == 0);
		else
			REQUIRE(pagehint_flush_add_blocks(m.flush, &b->filter, order, 1, &frame) == 0);
		note(b, (struct block) { index_of(frame), order });
		noise(2);
	}
}

static void hand_over(const struct batch *b, uint8_t owner)
{
	for (uint32_t k = 0; k < b->n; k++) {
		m.blocks[m.n_blocks++] = b->blocks[k];
		memset(m.pte + b->blocks[k].first, owner, 1u << b->blocks[k].order);
	}
}

static void begin(uint64_t seed, int how, uint32_t sections)
{
	struct pagehint_zone_opts zone = { .struct_size = sizeof(zone), .max_sections = 3, .span_sections = 10 };
	struct pagehint_flush_opts opts = {
		.struct_size = sizeof(opts), .max_sections = sections, .span_sections = 10, .cpus = CPUS
	};
	memset(&m, 0, sizeof(m));
	m.seed = seed;
	m.how = how;
	m.loose = sections < 3;
	state = seed * 2654435761u + 88172645463325252u;
	REQUIRE(pagehint_zone_new(&zone, &m.zone) == 0);
	REQUIRE(pagehint_zone_add(m.zone, SECTION - LOW, 2 * LOW) == 0);
	REQUIRE(pagehint_zone_add(m.zone, HIGH_AT, HIGH) == 0);
	REQUIRE(pagehint_flush_new(&opts, &m.flush) == 0);
}

#endif
