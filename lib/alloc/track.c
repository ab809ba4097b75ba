#include "alloc/track.h"

#include <errno.h>

#ifndef SPLIT_RETRIES /* a test that goes through every order wants fewer */
#define SPLIT_RETRIES 1024
#endif

static ph_word *tail_word(const struct pagehint_zone *z, uint32_t slot, uint32_t level, uint32_t word)
{
	if (level == 0)
		return ph_zone_words(z, slot, z->at_tail0 + word);
	if (level == 1)
		return ph_zone_words(z, slot, z->at_tail1 + word);
	return &ph_zone_head(z, slot)->tail2;
}

static int has_tails(const struct pagehint_zone *z, uint32_t level)
{
	return (z->flags & PAGEHINT_ZONE_STRICT) && level < PH_WHOLE_LEVEL;
}

void ph_track_out(struct pagehint_zone *z, uint32_t slot, uint32_t level, uint32_t word, uint32_t order, uint64_t mask)
{
	uint64_t tails = mask & ~ph_run_starts(order % 6);
	if (has_tails(z, level) && tails != 0)
		atomic_fetch_or(tail_word(z, slot, level, word), tails);
	atomic_fetch_or(ph_track_word(z, slot, level, word), mask);
}

void ph_track_out_range(struct pagehint_zone *z, uint32_t slot, uint32_t offset, uint32_t frames)
{
	while (frames != 0) {
		uint32_t bit = offset % 64, here = 64 - bit < frames ? 64 - bit : frames;
		atomic_fetch_or(ph_track_word(z, slot, 0, offset / 64), ph_mask(bit, here));
		offset += here;
		frames -= here;
	}
}

/* what is out of a word; the mark first: it comes after the lending */
static uint64_t out_bits(const struct pagehint_zone *z, uint32_t slot, uint32_t level, uint32_t word)
{
	uint64_t marked = atomic_load(ph_track_word(z, slot, level, word));
	return marked & ~ph_track_lent(z, slot, level, word);
}

/* Is any frame of the block out, on whatever level? Only asked when a free was refused. */
static int is_any_out(const struct pagehint_zone *z, uint32_t slot, uint32_t offset, uint32_t order)
{
	for (uint32_t level = 0; level <= PH_WHOLE_LEVEL; level++) {
		uint32_t first = offset >> (6 * level), last = (offset + (1u << order) - 1) >> (6 * level);
		for (uint32_t i = first; i <= last; i = (i | 63) + 1) {
			uint32_t end = (i | 63) < last ? (i | 63) : last;
			if (out_bits(z, slot, level, i / 64) & ph_mask(i % 64, end - i + 1))
				return 1;
		}
	}
	return 0;
}

/* Strict: the block's own bits are one head and tails, and the bit behind it starts something else. */
static int is_one_block(const struct pagehint_zone *z, uint32_t slot, const struct ph_place *p, uint64_t mask)
{
	uint64_t tails = atomic_load(tail_word(z, slot, p->level, p->word));
	uint64_t head = mask & -mask, end = mask + head; /* end: the bit behind the block, 0 if the word ends */
	return (tails & mask) == (mask & ~head) && !(tails & end);
}

int ph_track_refuse(const struct pagehint_zone *z, uint32_t slot, uint32_t offset, uint32_t order)
{
	return is_any_out(z, slot, offset, order) ? -EINVAL : -EALREADY;
}

int ph_track_in(struct pagehint_zone *z, uint32_t slot, uint32_t offset, uint32_t order)
{
	struct ph_place p = ph_place_of(slot, offset, order);
	uint64_t mask = ph_order_mask(order, p.bit);
	if (has_tails(z, p.level) && (out_bits(z, slot, p.level, p.word) & mask) == mask &&
	    !is_one_block(z, slot, &p, mask))
		return -EINVAL;
	if (!ph_track_clear(z, slot, p.level, p.word, mask))
		return ph_track_refuse(z, slot, offset, order);
	if (has_tails(z, p.level) && order % 6 != 0)
		atomic_fetch_and(tail_word(z, slot, p.level, p.word), ~mask);
	return 0;
}

/* Bits of a block leave it: what stays behind them starts a block of its own. */
static void behead(struct pagehint_zone *z, uint32_t slot, uint32_t level, uint32_t word, uint64_t mask)
{
	if (has_tails(z, level))
		atomic_fetch_and(tail_word(z, slot, level, word), ~(mask | mask << 1));
}

