/*
 * check: walks every invariant of a zone at rest, from the bits themselves; see pagehint_zone_check.
 */
#include <stdio.h>

#include "alloc/cache.h"
#include "alloc/level.h"
#include "alloc/ops.h"
#include "alloc/sets.h"
#include "alloc/track.h"

struct walk {
	const struct pagehint_zone *z;
	const struct pagehint_sink *sink;
	uint64_t faults;
	uint64_t free, out, present;
};

static void fault(struct walk *w, const char *what, uint64_t where, uint64_t a, uint64_t b)
{
	char text[160];
	w->faults++;
	if (w->sink == NULL)
		return;
	snprintf(text, sizeof(text), "%s at %llu: %llx %llx", what, (unsigned long long)where, (unsigned long long)a,
		 (unsigned long long)b);
	w->sink->line(w->sink->ctx, text);
}

/* free frames of a level-0 word, through every level; also checks that the levels exclude each other */
static uint64_t free_of(struct walk *w, uint32_t slot, uint32_t word)
{
	uint64_t v = atomic_load(ph_zone_level_word(w->z, slot, 0, word));
	uint64_t one = atomic_load(ph_zone_level_word(w->z, slot, 1, word / 64)) >> (word % 64) & 1;
	uint64_t two = atomic_load(&ph_zone_head(w->z, slot)->level2) >> (word / 64) & 1;
	uint64_t whole = (uint64_t)ph_zone_is_whole(w->z, slot);
	if ((v != 0) + one + two + whole > 1)
		fault(w, "free on several levels", ph_zone_base(w->z, slot) + word * 64, v,
		      one << 2 | two << 1 | whole);
	return one | two | whole ? PH_FULL : v;
}

static uint64_t out_of(struct walk *w, uint32_t slot, uint32_t word)
{
	if (!ph_zone_is_tracked(w->z))
		return 0;
	uint64_t v = atomic_load(ph_track_word(w->z, slot, 0, word)),
		 lent = ph_lend_mask(w->z, ph_zone_word_name(slot, word));
	if (lent & ~v)
		fault(w, "lent, but not marked", ph_zone_base(w->z, slot) + word * 64, lent, v);
	v &= ~lent;
	uint64_t one = atomic_load(ph_track_word(w->z, slot, 1, word / 64)) >> (word % 64) & 1;
	uint64_t two = atomic_load(ph_track_word(w->z, slot, 2, 0)) >> (word / 64) & 1;
	uint64_t all = atomic_load(ph_track_word(w->z, slot, 3, 0)) & 1;
	if ((v != 0) + one + two + all > 1)
		fault(w, "out on several levels", ph_zone_base(w->z, slot) + word * 64, v, one << 2 | two << 1 | all);
	return one | two | all ? PH_FULL : v;
}

/* Does every bit from the word up say class c of it? */
static int is_said(const struct pagehint_zone *z, uint32_t slot, uint32_t level, uint32_t word, uint32_t c)
{
	const struct ph_section *head = ph_zone_head(z, slot);
	uint64_t said = atomic_load(&ph_zone_sum(z, level, c)[slot / 64]) >> (slot % 64);
	said &= atomic_load(&ph_zone_up(z, level, c)[slot / 4096]) >> (slot / 64 % 64);
	if (level == 1)
		said &= atomic_load(&head->sum1[c]) >> word;
	if (level == 0) {
		said &= atomic_load(&head->top0[c]) >> (word / 64);
		said &= atomic_load(&ph_zone_words(z, slot, z->at_sum0)[c * 64 + word / 64]) >> (word % 64);
	}
	return (int)(said & 1);
}

static void check_summary(struct walk *w, uint32_t slot, uint32_t level, uint32_t word)
{
	uint64_t v = atomic_load(ph_zone_level_word(w->z, slot, level, word));
	int c = ph_level_class(v), said = c < 0;
	if (v == PH_FULL)
		fault(w, "full word left unmerged", ph_zone_base(w->z, slot), level, word);
	for (; c < (int)PH_CLASSES && !said; c++)
		said = is_said(w->z, slot, level, word, (uint32_t)c);
	if (!said)
		fault(w, "summary says too little", ph_zone_base(w->z, slot), level, word);
}

/* A bit that is on has the bit above it on: who finds it on goes no further. */
static void check_chain(struct walk *w, uint32_t slot, uint32_t level, uint32_t c)
{
	const struct ph_section *head = ph_zone_head(w->z, slot);
	const ph_word *sum0 = &ph_zone_words(w->z, slot, w->z->at_sum0)[c * 64];
	uint64_t top = 0, sum = atomic_load(&ph_zone_sum(w->z, level, c)[slot / 64]);
	for (uint32_t a = 0; a < PH_L0_WORDS / 64; a++)
		top |= (uint64_t)(atomic_load(&sum0[a]) != 0) << a;
	uint64_t said = atomic_load(&head->top0[c]);
	uint64_t below = level == 0 ? said : level == 1 ? atomic_load(&head->sum1[c]) : 0;
	int up = (int)(atomic_load(&ph_zone_up(w->z, level, c)[slot / 4096]) >> (slot / 64 % 64) & 1);
	if ((level == 0 && (top & ~said) != 0) || (below != 0 && !(sum >> (slot % 64) & 1)) || (sum != 0 && !up))
		fault(w, "summary ends below its top", ph_zone_base(w->z, slot), level, c);
}

