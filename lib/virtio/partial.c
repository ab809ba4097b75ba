#include "virtio/partial.h"

#include <errno.h>
#include <string.h>

#include "base/bits.h"

static uint32_t places_for(uint32_t max)
{
	uint32_t places = 4;
	while (places < 2 * max)
		places *= 2;
	return places;
}

size_t ph_partial_bytes(uint32_t max)
{
	return places_for(max) * sizeof(struct ph_partial_block);
}

void ph_partial_init(struct ph_partial *t, void *memory, uint32_t max)
{
	*t = (struct ph_partial) { .place = memory, .places = places_for(max), .max = max };
}

void ph_partial_clear(struct ph_partial *t)
{
	if (t->n != 0)
		memset(t->place, 0, t->places * sizeof(*t->place));
	t->n = 0;
	t->pages = 0;
}

static uint32_t home(const struct ph_partial *t, uint64_t region, uint64_t first, uint32_t level)
{
	uint64_t h = (region * UINT64_C(0x9e3779b97f4a7c15)) ^ (first / PH_PARTIAL_BLOCK + level);
	h *= UINT64_C(0xff51afd7ed558ccd);
	return (uint32_t)(h >> 32) & (t->places - 1);
}

static int is(const struct ph_partial_block *b, uint64_t region, uint64_t first, uint32_t shift, uint32_t level)
{
	return b->region == region && b->first == first && b->shift == shift && b->level == level;
}

/* Its place, or the free place where it would go. At most half of the places are taken, so there is one. */
static struct ph_partial_block *find(struct ph_partial *t, uint64_t region, uint64_t first, uint32_t shift,
				     uint32_t level)
{
	uint32_t at = home(t, region, first, level);
	while (t->place[at].count != 0 && !is(&t->place[at], region, first, shift, level))
		at = (at + 1) & (t->places - 1);
	return &t->place[at];
}

static uint64_t weight(const struct ph_partial_block *b)
{
	return b->level == 0 ? 1 : PH_PARTIAL_BLOCK;
}

/* Frees a place, and moves up what would not be found any more with a gap there. */
static void take_out(struct ph_partial *t, struct ph_partial_block *b)
{
	uint32_t mask = t->places - 1, gap = (uint32_t)(b - t->place), at = gap;
	t->pages -= b->count * weight(b);
	t->n--;
	for (;;) {
		at = (at + 1) & mask;
		const struct ph_partial_block *next = &t->place[at];
		if (next->count == 0)
			break;
		uint32_t from = home(t, next->region, next->first, next->level);
		if (((at - from) & mask) >= ((at - gap) & mask)) {
			t->place[gap] = *next;
			gap = at;
		}
	}
	memset(&t->place[gap], 0, sizeof(t->place[gap]));
}

static void make_room(struct ph_partial *t)
{
	if (t->n < t->max)
		return;
	while (t->place[t->hand].count == 0)
		t->hand = (t->hand + 1) & (t->places - 1);
	take_out(t, &t->place[t->hand]);
	t->hand = (t->hand + 1) & (t->places - 1);
	t->forgotten++;
}

static uint32_t shift_of(const struct ph_partial_page *page)
{
	return ph_ctz(page->pages);
}

static struct ph_partial_block *find_or_make(struct ph_partial *t, const struct ph_partial_page *page, uint64_t first,
					     uint32_t level)
{
	struct ph_partial_block *b = find(t, page->region, first, shift_of(page), level);
	if (b->count != 0)
		return b;
	make_room(t);
	b = find(t, page->region, first, shift_of(page), level); /* making room moves blocks */
	b->region = page->region;
	b->first = first;
	b->delta = page->delta;
	b->shift = shift_of(page);
	b->level = (uint16_t)level;
	t->n++;
	return b;
}

/* Sets or clears bits [at, at + n) of a block; a block without a bit is none. Returns 1 when it went. */
static int change(struct ph_partial *t, struct ph_partial_block *b, uint64_t at, uint64_t n, int set)
{
	uint32_t before = b->count, count = 0;
	for (uint64_t done = 0; done < n;) {
		unsigned word = (unsigned)((at + done) / 64), bit = (unsigned)((at + done) % 64);
		uint64_t part = n - done < 64 - bit ? n - done : 64 - bit;
		uint64_t mask = ph_mask(bit, (unsigned)part);
		b->bits[word] = set ? b->bits[word] | mask : b->bits[word] & ~mask;
		done += part;
	}
	for (unsigned i = 0; i < PH_PARTIAL_WORDS; i++)
		count += ph_popcount(b->bits[i]);
	if (count == 0) {
		b->count = (uint16_t)before;
		take_out(t, b);
		return 1;
	}
	t->pages += ((uint64_t)count - before) * weight(b);
	b->count = (uint16_t)count;
	return 0;
}

static int all_set(const struct ph_partial_block *b, uint64_t at, uint64_t n)
{
	for (uint64_t i = 0; i < n;) {
		unsigned bit = (unsigned)((at + i) % 64);
		uint64_t part = n - i < 64 - bit ? n - i : 64 - bit, mask = ph_mask(bit, (unsigned)part);
		if ((b->bits[(at + i) / 64] & mask) != mask)
			return 0;
		i += part;
	}
	return 1;
}

