/*
 * state: how a bitmap lies in memory, and the few words the other files of this room and the bitmap origin share.
 *
 * The problem: many threads set and clear bits, some take whole runs away, one looks whether bits have stayed set; none may
 * wait for another, and a state without pointers must work at any address. Why this shape: an index finds a section's slot;
 * a slot has planes of 512 words, each plane of all slots together, so that a plane nobody uses is never touched:
 *     words     the bits themselves
 *     tried     bits that a take_run is trying to get: takers exclude each other here, and a take that fails leaves `words`
 *               as it was, so that no clear is undone by a taker that gives up
 *     marks     looked: was set when the origin looked, and not cleared since; reported: discarded, and not cleared since.
 *               Kept only while an origin watches the bitmap; all zero otherwise
 * Owns: nothing; the memory is the caller's. Called from: any thread.
 * Invariants:
 *  - a slot's `set` and the bitmap's `count` are never less than the bits set (a setter adds before it sets, a clearer
 *    subtracts after it has cleared) and equal to them at rest;
 *  - a bit of `tried` is changed only by the taker that set it;
 *  - whoever clears a bit of `words` clears its marks after it; whoever sets a `looked` mark reads `words` again after it.
 *    So a mark survives only on a bit that stayed set since the mark was made.
 *  - a slot that no section uses is all zero.
 * Everything is sequentially consistent; the proofs beside the code rely on it.
 */
#ifndef PH_BITMAP_STATE_H
#define PH_BITMAP_STATE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <pagehint/bitmap.h>

#include "base/bits.h"

#define PH_BITMAP_MAGIC UINT64_C(0x70616d7469626870) /* "phbitmap" when little-endian */
#define PH_BITMAP_LAYOUT 1u
#define PH_BITMAP_ENDIAN UINT32_C(0x01020304)

#define PH_SECTION_BITS ((uint64_t)PAGEHINT_BITMAP_SECTION_BITS)
#define PH_SECTION_WORDS (PAGEHINT_BITMAP_SECTION_BITS / 64)
#define PH_NO_SLOT UINT64_MAX

/* one place of the index; key = section + 1, 0 = never used, UINT64_MAX = used once */
struct ph_bitmap_entry {
	_Atomic uint64_t key;
	_Atomic uint64_t slot;
};

struct ph_bitmap_head {
	_Atomic uint64_t set;   /* bits set in the section, at least */
	_Atomic uint64_t races; /* how often a clear got in between a taker's look and its take */
	uint64_t next_free;     /* slot + 1 of the next free slot, 0 = last; the writer's */
	uint64_t reserved[5];
};

struct ph_bitmap_marks {
	_Atomic uint64_t looked;
	_Atomic uint64_t reported;
};

/* Written at init, except: the writer's (add and remove), and what is atomic. Offsets count from the handle. */
struct pagehint_bitmap {
	uint64_t magic;
	uint32_t layout;
	uint32_t endian;
	uint64_t bytes;
	uint64_t span;
	uint64_t sections;     /* of the span */
	uint64_t max_sections; /* slots */
	uint64_t entries;      /* of the index; == sections: section s has entry s; otherwise hashed */
	uint64_t at_entries;
	uint64_t at_heads;
	uint64_t at_words;
	uint64_t at_tried;
	uint64_t at_marks;
	uint64_t slack; /* of pagehint_bitmap_new: how far the handle lies behind the allocation */
	uint64_t present;
	uint64_t fresh;     /* slots from here on were never used */
	uint64_t free_slot; /* slot + 1 of the first slot to use again, 0 = none */
	_Atomic uint32_t watched;
	uint32_t reserved[15];
	_Atomic uint64_t count; /* changed by every call: on a cache line of its own */
	uint64_t reserved2[7];
	_Atomic uint64_t handed_out; /* reported bits that were cleared since the origin came */
	uint64_t reserved3[7];
};

_Static_assert(sizeof(struct pagehint_bitmap) == 320, "the layout is the same for every process");

