/*
 * batch: many blocks of one order at once, an atomic a word instead of one a block.
 */
#include <errno.h>

#include "alloc/level.h"
#include "alloc/ops.h"
#include "alloc/sets.h"
#include "alloc/track.h"

/* Writes the first frames of the blocks under `mask` of the place's word; returns how many they are. */
static uint32_t spell_out(uint64_t base, const struct ph_place *p, uint32_t order, uint64_t mask, uint64_t *frames)
{
	uint64_t starts = mask & ph_run_starts(order % 6);
	uint32_t n = 0, shift = 6 * p->level;
	if (p->level != PH_WHOLE_LEVEL)
		base += (uint64_t)p->word << (shift + 6);
	while (starts != 0) {
		uint32_t bit = ph_ctz(starts), run = order % 6 == 0 ? ph_run_length(starts, bit) : 1;
		uint64_t frame = base + ((uint64_t)bit << shift);
		for (uint32_t i = 0; i < run; i++)
			frames[n + i] = frame + ((uint64_t)i << shift);
		n += run;
		starts &= ~ph_mask(bit, run);
	}
	return n;
}

static void count_taken(struct pagehint_zone *z, uint32_t slot, uint64_t *frames)
{
	if (*frames != 0)
		atomic_fetch_add(&ph_zone_head(z, slot)->taken, *frames);
	*frames = 0;
}

int pagehint_zone_alloc_batch(struct pagehint_zone *zone, uint32_t order, uint32_t n, uint64_t *ret_frames,
			      uint32_t *ret_n)
{
	if (order > PAGEHINT_ORDER_MAX)
		return -EINVAL;
	uint32_t done = 0, slot = 0;
	uint64_t uncounted = 0; /* frames taken of `slot` */
	int r = 0;
	while (done < n) {
		struct ph_place p;
		uint64_t mask;
		r = ph_level_search(zone, order, n - done, &p, &mask);
		if (ph_unlikely(r < 0))
			r = ph_zone_take_slow(zone, NULL, order, n - done, &p, &mask);
		if (ph_unlikely(r < 0))
			break;
		if (p.slot != slot)
			count_taken(zone, slot, &uncounted);
		slot = p.slot;
		uncounted += (uint64_t)ph_popcount(mask) << (6 * p.level);
		ph_sets_handed_blocks(zone, &p, order, mask);
		if (ph_zone_is_tracked(zone))
			ph_track_out(zone, p.slot, p.level, p.word, order, mask);
		done += spell_out(ph_zone_base(zone, p.slot), &p, order, mask, ret_frames + done);
	}
	count_taken(zone, slot, &uncounted);
	*ret_n = done;
	return r;
}

/* Neighbours in the array that lie in one word: how many from frames[0] on, and their bits. */
static uint32_t gather(const struct pagehint_zone *z, uint32_t order, uint32_t n, const uint64_t *frames,
		       struct ph_place *ret_place, uint64_t *ret_mask)
{
	int64_t slot = ph_zone_slot(z, frames[0]);
	uint32_t i = 0;
	uint64_t mask = 0, unit = UINT64_C(1) << order;
	if (slot < 0)
		return 0;
	*ret_place = ph_place_of((uint32_t)slot, ph_zone_offset(frames[0]), order);
	for (; i < n; i++) {
		struct ph_place p = ph_place_of((uint32_t)slot, ph_zone_offset(frames[i]), order);
		uint64_t bits = ph_order_mask(order, p.bit);
		if ((frames[i] & (unit - 1)) != 0 || ph_zone_slot(z, frames[i]) != slot || p.word != ret_place->word ||
		    (mask & bits) != 0)
			break;
		mask |= bits;
	}
	*ret_mask = mask;
	return i;
}

/* Frees a whole group or nothing of it. */
static int free_group(struct pagehint_zone *z, const struct ph_place *p, uint64_t mask)
{
	if (z->flags & PAGEHINT_ZONE_SCRUB)
		return -EALREADY; /* one by one */
	if (z->flags & PAGEHINT_ZONE_UNTRACKED && p->level == 0 && ph_zone_is_present(z, p->slot, p->word * 64)) {
		ph_level_put(z, p->slot, 0, p->word, mask);
		return 0;
	}
	if (z->flags & (PAGEHINT_ZONE_STRICT | PAGEHINT_ZONE_UNTRACKED) || p->level == PH_WHOLE_LEVEL)
		return -EALREADY; /* one by one */
	if (ph_track_clear(z, p->slot, p->level, p->word, mask)) {
		ph_level_put(z, p->slot, p->level, p->word, mask);
		return 0;
	}
	return -EALREADY;
}

int pagehint_zone_free_batch(struct pagehint_zone *zone, uint32_t order, uint32_t n, const uint64_t *frames,
			     uint32_t *ret_done)
{
	uint32_t done = 0;
	int r = order > PAGEHINT_ORDER_MAX ? -EINVAL : 0;
	while (r == 0 && done < n) {
		struct ph_place p;
		uint64_t mask;
		uint32_t group = gather(zone, order, n - done, frames + done, &p, &mask);
		if (group > 1 && free_group(zone, &p, mask) == 0) {
			done += group;
			continue;
		}
		/* one by one: it is refused, or has more to check than a word's bits */
		uint32_t end = done + (group > 1 ? group : 1);
		while (r == 0 && done < end) {
			r = pagehint_zone_free(zone, frames[done], order);
			done += r == 0;
		}
	}
	if (ret_done != NULL)
		*ret_done = done;
	return r;
}
