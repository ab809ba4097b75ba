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

static uint64_t load(const ph_word *p)
{
	return atomic_load_explicit(p, RELAXED);
}

static void store(ph_word *p, uint64_t v)
{
	atomic_store_explicit(p, v, RELAXED);
}

/* names a level-0 word of the zone; never 0 */
static uint32_t name_of(const struct ph_place *p)
{
	return p->slot * PH_L0_WORDS + p->word + 1;
}

/* Entry i is for this word from now on. */
static void set_word(struct pagehint_zone *z, struct pagehint_cache *c, uint32_t i, const struct ph_place *p)
{
	uint64_t out = 0;
	if (ph_zone_is_tracked(z))
		out = (uint64_t)((uintptr_t)ph_track_word(z, p->slot, 0, p->word) - (uintptr_t)z);
	store(&c->base[i], ph_zone_base(z, p->slot) + p->word * UINT64_C(64));
	store(&c->out[i], out);
	atomic_store_explicit(&c->word[i], name_of(p), RELAXED);
}

/* Gives an entry's frames back to the tree. */
static void flush_entry(struct pagehint_zone *z, struct pagehint_cache *c, uint32_t i)
{
	uint64_t mask = load(&c->mask[i]);
	if (mask == 0)
		return;
	uint32_t word = atomic_load_explicit(&c->word[i], RELAXED) - 1;
	ph_level_publish(z, word / PH_L0_WORDS, 0, word % PH_L0_WORDS, mask);
	store(&c->put,
	      load(&c->put) + ph_popcount(mask)); /* before they seem to be nowhere: see ph_zone_nothing_moved */
	atomic_store_explicit(&c->mask[i], 0, memory_order_release);
}

static void drain(struct pagehint_zone *z, struct pagehint_cache *c)
{
	for (uint32_t i = 0; i < PH_CACHE_WORDS; i++)
		flush_entry(z, c, i);
}

/* The owner heard that it is wanted. */
static void obey(struct pagehint_zone *z, struct pagehint_cache *c)
{
	atomic_fetch_and(&c->control, ~PH_CACHE_WANTED);
	drain(z, c);
}

/* Drains a parked cache on behalf of its owner. */
static void drain_parked(struct pagehint_zone *z, struct pagehint_cache *c)
{
	uint32_t state = PH_CACHE_PARKED;
	if (!atomic_compare_exchange_strong(&c->control, &state, PH_CACHE_DRAINING))
		return;
	drain(z, c);
	state = PH_CACHE_DRAINING;
	if (!atomic_compare_exchange_strong(&c->control, &state, PH_CACHE_PARKED))
		atomic_store(&c->control, PH_CACHE_FREE); /* the owner closed it meanwhile and left the rest to us */
}

void ph_cache_recall(struct pagehint_zone *z, struct pagehint_cache *self)
{
	uint32_t n = (uint32_t)atomic_load(&z->used_caches);
	for (uint32_t i = 0; i < n; i++) {
		struct pagehint_cache *c = ph_cache_at(z, i);
		uint32_t state = atomic_load(&c->control);
		if (c == self)
			drain(z, c);
		else if (state == PH_CACHE_PARKED)
			drain_parked(z, c);
		else if (state == PH_CACHE_OWNED) /* if it changes state now, it does something better than obey */
			atomic_compare_exchange_strong(&c->control, &state, PH_CACHE_OWNED | PH_CACHE_WANTED);
	}
}

int ph_cache_any_moving(const struct pagehint_zone *z, const struct pagehint_cache *self)
{
	uint32_t n = (uint32_t)atomic_load(&z->used_caches);
	for (uint32_t i = 0; i < n; i++)
		if (ph_cache_at(z, i) != self && atomic_load(&ph_cache_at(z, i)->moving) != 0)
			return 1;
	return 0;
}

