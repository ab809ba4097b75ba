#include "alloc/evict.h"

#include <string.h>

#include "alloc/granules.h"
#include "alloc/level.h"
#include "alloc/summary.h"

#define CLAIM_TRIES 64u /* the guest changed the word each time: then it is busy with it, or means us ill */

static uint64_t place(uint64_t *at, uint64_t count, uint64_t size)
{
	uint64_t here = *at;
	*at += ph_round_up(count * size, 64);
	return here;
}

static uint64_t lay_out(struct ph_host *h, const struct pagehint_zone *z, unsigned char *memory)
{
	uint64_t at = 0, words = z->granule_words, slots = z->max_sections;
	uint64_t mine = place(&at, slots * words, 8), count = place(&at, slots, 4), number = place(&at, slots, 8);
	uint64_t slot_of = place(&at, z->span_sections, 4), scratch = place(&at, 5 * words, 8);
	if (h == NULL)
		return at;
	h->mine = (uint64_t *)(void *)(memory + mine);
	h->count = (uint32_t *)(void *)(memory + count);
	h->number = (uint64_t *)(void *)(memory + number);
	h->slot_of = (uint32_t *)(void *)(memory + slot_of);
	h->want = (uint64_t *)(void *)(memory + scratch);
	h->got = h->want + words;
	h->claimed = h->got + words;
	h->rest = h->claimed + words;
	h->tried = h->rest + words;
	return at;
}

uint64_t ph_host_bytes(const struct pagehint_zone *z)
{
	return lay_out(NULL, z, NULL);
}

void ph_host_init(struct ph_host *h, struct pagehint_zone *z, void *memory)
{
	memset(h, 0, sizeof(*h));
	h->z = z;
	lay_out(h, z, memory);
}

/* ---- words for others ---- */

void ph_host_tell(struct ph_host *h)
{
	struct pagehint_zone *z = h->z;
	ph_say(&z->host_put, h->put);
	ph_say(&z->host_taken, h->taken);
	ph_say(&z->host_begun, h->begun);
	ph_say(&z->host_ended, h->ended);
	ph_say(&z->host_held, h->held);
	ph_say(&z->host_away, h->away);
}

void ph_host_say_mine(struct ph_host *h, uint32_t slot)
{
	const uint64_t *mine = ph_host_mine(h, slot);
	ph_word *held = ph_host_held(h->z, slot);
	for (uint32_t i = 0; i < h->z->granule_words; i++)
		if (atomic_load_explicit(&held[i], memory_order_relaxed) != mine[i])
			atomic_store_explicit(&held[i], mine[i], memory_order_release);
}

void ph_host_add_granules(const struct pagehint_zone *z, uint32_t level, uint32_t word, uint64_t mask, uint64_t *bits)
{
	if (level == PH_WHOLE_LEVEL) {
		ph_set_range(bits, 0, ph_host_granules(z));
		return;
	}
	struct ph_shape s = ph_shape_of(z, level);
	for (uint64_t starts = ph_runs(mask, s.run); starts != 0; starts &= starts - 1)
		ph_set_range(bits, ph_granule_at(&s, word * 64 + ph_ctz(starts)), s.granules);
}

/* ---- taking ---- */

void ph_host_own(struct ph_host *h, uint32_t slot, uint64_t number, const uint64_t *granules)
{
	uint64_t *mine = ph_host_mine(h, slot);
	for (uint32_t i = 0; i < h->z->granule_words; i++)
		mine[i] |= granules[i];
	h->count[slot] = ph_popcount_all(mine, h->z->granule_words);
	h->number[slot] = number + 1;
	h->slot_of[number] = slot + 1;
	h->top = h->top > slot ? h->top : slot + 1;
	ph_host_say_mine(h, slot);
}

static void expect(struct ph_host *h, uint64_t frames)
{
	h->away += frames;
	ph_say(&h->z->host_away, h->away);
}

static void unexpect(struct ph_host *h, uint64_t frames)
{
	h->away -= frames;
	ph_say(&h->z->host_away, h->away);
}

