/*
 * search: finds and takes the best free block (the other half of level.h).
 *
 * On the lowest level that can serve, then one level up.
 * Bounded: every word looked at costs one of SEARCH_WORDS.
 *
 * A search that believes the summaries can miss a block: while somebody narrows one it says too little, and a word can change
 * its class behind a search that looks at one class after the other. That costs a tighter fit at worst, but it must not
 * become a refusal: before that, the words themselves are looked at (blind search).
 */
#include <errno.h>

#include "alloc/level.h"
#include "alloc/summary.h"

#define SEARCH_WORDS 65536

struct search {
	struct pagehint_zone *z;
	struct ph_place place; /* what was found ... */
	uint64_t mask;         /* ... and taken of its word */
	uint32_t level;
	uint32_t order; /* of the run inside the word */
	uint32_t want;  /* how many runs of it */
	uint32_t split; /* what is taken will be split: bracket it as a move */
	int32_t left;   /* words that may still be looked at */
	int spared;     /* see spare */
};

static inline uint64_t block_frames(uint32_t level)
{
	return UINT64_C(1) << (6 * level);
}

/* the lowest `want` runs of order o among those that start at `starts` */
static inline uint64_t pick(uint64_t starts, uint32_t o, uint32_t want)
{
	uint64_t mask = 0;
	if (want == 1)
		return ph_order_mask(o, ph_ctz(starts));
	if (o == 0 && want >= 64)
		return starts;
	for (; starts != 0 && want != 0; starts &= starts - 1, want--)
		mask |= ph_order_mask(o, ph_ctz(starts));
	return mask;
}

/* Takes the lowest runs of the wanted order out of one word, which was `v` a moment ago, of class `c`. */
static inline int take_runs(struct search *s, uint32_t slot, uint32_t word, uint64_t v, int c)
{
	ph_word *p = ph_zone_level_word(s->z, slot, s->level, word);
	uint64_t moved = s->split ? block_frames(s->level) : 0, starts;
	while ((starts = ph_runs(v, s->order)) != 0) {
		uint64_t mask = pick(starts, s->order, s->want);
		if (moved)
			atomic_fetch_add(&ph_zone_head(s->z, slot)->begun, moved);
		if (ph_likely(atomic_compare_exchange_strong(p, &v, v & ~mask))) {
			ph_summary_moved(s->z, slot, s->level, word, c, v & ~mask);
			s->place = (struct ph_place) { slot, s->level, word, ph_ctz(mask), s->level, v };
			s->mask = mask;
			return 1;
		}
		if (moved)
			atomic_fetch_add(&ph_zone_head(s->z, slot)->ended, moved);
		c = ph_level_class(v);
	}
	return 0;
}

/* A word that a summary claims to be of class c. What it says too much is corrected on the way. */
static inline int try_word(struct search *s, uint32_t slot, uint32_t word, int c)
{
	s->left--;
	uint64_t v = atomic_load(ph_zone_level_word(s->z, slot, s->level, word));
	int is = ph_level_class(v);
	/* smaller than claimed, but it fits: nothing is tighter. Bigger: it will be met where it belongs. */
	if (ph_unlikely(is != c)) {
		ph_summary_narrow(s->z, slot, s->level, word, c);
		if (is > c || is < (int)s->order)
			return 0;
	}
	if (ph_likely(take_runs(s, slot, word, v, is)))
		return 1;
	ph_summary_narrow(s->z, slot, s->level, word, c);
	return 0;
}

/* All of a level-0 word, whatever it has. */
static inline int empty_word(struct search *s, uint32_t slot, uint32_t word, int c)
{
	s->left--;
	uint64_t v = atomic_exchange(ph_zone_level_word(s->z, slot, 0, word), 0);
	ph_summary_narrow(s->z, slot, 0, word, c);
	if (ph_unlikely(v == 0))
		return 0;
	s->place = (struct ph_place) { slot, 0, word, ph_ctz(v), 0, v };
	s->mask = v;
	return 1;
}

/* One window of 64 level-0 words, those that class c is claimed of. */
static inline int search_window(struct search *s, uint32_t slot, uint32_t a, uint32_t c)
{
	uint64_t words = atomic_load(&ph_summary_sum0(s->z, slot, (int)c)[a]);
	int whole = s->order == 0 && s->want >= 64;
	if (words == 0)
		ph_summary_drop_top(s->z, slot, (int)c, a);
	for (; words != 0 && s->left > 0; words &= words - 1) {
		uint32_t word = a * 64 + ph_ctz(words);
		if (whole ? empty_word(s, slot, word, (int)c) : try_word(s, slot, word, (int)c))
			return 1;
	}
	return 0;
}

