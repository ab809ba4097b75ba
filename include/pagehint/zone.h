/*
 * zone.h: a zone allocates and frees page frames; it is an exclusive radix-64 buddy.
 *
 * The problem: an allocator whose free memory can be found, taken and given back while others allocate, with metadata small
 * enough to forget about and without touching a byte of the memory it manages. Why this shape: level k is a bitmap whose
 * bit i says that the block of 64^k frames number i is free and not part of a bigger free block. Orders 0-5 are aligned runs
 * of bits in a level-0 word, 6-11 in a level-1 word, 12-17 in a level-2 word, order 18 is a section (2^18 frames). No lists,
 * no locks, no per-frame structs; the state has no pointers and may lie in shared memory.
 *
 * Blocks: 2^order frames, aligned to their size. Frames are numbered by the embedder; sections may come and go anywhere in
 * the span. The one equation, exact whenever nobody is inside a call:
 *     free + cached + out + isolated + in_flight + transit = total
 * Threads: every function is lock-free and may be called from any thread unless its Thread line says otherwise. For speed
 * open a cache a thread (cache.h).
 * Not here: memory itself (map.h), giving it back (reporter.h, through pagehint_zone_origin_new in origin.h).
 */
#ifndef PAGEHINT_ZONE_H
#define PAGEHINT_ZONE_H

#include <stddef.h>
#include <stdint.h>

#include <pagehint/api.h>
#include <pagehint/run.h>
#include <pagehint/sink.h>

PAGEHINT_BEGIN

struct pagehint_zone;

#define PAGEHINT_ORDER_MAX 18u             /* largest block: one section */
#define PAGEHINT_SECTION_FRAMES (1u << 18) /* frames of a section; sections start at multiples of this */

/* flags of a zone */
#define PAGEHINT_ZONE_UNTRACKED \
	1u                      /* no `out` bitmap: a double free is not noticed; one atomic and one bit a frame less */
#define PAGEHINT_ZONE_STRICT 2u /* one more bit a frame: a free of any other order than the allocation's is refused */
#define PAGEHINT_ZONE_LADDER 4u /* one more bit a frame: free runs below the granule can be reported, too */
#define PAGEHINT_ZONE_STALE 8u  /* frames that are added may hold memory already; default: fresh, nothing to return */
#define PAGEHINT_ZONE_SCRUB 16u /* one more bit a frame: what may hold old bytes is known (scrub.h) */
#define PAGEHINT_ZONE_SHARED \
	32u /* the state can be attached by other processes, one of which takes free memory back: shared.h, reclaimer.h */

/**
 * struct pagehint_zone_opts - fixed for the life of a zone
 */
struct pagehint_zone_opts {
	uint64_t struct_size;
	uint64_t max_sections;  /* room for sections that are present at once; 1 .. 16384; 0 = 1 */
	uint64_t span_sections; /* frames are numbered 0 .. span_sections * 2^18 - 1; 0 = max_sections; up to 2^22 */
	uint32_t flags;         /* PAGEHINT_ZONE_* */
	uint32_t frame_shift;   /* 2^frame_shift bytes a frame; 0 = 12; 12..30 */
	uint32_t
		granule_order; /* reporting granule of 2^granule_order frames; 0 = 2 MiB, at least 2 frames; 1..18; LADDER: 6..11 */
	uint32_t max_caches; /* room for caches open at once; 0 = 64; up to 4096 */
};

