/*
 * reclaimer.h: the host takes free memory straight out of a guest's shared zone, without asking it.
 *
 * The problem: a balloon and free page reports cost the guest a request and the host an exit for memory that the guest's
 * allocator knows to be free. Why this shape: the state of a SHARED zone (shared.h) says it, and every block of it is taken
 * by one atomic that the guest's own allocations go through as well; so the host takes wholly free granules, discards them
 * through a backend in merged runs, and puts them back, while the guest works. It need not know.
 *
 * Two ways. Soft: what is free and was used is discarded and put back at once (pagehint_reclaimer_reclaim; by age in
 * pagehint_reclaimer_step); the guest may allocate it again, and faults it back in. Hard: what is taken stays out of the guest's
 * reach until it is given back (pagehint_reclaimer_hold, _give_back, or a target for step).
 *
 * Trust: nothing that the guest can write is believed. What is held, and of which sections, is in the reclaimer; only frames that
 * the backend knows are discarded (so give it the guest's own regions and nothing else); work is bounded by what the zone's
 * options say. A guest that lies harms itself: it loses memory, or keeps memory that it calls unused (see DISTRUST).
 * Death: when a host dies, the next one's pagehint_reclaimer_new takes over what it held. Of one block at the most it may be
 * unknown whether the dead host had it: that stays out of use until it shows in the guest's hands, or pagehint_reclaimer_settle.
 * Not here: memory and how it is discarded (backend.h), guests that have no shared zone (device.h).
 * One reclaimer a zone at a time; one thread a reclaimer.
 */
#ifndef PAGEHINT_RECLAIMER_H
#define PAGEHINT_RECLAIMER_H

#include <stddef.h>
#include <stdint.h>

#include <pagehint/api.h>
#include <pagehint/backend.h>
#include <pagehint/sink.h>
#include <pagehint/zone.h>

PAGEHINT_BEGIN

struct pagehint_reclaimer;

/* flags of a reclaimer */
#define PAGEHINT_RECLAIMER_DISTRUST 1u /* what is held is discarded also where the guest says that it was never used */

/** struct pagehint_reclaimer_opts - fixed for life. NULL = all defaults. */
struct pagehint_reclaimer_opts {
	size_t struct_size;
	uint64_t interval_ns;    /* between two looks of step; what was free at both goes; 0 = 2 s */
	uint64_t max_away_bytes; /* soft: out of the guest's reach at once, at most; 0 = 64 MiB; at least a granule */
	uint32_t flags;          /* PAGEHINT_RECLAIMER_* */
	uint32_t max_sections;   /* looked at by one call; 0 = all */
};

/**
 * pagehint_reclaimer_new - the host of a zone; takes over what a dead one left
 * @zone:          SHARED; borrowed; no other reclaimer is on it
 * @backend:       borrowed; synchronous; its frames are the zone's
 * @opts:          NULL for defaults
 * @ret_reclaimer: the handle
 *
 * What a dead host had taken counts as held, and is discarded once more (as far as the guest used it): give it back, or set a target.
 * Return: 0; -EINVAL a NULL, a zone that is not SHARED, unknown flags, a backend of another frame size; -EOPNOTSUPP the backend
 * is asynchronous; -EBUSY eight hosts died and left a doubt each: free the state or use pagehint_reclaimer_settle sooner; -E2BIG; -ENOMEM.
 * Thread: init-only.   Cost: one mmap, O(sections), discards.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_reclaimer_new(struct pagehint_zone *zone,
							    struct pagehint_backend *backend,
							    const struct pagehint_reclaimer_opts *opts,
							    struct pagehint_reclaimer **ret_reclaimer);

/**
 * pagehint_reclaimer_free - forgets the handle; NULL is allowed
 * What is held stays out of the guest's reach, for the next reclaimer: give it back before, where nobody will come.
 * Thread: init-only.   Cost: one munmap.   Since: 0.1
 */
PAGEHINT_API void pagehint_reclaimer_free(struct pagehint_reclaimer *reclaimer);

