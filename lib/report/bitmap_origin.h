/*
 * bitmap_origin: an embedder's allocator behind a bitmap of free frames, as the reporter sees it.
 *
 * The problem: which frames stayed free since the last look, and which were reported already, must be known although the
 * embedder says nothing but set (freed) and clear (handed out). Why this shape: the bitmap itself keeps two marks a bit while
 * an origin watches it (bitmap/state.h); a clear drops them, so whatever was handed out in between is young and unreported.
 * Not here: the callbacks' work. Owns: a copy of the options. Called from: the reporter's thread only; the embedder's threads
 * set and clear meanwhile.
 * Files: bitmap_origin.c (the ops table, release, how much is free), bitmap_harvest.c (harvest).
 */
#ifndef PH_REPORT_BITMAP_ORIGIN_H
#define PH_REPORT_BITMAP_ORIGIN_H

#include <stdint.h>

#include <pagehint/origin.h>

#include "bitmap/state.h"

#define PH_BITMAP_ORIGIN_MAX_ORDER 15u /* one section */

struct ph_bitmap_origin {
	struct pagehint_bitmap *bitmap;
	struct pagehint_bitmap_origin_opts opts; /* the defaults are filled in */
	uint64_t dropped_runs;                   /* that isolate refused */
	uint64_t dropped_frames;
};

/* Some bits of one word, or of all words of one block: what could be reported. */
struct ph_bitmap_view {
	uint64_t free;     /* set */
	uint64_t whole;    /* of them: in wholly free blocks of the order */
	uint64_t old;      /* of whole: in blocks that stayed free since the last look, or were reported */
	uint64_t reported; /* of whole: in blocks that were reported and not handed out since */
};

/* The view of a word at an order of at most 6; only the bits of the mask count. */
struct ph_bitmap_view ph_bitmap_view_word(const struct pagehint_bitmap *b, uint64_t slot, unsigned word, uint64_t mask,
					  uint32_t order);

/* bitmap_harvest.c */
int ph_bitmap_origin_harvest(void *ctx, const struct pagehint_harvest *ask, struct pagehint_run *runs,
			     struct pagehint_harvested *ret);

#endif