/**
 * pagehint_zone_size - bytes of state for these options
 * @opts:      required
 * @ret_bytes: size for pagehint_zone_init; mostly untouched (virtual) until sections are added
 * Return: 0; -EINVAL opts NULL, a value out of its bounds, unknown flags, UNTRACKED with STRICT, SHARED with UNTRACKED, LADDER
 * or SCRUB; -E2BIG unknown non-zero tail.
 * Thread: any.   Cost: O(1).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_zone_size(const struct pagehint_zone_opts *opts, uint64_t *ret_bytes);

/**
 * pagehint_zone_init - an empty zone (no section) in the caller's memory
 * @mem:      zeroed, 64-byte aligned; stays the caller's and must outlive the zone
 * @bytes:    at least pagehint_zone_size
 * @opts:     as for pagehint_zone_size
 * @ret_zone: the handle; it is `mem`, but for SHARED zones, where it lies inside it
 * Return: 0; -EINVAL as above, or mem misaligned or too small; -E2BIG.
 * Thread: init-only.   Cost: O(1), touches one page.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int
pagehint_zone_init(void *mem, uint64_t bytes, const struct pagehint_zone_opts *opts, struct pagehint_zone **ret_zone);

/**
 * pagehint_zone_new - size, map zeroed memory, init
 * Return: as pagehint_zone_init; -ENOMEM.
 * Thread: init-only.   Cost: one mmap.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_zone_new(const struct pagehint_zone_opts *opts,
						       struct pagehint_zone **ret_zone);

/** pagehint_zone_destroy - unmaps what pagehint_zone_new made; NULL is allowed. Thread: init-only.  Cost: one munmap.  Since: 0.1 */
PAGEHINT_API void pagehint_zone_destroy(struct pagehint_zone *zone);

/**
 * pagehint_zone_add - makes frames present and free (boot memory, hotplug, a hole that closes)
 * @zone:   the zone
 * @frame:  first frame, a multiple of 64
 * @frames: how many [frames], a multiple of 64; any part of sections. Finer holes: add, then reserve.
 * Return: 0; -EINVAL frames 0, no multiples of 64, or wrapping; -ERANGE beyond the span; -EEXIST some are present already; -ENOSPC no room for
 * so many sections. On failure nothing is changed.
 * Thread: one at a time for add, remove and reserve; any for everything else meanwhile.   Cost: O(frames / 64).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_zone_add(struct pagehint_zone *zone, uint64_t frame, uint64_t frames);

/**
 * pagehint_zone_remove - takes frames away for good (unplug); all of them must be free
 * @zone:     the zone
 * @frame:    first frame
 * @frames:   how many [frames]
 * @ret_busy: frames that are not free (out, cached, isolated), or NULL; written when -EBUSY
 * Asks caches to let go first (parked ones are drained at once, others at their next call: try again).
 * Return: 0; -EINVAL frames 0, no multiples of 64, or wrapping; -ERANGE some are not present; -EBUSY some are not free: nothing is changed.
 * Thread: as pagehint_zone_add.   Cost: O(frames / 64).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_zone_remove(struct pagehint_zone *zone, uint64_t frame, uint64_t frames,
							  uint64_t *ret_busy);

/**
 * pagehint_zone_reserve - hands exactly these frames out (firmware, kernel image, DMA); give back with pagehint_zone_free_runs
 * Parameters, Return, Thread, Cost: as pagehint_zone_remove, but any frame and number will do. The frames count as out.
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_zone_reserve(struct pagehint_zone *zone, uint64_t frame, uint64_t frames,
							   uint64_t *ret_busy);

/**
 * pagehint_zone_alloc - one block
 * @zone:      the zone
 * @order:     0 .. PAGEHINT_ORDER_MAX
 * @ret_frame: first frame of the block, a multiple of 2^order; content is undefined
 *
 * Placement: single frames fill broken words from below (16 MiB at a time, the tightest word of those first), so that high
 * granules stay whole; other orders go to the tightest word of a level that has one (whose largest free run is smallest), and
 * of equally tight ones to the lowest. Sections count in the order they were added.
 * Return: 0; -ENOSPC no block is free; -EAGAIN none is free, but frames are in caches, at the reporter or between levels, so
 * one may come (pagehint_zone_hidden says how many): parked caches have been drained, others asked to; -EINVAL order.
 * Thread: any.   Cost: about three atomics; bounded search. A refusal looks at every word: O(frames / 64).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_zone_alloc(struct pagehint_zone *zone, uint32_t order,
							 uint64_t *ret_frame);

/**
 * pagehint_zone_free - gives a block back
 * @zone:  the zone
 * @frame: first frame
 * @order: the order it was allocated with
 *
 * A tracked zone (the default) knows which frames are out: freeing what is not out changes nothing and says so. Within
 * orders 0-5, 6-11 and 12-17 it tracks frames, not blocks: an aligned part of a block may be freed (the rest stays out), and
 * neighbours may be freed in one call; no frame is lost or doubled by that. PAGEHINT_ZONE_STRICT refuses those, too.
 * Return: 0; -EALREADY not out (double free; it may sit in a cache); -EINVAL order, misaligned, or out in another order;
 * -ERANGE not in a present section. When two threads free the same at once, one is refused; in the rarest case, while caches
 * pass the frame on, a third free of it is, too: then it is out still.
 * Thread: any.   Cost: about three atomics.   Since: 0.1
 */
