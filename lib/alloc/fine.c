/*
 * fine: takes free runs below the granule, of ladder zones under pressure; see harvest.h.
 *
 * Only what is dirty is worth taking: frames that were handed out since their last discard. Below 64 frames a run is a group
 * of bits in a level-0 word; from 64 frames on it is a block.
 */
#include "alloc/harvest.h"
#include "alloc/level.h"
#include "alloc/sets.h"

/* groups of 2^o free bits with at least one dirty bit in them */
static uint64_t worth_taking(uint64_t free_bits, uint64_t dirty, uint32_t o)
{
	uint64_t out = 0;
	if (o == 0)
		return free_bits & dirty;
	for (uint64_t starts = ph_runs(free_bits, o); starts != 0; starts &= starts - 1) {
		uint64_t group = ph_order_mask(o, ph_ctz(starts));
		if (group & dirty)
			out |= group;
	}
	return out;
}

/* The lowest runs of `want` for which there is room. */
static uint64_t trim(const struct ph_reap *reap, uint64_t frame, uint64_t want)
{
	uint64_t out = 0, frames = reap->ask->max_frames - reap->ret->frames;
	uint32_t runs = reap->ask->max_runs - reap->ret->runs;
	while (want != 0) {
		uint32_t first = ph_ctz(want), n = ph_run_length(want, first);
		int joined = ph_reap_has_room(reap, frame + first, 1) && out == 0 && runs == 0;
		n = frames < n ? (uint32_t)frames >> reap->ask->order << reap->ask->order : n;
		if ((runs == 0 && !joined) || n == 0)
			break;
		if (!joined)
			runs--;
		frames -= n;
		out |= ph_mask(first, n);
		want &= ~ph_mask(first, n);
	}
	return out;
}

/* One level-0 word. Returns 0 when not all that is worth taking found room; *ret_next is then the frame to go on with. */
static int reap_word(struct ph_reap *reap, uint32_t slot, uint32_t word, uint64_t range, uint32_t *ret_next)
{
	struct pagehint_zone *z = reap->z;
	uint64_t free_bits =
		ph_level_covered(z, slot, 0, word) ? PH_FULL : atomic_load(ph_zone_level_word(z, slot, 0, word));
	uint64_t dirty = atomic_load(&ph_zone_words(z, slot, z->at_dirty)[word]);
	uint64_t want = worth_taking(free_bits & range, dirty, reap->ask->order);
	uint64_t base = reap->base + (uint64_t)word * 64, take = trim(reap, base, want), left = want & ~take;
	/* taken by somebody else since we looked: it is in use, and not ours to want */
	const struct ph_place p = { slot, 0, word, 0, 0, 0 };
	if (take != 0 && ph_reap_claim(reap, &p, take)) {
		for (uint64_t v = take; v != 0;) {
			uint32_t first = ph_ctz(v), n = ph_run_length(v, first);
			ph_reap_append(reap, base + first, n);
			v &= ~ph_mask(first, n);
		}
	}
	if (left == 0)
		return 1;
	*ret_next = word * 64 + ph_ctz(left);
	return 0;
}

static int reap_block(struct ph_reap *reap, uint32_t slot, uint32_t offset, uint32_t *ret_next)
{
	uint32_t order = reap->ask->order;
	struct ph_place p = ph_place_of(slot, offset, order);
	if (!ph_sets_is_dirty(reap->z, slot, offset, 1u << order))
		return 1;
	if (ph_level_free_run(reap->z, slot, offset, 1u << order) < 1u << order)
		return 1;
	if (!ph_reap_has_room(reap, reap->base + offset, UINT64_C(1) << order)) {
		*ret_next = offset;
		return 0;
	}
	if (ph_reap_claim(reap, &p, ph_order_mask(order, p.bit)))
		ph_reap_append(reap, reap->base + offset, UINT64_C(1) << order);
	return 1;
}

int ph_reap_fine(struct ph_reap *reap, uint32_t slot, uint32_t offset, uint32_t frames, uint32_t *ret_next)
{
	uint32_t end = offset + frames, order = reap->ask->order;
	if (order >= 6) {
		uint32_t size = 1u << order;
		for (uint32_t at = (offset + size - 1) / size * size; at + size <= end; at += size)
			if (!reap_block(reap, slot, at, ret_next))
				return 0;
		return 1;
	}
	for (uint32_t at = offset; at < end; at = (at | 63) + 1) {
		uint32_t here = (at | 63) + 1 < end ? (at | 63) + 1 - at : end - at;
		if (!reap_word(reap, slot, at / 64, ph_mask(at % 64, here), ret_next))
			return 0;
	}
	return 1;
}
