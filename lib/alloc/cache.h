/*
 * cache: one thread's stock of single frames; the inside of pagehint/cache.h.
 *
 * Why this shape: the stock is a few private words, each a 64-frame word of the zone with a mask of what is held of it. Word 0
 * is refilled with a whole word by one atomic. The others collect what is freed, each word of the zone in one certain entry;
 * what lay there goes back to the tree. So flushes are grouped by word by construction, and a cache spans at most
 * PH_CACHE_WORDS granules. What was freed last is handed out first (it is warm, and not reported), but only from the one word
 * it lies in; older frees wait for the tree, which fills from below: that is what keeps high granules whole.
 * States of a slot: FREE -> OWNED <-> PARKED <-> DRAINING. While OWNED only the owner writes; while DRAINING only the drainer.
 * The fields are atomics only so that others may read the counts.
 * Invariant: frames go into the tree before they leave the cache, and are in `moving` from the tree to the cache: whoever finds
 * nothing in the tree sees them here.
 */
#ifndef PH_ALLOC_CACHE_H
#define PH_ALLOC_CACHE_H

#include <pagehint/cache.h>

#include "alloc/zone.h"

#define PH_CACHE_WORDS 9u /* word 0, and a power of two more */

enum { PH_CACHE_FREE = 0, PH_CACHE_OWNED, PH_CACHE_PARKED, PH_CACHE_DRAINING, PH_CACHE_CLOSING };
#define PH_CACHE_WANTED 16u /* beside OWNED: somebody wants it drained */

struct pagehint_cache {
	_Alignas(128) uint64_t offset; /* of this slot in the state [bytes] */
	_Atomic uint32_t control;      /* state, PH_CACHE_WANTED */
	_Atomic uint32_t moving;       /* a refill has taken frames that are not yet in mask[0] */
	_Atomic uint32_t hot;          /* the entry that the next frame comes from, while it has one */
	_Atomic uint32_t reserved;
	ph_word note;  /* see ph_sets_cached; only word 0 can have frames that were never handed out */
	ph_word put;   /* frames that ever went from this slot to the tree */
	ph_word taken; /* ... and came */
	ph_word mask[PH_CACHE_WORDS];
	ph_word base[PH_CACHE_WORDS];          /* frame of bit 0 */
	ph_word out[PH_CACHE_WORDS];           /* where the out word is [bytes in the state]; 0 = untracked */
	_Atomic uint32_t word[PH_CACHE_WORDS]; /* slot * 4096 + level-0 word + 1; meaningless while mask is 0 */
};

static inline struct pagehint_cache *ph_cache_at(const struct pagehint_zone *z, uint32_t i)
{
	return (struct pagehint_cache *)ph_zone_at(z, z->off_caches) + i;
}

/* frames held; granules spanned are counted into *ret_granules (may be NULL) */
uint64_t ph_cache_held(const struct pagehint_zone *z, const struct pagehint_cache *c, uint64_t *ret_granules);

/* Drains `self` (may be NULL) and every parked cache, asks the others to drain. */
void ph_cache_recall(struct pagehint_zone *z, struct pagehint_cache *self);

/* Is a refill under way in another cache? Asked after a search that found nothing. */
int ph_cache_any_moving(const struct pagehint_zone *z, const struct pagehint_cache *self);

/* sum over all caches */
uint64_t ph_cache_total(const struct pagehint_zone *z, uint64_t *ret_granules, uint64_t *ret_open);

#endif
