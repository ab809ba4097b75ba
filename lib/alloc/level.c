#include "alloc/level.h"

#include <errno.h>

#include "alloc/summary.h"

static uint64_t level_frames(uint32_t level)
{
	return UINT64_C(1) << (6 * level);
}

static void begin_move(struct pagehint_zone *z, uint32_t slot, uint64_t frames)
{
	atomic_fetch_add(&ph_zone_head(z, slot)->begun, frames);
}

static void end_move(struct pagehint_zone *z, uint32_t slot, uint64_t frames)
{
	atomic_fetch_add(&ph_zone_head(z, slot)->ended, frames);
}

void ph_level_publish(struct pagehint_zone *z, uint32_t slot, uint32_t level, uint32_t word, uint64_t mask)
{
	while (level != PH_WHOLE_LEVEL) {
		if (mask == PH_FULL) {
			/* nobody else has a bit of this word: it is a block of the level above */
			mask = UINT64_C(1) << (word & 63);
			word >>= 6;
			level++;
			continue;
		}
		ph_word *p = ph_zone_level_word(z, slot, level, word);
		uint64_t old = atomic_fetch_or(p, mask);
		if ((old | mask) != PH_FULL) {
			/* also when the class is the same: whoever gave it this class may not have said so yet */
			ph_summary_widen(z, slot, level, word, ph_level_class(old | mask));
			return;
		}
		uint64_t moved = level_frames(level + 1), full = PH_FULL;
		begin_move(z, slot, moved);
		if (!atomic_compare_exchange_strong(p, &full, 0)) {
			/* somebody took of it meanwhile and keeps the summary; what is left must be findable */
			int is = ph_level_class(atomic_load(p));
			if (is >= 0)
				ph_summary_widen(z, slot, level, word, is);
			end_move(z, slot, moved);
			return;
		}
		ph_level_publish(z, slot, level + 1, word >> 6, UINT64_C(1) << (word & 63));
		end_move(z, slot, moved);
		return;
	}
	atomic_fetch_or(&ph_zone_whole(z)[slot / 64], UINT64_C(1) << (slot % 64));
}

void ph_level_put(struct pagehint_zone *z, uint32_t slot, uint32_t level, uint32_t word, uint64_t mask)
{
	ph_level_publish(z, slot, level, word, mask);
	atomic_fetch_add(&ph_zone_head(z, slot)->put, ph_popcount(mask) * level_frames(level));
}

void ph_level_put_block(struct pagehint_zone *z, uint32_t slot, uint32_t offset, uint32_t order)
{
	struct ph_place p = ph_place_of(slot, offset, order);
	ph_level_publish(z, slot, p.level, p.word, ph_order_mask(order, p.bit));
	atomic_fetch_add(&ph_zone_head(z, slot)->put, UINT64_C(1) << order);
}

void ph_level_put_range(struct pagehint_zone *z, uint32_t slot, uint32_t offset, uint32_t frames)
{
	while (frames != 0) {
		uint32_t order = ph_order_fitting(offset, frames);
		ph_level_put_block(z, slot, offset, order);
		offset += 1u << order;
		frames -= 1u << order;
	}
}

/* Takes all bits of mask out of one word, if they are there as bits of this level. */
static int claim_bits(struct pagehint_zone *z, uint32_t slot, uint32_t level, uint32_t word, uint64_t mask,
		      uint64_t *ret_old)
{
	ph_word *p = ph_zone_level_word(z, slot, level, word);
	uint64_t v = atomic_load(p);
	while ((v & mask) == mask) {
		if (!atomic_compare_exchange_strong(p, &v, v & ~mask))
			continue;
		ph_summary_moved(z, slot, level, word, ph_level_class(v), v & ~mask);
		*ret_old = v;
		return 1;
	}
	return 0;
}

static int claim_whole(struct pagehint_zone *z, uint32_t slot)
{
	uint64_t bit = UINT64_C(1) << (slot % 64);
	return (atomic_fetch_and(&ph_zone_whole(z)[slot / 64], ~bit) & bit) != 0;
}

