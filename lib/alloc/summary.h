/*
 * summary: which words have a free run of which class, kept so that it never claims too little; see level.h.
 *
 * A chain of bits for each class: level 0 has sum0 (a bit a word), above it top0; level 1 has sum1; over all of them are the
 * bitmaps over slots, and over those `ups`. Who turns a bit on sees to the bit above it; who finds it on need not: whoever
 * turned it on does, and whoever turned the one above off meanwhile looks again at what is below.
 *
 * Owns: sum0, top0, sum1 of each slot, the bitmaps over slots and those over them. Called from: level.c, search.c and block.c, and
 * evict.c, restore.c, recover.c, repair.c for whom somebody dies.
 * Invariant, whenever no operation is half done: a word with class c has its bit set in the summary of class c or of a bigger one,
 * and in every summary above that. Of a bigger one only while a cache takes from the word (block.c): a search for what is in it
 * looks there, too, only later.
 */
#ifndef PH_ALLOC_SUMMARY_H
#define PH_ALLOC_SUMMARY_H

#include "alloc/level.h"
#include "alloc/zone.h"

/* sum0[c][a] was seen empty, or all of a level in a slot, or a word of the bitmap over slots: forget the bit above, look again. */
void ph_summary_drop_top(struct pagehint_zone *z, uint32_t slot, int c, uint32_t a);
void ph_summary_drop_slot(struct pagehint_zone *z, uint32_t slot, uint32_t level, int c);
void ph_summary_drop_up(struct pagehint_zone *z, uint32_t level, int c, uint32_t i);

/* Says what every word of the slot has from `level` on, in each summary, whatever these say now: somebody died over one. */
void ph_summary_mend(struct pagehint_zone *z, uint32_t slot, uint32_t level);

/* Turns a bit on; 1 = it was off. */
static inline int ph_summary_say(ph_word *word, uint32_t bit)
{
	uint64_t mask = UINT64_C(1) << bit;
	if (ph_likely(atomic_load(word) & mask))
		return 0;
	atomic_fetch_or(word, mask);
	return 1;
}

static inline ph_word *ph_summary_sum0(const struct pagehint_zone *z, uint32_t slot, int c)
{
	return ph_zone_words(z, slot, z->at_sum0) + (uint32_t)c * 64;
}

static inline void ph_summary_widen_slot(struct pagehint_zone *z, uint32_t slot, uint32_t level, int c)
{
	if (ph_summary_say(&ph_zone_sum(z, level, (uint32_t)c)[slot / 64], slot % 64))
		ph_summary_say(&ph_zone_up(z, level, (uint32_t)c)[slot / 4096], slot / 64 % 64);
}

static inline void ph_summary_widen_top(struct pagehint_zone *z, uint32_t slot, int c, uint32_t a)
{
	if (ph_summary_say(&ph_zone_head(z, slot)->top0[c], a))
		ph_summary_widen_slot(z, slot, 0, c);
}

/* The word has (at least for a moment had) class c: make every summary say so. */
static inline void ph_summary_widen(struct pagehint_zone *z, uint32_t slot, uint32_t level, uint32_t word, int c)
{
	if (level == 0) {
		if (ph_summary_say(&ph_summary_sum0(z, slot, c)[word / 64], word % 64))
			ph_summary_widen_top(z, slot, c, word / 64);
	} else if (level == 2 || ph_summary_say(&ph_zone_head(z, slot)->sum1[c], word)) {
		ph_summary_widen_slot(z, slot, level, c);
	}
}

/* The word seems to have class c no longer: stop saying so, look again at the word, and say what it has now. */
static inline void ph_summary_narrow(struct pagehint_zone *z, uint32_t slot, uint32_t level, uint32_t word, int c)
{
	ph_word *sum = level == 0   ? &ph_summary_sum0(z, slot, c)[word / 64]
		       : level == 1 ? &ph_zone_head(z, slot)->sum1[c]
				    : &ph_zone_sum(z, 2, (uint32_t)c)[slot / 64];
	uint32_t bit = level < 2 ? word % 64 : slot % 64;
	atomic_fetch_and(sum, ~(UINT64_C(1) << bit));
	int now = ph_level_class(atomic_load(ph_zone_level_word(z, slot, level, word)));
	if (now >= 0)
		ph_summary_widen(z, slot, level, word, now);
}

/* After bits were taken: the word went from class `was` to what it is `now`. */
static inline void ph_summary_moved(struct pagehint_zone *z, uint32_t slot, uint32_t level, uint32_t word, int was,
				    uint64_t now)
{
	int is = ph_level_class(now);
	if (was == is)
		return;
	if (is >= 0)
		ph_summary_widen(z, slot, level, word, is);
	ph_summary_narrow(z, slot, level, word, was);
}

#endif
