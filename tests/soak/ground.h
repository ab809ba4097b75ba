/*
 * ground: a zone over memory whose content is known, and the load on it: workers that allocate, write, look and free, through a
 * cache each and past it, single frames and blocks, adjacent ones and batches.
 */
#ifndef TESTS_SOAK_GROUND_H
#define TESTS_SOAK_GROUND_H

#include <pagehint/cache.h>
#include <pagehint/zone.h>

#include "content.h"
#include "soak.h"

#define GROUND_WORKERS 2u
#define GROUND_HELD 96u

struct ground_block {
	uint64_t frame;
	uint32_t order;
	uint32_t from_run; /* allocated as adjacent frames: freed as a run */
};

struct ground_worker {
	struct ground *ground;
	struct pagehint_cache *cache;
	struct ground_block held[GROUND_HELD];
	uint32_t n;
	uint64_t writes;
};

struct ground {
	const char *part;
	struct content content;
	struct pagehint_zone *zone;
	struct pagehint_zone_opts opts;
	uint64_t total;               /* frames that are in the zone now */
	_Atomic uint32_t leaving[16]; /* section of a slot: who has some of it gives it back */
	struct ground_worker workers[GROUND_WORKERS];
	uint32_t workers_n;
};

/* The content is open. The zone has its base frames. 0 or -errno. */
int ground_open(struct ground *g, const char *part, uint32_t flags, uint32_t granule_order);
/* Workers of this process. -errno. */
int ground_populate(struct ground *g, uint32_t workers);
int ground_turn(void *worker, struct soak_member *m);
/* Everybody rests: the zone's invariants, and that its figures are the content's. `elsewhere`: frames that others hold. */
void ground_walk(struct ground *g, int lazy, uint64_t elsewhere);
/* Everybody rests, or has ended: everything that workers hold goes back, and their caches are closed. */
void ground_go_home(struct ground *g);
/* After that: another zone, whose frames are all free. 0 or -errno. */
int ground_anew(struct ground *g);

#endif
