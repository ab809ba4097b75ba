/*
 * bitmap: making one, and setting, clearing, testing and counting bits.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/opts.h"
#include "bitmap/state.h"

#define MAX_SPAN (UINT64_C(1) << 52)
#define ALIGN 16u

/* The header as the options make it. Nothing can overflow: 2^37 sections of about 2^14 bytes. */
static int layout(const struct pagehint_bitmap_opts *from, struct pagehint_bitmap *b)
{
	struct pagehint_bitmap_opts opts;
	int rc = PH_OPTS_IN(opts, from);
	if (rc != 0)
		return rc;
	if (opts.span == 0 || opts.span > MAX_SPAN || opts.flags != 0)
		return -EINVAL;
	memset(b, 0, sizeof(*b));
	b->magic = PH_BITMAP_MAGIC;
	b->layout = PH_BITMAP_LAYOUT;
	b->endian = PH_BITMAP_ENDIAN;
	b->span = opts.span;
	b->sections = (opts.span + PH_SECTION_BITS - 1) / PH_SECTION_BITS;
	uint64_t slots = opts.max_sections;
	b->max_sections = slots == 0 || slots > b->sections ? b->sections : slots;
	/* A hashed index is kept a third empty; it pays only while it is smaller than one place for each section. */
	uint64_t hashed = b->max_sections + b->max_sections / 2 + 1;
	b->entries = hashed < b->sections ? hashed : b->sections;
	b->at_entries = sizeof(*b);
	b->at_heads = b->at_entries + b->entries * sizeof(struct ph_bitmap_entry);
	b->at_words = b->at_heads + b->max_sections * sizeof(struct ph_bitmap_head);
	b->at_tried = b->at_words + b->max_sections * PH_SECTION_WORDS * sizeof(uint64_t);
	b->at_marks = b->at_tried + b->max_sections * PH_SECTION_WORDS * sizeof(uint64_t);
	b->bytes = b->at_marks + b->max_sections * PH_SECTION_WORDS * sizeof(struct ph_bitmap_marks);
	return 0;
}

int pagehint_bitmap_size(const struct pagehint_bitmap_opts *opts, uint64_t *ret_bytes)
{
	struct pagehint_bitmap b;
	int rc = layout(opts, &b);
	if (rc == 0)
		*ret_bytes = b.bytes;
	return rc;
}

int pagehint_bitmap_init(void *mem, uint64_t bytes, const struct pagehint_bitmap_opts *opts,
			 struct pagehint_bitmap **ret_bitmap)
{
	struct pagehint_bitmap b;
	int rc = layout(opts, &b);
	if (rc != 0)
		return rc;
	if (mem == NULL || (uintptr_t)mem % ALIGN != 0 || bytes < b.bytes)
		return -EINVAL;
	memcpy(mem, &b, sizeof(b));
	*ret_bitmap = mem;
	return 0;
}

int pagehint_bitmap_new(const struct pagehint_bitmap_opts *opts, struct pagehint_bitmap **ret_bitmap)
{
	uint64_t bytes;
	int rc = pagehint_bitmap_size(opts, &bytes);
	if (rc != 0)
		return rc;
	/* calloc leaves big memory untouched, but on some machines it aligns to 8 bytes only. */
	unsigned char *mem = bytes > SIZE_MAX - ALIGN ? NULL : calloc(1, (size_t)bytes + ALIGN);
	if (mem == NULL)
		return -ENOMEM;
	size_t slack = (ALIGN - (uintptr_t)mem % ALIGN) % ALIGN;
	rc = pagehint_bitmap_init(mem + slack, bytes, opts, ret_bitmap);
	if (rc != 0)
		free(mem);
	else
		(*ret_bitmap)->slack = slack;
	return rc;
}

void pagehint_bitmap_free(struct pagehint_bitmap *bitmap)
{
	if (bitmap != NULL)
		free((unsigned char *)bitmap - bitmap->slack);
}

/* Is [first, first + n) wholly in present sections? */
static int check_range(const struct pagehint_bitmap *b, uint64_t first, uint64_t n)
{
	if (n == 0)
		return -EINVAL;
	if (first >= b->span || n > b->span - first)
		return -ERANGE;
	for (uint64_t s = first / PH_SECTION_BITS; s <= (first + n - 1) / PH_SECTION_BITS; s++)
		if (ph_bitmap_slot(b, s) == PH_NO_SLOT)
			return -ERANGE;
	return 0;
}

