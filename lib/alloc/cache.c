#include "alloc/cache.h"

#include <errno.h>

#include "alloc/level.h"
#include "alloc/ops.h"
#include "alloc/sets.h"
#include "alloc/track.h"

#define RELAXED memory_order_relaxed

static struct pagehint_zone *zone_of(const struct pagehint_cache *c)
{
	return (struct pagehint_zone *)((uintptr_t)c - (uintptr_t)c->offset);
}

static uint64_t mask_of(const struct pagehint_cache *c, uint32_t i)
{
	return atomic_load_explicit(&c->mask[i], RELAXED);
}

static void set_entry(struct pagehint_cache *c, uint32_t i, uint32_t word, uint64_t mask, uint64_t note)
{
	atomic_store_explicit(&c->word[i], word, RELAXED);
	atomic_store_explicit(&c->note[i], note, RELAXED);
	atomic_store_explicit(&c->mask[i], mask, RELAXED);
}

/* Gives an entry's frames back to the tree. */
static void flush_entry(struct pagehint_zone *z, struct pagehint_cache *c, uint32_t i)
{
	uint64_t mask = mask_of(c, i);
	if (mask == 0)
		return;
	uint32_t word = atomic_load_explicit(&c->word[i], RELAXED);
	/* counted out of the cache first: a reader may see the frames nowhere for a moment, but never twice */
	atomic_store_explicit(&c->mask[i], 0, RELAXED);
	ph_level_put(z, word / PH_L0_WORDS, 0, word % PH_L0_WORDS, mask);
}

static void drain(struct pagehint_zone *z, struct pagehint_cache *c)
{
	atomic_store_explicit(&c->drain_wanted, 0, RELAXED);
	for (uint32_t i = 0; i < PH_CACHE_WORDS; i++)
		flush_entry(z, c, i);
}

/* Drains a parked cache on behalf of its owner. */
static void drain_parked(struct pagehint_zone *z, struct pagehint_cache *c)
{
	uint32_t state = PH_CACHE_PARKED;
	if (!atomic_compare_exchange_strong(&c->state, &state, PH_CACHE_DRAINING))
		return;
	drain(z, c);
	state = PH_CACHE_DRAINING;
	if (!atomic_compare_exchange_strong(&c->state, &state, PH_CACHE_PARKED))
		atomic_store(&c->state, PH_CACHE_FREE); /* the owner closed it meanwhile and left the rest to us */
}

void ph_cache_recall(struct pagehint_zone *z, struct pagehint_cache *self)
{
	uint32_t n = (uint32_t)atomic_load(&z->used_caches);
	for (uint32_t i = 0; i < n; i++) {
		struct pagehint_cache *c = ph_cache_at(z, i);
		uint32_t state = atomic_load(&c->state);
		if (c == self)
			drain(z, c);
		else if (state == PH_CACHE_PARKED)
			drain_parked(z, c);
		else if (state == PH_CACHE_OWNED)
			atomic_store_explicit(&c->drain_wanted, 1, RELAXED);
	}
}

uint64_t ph_cache_held(const struct pagehint_zone *z, const struct pagehint_cache *c, uint64_t *ret_granules)
{
	uint64_t frames = 0, granules = 0;
	uint32_t shift = z->granule_order > 6 ? z->granule_order - 6 : 0, seen[PH_CACHE_WORDS];
	for (uint32_t i = 0; i < PH_CACHE_WORDS; i++) {
		uint64_t mask = mask_of(c, i);
		if (mask == 0)
			continue;
		frames += ph_popcount(mask);
		uint32_t granule = atomic_load_explicit(&c->word[i], RELAXED) >> shift, j = 0;
		while (j < granules && seen[j] != granule)
			j++;
		if (j == granules)
			seen[granules++] = granule;
	}
	if (ret_granules != NULL)
		*ret_granules += z->granule_order >= 6 ? granules : granules << (6 - z->granule_order);
	return frames;
}

