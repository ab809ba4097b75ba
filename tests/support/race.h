/*
 * race: threads that own, write and give back frames of memory that is paged in, while a reporter discards what is free.
 *
 * Who owns a frame (zone) knows what it may hold: the snapshot's word, or what its last owner wrote, or zero when the
 * reporter had it since; and zero it must be when the backend said that it was freed. Passers-by own nothing and touch
 * anything: whatever they see belongs to that frame. Each word of a frame is looked at. All counts, no times.
 */
#ifndef TESTS_SUPPORT_RACE_H
#define TESTS_SUPPORT_RACE_H

#include <sched.h>

#include "support/rounds.h"
#include "support/served.h"

#include <pagehint/backend.h>
#include <pagehint/origin.h>
#include <pagehint/reporter.h>
#include <pagehint/zone.h>

#define RACE_FRAMES 1024u
#define RACE_OWNERS 2u
#define RACE_HELD 160u

struct race {
	uint64_t *memory;
	struct pagehint_zone *zone;
	struct pagehint_origin *origin;
	struct pagehint_reporter *reporter;
	struct pagehint_backend *backend;
	uint64_t last[RACE_FRAMES];          /* the owner's: what it holds unless it was discarded */
	_Atomic uint32_t gone[RACE_FRAMES];  /* 1: freed by the backend since, so zero */
	_Atomic uint32_t maybe[RACE_FRAMES]; /* 1: it was asked to, and kept some: either */
	_Atomic uint64_t wrong;
	_Atomic uint64_t looks;
	_Atomic uint64_t freed; /* frames */
	_Atomic uint64_t kept;
	_Atomic uint32_t owners_left;
	uint64_t operations; /* of an owner */
};

static inline uint64_t race_rnd(uint64_t *seed, uint64_t n)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return (*seed >> 11) % n;
}

/* A word that an owner writes: odd words are the snapshot's, so this one is even, and it names its frame. */
static inline uint64_t race_word(uint64_t frame, uint64_t n)
{
	return (n << 20 | frame << 1) + 2;
}

static inline uint64_t race_read(const struct race *r, uint64_t frame, uint64_t k)
{
	return __atomic_load_n(&r->memory[frame * 512 + k], __ATOMIC_RELAXED);
}

/* What the backend says of a run, while nobody but the reporter has it. */
static inline void race_after(void *ctx, const struct pagehint_run *run, const struct pagehint_outcome *o)
{
	struct race *r = ctx;
	int all = o->freed + o->absent + o->accepted == o->asked;
	for (uint64_t f = run->frame; f < run->frame + run->frames; f++)
		atomic_store(all ? &r->gone[f] : &r->maybe[f], 1);
	atomic_fetch_add(all ? &r->freed : &r->kept, run->frames);
}

/* Whole, and what it may be. */
static inline int race_is_right(struct race *r, uint64_t frame)
{
	uint64_t seen = race_read(r, frame, 0);
	int zero_ok = atomic_load(&r->gone[frame]) || atomic_load(&r->maybe[frame]);
	int old_ok = !atomic_load(&r->gone[frame]);
	atomic_fetch_add(&r->looks, 1);
	for (uint64_t k = 1; k < 512; k++)
		if (race_read(r, frame, k) != seen)
			return 0;
	return (zero_ok && seen == 0) || (old_ok && seen == r->last[frame]);
}

static inline void race_own(struct race *r, uint64_t frame, uint64_t n)
{
	if (!race_is_right(r, frame)) {
		if (atomic_fetch_add(&r->wrong, 1) < 4)
			printf("frame %u: %lx, last %lx, gone %u, maybe %u\n", (unsigned)frame,
			       (unsigned long)race_read(r, frame, 0), (unsigned long)r->last[frame],
			       atomic_load(&r->gone[frame]), atomic_load(&r->maybe[frame]));
	}
	uint64_t word = race_word(frame, n);
	for (uint64_t k = 0; k < 512; k++)
		__atomic_store_n(&r->memory[frame * 512 + k], word, __ATOMIC_RELAXED);
	r->last[frame] = word;
	atomic_store(&r->gone[frame], 0);
	atomic_store(&r->maybe[frame], 0);
}

struct race_thread {
	struct race *race;
	uint64_t seed;
	pthread_t id;
};

