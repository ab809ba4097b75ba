/*
 * The bitmap under threads: a bit goes to one owner, and a clear is undone by nobody who only tried to take.
 * Meant for TSan, too. PAGEHINT_TEST_ROUNDS_PCT scales the rounds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <pagehint/bitmap.h>
#include <pthread.h>
#include <stdatomic.h>

#include "support/rounds.h"

#define SECTION ((uint64_t)PAGEHINT_BITMAP_SECTION_BITS)
#define BASE (SECTION - 1024) /* the frames all threads fight for lie around a section border */
#define BITS 2048u
#define BLOCK 32u /* two blocks a word, so that neighbours meet in words */
#define BLOCKS (BITS / BLOCK)
#define HOTPLUG (100 * SECTION)

enum { FREE, USED, ISOLATED };

struct arena {
	struct pagehint_bitmap *bitmap;
	_Atomic unsigned owner[BITS];   /* 0 = nobody */
	_Atomic unsigned unclear[BITS]; /* a clear said "was not set" */
	_Atomic unsigned block[BLOCKS]; /* as the embedder's allocator knows it */
	_Atomic uint64_t doubled;       /* a bit that two had */
	_Atomic uint64_t undone;        /* a bit that was set while in use */
	_Atomic uint64_t refused;       /* calls that failed though they must not */
	_Atomic uint64_t taken, cleared;
};

struct worker {
	struct arena *arena;
	unsigned id; /* from 1 */
	uint64_t random;
};

static unsigned long rounds = 30000;

static uint64_t draw(struct worker *w, uint64_t below)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return (w->random >> 11) % below;
}

static void own(struct worker *w, uint64_t bit)
{
	if (atomic_exchange(&w->arena->owner[bit - BASE], w->id) != 0)
		atomic_fetch_add(&w->arena->doubled, 1);
}

/* Gives bits back that only we have: nobody may have set them meanwhile. */
static void disown(struct worker *w, uint64_t first, uint64_t n)
{
	uint64_t was = 0;
	for (uint64_t bit = first; bit < first + n; bit++)
		if (atomic_exchange(&w->arena->owner[bit - BASE], 0) != w->id)
			atomic_fetch_add(&w->arena->doubled, 1);
	if (pagehint_bitmap_set(w->arena->bitmap, first, n, &was) != 0)
		atomic_fetch_add(&w->arena->refused, 1);
	atomic_fetch_add(&w->arena->doubled, was);
}

static void *owning_taker(void *arg)
{
	struct worker *w = arg;
	struct pagehint_run run;
	for (unsigned long i = 0; i < rounds; i++) {
		uint64_t from = BASE + draw(w, BITS), least = 1 + draw(w, 200), align = draw(w, 2) ? 1 : 8;
		if (pagehint_bitmap_take_run(w->arena->bitmap, from, BASE + BITS, least, least + draw(w, 100), align,
					     &run) != 0)
			continue;
		atomic_fetch_add(&w->arena->taken, run.frames);
		for (uint64_t bit = run.frame; bit < run.frame + run.frames; bit++)
			own(w, bit);
		disown(w, run.frame, run.frames);
	}
	return NULL;
}

static void *owning_clearer(void *arg)
{
	struct worker *w = arg;
	for (unsigned long i = 0; i < rounds * 4; i++) {
		uint64_t bit = BASE + draw(w, BITS), was = 0;
		if (pagehint_bitmap_clear(w->arena->bitmap, bit, 1, &was) != 0)
			atomic_fetch_add(&w->arena->refused, 1);
		if (was == 0) {
			atomic_store(&w->arena->unclear[bit - BASE], 1);
			continue;
		}
		atomic_fetch_add(&w->arena->cleared, 1);
		own(w, bit);
		disown(w, bit, 1);
	}
	return NULL;
}

static struct arena *make_arena(void)
{
	struct arena *arena = calloc(1, sizeof(*arena));
	struct pagehint_bitmap_opts opts = { .struct_size = sizeof(opts), .span = SECTION << 20, .max_sections = 4 };
	assert_non_null(arena);
	assert_int_equal(pagehint_bitmap_new(&opts, &arena->bitmap), 0);
	assert_int_equal(pagehint_bitmap_add(arena->bitmap, BASE, BITS), 0);
	assert_int_equal(pagehint_bitmap_set(arena->bitmap, BASE, BITS, NULL), 0);
	return arena;
}

static void free_arena(struct arena *arena)
{
	pagehint_bitmap_free(arena->bitmap);
	free(arena);
}

