/*
 * runs: finding runs of set bits, and writing the bits out flat.
 */
#include <errno.h>
#include <string.h>

#include "bitmap/state.h"

/* the first bit of [from, to), which lies in one section, whose word xor `flip` is not zero there; `to` if there is none */
static uint64_t scan(const _Atomic uint64_t *words, uint64_t from, uint64_t to, uint64_t flip)
{
	for (uint64_t bit = from, next; bit < to; bit = next) {
		next = ph_bitmap_next(bit, 64, to);
		uint64_t hits = (atomic_load(&words[ph_bitmap_word_of(bit)]) ^ flip) & ph_bitmap_mask(bit, next);
		if (hits != 0)
			return bit - bit % 64 + ph_ctz(hits);
	}
	return to;
}

uint64_t ph_bitmap_find_set(const struct pagehint_bitmap *b, uint64_t from, uint64_t to)
{
	for (uint64_t bit = from, next; bit < to; bit = next) {
		uint64_t slot = ph_bitmap_slot(b, bit / PH_SECTION_BITS);
		next = ph_bitmap_next(bit, PH_SECTION_BITS, to);
		if (slot == PH_NO_SLOT) {
			uint64_t present = ph_bitmap_present(b, bit / PH_SECTION_BITS) * PH_SECTION_BITS;
			next = present < next ? next : present < to ? present : to;
		} else if (atomic_load(&ph_bitmap_head(b, slot)->set) != 0) {
			uint64_t hit = scan(ph_bitmap_words(b, slot), bit, next, 0);
			if (hit < next)
				return hit;
		}
	}
	return to;
}

uint64_t ph_bitmap_find_clear(const struct pagehint_bitmap *b, uint64_t from, uint64_t to)
{
	for (uint64_t bit = from, next; bit < to; bit = next) {
		uint64_t slot = ph_bitmap_slot(b, bit / PH_SECTION_BITS);
		if (slot == PH_NO_SLOT)
			return bit;
		next = ph_bitmap_next(bit, PH_SECTION_BITS, to);
		uint64_t hit = scan(ph_bitmap_words(b, slot), bit, next, PH_FULL);
		if (hit < next)
			return hit;
	}
	return to;
}

int pagehint_bitmap_next_run(const struct pagehint_bitmap *bitmap, uint64_t from, uint64_t to,
			     struct pagehint_run *ret_run)
{
	if (from > to)
		return -EINVAL;
	to = to < bitmap->span ? to : bitmap->span;
	uint64_t first = ph_bitmap_find_set(bitmap, from, to);
	if (first >= to)
		return -ENOENT;
	/* The first bit was seen set, so the run has it even when somebody clears it now. */
	ret_run->frame = first;
	ret_run->frames = ph_bitmap_find_clear(bitmap, first + 1, to) - first;
	return 0;
}

/* little-endian whatever the host is */
static void put_word(unsigned char *out, uint64_t word)
{
	for (unsigned i = 0; i < 8; i++)
		out[i] = (unsigned char)(word >> 8 * i);
}

int pagehint_bitmap_export(const struct pagehint_bitmap *bitmap, uint64_t first, uint64_t n, uint64_t *out,
			   uint64_t words)
{
	if (first % 64 != 0 || words < n / 64 + (n % 64 != 0))
		return -EINVAL;
	if (first > bitmap->span || n > bitmap->span - first)
		return -ERANGE;
	unsigned char *bytes = (unsigned char *)out;
	for (uint64_t bit = first, end = first + n, next; bit < end; bit = next) {
		uint64_t slot = ph_bitmap_slot(bitmap, bit / PH_SECTION_BITS);
		next = ph_bitmap_next(bit, PH_SECTION_BITS, end);
		if (slot == PH_NO_SLOT || atomic_load(&ph_bitmap_head(bitmap, slot)->set) == 0) {
			memset(bytes + (bit - first) / 8, 0, (size_t)((next - bit + 63) / 64 * 8));
			continue;
		}
		const _Atomic uint64_t *from = ph_bitmap_words(bitmap, slot);
		for (uint64_t at = bit; at < next; at += 64)
			put_word(bytes + (at - first) / 8,
				 atomic_load(&from[ph_bitmap_word_of(at)]) & ph_bitmap_mask(at, next));
	}
	return 0;
}
