/*
 * Two threads free the same at once: exactly one of them wins. Two threads free parts of one block: both do, and nothing is
 * freed twice.
 */
#include "support/zone_crowd.h"

#define ROUNDS 4000u

enum { BLOCK_BLOCK, RUN_RUN, BLOCK_RUN, CACHE_BLOCK, BATCH_BLOCK, OVERLAP, PARTS, MODES };

static struct crowd crowd;
static pthread_barrier_t start, end;
static uint32_t mode, order;
static uint64_t frame, cut;
static int answers[2];
static struct pagehint_cache *cache;

static int free_run(uint64_t from, uint64_t frames)
{
	struct pagehint_run run = { from, frames };
	int r;
	do
		r = pagehint_zone_free_runs(crowd.zone, &run, 1, NULL);
	while (r == -EAGAIN);
	return r;
}

/* what thread `i` of the two does with the block */
static int attempt(unsigned i)
{
	uint64_t size = UINT64_C(1) << order;
	uint64_t twice[2] = { frame, frame };
	uint32_t done = 0;
	int first = i == 0;
	switch (mode) {
	case RUN_RUN:
		return free_run(frame, size);
	case BLOCK_RUN:
		return first ? free_run(frame, size) : pagehint_zone_free(crowd.zone, frame, order);
	case CACHE_BLOCK:
		return first ? pagehint_cache_free(cache, frame, order) : pagehint_zone_free(crowd.zone, frame, order);
	case BATCH_BLOCK:
		if (!first)
			return pagehint_zone_free(crowd.zone, frame, order);
		pagehint_zone_free_batch(crowd.zone, order, 2, twice, &done);
		return done == 1 ? 0 : done == 0 ? -EALREADY : -ERANGE; /* both would be wrong */
	case OVERLAP:                                                   /* the whole, and a part of it */
		return first ? free_run(frame, size) : free_run(frame + cut, size - cut);
	case PARTS:
		return first ? free_run(frame, cut) : free_run(frame + cut, size - cut);
	default:
		return pagehint_zone_free(crowd.zone, frame, order);
	}
}

static void *duel(void *arg)
{
	struct member *m = arg;
	unsigned self = m->id - 1u;
	for (unsigned long i = 0; i < crowd.rounds; i++) {
		pthread_barrier_wait(&start);
		answers[self] = attempt(self);
		pthread_barrier_wait(&end);
	}
	return NULL;
}

/* hands a block out, lets the two at it, and judges */
static void *judge(void *arg)
{
	struct member *m = arg;
	for (unsigned long i = 0; i < crowd.rounds; i++) {
		mode = (uint32_t)i % MODES;
		order = (uint32_t)draw(m, PAGEHINT_ORDER_MAX + 1);
		if (mode >= OVERLAP && (order == 0 || draw(m, 2)))
			order = 18; /* its out bit moves down three levels while the other looks */
		uint64_t size = UINT64_C(1) << order;
		must(m, pagehint_zone_alloc(crowd.zone, order, &frame) == 0);
		cut = draw(m, size - (size > 1)) + 1;
		cut = cut >= size ? 0 : cut;
		pthread_barrier_wait(&start);
		pthread_barrier_wait(&end);
		int won = (answers[0] == 0) + (answers[1] == 0);
		for (unsigned t = 0; t < 2; t++)
			must(m, answers[t] == 0 || answers[t] == -EALREADY || answers[t] == -EINVAL);
		must(m, won == (mode == PARTS ? 2 : 1));
		if (mode == OVERLAP && answers[0] != 0 && cut != 0)
			must(m, free_run(frame, cut) == 0); /* what the part left */
		pagehint_cache_drain(cache);
		struct pagehint_zone_stats s = { .struct_size = sizeof(s) };
		must(m, pagehint_zone_stats(crowd.zone, &s) == 0 && s.free == SECTION && s.out == 0);
	}
	return NULL;
}

static void test_one_of_two_wins(void **state)
{
	(void)state;
	const uint32_t kinds[] = { 0, PAGEHINT_ZONE_STRICT };
	void *(*const bodies[])(void *) = { duel, duel, judge };
	for (unsigned k = 0; k < 2; k++) {
		crowd_gather(&crowd, zone_full(1, kinds[k], 9), 1, ROUNDS);
		assert_int_equal(pagehint_cache_open(crowd.zone, &cache), 0);
		assert_int_equal(pthread_barrier_init(&start, NULL, 3), 0);
		assert_int_equal(pthread_barrier_init(&end, NULL, 3), 0);
		crowd_run(&crowd, bodies, 3, 7 + k);
		pthread_barrier_destroy(&start);
		pthread_barrier_destroy(&end);
		pagehint_cache_close(cache);
		crowd_leave(&crowd);
		zone_gone_home(crowd.zone);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_of_two_wins),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
