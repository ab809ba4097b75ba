/*
 * coarse: takes blocks that are bigger than a word of granules (huge pages of 1 GiB behind 4 KiB frames); see harvest.h.
 *
 * A block is ready when every granule in it is. It is claimed whole or not at all: half of it frees nothing below.
 */
#include "alloc/harvest.h"
#include "alloc/level.h"
#include "alloc/sets.h"

/* Is every granule of words [i, i + n) ready? Counts what is whole and unreported, but young, into *ret_young. */
static int all_ready(const struct ph_reap *reap, uint32_t slot, uint32_t i, uint32_t n, uint64_t *ret_young)
{
	int all = 1;
	for (uint32_t w = i; w < i + n; w++) {
		uint64_t unreported, ready = ph_reap_candidates(reap, slot, w, PH_FULL, &unreported);
		all &= ready == PH_FULL;
		*ret_young += (uint64_t)ph_popcount(unreported & ~ready) << reap->z->granule_order;
	}
	return all;
}

int ph_reap_coarse(struct ph_reap *reap, uint32_t slot, const struct ph_part *part, uint32_t bound, uint32_t *ret_next)
{
	struct pagehint_zone *z = reap->z;
	uint32_t order = reap->ask->order, size = 1u << order, g = z->granule_order, words = size >> g >> 6;
	uint32_t end = part->offset + part->frames, cost = words << (g % 6);
	for (uint32_t at = (part->offset + size - 1) / size * size; at + size <= end; at += size) {
		if (reap->work != 0 && reap->work + cost > bound) {
			*ret_next = at;
			return 0;
		}
		reap->work += cost;
		uint32_t i = at >> g >> 6;
		uint64_t young = 0;
		int peek = (reap->ask->flags & PAGEHINT_HARVEST_PEEK) != 0, taken = 0;
		int ready = all_ready(reap, slot, i, words, &young);
		if (ready && peek) {
			reap->ret->frames += size;
		} else if (ready) {
			struct ph_place p = ph_place_of(slot, at, order);
			if (!ph_reap_has_room(reap, reap->base + at, size)) {
				*ret_next = at;
				return 0;
			}
			taken = ph_reap_claim(reap, &p, ph_order_mask(order, p.bit)) &&
				ph_reap_keep(reap, slot, at, order);
		}
		reap->ret->young += young;
		for (uint32_t w = i; w < i + words; w++)
			ph_reap_write_look(z, slot, w, PH_FULL, taken ? PH_FULL : 0);
	}
	return 1;
}