uint64_t ph_cache_total(const struct pagehint_zone *z, uint64_t *ret_granules, uint64_t *ret_open)
{
	uint32_t n = (uint32_t)atomic_load(&z->used_caches);
	uint64_t frames = 0;
	for (uint32_t i = 0; i < n; i++) {
		const struct pagehint_cache *c = ph_cache_at(z, i);
		if (atomic_load(&c->state) == PH_CACHE_FREE)
			continue;
		frames += ph_cache_held(z, c, ret_granules);
		if (ret_open != NULL)
			++*ret_open;
	}
	return frames;
}

int pagehint_cache_open(struct pagehint_zone *zone, struct pagehint_cache **ret_cache)
{
	for (uint32_t i = 0; i < zone->max_caches; i++) {
		struct pagehint_cache *c = ph_cache_at(zone, i);
		uint32_t state = PH_CACHE_FREE;
		if (!atomic_compare_exchange_strong(&c->state, &state, PH_CACHE_OWNED))
			continue;
		c->offset = (uint64_t)((uintptr_t)c - (uintptr_t)zone);
		atomic_store(&c->drain_wanted, 0);
		atomic_store(&c->current, 0);
		uint64_t used = atomic_load(&zone->used_caches);
		while (used < i + 1 && !atomic_compare_exchange_strong(&zone->used_caches, &used, i + 1))
			;
		*ret_cache = c;
		return 0;
	}
	return -ENOSPC;
}

void pagehint_cache_close(struct pagehint_cache *cache)
{
	if (cache == NULL)
		return;
	uint32_t state = atomic_load(&cache->state);
	while (state != PH_CACHE_OWNED) {
		if (state == PH_CACHE_FREE || state == PH_CACHE_CLOSING)
			return; /* closed already */
		/* whoever drains it at this moment finishes and frees the slot */
		if (state == PH_CACHE_DRAINING &&
		    atomic_compare_exchange_strong(&cache->state, &state, PH_CACHE_CLOSING))
			return;
		if (state == PH_CACHE_PARKED && atomic_compare_exchange_strong(&cache->state, &state, PH_CACHE_OWNED))
			break;
		state = atomic_load(&cache->state);
	}
	drain(zone_of(cache), cache);
	atomic_store(&cache->state, PH_CACHE_FREE);
}

/* Takes one frame out of entry i, which has one. */
static uint64_t hand_out(struct pagehint_zone *z, struct pagehint_cache *c, uint32_t i)
{
	uint64_t mask = mask_of(c, i), note = atomic_load_explicit(&c->note[i], RELAXED), bit = mask & -mask;
	uint32_t word = atomic_load_explicit(&c->word[i], RELAXED);
	uint32_t slot = word / PH_L0_WORDS, offset = (word % PH_L0_WORDS) * 64 + ph_ctz(mask);
	atomic_store_explicit(&c->mask[i], mask & ~bit, RELAXED);
	if (ph_unlikely(note & bit))
		atomic_store_explicit(&c->note[i], ph_sets_handed_frame(z, slot, offset, note), RELAXED);
	if (ph_zone_is_tracked(z))
		atomic_fetch_or_explicit(ph_track_word(z, slot, 0, word % PH_L0_WORDS), bit, memory_order_acq_rel);
	return ph_zone_base(z, slot) + offset;
}

static PH_NOINLINE int refill(struct pagehint_zone *z, struct pagehint_cache *c, uint64_t *ret_frame)
{
	for (uint32_t i = 0; i < PH_CACHE_WORDS; i++) {
		if (mask_of(c, i) == 0)
			continue;
		atomic_store_explicit(&c->current, i, RELAXED);
		*ret_frame = hand_out(z, c, i);
		return 0;
	}
	struct ph_place p;
	uint64_t mask;
	int r = ph_level_take(z, 0, 64, &p, &mask);
	if (r < 0)
		r = ph_zone_take_slow(z, c, 0, 64, &p, &mask);
	if (r < 0)
		return r;
	set_entry(c, 0, p.slot * PH_L0_WORDS + p.word, mask, ph_sets_cached(z, &p, mask));
	atomic_store_explicit(&c->current, 0, RELAXED);
	*ret_frame = hand_out(z, c, 0);
	return 0;
}

