#include "alloc/cache.h"

#include <errno.h>

#include "alloc/level.h"
#include "alloc/ops.h"
#include "alloc/scrub.h"
#include "alloc/sets.h"
#include "alloc/track.h"

static struct pagehint_zone *zone_of(const struct pagehint_cache *c)
{
	return (struct pagehint_zone *)((uintptr_t)c - (uintptr_t)c->offset);
}

/* The owner heard that it is wanted. */
static void obey(struct pagehint_zone *z, struct pagehint_cache *c)
{
	atomic_fetch_and(&c->control, ~PH_CACHE_WANTED);
	ph_cache_drain(z, c);
}

int pagehint_cache_open(struct pagehint_zone *zone, struct pagehint_cache **ret_cache)
{
	for (uint32_t i = 0; i < zone->max_caches; i++) {
		struct pagehint_cache *c = ph_cache_at(zone, i);
		uint32_t state = PH_CACHE_FREE;
		if (!atomic_compare_exchange_strong(&c->control, &state, PH_CACHE_OWNED))
			continue;
		c->offset = (uint64_t)((uintptr_t)c - (uintptr_t)zone);
		atomic_store_explicit(&c->owner, zone->owner, memory_order_relaxed);
		ph_cache_store(&c->near, PH_CACHE_NOWHERE);
		atomic_store_explicit(&c->hot, 0, memory_order_relaxed);
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
	ph_cache_drain(zone_of(cache), cache);
	atomic_store(&cache->control, PH_CACHE_FREE);
}

/* A mark, by its distance from the cache. */
static inline ph_word *mark_of(const struct pagehint_cache *c, uint64_t distance)
{
	return (ph_word *)((uintptr_t)c + (uintptr_t)distance);
}

/*
 * A frame of entry i is handed out, and there is something to do about it. c->out says what: where its mark is (see mark_of), and
 * ASK_SETS when some frames of word 0 are of interest to the reporting sets.
 */
#define ASK_SETS 1u
static PH_NOINLINE void mark_ask_sets(struct pagehint_zone *z, struct pagehint_cache *c, uint64_t frame)
{
	uint64_t bit = UINT64_C(1) << (frame % 64), note = ph_cache_load(&c->note),
		 out = ph_cache_load(&c->out[0]) & ~(uint64_t)ASK_SETS;
	if (note & bit) {
		uint32_t word = atomic_load_explicit(&c->word[0], memory_order_relaxed) - 1;
		ph_cache_store(&c->note, ph_sets_handed_frame(z, word / PH_L0_WORDS, ph_zone_offset(frame), note));
	}
	if (out != 0)
		atomic_fetch_or_explicit(mark_of(c, out), bit, memory_order_acq_rel);
}

/* Takes the lowest frame out of entry i, of which `mask` is held and not empty. */
static inline uint64_t hand_out(struct pagehint_zone *z, struct pagehint_cache *c, uint32_t i, uint64_t mask)
{
	uint64_t out = ph_cache_load(&c->out[i]), frame = ph_cache_load(&c->base[i]) + ph_ctz(mask);
	ph_cache_store(&c->mask[i], mask & (mask - 1));
	if (out == 0)
		return frame;
	if (ph_unlikely(out & ASK_SETS))
		mark_ask_sets(z, c, frame);
	else
		atomic_fetch_or_explicit(mark_of(c, out), mask & -mask, memory_order_acq_rel);
	return frame;
}

static uint64_t mark_at(const struct pagehint_cache *c, uint32_t slot, uint32_t word)
{
	const struct pagehint_zone *z = zone_of(c);
	if (!ph_zone_is_tracked(z))
		return 0;
	return (uint64_t)((uintptr_t)ph_track_word0(z, slot, word) - (uintptr_t)c);
}

static PH_NOINLINE int refill(struct pagehint_zone *z, struct pagehint_cache *c, uint64_t *ret_frame)
{
	struct ph_place p;
	uint64_t mask, out, note;
	ph_cache_unlend(z, c);
	/* the atomic that takes the frames comes after it for everybody who misses them */
	atomic_store_explicit(&c->moving, 1, memory_order_release);
	if (ph_cache_take_word(z, c, &p)) {
		mask = PH_FULL;
	} else {
		int r = ph_level_search(z, 0, 64, &p, &mask);
		if (r < 0)
			r = ph_zone_take_slow(z, c, 0, 64, &p, &mask);
		if (r < 0) {
			atomic_store_explicit(&c->moving, 0, memory_order_release);
			return r;
		}
		ph_cache_took_word(z, c, &p, mask);
	}
	uint32_t name = ph_zone_word_name(p.slot, p.word);
	note = ph_sets_cached(z, &p, mask);
	out = mark_at(c, p.slot, p.word);
	if (out != 0 && note == 0 && (mask & (mask - 1)) != 0 && ph_cache_lend(z, c, name, mask))
		out = 0;
	ph_cache_store(&c->note, note);
	ph_cache_store(&c->base[0], ph_zone_base(z, p.slot) + p.word * UINT64_C(64));
	ph_cache_store(&c->out[0], note != 0 ? out | ASK_SETS : out);
	atomic_store_explicit(&c->word[0], name, memory_order_relaxed);
	atomic_store_explicit(&c->mask[0], mask, memory_order_release);
	atomic_store_explicit(&c->moving, 0, memory_order_release);
	*ret_frame = hand_out(z, c, 0, mask);
	return 0;
}

static PH_NOINLINE int alloc_otherwise(struct pagehint_zone *z, struct pagehint_cache *c, uint32_t order,
				       uint64_t *ret_frame)
{
	uint32_t control = atomic_load(&c->control);
	if (ph_unlikely(control != PH_CACHE_OWNED)) {
		if (control != (PH_CACHE_OWNED | PH_CACHE_WANTED))
			return -EBUSY;
		obey(z, c);
	}
	if (order != 0)
		return ph_cache_alloc_block(z, c, order, ret_frame);
	atomic_store_explicit(&c->hot, 0, memory_order_relaxed);
	ph_cache_store(&c->near, PH_CACHE_NOWHERE);
	uint64_t mask = ph_cache_load(&c->mask[0]);
	if (mask == 0)
		return refill(z, c, ret_frame);
	*ret_frame = hand_out(z, c, 0, mask);
	return 0;
}

int pagehint_cache_alloc(struct pagehint_cache *cache, uint32_t order, uint64_t *ret_frame)
{
	uint32_t hot = atomic_load_explicit(&cache->hot, memory_order_relaxed);
	uint64_t mask = ph_cache_load(&cache->mask[hot]), out = ph_cache_load(&cache->out[hot]);
	uint32_t control = atomic_load_explicit(&cache->control, memory_order_relaxed);
	/* no call from here on but at the end: that is what keeps it short */
	if (ph_unlikely(mask == 0 || ((control ^ PH_CACHE_OWNED) | order | (out & ASK_SETS)) != 0))
		return alloc_otherwise(zone_of(cache), cache, order, ret_frame);
	ph_cache_store(&cache->mask[hot], mask & (mask - 1));
	if (out != 0)
		atomic_fetch_or_explicit(mark_of(cache, out), mask & -mask, memory_order_acq_rel);
	*ret_frame = ph_cache_load(&cache->base[hot]) + ph_ctz(mask);
	return 0;
}

/* The first frame of entry i, which is empty; `at`: where its mark is. */
static inline void start_entry(struct pagehint_cache *c, uint32_t i, uint32_t name, uint64_t frame, uint64_t at)
{
	ph_cache_store(&c->base[i], frame & ~UINT64_C(63));
	ph_cache_store(&c->out[i], at);
	atomic_store_explicit(&c->word[i], name, memory_order_relaxed);
	atomic_store_explicit(&c->mask[i], UINT64_C(1) << (frame % 64), memory_order_release);
}

static PH_NOINLINE int restart_entry(struct pagehint_cache *c, uint32_t i, uint32_t name, uint64_t frame, uint64_t at)
{
	ph_cache_flush(zone_of(c), c, i);
	start_entry(c, i, name, frame, at);
	return 0;
}

/* A frame that is out no longer goes into the entry of its word. */
static inline int keep_frame(struct pagehint_cache *c, uint32_t name, uint64_t frame, uint64_t at)
{
	uint32_t i = 1 + name % PH_CACHE_FREED;
	uint64_t mask = ph_cache_load(&c->mask[i]);
	atomic_store_explicit(&c->hot, i, memory_order_relaxed);
	if (ph_likely(!(zone_of(c)->flags & (PAGEHINT_ZONE_STRICT | PAGEHINT_ZONE_SCRUB))))
		ph_cache_store(&c->near, frame & ~UINT64_C(63));
	if (mask == 0) {
		start_entry(c, i, name, frame, at);
		return 0;
	}
	/* only while frames are held is the word certainly the one it was: an empty slot may serve another section now */
	if (atomic_load_explicit(&c->word[i], memory_order_relaxed) != name)
		return restart_entry(c, i, name, frame, at);
	ph_cache_store(&c->mask[i], mask | UINT64_C(1) << (frame % 64));
	return 0;
}

/* Zones that are not tracked, or strictly, or that must know which frames somebody had. */
static PH_NOINLINE int free_frame_otherwise(struct pagehint_cache *c, uint32_t slot, uint64_t frame)
{
	struct pagehint_zone *z = zone_of(c);
	uint32_t offset = ph_zone_offset(frame);
	int r = ph_zone_untrack_frame(z, slot, offset);
	if (ph_unlikely(r < 0))
		return r;
	ph_scrub_freed(z, slot, offset, 1);
	return keep_frame(c, ph_zone_word_name(slot, offset / 64), frame, mark_at(c, slot, offset / 64));
}

static PH_NOINLINE int free_otherwise(struct pagehint_cache *c, uint64_t frame, uint32_t order)
{
	struct pagehint_zone *z = zone_of(c);
	uint32_t control = atomic_load(&c->control);
	if (control != PH_CACHE_OWNED) {
		if (control != (PH_CACHE_OWNED | PH_CACHE_WANTED))
			return -EBUSY;
		obey(z, c);
	}
	if (order != 0)
		return ph_cache_free_block(z, c, frame, order);
	int64_t slot = ph_zone_slot(z, frame);
	return slot < 0 ? -ERANGE : free_frame_otherwise(c, (uint32_t)slot, frame);
}

/* Takes a frame of a word out of the embedder's hands, if it is. What the caller's own cache has lent cannot change under it. */
static inline int clear_mark(struct pagehint_zone *z, struct pagehint_cache *c, ph_word *mark, uint32_t name,
			     uint32_t i)
{
	uint64_t bit = UINT64_C(1) << i;
	if ((uint32_t)ph_cache_load(&c->lent) != name)
		return ph_track_clear_frame(z, mark, name, i) == 0;
	return !(ph_cache_load(&c->mask[0]) & bit) && (atomic_fetch_and(mark, ~bit) & bit) != 0;
}

/* A frame of any word. */
static PH_NOINLINE int free_frame(struct pagehint_cache *c, uint64_t frame)
{
	struct pagehint_zone *z = zone_of(c);
	int64_t found = ph_zone_slot(z, frame);
	if (ph_unlikely(found < 0))
		return -ERANGE;
	uint32_t slot = (uint32_t)found;
	if (ph_unlikely(z->flags & (PAGEHINT_ZONE_UNTRACKED | PAGEHINT_ZONE_STRICT | PAGEHINT_ZONE_SCRUB)))
		return free_frame_otherwise(c, slot, frame);
	uint32_t offset = ph_zone_offset(frame), name = ph_zone_word_name(slot, offset / 64);
	ph_word *mark = ph_track_word0(z, slot, offset / 64);
	if (ph_unlikely(!clear_mark(z, c, mark, name, offset % 64)))
		return ph_zone_refusal(z, slot, offset, 0, ph_track_refuse(z, slot, offset, 0));
	return keep_frame(c, name, frame, (uint64_t)((uintptr_t)mark - (uintptr_t)c));
}

/* Frame i of the word of entry `hot`, which holds some of it; the word is not lent by this cache. */
static PH_NOINLINE int free_near(struct pagehint_cache *c, uint32_t hot, uint32_t i)
{
	struct pagehint_zone *z = zone_of(c);
	uint64_t at = ph_cache_load(&c->out[hot]), mask = ph_cache_load(&c->mask[hot]);
	uint32_t name = atomic_load_explicit(&c->word[hot], memory_order_relaxed);
	if (ph_unlikely(ph_track_clear_frame(z, mark_of(c, at), name, i) < 0))
		return free_frame(c, ph_cache_load(&c->base[hot]) + i); /* says why it is refused */
	ph_cache_store(&c->mask[hot], mask | UINT64_C(1) << i);
	return 0;
}

int pagehint_cache_free(struct pagehint_cache *cache, uint64_t frame, uint32_t order)
{
	uint32_t control = atomic_load_explicit(&cache->control, memory_order_relaxed);
	if (ph_unlikely(((control ^ PH_CACHE_OWNED) | order) != 0))
		return free_otherwise(cache, frame, order);
	/* into the word that the last one went to: everything about it is at hand */
	uint32_t hot = atomic_load_explicit(&cache->hot, memory_order_relaxed);
	uint64_t mask = ph_cache_load(&cache->mask[hot]), i = frame - ph_cache_load(&cache->near);
	if (i >= 64 || mask == 0)
		return free_frame(cache, frame);
	uint64_t bit = UINT64_C(1) << i, at = ph_cache_load(&cache->out[hot]);
	if (at != 0) {
		uint32_t name = atomic_load_explicit(&cache->word[hot], memory_order_relaxed);
		if ((uint32_t)ph_cache_load(&cache->lent) != name)
			return free_near(cache, hot, (uint32_t)i);
		/* what this cache has lent cannot change under it, so one look is enough */
		ph_word *mark = mark_of(cache, at);
		if (ph_unlikely(ph_cache_load(&cache->mask[0]) & bit) ||
		    ph_unlikely(!(atomic_fetch_and(mark, ~bit) & bit)))
			return free_frame(cache, frame); /* refuses it */
	}
	ph_cache_store(&cache->mask[hot], mask | bit);
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
