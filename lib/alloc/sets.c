#include "alloc/sets.h"

#include "alloc/level.h"

static ph_word *dirty_words(const struct pagehint_zone *z, uint32_t slot)
{
	return ph_zone_words(z, slot, z->at_dirty);
}

static void set_bits(ph_word *word, uint64_t mask)
{
	if ((atomic_load(word) & mask) != mask)
		atomic_fetch_or(word, mask);
}

static void clear_bits(ph_word *word, uint64_t mask)
{
	if (atomic_load(word) & mask)
		atomic_fetch_and(word, ~mask);
}

typedef void (*change_fn)(ph_word *word, uint64_t mask);

/* Applies `change` to bits [first, first + n) of an array of words. */
static void change_range(ph_word *words, uint32_t first, uint32_t n, change_fn change)
{
	while (n != 0) {
		uint32_t bit = first % 64, here = 64 - bit < n ? 64 - bit : n;
		change(&words[first / 64], ph_mask(bit, here));
		first += here;
		n -= here;
	}
}

static void touch(struct pagehint_zone *z, uint32_t slot, uint32_t granule)
{
	uint64_t bit = UINT64_C(1) << (granule % 64);
	ph_word *touched = &ph_sets_touched(z, slot)[granule / 64];
	if (atomic_load(touched) & bit)
		return;
	if (!(atomic_fetch_or(touched, bit) & bit) && !(atomic_load(&ph_sets_stale(z, slot)[granule / 64]) & bit))
		atomic_fetch_add(&z->refaults, UINT64_C(1) << z->granule_order);
}

/* Was the granule wholly free just before the place was taken? */
static int was_whole(const struct pagehint_zone *z, const struct ph_place *p, uint32_t granule)
{
	uint32_t level = z->granule_order / 6;
	if (p->from != level)
		return p->from > level;
	if (level == PH_WHOLE_LEVEL)
		return 1;
	uint32_t bits = 1u << (z->granule_order % 6);
	uint64_t group = ph_mask(granule * bits % 64, bits);
	return (p->old & group) == group;
}

void ph_sets_handed_blocks(struct pagehint_zone *z, const struct ph_place *p, uint32_t order, uint64_t mask)
{
	uint32_t g = z->granule_order, frames = 1u << order;
	if (p->from < g / 6 && !(z->flags & PAGEHINT_ZONE_LADDER))
		return; /* the common case: a piece of a granule that was broken before */
	uint64_t starts = mask & ph_run_starts(order % 6);
	uint32_t next = 0; /* granules below this were dealt with: blocks share them */
	for (; starts != 0; starts &= starts - 1) {
		struct ph_place block = *p;
		block.bit = ph_ctz(starts);
		uint32_t offset = ph_place_offset(&block), last = (offset + frames - 1) >> g;
		for (uint32_t i = offset >> g < next ? next : offset >> g; i <= last; i++)
			if (was_whole(z, p, i))
				touch(z, p->slot, i);
		next = last + 1;
		if (z->flags & PAGEHINT_ZONE_LADDER)
			change_range(dirty_words(z, p->slot), offset, frames, set_bits);
		else if (g >= 6 * (p->level + 1)) /* the whole word lies in one granule */
			return;
	}
}

void ph_sets_handed_range(struct pagehint_zone *z, uint32_t slot, uint32_t offset, uint32_t frames)
{
	uint32_t g = z->granule_order;
	for (uint32_t i = offset >> g; i <= (offset + frames - 1) >> g; i++)
		touch(z, slot, i);
	if (z->flags & PAGEHINT_ZONE_LADDER)
		change_range(dirty_words(z, slot), offset, frames, set_bits);
}

uint64_t ph_sets_cached(struct pagehint_zone *z, const struct ph_place *p, uint64_t mask)
{
	uint32_t g = z->granule_order;
	uint64_t note = 0;
	if (z->flags & PAGEHINT_ZONE_LADDER)
		note = mask & ~atomic_load(&dirty_words(z, p->slot)[p->word]);
	if (g >= 6) {
		/* one granule: the frame that is handed out next breaks it */
		uint32_t granule = (p->word << 6) >> g;
		if (was_whole(z, p, granule))
			touch(z, p->slot, granule);
		return note;
	}
	for (uint32_t first = 0; first < 64; first += 1u << g) {
		uint64_t group = ph_mask(first, 1u << g);
		if ((mask & group) == group)
			note |= group;
	}
	return note;
}

uint64_t ph_sets_handed_frame(struct pagehint_zone *z, uint32_t slot, uint32_t offset, uint64_t note)
{
	uint32_t g = z->granule_order;
	uint64_t bit = UINT64_C(1) << (offset % 64);
	if (z->flags & PAGEHINT_ZONE_LADDER)
		set_bits(&dirty_words(z, slot)[offset / 64], bit);
	if (g >= 6)
		return note & ~bit;
	uint64_t group = ph_mask((offset % 64) >> g << g, 1u << g);
	touch(z, slot, offset >> g);
	/* the others of the group only need a note for their own dirty bit */
	uint64_t clean = 0;
	if (z->flags & PAGEHINT_ZONE_LADDER)
		clean = group & ~atomic_load(&dirty_words(z, slot)[offset / 64]);
	return (note & ~group) | (note & clean);
}