PAGEHINT_API int pagehint_zone_free(struct pagehint_zone *zone, uint64_t frame, uint32_t order);

/**
 * pagehint_zone_alloc_batch - n blocks of one order
 * @zone:       the zone
 * @order:      0 .. PAGEHINT_ORDER_MAX
 * @n:          how many [blocks]
 * @ret_frames: array of n; the first *ret_n are written
 * @ret_n:      blocks allocated; written also on -ENOSPC and -EAGAIN (keep them or free them)
 * Return: 0 all n; -ENOSPC, -EAGAIN, -EINVAL as pagehint_zone_alloc.
 * Thread: any.   Cost: atomics per 64-bit word, not per block.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_zone_alloc_batch(struct pagehint_zone *zone, uint32_t order, uint32_t n,
							       uint64_t *ret_frames, uint32_t *ret_n);

/**
 * pagehint_zone_free_batch - frees n blocks of one order
 * @frames:   array of n
 * @ret_done: blocks freed, or NULL; also on failure: the block at this index is the bad one, the rest was not looked at
 * Return: 0; else as pagehint_zone_free for the first block that is refused.
 * Thread: any.   Cost: atomics per word for neighbours in the array.   Since: 0.1
 */
PAGEHINT_API int pagehint_zone_free_batch(struct pagehint_zone *zone, uint32_t order, uint32_t n,
					  const uint64_t *frames, uint32_t *ret_done);

/**
 * pagehint_zone_alloc_runs - n frames in as few runs as it can, largest blocks first (what a populate wants)
 * @zone:     the zone
 * @frames:   how many [frames]
 * @runs:     array of max_runs; undefined on failure
 * @max_runs: room [runs]
 * @ret_runs: entries filled
 * Return: 0 all of them; -ENOSPC too little is free, or it does not fit max_runs; -EAGAIN as pagehint_zone_alloc; -EINVAL
 * frames 0 or max_runs 0. On failure nothing is changed.
 * Thread: any.   Cost: per block taken.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_zone_alloc_runs(struct pagehint_zone *zone, uint64_t frames,
							      struct pagehint_run *runs, uint32_t max_runs,
							      uint32_t *ret_runs);

/**
 * pagehint_zone_alloc_contig - any number of adjacent frames at any alignment
 * @zone:      the zone
 * @frames:    how many [frames]; more than a section is allowed
 * @align:     the first frame is a multiple of this [frames]; a power of two; 0 = 1
 * @ret_frame: first frame
 * Free it, or any part of it, with pagehint_zone_free_runs.
 * Return: 0; -ENOSPC; -EAGAIN as pagehint_zone_alloc; -EINVAL frames 0, align no power of two. On failure nothing is changed.
 * Thread: any.   Cost: first fit, O(frames / 64) of the zone at worst.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_zone_alloc_contig(struct pagehint_zone *zone, uint64_t frames,
								uint64_t align, uint64_t *ret_frame);

/**
 * pagehint_zone_free_runs - frees runs of frames, whatever they were allocated as
 * @runs:     array of n
 * @n:        how many [runs]
 * @ret_done: runs freed whole, or NULL; also on failure: the run at this index was refused whole
 * Return: 0; -EALREADY some frame of a run is not out; -ERANGE some are not present; -EINVAL a run empty or wrapping;
 * -EAGAIN another thread is freeing parts of the same block at this moment: call again.
 * Thread: any; a run that another thread frees at the same time is refused or freed once, never twice.
 * Cost: atomics per 64-bit word.   Since: 0.1
 */
PAGEHINT_API int pagehint_zone_free_runs(struct pagehint_zone *zone, const struct pagehint_run *runs, uint32_t n,
					 uint32_t *ret_done);