/* Level 0 of a slot: the lowest window that has one of classes [from, to], and in it the tightest. */
static int search_level0(struct search *s, uint32_t slot, uint32_t from, uint32_t to)
{
	struct ph_section *head = ph_zone_head(s->z, slot);
	uint64_t tops[PH_CLASSES], any = 0;
	for (uint32_t c = from; c <= to; c++)
		any |= tops[c] = atomic_load(&head->top0[c]);
	for (; any != 0; any &= any - 1) {
		uint32_t a = ph_ctz(any);
		for (uint32_t c = from; c <= to; c++)
			if (tops[c] >> a & 1 && search_window(s, slot, a, c))
				return 1;
	}
	return 0;
}

static int search_level1(struct search *s, uint32_t slot, uint32_t c)
{
	uint64_t words = atomic_load(&ph_zone_head(s->z, slot)->sum1[c]);
	for (; words != 0 && s->left > 0; words &= words - 1)
		if (try_word(s, slot, ph_ctz(words), (int)c))
			return 1;
	return 0;
}

/*
 * Whole words of level 1 come one after the other while a block of level 2 lasts, so what is said of a slot without any is left
 * as it is if it can be split: it will be true again at once. Only once a search, so that searches stay short.
 */
static inline int spare(struct search *s, uint32_t slot, uint32_t c)
{
	if (s->level != 1 || c != PH_CLASSES - 1 || s->spared || atomic_load(&ph_zone_head(s->z, slot)->level2) == 0)
		return 0;
	s->spared = 1;
	return 1;
}

static inline int search_slot(struct search *s, uint32_t slot, uint32_t from, uint32_t to)
{
	int found = s->level == 0   ? search_level0(s, slot, from, to)
		    : s->level == 1 ? search_level1(s, slot, from)
				    : try_word(s, slot, 0, (int)from);
	for (uint32_t c = from; !found && c <= to && s->left > 0; c++)
		if (!spare(s, slot, c))
			ph_summary_drop_slot(s->z, slot, s->level, (int)c);
	return found;
}

/* 64 slots, the lowest first */
static inline int search_slots(struct search *s, uint32_t i, uint32_t from, uint32_t to)
{
	uint64_t slots = 0;
	for (uint32_t c = from; c <= to; c++)
		slots |= atomic_load(&ph_zone_sum(s->z, s->level, c)[i]);
	for (uint32_t c = from; slots == 0 && c <= to; c++)
		ph_summary_drop_up(s->z, s->level, (int)c, i);
	for (; slots != 0 && s->left > 0; slots &= slots - 1)
		if (search_slot(s, i * 64 + ph_ctz(slots), from, to))
			return 1;
	return 0;
}

/* Over all slots, the lowest first, for words of classes [from, to]. */
static inline int search_classes(struct search *s, uint32_t from, uint32_t to)
{
	for (uint32_t j = 0; j < s->z->up_words; j++) {
		uint64_t ups = 0;
		for (uint32_t c = from; c <= to; c++)
			ups |= atomic_load(&ph_zone_up(s->z, s->level, c)[j]);
		for (; ups != 0 && s->left > 0; ups &= ups - 1)
			if (search_slots(s, j * 64 + ph_ctz(ups), from, to))
				return 1;
	}
	return 0;
}

static int search_whole(struct search *s)
{
	ph_word *whole = ph_zone_whole(s->z);
	for (uint32_t i = 0; i < s->z->bitmap_words; i++) {
		for (uint64_t slots = atomic_load(&whole[i]); slots != 0; slots &= slots - 1) {
			uint32_t slot = i * 64 + ph_ctz(slots);
			struct ph_section *head = ph_zone_head(s->z, slot);
			uint64_t bit = slots & -slots, moved = s->split ? PAGEHINT_SECTION_FRAMES : 0;
			atomic_fetch_add(&head->begun, moved);
			if (atomic_fetch_and(&whole[i], ~bit) & bit) {
				s->place = (struct ph_place) { slot, PH_WHOLE_LEVEL, 0, 0, PH_WHOLE_LEVEL, 0 };
				return 1;
			}
			atomic_fetch_add(&head->ended, moved);
		}
	}
	return 0;
}

