#include "virtio/pieces.h"

/* Heap sort: in place, and O(n log n) for whatever order a guest thinks up. */
static void sift(struct ph_piece *piece, uint32_t root, uint32_t n)
{
	struct ph_piece moving = piece[root];
	for (;;) {
		uint32_t child = 2 * root + 1;
		if (child >= n)
			break;
		if (child + 1 < n && piece[child + 1].page > piece[child].page)
			child++;
		if (piece[child].page <= moving.page)
			break;
		piece[root] = piece[child];
		root = child;
	}
	piece[root] = moving;
}

static void sort(struct ph_piece *piece, uint32_t n)
{
	for (uint32_t i = n / 2; i-- > 0;)
		sift(piece, i, n);
	for (uint32_t i = n; i-- > 1;) {
		struct ph_piece largest = piece[0];
		piece[0] = piece[i];
		piece[i] = largest;
		sift(piece, 0, i);
	}
}

uint64_t ph_pieces_settle(struct ph_pieces *p)
{
	uint64_t twice = 0;
	uint32_t n = 0;
	if (p->unsorted)
		sort(p->piece, p->n);
	p->unsorted = 0;
	for (uint32_t i = 0; i < p->n; i++) {
		struct ph_piece *last = n == 0 ? 0 : &p->piece[n - 1];
		const struct ph_piece here = p->piece[i];
		if (last == 0 || last->region != here.region || last->page + last->pages < here.page) {
			p->piece[n++] = here;
			continue;
		}
		uint64_t end = last->page + last->pages, here_end = here.page + here.pages;
		uint64_t overlap = (end < here_end ? end : here_end) - here.page;
		twice += overlap;
		if (here_end > end)
			last->pages += here_end - end;
	}
	p->n = n;
	p->pages -= twice;
	return twice;
}
