/*
 * track: which frames are in the embedder's hands, so that a wrong free changes nothing.
 *
 * The problem: a double free of a buddy block corrupts silently. Why this shape: an `out` tree shaped like the free tree: a
 * block of order 0-5 sets its bits in a level-0 out word, 6-11 in a level-1 word and so on, so marking and clearing any block
 * is one atomic; a free that does not find all its bits set is refused. Runs (alloc_runs, alloc_contig, reserve) are marked
 * frame by frame on level 0, so any part of them can be freed.
 * Strict zones also have a `tail` bit for every bit of a block but the first: a block can only be freed as it was allocated.
 * What a cache holds may be marked in advance: then the cache says which frames those are (lend.h).
 * Invariants: a frame is marked on one level at the most, and only while it is not free; if it is cached, it is lent.
 */
#ifndef PH_ALLOC_TRACK_H
#define PH_ALLOC_TRACK_H

#include <errno.h>

#include "alloc/lend.h"
#include "alloc/zone.h"

/* Blocks of `order` under `mask` of this word are handed out. */
void ph_track_out(struct pagehint_zone *z, uint32_t slot, uint32_t level, uint32_t word, uint32_t order, uint64_t mask);

/* A block comes back. Returns 0, -EALREADY not out, -EINVAL out in another order. */
int ph_track_in(struct pagehint_zone *z, uint32_t slot, uint32_t offset, uint32_t order);

/* A range of one section is handed out frame by frame. */
void ph_track_out_range(struct pagehint_zone *z, uint32_t slot, uint32_t offset, uint32_t frames);

/*
 * Is every frame of a range out, on whatever level? Asked before ph_track_in_range, so that a refused free does not even
 * split the out bits of big blocks. A look: only misuse by two threads at once can make it wrong.
 */
int ph_track_is_out(const struct pagehint_zone *z, uint32_t slot, uint32_t offset, uint32_t frames);

/* All of a range comes back or nothing. Returns 0, -EALREADY some of it is not out, -EAGAIN another thread is splitting it. */
int ph_track_in_range(struct pagehint_zone *z, uint32_t slot, uint32_t offset, uint32_t frames);

/* Why a block could not come back: -EALREADY, or -EINVAL when some of it is out in another order. */
int ph_track_refuse(const struct pagehint_zone *z, uint32_t slot, uint32_t offset, uint32_t order);

/* that of level 0 stands beside the word itself */
static inline ph_word *ph_track_word0(const struct pagehint_zone *z, uint32_t slot, uint32_t word)
{
	return ph_zone_words(z, slot, word * 2 + 1);
}

/* The out word of a level (level 3: bit 0 of out3). */
static inline ph_word *ph_track_word(const struct pagehint_zone *z, uint32_t slot, uint32_t level, uint32_t word)
{
	if (level == 0)
		return ph_track_word0(z, slot, word);
	if (level == 1)
		return ph_zone_words(z, slot, z->at_out1 + word);
	return level == 2 ? &ph_zone_head(z, slot)->out2 : &ph_zone_head(z, slot)->out3;
}

static inline uint64_t ph_track_lent(const struct pagehint_zone *z, uint32_t slot, uint32_t level, uint32_t word)
{
	return level == 0 ? ph_lend_mask(z, ph_zone_word_name(slot, word)) : 0;
}

/* Clears bits of an out word if every one of them is out. Returns 1 or 0. */
static inline int ph_track_clear(struct pagehint_zone *z, uint32_t slot, uint32_t level, uint32_t word, uint64_t mask)
{
	ph_word *out = ph_track_word(z, slot, level, word);
	uint64_t v = atomic_load(out);
	while ((v & mask) == mask) {
		if (ph_unlikely(ph_track_lent(z, slot, level, word) & mask))
			return 0;
		if (ph_unlikely(!atomic_compare_exchange_strong(out, &v, v & ~mask)))
			continue;
		if (ph_likely((ph_track_lent(z, slot, level, word) & mask) == 0))
			return 1;
		atomic_fetch_or(out, mask); /* see lend.h */
		return 0;
	}
	return 0;
}

/* The mark of one frame of a word is cleared if it is out: 0, or -EALREADY. */
static inline int ph_track_clear_frame(struct pagehint_zone *z, ph_word *mark, uint32_t name, uint32_t i)
{
	uint64_t bit = UINT64_C(1) << i;
	ph_lender *place = ph_lend_place(z, name);
	uint32_t lender = atomic_load_explicit(place, memory_order_acquire);
	if (ph_unlikely(lender != 0) && ph_lend_of(ph_cache_at(z, lender - 1), name) & bit)
		return -EALREADY;
	if (ph_unlikely(!(atomic_fetch_and(mark, ~bit) & bit)))
		return -EALREADY;
	lender = atomic_load_explicit(place, memory_order_acquire);
	if (ph_likely(lender == 0) || !(ph_lend_of(ph_cache_at(z, lender - 1), name) & bit))
		return 0;
	atomic_fetch_or(mark, bit); /* see lend.h */
	return -EALREADY;
}

#endif