/* Every word of the level. Never bounded: it is what a refusal stands on. */
static int search_blind(struct search *s)
{
	uint32_t slots = (uint32_t)atomic_load(&s->z->used_slots), words = PH_L0_WORDS >> (6 * s->level);
	if (s->level == PH_WHOLE_LEVEL)
		return search_whole(s);
	for (uint32_t slot = 0; slot < slots; slot++) {
		for (uint32_t word = 0; word < words; word++) {
			uint64_t v = atomic_load(ph_zone_level_word(s->z, slot, s->level, word));
			if (v != 0 && take_runs(s, slot, word, v, ph_level_class(v)))
				return 1;
		}
	}
	return 0;
}

/*
 * Single frames fill from below, window by window: that is what keeps high granules whole. Bigger runs go where they fit
 * tightest, wherever that is: that is what keeps big runs whole.
 */
static int search(struct search *s)
{
	if (s->level == PH_WHOLE_LEVEL)
		return search_whole(s);
	if (s->level == 0 && s->order == 0)
		return search_classes(s, 0, PH_CLASSES - 1);
	for (uint32_t c = s->order; c < PH_CLASSES; c++)
		if (search_classes(s, c, c))
			return 1;
	return 0;
}

/* The block that was found is ours: keep s->mask of a word on `level` at its lowest end, publish the rest on the way down. */
static void split_down(struct search *s, uint32_t level)
{
	struct pagehint_zone *z = s->z;
	struct ph_place *p = &s->place;
	uint64_t moved = s->split ? block_frames(p->level) : 0;
	uint32_t index = p->level == PH_WHOLE_LEVEL ? 0 : (p->word << 6) + p->bit;
	for (uint32_t k = p->level; k-- > level; index <<= 6) {
		uint64_t rest = k == level ? ~s->mask : ~UINT64_C(1);
		if (rest == 0)
			continue;
		/* these frames were free all along: they are published, not put */
		atomic_fetch_or(ph_zone_level_word(z, p->slot, k, index), rest);
		ph_summary_widen(z, p->slot, k, index, ph_level_class(rest));
	}
	p->level = level;
	p->word = index >> 6;
	p->bit = 0;
	if (moved != 0)
		atomic_fetch_add(&ph_zone_head(z, p->slot)->ended, moved);
}

static inline struct search begin(struct pagehint_zone *z, uint32_t order, uint32_t want)
{
	struct search s = {
		.z = z, .mask = 1, .level = order / 6, .order = order % 6, .want = want, .left = SEARCH_WORDS
	};
	return s;
}

/* Nothing on the level itself: breaks the best block of the lowest level above that has one. */
static PH_NOINLINE int climb(struct search *s, uint32_t want, int (*look)(struct search *s))
{
	uint32_t level = s->level, run = s->order, room = 64u >> run;
	uint64_t keep = ph_low_mask((want < room ? want : room) << run);
	s->order = 0;
	s->want = 1;
	do {
		s->level++;
		/* a block that is taken whole leaves nothing to publish: it is not between two levels at any time */
		s->split = s->level != level + 1 || keep != PH_FULL;
	} while (s->level <= PH_WHOLE_LEVEL && !look(s));
	if (s->level > PH_WHOLE_LEVEL)
		return s->left > 0 ? -ENOSPC : -EAGAIN;
	s->mask = keep;
	split_down(s, level);
	return 0;
}

int ph_level_search(struct pagehint_zone *z, uint32_t order, uint32_t want, struct ph_place *ret, uint64_t *ret_mask)
{
	struct search s = begin(z, order, want);
	int r = ph_likely(search(&s)) ? 0 : climb(&s, want, search);
	if (ph_unlikely(r < 0))
		return r;
	*ret = s.place;
	*ret_mask = s.mask;
	return 0;
}

int ph_level_search_blind(struct pagehint_zone *z, uint32_t order, uint32_t want, struct ph_place *ret,
			  uint64_t *ret_mask)
{
	struct search s = begin(z, order, want);
	int r = search_blind(&s) ? 0 : climb(&s, want, search_blind);
	if (r < 0)
		return r;
	*ret = s.place;
	*ret_mask = s.mask;
	return 0;
}

int ph_level_take(struct pagehint_zone *z, uint32_t order, uint32_t want, struct ph_place *ret, uint64_t *ret_mask)
{
	int r = ph_level_search(z, order, want, ret, ret_mask);
	if (r == 0)
		atomic_fetch_add(&ph_zone_head(z, ret->slot)->taken,
				 (uint64_t)ph_popcount(*ret_mask) * block_frames(order / 6));
	return r;
}