static uint64_t block_of(uint64_t page)
{
	return page & ~(uint64_t)(PH_PARTIAL_BLOCK - 1);
}

/* Adds to one block; 1 = the n_whole bits from whole_at on are all set now, and were taken out again. */
static int add_to(struct ph_partial *t, struct ph_partial_block *b, uint64_t at, uint64_t n, uint64_t whole_at,
		  uint64_t n_whole)
{
	(void)change(t, b, at, n, 1);
	if (!all_set(b, whole_at, n_whole))
		return 0;
	(void)change(t, b, whole_at, n_whole, 0);
	return 1;
}

/* A page above 2 MiB: its blocks first, then itself. */
static int add_large(struct ph_partial *t, const struct ph_partial_page *page, uint64_t at, uint64_t n)
{
	int whole = 0;
	for (uint64_t end = at + n; at < end && !whole;) {
		uint64_t in = at % PH_PARTIAL_BLOCK;
		uint64_t part = end - at < PH_PARTIAL_BLOCK - in ? end - at : PH_PARTIAL_BLOCK - in;
		struct ph_partial_block *b = find_or_make(t, page, block_of(page->first + at), 0);
		if (add_to(t, b, in, part, 0, PH_PARTIAL_BLOCK)) {
			b = find_or_make(t, page, page->first, 1);
			whole = add_to(t, b, at / PH_PARTIAL_BLOCK, 1, 0, page->pages / PH_PARTIAL_BLOCK);
		}
		at += part;
	}
	return whole;
}

int ph_partial_add(struct ph_partial *t, const struct ph_partial_page *page, uint64_t at, uint64_t n)
{
	if (page->pages > PH_PARTIAL_BLOCK)
		return add_large(t, page, at, n);
	uint64_t in = page->first % PH_PARTIAL_BLOCK;
	struct ph_partial_block *b = find_or_make(t, page, block_of(page->first), 0);
	return add_to(t, b, in + at, n, in, page->pages);
}

static void clear_bits(struct ph_partial *t, uint64_t region, uint64_t first, uint32_t shift, uint32_t level,
		       uint64_t at, uint64_t n)
{
	struct ph_partial_block *b = find(t, region, first, shift, level);
	if (b->count != 0)
		(void)change(t, b, at, n, 0);
}

void ph_partial_void(struct ph_partial *t, const struct ph_partial_page *page, uint64_t at)
{
	uint32_t shift = shift_of(page);
	if (t->n == 0)
		return;
	if (page->pages <= PH_PARTIAL_BLOCK) {
		clear_bits(t, page->region, block_of(page->first), shift, 0, page->first % PH_PARTIAL_BLOCK,
			   page->pages);
		return;
	}
	clear_bits(t, page->region, block_of(page->first + at), shift, 0, 0, PH_PARTIAL_BLOCK);
	clear_bits(t, page->region, page->first, shift, 1, at / PH_PARTIAL_BLOCK, 1);
}

void ph_partial_forget(struct ph_partial *t, const struct ph_partial_page *page)
{
	for (uint64_t at = 0; at < page->pages && t->n != 0; at += PH_PARTIAL_BLOCK)
		ph_partial_void(t, page, at);
}

/* ---- saved state ---- */

const struct ph_partial_block *ph_partial_next(const struct ph_partial *t, uint32_t from, uint32_t *ret_next)
{
	for (uint32_t at = from; at < t->places; at++)
		if (t->place[at].count != 0) {
			*ret_next = at + 1;
			return &t->place[at];
		}
	return NULL;
}

int ph_partial_is_sane(const struct ph_partial_block *block)
{
	uint64_t any = 0;
	uint32_t shift = block->shift;
	if (shift < 1 || shift > 18 || block->level > 1 || (block->level == 1 && shift <= 9))
		return 0;
	uint64_t align = block->level == 1 ? UINT64_C(1) << shift : PH_PARTIAL_BLOCK;
	if (block->first % align != 0)
		return 0;
	for (unsigned i = 0; i < PH_PARTIAL_WORDS; i++)
		any |= block->bits[i];
	if (any == 0)
		return 0;
	/* nothing that is whole is remembered, and no bit beyond the page */
	uint64_t unit = block->level == 1 ? UINT64_C(1) << (shift - 9)
			: shift < 9       ? UINT64_C(1) << shift
					  : PH_PARTIAL_BLOCK;
	for (uint64_t at = 0; at < PH_PARTIAL_BLOCK; at += unit)
		if (all_set(block, at, unit))
			return 0;
	for (uint64_t at = unit; block->level == 1 && at < PH_PARTIAL_BLOCK; at++)
		if (all_set(block, at, 1))
			return 0;
	return 1;
}

int ph_partial_put(struct ph_partial *t, const struct ph_partial_block *block)
{
	uint32_t count = 0;
	for (unsigned i = 0; i < PH_PARTIAL_WORDS; i++)
		count += ph_popcount(block->bits[i]);
	struct ph_partial_block *b = find(t, block->region, block->first, block->shift, block->level);
	if (count == 0 || b->count != 0)
		return -EINVAL;
	if (t->n == t->max)
		return -ENOSPC;
	*b = *block;
	b->count = (uint16_t)count;
	t->n++;
	t->pages += count * weight(b);
	return 0;
}