static inline void *ph_bitmap_at(const struct pagehint_bitmap *b, uint64_t offset)
{
	return (void *)((uintptr_t)b + (uintptr_t)offset);
}

static inline struct ph_bitmap_head *ph_bitmap_head(const struct pagehint_bitmap *b, uint64_t slot)
{
	return ph_bitmap_at(b, b->at_heads + slot * sizeof(struct ph_bitmap_head));
}

static inline _Atomic uint64_t *ph_bitmap_words(const struct pagehint_bitmap *b, uint64_t slot)
{
	return ph_bitmap_at(b, b->at_words + slot * PH_SECTION_WORDS * sizeof(uint64_t));
}

static inline _Atomic uint64_t *ph_bitmap_tried(const struct pagehint_bitmap *b, uint64_t slot)
{
	return ph_bitmap_at(b, b->at_tried + slot * PH_SECTION_WORDS * sizeof(uint64_t));
}

static inline struct ph_bitmap_marks *ph_bitmap_marks(const struct pagehint_bitmap *b, uint64_t slot)
{
	return ph_bitmap_at(b, b->at_marks + slot * PH_SECTION_WORDS * sizeof(struct ph_bitmap_marks));
}

static inline unsigned ph_bitmap_word_of(uint64_t bit)
{
	return (unsigned)(bit % PH_SECTION_BITS / 64);
}

/* the bits of [first, end) that lie in the word which has `first` */
static inline uint64_t ph_bitmap_mask(uint64_t first, uint64_t end)
{
	unsigned low = (unsigned)(first % 64);
	return ph_mask(low, end - first < 64 - low ? (unsigned)(end - first) : 64 - low);
}

/* first bit of the word, of the section, after the one that has `bit`, but `end` at the most */
static inline uint64_t ph_bitmap_next(uint64_t bit, uint64_t step, uint64_t end)
{
	uint64_t next = bit - bit % step + step;
	return next < end ? next : end;
}

/* sections.c: the slot of a section, or PH_NO_SLOT */
uint64_t ph_bitmap_slot(const struct pagehint_bitmap *b, uint64_t section);
/* sections.c: the first present section at or after one; b->sections when there is none */
uint64_t ph_bitmap_present(const struct pagehint_bitmap *b, uint64_t section);

/* runs.c: the first bit of [from, to) that is set, or clear; `to` when there is none; absent sections are clear */
uint64_t ph_bitmap_find_set(const struct pagehint_bitmap *b, uint64_t from, uint64_t to);
uint64_t ph_bitmap_find_clear(const struct pagehint_bitmap *b, uint64_t from, uint64_t to);

/* take.c: what a taker wants besides set bits */
#define PH_TAKE_AGED 1u   /* only bits that are marked looked or reported */
#define PH_TAKE_REPORT 2u /* takes for the reporter: reported bits do not count as handed out */
/* take.c: pagehint_bitmap_take_run with flags; arguments are checked already, to <= span */
int ph_bitmap_take(struct pagehint_bitmap *b, uint64_t from, uint64_t to, uint64_t least, uint64_t most, uint64_t align,
		   uint32_t flags, struct pagehint_run *ret_run);

/* marks.c: starts to keep marks; -EBUSY somebody does already */
int ph_bitmap_watch(struct pagehint_bitmap *b);
/* marks.c: stops, and forgets all marks */
void ph_bitmap_unwatch(struct pagehint_bitmap *b);
/* marks.c: forgets the marks of a word's bits because they are handed out, or go to the reporter (PH_TAKE_REPORT) */
void ph_bitmap_unmark(struct pagehint_bitmap *b, struct ph_bitmap_marks *marks, uint64_t mask, uint32_t flags);
/* marks.c: remembers which bits of the word are set now */
void ph_bitmap_look(const struct pagehint_bitmap *b, uint64_t slot, unsigned word, uint64_t mask);
/* marks.c: marks bits as reported; those of absent sections are passed over */
void ph_bitmap_report(struct pagehint_bitmap *b, uint64_t first, uint64_t n);

#endif