/**
 * pagehint_reclaimer_reclaim - discards free memory that was used, whether it has aged or not, and puts it back
 * @reclaimer: the reclaimer
 * @bytes:     at most this much [bytes]
 * @ret_bytes: discarded [bytes]; written also on failure
 * Goes round the zone once, or max_sections of it, from where the last call stopped.
 * Return: 0 as much as was asked; -EAGAIN less, and max_sections were looked at: call again; -ENOSPC less, and there is no more;
 * or what the backend returned: what it did not discard is back in the zone as it was.
 * Thread: one-per-handle.   Cost: about one atomic a free block, then the backend's.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_reclaimer_reclaim(struct pagehint_reclaimer *reclaimer, uint64_t bytes,
								uint64_t *ret_bytes);

/**
 * pagehint_reclaimer_hold - takes free memory out of the guest's reach and discards it
 * @reclaimer: the reclaimer
 * @bytes:     at most this much more [bytes]
 * @ret_bytes: taken [bytes]; written also on failure
 * Return: as pagehint_reclaimer_reclaim; what the backend did not discard is held all the same, see kept and failed in the stats.
 * Thread: one-per-handle.   Cost: about one atomic a free block, then the backend's for what was used.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_reclaimer_hold(struct pagehint_reclaimer *reclaimer, uint64_t bytes,
							     uint64_t *ret_bytes);

/**
 * pagehint_reclaimer_give_back - puts held memory back into the zone
 * @bytes:     at most this much [bytes]
 * @ret_bytes: given back [bytes]
 * Return: 0 as much as was asked; -ENOSPC less: nothing more is held.
 * Thread: one-per-handle.   Cost: about one atomic a block.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_reclaimer_give_back(struct pagehint_reclaimer *reclaimer, uint64_t bytes,
								  uint64_t *ret_bytes);

/** pagehint_reclaimer_set_target - how much step shall hold [bytes]; UINT64_MAX (as at first): it leaves that alone. Thread: one-per-handle.  Cost: O(1).  Since: 0.1 */
PAGEHINT_API void pagehint_reclaimer_set_target(struct pagehint_reclaimer *reclaimer, uint64_t bytes);

/**
 * pagehint_reclaimer_step - one bounded piece of work: towards the target, then what has aged
 * @reclaimer: the reclaimer
 * @now_ns:    a clock that does not go back [ns]
 * @ret_next:  call again then [ns]; at once when it is not after now_ns
 * Return: 0; or what the backend returned: go on all the same.
 * Thread: one-per-handle.   Cost: max_sections, at most max_away_bytes discarded.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_reclaimer_step(struct pagehint_reclaimer *reclaimer, uint64_t now_ns,
							     uint64_t *ret_next);

/**
 * pagehint_reclaimer_settle - the guest is at rest: nobody is inside a call on the zone
 * What a dead host may have had, and shows nowhere, goes back into the zone.
 * Thread: one-per-handle.   Cost: O(frames of the doubts / 64).   Since: 0.1
 */
PAGEHINT_API void pagehint_reclaimer_settle(struct pagehint_reclaimer *reclaimer);

/** struct pagehint_reclaimer_stats - bytes unless said; from what the host knows by itself */
struct pagehint_reclaimer_stats {
	uint64_t struct_size;
	uint64_t held;      /* out of the guest's reach now */
	uint64_t target;    /* what step works towards */
	uint64_t reclaimed; /* discarded and put back, ever */
	uint64_t taken;     /* held, ever */
	uint64_t returned;  /* given back, ever */
	uint64_t untouched; /* of `taken`: not discarded, for the guest says that it never used it */
	uint64_t discarded; /* went through the backend and was freed, absent or accepted */
	uint64_t kept;      /* went through it, and the backend kept it, or frees it later */
	uint64_t failed;
	uint64_t discards; /* runs that went through it [runs] */
	uint64_t doubtful; /* perhaps a dead host's */
	uint64_t looked;   /* [sections] */
	uint64_t lies;     /* the state said what cannot be [times] */
};

/** pagehint_reclaimer_stats - reads the counters. Return: 0; -EINVAL struct_size below 8. Thread: one-per-handle.  Cost: O(1).  Since: 0.1 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_reclaimer_stats(const struct pagehint_reclaimer *reclaimer,
							      struct pagehint_reclaimer_stats *stats);

/** pagehint_reclaimer_explain - what is held, and why no more comes back. Thread: one-per-handle.  Cost: O(regions).  Since: 0.1 */
PAGEHINT_API void pagehint_reclaimer_explain(struct pagehint_reclaimer *reclaimer, const struct pagehint_sink *sink);

PAGEHINT_END
#endif
