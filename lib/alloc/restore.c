/*
 * restore: puts granules that the host took back into the tree (the other half of evict.h).
 *
 * The biggest blocks first, the blocks of one word by one atomic. A merge on the way up is noted before it begins: while it
 * is half done its block is nowhere, and it is more than what we put.
 */
#include <string.h>

#include "alloc/granules.h"
#include "alloc/level.h"
#include "alloc/summary.h"

void ph_host_publish(struct ph_host *h, uint32_t slot, uint32_t level, uint32_t word, uint64_t mask)
{
	struct pagehint_zone *z = h->z;
	while (level != PH_WHOLE_LEVEL) {
		if (mask != PH_FULL) {
			ph_word *p = ph_zone_level_word(z, slot, level, word);
			uint64_t full = PH_FULL, now = atomic_fetch_or(p, mask) | mask;
			if (now != PH_FULL) {
				if (now != 0)
					ph_summary_widen(z, slot, level, word, ph_level_class(now));
				break;
			}
			/* all of the block above is what can be lost from here on */
			uint64_t moved = UINT64_C(1) << (6 * (level + 1));
			atomic_store_explicit(&z->host_where, ph_where(slot, PH_WHERE_BLOCK, level + 1, word),
					      memory_order_release);
			h->begun += moved;
			ph_say(&z->host_begun, h->begun);
			if (!atomic_compare_exchange_strong(p, &full, 0)) {
				int is = ph_level_class(atomic_load(p));
				if (is >= 0)
					ph_summary_widen(z, slot, level, word, is);
				break;
			}
		}
		mask = UINT64_C(1) << (word & 63);
		word >>= 6;
		level++;
	}
	if (level == PH_WHOLE_LEVEL)
		atomic_fetch_or(&ph_zone_whole(z)[slot / 64], UINT64_C(1) << (slot % 64));
	if (h->ended != h->begun) {
		h->ended = h->begun;
		ph_say(&z->host_ended, h->ended);
	}
}

/* Blocks of one word go back. */
static void put(struct ph_host *h, uint32_t slot, uint32_t level, uint32_t word, uint64_t mask, uint64_t *account)
{
	uint64_t frames = ph_place_frames(level, mask), *mine = ph_host_mine(h, slot);
	ph_host_note(h, slot, level, word, mask);
	ph_host_publish(h, slot, level, word, mask);
	h->put += frames;
	ph_say(&h->z->host_put, h->put);
	*account -= frames;
	ph_say(account == &h->held ? &h->z->host_held : &h->z->host_away, *account);
	memset(h->claimed, 0, h->z->granule_words * sizeof(uint64_t));
	ph_host_add_granules(h->z, level, word, mask, h->claimed);
	for (uint32_t i = 0; i < h->z->granule_words; i++)
		mine[i] &= ~h->claimed[i];
	ph_host_say_mine(h, slot);
	ph_host_note_done(h);
}

static void put_and_forget(struct ph_host *h, uint32_t slot, uint32_t level, uint32_t word, uint64_t mask,
			   uint64_t *account)
{
	put(h, slot, level, word, mask, account);
	for (uint32_t i = 0; i < h->z->granule_words; i++)
		h->rest[i] &= ~h->claimed[i];
}

/* The granules of one word of rest: bits of several words of the tree, or part of the bits of one. */
static uint64_t bits_of(const struct ph_shape *s, uint64_t rest, uint32_t i, uint32_t word)
{
	uint64_t mask = 0;
	if (s->up) {
		for (uint64_t v = ph_runs(rest, s->shift); v != 0; v &= v - 1)
			mask |= UINT64_C(1) << (((i * 64 + ph_ctz(v)) >> s->shift) & 63);
		return mask;
	}
	uint32_t first = ph_granule_at(s, word * 64) % 64, n = 64u >> s->run;
	for (uint64_t v = rest >> first & ph_low_mask(n); v != 0; v &= v - 1)
		mask |= ph_order_mask(s->run, ph_ctz(v) << s->run);
	return mask;
}

/* Blocks of at least 64 granules. */
static uint64_t big_bits(const struct ph_host *h, const struct ph_shape *s, uint32_t word)
{
	uint64_t mask = 0;
	for (uint32_t bit = 0; bit < 64; bit++)
		if (ph_count_range(h->rest, ph_granule_at(s, word * 64 + bit), s->granules) == s->granules)
			mask |= UINT64_C(1) << bit;
	return mask;
}

/* All blocks of a level that are wholly in rest leave it. */
static void put_level(struct ph_host *h, uint32_t slot, uint32_t level, uint64_t *account)
{
	const struct ph_shape s = ph_shape_of(h->z, level);
	uint32_t words = PH_L0_WORDS >> (6 * level), per_word = ph_granule_at(&s, 64);
	for (uint32_t word = 0; word < words; word++) {
		uint32_t first = word * per_word, end = first + per_word;
		uint64_t mask = 0, any = 0;
		for (uint32_t i = first / 64; i * 64 < end && i < h->z->granule_words; i++) {
			any |= h->rest[i];
			if (h->rest[i] != 0 && (!s.up || s.granules < 64))
				mask |= bits_of(&s, h->rest[i], i, word);
		}
		if (any == 0) { /* nor for the other words that share these bits */
			word |= s.up ? 0 : (1u << s.shift) - 1;
			continue;
		}
		if (s.up && s.granules >= 64)
			mask = big_bits(h, &s, word);
		if (mask != 0)
			put_and_forget(h, slot, level, word, mask, account);
	}
}

void ph_host_release(struct ph_host *h, uint32_t slot, const uint64_t *granules, uint64_t *account)
{
	uint32_t words = h->z->granule_words, n = ph_popcount_all(granules, words);
	if (granules != h->rest)
		memcpy(h->rest, granules, words * sizeof(uint64_t));
	if (n == ph_host_granules(h->z)) {
		put(h, slot, PH_WHOLE_LEVEL, 0, 1, account);
	} else {
		for (uint32_t level = PH_WHOLE_LEVEL; level-- > ph_host_level(h->z);)
			put_level(h, slot, level, account);
	}
	h->count[slot] = ph_popcount_all(ph_host_mine(h, slot), words);
	if (h->count[slot] == 0 && h->number[slot] != 0) {
		h->slot_of[h->number[slot] - 1] = 0;
		h->number[slot] = 0;
	}
}
