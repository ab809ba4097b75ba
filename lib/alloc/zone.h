/*
 * zone: the state of a zone as it lies in memory, and where to find each part of it.
 *
 * The problem: the state must cost next to nothing where no frame is, be usable from shared memory (no pointers), and let
 * every room of the allocator find its words without knowing the others. Why this shape: one header, then arrays at offsets
 * fixed at init; a table from section number to slot makes the zone sparse; all that belongs to a slot lies in one piece.
 * Not here: what the words mean to an operation (level.h, track.h, sets.h, cache.h).
 * Owns: the layout. Called from: every file of this room.
 *
 * Words of a slot (64-bit, atomic):
 *   level 0   4096 words   bit = frame        level 1  64 words  bit = 64 frames      level 2  1 word (in the head)
 *             (in tracked zones the out word of level 0 stands beside each: a free needs one cache line for both)
 *   sum0      6 x 64 words bit = level-0 word whose largest run has this class (head: which of the 64 are not zero)
 *   present   64 words     bit = 64 frames that exist (all slots' side by side: adding memory touches nothing else of a slot)
 *   out       4096 + 64 (+ 1 in the head) words: what is in the embedder's hands, by the level it was allocated on
 *   tail      4096 + 64 (+ 1 in the head) words, strict zones: set for all but the first bit of a block
 *   dirty     4096 words, ladder zones: handed out since it was last discarded
 *   unclean   4096 words, scrub zones: may hold old bytes, see scrub.h
 *   stale, touched, aged   one bit a granule, see sets.h
 *   held, evicted, filling one bit a granule, shared zones: see evict.h and install.c
 *
 * A shared zone begins 64 KiB before its live words: every process that attaches lays pages of its own over what comes before
 * them, so that nobody else can move an offset under it. The handle points in there, so that all of it is one struct.
 */
#ifndef PH_ALLOC_ZONE_H
#define PH_ALLOC_ZONE_H

#include <stdatomic.h>
#include <stdint.h>

#include <pagehint/zone.h>

#include "base/bits.h"
#include "base/compiler.h"

#define PH_ZONE_MAGIC UINT64_C(0x656e6f7a74686770)
#define PH_ZONE_LAYOUT 2u
#define PH_ZONE_ENDIAN 0x01020304u

#define PH_SECTION_SHIFT 18u
#define PH_CLASSES 6u         /* orders of a run inside a word that a summary tells apart */
#define PH_WHOLE_LEVEL 3u     /* the level above the words: whole sections */
#define PH_PRESENT_FRAMES 64u /* granularity of add and remove */

#define PH_L0_WORDS 4096u
#define PH_L1_WORDS 64u
#define PH_PRESENT_WORDS 64u
#define PH_SHARED_HEAD 65536u /* of a shared zone: before its live words */
#define PH_HOST_DOUBTS 8u

typedef _Atomic uint64_t ph_word;

/* What is looked at often of a slot, densely packed beside the other slots' heads. */
struct ph_section {
	ph_word number_plus1; /* section number + 1; 0 = the slot is unused */
	ph_word put;          /* frames ever put into the tree, but by caches, which count their own */
	ph_word taken;        /* frames ever taken out of it, likewise; all put - all taken is what is free */
	ph_word begun;        /* frames that began to move between levels ... */
	ph_word ended;        /* ... and arrived; begun - ended are in transit */
	ph_word splits_begun; /* operations that turn an out bit of a big block into bits of small ones ... */
	ph_word splits_ended; /* ... and are through */
	ph_word level2;
	ph_word out2;
	ph_word out3; /* bit 0: the whole section is out as one block */
	ph_word tail2;
	ph_word top0[PH_CLASSES]; /* bit a: sum0[class][a] is not zero */
	ph_word sum1[PH_CLASSES]; /* bit w: level-1 word w has this class */
	ph_word reserved;
};

