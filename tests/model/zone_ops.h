/*
 * zone_ops: what is done to a zone, one operation after the other, each beside its oracle; `rnd` of chance.h chooses. For zone_test.c,
 * where it is a seed, and for the fuzzer, where it is the input.
 */
#ifndef TESTS_MODEL_ZONE_OPS_H
#define TESTS_MODEL_ZONE_OPS_H

#include <errno.h>

#include "model/zone_oracle.h"

static uint32_t random_order(void)
{
	uint32_t o = (uint32_t)__builtin_ctzll(rnd(UINT64_C(1) << 40) | UINT64_C(1) << 13);
	return rnd(200) == 0 ? PAGEHINT_ORDER_MAX : o;
}

/* Is there a free aligned block? Slow and simple. */
static int has_block(uint32_t order)
{
	uint64_t size = UINT64_C(1) << order;
	for (uint64_t at = FIRST / size * size; at + size <= FRAMES; at += size) {
		uint64_t i = 0;
		while (i < size && m.state[at + i] == FREE)
			i++;
		if (i == size)
			return 1;
	}
	return 0;
}

static void check_refusal(int r, uint32_t order)
{
	REQUIRE(r == -ENOSPC || r == -EAGAIN);
	if (r == -ENOSPC)
		REQUIRE(!has_block(order) && pagehint_zone_hidden(m.zone) == 0);
	else
		REQUIRE(pagehint_zone_hidden(m.zone) != 0);
}

static void op_alloc(void)
{
	uint32_t order = random_order(), c = (uint32_t)rnd(CACHES + 1);
	uint64_t frame = UINT64_MAX;
	if (m.n_blocks + 64 > MAX_BLOCKS)
		return;
	int r = c == CACHES ? pagehint_zone_alloc(m.zone, order, &frame)
			    : pagehint_cache_alloc(m.cache[c], order, &frame);
	if (c < CACHES && m.parked[c]) {
		REQUIRE(r == -EBUSY);
		return;
	}
	if (r < 0) {
		REQUIRE(frame == UINT64_MAX);
		check_refusal(r, order);
		return;
	}
	REQUIRE(frame % (UINT64_C(1) << order) == 0);
	remember(frame, UINT64_C(1) << order, order);
}

static void op_batch(void)
{
	uint64_t frames[64];
	uint32_t n = 0, want = (uint32_t)rnd(64) + 1, order = (uint32_t)rnd(8);
	if (m.n_blocks + 64 > MAX_BLOCKS)
		return;
	int r = pagehint_zone_alloc_batch(m.zone, order, want, frames, &n);
	REQUIRE(r == 0 ? n == want : n < want);
	for (uint32_t i = 0; i < n; i++)
		change(frames[i], UINT64_C(1) << order, FREE, OUT);
	if (r < 0)
		check_refusal(r, order);
	if (rnd(2) && n != 0) {
		uint32_t done = 0;
		REQUIRE(pagehint_zone_free_batch(m.zone, order, n, frames, &done) == 0 && done == n);
		for (uint32_t i = 0; i < n; i++)
			change(frames[i], UINT64_C(1) << order, OUT, FREE);
		if (m.flags & PAGEHINT_ZONE_UNTRACKED)
			return;
		REQUIRE(pagehint_zone_free_batch(m.zone, order, n, frames, &done) < 0 && done == 0);
		return;
	}
	for (uint32_t i = 0; i < n; i++)
		m.blocks[m.n_blocks++] = (struct block) { frames[i], UINT64_C(1) << order, order };
}

static void op_runs(void)
{
	struct pagehint_run runs[16];
	uint32_t n = 0;
	uint64_t want = rnd(3000) + 1, sum = 0;
	if (m.n_blocks + 64 > MAX_BLOCKS)
		return;
	int r = pagehint_zone_alloc_runs(m.zone, want, runs, 16, &n);
	if (r < 0) {
		REQUIRE(n == 0 && (r == -ENOSPC || r == -EAGAIN));
		return;
	}
	for (uint32_t i = 0; i < n; i++) {
		sum += runs[i].frames;
		remember(runs[i].frame, runs[i].frames, 99);
	}
	REQUIRE(sum == want);
}