static void unclaim(struct ph_host *h, uint64_t frames)
{
	h->lies++;
	h->put += frames;
	unexpect(h, frames);
	ph_say(&h->z->host_put, h->put);
}

/* It has been taken: add it to what this call claimed, and say so to the next host before the note of it goes. */
static void took(struct ph_host *h, uint32_t slot, uint32_t level, uint32_t word, uint64_t mask)
{
	ph_word *held = ph_host_held(h->z, slot);
	const uint64_t *mine = ph_host_mine(h, slot);
	uint32_t before = ph_popcount_all(h->claimed, h->z->granule_words);
	ph_host_add_granules(h->z, level, word, mask, h->claimed);
	uint32_t more = ph_popcount_all(h->claimed, h->z->granule_words) - before;
	uint64_t twice = ph_place_frames(level, mask) - ((uint64_t)more << h->z->granule_order);
	if (twice != 0) /* free on two levels: it is counted once */
		unclaim(h, twice);
	for (uint32_t i = 0; i < h->z->granule_words; i++)
		if ((h->claimed[i] & ~atomic_load_explicit(&held[i], memory_order_relaxed)) != 0)
			atomic_store_explicit(&held[i], mine[i] | h->claimed[i], memory_order_release);
	ph_host_note_done(h);
	h->taken += ph_place_frames(level, mask);
	ph_say(&h->z->host_taken, h->taken);
}

/* Blocks of one word, by one atomic. */
static void claim_word(struct ph_host *h, uint32_t slot, uint32_t level, uint32_t word, uint64_t wanted, uint32_t run)
{
	ph_word *p = ph_zone_level_word(h->z, slot, level, word);
	uint64_t v = atomic_load(p);
	for (uint32_t i = 0; i < CLAIM_TRIES; i++) {
		uint64_t mask = ph_runs(v & wanted, run) * ph_low_mask(1u << run); /* runs apart: no carry */
		if (mask == 0)
			return;
		ph_host_note(h, slot, level, word, mask);
		expect(h,
		       ph_place_frames(level, mask)); /* before: whoever misses them must see that they are somewhere */
		if (atomic_compare_exchange_strong(p, &v, v & ~mask)) {
			ph_summary_moved(h->z, slot, level, word, ph_level_class(v), v & ~mask);
			took(h, slot, level, word, mask);
			return;
		}
		unexpect(h, ph_place_frames(level, mask));
		ph_host_note_done(h);
	}
}

static int claim_section(struct ph_host *h, uint32_t slot)
{
	uint64_t bit = UINT64_C(1) << (slot % 64);
	ph_word *whole = &ph_zone_whole(h->z)[slot / 64];
	if (!(atomic_load(whole) & bit))
		return 0;
	ph_host_note(h, slot, PH_WHOLE_LEVEL, 0, 1);
	expect(h, PAGEHINT_SECTION_FRAMES);
	if (atomic_fetch_and(whole, ~bit) & bit) {
		took(h, slot, PH_WHOLE_LEVEL, 0, 1);
		return 1;
	}
	unexpect(h, PAGEHINT_SECTION_FRAMES);
	ph_host_note_done(h);
	return 0;
}

/* Every block of the level that has something wanted, until there is enough. */
static uint32_t claim_level(struct ph_host *h, uint32_t slot, uint32_t level, uint32_t most)
{
	const struct ph_shape s = ph_shape_of(h->z, level);
	uint32_t n = 0;
	for (uint32_t word = 0; word < PH_L0_WORDS >> (6 * level) && n < most; word++) {
		uint64_t v = atomic_load(ph_zone_level_word(h->z, slot, level, word)), mask = 0;
		for (uint64_t starts = ph_runs(v, s.run); starts != 0 && n < most; starts &= starts - 1) {
			uint32_t bit = ph_ctz(starts);
			uint32_t wanted = ph_count_range(h->want, ph_granule_at(&s, word * 64 + bit), s.granules);
			if (wanted == 0)
				continue;
			n += wanted;
			mask |= ph_order_mask(s.run, bit);
		}
		if (mask != 0)
			claim_word(h, slot, level, word, mask, s.run);
	}
	return n < most ? n : most;
}

