/*
 * search: finds and takes the best free block (the other half of level.h).
 *
 * Tightest class first on the lowest level that can serve, then one level up; within a class the lowest slot and word.
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
	struct ph_place *ret;
	uint64_t mask; /* what was taken of the word */
	uint32_t level;
	uint32_t order; /* of the run inside the word */
	uint32_t want;  /* how many runs of it */
	uint32_t split; /* what is taken will be split: bracket it as a move */
	uint32_t blind; /* look at the words, not at the summaries */
	int32_t left;   /* words that may still be looked at */
};

static uint64_t block_frames(uint32_t level)
{
	return UINT64_C(1) << (6 * level);
}

/* the lowest `want` runs of order o among those that start at `starts` */
static uint64_t pick(uint64_t starts, uint32_t o, uint32_t want)
{
	uint64_t mask = 0;
	if (o == 0 && want >= 64)
		return starts;
	for (; starts != 0 && want != 0; starts &= starts - 1, want--)
		mask |= ph_order_mask(o, ph_ctz(starts));
	return mask;
}

/* Takes the lowest runs of the wanted order out of one word. */
static int take_runs(struct search *s, uint32_t slot, uint32_t word)
{
	ph_word *p = ph_zone_level_word(s->z, slot, s->level, word);
	struct ph_section *head = ph_zone_head(s->z, slot);
	uint64_t moved = s->split ? block_frames(s->level) : 0;
	uint64_t v = atomic_load(p), starts;
	while ((starts = ph_runs(v, s->order)) != 0) {
		uint64_t mask = pick(starts, s->order, s->want);
		if (moved)
			atomic_fetch_add(&head->begun, moved);
		if (atomic_compare_exchange_strong(p, &v, v & ~mask)) {
			ph_summary_moved(s->z, slot, s->level, word, v, v & ~mask);
			*s->ret = (struct ph_place) { slot, s->level, word, ph_ctz(mask), s->level, v };
			s->mask = mask;
			return 1;
		}
		if (moved)
			atomic_fetch_add(&head->ended, moved);
	}
	return 0;
}

static int try_word(struct search *s, uint32_t slot, uint32_t word, int c)
{
	s->left--;
	if (take_runs(s, slot, word))
		return 1;
	ph_summary_narrow(s->z, slot, s->level, word, c);
	return 0;
}

static int search_level0(struct search *s, uint32_t slot, int c)
{
	const ph_word *sum = ph_zone_words(s->z, slot, s->z->at_sum0) + (uint32_t)c * 64;
	for (uint64_t top = atomic_load(&ph_zone_head(s->z, slot)->top0[c]); top != 0; top &= top - 1) {
		uint32_t a = ph_ctz(top);
		uint64_t words = atomic_load(&sum[a]);
		if (words == 0)
			ph_summary_drop_top(s->z, slot, c, a);
		for (; words != 0 && s->left > 0; words &= words - 1)
			if (try_word(s, slot, a * 64 + ph_ctz(words), c))
				return 1;
	}
	return 0;
}

static int search_slot(struct search *s, uint32_t slot, int c)
{
	struct ph_section *head = ph_zone_head(s->z, slot);
	int found = 0;
	if (s->level == 0)
		found = search_level0(s, slot, c);
	else if (s->level == 1)
		for (uint64_t words = atomic_load(&head->sum1[c]); words != 0 && !found && s->left > 0;
		     words &= words - 1)
			found = try_word(s, slot, ph_ctz(words), c);
	else
		found = try_word(s, slot, 0, c);
	if (!found && s->left > 0)
		ph_summary_drop_slot(s->z, slot, s->level, c);
	return found;
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
				*s->ret = (struct ph_place) { slot, PH_WHOLE_LEVEL, 0, 0, PH_WHOLE_LEVEL, 0 };
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
	for (uint32_t slot = 0; slot < slots; slot++) {
		const struct ph_section *head = ph_zone_head(s->z, slot);
		uint64_t taken = atomic_load(&head->taken); /* before `put`: never fewer than are there */
		if (atomic_load(&head->put) - taken < block_frames(s->level) << s->order)
			continue;
		for (uint32_t word = 0; word < words; word++)
			if (take_runs(s, slot, word))
				return 1;
	}
	return 0;
}

static int search(struct search *s)
{
	if (s->level == PH_WHOLE_LEVEL)
		return search_whole(s);
	if (s->blind)
		return search_blind(s);
	uint32_t words = (uint32_t)((atomic_load(&s->z->used_slots) + 63) / 64);
	for (int c = (int)s->order; c < (int)PH_CLASSES; c++) {
		const ph_word *sum = ph_zone_sum(s->z, s->level, (uint32_t)c);
		for (uint32_t i = 0; i < words; i++)
			for (uint64_t slots = atomic_load(&sum[i]); slots != 0 && s->left > 0; slots &= slots - 1)
				if (search_slot(s, i * 64 + ph_ctz(slots), c))
					return 1;
	}
	return 0;
}

/* The block at *p is ours: keep `keep` of a word on `level` at its lowest end, publish the rest on the way down. */
static void split_down(struct pagehint_zone *z, struct ph_place *p, uint32_t level, uint64_t keep)
{
	uint64_t moved = block_frames(p->level);
	uint32_t index = p->level == PH_WHOLE_LEVEL ? 0 : (p->word << 6) + p->bit;
	for (uint32_t k = p->level; k-- > level; index <<= 6) {
		uint64_t rest = k == level ? ~keep : ~UINT64_C(1);
		if (rest == 0)
			continue;
		/* these frames were free all along: they are published, not put */
		atomic_fetch_or(ph_zone_level_word(z, p->slot, k, index), rest);
		ph_summary_widen(z, p->slot, k, index, ph_level_class(rest));
	}
	p->level = level;
	p->word = index >> 6;
	p->bit = 0;
	atomic_fetch_add(&ph_zone_head(z, p->slot)->ended, moved);
}

static int take(struct pagehint_zone *z, uint32_t order, uint32_t want, uint32_t blind, struct ph_place *ret,
		uint64_t *ret_mask)
{
	struct ph_place p;
	struct search s = { z, &p, 1, order / 6, order % 6, want, 0, blind, SEARCH_WORDS };
	uint32_t level = s.level;
	if (!search(&s)) {
		uint32_t run = s.order, room = 64u >> run;
		s.order = 0;
		s.want = 1;
		s.split = 1;
		do
			s.level++;
		while (s.level <= PH_WHOLE_LEVEL && !search(&s));
		if (s.level > PH_WHOLE_LEVEL)
			return s.left > 0 ? -ENOSPC : -EAGAIN;
		s.mask = ph_low_mask((want < room ? want : room) << run);
		split_down(z, &p, level, s.mask);
	}
	atomic_fetch_add(&ph_zone_head(z, p.slot)->taken, (uint64_t)ph_popcount(s.mask) * block_frames(level));
	*ret = p;
	*ret_mask = s.mask;
	return 0;
}

int ph_level_take(struct pagehint_zone *z, uint32_t order, uint32_t want, struct ph_place *ret, uint64_t *ret_mask)
{
	return take(z, order, want, 0, ret, ret_mask);
}

int ph_level_take_blind(struct pagehint_zone *z, uint32_t order, uint32_t want, struct ph_place *ret,
			uint64_t *ret_mask)
{
	return take(z, order, want, 1, ret, ret_mask);
}