/* [first, end) lies in one section; returns how many had been set */
static uint64_t set_part(struct pagehint_bitmap *b, uint64_t first, uint64_t end)
{
	uint64_t slot = ph_bitmap_slot(b, first / PH_SECTION_BITS), was = 0;
	if (slot == PH_NO_SLOT) /* only when the caller takes the section away under us */
		return end - first;
	_Atomic uint64_t *words = ph_bitmap_words(b, slot);
	struct ph_bitmap_head *head = ph_bitmap_head(b, slot);
	atomic_fetch_add(&head->set, end - first);
	for (uint64_t bit = first, next; bit < end; bit = next) {
		next = ph_bitmap_next(bit, 64, end);
		uint64_t mask = ph_bitmap_mask(bit, next);
		was += ph_popcount(atomic_fetch_or(&words[ph_bitmap_word_of(bit)], mask) & mask);
	}
	if (was != 0)
		atomic_fetch_sub(&head->set, was);
	return was;
}

int pagehint_bitmap_set(struct pagehint_bitmap *bitmap, uint64_t first, uint64_t n, uint64_t *ret_was)
{
	int rc = check_range(bitmap, first, n);
	if (rc != 0)
		return rc;
	uint64_t end = first + n, was = 0;
	atomic_fetch_add(&bitmap->count, n);
	for (uint64_t bit = first, next; bit < end; bit = next) {
		next = ph_bitmap_next(bit, PH_SECTION_BITS, end);
		was += set_part(bitmap, bit, next);
	}
	if (was != 0)
		atomic_fetch_sub(&bitmap->count, was);
	if (ret_was != NULL)
		*ret_was = was;
	return 0;
}

struct cleared {
	uint64_t bits; /* that this clear turned from one to zero */
	uint64_t was;  /* of them: that no taker hands out; counted only when wanted */
	int want_was;
};

/*
 * A taker that found a bit set may have it although this clear turned it to zero, and then the bit must not be counted here.
 * Such a taker still shows the bit in `tried`, or finds the bit zero, counts a race, and only then takes the bit from
 * `tried`; so one of the two is seen below.
 */
static void clear_word(struct pagehint_bitmap *b, uint64_t slot, unsigned word, uint64_t mask, struct cleared *sum)
{
	struct ph_bitmap_head *head = ph_bitmap_head(b, slot);
	uint64_t races = sum->want_was ? atomic_load(&head->races) : 0;
	uint64_t old = atomic_fetch_and(&ph_bitmap_words(b, slot)[word], ~mask) & mask;
	if (atomic_load(&b->watched))
		ph_bitmap_unmark(b, &ph_bitmap_marks(b, slot)[word], mask, 0);
	sum->bits += ph_popcount(old);
	if (!sum->want_was)
		return;
	uint64_t tried = atomic_load(&ph_bitmap_tried(b, slot)[word]);
	if (atomic_load(&head->races) == races)
		sum->was += ph_popcount(old & ~tried);
}

/* [first, end) lies in one section */
static void clear_part(struct pagehint_bitmap *b, uint64_t first, uint64_t end, struct cleared *sum)
{
	uint64_t slot = ph_bitmap_slot(b, first / PH_SECTION_BITS), before = sum->bits;
	if (slot == PH_NO_SLOT)
		return;
	for (uint64_t bit = first, next; bit < end; bit = next) {
		next = ph_bitmap_next(bit, 64, end);
		clear_word(b, slot, ph_bitmap_word_of(bit), ph_bitmap_mask(bit, next), sum);
	}
	if (sum->bits != before)
		atomic_fetch_sub(&ph_bitmap_head(b, slot)->set, sum->bits - before);
}

int pagehint_bitmap_clear(struct pagehint_bitmap *bitmap, uint64_t first, uint64_t n, uint64_t *ret_was)
{
	int rc = check_range(bitmap, first, n);
	if (rc != 0)
		return rc;
	struct cleared sum = { .bits = 0, .was = 0, .want_was = ret_was != NULL };
	uint64_t end = first + n;
	for (uint64_t bit = first, next; bit < end; bit = next) {
		next = ph_bitmap_next(bit, PH_SECTION_BITS, end);
		clear_part(bitmap, bit, next, &sum);
	}
	if (sum.bits != 0)
		atomic_fetch_sub(&bitmap->count, sum.bits);
	if (ret_was != NULL)
		*ret_was = sum.was;
	return 0;
}

int pagehint_bitmap_test(const struct pagehint_bitmap *bitmap, uint64_t bit)
{
	uint64_t slot = bit < bitmap->span ? ph_bitmap_slot(bitmap, bit / PH_SECTION_BITS) : PH_NO_SLOT;
	if (slot == PH_NO_SLOT)
		return -ERANGE;
	return (int)(atomic_load(&ph_bitmap_words(bitmap, slot)[ph_bitmap_word_of(bit)]) >> bit % 64 & 1);
}

uint64_t pagehint_bitmap_count(const struct pagehint_bitmap *bitmap)
{
	return atomic_load(&bitmap->count);
}