static void run_threads(struct arena *arena, void *(*const *work)(void *), unsigned n)
{
	pthread_t threads[8];
	struct worker workers[8];
	for (unsigned i = 0; i < n; i++) {
		workers[i] = (struct worker) { .arena = arena, .id = i + 1, .random = 0x9e3779b97f4a7c15u * (i + 1) };
		assert_int_equal(pthread_create(&threads[i], NULL, work[i], &workers[i]), 0);
	}
	for (unsigned i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(atomic_load(&arena->refused), 0);
	assert_int_equal(atomic_load(&arena->doubled), 0);
	assert_int_equal(atomic_load(&arena->undone), 0);
}

/* How many bits are set, one by one; must be what the counter says now that all is at rest. */
static uint64_t count_at_rest(const struct arena *arena)
{
	uint64_t set = 0;
	for (uint64_t bit = 0; bit < 2 * SECTION; bit++)
		set += (uint64_t)(pagehint_bitmap_test(arena->bitmap, bit) == 1);
	assert_int_equal(pagehint_bitmap_count(arena->bitmap), set);
	return set;
}

static void each_bit_has_one_owner(void **state)
{
	(void)state;
	static void *(*const work[])(void *) = { owning_taker, owning_taker, owning_clearer, owning_clearer };
	struct arena *arena = make_arena();
	run_threads(arena, work, 4);
	uint64_t lost = 0;
	for (uint64_t i = 0; i < BITS; i++)
		if (pagehint_bitmap_test(arena->bitmap, BASE + i) == 0) {
			lost++;
			assert_int_equal(atomic_load(&arena->unclear[i]),
					 1); /* cleared under a taker that then gave up */
		}
	assert_int_equal(count_at_rest(arena), BITS - lost);
	assert_true(atomic_load(&arena->taken) > BITS); /* all of this really happened */
	assert_true(atomic_load(&arena->cleared) > BITS);
	free_arena(arena);
}

static void only_takers_lose_nothing(void **state)
{
	(void)state;
	static void *(*const work[])(void *) = { owning_taker, owning_taker, owning_taker };
	struct arena *arena = make_arena();
	run_threads(arena, work, 3);
	assert_int_equal(count_at_rest(arena), BITS);
	free_arena(arena);
}

/* An allocator that marks: a block in use must read clear from the clear to the set, whatever takers try meanwhile. */
static void *embedder(void *arg)
{
	struct worker *w = arg;
	for (unsigned long i = 0; i < rounds * 2; i++) {
		uint64_t b = draw(w, BLOCKS), first = BASE + b * BLOCK;
		unsigned expected = FREE;
		if (!atomic_compare_exchange_strong(&w->arena->block[b], &expected, USED))
			continue;
		if (pagehint_bitmap_clear(w->arena->bitmap, first, BLOCK, NULL) != 0)
			atomic_fetch_add(&w->arena->refused, 1);
		for (uint64_t look = 0; look < 2 * BLOCK; look++)
			if (pagehint_bitmap_test(w->arena->bitmap, first + look % BLOCK) != 0)
				atomic_fetch_add(&w->arena->undone, 1);
		if (pagehint_bitmap_set(w->arena->bitmap, first, BLOCK, NULL) != 0)
			atomic_fetch_add(&w->arena->refused, 1);
		atomic_store(&w->arena->block[b], FREE);
		atomic_fetch_add(&w->arena->cleared, 1);
	}
	return NULL;
}

/* One thread adds and removes a section that nobody else works on, and finds it empty each time. */
static void *hotplugger(void *arg)
{
	struct worker *w = arg;
	struct pagehint_run run;
	for (unsigned long i = 0; i < rounds / 10; i++) {
		uint64_t first = HOTPLUG + draw(w, 1000) * SECTION;
		if (pagehint_bitmap_add(w->arena->bitmap, first, SECTION) != 0 ||
		    pagehint_bitmap_next_run(w->arena->bitmap, first, first + SECTION, &run) != -ENOENT ||
		    pagehint_bitmap_set(w->arena->bitmap, first + 5, 100, NULL) != 0 ||
		    pagehint_bitmap_remove(w->arena->bitmap, first, SECTION) != 0)
			atomic_fetch_add(&w->arena->refused, 1);
	}
	return NULL;
}

/*
 * A block that is not free is dropped: it was handed out after the take, or even freed and taken by another since. That two
 * have the same bits at once is looked for in each_bit_has_one_owner; here the allocator is the judge, as in an origin.
 */
static void isolate_and_return(struct worker *w, uint64_t b)
{
	unsigned found = FREE;
	if (!atomic_compare_exchange_strong(&w->arena->block[b], &found, ISOLATED))
		return;
	atomic_fetch_add(&w->arena->taken, 1);
	if (pagehint_bitmap_set(w->arena->bitmap, BASE + b * BLOCK, BLOCK, NULL) != 0)
		atomic_fetch_add(&w->arena->refused, 1);
	atomic_store(&w->arena->block[b], FREE);
}

static void *isolating_taker(void *arg)
{
	struct worker *w = arg;
	struct pagehint_run run;
	for (unsigned long i = 0; i < rounds; i++) {
		uint64_t from = BASE + draw(w, BITS), least = BLOCK * (1 + draw(w, 12));
		if (pagehint_bitmap_take_run(w->arena->bitmap, from, BASE + BITS, least, 16 * BLOCK, BLOCK, &run) != 0)
			continue;
		for (uint64_t at = run.frame; at < run.frame + run.frames; at += BLOCK)
			isolate_and_return(w, (at - BASE) / BLOCK);
	}
	return NULL;
}

static void no_clear_is_undone(void **state)
{
	(void)state;
	static void *(*const work[])(void *) = { isolating_taker, isolating_taker, embedder, embedder, hotplugger };
	struct arena *arena = make_arena();
	run_threads(arena, work, 5);
	uint64_t set = count_at_rest(arena);
	assert_true(set <= BITS);
	assert_true(atomic_load(&arena->taken) > BLOCKS);
	assert_true(atomic_load(&arena->cleared) > BLOCKS);
	free_arena(arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_bit_has_one_owner),
		cmocka_unit_test(only_takers_lose_nothing),
		cmocka_unit_test(no_clear_is_undone),
	};
	rounds = rounds_scaled(rounds);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