/*
 * The group of 64 frames is out as part of a bigger block: turn the lowest out bit above it into bits of the level below.
 * Between the two steps the frames look as if they were not out, and a look upwards that a whole split overtakes sees nothing
 * either: the counts say so to everybody who is about to refuse.
 * Returns 1 when something was split, by us.
 */
static int split_out(struct pagehint_zone *z, uint32_t slot, uint32_t word)
{
	struct ph_section *head = ph_zone_head(z, slot);
	for (uint32_t level = 1; level <= PH_WHOLE_LEVEL; level++, word >>= 6) {
		uint64_t bit = UINT64_C(1) << (word & 63);
		ph_word *above = ph_track_word(z, slot, level, word >> 6);
		if (!(atomic_load(above) & bit))
			continue;
		atomic_fetch_add(&head->splits_begun, 1);
		int ours = (atomic_fetch_and(above, ~bit) & bit) != 0;
		if (ours) {
			behead(z, slot, level, word >> 6, bit);
			atomic_fetch_or(ph_track_word(z, slot, level - 1, word), PH_FULL);
		}
		atomic_fetch_add(&head->splits_ended, 1);
		return ours;
	}
	return 0;
}

/* No split was under way when `begun` was read, and none has begun since. */
static int is_settled(const struct ph_section *head, uint64_t begun, uint64_t ended)
{
	return begun == ended && atomic_load(&head->splits_begun) == begun;
}

static int clear_group(struct pagehint_zone *z, uint32_t slot, uint32_t word, uint64_t mask)
{
	const struct ph_section *head = ph_zone_head(z, slot);
	ph_word *out = ph_track_word(z, slot, 0, word);
	for (int i = 0; i < SPLIT_RETRIES; i++) {
		uint64_t begun = atomic_load(&head->splits_begun), ended = atomic_load(&head->splits_ended);
		uint64_t v = atomic_load(out);
		if (ph_track_clear(z, slot, 0, word, mask)) {
			behead(z, slot, 0, word, mask);
			return 0;
		}
		if (split_out(z, slot, word))
			continue;
		if (is_settled(head, begun, ended) && atomic_load(out) == v)
			return -EALREADY;
	}
	return -EAGAIN;
}

static int is_group_out(const struct pagehint_zone *z, uint32_t slot, uint32_t word, uint64_t mask)
{
	const struct ph_section *head = ph_zone_head(z, slot);
	for (int i = 0; i < SPLIT_RETRIES; i++) {
		uint64_t begun = atomic_load(&head->splits_begun), ended = atomic_load(&head->splits_ended);
		uint64_t v = atomic_load(ph_track_word0(z, slot, word));
		if ((v & ~ph_track_lent(z, slot, 0, word) & mask) == mask)
			return 1;
		for (uint32_t level = 1, index = word; level <= PH_WHOLE_LEVEL; level++, index >>= 6)
			if (atomic_load(ph_track_word(z, slot, level, index >> 6)) >> (index & 63) & 1)
				return 1;
		if (is_settled(head, begun, ended) && atomic_load(ph_track_word0(z, slot, word)) == v)
			return 0;
	}
	return 1; /* still unsettled: ph_track_in_range will say */
}

int ph_track_is_out(const struct pagehint_zone *z, uint32_t slot, uint32_t offset, uint32_t frames)
{
	while (frames != 0) {
		uint32_t bit = offset % 64, here = 64 - bit < frames ? 64 - bit : frames;
		if (!is_group_out(z, slot, offset / 64, ph_mask(bit, here)))
			return 0;
		offset += here;
		frames -= here;
	}
	return 1;
}

int ph_track_in_range(struct pagehint_zone *z, uint32_t slot, uint32_t offset, uint32_t frames)
{
	uint32_t at = offset, left = frames;
	while (left != 0) {
		uint32_t bit = at % 64, here = 64 - bit < left ? 64 - bit : left;
		int r = clear_group(z, slot, at / 64, ph_mask(bit, here));
		if (r < 0) {
			ph_track_out_range(z, slot, offset, at - offset);
			return r;
		}
		at += here;
		left -= here;
	}
	return 0;
}