struct pagehint_zone {
	uint64_t magic;
	uint32_t layout;
	uint32_t endian;
	uint64_t bytes;
	uint64_t max_sections;
	uint64_t span_sections;
	uint32_t flags;
	uint32_t frame_shift;
	uint32_t granule_order;
	uint32_t max_caches;
	uint32_t granule_words; /* words of each reporting set of a slot */
	uint32_t section_words; /* words of a slot */
	uint32_t bitmap_words;  /* words of a bitmap over slots */
	uint32_t lent_shift;    /* 32 - log2 of the places of the table of lent words */
	uint32_t up_words;      /* words of a bitmap over those */
	/* offsets inside a slot [words]; 0 = not there */
	uint32_t at_level1, at_sum0, at_out1, at_tail0, at_tail1, at_dirty, at_stale, at_touched, at_aged;
	uint32_t level0_stride; /* 2 in tracked zones: level 0 and its out words alternate */
	uint32_t from_new;      /* made by pagehint_zone_new: destroy unmaps it */
	uint32_t at_unclean, at_held, at_evicted, at_filling; /* as the offsets above */
	uint32_t lead;                                        /* bytes of the state before this struct */
	uint32_t owner;  /* of the caches that are opened through this handle: see shared.h */
	uint32_t mapped; /* made by pagehint_zone_attach: detach unmaps it */
	/* offsets inside the state [bytes] */
	uint64_t off_slots;    /* uint32_t[span_sections]: slot + 1 */
	uint64_t off_sums;     /* bitmaps over slots: [3 levels][6 classes], then whole sections */
	uint64_t off_ups;      /* of each of the first 18: which of its words are not zero */
	uint64_t off_heads;    /* struct ph_section[max_sections] */
	uint64_t off_present;  /* words of present frames, PH_PRESENT_WORDS a slot */
	uint64_t off_lent;     /* see lend.h */
	uint64_t off_caches;   /* struct pagehint_cache[max_caches] */
	uint64_t off_sections; /* words of the slots */
	_Alignas(64) ph_word total;
	ph_word isolated;
	ph_word in_flight;
	ph_word holding;    /* operations that hold frames they may give back: what they hold is neither free nor out */
	ph_word refaults;   /* frames of granules that were broken although they were reported or fresh */
	ph_word used_slots; /* slots below this may be in use */
	ph_word no_gap_below; /* slots below this are in use; with `sections` only for whoever adds and removes */
	ph_word sections;     /* slots in use */
	ph_word used_caches;
	ph_word origin;                   /* an origin is on this zone */
	ph_word scrubbed, zeroed, spared; /* see struct pagehint_scrub_stats */
	/* of the host, who alone writes them and never reads them but after a crash: see evict.h */
	_Alignas(64) ph_word host_put;
	ph_word host_taken;
	ph_word host_begun;
	ph_word host_ended;
	ph_word host_away; /* taken, and soon to return */
	ph_word host_held; /* taken for good */
	ph_word host_where, host_mask;
	ph_word host_doubt[2 * PH_HOST_DOUBTS];
};

/* A place in the tree: `mask` in word `word` of level `level` of a slot. On PH_WHOLE_LEVEL word and mask mean nothing. */
struct ph_place {
	uint32_t slot;
	uint32_t level;
	uint32_t word;
	uint32_t bit;  /* lowest bit of the mask */
	uint32_t from; /* the level it was found on; above `level` when blocks were split for it */
	uint64_t old;  /* the word on level `from` as it was just before */
};

static inline void *ph_zone_at(const struct pagehint_zone *z, uint64_t offset)
{
	return (void *)((uintptr_t)z + (uintptr_t)offset);
}

static inline struct ph_section *ph_zone_head(const struct pagehint_zone *z, uint32_t slot)
{
	return (struct ph_section *)ph_zone_at(z, z->off_heads) + slot;
}

/* the word array at offset `at` of a slot */
static inline ph_word *ph_zone_words(const struct pagehint_zone *z, uint32_t slot, uint32_t at)
{
	return (ph_word *)ph_zone_at(z, z->off_sections) + (uint64_t)slot * z->section_words + at;
}

static inline ph_word *ph_zone_level_word(const struct pagehint_zone *z, uint32_t slot, uint32_t level, uint32_t word)
{
	if (level == 0)
		return ph_zone_words(z, slot, word * z->level0_stride);
	if (level == 1)
		return ph_zone_words(z, slot, z->at_level1 + word);
	return &ph_zone_head(z, slot)->level2;
}