static void op_contig(void)
{
	uint64_t frames = rnd(5000) + 1, align = UINT64_C(1) << rnd(11), frame;
	if (m.n_blocks + 64 > MAX_BLOCKS)
		return;
	if (rnd(10) == 0)
		frames += PAGEHINT_SECTION_FRAMES;
	if (pagehint_zone_alloc_contig(m.zone, frames, align, &frame) < 0)
		return;
	REQUIRE(frame % align == 0);
	remember(frame, frames, 99);
}

static void op_free(void)
{
	if (m.n_blocks == 0)
		return;
	struct block b = forget((uint32_t)rnd(m.n_blocks));
	uint32_t c = (uint32_t)rnd(CACHES + 1);
	if (b.order > PAGEHINT_ORDER_MAX || rnd(8) == 0) {
		struct pagehint_run run = { b.frame, b.frames };
		uint64_t keep = rnd(2) ? rnd(b.frames) : 0;
		if (keep != 0) { /* free the front, keep the rest */
			run.frames -= keep;
			remember(b.frame + run.frames, keep, 99);
		}
		REQUIRE(pagehint_zone_free_runs(m.zone, &run, 1, NULL) == 0);
	} else if (c < CACHES && !m.parked[c]) {
		REQUIRE(pagehint_cache_free(m.cache[c], b.frame, b.order) == 0);
	} else {
		REQUIRE(pagehint_zone_free(m.zone, b.frame, b.order) == 0);
	}
}

static void op_bad_free(void)
{
	uint64_t frame = FIRST + rnd(FRAMES - FIRST);
	uint32_t order = (uint32_t)rnd(12), out = 0;
	frame &= ~((UINT64_C(1) << order) - 1);
	for (uint64_t i = frame; i < frame + (UINT64_C(1) << order); i++)
		out += m.state[i] == OUT;
	if (m.flags & PAGEHINT_ZONE_UNTRACKED || out == 1u << order)
		return; /* may be a legal free */
	struct pagehint_run run = { frame, UINT64_C(1) << order };
	int r = rnd(2) ? pagehint_zone_free(m.zone, frame, order) : pagehint_zone_free_runs(m.zone, &run, 1, NULL);
	REQUIRE(r == -EALREADY || r == -ERANGE || r == -EINVAL);
}

static void op_reserve_or_plug(void)
{
	uint64_t frame = FIRST + rnd((FRAMES - FIRST) / 64) * 64, frames = (rnd(rnd(4) ? 40 : 4200) + 1) * 64,
		 n[4] = { 0 }, busy = 0;
	if (frames > FRAMES - frame)
		frames = FRAMES - frame;
	for (uint64_t i = frame; i < frame + frames; i++)
		n[m.state[i]]++;
	int r;
	switch (rnd(3)) {
	case 0:
		r = pagehint_zone_add(m.zone, frame, frames);
		REQUIRE(r == (n[ABSENT] == frames ? 0 : -EEXIST));
		if (r == 0) {
			change(frame, frames, ABSENT, FREE);
			memset(m.clean + frame, 0, frames); /* of a granule that comes in part nothing is remembered */
		}
		break;
	case 1:
		r = pagehint_zone_remove(m.zone, frame, frames, &busy);
		REQUIRE(n[ABSENT] != 0 ? r == -ERANGE : n[FREE] != frames ? r == -EBUSY : r == 0 || r == -EBUSY);
		if (r == -EBUSY)
			REQUIRE(busy >= n[OUT] + n[ISOLATED] && busy >= 1);
		if (r == 0)
			change(frame, frames, FREE, ABSENT);
		break;
	default:
		if (m.n_blocks + 64 > MAX_BLOCKS)
			return;
		frame += rnd(64);
		frames = rnd(300) + 1;
		if (frame + frames > FRAMES)
			return;
		r = pagehint_zone_reserve(m.zone, frame, frames, &busy);
		if (r == 0)
			remember(frame, frames, 99);
	}
}

static void op_cache(void)
{
	uint32_t c = (uint32_t)rnd(CACHES);
	switch (rnd(4)) {
	case 0:
		REQUIRE(pagehint_cache_park(m.cache[c]) == (m.parked[c] ? -EALREADY : 0));
		m.parked[c] = 1;
		break;
	case 1:
		REQUIRE(pagehint_cache_unpark(m.cache[c]) == (m.parked[c] ? 0 : -EALREADY));
		m.parked[c] = 0;
		break;
	case 2:
		pagehint_cache_drain(m.cache[c]);
		break;
	default:
		pagehint_cache_close(m.cache[c]);
		REQUIRE(pagehint_cache_open(m.zone, &m.cache[c]) == 0);
		m.parked[c] = 0;
	}
}

