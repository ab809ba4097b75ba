/*
 * cache: one thread's stock of single frames, and of one block of each order up to 9; the inside of pagehint/cache.h.
 *
 * Why this shape: the stock is a few private words, each a 64-frame word of the zone with a mask of what is held of it. Word 0
 * is refilled with a whole word by one atomic. The next PH_CACHE_FREED collect what is freed, each word of the zone in one
 * certain entry; what lay there goes back to the tree. So flushes are grouped by word by construction, and a cache spans at most
 * PH_CACHE_WORDS granules. What was freed last is handed out first (it is warm, and not reported), but only from the one word
 * it lies in; older frees wait for the tree, which fills from below: that is what keeps high granules whole. Of bigger blocks
 * the one that was freed last is kept: to free and to allocate the same order in turn is common, and splits and merges nothing then.
 * States of a slot: FREE -> OWNED <-> PARKED <-> DRAINING. While OWNED only the owner writes; while DRAINING only the drainer.
 * The fields are atomics only so that others may read them.
 * Invariant: frames go into the tree before they leave the cache, and are in `moving` from the tree to the cache: whoever finds
 * nothing in the tree sees them here.
 */
#ifndef PH_ALLOC_CACHE_H
#define PH_ALLOC_CACHE_H

#include <pagehint/cache.h>

#include "alloc/zone.h"

#define PH_CACHE_FREED 8u /* words that collect what is freed; a power of two */
#define PH_CACHE_WORDS (1u + PH_CACHE_FREED)
#define PH_CACHE_ORDERS 9u

#define PH_CACHE_NOWHERE (UINT64_C(1) << 63)

enum { PH_CACHE_FREE = 0, PH_CACHE_OWNED, PH_CACHE_PARKED, PH_CACHE_DRAINING, PH_CACHE_CLOSING };
#define PH_CACHE_WANTED 16u /* beside OWNED: somebody wants it drained */

struct pagehint_cache {
	_Alignas(128) uint64_t offset; /* of this slot in the state [bytes] */
	_Atomic uint32_t control;      /* state, PH_CACHE_WANTED */
	_Atomic uint32_t moving;       /* a refill has taken frames that are not yet in mask[0] */
	_Atomic uint32_t hot;          /* the entry that the next frame comes from, while it has one */
	_Atomic uint32_t owner;        /* of the process that opened it: see shared.h */
	ph_word note;  /* see ph_sets_cached; only word 0 can have frames that were never handed out */
	ph_word put;   /* frames that ever went from this slot, or by its calls, to the tree */
	ph_word taken; /* ... and came */
	ph_word lent; /* name of word 0 while its frames are marked as out (lend.h), number of the lending in the high half; or 0 */
	ph_word near; /* frame of bit 0 of entry `hot`, when frames may go there without more ado; or PH_CACHE_NOWHERE */
	ph_word mask[PH_CACHE_WORDS];
	ph_word base[PH_CACHE_WORDS];          /* frame of bit 0 */
	ph_word out[PH_CACHE_WORDS];           /* what to do when a frame is handed out: see hand_out; 0 = nothing */
	_Atomic uint32_t word[PH_CACHE_WORDS]; /* name of the word; meaningless while mask is 0 */
	_Atomic uint32_t lendings;
	ph_word block[PH_CACHE_ORDERS + 1]; /* by order from 1 on: first frame + 1 of a block, 0 = none */
	ph_word found[PH_CACHE_ORDERS + 1]; /* by order: the word where the last one was found (block.c), 0 = none */
};

static inline struct pagehint_cache *ph_cache_at(const struct pagehint_zone *z, uint32_t i)
{
	return (struct pagehint_cache *)ph_zone_at(z, z->off_caches) + i;
}

static inline uint64_t ph_cache_load(const ph_word *p)
{
	return atomic_load_explicit(p, memory_order_relaxed);
}

static inline void ph_cache_store(ph_word *p, uint64_t v)
{
	atomic_store_explicit(p, v, memory_order_relaxed);
}

/*
 * For the owner, or whoever drains. Word 0 is lent: its frames need no mark when they are handed out; 0 when another cache has
 * its place (lend.h). It is lent no longer, and what was not handed out is marked no longer.
 */
int ph_cache_lend(struct pagehint_zone *z, struct pagehint_cache *c, uint32_t name, uint64_t mask);
void ph_cache_unlend(struct pagehint_zone *z, struct pagehint_cache *c);

/* Blocks of order 1 and more: as pagehint_zone_alloc and pagehint_zone_free. */
int ph_cache_alloc_block(struct pagehint_zone *z, struct pagehint_cache *c, uint32_t order, uint64_t *ret_frame);
int ph_cache_free_block(struct pagehint_zone *z, struct pagehint_cache *c, uint64_t frame, uint32_t order);

/*
 * Takes and counts a whole word of level 0 where the last one came from, if no part of a word is free anywhere: 1 or 0. And: such a
 * word, or part of one, was found by a search; counts it.
 */
int ph_cache_take_word(struct pagehint_zone *z, struct pagehint_cache *c, struct ph_place *ret);
void ph_cache_took_word(struct pagehint_zone *z, struct pagehint_cache *c, const struct ph_place *p, uint64_t mask);

/* The cache forgets where it found blocks, and the summaries say of these words what they have. */
void ph_cache_leave_words(struct pagehint_zone *z, struct pagehint_cache *c);

/* Gives an entry's frames, a block that is nowhere, or everything, back to the tree. */
void ph_cache_flush(struct pagehint_zone *z, struct pagehint_cache *c, uint32_t i);
void ph_cache_put_block(struct pagehint_zone *z, struct pagehint_cache *c, uint64_t frame, uint32_t order);
void ph_cache_drain(struct pagehint_zone *z, struct pagehint_cache *c);

/* frames held; granules spanned are counted into *ret_granules (may be NULL) */
uint64_t ph_cache_held(const struct pagehint_zone *z, const struct pagehint_cache *c, uint64_t *ret_granules);

/* Drains `self` (may be NULL) and every parked cache, asks the others to drain. */
void ph_cache_recall(struct pagehint_zone *z, struct pagehint_cache *self);

/* Is a refill under way in another cache? Asked after a search that found nothing. */
int ph_cache_any_moving(const struct pagehint_zone *z, const struct pagehint_cache *self);

/* sum over all caches */
uint64_t ph_cache_total(const struct pagehint_zone *z, uint64_t *ret_granules, uint64_t *ret_open);

#endif