/* bitmap over slots: which have a word of this class on this level */
static inline ph_word *ph_zone_sum(const struct pagehint_zone *z, uint32_t level, uint32_t class_)
{
	return (ph_word *)ph_zone_at(z, z->off_sums) + (uint64_t)(level * PH_CLASSES + class_) * z->bitmap_words;
}

/* bitmap over the words of that bitmap */
static inline ph_word *ph_zone_up(const struct pagehint_zone *z, uint32_t level, uint32_t class_)
{
	return (ph_word *)ph_zone_at(z, z->off_ups) + (uint64_t)(level * PH_CLASSES + class_) * z->up_words;
}

/* bitmap over slots: sections that are one free block */
static inline ph_word *ph_zone_whole(const struct pagehint_zone *z)
{
	return ph_zone_sum(z, PH_WHOLE_LEVEL, 0);
}

static inline int ph_zone_is_whole(const struct pagehint_zone *z, uint32_t slot)
{
	return (int)(atomic_load(&ph_zone_whole(z)[slot / 64]) >> (slot % 64) & 1);
}

/* slot of the section that has `frame`; -1 if it is not present */
static inline int64_t ph_zone_slot(const struct pagehint_zone *z, uint64_t frame)
{
	uint64_t number = frame >> PH_SECTION_SHIFT;
	if (ph_unlikely(number >= z->span_sections))
		return -1;
	const _Atomic uint32_t *slots = ph_zone_at(z, z->off_slots);
	return (int64_t)atomic_load_explicit(&slots[number], memory_order_acquire) - 1;
}

/* first frame of the slot's section */
static inline uint64_t ph_zone_base(const struct pagehint_zone *z, uint32_t slot)
{
	uint64_t n = atomic_load_explicit(&ph_zone_head(z, slot)->number_plus1, memory_order_relaxed);
	return (n - 1) << PH_SECTION_SHIFT;
}

static inline uint32_t ph_zone_offset(uint64_t frame)
{
	return (uint32_t)(frame & (PAGEHINT_SECTION_FRAMES - 1));
}

/* names a level-0 word of the zone; never 0 */
static inline uint32_t ph_zone_word_name(uint32_t slot, uint32_t word)
{
	return slot * PH_L0_WORDS + word + 1;
}

static inline ph_word *ph_zone_present(const struct pagehint_zone *z, uint32_t slot)
{
	return (ph_word *)ph_zone_at(z, z->off_present) + (uint64_t)slot * PH_PRESENT_WORDS;
}

/* is the 64-frame group of this section offset present? */
static inline int ph_zone_is_present(const struct pagehint_zone *z, uint32_t slot, uint32_t offset)
{
	const ph_word *present = ph_zone_present(z, slot);
	return (int)(atomic_load_explicit(&present[offset >> 12], memory_order_relaxed) >> (offset >> 6 & 63) & 1);
}

static inline int ph_zone_is_tracked(const struct pagehint_zone *z)
{
	return !(z->flags & PAGEHINT_ZONE_UNTRACKED);
}

/* first frame (section offset) of a place */
static inline uint32_t ph_place_offset(const struct ph_place *p)
{
	return p->level == PH_WHOLE_LEVEL ? 0 : ((p->word << 6) + p->bit) << (6 * p->level);
}

/* the place of a block of `order` at a section offset */
static inline struct ph_place ph_place_of(uint32_t slot, uint32_t offset, uint32_t order)
{
	uint32_t level = order / 6, index = offset >> (6 * level);
	struct ph_place p = { slot, level, index >> 6, index & 63, level, 0 };
	return p;
}

/* its mask */
static inline uint64_t ph_order_mask(uint32_t order, uint32_t bit)
{
	return ph_low_mask(1u << (order % 6)) << bit;
}

/* the largest order of a block that starts at `offset` and is at most `frames` long */
static inline uint32_t ph_order_fitting(uint64_t offset, uint64_t frames)
{
	uint32_t by_size = 63 - (uint32_t)__builtin_clzll(frames);
	uint32_t by_place = offset == 0 ? PAGEHINT_ORDER_MAX : ph_ctz(offset);
	uint32_t order = by_size < by_place ? by_size : by_place;
	return order > PAGEHINT_ORDER_MAX ? PAGEHINT_ORDER_MAX : order;
}

#endif
