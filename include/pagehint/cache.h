/*
 * cache.h: a cache is one thread's private stock of single frames from a zone, and of a few blocks.
 *
 * The problem: an atomic a frame, and two threads on one cache line, cost more than the allocation. Why this shape: a private
 * word of 64 frames is taken with one atomic, marked as out with another (in a tracked zone), and handed out with none; freed
 * frames are gathered by word and given back a word at a time. Of each order from 1 to 9 the block that was freed last is kept for
 * the next allocation of that order, unless it is smaller than a granule and can merge at once. A frame in a cache keeps its
 * whole granule from being reported, so a cache spans a bounded number of granules, and lets go when asked: at its next call, or
 * at once while it is parked.
 */
#ifndef PAGEHINT_CACHE_H
#define PAGEHINT_CACHE_H

#include <stdint.h>

#include <pagehint/api.h>

PAGEHINT_BEGIN

struct pagehint_zone;
struct pagehint_cache;

/**
 * pagehint_cache_open - a cache for the calling thread
 * @zone:      the zone
 * @ret_cache: lives in the zone's state
 * Return: 0; -ENOSPC max_caches are open.
 * Thread: any; the cache then belongs to one thread.   Cost: O(max_caches).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_cache_open(struct pagehint_zone *zone, struct pagehint_cache **ret_cache);

/** pagehint_cache_close - drains and gives the slot back; NULL is allowed. Thread: the owner.  Cost: atomics per word held.  Since: 0.1 */
PAGEHINT_API void pagehint_cache_close(struct pagehint_cache *cache);

/**
 * pagehint_cache_alloc - as pagehint_zone_alloc; order 0, and orders up to 9 when one was freed, come from the cache
 * Return: as pagehint_zone_alloc; -EBUSY the cache is parked.
 * Thread: the owner.   Cost: no atomic on a hit; in a tracked zone one for what was freed into the cache before.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_cache_alloc(struct pagehint_cache *cache, uint32_t order,
							  uint64_t *ret_frame);

/**
 * pagehint_cache_free - as pagehint_zone_free; orders up to 9 go to the cache
 * Return: as pagehint_zone_free; -EBUSY the cache is parked (nothing is changed).
 * Thread: the owner.   Cost: one atomic in a tracked zone, none in an untracked, and what has to make room.   Since: 0.1
 */
PAGEHINT_API int pagehint_cache_free(struct pagehint_cache *cache, uint64_t frame, uint32_t order);

/** pagehint_cache_drain - gives everything it holds back to the zone. Thread: the owner.  Cost: atomics per word held.  Since: 0.1 */
PAGEHINT_API void pagehint_cache_drain(struct pagehint_cache *cache);

/**
 * pagehint_cache_park - the owner will not call for a while (it blocks, it idles): anyone may drain the cache meanwhile
 * Until pagehint_cache_unpark the owner may only call unpark and close.
 * Return: 0; -EALREADY parked already.
 * Thread: the owner.   Cost: one atomic.   Since: 0.1
 */
PAGEHINT_API int pagehint_cache_park(struct pagehint_cache *cache);

/**
 * pagehint_cache_unpark - the owner is back
 * Return: 0; -EALREADY not parked; -EAGAIN somebody is draining it at this moment: call again.
 * Thread: the owner.   Cost: one atomic.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_cache_unpark(struct pagehint_cache *cache);

/** pagehint_cache_held - frames it hides. Thread: any (racy unless the owner asks).  Cost: O(1).  Since: 0.1 */
PAGEHINT_API uint64_t pagehint_cache_held(const struct pagehint_cache *cache);

PAGEHINT_END
#endif