int ph_host_knows(const struct ph_host *h, uint32_t slot, uint64_t *ret_number)
{
	uint64_t number = atomic_load(&ph_zone_head(h->z, slot)->number_plus1) - 1;
	*ret_number = number;
	return number < h->z->span_sections && (h->count[slot] == 0 || h->number[slot] == number + 1) &&
	       (h->slot_of[number] == 0 || h->slot_of[number] == slot + 1);
}

/* The state gave us what we have: it is counted once. */
static void forget_doubles(struct ph_host *h, uint32_t slot)
{
	const uint64_t *mine = ph_host_mine(h, slot);
	uint64_t n = 0;
	if (h->count[slot] == 0)
		return;
	for (uint32_t i = 0; i < h->z->granule_words; i++) {
		uint64_t twice = h->claimed[i] & mine[i];
		n += twice != 0 ? ph_popcount(twice) : 0;
		h->claimed[i] &= ~twice;
	}
	if (n != 0)
		unclaim(h, n << h->z->granule_order);
}

/* The lowest `most` of what is wanted stay in got; the others of what was claimed are in rest. */
static uint32_t divide(struct ph_host *h, uint32_t most, int known)
{
	uint32_t n = 0;
	uint64_t others = 0;
	for (uint32_t i = 0; i < h->z->granule_words; i++) {
		uint64_t got = known ? h->claimed[i] & h->want[i] : 0;
		while (got != 0 && n + ph_popcount(got) > most)
			got &= ~(UINT64_C(1) << (63 - (uint32_t)__builtin_clzll(got)));
		n += got != 0 ? ph_popcount(got) : 0;
		h->got[i] = got;
		others |= h->rest[i] = h->claimed[i] & ~got;
	}
	return others != 0 ? n | UINT32_C(1) << 31 : n;
}

static void say_evicted(struct ph_host *h, uint32_t slot)
{
	ph_word *evicted = ph_host_evicted(h->z, slot), *filling = ph_host_filling(h->z, slot);
	for (uint32_t i = 0; i < h->z->granule_words; i++) {
		if (h->got[i] == 0)
			continue;
		if (h->got[i] & ~atomic_load(&evicted[i]))
			atomic_fetch_or(&evicted[i], h->got[i]);
		if (h->got[i] & atomic_load(&filling[i])) /* by somebody who died over it: nobody has any of it now */
			atomic_fetch_and(&filling[i], ~h->got[i]);
	}
}

uint32_t ph_host_take(struct ph_host *h, uint32_t slot, uint32_t most)
{
	uint32_t left = most, words = h->z->granule_words;
	uint64_t number = 0;
	memset(h->claimed, 0, words * sizeof(uint64_t));
	if (ph_count_range(h->want, 0, ph_host_granules(h->z)) == 0 || most == 0)
		return 0;
	if (!claim_section(h, slot))
		for (uint32_t level = PH_WHOLE_LEVEL; level-- > ph_host_level(h->z) && left != 0;)
			left -= claim_level(h, slot, level, left);
	forget_doubles(h, slot);
	if (ph_popcount_all(h->claimed, words) == 0)
		return 0;
	if (h->doubts != 0)
		ph_host_shown(h, slot, h->claimed);
	int known = ph_host_knows(h, slot, &number); /* what is held keeps its section: only now it is certain */
	uint32_t n = divide(h, most, known), some_rest = n >> 31;
	n &= UINT32_MAX >> 1;
	h->lies += !known;
	if (known)
		ph_host_own(h, slot, number, h->claimed);
	if (some_rest)
		ph_host_release(h, slot, h->rest, &h->away);
	if (n != 0)
		say_evicted(h, slot);
	return n;
}

void ph_host_keep(struct ph_host *h, uint32_t n)
{
	uint64_t frames = (uint64_t)n << h->z->granule_order;
	h->held += frames;
	ph_say(&h->z->host_held, h->held);
	unexpect(h, frames);
}
