/*
 * The bitmap origin against a slow and simple account of every frame: set, looked, reported.
 *
 *     model-bitmap_origin [SEED]     repeats a run; the seed is printed
 * PAGEHINT_TEST_ROUNDS_PCT scales the number of operations.
 */
#include <stdio.h>
#include <time.h>

#include "support/embedder.h"
#include "support/rounds.h"

#define SPAN (2 * SECTION)
#define FRAMES 4096u /* those that are used lie around the border of two sections */
#define BASE (SECTION - 2048)

static uint64_t seed, random_state;
static unsigned long rounds = 4000;

struct account {
	struct embedder *e;
	unsigned char set[FRAMES], looked[FRAMES], reported[FRAMES];
	uint64_t handed_out;
};

static uint64_t draw(uint64_t below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (random_state >> 11) % below;
}

/* Turns a random piece of memory over: what is free is handed out, or what is in use is freed. */
static void embedder_works(struct account *a)
{
	uint64_t first = draw(FRAMES), n = 1 + draw(draw(8) ? 40 : 1500);
	int hand_out = draw(3) == 0;
	for (uint64_t i = first; i < first + n && i < FRAMES; i++) {
		if (a->e->frames[BASE + i] != (hand_out ? IS_FREE : IN_USE))
			continue;
		if (hand_out) {
			emb_alloc(a->e, BASE + i, 1);
			a->handed_out += a->reported[i];
			a->looked[i] = a->reported[i] = 0;
		} else {
			emb_free(a->e, BASE + i, 1);
		}
		a->set[i] = !hand_out;
	}
}

/* Is the block one that a harvest must take? */
static int ready(const struct account *a, uint64_t first, uint64_t block, uint32_t flags, int *ret_young)
{
	int set = 1, old = 1, reported = 1;
	for (uint64_t i = first; i < first + block; i++) {
		set &= a->set[i];
		old &= a->looked[i] | a->reported[i];
		reported &= a->reported[i];
	}
	int wanted = set && !reported;
	int take = wanted && (old || (flags & PAGEHINT_HARVEST_NOW));
	*ret_young = wanted && !take;
	return take;
}

static void reporter_looks(struct account *a)
{
	uint32_t order = (uint32_t)draw(12), flags = 0;
	flags |= draw(5) == 0 ? PAGEHINT_HARVEST_NOW : 0;
	flags |= draw(5) == 0 ? PAGEHINT_HARVEST_PEEK : 0;
	static unsigned char take[FRAMES];
	uint64_t block = UINT64_C(1) << order, frames = 0, young = 0;
	for (uint64_t at = 0; at < FRAMES; at += block) {
		int is_young, is_ready = ready(a, at, block, flags, &is_young);
		memset(take + at, is_ready, (size_t)block);
		frames += is_ready ? block : 0;
		young += is_young ? block : 0;
	}
	struct pagehint_harvest ask = emb_ask(a->e, order, flags);
	static struct pagehint_run runs[FRAMES];
	struct pagehint_harvested got;
	ask.max_runs = FRAMES;
	assert_int_equal(a->e->origin->ops.harvest(a->e->origin->ctx, &ask, runs, &got), 0);
	assert_int_equal(got.frames, frames);
	assert_int_equal(got.young, young);
	int taken = !(flags & PAGEHINT_HARVEST_PEEK);
	uint64_t listed = 0;
	for (uint32_t r = 0; r < got.runs; r++)
		for (uint64_t i = runs[r].frame - BASE; i < runs[r].frame - BASE + runs[r].frames; i++, listed++)
			assert_int_equal(take[i], 1);
	assert_int_equal(listed, taken ? frames : 0);
	for (uint64_t i = 0; i < FRAMES; i++) {
		a->looked[i] = a->set[i];
		if (taken && take[i])
			a->set[i] = a->looked[i] = a->reported[i] = 0;
	}
	for (uint32_t r = 0; r < got.runs; r++) {
		uint32_t how = draw(4) == 0 ? PAGEHINT_RELEASE_KEPT : PAGEHINT_RELEASE_REPORTED;
		a->e->origin->ops.release(a->e->origin->ctx, &runs[r], how);
		for (uint64_t i = runs[r].frame - BASE; i < runs[r].frame - BASE + runs[r].frames; i++) {
			a->set[i] = 1;
			a->reported[i] = how == PAGEHINT_RELEASE_REPORTED;
		}
	}
}

static void check_counts(struct account *a)
{
	uint32_t order = (uint32_t)draw(13);
	uint64_t block = UINT64_C(1) << order, free = 0, reported = 0, below = 0;
	for (uint64_t at = 0; at < FRAMES; at += block) {
		uint64_t set = 0, unreported = 0;
		for (uint64_t i = at; i < at + block; i++) {
			set += a->set[i];
			unreported += a->set[i] && !a->reported[i];
		}
		free += set;
		reported += set - unreported;
		below += set == block ? 0 : unreported;
	}
	struct pagehint_origin_free sum = emb_count(a->e, order > 11 ? 11 : order);
	if (order > 11)
		return;
	assert_int_equal(sum.free, free);
	assert_int_equal(sum.reported, reported);
	assert_int_equal(sum.below, below);
	assert_int_equal(sum.handed_out, a->handed_out);
}

static void random_work_and_looks(void **state)
{
	(void)state;
	struct account *a = calloc(1, sizeof(*a));
	assert_non_null(a);
	a->e = emb_new(2, 2, 11, 0);
	for (unsigned long i = 0; i < rounds; i++) {
		if (draw(4) == 0)
			reporter_looks(a);
		else
			embedder_works(a);
		check_counts(a);
	}
	assert_true(a->e->isolated > 0 && a->e->refused == 0);
	assert_true(a->handed_out > 0 && a->e->reported > 0);
	emb_delete(a->e);
	free(a);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_work_and_looks),
	};
	rounds = rounds_scaled(rounds);
	seed = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)time(NULL);
	random_state = seed * 2 + 1;
	printf("seed %llu\n", (unsigned long long)seed);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
