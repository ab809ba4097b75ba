/*
 * block: blocks of order 1 and more through a cache; see cache.h.
 *
 * A block that is not kept comes from the word where the last one of its order was found, as long as no tighter one is known:
 * a word that was the tightest is so still when something was taken of it. While a cache takes from it, the word stays in the
 * summary of the class it had when it was found (too much, never too little); that is put right when the cache leaves it. So a
 * word is moved from class to class once and not with every block.
 *
 * While there are only whole words to be had, refills take them the same way. Two caches that meet in a word of level 1 would go on
 * to meet at every refill: the one that comes second moves on to another block of the level above. Alone, a cache never does.
 */
#include "alloc/level.h"
#include "alloc/ops.h"
#include "alloc/sets.h"
#include "alloc/summary.h"
#include "alloc/track.h"

/* c->found: name of the word (its number on its own level), and what the summary has of it. */
#define FOUND_CLASS 32u
#define FOUND_OWES (UINT64_C(1) << 40) /* that is too much by now */

#define WORD_ORDER 6u /* a whole word of level 0 is a block of this order */
#ifndef PH_LINE_WORDS
#define PH_LINE_WORDS 8u /* words that share a cache line; fewer where a test goes through every order */
#endif

static inline uint32_t found_slot(uint64_t found)
{
	return ((uint32_t)found - 1) / PH_L0_WORDS;
}

static inline uint32_t found_word(uint64_t found)
{
	return ((uint32_t)found - 1) % PH_L0_WORDS;
}

/* The cache takes from this word no longer: the summary shall say what it has. */
static void leave(struct pagehint_zone *z, struct pagehint_cache *c, uint32_t order, uint64_t found)
{
	ph_cache_store(&c->found[order], 0);
	if (found & FOUND_OWES)
		ph_summary_narrow(z, found_slot(found), order / 6, found_word(found), (int)(found >> FOUND_CLASS & 7));
}

/* Does a summary speak of words of a class in [from, to)? Classes lie one behind the other. */
static inline int is_claimed(const struct pagehint_zone *z, uint32_t level, uint32_t from, uint32_t to)
{
	uint64_t any = 0;
	for (const ph_word *up = ph_zone_up(z, level, from), *end = ph_zone_up(z, level, to); up < end; up++)
		any |= atomic_load(up);
	return any != 0;
}

/*
 * Takes a block where the last one was found. Returns 1, or 0 when it must be looked for. With `ret_met` (may be NULL) it gives
 * way to others who take from the word, and says so there.
 */
static inline int take_found(struct pagehint_zone *z, struct pagehint_cache *c, uint32_t order, uint64_t found,
			     struct ph_place *ret, uint64_t *ret_mask, int *ret_met)
{
	uint32_t level = order / 6, run = order % 6, slot = found_slot(found), word = found_word(found);
	ph_word *p = ph_zone_level_word(z, slot, level, word);
	uint64_t v = atomic_load(p), starts, mask;
	int tighter = is_claimed(z, level, run, (uint32_t)(found >> FOUND_CLASS & 7));
	for (;;) {
		starts = ph_runs(v, run);
		if (starts == 0 || (tighter && is_claimed(z, level, run, (uint32_t)ph_level_class(v))))
			return 0;
		mask = ph_order_mask(run, ph_ctz(starts));
		if (ph_likely(atomic_compare_exchange_strong(p, &v, v & ~mask)))
			break;
		if (ret_met != NULL) {
			*ret_met = 1;
			return 0;
		}
	}
	*ret = (struct ph_place) { slot, level, word, ph_ctz(mask), level, v };
	*ret_mask = mask;
	found |= FOUND_OWES;
	if ((starts & (starts - 1)) != 0)
		ph_cache_store(&c->found[order], found);
	else
		leave(z, c, order, found);
	return 1;
}

/* A block was found: the next one of its order may be there, too. */
static void remember(struct pagehint_cache *c, uint32_t order, const struct ph_place *p, uint64_t mask)
{
	uint64_t rest = (p->from == p->level ? p->old : PH_FULL) & ~mask;
	if (ph_runs(rest, order % 6) != 0)
		ph_cache_store(&c->found[order], ph_zone_word_name(p->slot, p->word) | (uint64_t)ph_level_class(rest)
											       << FOUND_CLASS);
}

static PH_NOINLINE int search_block(struct pagehint_zone *z, struct pagehint_cache *c, uint32_t order, uint64_t found,
				    struct ph_place *ret, uint64_t *ret_mask)
{
	leave(z, c, order, found);
	int r = ph_level_search(z, order, 1, ret, ret_mask);
	if (ph_unlikely(r < 0))
		r = ph_zone_take_slow(z, c, order, 1, ret, ret_mask);
	if (ph_likely(r == 0))
		remember(c, order, ret, *ret_mask);
	return r;
}

static void count_taken(struct pagehint_cache *c, uint64_t frames)
{
	ph_cache_store(&c->taken, ph_cache_load(&c->taken) + frames);
}

static int take_block(struct pagehint_zone *z, struct pagehint_cache *c, uint32_t order, uint64_t *ret_frame)
{
	struct ph_place p;
	uint64_t mask, found = ph_cache_load(&c->found[order]);
	if (found == 0 || !take_found(z, c, order, found, &p, &mask, NULL)) {
		int r = search_block(z, c, order, found, &p, &mask);
		if (ph_unlikely(r < 0))
			return r;
	}
	count_taken(c, UINT64_C(1) << order);
	ph_sets_handed_block(z, &p, order, mask);
	if (ph_zone_is_tracked(z))
		ph_track_out(z, p.slot, p.level, p.word, order, mask);
	*ret_frame = ph_zone_base(z, p.slot) + ph_place_offset(&p);
	return 0;
}

