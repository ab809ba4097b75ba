/*
 * zone_crowd.h: threads on one zone, and who has which frame: a frame that two have at once is counted, whoever they are.
 * PAGEHINT_TEST_ROUNDS_PCT scales the rounds.
 */
#ifndef TEST_SUPPORT_ZONE_CROWD_H
#define TEST_SUPPORT_ZONE_CROWD_H

#include "support/rounds.h"
#include "support/zone_rest.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct crowd {
	struct pagehint_zone *zone;
	_Atomic uint8_t *owner;   /* one a frame; 0 = nobody */
	void *memory;             /* where they lie */
	_Atomic uint64_t doubled; /* a frame that two had */
	_Atomic uint64_t refused; /* calls that failed though they must not, or worked though they must not */
	_Atomic uint64_t again;   /* -EAGAIN */
	_Atomic uint64_t done;    /* threads that are through */
	unsigned long rounds;
};

struct member {
	struct crowd *crowd;
	uint8_t id; /* from 1 */
	uint64_t random;
};

static inline uint64_t draw(struct member *m, uint64_t below)
{
	m->random ^= m->random << 13;
	m->random ^= m->random >> 7;
	m->random ^= m->random << 17;
	return (m->random >> 11) % below;
}

static inline void must(struct member *m, int true_)
{
	if (!true_)
		atomic_fetch_add(&m->crowd->refused, 1);
}

static inline void own(struct member *m, uint64_t frame, uint64_t frames)
{
	for (uint64_t f = frame; f < frame + frames; f++)
		if (atomic_exchange(&m->crowd->owner[f], m->id) != 0)
			atomic_fetch_add(&m->crowd->doubled, 1);
}

/* before they are given back */
static inline void disown(struct member *m, uint64_t frame, uint64_t frames)
{
	for (uint64_t f = frame; f < frame + frames; f++)
		if (atomic_exchange(&m->crowd->owner[f], 0) == 0)
			atomic_fetch_add(&m->crowd->doubled, 1);
}

static inline void crowd_gather(struct crowd *crowd, struct pagehint_zone *zone, uint64_t frames, unsigned long rounds)
{
	memset(crowd, 0, sizeof(*crowd));
	crowd->zone = zone;
	crowd->memory = calloc((size_t)frames, 1);
	crowd->owner = crowd->memory;
	crowd->rounds = rounds_scaled(rounds);
	assert_non_null(crowd->owner);
}

/* Runs bodies[i](member i) on n threads to the end; id i + 1. */
static inline void crowd_run(struct crowd *crowd, void *(*const *bodies)(void *), unsigned n, uint64_t seed)
{
	pthread_t threads[16];
	struct member members[16];
	assert_true(n <= 16);
	for (unsigned i = 0; i < n; i++) {
		members[i] = (struct member) { crowd, (uint8_t)(i + 1), (seed + i) * 2654435761u + 88172645463325252u };
		assert_int_equal(pthread_create(&threads[i], NULL, bodies[i], &members[i]), 0);
	}
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(atomic_load(&crowd->doubled), 0);
	assert_int_equal(atomic_load(&crowd->refused), 0);
}

static inline void crowd_leave(struct crowd *crowd)
{
	free(crowd->memory);
	crowd->memory = NULL;
}

#endif
