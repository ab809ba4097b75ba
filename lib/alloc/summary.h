/*
 * summary: which words have a free run of which class, kept so that it never claims too little; see level.h.
 *
 * Owns: sum0, top0, sum1 of each slot and the bitmaps over slots. Called from: level.c and search.c only.
 * Invariant, whenever no operation is half done: a word with class c has its bit set in the summary of class c, and in every
 * summary above it.
 */
#ifndef PH_ALLOC_SUMMARY_H
#define PH_ALLOC_SUMMARY_H

#include "alloc/zone.h"

/* The word has (at least for a moment had) class c: make every summary say so. */
void ph_summary_widen(struct pagehint_zone *z, uint32_t slot, uint32_t level, uint32_t word, int c);

/* The word seems to have class c no longer: stop saying so, look again at the word, and say what it has now. */
void ph_summary_narrow(struct pagehint_zone *z, uint32_t slot, uint32_t level, uint32_t word, int c);

/* After bits were taken: the word went from `old` to `now`. */
void ph_summary_moved(struct pagehint_zone *z, uint32_t slot, uint32_t level, uint32_t word, uint64_t old,
		      uint64_t now);

/* sum0[c][a] was seen empty, or all of a level in a slot was: forget the bit above, look again. */
void ph_summary_drop_top(struct pagehint_zone *z, uint32_t slot, int c, uint32_t a);
void ph_summary_drop_slot(struct pagehint_zone *z, uint32_t slot, uint32_t level, int c);

#endif
