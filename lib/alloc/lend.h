/*
 * lend: frames of one word that count as handed out already, but lie in a cache still.
 *
 * The problem: marking each frame as out when a cache hands it out is an atomic an allocation, and that is most of what an
 * allocation costs. Why this shape: the cache marks all frames of a word at once when it takes them ("lent"), and says in its own
 * mask which of them it still has; the mask is written by its owner alone, without an atomic. So
 *     out(frame) = marked(frame) and no cache has the word lent with this frame in its mask
 * and a free looks there first. A table that maps a word's name to the cache that has it lent makes that one load as a rule;
 * each place of it serves one cache at a time, and a cache that finds its place taken marks frame by frame.
 *
 * Order: lent and mask are there before the frames are marked; the marks of what was not handed out go before the word is lent no
 * longer, and that goes before the frames are in the tree. Whoever frees a frame that was handed out to him sees the mask without
 * it. Each lending has a number of its own, so a reader that sees the same one twice has not mixed two.
 * A free that is wrong can pass the first look, and the frame be freed by its owner and lent again before its mark is cleared:
 * so there is a second look afterwards, and the mark is put back. Only a frame that two threads free at once can come to that.
 * Between the clearing and the second look a right free of it may be refused; and if the cache gives the word back just then, the
 * mark stays on a frame that is free.
 *
 * Not here: who lends (stock.c). Called from: track.c, cache.c, check.c, batch.c.
 */
#ifndef PH_ALLOC_LEND_H
#define PH_ALLOC_LEND_H

#include "alloc/cache.h"
#include "alloc/zone.h"

typedef _Atomic uint16_t ph_lender; /* cache + 1; 0 = nobody */

static inline ph_lender *ph_lend_place(const struct pagehint_zone *z, uint32_t name)
{
	/* mixed, since caches work at distances that are powers of two */
	return (ph_lender *)ph_zone_at(z, z->off_lent) + (name * UINT32_C(2654435761) >> z->lent_shift);
}

/* what this cache has of the word, if it is the one that it has lent */
static inline uint64_t ph_lend_of(const struct pagehint_cache *c, uint32_t name)
{
	uint64_t lent = atomic_load_explicit(&c->lent, memory_order_acquire);
	if ((uint32_t)lent != name)
		return 0;
	uint64_t mask = atomic_load_explicit(&c->mask[0], memory_order_acquire);
	return atomic_load_explicit(&c->lent, memory_order_relaxed) == lent ? mask : 0;
}

/* frames of the level-0 word that are marked as out, but in a cache */
static inline uint64_t ph_lend_mask(const struct pagehint_zone *z, uint32_t name)
{
	uint32_t lender = atomic_load_explicit(ph_lend_place(z, name), memory_order_acquire);
	return ph_likely(lender == 0) ? 0 : ph_lend_of(ph_cache_at(z, lender - 1), name);
}

#endif