uint64_t ph_cache_held(const struct pagehint_zone *z, const struct pagehint_cache *c, uint64_t *ret_granules)
{
	uint64_t frames = 0, granules = 0;
	uint32_t shift = z->granule_order > 6 ? z->granule_order - 6 : 0, seen[PH_CACHE_WORDS];
	for (uint32_t i = 0; i < PH_CACHE_WORDS; i++) {
		uint64_t mask = atomic_load(&c->mask[i]);
		if (mask == 0)
			continue;
		frames += ph_popcount(mask);
		uint32_t granule = (atomic_load_explicit(&c->word[i], RELAXED) - 1) >> shift, j = 0;
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
		if (atomic_load(&c->control) == PH_CACHE_FREE)
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
		if (!atomic_compare_exchange_strong(&c->control, &state, PH_CACHE_OWNED))
			continue;
		c->offset = (uint64_t)((uintptr_t)c - (uintptr_t)zone);
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
	uint32_t state = atomic_load(&cache->control);
	while ((state & ~PH_CACHE_WANTED) != PH_CACHE_OWNED) {
		if (state == PH_CACHE_FREE || state == PH_CACHE_CLOSING)
			return; /* closed already */
		/* whoever drains it at this moment finishes and frees the slot */
		if (state == PH_CACHE_DRAINING &&
		    atomic_compare_exchange_strong(&cache->control, &state, PH_CACHE_CLOSING))
			return;
		if (state == PH_CACHE_PARKED && atomic_compare_exchange_strong(&cache->control, &state, PH_CACHE_OWNED))
			break;
		state = atomic_load(&cache->control);
	}
	drain(zone_of(cache), cache);
	atomic_store(&cache->control, PH_CACHE_FREE);
}

/* Takes the lowest frame out of entry i, of which `mask` is held and not empty. */
static inline uint64_t hand_out(struct pagehint_zone *z, struct pagehint_cache *c, uint32_t i, uint64_t mask)
{
	uint64_t bit = mask & -mask, note = load(&c->note), out = load(&c->out[i]);
	uint64_t frame = load(&c->base[i]) + ph_ctz(mask);
	store(&c->mask[i], mask & ~bit);
	if (ph_unlikely(i == 0 && (note & bit) != 0)) {
		uint32_t word = atomic_load_explicit(&c->word[0], RELAXED) - 1;
		store(&c->note, ph_sets_handed_frame(z, word / PH_L0_WORDS, ph_zone_offset(frame), note));
	}
	if (out != 0)
		atomic_fetch_or_explicit((ph_word *)ph_zone_at(z, out), bit, memory_order_acq_rel);
	return frame;
}

static PH_NOINLINE int refill(struct pagehint_zone *z, struct pagehint_cache *c, uint64_t *ret_frame)
{
	struct ph_place p;
	uint64_t mask;
	atomic_store(&c->moving, 1);
	int r = ph_level_search(z, 0, 64, &p, &mask);
	if (r < 0)
		r = ph_zone_take_slow(z, c, 0, 64, &p, &mask);
	if (r < 0) {
		atomic_store(&c->moving, 0);
		return r;
	}
	store(&c->taken, load(&c->taken) + ph_popcount(mask));
	store(&c->note, ph_sets_cached(z, &p, mask));
	set_word(z, c, 0, &p);
	atomic_store(&c->mask[0], mask);
	atomic_store(&c->moving, 0);
	*ret_frame = hand_out(z, c, 0, mask);
	return 0;
}

static PH_NOINLINE int alloc_otherwise(struct pagehint_zone *z, struct pagehint_cache *c, uint32_t order,
				       uint64_t *ret_frame)
{
	uint32_t control = atomic_load(&c->control);
	if ((control & ~PH_CACHE_WANTED) != PH_CACHE_OWNED)
		return -EBUSY;
	if (control & PH_CACHE_WANTED)
		obey(z, c);
	if (order != 0)
		return ph_zone_alloc(z, c, order, ret_frame);
	atomic_store_explicit(&c->hot, 0, RELAXED);
	uint64_t mask = load(&c->mask[0]);
	if (mask == 0)
		return refill(z, c, ret_frame);
	*ret_frame = hand_out(z, c, 0, mask);
	return 0;
}

int pagehint_cache_alloc(struct pagehint_cache *cache, uint32_t order, uint64_t *ret_frame)
{
	struct pagehint_zone *z = zone_of(cache);
	uint32_t hot = atomic_load_explicit(&cache->hot, RELAXED);
	uint64_t mask = load(&cache->mask[hot]);
	uint32_t control = atomic_load_explicit(&cache->control, RELAXED);
	if (ph_unlikely(mask == 0 || ((control ^ PH_CACHE_OWNED) | order) != 0))
		return alloc_otherwise(z, cache, order, ret_frame);
	*ret_frame = hand_out(z, cache, hot, mask);
	return 0;
}

/* A frame of a word that is not held yet. */
static PH_NOINLINE void hold(struct pagehint_zone *z, struct pagehint_cache *c, uint32_t i, const struct ph_place *p)
{
	flush_entry(z, c, i);
	set_word(z, c, i, p);
	store(&c->mask[i], UINT64_C(1) << p->bit);
}

int pagehint_cache_free(struct pagehint_cache *cache, uint64_t frame, uint32_t order)
{
	struct pagehint_zone *z = zone_of(cache);
	uint32_t control = atomic_load_explicit(&cache->control, RELAXED);
	if (ph_unlikely(control != PH_CACHE_OWNED)) {
		if (control != (PH_CACHE_OWNED | PH_CACHE_WANTED))
			return -EBUSY;
		obey(z, cache);
	}
	if (order != 0)
		return pagehint_zone_free(z, frame, order);
	struct ph_place p;
	int r = ph_zone_untrack(z, frame, 0, &p);
	if (ph_unlikely(r < 0))
		return r;
	uint32_t name = name_of(&p), i = 1 + name % (PH_CACHE_WORDS - 1);
	uint64_t bit = UINT64_C(1) << p.bit;
	if (atomic_load_explicit(&cache->word[0], RELAXED) == name && load(&cache->mask[0]) != 0)
		i = 0;
	/* only while frames are held is the word certainly the one it was: an empty slot may serve another section now */
	uint64_t mask = load(&cache->mask[i]);
	if (ph_likely(mask != 0 && atomic_load_explicit(&cache->word[i], RELAXED) == name))
		store(&cache->mask[i], mask | bit);
	else
		hold(z, cache, i, &p);
	atomic_store_explicit(&cache->hot, i, RELAXED);
	return 0;
}

void pagehint_cache_drain(struct pagehint_cache *cache)
{
	uint32_t control = atomic_load(&cache->control);
	if ((control & ~PH_CACHE_WANTED) == PH_CACHE_OWNED)
		obey(zone_of(cache), cache);
}

int pagehint_cache_park(struct pagehint_cache *cache)
{
	uint32_t control = atomic_load(&cache->control);
	if ((control & ~PH_CACHE_WANTED) != PH_CACHE_OWNED)
		return -EALREADY;
	if (control & PH_CACHE_WANTED)
		obey(zone_of(cache), cache);
	control = PH_CACHE_OWNED;
	while (!atomic_compare_exchange_strong(&cache->control, &control, PH_CACHE_PARKED))
		; /* only WANTED can come in between, once: whoever wants it can drain it now */
	return 0;
}

int pagehint_cache_unpark(struct pagehint_cache *cache)
{
	uint32_t state = PH_CACHE_PARKED;
	if (atomic_compare_exchange_strong(&cache->control, &state, PH_CACHE_OWNED))
		return 0;
	return state == PH_CACHE_DRAINING ? -EAGAIN : -EALREADY;
}

uint64_t pagehint_cache_held(const struct pagehint_cache *cache)
{
	return ph_cache_held(zone_of(cache), cache, NULL);
}