/* The first word of another block of level 2, whose words of level 1 share no cache line with where we are. Counted already. */
static PH_NOINLINE int move_on(struct pagehint_zone *z, struct pagehint_cache *c, uint64_t found, struct ph_place *ret)
{
	uint32_t slot = found_slot(found);
	for (uint32_t far = PH_LINE_WORDS; far < 64; far += PH_LINE_WORDS) {
		uint32_t to = (found_word(found) + far) % 64;
		if (!(atomic_load(&ph_zone_head(z, slot)->level2) >> to & 1) ||
		    !ph_level_claim(z, slot, 0, to * 64, PH_FULL))
			continue;
		leave(z, c, WORD_ORDER, found);
		ph_cache_store(&c->found[WORD_ORDER], ph_zone_word_name(slot, to) | (uint64_t)(PH_CLASSES - 1)
											    << FOUND_CLASS);
		*ret = (struct ph_place) { slot, 0, to * 64, 0, 2, 0 };
		return 1;
	}
	return 0;
}

int ph_cache_take_word(struct pagehint_zone *z, struct pagehint_cache *c, struct ph_place *ret)
{
	uint64_t mask, found = ph_cache_load(&c->found[WORD_ORDER]);
	int met = 0;
	if (found == 0 || is_claimed(z, 0, 0, PH_CLASSES))
		return 0;
	if (!take_found(z, c, WORD_ORDER, found, ret, &mask, &met))
		return met && move_on(z, c, found, ret);
	ret->level = 0;
	ret->word = ret->word * 64 + ret->bit;
	ret->bit = 0;
	count_taken(c, 64);
	return 1;
}

void ph_cache_took_word(struct pagehint_zone *z, struct pagehint_cache *c, const struct ph_place *p, uint64_t mask)
{
	count_taken(c, ph_popcount(mask));
	if (p->from == 0 || mask != PH_FULL)
		return;
	leave(z, c, WORD_ORDER, ph_cache_load(&c->found[WORD_ORDER]));
	const struct ph_place above = { p->slot, 1, p->word / 64, p->word % 64, p->from, p->old };
	remember(c, WORD_ORDER, &above, UINT64_C(1) << above.bit);
}

int ph_cache_alloc_block(struct pagehint_zone *z, struct pagehint_cache *c, uint32_t order, uint64_t *ret_frame)
{
	if (order > PH_CACHE_ORDERS)
		return ph_zone_alloc(z, c, order, ret_frame);
	uint64_t block = ph_cache_load(&c->block[order]);
	if (block == 0)
		return take_block(z, c, order, ret_frame);
	if (ph_zone_is_tracked(z)) {
		struct ph_place p = ph_place_of((uint32_t)ph_zone_slot(z, block - 1), ph_zone_offset(block - 1), order);
		if (ph_unlikely(z->flags & PAGEHINT_ZONE_STRICT))
			ph_track_out(z, p.slot, p.level, p.word, order, ph_order_mask(order, p.bit));
		else
			atomic_fetch_or(ph_track_word(z, p.slot, p.level, p.word), ph_order_mask(order, p.bit));
	}
	ph_cache_store(&c->block[order], 0);
	*ret_frame = block - 1;
	return 0;
}

void ph_cache_leave_words(struct pagehint_zone *z, struct pagehint_cache *c)
{
	for (uint32_t order = 1; order <= PH_CACHE_ORDERS; order++)
		leave(z, c, order, ph_cache_load(&c->found[order]));
}

/* Would it become part of something bigger? Only inside its word: beyond it takes 64 blocks. */
static int has_free_buddy(const struct pagehint_zone *z, const struct ph_place *p, uint32_t order)
{
	uint64_t buddy = ph_order_mask(order, p->bit ^ 1u << (order % 6));
	return (atomic_load(ph_zone_level_word(z, p->slot, p->level, p->word)) & buddy) == buddy;
}

/* ph_zone_untrack, but short where all is well in the usual kind of zone. */
static inline int untrack_block(struct pagehint_zone *z, uint64_t frame, uint32_t order, struct ph_place *ret_place)
{
	int64_t slot = ph_zone_slot(z, frame);
	if (slot < 0 || order > PH_CACHE_ORDERS || (frame & ((UINT64_C(1) << order) - 1)) != 0 ||
	    z->flags & (PAGEHINT_ZONE_UNTRACKED | PAGEHINT_ZONE_STRICT))
		return ph_zone_untrack(z, frame, order, ret_place);
	*ret_place = ph_place_of((uint32_t)slot, ph_zone_offset(frame), order);
	if (ph_likely(ph_track_clear(z, (uint32_t)slot, ret_place->level, ret_place->word,
				     ph_order_mask(order, ret_place->bit))))
		return 0;
	return ph_zone_untrack(z, frame, order, ret_place); /* says why it is refused */
}

/*
 * The block that was freed last is kept, the one before goes. Not what can merge, below a granule: whole granules can be
 * reported as they are.
 */
int ph_cache_free_block(struct pagehint_zone *z, struct pagehint_cache *c, uint64_t frame, uint32_t order)
{
	struct ph_place p;
	int r = untrack_block(z, frame, order, &p);
	if (ph_unlikely(r < 0))
		return r;
	if (order > PH_CACHE_ORDERS || (order < z->granule_order && has_free_buddy(z, &p, order))) {
		ph_cache_put_block(z, c, frame, order);
		return 0;
	}
	uint64_t before = ph_cache_load(&c->block[order]);
	if (before != 0)
		ph_cache_put_block(z, c, before - 1, order);
	atomic_store_explicit(&c->block[order], frame + 1, memory_order_release);
	return 0;
}
