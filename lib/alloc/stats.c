/*
 * stats: counts and enumerations that others read while the zone works.
 */
#include <errno.h>

#include "alloc/cache.h"
#include "alloc/level.h"
#include "alloc/ops.h"
#include "alloc/sets.h"
#include "base/opts.h"

/* a - b, but 0 where counters were read in the wrong moment */
static uint64_t minus(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

void ph_zone_counts(const struct pagehint_zone *z, uint64_t *ret_put, uint64_t *ret_taken)
{
	uint32_t slots = (uint32_t)atomic_load(&z->used_slots), caches = (uint32_t)atomic_load(&z->used_caches);
	/* taken first: whatever is taken had been put before */
	uint64_t put = 0, taken = atomic_load(&z->host_taken);
	for (uint32_t i = 0; i < slots; i++)
		taken += atomic_load(&ph_zone_head(z, i)->taken);
	for (uint32_t i = 0; i < caches; i++)
		taken += atomic_load(&ph_cache_at(z, i)->taken);
	for (uint32_t i = 0; i < caches; i++)
		put += atomic_load(&ph_cache_at(z, i)->put);
	for (uint32_t i = 0; i < slots; i++)
		put += atomic_load(&ph_zone_head(z, i)->put);
	put += atomic_load(&z->host_put);
	*ret_put = put;
	*ret_taken = taken;
}

int pagehint_zone_stats(const struct pagehint_zone *zone, struct pagehint_zone_stats *stats)
{
	struct pagehint_zone_stats s = { .total = atomic_load(&zone->total) };
	uint64_t put, taken, begun = 0, ended = 0;
	uint32_t slots = (uint32_t)atomic_load(&zone->used_slots);
	for (uint32_t i = 0; i < slots; i++) {
		struct ph_section *head = ph_zone_head(zone, i);
		s.sections += atomic_load(&head->number_plus1) != 0;
		ended += atomic_load(&head->ended);
		begun += atomic_load(&head->begun);
	}
	ended += atomic_load(&zone->host_ended);
	begun += atomic_load(&zone->host_begun);
	ph_zone_counts(zone, &put, &taken);
	s.cached = ph_cache_total(zone, &s.cached_granules, &s.caches);
	s.isolated = atomic_load(&zone->isolated) + atomic_load(&zone->host_away) + atomic_load(&zone->host_held);
	s.in_flight = atomic_load(&zone->in_flight);
	s.transit = minus(begun, ended);
	s.free = minus(minus(put, taken), s.transit);
	s.out = minus(s.total, s.free + s.cached + s.isolated + s.in_flight + s.transit);
	uint64_t words = zone->section_words + PH_PRESENT_WORDS;
	uint64_t each = words * 8 + sizeof(struct ph_section) + sizeof(uint32_t);
	s.metadata_bytes = zone->bytes;
	s.present_bytes = zone->bytes - (zone->max_sections - s.sections) * each;
	return PH_OPTS_OUT(stats, s);
}

uint64_t pagehint_zone_hidden(const struct pagehint_zone *zone)
{
	struct pagehint_zone_stats s = { .struct_size = sizeof(s) };
	if (pagehint_zone_stats(zone, &s) < 0)
		return 0;
	return s.cached + minus(s.isolated, atomic_load(&zone->host_held)) + s.in_flight + s.transit;
}

/* counts the maximal aligned blocks in a word whose bits are blocks of order `base` */
static void count_word(uint64_t v, uint32_t base, uint64_t *blocks)
{
	for (int o = 5; o >= 0 && v != 0; o--) {
		for (uint64_t starts = ph_runs(v, (unsigned)o); starts != 0; starts &= starts - 1) {
			blocks[base + (uint32_t)o]++;
			v &= ~ph_order_mask((uint32_t)o, ph_ctz(starts));
		}
	}
}

void pagehint_zone_free_orders(const struct pagehint_zone *zone, uint64_t *ret_blocks)
{
	for (uint32_t o = 0; o <= PAGEHINT_ORDER_MAX; o++)
		ret_blocks[o] = 0;
	uint32_t slots = (uint32_t)atomic_load(&zone->used_slots);
	for (uint32_t s = 0; s < slots; s++) {
		if (ph_zone_is_whole(zone, s)) {
			ret_blocks[PAGEHINT_ORDER_MAX]++;
			continue;
		}
		for (uint32_t level = 0; level < PH_WHOLE_LEVEL; level++)
			for (uint32_t w = 0; w < PH_L0_WORDS >> (6 * level); w++)
				count_word(atomic_load(ph_zone_level_word(zone, s, level, w)), 6 * level, ret_blocks);
	}
}

int pagehint_zone_granules(const struct pagehint_zone *zone, uint32_t set, uint64_t first, uint64_t n, uint64_t *out,
			   uint64_t words)
{
	if (set > PAGEHINT_GRANULES_REPORTED || first % 64 != 0 || !ph_sum_fits(first, n) ||
	    words < n / 64 + (n % 64 != 0))
		return -EINVAL;
	uint32_t g = zone->granule_order, per_section = PAGEHINT_SECTION_FRAMES >> g;
	for (uint64_t done = 0; done < n; done++) {
		uint64_t granule = first + done, v;
		/* whole words at once; sections of fewer than 64 granules share a word */
		int64_t slot = granule > UINT64_MAX >> g ? -1 : ph_zone_slot(zone, granule << g);
		uint32_t i = (uint32_t)(granule % per_section) / 64, width = per_section < 64 ? per_section : 64;
		if (slot < 0)
			v = 0;
		else if (set == PAGEHINT_GRANULES_REPORTED)
			v = ph_sets_whole_reported(zone, (uint32_t)slot, i);
		else
			v = ph_sets_whole(zone, (uint32_t)slot, i);
		if (done % 64 == 0)
			out[done / 64] = 0;
		uint64_t left = n - done;
		out[done / 64] |= (v & ph_low_mask(left < width ? (unsigned)left : width)) << (done % 64);
		done += width - 1;
	}
	return 0;
}
