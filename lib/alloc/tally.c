/*
 * tally: how much of a zone is free, and how much of that is reported; what an origin answers to "how much is there".
 */
#include "alloc/cache.h"
#include "alloc/harvest.h"
#include "alloc/level.h"
#include "alloc/sets.h"

/* frames of free blocks smaller than `order` */
static uint64_t below(const struct pagehint_zone *z, uint32_t order)
{
	uint64_t blocks[PAGEHINT_ORDER_MAX + 1], frames = 0;
	pagehint_zone_free_orders(z, blocks);
	for (uint32_t o = 0; o < order && o <= PAGEHINT_ORDER_MAX; o++)
		frames += blocks[o] << o;
	return frames;
}

/* Ladder zones know it frame by frame: free, and not handed out since the last discard. */
static uint64_t clean_frames(const struct pagehint_zone *z, uint32_t slot)
{
	const ph_word *dirty = ph_zone_words(z, slot, z->at_dirty);
	uint64_t frames = 0;
	for (uint32_t w = 0; w < PH_L0_WORDS; w++) {
		uint64_t v = ph_level_covered(z, slot, 0, w) ? PH_FULL : atomic_load(ph_zone_level_word(z, slot, 0, w));
		frames += ph_popcount(v & ~atomic_load(&dirty[w]));
	}
	return frames;
}

void ph_harvest_free(const struct pagehint_zone *z, uint32_t order, struct pagehint_origin_free *ret)
{
	uint32_t slots = (uint32_t)atomic_load(&z->used_slots), g = z->granule_order;
	uint64_t whole = 0, reported = 0, put, taken;
	ph_zone_counts(z, &put, &taken);
	for (uint32_t s = 0; s < slots; s++) {
		if (atomic_load(&ph_zone_head(z, s)->number_plus1) == 0)
			continue;
		for (uint32_t i = 0; i < z->granule_words; i++) {
			whole += (uint64_t)ph_popcount(ph_sets_whole(z, s, i)) << g;
			if (!(z->flags & PAGEHINT_ZONE_LADDER))
				reported += (uint64_t)ph_popcount(ph_sets_whole_reported(z, s, i)) << g;
		}
		if (z->flags & PAGEHINT_ZONE_LADDER)
			reported += clean_frames(z, s);
	}
	uint64_t size = ret->struct_size;
	*ret = (struct pagehint_origin_free) { .struct_size = size };
	ret->free = put > taken ? put - taken : 0;
	ret->reported = reported < ret->free ? reported : ret->free;
	/* pieces of granules are what is not whole; any other order has to be counted */
	uint64_t pieces = ret->free > whole ? ret->free - whole : 0;
	ret->below = order == 0 ? 0 : order == g ? pieces : below(z, order);
	ret->hidden = ph_cache_total(z, NULL, NULL);
	ret->handed_out = atomic_load(&z->refaults);
}
