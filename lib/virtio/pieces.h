/*
 * pieces: the ranges that one request names, on their way to become maximal runs.
 *
 * The problem: a guest names pages in any order, and some twice; one call a page is many times slower than one a run. Why this
 * shape: a range that continues the last one, upwards or downwards, is joined at once; whatever is left is sorted and joined at
 * the end. Not here: whether a range may be discarded. Owns nothing; the array is the caller's.
 * Invariants: a piece lies in one region; after settling pieces ascend, are disjoint, and no two of one region touch.
 */
#ifndef PH_VIRTIO_PIECES_H
#define PH_VIRTIO_PIECES_H

#include <stdint.h>

struct ph_piece {
	uint64_t page; /* of 4 KiB */
	uint64_t pages;
	uint64_t region; /* id */
};

struct ph_pieces {
	struct ph_piece *piece; /* max of them */
	uint32_t n;
	uint32_t max;
	uint32_t unsorted;
	uint32_t reserved;
	uint64_t pages; /* in all, twice named ones twice */
};

static inline void ph_pieces_clear(struct ph_pieces *p)
{
	p->n = 0;
	p->unsorted = 0;
	p->pages = 0;
}

/* Is there room whatever comes? */
static inline int ph_pieces_full(const struct ph_pieces *p)
{
	return p->n >= p->max;
}

/* Adds a range; there must be room. */
static inline void ph_pieces_add(struct ph_pieces *p, uint64_t page, uint64_t pages, uint64_t region)
{
	p->pages += pages;
	if (p->n != 0) {
		struct ph_piece *last = &p->piece[p->n - 1];
		if (last->region == region && last->page + last->pages == page) {
			last->pages += pages;
			return;
		}
		if (last->region == region && page + pages == last->page) {
			last->page = page;
			last->pages += pages;
			p->unsorted |= p->n > 1 && last[-1].page > page;
			return;
		}
		p->unsorted |= last->page > page;
	}
	p->piece[p->n++] = (struct ph_piece) { page, pages, region };
}

/* Sorts and joins. Returns how many pages had been named more than once. Cost: O(n log n), O(n) when they came in order. */
uint64_t ph_pieces_settle(struct ph_pieces *p);

#endif
