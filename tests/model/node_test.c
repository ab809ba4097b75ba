/*
 * Random operations on a set of nodes against an oracle of one byte a frame: an allocation comes from the first node in the order
 * of its home that has such a block, and a refusal means that none has one.
 * Usage: model-node [seed [rounds]]; the seed is printed, so that any failure can be had again.
 */
#include "support/node_set.h"

#include <errno.h>
#include <stdlib.h>

#include "support/rounds.h"

#define EACH 1024u /* frames of a node */
#define APART 2048u
#define FRAMES (APART * NODES)
#define MAX_BLOCKS 1024u

struct block {
	uint64_t frame, frames;
	uint32_t order; /* above PAGEHINT_ORDER_MAX: a run */
};

static struct {
	struct node_set set;
	uint8_t out[FRAMES]; /* 1 = out, 2 = not there */
	struct block blocks[MAX_BLOCKS];
	uint32_t n;
	struct pagehint_node_stats expected[NODES];
	uint64_t seed;
	unsigned round;
} m;

#include "support/chance.h"

/* Has this node a free block of this order? Slow and simple. */
static int has_block(uint32_t node, uint32_t order)
{
	uint64_t size = UINT64_C(1) << order;
	for (uint64_t at = node * APART; at + size <= node * APART + EACH; at += size) {
		uint64_t i = 0;
		while (i < size && m.out[at + i] == 0)
			i++;
		if (i == size)
			return 1;
	}
	return 0;
}

static uint64_t free_of(uint32_t node)
{
	uint64_t n = 0;
	for (uint64_t i = 0; i < EACH; i++)
		n += m.out[node * APART + i] == 0;
	return n;
}

static void change(uint64_t frame, uint64_t frames, uint8_t from, uint8_t to)
{
	for (uint64_t i = frame; i < frame + frames; i++) {
		REQUIRE(i < FRAMES && m.out[i] == from);
		m.out[i] = to;
	}
}

static void remember(uint64_t frame, uint64_t frames, uint32_t order)
{
	change(frame, frames, 0, 1);
	m.blocks[m.n++] = (struct block) { frame, frames, order };
}

static void served(uint32_t home, uint32_t by)
{
	m.expected[home].local += home == by;
	m.expected[home].fallback += home != by;
	m.expected[by].foreign += home != by;
}

static void op_alloc(void)
{
	uint32_t home = (uint32_t)rnd(NODES), order = (uint32_t)rnd(11), flags = (uint32_t)rnd(3) == 0, at[NODES];
	uint32_t asked = flags ? 1 : NODES, i = 0, node;
	uint64_t frame = UINT64_MAX;
	REQUIRE(pagehint_node_fallbacks(m.set.nodes, home, at, NODES) == 0);
	while (i < asked && !has_block(at[i], order))
		i++;
	int r = pagehint_node_alloc(m.set.nodes, home, order, flags, &frame);
	if (i == asked) {
		REQUIRE(r == -ENOSPC && frame == UINT64_MAX);
		m.expected[home].failed++;
		return;
	}
	REQUIRE(r == 0 && frame / APART == at[i] && frame % (UINT64_C(1) << order) == 0);
	REQUIRE(pagehint_node_of(m.set.nodes, frame, &node) == 0 && node == at[i]);
	served(home, at[i]);
	remember(frame, UINT64_C(1) << order, order);
}

static void op_batch(void)
{
	uint64_t frames[64];
	uint32_t home = (uint32_t)rnd(NODES), order = (uint32_t)rnd(6), want = (uint32_t)rnd(64) + 1, n = 0, step = 0;
	uint32_t at[NODES];
	REQUIRE(pagehint_node_fallbacks(m.set.nodes, home, at, NODES) == 0);
	int r = pagehint_node_alloc_batch(m.set.nodes, home, order, 0, want, frames, &n);
	REQUIRE(r == 0 ? n == want : r == -ENOSPC && n < want);
	m.expected[home].failed += r != 0;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t node = (uint32_t)(frames[i] / APART);
		for (; at[step] != node; step++) /* on to the next only when nothing is left */
			REQUIRE(step + 1 < NODES && !has_block(at[step], order));
		served(home, node);
		remember(frames[i], UINT64_C(1) << order, order);
	}
	for (uint32_t i = 0; r != 0 && i < NODES; i++)
		REQUIRE(!has_block(i, order));
}