static inline void *race_owner(void *arg)
{
	struct race_thread *t = arg;
	struct race *r = t->race;
	uint64_t held[RACE_HELD], n = 0;
	for (uint64_t i = 0; i < r->operations; i++) {
		uint64_t frame;
		if (n < RACE_HELD && race_rnd(&t->seed, 5) < 3) {
			if (pagehint_zone_alloc(r->zone, 0, &frame) != 0)
				continue;
			race_own(r, frame, i + 1);
			held[n++] = frame;
		} else if (n > 0) {
			uint64_t at = race_rnd(&t->seed, n);
			/* still as it was written: nobody discards what is owned */
			if (race_read(r, held[at], race_rnd(&t->seed, 512)) != r->last[held[at]])
				atomic_fetch_add(&r->wrong, 1);
			if (pagehint_zone_free(r->zone, held[at], 0) != 0)
				atomic_fetch_add(&r->wrong, 1);
			held[at] = held[--n];
		}
	}
	while (n > 0)
		if (pagehint_zone_free(r->zone, held[--n], 0) != 0)
			atomic_fetch_add(&r->wrong, 1);
	atomic_fetch_sub(&r->owners_left, 1);
	return NULL;
}

/* Touches anything, also what is being discarded or is on its way in. */
static inline void *race_passer_by(void *arg)
{
	struct race_thread *t = arg;
	struct race *r = t->race;
	while (atomic_load(&r->owners_left) > 0) {
		uint64_t frame = race_rnd(&t->seed, RACE_FRAMES), word = race_read(r, frame, race_rnd(&t->seed, 512));
		atomic_fetch_add(&r->looks, 1);
		if (word != 0 && word != snapshot_word(frame) && ((word - 2) & 0xfffff) >> 1 != frame)
			atomic_fetch_add(&r->wrong, 1);
		if (race_rnd(&t->seed, 8) == 0)
			sched_yield();
	}
	return NULL;
}

static inline void *race_reporter(void *arg)
{
	struct race_thread *t = arg;
	struct race *r = t->race;
	uint64_t now = 1, deadline;
	if (pagehint_reporter_pressure(r->reporter, PAGEHINT_PRESSURE_FULL, 0) != 0)
		atomic_fetch_add(&r->wrong, 1);
	while (atomic_load(&r->owners_left) > 0) {
		if (pagehint_reporter_step(r->reporter, now, 64 * PAGE, &deadline) != 0)
			atomic_fetch_add(&r->wrong, 1);
		now = deadline != UINT64_MAX && deadline > now ? deadline : now + 1000000;
		sched_yield();
	}
	while (pagehint_reporter_stop(r->reporter, now, &deadline) == -EAGAIN)
		now++;
	return NULL;
}

/* All frames are free, and hold what the snapshot says. The backend gets race_after as its hook from the caller. */
static inline void race_open(struct race *r, void *memory, struct pagehint_backend *backend, uint64_t operations)
{
	struct pagehint_zone_opts zone = { .struct_size = sizeof(zone),
					   .flags = PAGEHINT_ZONE_LADDER | PAGEHINT_ZONE_STALE,
					   .granule_order = 6 };
	r->memory = memory;
	r->backend = backend;
	r->operations = operations;
	assert_int_equal(pagehint_zone_new(&zone, &r->zone), 0);
	assert_int_equal(pagehint_zone_add(r->zone, 0, RACE_FRAMES), 0);
	assert_int_equal(pagehint_zone_origin_new(r->zone, &r->origin), 0);
	assert_int_equal(pagehint_reporter_new(r->origin, backend, NULL, &r->reporter), 0);
	for (uint64_t i = 0; i < RACE_FRAMES; i++)
		r->last[i] = snapshot_word(i);
	atomic_store(&r->owners_left, RACE_OWNERS);
}

/* Owners, passers-by and the reporter, until the owners have done their operations. */
static inline void race_run(struct race *r, uint64_t seed)
{
	struct race_thread owners[RACE_OWNERS], other[2], reporter = { r, seed, 0 };
	for (uint32_t i = 0; i < RACE_OWNERS; i++) {
		owners[i] = (struct race_thread) { r, seed * 7 + i + 1, 0 };
		assert_int_equal(pthread_create(&owners[i].id, NULL, race_owner, &owners[i]), 0);
	}
	for (uint32_t i = 0; i < 2; i++) {
		other[i] = (struct race_thread) { r, seed * 11 + i + 1, 0 };
		assert_int_equal(pthread_create(&other[i].id, NULL, race_passer_by, &other[i]), 0);
	}
	assert_int_equal(pthread_create(&reporter.id, NULL, race_reporter, &reporter), 0);
	for (uint32_t i = 0; i < RACE_OWNERS; i++)
		assert_int_equal(pthread_join(owners[i].id, NULL), 0);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(pthread_join(other[i].id, NULL), 0);
	assert_int_equal(pthread_join(reporter.id, NULL), 0);
	/* at the end every frame once more, by one who owns them all */
	for (uint64_t i = 0; i < RACE_FRAMES; i++)
		if (!race_is_right(r, i))
			atomic_fetch_add(&r->wrong, 1);
}

static inline void race_close(struct race *r)
{
	assert_int_equal(pagehint_reporter_free(r->reporter), 0);
	pagehint_origin_free(r->origin);
	pagehint_zone_destroy(r->zone);
}

#endif