int pagehint_cache_alloc(struct pagehint_cache *cache, uint32_t order, uint64_t *ret_frame)
{
	struct pagehint_zone *z = zone_of(cache);
	if (ph_unlikely(atomic_load_explicit(&cache->state, RELAXED) != PH_CACHE_OWNED))
		return -EBUSY;
	if (ph_unlikely(atomic_load_explicit(&cache->drain_wanted, RELAXED)))
		drain(z, cache);
	if (order != 0)
		return ph_zone_alloc(z, cache, order, ret_frame);
	uint32_t i = atomic_load_explicit(&cache->current, RELAXED);
	if (ph_unlikely(mask_of(cache, i) == 0))
		return refill(z, cache, ret_frame);
	*ret_frame = hand_out(z, cache, i);
	return 0;
}

/*
 * The entry for a word that is not held yet: an empty one, else a full word (worth more to everybody in the tree, where it
 * merges), else the one that holds the least.
 */
static uint32_t make_room(struct pagehint_zone *z, struct pagehint_cache *c)
{
	uint32_t least = 0, best = 65;
	for (uint32_t i = 0; i < PH_CACHE_WORDS; i++) {
		uint32_t n = ph_popcount(mask_of(c, i));
		if (n == 0)
			return i;
		if (n == 64)
			n = 0;
		if (n < best) {
			best = n;
			least = i;
		}
	}
	flush_entry(z, c, least);
	return least;
}

int pagehint_cache_free(struct pagehint_cache *cache, uint64_t frame, uint32_t order)
{
	struct pagehint_zone *z = zone_of(cache);
	if (ph_unlikely(atomic_load_explicit(&cache->state, RELAXED) != PH_CACHE_OWNED))
		return -EBUSY;
	if (ph_unlikely(atomic_load_explicit(&cache->drain_wanted, RELAXED)))
		drain(z, cache);
	if (order != 0)
		return pagehint_zone_free(z, frame, order);
	struct ph_place p;
	int r = ph_zone_untrack(z, frame, 0, &p);
	if (ph_unlikely(r < 0))
		return r;
	uint32_t word = p.slot * PH_L0_WORDS + p.word;
	uint64_t bit = UINT64_C(1) << p.bit;
	for (uint32_t i = 0; i < PH_CACHE_WORDS; i++) {
		uint64_t mask = mask_of(cache, i);
		if (atomic_load_explicit(&cache->word[i], RELAXED) != word || mask == 0)
			continue;
		atomic_store_explicit(&cache->mask[i], mask | bit, RELAXED);
		atomic_store_explicit(&cache->current, i, RELAXED);
		return 0;
	}
	uint32_t i = make_room(z, cache);
	set_entry(cache, i, word, bit, 0);
	atomic_store_explicit(&cache->current, i, RELAXED);
	return 0;
}

void pagehint_cache_drain(struct pagehint_cache *cache)
{
	if (atomic_load(&cache->state) == PH_CACHE_OWNED)
		drain(zone_of(cache), cache);
}

int pagehint_cache_park(struct pagehint_cache *cache)
{
	uint32_t state = PH_CACHE_OWNED;
	if (atomic_load_explicit(&cache->drain_wanted, RELAXED) && atomic_load(&cache->state) == state)
		drain(zone_of(cache), cache);
	return atomic_compare_exchange_strong(&cache->state, &state, PH_CACHE_PARKED) ? 0 : -EALREADY;
}

int pagehint_cache_unpark(struct pagehint_cache *cache)
{
	uint32_t state = PH_CACHE_PARKED;
	if (atomic_compare_exchange_strong(&cache->state, &state, PH_CACHE_OWNED))
		return 0;
	return state == PH_CACHE_DRAINING ? -EAGAIN : -EALREADY;
}

uint64_t pagehint_cache_held(const struct pagehint_cache *cache)
{
	return ph_cache_held(zone_of(cache), cache, NULL);
}
