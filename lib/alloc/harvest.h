/*
 * harvest: looks at free memory, ages it, and takes what is ready out of the allocator's reach; what an origin does.
 *
 * One thread harvests and releases; allocations go on meanwhile. A look reads what was touched since the last one, so each
 * granule is judged at the cursor: whatever lies behind `next` keeps its age for the call that goes on there.
 * Invariant: frames taken here are in `isolated` (or `in_flight`) until released, and in no word of the tree.
 */
#ifndef PH_ALLOC_HARVEST_H
#define PH_ALLOC_HARVEST_H

#include <pagehint/origin.h>

#include "alloc/ops.h"

/* the ops of an origin, see pagehint/origin.h */
int ph_harvest_next_span(const struct pagehint_zone *z, uint64_t from, struct pagehint_run *ret_span);
int ph_harvest(struct pagehint_zone *z, const struct pagehint_harvest *ask, struct pagehint_run *runs,
	       struct pagehint_harvested *ret);
void ph_harvest_release(struct pagehint_zone *z, const struct pagehint_run *run, uint32_t how);
void ph_harvest_depart(struct pagehint_zone *z, uint64_t frames);
void ph_harvest_free(const struct pagehint_zone *z, uint32_t order, struct pagehint_origin_free *ret);

/* A harvest under way. */
struct ph_reap {
	struct pagehint_zone *z;
	const struct pagehint_harvest *ask;
	struct pagehint_run *runs;
	struct pagehint_harvested *ret;
	uint64_t base; /* first frame of the section that is looked at */
	uint32_t work;
};

/* Can one more run, or frames more, be taken that start at `frame`? */
int ph_reap_has_room(const struct ph_reap *reap, uint64_t frame, uint64_t frames);

/*
 * ph_level_claim for a place of the section that is looked at. Others may remove it meanwhile and give its slot to another
 * section: then nothing is claimed.
 */
int ph_reap_claim(const struct ph_reap *reap, const struct ph_place *p, uint64_t mask);

/* These frames were claimed: they are isolated now. */
void ph_reap_append(struct ph_reap *reap, uint64_t frame, uint64_t frames);

/* What may be taken of the granules of word i under `range`; *ret_whole: all that are whole and unreported, also the young. */
uint64_t ph_reap_candidates(const struct ph_reap *reap, uint32_t slot, uint32_t i, uint64_t range, uint64_t *ret_whole);

/*
 * A block was claimed: isolates it and returns 1, unless it was touched since we looked: then it was broken and merged again,
 * so it is young, and goes back.
 */
int ph_reap_keep(struct ph_reap *reap, uint32_t slot, uint32_t offset, uint32_t order);

/* Writes a look down for the granules of word i under `seen`; `taken` were isolated. */
void ph_reap_write_look(struct pagehint_zone *z, uint32_t slot, uint32_t i, uint64_t seen, uint64_t taken);

/*
 * coarse.c: blocks of ask->order above a word of granules. Returns 0 and *ret_next when there was no room, or more than `bound`
 * work.
 */
int ph_reap_coarse(struct ph_reap *reap, uint32_t slot, const struct ph_part *part, uint32_t bound, uint32_t *ret_next);

/*
 * fine.c: takes free runs of ask->order inside one granule of which some frames were handed out since their last discard.
 * `offset`, `frames`: the part of the granule to look at (section offset). Returns 0 and *ret_next = where it had to stop
 * (no room), or 1 when the part is done.
 */
int ph_reap_fine(struct ph_reap *reap, uint32_t slot, uint32_t offset, uint32_t frames, uint32_t *ret_next);

#endif
