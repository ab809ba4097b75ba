/*
 * granules: what evict.c and restore.c share: ranges of granules as bits, which granules a place in the tree is, and the words that
 * are written for others.
 */
#ifndef PH_ALLOC_GRANULES_H
#define PH_ALLOC_GRANULES_H

#include "alloc/evict.h"

static inline void ph_set_range(uint64_t *bits, uint32_t first, uint32_t n)
{
	while (n != 0) {
		uint32_t bit = first % 64, here = 64 - bit < n ? 64 - bit : n;
		bits[first / 64] |= ph_mask(bit, here);
		first += here;
		n -= here;
	}
}

/* granules of the range that are in bits */
static inline uint32_t ph_count_range(const uint64_t *bits, uint32_t first, uint32_t n)
{
	uint32_t count = 0;
	while (n != 0) {
		uint32_t bit = first % 64, here = 64 - bit < n ? 64 - bit : n;
		uint64_t v = bits[first / 64] & ph_mask(bit, here);
		count += v != 0 ? ph_popcount(v) : 0;
		first += here;
		n -= here;
	}
	return count;
}

/* granules that one step of a level's word is: its run on the lowest level, a bit above */
struct ph_shape {
	uint32_t run;      /* order of the bits that belong together */
	uint32_t granules; /* in such a run */
	uint32_t shift;    /* from a bit's index to its first granule: left if up, else right */
	int up;
};

static inline struct ph_shape ph_shape_of(const struct pagehint_zone *z, uint32_t level)
{
	uint32_t g = z->granule_order;
	if (level == g / 6)
		return (struct ph_shape) { g % 6, 1, g % 6, 0 };
	return (struct ph_shape) { 0, 1u << (6 * level - g), 6 * level - g, 1 };
}

static inline uint32_t ph_granule_at(const struct ph_shape *s, uint32_t index)
{
	return s->up ? index << s->shift : index >> s->shift;
}

static inline uint64_t ph_place_frames(uint32_t level, uint64_t mask)
{
	return level == PH_WHOLE_LEVEL ? PAGEHINT_SECTION_FRAMES : (uint64_t)ph_popcount(mask) << (6 * level);
}

static inline void ph_say(ph_word *word, uint64_t v)
{
	atomic_store(word, v);
}

static inline void ph_host_note(struct ph_host *h, uint32_t slot, uint32_t level, uint32_t word, uint64_t mask)
{
	/* the mask means nothing until `where` says so */
	atomic_store_explicit(&h->z->host_mask, mask, memory_order_relaxed);
	atomic_store_explicit(&h->z->host_where, ph_where(slot, PH_WHERE_MASK, level, word), memory_order_release);
}

static inline void ph_host_note_done(struct ph_host *h)
{
	atomic_store_explicit(&h->z->host_where, 0, memory_order_release);
}

#endif
