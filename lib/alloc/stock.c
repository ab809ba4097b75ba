/*
 * stock: what a cache holds and how it lets go of it: lent, given back, drained by others, counted; see cache.h.
 */
#include <errno.h>

#include "alloc/cache.h"
#include "alloc/level.h"
#include "alloc/track.h"

/* Frames were put into the tree by this cache, and are in no other account yet: see ph_zone_nothing_moved. */
static void count_put(struct pagehint_cache *c, uint64_t frames)
{
	ph_cache_store(&c->put, ph_cache_load(&c->put) + frames);
}

/* Word 0 is lent: its frames need no mark when they are handed out. Returns 0 when another cache has its place. */
int ph_cache_lend(struct pagehint_zone *z, struct pagehint_cache *c, uint32_t name, uint64_t mask)
{
	uint16_t nobody = 0;
	uint32_t i = (uint32_t)(((uintptr_t)c - (uintptr_t)ph_cache_at(z, 0)) / sizeof(*c));
	if (!atomic_compare_exchange_strong(ph_lend_place(z, name), &nobody, (uint16_t)(i + 1)))
		return 0;
	uint32_t n = atomic_load_explicit(&c->lendings, memory_order_relaxed) + 1;
	atomic_store_explicit(&c->lendings, n, memory_order_relaxed);
	atomic_store_explicit(&c->mask[0], mask, memory_order_release);
	atomic_store_explicit(&c->lent, (uint64_t)n << 32 | name, memory_order_release);
	atomic_fetch_or(ph_track_word0(z, (name - 1) / PH_L0_WORDS, (name - 1) % PH_L0_WORDS), mask);
	return 1;
}

/* What was lent and not handed out is marked no longer. */
void ph_cache_unlend(struct pagehint_zone *z, struct pagehint_cache *c)
{
	uint32_t name = (uint32_t)ph_cache_load(&c->lent);
	uint64_t mask = ph_cache_load(&c->mask[0]);
	if (name == 0)
		return;
	if (mask != 0)
		atomic_fetch_and(ph_track_word0(z, (name - 1) / PH_L0_WORDS, (name - 1) % PH_L0_WORDS), ~mask);
	atomic_store_explicit(&c->lent, 0, memory_order_release);
	atomic_store_explicit(ph_lend_place(z, name), 0, memory_order_release);
}

/* Gives an entry's frames back to the tree. */
void ph_cache_flush(struct pagehint_zone *z, struct pagehint_cache *c, uint32_t i)
{
	uint64_t mask = ph_cache_load(&c->mask[i]);
	if (i == 0)
		ph_cache_unlend(z, c);
	if (mask == 0)
		return;
	uint32_t word = atomic_load_explicit(&c->word[i], memory_order_relaxed) - 1;
	ph_level_publish(z, word / PH_L0_WORDS, 0, word % PH_L0_WORDS, mask);
	count_put(c, ph_popcount(mask));
	atomic_store_explicit(&c->mask[i], 0, memory_order_release);
}

void ph_cache_put_block(struct pagehint_zone *z, struct pagehint_cache *c, uint64_t frame, uint32_t order)
{
	struct ph_place p = ph_place_of((uint32_t)ph_zone_slot(z, frame), ph_zone_offset(frame), order);
	ph_level_publish(z, p.slot, p.level, p.word, p.level == PH_WHOLE_LEVEL ? 1 : ph_order_mask(order, p.bit));
	count_put(c, UINT64_C(1) << order);
}

void ph_cache_drain(struct pagehint_zone *z, struct pagehint_cache *c)
{
	for (uint32_t i = 0; i < PH_CACHE_WORDS; i++)
		ph_cache_flush(z, c, i);
	for (uint32_t order = 1; order <= PH_CACHE_ORDERS; order++) {
		uint64_t block = ph_cache_load(&c->block[order]);
		if (block == 0)
			continue;
		ph_cache_put_block(z, c, block - 1, order);
		atomic_store_explicit(&c->block[order], 0, memory_order_release);
	}
	ph_cache_leave_words(z, c);
}

/* Drains a parked cache on behalf of its owner. */
static void drain_parked(struct pagehint_zone *z, struct pagehint_cache *c)
{
	uint32_t state = PH_CACHE_PARKED;
	if (!atomic_compare_exchange_strong(&c->control, &state, PH_CACHE_DRAINING))
		return;
	ph_cache_drain(z, c);
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
			ph_cache_drain(z, c);
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
		uint32_t granule = (atomic_load_explicit(&c->word[i], memory_order_relaxed) - 1) >> shift, j = 0;
		while (j < granules && seen[j] != granule)
			j++;
		if (j == granules)
			seen[granules++] = granule;
	}
	if (z->granule_order < 6)
		granules <<= 6 - z->granule_order;
	for (uint32_t order = 1; order <= PH_CACHE_ORDERS; order++) {
		if (atomic_load(&c->block[order]) == 0)
			continue;
		frames += UINT64_C(1) << order;
		granules += order > z->granule_order ? UINT64_C(1) << (order - z->granule_order) : 1;
	}
	if (ret_granules != NULL)
		*ret_granules += granules;
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
