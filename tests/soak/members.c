/*
 * members: the threads of the soak, and how all of them come to rest: workers first, then whom they may be waiting for.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

#include "soak.h"

#define PATIENCE_S 120 /* until one that does not come to rest is taken for stuck */

static struct soak_member members[SOAK_MEMBERS];
static uint32_t members_n;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static uint32_t resting[SOAK_SERVANT + 1], of_rank[SOAK_SERVANT + 1];
static _Atomic uint32_t halt;  /* ranks up to this rest; a worker is the lowest */
static _Atomic uint32_t ended; /* ranks up to this end */

struct soak_member *soak_member_add(const char *name, uint32_t rank, int (*turn)(void *, struct soak_member *),
				    void *ctx)
{
	if (members_n == SOAK_MEMBERS)
		return NULL;
	struct soak_member *m = &members[members_n++];
	*m = (struct soak_member) { .name = name, .rank = rank, .index = members_n, .turn = turn, .ctx = ctx };
	of_rank[rank]++;
	return m;
}

void soak_members_seed(uint64_t seed)
{
	for (uint32_t i = 0; i < members_n; i++)
		members[i].chance = (seed + i + 1) * UINT64_C(0x9e3779b97f4a7c15) | 1;
}

static void rest(const struct soak_member *m)
{
	pthread_mutex_lock(&lock);
	resting[m->rank]++;
	pthread_cond_broadcast(&changed);
	while (atomic_load(&halt) >= m->rank)
		pthread_cond_wait(&changed, &lock);
	resting[m->rank]--;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static void *live(void *arg)
{
	struct soak_member *m = arg;
	while (atomic_load(&ended) < m->rank) {
		if (atomic_load(&halt) >= m->rank)
			rest(m);
		else if (m->turn(m->ctx, m))
			atomic_fetch_add(&m->operations, 1);
		else
			sched_yield();
	}
	return NULL;
}

int soak_members_start(void)
{
	pthread_condattr_t monotonic;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	for (uint32_t i = 0; i < members_n; i++)
		if (pthread_create(&members[i].thread, NULL, live, &members[i]) != 0)
			return -EAGAIN;
	return 0;
}

/* Says who has done nothing since `before`. */
static void accuse(const uint64_t *before)
{
	for (uint32_t i = 0; i < members_n; i++)
		if (atomic_load(&members[i].operations) == before[i])
			(void)soak_bad("rest", "%s does not come to rest (perhaps it waits for ever)", members[i].name);
}

static int wait_for(uint32_t rank, uint32_t wanted, const uint64_t *before)
{
	struct timespec until;
	int r = 0;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += PATIENCE_S;
	pthread_mutex_lock(&lock);
	while (resting[rank] != wanted && r == 0)
		r = pthread_cond_timedwait(&changed, &lock, &until);
	pthread_mutex_unlock(&lock);
	if (r != 0)
		accuse(before);
	return r == 0 ? 0 : -1;
}

int soak_members_rest(void)
{
	uint64_t before[SOAK_MEMBERS];
	for (uint32_t i = 0; i < members_n; i++)
		before[i] = atomic_load(&members[i].operations);
	for (uint32_t rank = SOAK_WORKER; rank <= SOAK_SERVANT; rank++) {
		atomic_store(&halt, rank);
		if (wait_for(rank, of_rank[rank], before) < 0)
			return -1;
	}
	return 0;
}

void soak_members_go_on(void)
{
	pthread_mutex_lock(&lock);
	atomic_store(&halt, 0);
	pthread_cond_broadcast(&changed);
	/* nobody is taken for resting that has not yet woken up */
	while (resting[SOAK_WORKER] + resting[SOAK_SERVANT] != 0)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

void soak_members_end(void)
{
	for (uint32_t rank = SOAK_WORKER; rank <= SOAK_SERVANT; rank++) {
		atomic_store(&ended, rank);
		for (uint32_t i = 0; i < members_n; i++)
			if (members[i].rank == rank)
				pthread_join(members[i].thread, NULL);
	}
}

uint64_t soak_members_operations(void)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < members_n; i++)
		sum += atomic_load(&members[i].operations);
	return sum;
}

uint64_t soak_members_least(void)
{
	uint64_t least = UINT64_MAX;
	for (uint32_t i = 0; i < members_n; i++) {
		uint64_t n = atomic_load(&members[i].operations);
		least = n < least ? n : least;
	}
	return least;
}