/** struct pagehint_zone_stats - frames unless said */
struct pagehint_zone_stats {
	uint64_t struct_size;
	uint64_t total;     /* present */
	uint64_t free;      /* in the tree, to be had at once */
	uint64_t cached;    /* in caches */
	uint64_t out;       /* in the embedder's hands */
	uint64_t isolated;  /* taken by the reporter, or by the host (reclaimer.h) */
	uint64_t in_flight; /* at a backend */
	uint64_t transit;   /* between two levels; 0 at rest */
	uint64_t sections;
	uint64_t caches;          /* open [caches] */
	uint64_t cached_granules; /* granules that frames in caches keep from being reported, at most */
	uint64_t metadata_bytes;  /* of the whole state, as if every section of max_sections were in use [bytes] */
	uint64_t present_bytes;   /* of it: belonging to present sections [bytes] */
};

/**
 * pagehint_zone_stats - reads the counters
 * @zone:  the zone
 * @stats: struct_size set by the caller; the rest is written
 * Return: 0; -EINVAL struct_size below 8.
 * Thread: any; exact at rest.   Cost: O(sections + caches).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_zone_stats(const struct pagehint_zone *zone,
							 struct pagehint_zone_stats *stats);

/**
 * pagehint_zone_hidden - frames that are free but cannot be had now: in caches, isolated, in flight, in transit; not those that
 * the host holds for good (pagehint_reclaimer_hold)
 * Thread: any.   Cost: O(sections + caches).   Since: 0.1
 */
PAGEHINT_API uint64_t pagehint_zone_hidden(const struct pagehint_zone *zone);

/**
 * pagehint_zone_free_orders - how many free blocks there are of each order, as the buddy sees them (maximal aligned blocks)
 * @zone:       the zone
 * @ret_blocks: array of PAGEHINT_ORDER_MAX + 1 [blocks]
 * Thread: any; exact at rest.   Cost: O(frames / 64).   Since: 0.1
 */
PAGEHINT_API void pagehint_zone_free_orders(const struct pagehint_zone *zone, uint64_t *ret_blocks);

/* sets that pagehint_zone_granules can write */
#define PAGEHINT_GRANULES_WHOLE 0u    /* wholly free */
#define PAGEHINT_GRANULES_REPORTED 1u /* wholly free, reported (or fresh) and untouched since */

/**
 * pagehint_zone_granules - which granules are wholly free, as a flat bitmap
 * @zone:  the zone
 * @set:   PAGEHINT_GRANULES_*
 * @first: first granule (frame / 2^granule_order), a multiple of 64
 * @n:     how many [granules]
 * @out:   (n + 63) / 64 words, bit i % 64 of word i / 64; absent sections read 0
 * @words: room in out
 * Return: 0; -EINVAL unknown set, first not a multiple of 64, first + n wrapping, out too small.
 * Thread: any; each granule's answer was true at some moment of the call.   Cost: O(n).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_zone_granules(const struct pagehint_zone *zone, uint32_t set,
							    uint64_t first, uint64_t n, uint64_t *out, uint64_t words);

/** pagehint_zone_granule_order - the granule's order. Thread: any.  Cost: O(1).  Since: 0.1 */
PAGEHINT_API uint32_t pagehint_zone_granule_order(const struct pagehint_zone *zone);

/**
 * pagehint_zone_check - walks every invariant; meant for tests and for a VMM's debug command
 * @zone: the zone, at rest (no other thread inside)
 * @sink: one line a violation; NULL = none wanted
 * Checks: levels exclude each other; no full word is left unmerged; summaries claim nothing too little; counters equal a
 * recount; free and out are disjoint; caches hold what they say; the one equation.
 * Return: number of violations.
 * Thread: one, at rest.   Cost: O(frames / 64).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK uint64_t pagehint_zone_check(const struct pagehint_zone *zone,
							      const struct pagehint_sink *sink);

/** pagehint_zone_explain - where the zone's frames are, and what keeps free ones from being reported. Thread: any.  Cost: O(frames / 64).  Since: 0.1 */
PAGEHINT_API void pagehint_zone_explain(const struct pagehint_zone *zone, const struct pagehint_sink *sink);

PAGEHINT_END
#endif