/* gathers the bits of v at multiples of 2^r into the low 64 >> r bits; no other bit of v is set */
static uint64_t gather(uint64_t v, uint32_t r)
{
	/* groups of `have` bits, `apart` bits from one to the next: two of them become one */
	for (uint32_t have = 1, apart = 1u << r; r != 0 && apart < 64; have *= 2, apart *= 2) {
		v |= v >> (apart - have);
		v &= ph_run_starts(ph_ctz(apart) + 1) * ph_low_mask(2 * have);
	}
	return v;
}

/* The granules of one word of a level, low bits first; no part of a bigger block. */
static uint64_t granules_of(uint64_t word, uint32_t r)
{
	uint64_t starts = ph_runs(word, r);
	if (r != 3) /* 2 MiB of 4 KiB frames: bit 8i to bit i, the sum of no two meets */
		return gather(starts, r);
	return starts * UINT64_C(0x0102040810204080) >> 56;
}

uint64_t ph_sets_whole(const struct pagehint_zone *z, uint32_t slot, uint32_t i)
{
	uint32_t level = z->granule_order / 6, r = z->granule_order % 6;
	uint32_t granules = PAGEHINT_SECTION_FRAMES >> z->granule_order;
	if (ph_zone_is_whole(z, slot))
		return ph_low_mask(granules);
	if (level == PH_WHOLE_LEVEL)
		return 0;
	uint32_t words = PH_L0_WORDS >> (6 * level), each = 64u >> r, first = i << r;
	uint32_t n = words - first < 1u << r ? words - first : 1u << r;
	uint64_t out = 0;
	if (level == 1) { /* what is asked most: one word says of all of them whether they are part of bigger blocks */
		const ph_word *word = ph_zone_level_word(z, slot, 1, first);
		const ph_word *level2 = &ph_zone_head(z, slot)->level2;
		uint64_t above = atomic_load(level2) >> first;
		for (uint32_t j = 0; j < n; j++) {
			uint64_t v = atomic_load(&word[j]);
			if (v == 0 && !(above >> j & 1)) /* used up, or merged since we looked */
				above = atomic_load(level2) >> first;
			out |= (above >> j & 1 ? ph_low_mask(each) : granules_of(v, r)) << (j * each);
		}
		return out;
	}
	for (uint32_t j = 0; j < n; j++) {
		uint32_t word = first + j;
		uint64_t bits = ph_level_covered(z, slot, level, word)
					? ph_low_mask(each)
					: granules_of(atomic_load(ph_zone_level_word(z, slot, level, word)), r);
		out |= bits << (j * each);
	}
	return out;
}

uint64_t ph_sets_whole_reported(const struct pagehint_zone *z, uint32_t slot, uint32_t i)
{
	uint64_t whole = ph_sets_whole(z, slot, i), g = z->granule_order;
	uint64_t stale = whole & (atomic_load(&ph_sets_stale(z, slot)[i]) | atomic_load(&ph_sets_touched(z, slot)[i]));
	uint64_t reported = whole & ~stale;
	for (; stale != 0 && z->flags & PAGEHINT_ZONE_LADDER; stale &= stale - 1)
		if (!ph_sets_is_dirty(z, slot, (uint32_t)((i * 64 + ph_ctz(stale)) << g), 1u << g))
			reported |= stale & -stale;
	return reported;
}

void ph_sets_reported(struct pagehint_zone *z, uint32_t slot, uint32_t offset, uint32_t frames)
{
	uint32_t g = z->granule_order, size = 1u << g;
	uint32_t first = (offset + size - 1) >> g, end = (offset + frames) >> g;
	if (first < end)
		change_range(ph_sets_stale(z, slot), first, end - first, clear_bits);
	if (z->flags & PAGEHINT_ZONE_LADDER)
		change_range(dirty_words(z, slot), offset, frames, clear_bits);
}

void ph_sets_unused(struct pagehint_zone *z, uint32_t slot, uint32_t first, uint32_t n)
{
	/* touched first: until stale goes, too, whoever dies here leaves them as used */
	change_range(ph_sets_touched(z, slot), first, n, clear_bits);
	change_range(ph_sets_stale(z, slot), first, n, clear_bits);
}

void ph_sets_reset(struct pagehint_zone *z, uint32_t slot, uint32_t offset, uint32_t frames, int present)
{
	uint32_t g = z->granule_order, first = offset >> g, n = ((offset + frames - 1) >> g) - first + 1;
	uint32_t whole = (offset + (1u << g) - 1) >> g, end = (offset + frames) >> g;
	int stale = present && (z->flags & PAGEHINT_ZONE_STALE);
	change_range(ph_sets_aged(z, slot), first, n, clear_bits);
	if (stale) {
		change_range(ph_sets_stale(z, slot), first, n, set_bits);
	} else if (!present && whole < end) {
		/*
		 * Granules that go in part stay as they were: stale at worst, which only costs a discard. So does a look at
		 * this moment, which moves `touched` to `stale` behind us.
		 */
		ph_sets_unused(z, slot, whole, end - whole);
	}
	if (z->flags & PAGEHINT_ZONE_LADDER)
		change_range(dirty_words(z, slot), offset, frames, stale ? set_bits : clear_bits);
}

int ph_sets_is_dirty(const struct pagehint_zone *z, uint32_t slot, uint32_t offset, uint32_t frames)
{
	const ph_word *dirty = dirty_words(z, slot);
	while (frames != 0) {
		uint32_t bit = offset % 64, here = 64 - bit < frames ? 64 - bit : frames;
		if (atomic_load(&dirty[offset / 64]) & ph_mask(bit, here))
			return 1;
		offset += here;
		frames -= here;
	}
	return 0;
}