int ph_level_covered(const struct pagehint_zone *z, uint32_t slot, uint32_t level, uint32_t word)
{
	for (; level < PH_WHOLE_LEVEL - 1; level++) {
		if (atomic_load(ph_zone_level_word(z, slot, level + 1, word >> 6)) >> (word & 63) & 1)
			return 1;
		word >>= 6;
	}
	return ph_zone_is_whole(z, slot);
}

/* Claims without counting. */
static int claim(struct pagehint_zone *z, uint32_t slot, uint32_t level, uint32_t word, uint64_t mask)
{
	uint64_t old;
	if (level == PH_WHOLE_LEVEL)
		return claim_whole(z, slot);
	if (claim_bits(z, slot, level, word, mask, &old))
		return 1;
	if (!ph_level_covered(z, slot, level, word))
		return 0;
	uint64_t moved = level_frames(level + 1);
	begin_move(z, slot, moved);
	int got = claim(z, slot, level + 1, word >> 6, UINT64_C(1) << (word & 63));
	if (got && mask != PH_FULL)
		ph_level_publish(z, slot, level, word, ~mask);
	end_move(z, slot, moved);
	return got;
}

int ph_level_claim(struct pagehint_zone *z, uint32_t slot, uint32_t level, uint32_t word, uint64_t mask)
{
	if (!claim(z, slot, level, word, mask))
		return 0;
	atomic_fetch_add(&ph_zone_head(z, slot)->taken,
			 level == PH_WHOLE_LEVEL ? PAGEHINT_SECTION_FRAMES : ph_popcount(mask) * level_frames(level));
	return 1;
}

int ph_level_claim_range(struct pagehint_zone *z, uint32_t slot, uint32_t offset, uint32_t frames, uint32_t *ret_stuck)
{
	uint32_t at = offset, left = frames;
	while (left != 0) {
		uint32_t order = ph_order_fitting(at, left);
		struct ph_place p = ph_place_of(slot, at, order);
		if (ph_level_claim(z, slot, p.level, p.word, ph_order_mask(order, p.bit))) {
			at += 1u << order;
			left -= 1u << order;
			continue;
		}
		uint32_t run = ph_level_free_run(z, slot, at, 1u << order);
		if (run != 0 && order != 0 && run < 1u << order) {
			/* the front of it is free: claim that much, so that the stuck frame is named exactly */
			order = ph_order_fitting(at, run);
			p = ph_place_of(slot, at, order);
			if (ph_level_claim(z, slot, p.level, p.word, ph_order_mask(order, p.bit))) {
				at += 1u << order;
				left -= 1u << order;
				continue;
			}
			run = 0;
		}
		ph_level_put_range(z, slot, offset, at - offset);
		*ret_stuck = at + (run < left ? run : 0);
		return -EBUSY;
	}
	return 0;
}

uint32_t ph_level_free_run(const struct pagehint_zone *z, uint32_t slot, uint32_t offset, uint32_t most)
{
	uint32_t n = 0;
	if (ph_zone_is_whole(z, slot)) {
		uint32_t rest = PAGEHINT_SECTION_FRAMES - offset;
		return rest < most ? rest : most;
	}
	while (n < most && offset + n < PAGEHINT_SECTION_FRAMES) {
		uint32_t at = offset + n, gain = 0;
		for (uint32_t level = 3; level-- > 0 && gain == 0;) {
			uint32_t index = at >> (6 * level);
			uint64_t v = atomic_load(ph_zone_level_word(z, slot, level, index >> 6));
			uint32_t run = ph_run_length(v, index & 63);
			if (run != 0)
				gain = (run << (6 * level)) - (at & (uint32_t)(level_frames(level) - 1));
		}
		if (gain == 0)
			break;
		n += gain;
	}
	return n < most ? n : most;
}

uint32_t ph_level_skip_used(const struct pagehint_zone *z, uint32_t slot, uint32_t offset, uint32_t end)
{
	while (offset < end) {
		uint32_t word = offset / 64;
		uint64_t v = atomic_load(ph_zone_level_word(z, slot, 0, word)) & ~ph_low_mask(offset % 64);
		if (ph_level_covered(z, slot, 0, word))
			return offset;
		if (v != 0)
			return word * 64 + ph_ctz(v) < end ? word * 64 + ph_ctz(v) : end;
		offset = (word + 1) * 64;
	}
	return end;
}
