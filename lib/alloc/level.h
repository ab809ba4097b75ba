/*
 * level: the exclusive radix-64 buddy itself: put blocks in, take the best one out, claim a certain one.
 *
 * Level k is a bitmap whose bit i says: the block of 64^k frames number i is free and not part of a bigger free block. A
 * word that becomes full is swapped to zero and becomes one bit of the level above (merge); when nothing fits, one bit of the
 * level above is taken and the rest of it published below (split).
 *
 * Summaries tell where to look: for each level and class (order of the largest aligned run in a word) which words have it.
 * They may claim too much, never too little: whoever clears a bit looks again at what it hides and sets it again if needed;
 * whoever adds to a word looks at the summary afterwards. All of it is sequentially consistent read-modify-writes and loads,
 * so one of the two always sees the other. A bit that claims too much is cleared by the search that meets it.
 *
 * Transit: between the halves of a split or merge the frames are visible nowhere; `begun` and `ended` of the section bracket
 * that window, so a search that found nothing can tell whether it may have missed something.
 * Not here: who owns what was taken (track.h), caches, reporting sets.
 */
#ifndef PH_ALLOC_LEVEL_H
#define PH_ALLOC_LEVEL_H

#include "alloc/zone.h"

/*
 * Takes up to `want` blocks of `order` out of one word: the tightest word that has one, the lowest address. `ret_mask` are
 * their bits in the word of ret->level. With order 0 and want 64 that is every frame of the word: what a cache refills from.
 * Returns 0, -ENOSPC nothing seen, -EAGAIN the search bound was hit.
 */
int ph_level_take(struct pagehint_zone *z, uint32_t order, uint32_t want, struct ph_place *ret, uint64_t *ret_mask);

/* The same, but the caller counts it as taken. */
int ph_level_search(struct pagehint_zone *z, uint32_t order, uint32_t want, struct ph_place *ret, uint64_t *ret_mask);

/*
 * The same again, by the words themselves: O(frames / 64), and sees every block that was there all the time and not in transit.
 * What is found is the lowest word, not the tightest.
 */
int ph_level_search_blind(struct pagehint_zone *z, uint32_t order, uint32_t want, struct ph_place *ret,
			  uint64_t *ret_mask);

/* Takes exactly these bits of one word if all are free (also inside a bigger block). Returns 1 taken, 0 not free. */
int ph_level_claim(struct pagehint_zone *z, uint32_t slot, uint32_t level, uint32_t word, uint64_t mask);

/*
 * Adds bits of one word to the tree and merges upwards; whoever calls counts them as put, and only afterwards. So frames that were
 * put before a count was read can be found from then on, and what a look misses that began earlier shows in the count.
 */
void ph_level_publish(struct pagehint_zone *z, uint32_t slot, uint32_t level, uint32_t word, uint64_t mask);

/* The same, counted. */
void ph_level_put(struct pagehint_zone *z, uint32_t slot, uint32_t level, uint32_t word, uint64_t mask);

/* Puts a block of `order`, or any range, of one section into the tree. */
void ph_level_put_block(struct pagehint_zone *z, uint32_t slot, uint32_t offset, uint32_t order);
void ph_level_put_range(struct pagehint_zone *z, uint32_t slot, uint32_t offset, uint32_t frames);

/*
 * Takes the whole range of one section or nothing. Returns 0, or -EBUSY with the first frame that was not free in
 * *ret_stuck (section offset).
 */
int ph_level_claim_range(struct pagehint_zone *z, uint32_t slot, uint32_t offset, uint32_t frames, uint32_t *ret_stuck);

/* How many frames from `offset` on are free without a gap, at most `most`. A look, not a promise. */
uint32_t ph_level_free_run(const struct pagehint_zone *z, uint32_t slot, uint32_t offset, uint32_t most);

/* The first offset from `offset` on, before `end`, that may be free: whole words with nothing free are stepped over. */
uint32_t ph_level_skip_used(const struct pagehint_zone *z, uint32_t slot, uint32_t offset, uint32_t end);

/* Is bit `word` of the level above (or anything above that) set: is this whole word part of a bigger free block? */
int ph_level_covered(const struct pagehint_zone *z, uint32_t slot, uint32_t level, uint32_t word);

/* class of a word: order of its largest run, 0..5; -1 for an empty word */
static inline int ph_level_class(uint64_t v)
{
	/* no branches: the next word is never like the last one */
	uint64_t r1 = v & v >> 1 & ph_run_starts(1), r2 = r1 & r1 >> 2 & ph_run_starts(2);
	uint64_t r3 = r2 & r2 >> 4 & ph_run_starts(3), r4 = r3 & r3 >> 8 & ph_run_starts(4);
	uint64_t r5 = r4 & r4 >> 16 & ph_run_starts(5);
	return (v != 0) + (r1 != 0) + (r2 != 0) + (r3 != 0) + (r4 != 0) + (r5 != 0) - 1;
}

#endif
