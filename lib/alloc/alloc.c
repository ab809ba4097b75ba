#include <errno.h>

#include "alloc/level.h"
#include "alloc/ops.h"
#include "alloc/scrub.h"
#include "alloc/sets.h"
#include "alloc/track.h"

struct ph_versions ph_zone_versions(const struct pagehint_zone *z)
{
	struct ph_versions v = { 0, 0, 0 };
	uint64_t taken;
	uint32_t slots = (uint32_t)atomic_load(&z->used_slots);
	for (uint32_t i = 0; i < slots; i++) {
		struct ph_section *head = ph_zone_head(z, i);
		v.begun += atomic_load(&head->begun);
		v.ended += atomic_load(&head->ended);
	}
	v.begun += atomic_load(&z->host_begun);
	v.ended += atomic_load(&z->host_ended);
	ph_zone_counts(z, &v.put, &taken);
	return v;
}

int ph_zone_nothing_moved(const struct pagehint_zone *z, const struct pagehint_cache *self,
			  const struct ph_versions *before)
{
	if (atomic_load(&z->holding) != 0 || ph_cache_any_moving(z, self) || pagehint_zone_hidden(z) != 0)
		return 0;
	struct ph_versions after = ph_zone_versions(z);
	return before->put == after.put && before->begun == after.begun && before->begun == before->ended;
}

int ph_zone_take_slow(struct pagehint_zone *z, struct pagehint_cache *cache, uint32_t order, uint32_t want,
		      struct ph_place *ret, uint64_t *ret_mask)
{
	for (int i = 0; i < PH_SLOW_TRIES; i++) {
		ph_cache_recall(z, cache);
		if (ph_level_search(z, order, want, ret, ret_mask) == 0)
			return 0;
		struct ph_versions before = ph_zone_versions(z);
		if (ph_level_search_blind(z, order, want, ret, ret_mask) == 0)
			return 0;
		if (ph_zone_nothing_moved(z, cache, &before))
			return -ENOSPC;
	}
	return -EAGAIN;
}

/* A block straight from the tree, counted. */
int ph_zone_take(struct pagehint_zone *z, struct pagehint_cache *cache, uint32_t order, uint32_t want,
		 struct ph_place *ret, uint64_t *ret_mask)
{
	int r = ph_level_search(z, order, want, ret, ret_mask);
	if (ph_unlikely(r < 0))
		r = ph_zone_take_slow(z, cache, order, want, ret, ret_mask);
	if (ph_unlikely(r < 0))
		return r;
	uint64_t frames = (uint64_t)ph_popcount(*ret_mask) << (order / 6 * 6);
	if (cache != NULL) /* its own count: no atomic */
		atomic_store_explicit(&cache->taken, atomic_load_explicit(&cache->taken, memory_order_relaxed) + frames,
				      memory_order_relaxed);
	else
		atomic_fetch_add(&ph_zone_head(z, ret->slot)->taken, frames);
	return 0;
}

int ph_zone_alloc(struct pagehint_zone *z, struct pagehint_cache *cache, uint32_t order, uint64_t *ret_frame)
{
	struct ph_place p;
	uint64_t mask;
	if (ph_unlikely(order > PAGEHINT_ORDER_MAX))
		return -EINVAL;
	int r = ph_zone_take(z, cache, order, 1, &p, &mask);
	if (ph_unlikely(r < 0))
		return r;
	ph_sets_handed_blocks(z, &p, order, mask);
	if (ph_zone_is_tracked(z))
		ph_track_out(z, p.slot, p.level, p.word, order, mask);
	*ret_frame = ph_zone_base(z, p.slot) + ph_place_offset(&p);
	return 0;
}

int pagehint_zone_alloc(struct pagehint_zone *zone, uint32_t order, uint64_t *ret_frame)
{
	return ph_zone_alloc(zone, NULL, order, ret_frame);
}

/* An untracked zone can at least refuse what does not exist. */
static int check_present(const struct pagehint_zone *z, uint32_t slot, uint32_t offset, uint32_t order)
{
	uint32_t end = offset + (1u << order);
	for (uint32_t at = offset; at < end; at += PH_PRESENT_FRAMES)
		if (!ph_zone_is_present(z, slot, at))
			return -ERANGE;
	return 0;
}

int ph_zone_refusal(const struct pagehint_zone *z, uint32_t slot, uint32_t offset, uint32_t order, int r)
{
	return r == -EALREADY && check_present(z, slot, offset, order) < 0 ? -ERANGE : r;
}

int ph_zone_untrack(struct pagehint_zone *z, uint64_t frame, uint32_t order, struct ph_place *ret_place)
{
	if (ph_unlikely(order > PAGEHINT_ORDER_MAX || (frame & ((UINT64_C(1) << order) - 1)) != 0))
		return -EINVAL;
	int64_t slot = ph_zone_slot(z, frame);
	if (ph_unlikely(slot < 0))
		return -ERANGE;
	uint32_t offset = ph_zone_offset(frame);
	int r = ph_zone_is_tracked(z) ? ph_track_in(z, (uint32_t)slot, offset, order)
				      : check_present(z, (uint32_t)slot, offset, order);
	if (ph_unlikely(r < 0))
		return ph_zone_refusal(z, (uint32_t)slot, offset, order, r);
	ph_scrub_freed(z, (uint32_t)slot, offset, 1u << order);
	*ret_place = ph_place_of((uint32_t)slot, offset, order);
	return 0;
}

int pagehint_zone_free(struct pagehint_zone *zone, uint64_t frame, uint32_t order)
{
	struct ph_place p;
	int r = ph_zone_untrack(zone, frame, order, &p);
	if (ph_unlikely(r < 0))
		return r;
	ph_level_put_block(zone, p.slot, ph_zone_offset(frame), order);
	return 0;
}
