/*
 * sets: what is remembered of free memory so that it is reported once, and only after it has aged.
 *
 * One bit a granule of 2^granule_order frames:
 *   touched  an allocation broke the granule while it was whole. Set by allocations, cleared by a look (exchange) and when
 *            the granule is removed.
 *   stale    it may hold memory that was not reported: looks move `touched` here; a report clears it.
 *   aged     it was whole at the end of the last look.
 * A granule may be taken when it is whole, stale, aged, and not touched: whole at both ends of an interval and untouched
 * between, which is a minimum age without a timestamp. All bits 0 = fresh. A merge changes none of them.
 * In ladder zones also one bit a frame, dirty: handed out since it was last discarded (0 = fresh or discarded).
 *
 * Invariant: stale | touched is set for every granule of which a frame was handed out since its last report.
 * Not here: taking runs (harvest.h).
 */
#ifndef PH_ALLOC_SETS_H
#define PH_ALLOC_SETS_H

#include "alloc/zone.h"

/* Blocks of `order` under `mask` of the place's word go to the embedder now: remember what that breaks and dirties. */
void ph_sets_handed_blocks(struct pagehint_zone *z, const struct ph_place *p, uint32_t order, uint64_t mask);

/* The same for any range of one section, however it was taken. */
void ph_sets_handed_range(struct pagehint_zone *z, uint32_t slot, uint32_t offset, uint32_t frames);

/*
 * A cache took `mask` of a level-0 word, nothing is handed out yet. Returns the frames for which ph_sets_handed_frame must be
 * called when they are; a granule that is broken for certain is marked at once.
 */
uint64_t ph_sets_cached(struct pagehint_zone *z, const struct ph_place *p, uint64_t mask);

/* One such frame is handed out. Returns what is left of `note`. */
uint64_t ph_sets_handed_frame(struct pagehint_zone *z, uint32_t slot, uint32_t offset, uint64_t note);

/* bit g = granule 64 * i + g of the slot is wholly free */
uint64_t ph_sets_whole(const struct pagehint_zone *z, uint32_t slot, uint32_t i);

/* ... and of those: reported (or fresh) and untouched since, as a whole or in pieces */
uint64_t ph_sets_whole_reported(const struct pagehint_zone *z, uint32_t slot, uint32_t i);

/* A range of one section was discarded while it was ours: its whole granules are reported, its frames clean. */
void ph_sets_reported(struct pagehint_zone *z, uint32_t slot, uint32_t offset, uint32_t frames);

/* Nobody has had any of granules [first, first + n) since they were last discarded; nobody else can have them now. */
void ph_sets_unused(struct pagehint_zone *z, uint32_t slot, uint32_t first, uint32_t n);

/* Frames come (present = 1) or go: set their bits to what a new frame has. */
void ph_sets_reset(struct pagehint_zone *z, uint32_t slot, uint32_t offset, uint32_t frames, int present);

/* has any frame of this range been handed out since its last discard? (ladder zones) */
int ph_sets_is_dirty(const struct pagehint_zone *z, uint32_t slot, uint32_t offset, uint32_t frames);

static inline ph_word *ph_sets_stale(const struct pagehint_zone *z, uint32_t slot)
{
	return ph_zone_words(z, slot, z->at_stale);
}

static inline ph_word *ph_sets_touched(const struct pagehint_zone *z, uint32_t slot)
{
	return ph_zone_words(z, slot, z->at_touched);
}

/* ph_sets_handed_blocks of one block; short where it is a granule that was broken before. */
static inline void ph_sets_handed_block(struct pagehint_zone *z, const struct ph_place *p, uint32_t order,
					uint64_t mask)
{
	uint32_t granule = ph_place_offset(p) >> z->granule_order;
	if (order == z->granule_order && !(z->flags & PAGEHINT_ZONE_LADDER) &&
	    (atomic_load(&ph_sets_touched(z, p->slot)[granule / 64]) >> (granule % 64) & 1))
		return;
	if (order >= z->granule_order || p->from >= z->granule_order / 6 || z->flags & PAGEHINT_ZONE_LADDER)
		ph_sets_handed_blocks(z, p, order, mask);
}

static inline ph_word *ph_sets_aged(const struct pagehint_zone *z, uint32_t slot)
{
	return ph_zone_words(z, slot, z->at_aged);
}

#endif