static void check_section(struct walk *w, uint32_t slot)
{
	const struct pagehint_zone *z = w->z;
	struct ph_section *head = ph_zone_head(z, slot);
	uint64_t base = ph_zone_base(z, slot);
	for (uint32_t word = 0; word < PH_L0_WORDS; word++) {
		uint64_t free_bits = free_of(w, slot, word), out_bits = out_of(w, slot, word);
		int present = ph_zone_is_present(z, slot, word * 64);
		if (free_bits & out_bits)
			fault(w, "free and out", base + word * 64, free_bits, out_bits);
		if (!present && (free_bits | out_bits))
			fault(w, "not present, but free or out", base + word * 64, free_bits, out_bits);
		w->present += present ? PH_PRESENT_FRAMES : 0;
		w->free += ph_popcount(free_bits);
		w->out += ph_popcount(out_bits);
	}
	for (uint32_t level = 0; level < PH_WHOLE_LEVEL; level++) {
		for (uint32_t word = 0; word < PH_L0_WORDS >> (6 * level); word++)
			check_summary(w, slot, level, word);
		for (uint32_t c = 0; c < PH_CLASSES; c++)
			check_chain(w, slot, level, c);
	}
	if (atomic_load(&head->begun) != atomic_load(&head->ended))
		fault(w, "something is still in transit", base, atomic_load(&head->begun), atomic_load(&head->ended));
	uint64_t splits = atomic_load(&head->splits_begun) - atomic_load(&head->splits_ended);
	if (splits != 0)
		fault(w, "an out block is still being split", base, splits, 0);
}

/* the bigger blocks that a cache keeps */
static uint64_t check_blocks(struct walk *w, const struct pagehint_cache *c, uint32_t i)
{
	uint64_t cached = 0;
	for (uint32_t order = 1; order <= PH_CACHE_ORDERS; order++) {
		uint64_t frame = atomic_load(&c->block[order]) - 1, frames = UINT64_C(1) << order;
		if (frame == UINT64_MAX)
			continue;
		cached += frames;
		int64_t slot = ph_zone_slot(w->z, frame);
		if (slot < 0 || (frame & (frames - 1)) != 0) {
			fault(w, "no block is in a cache", i, frame, order);
			continue;
		}
		for (uint64_t at = frame; at < frame + frames; at = (at | 63) + 1) {
			uint32_t word = ph_zone_offset(at) / 64;
			uint64_t mask = ph_mask(at % 64, frames < 64 ? (uint32_t)frames : 64);
			uint64_t elsewhere = free_of(w, (uint32_t)slot, word) | out_of(w, (uint32_t)slot, word);
			if (mask & elsewhere)
				fault(w, "block cached, but free or out", at, mask, elsewhere);
		}
		if (atomic_load(&c->control) == PH_CACHE_FREE)
			fault(w, "a block in a closed cache", i, frame, order);
	}
	return cached;
}

static uint64_t check_caches(struct walk *w)
{
	const struct pagehint_zone *z = w->z;
	uint64_t cached = 0;
	for (uint32_t i = 0; i < z->max_caches; i++) {
		const struct pagehint_cache *c = ph_cache_at(z, i);
		for (uint32_t e = 0; e < PH_CACHE_WORDS; e++) {
			uint64_t mask = atomic_load(&c->mask[e]);
			uint32_t word = atomic_load(&c->word[e]) - 1, slot = word / PH_L0_WORDS;
			if (mask == 0)
				continue;
			cached += ph_popcount(mask);
			word %= PH_L0_WORDS;
			uint64_t elsewhere = free_of(w, slot, word) | out_of(w, slot, word);
			if (mask & elsewhere)
				fault(w, "cached, but free or out", ph_zone_base(z, slot) + word * 64, mask, elsewhere);
			if (atomic_load(&c->control) == PH_CACHE_FREE)
				fault(w, "frames in a closed cache", i, mask, word);
		}
		cached += check_blocks(w, c, i);
	}
	return cached;
}

uint64_t pagehint_zone_check(const struct pagehint_zone *zone, const struct pagehint_sink *sink)
{
	struct walk w = { zone, sink, 0, 0, 0, 0 };
	if (zone->magic != PH_ZONE_MAGIC || zone->layout != PH_ZONE_LAYOUT || zone->endian != PH_ZONE_ENDIAN) {
		fault(&w, "not a zone of this layout", 0, zone->magic, zone->layout);
		return w.faults;
	}
	for (uint32_t s = 0; s < zone->max_sections; s++) {
		if (atomic_load(&ph_zone_head(zone, s)->number_plus1) != 0)
			check_section(&w, s);
		else if (ph_zone_is_whole(zone, s) || atomic_load(&ph_zone_head(zone, s)->level2) != 0)
			fault(&w, "free frames in an unused slot", s, 0, 0);
	}
	uint64_t cached = check_caches(&w), total = atomic_load(&zone->total);
	uint64_t away = atomic_load(&zone->isolated) + atomic_load(&zone->in_flight) + atomic_load(&zone->host_away) +
			atomic_load(&zone->host_held);
	uint64_t put, taken;
	ph_zone_counts(zone, &put, &taken);
	if (put - taken != w.free)
		fault(&w, "free counter is wrong", 0, put - taken, w.free);
	if (atomic_load(&zone->holding) != 0)
		fault(&w, "an operation still holds frames", 0, atomic_load(&zone->holding), 0);
	if (w.present != total)
		fault(&w, "total is not what is present", 0, total, w.present);
	if (ph_zone_is_tracked(zone) && w.free + cached + w.out + away != total)
		fault(&w, "free + cached + out + isolated + in_flight is not total", 0, w.free + cached + w.out + away,
		      total);
	return w.faults;
}