static void op_runs(void)
{
	struct pagehint_run runs[64];
	uint32_t home = (uint32_t)rnd(NODES), n = 0, at[NODES], i = 0;
	uint64_t want = rnd(700) + 1, sum = 0;
	REQUIRE(pagehint_node_fallbacks(m.set.nodes, home, at, NODES) == 0);
	int r = pagehint_node_alloc_runs(m.set.nodes, home, want, 0, runs, 64, &n);
	if (r != 0) {
		REQUIRE(r == -ENOSPC && n == 0);
		m.expected[home].failed++;
		return;
	}
	for (uint32_t k = 0; k < n; k++) {
		REQUIRE(runs[k].frame / APART == runs[0].frame / APART);
		sum += runs[k].frames;
	}
	REQUIRE(sum == want);
	for (; at[i] != runs[0].frame / APART; i++) /* too little, or in too many pieces */
		REQUIRE(free_of(at[i]) < want || want > 64);
	served(home, at[i]);
	for (uint32_t k = 0; k < n; k++)
		remember(runs[k].frame, runs[k].frames, 99);
}

static void op_free(void)
{
	if (m.n == 0)
		return;
	uint32_t i = (uint32_t)rnd(m.n);
	struct block b = m.blocks[i];
	struct pagehint_run run = { b.frame, b.frames };
	m.blocks[i] = m.blocks[--m.n];
	change(b.frame, b.frames, 1, 0);
	if (b.order > PAGEHINT_ORDER_MAX || rnd(4) == 0)
		REQUIRE(pagehint_node_free_runs(m.set.nodes, &run, 1, NULL) == 0);
	else
		REQUIRE(pagehint_node_free(m.set.nodes, b.frame, b.order) == 0);
	REQUIRE(pagehint_node_free_runs(m.set.nodes, &run, 1, NULL) == -EALREADY);
}

static void settle(void)
{
	for (uint32_t i = 0; i < NODES; i++) {
		struct pagehint_zone_stats s = zone_at_rest(m.set.zone[i]);
		struct pagehint_node_stats is = node_stats_of(&m.set, i), *should = &m.expected[i];
		REQUIRE(s.free == free_of(i) && s.total == EACH);
		REQUIRE(is.local == should->local && is.fallback == should->fallback);
		REQUIRE(is.foreign == should->foreign && is.failed == should->failed);
	}
}

static void run(uint64_t seed, unsigned rounds, const uint8_t *distances)
{
	memset(&m, 0, sizeof(m));
	m.seed = seed;
	state = seed * 2654435761u + 88172645463325252u;
	m.set = node_set_make(EACH, APART, 0, distances);
	for (uint64_t i = 0; i < FRAMES; i++)
		m.out[i] = i % APART < EACH ? 0 : 2;
	for (m.round = 0; m.round < rounds; m.round++) {
		uint64_t what = rnd(100), filling = m.round / 500 % 2;
		if (m.n + 64 > MAX_BLOCKS || what < (filling ? 30u : 60u))
			op_free();
		else if (what < 80)
			op_alloc();
		else if (what < 92)
			op_batch();
		else
			op_runs();
		if (m.round % 200 == 199)
			settle();
	}
	while (m.n != 0)
		op_free();
	settle();
	node_set_gone_home(&m.set);
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 20261130;
	unsigned rounds = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 0) : (unsigned)rounds_scaled(20000);
	printf("seed %" PRIu64 "\n", seed);
	run(seed, rounds, NULL);
	run(seed + 1, rounds, node_distances);
	return 0;
}
