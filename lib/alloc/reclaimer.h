/*
 * reclaimer: the host's side of a shared zone; the inside of pagehint/reclaimer.h.
 *
 * reclaimer.c has the handle and what an embedder calls, round.c goes round the zone: what to take of a section, discarding it,
 * keeping it or putting it back. evict.h is the hand.
 * Owns: the private books (one mapping). Borrows: zone, backend. Called from: one thread.
 */
#ifndef PH_ALLOC_RECLAIMER_H
#define PH_ALLOC_RECLAIMER_H

#include <pagehint/reclaimer.h>

#include "alloc/evict.h"
#include "base/sys.h"

#define PH_ROUND_RUNS 256u /* that go to the backend at once */

/* What a round does with what it finds. */
enum {
	PH_ROUND_NOW = 0, /* discards what was used, puts it back */
	PH_ROUND_AGED, /* the same, but only what was free at the last look and not touched since; writes the look down */
	PH_ROUND_HOLD, /* takes whatever is free */
};

struct pagehint_reclaimer {
	struct ph_host host;
	const struct ph_sys *sys;
	struct pagehint_backend *backend;
	uint64_t bytes; /* of this mapping */
	uint64_t interval_ns;
	uint64_t max_away; /* granules */
	uint32_t flags;
	uint32_t max_sections;
	uint32_t cursor;   /* slot where the next round begins */
	uint32_t look_at;  /* slot where the look of step goes on */
	uint64_t look_due; /* when the next look begins [ns] */
	uint64_t target;   /* bytes */
	struct pagehint_reclaimer_stats stats;
	struct pagehint_run runs[PH_ROUND_RUNS];
	struct pagehint_outcome outcomes[PH_ROUND_RUNS];
};

/* pagehint_reclaimer_new with another operating system beneath */
int ph_reclaimer_new_with(const struct ph_sys *sys, struct pagehint_zone *zone, struct pagehint_backend *backend,
			  const struct pagehint_reclaimer_opts *opts, struct pagehint_reclaimer **ret_reclaimer);

/*
 * A slot: at most `most` granules. Returns 0, or the first error of the backend; *ret_done [granules]: discarded (or taken, for
 * PH_ROUND_HOLD).
 */
int ph_round_slot(struct pagehint_reclaimer *r, uint32_t slot, uint32_t how, uint64_t most, uint64_t *ret_done);

/* What is held by this host and was used is discarded again. */
int ph_round_again(struct pagehint_reclaimer *r);

static inline uint32_t ph_round_slots(const struct pagehint_zone *z)
{
	uint64_t used = atomic_load(&z->used_slots);
	return (uint32_t)(used < z->max_sections ? used : z->max_sections);
}

static inline uint64_t ph_granule_bytes(const struct pagehint_zone *z)
{
	return UINT64_C(1) << (z->granule_order + z->frame_shift);
}

#endif