static void settle(void)
{
	struct pagehint_sink sink = { NULL, line };
	struct pagehint_zone_stats s = { .struct_size = sizeof(s) };
	uint64_t blocks[PAGEHINT_ORDER_MAX + 1], sum = 0;
	REQUIRE(pagehint_zone_check(m.zone, &sink) == 0);
	REQUIRE(pagehint_zone_stats(m.zone, &s) == 0);
	REQUIRE(s.free + s.cached == count(FREE));
	REQUIRE(s.out == count(OUT));
	REQUIRE(s.isolated + s.in_flight == count(ISOLATED));
	REQUIRE(s.transit == 0 && s.total == FRAMES - FIRST - count(ABSENT));
	pagehint_zone_free_orders(m.zone, blocks);
	for (uint32_t o = 0; o <= PAGEHINT_ORDER_MAX; o++)
		sum += blocks[o] << o;
	REQUIRE(sum == s.free);
}

static void check_granules(void)
{
	uint32_t g = (uint32_t)m.granule, n = FRAMES >> g;
	uint64_t *whole = calloc(n / 64 + 1, 8), size = UINT64_C(1) << g;
	for (uint32_t c = 0; c < CACHES; c++)
		if (!m.parked[c])
			pagehint_cache_drain(m.cache[c]);
		else {
			REQUIRE(pagehint_cache_unpark(m.cache[c]) == 0);
			m.parked[c] = 0;
			pagehint_cache_drain(m.cache[c]);
		}
	REQUIRE(whole != NULL && pagehint_zone_granules(m.zone, PAGEHINT_GRANULES_WHOLE, 0, n, whole, n / 64 + 1) == 0);
	for (uint32_t i = (uint32_t)(FIRST >> g); i < n; i++) {
		uint64_t k = 0;
		while (k < size && m.state[i * size + k] == FREE)
			k++;
		REQUIRE((whole[i / 64] >> (i % 64) & 1) == (k == size));
	}
	free(whole);
}

/* A zone of SECTIONS sections, all of them free, and the oracle of it. */
static void zone_open(uint32_t flags, uint32_t granule)
{
	struct pagehint_zone_opts opts = {
		.struct_size = sizeof(opts), .max_sections = SECTIONS, .flags = flags, .granule_order = granule
	};
	m.flags = flags;
	m.granule = granule;
	REQUIRE(pagehint_zone_new(&opts, &m.zone) == 0);
	REQUIRE(pagehint_zone_add(m.zone, FIRST, FRAMES - FIRST) == 0);
	memset(m.state + FIRST, FREE, FRAMES - FIRST);
	memset(m.clean + FIRST, !(flags & PAGEHINT_ZONE_STALE), FRAMES - FIRST);
	for (uint32_t c = 0; c < CACHES; c++)
		REQUIRE(pagehint_cache_open(m.zone, &m.cache[c]) == 0);
}

/* `what` of 100; a zone that is to fill allocates more than it frees */
static void zone_op(uint64_t what, int filling)
{
	if (what < (filling ? 55u : 25u))
		op_alloc();
	else if (what < 80)
		op_free();
	else if (what < 83)
		op_batch();
	else if (what < 86)
		op_runs();
	else if (what < 88)
		op_contig();
	else if (what < 92)
		op_bad_free();
	else if (what < 94)
		op_reserve_or_plug();
	else if (what < 97)
		op_cache();
	else
		op_harvest();
}

/* Everything goes back, and the books are read once more. */
static void zone_close(void)
{
	while (m.n_isolated != 0)
		release_one();
	while (m.n_blocks != 0)
		op_free();
	for (uint32_t c = 0; c < CACHES; c++)
		pagehint_cache_close(m.cache[c]);
	settle();
	if (m.rereported != 0)
		printf("rereported %" PRIu64 "\n", m.rereported);
	REQUIRE(m.rereported == 0);
	pagehint_zone_destroy(m.zone);
}

#endif
