/*
 * partial: which 4 KiB pages of a larger host page are inflated, until all of them are.
 *
 * The problem: the balloon's unit is 4 KiB, a host page may be 16 KiB to 1 GiB, and only a whole one may be discarded. It was
 * discarded when the first part came in; and what was known of the parts outlived a deflate, or a region, when it was keyed by a
 * pointer. Why this shape: a hash table of blocks of 512 pages, one bit a page, keyed by region id (never used again), place and
 * page size; host pages above 2 MiB have a second level, one bit a whole block. Full: an old block is forgotten, which costs a
 * later discard and is never wrong.
 * Not here: regions, discarding. Owns: nothing; the memory is the caller's. Called from: inflate, deflate, save, load.
 * Invariants: a page is whole only when every bit of it was set since the last void; a deflated page's bit is clear.
 */
#ifndef PH_VIRTIO_PARTIAL_H
#define PH_VIRTIO_PARTIAL_H

#include <stddef.h>
#include <stdint.h>

#define PH_PARTIAL_BLOCK 512u                   /* pages of a block: 2 MiB */
#define PH_PARTIAL_PAGE_MAX (UINT64_C(1) << 18) /* pages of the largest host page: 1 GiB */
#define PH_PARTIAL_WORDS 8u

/* one larger host page */
struct ph_partial_page {
	uint64_t region;
	uint64_t
		first; /* its first 4 KiB page, a multiple of `pages`, counted from wherever its region's pages align */
	uint64_t pages; /* a power of two, 2 .. PH_PARTIAL_PAGE_MAX */
	uint64_t
		delta; /* what was added to guest page numbers to come to `first`; for saved states, no part of the key */
};

struct ph_partial_block {
	uint64_t region;
	uint64_t first; /* of the block; of the page, on the second level */
	uint32_t shift; /* log2 of the host page's pages */
	uint16_t level;
	uint16_t count; /* bits set, 1 .. 512; 0 = free place */
	uint64_t delta; /* as in ph_partial_page */
	uint64_t bits[PH_PARTIAL_WORDS];
};

struct ph_partial {
	struct ph_partial_block *place; /* a power of two of them, at least twice max */
	uint32_t places;
	uint32_t max;
	uint32_t n;
	uint32_t hand;      /* where the next victim is looked for */
	uint64_t pages;     /* 4 KiB pages remembered */
	uint64_t forgotten; /* blocks, for want of room */
};

/* Bytes of memory for `max` blocks. */
size_t ph_partial_bytes(uint32_t max);
/* memory: zeroed, 8-byte aligned. */
void ph_partial_init(struct ph_partial *t, void *memory, uint32_t max);
void ph_partial_clear(struct ph_partial *t);

/* Pages [at, at + n) of the page are inflated now. Returns 1 when that makes it whole: it is forgotten then; else 0. */
int ph_partial_add(struct ph_partial *t, const struct ph_partial_page *page, uint64_t at, uint64_t n);
/* Page `at` of it is in use again: nothing of the page (of its block, when it is larger than one) is inflated any more. */
void ph_partial_void(struct ph_partial *t, const struct ph_partial_page *page, uint64_t at);
/* All of it came in at once. */
void ph_partial_forget(struct ph_partial *t, const struct ph_partial_page *page);

/* The first block at place `from` or later; NULL: no more. *ret_next: where to go on. */
const struct ph_partial_block *ph_partial_next(const struct ph_partial *t, uint32_t from, uint32_t *ret_next);
/* Could there be such a block? And: puts one in as it was saved (count is ignored). -EINVAL if there is one like it; -ENOSPC. */
int ph_partial_is_sane(const struct ph_partial_block *block);
int ph_partial_put(struct ph_partial *t, const struct ph_partial_block *block);

#endif
