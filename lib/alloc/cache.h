/*
 * cache: one thread's stock of single frames; the inside of pagehint/cache.h.
 *
 * Why this shape: the stock is a few private words, each a 64-frame word of the zone with a mask of what is held of it. Entry 0
 * is what is handed out from; it is refilled with a whole word by one atomic. The others collect what is freed: a free sets a
 * bit if the word is held, else takes over the entry that holds the least (what lies alone goes back first). So flushes are
 * grouped by word by construction, a cache spans at most PH_CACHE_WORDS granules, and what is freed is not handed out again
 * from wherever it lay: the tree decides, lowest first, which is what keeps high granules whole.
 * States of a slot: FREE -> OWNED <-> PARKED <-> DRAINING. While OWNED only the owner writes; while DRAINING only the drainer.
 * The fields are atomics only so that others may read the counts.
 */
#ifndef PH_ALLOC_CACHE_H
#define PH_ALLOC_CACHE_H

#include <pagehint/cache.h>

#include "alloc/zone.h"

#define PH_CACHE_WORDS 8u

enum { PH_CACHE_FREE = 0, PH_CACHE_OWNED, PH_CACHE_PARKED, PH_CACHE_DRAINING, PH_CACHE_CLOSING };

struct pagehint_cache {
	_Alignas(128) uint64_t offset; /* of this slot in the state [bytes] */
	_Atomic uint32_t state;
	_Atomic uint32_t drain_wanted;
	ph_word mask[PH_CACHE_WORDS];
	ph_word note[PH_CACHE_WORDS];          /* see ph_sets_cached */
	_Atomic uint32_t word[PH_CACHE_WORDS]; /* slot * 4096 + level-0 word; meaningless while mask is 0 */
};

static inline struct pagehint_cache *ph_cache_at(const struct pagehint_zone *z, uint32_t i)
{
	return (struct pagehint_cache *)ph_zone_at(z, z->off_caches) + i;
}

/* frames held; granules spanned are counted into *ret_granules (may be NULL) */
uint64_t ph_cache_held(const struct pagehint_zone *z, const struct pagehint_cache *c, uint64_t *ret_granules);

/* Drains `self` (may be NULL) and every parked cache, asks the others to drain. */
void ph_cache_recall(struct pagehint_zone *z, struct pagehint_cache *self);

/* sum over all caches */
uint64_t ph_cache_total(const struct pagehint_zone *z, uint64_t *ret_granules, uint64_t *ret_open);

#endif
