/*
 * origin.h: who supplies free runs to the reporter: a zone, or the embedder's own allocator with a bitmap.
 *
 * The problem: reporting must work for allocators we did not write (S1's bitmap approach), and the reporter must not know
 * whose frames it carries. Why this shape: three verbs, all bounded, none of which waits: harvest (age and isolate),
 * release, free (how much there is). Between harvest and release the frames belong to the reporter: the origin hands them
 * to nobody.
 */
#ifndef PAGEHINT_ORIGIN_H
#define PAGEHINT_ORIGIN_H

#include <stddef.h>
#include <stdint.h>

#include <pagehint/api.h>
#include <pagehint/run.h>
#include <pagehint/sink.h>

PAGEHINT_BEGIN

struct pagehint_origin;
struct pagehint_zone;
struct pagehint_bitmap;

/* flags of a harvest */
#define PAGEHINT_HARVEST_NOW 1u  /* take what is free whether it has aged or not (pressure) */
#define PAGEHINT_HARVEST_PEEK 2u /* isolate nothing: only look, and count what could be taken */

/**
 * struct pagehint_harvest - what the reporter asks for
 *
 * Every harvest is a look at the frames it passes: what was free at the look before and untouched since is old enough and is
 * isolated; what is free now is remembered for the next look. A harvest that ends early (max_frames, max_runs, max_work)
 * says in `next` where to go on; frames from there on have not been looked at.
 */
struct pagehint_harvest {
	uint64_t from; /* frames [from, to) */
	uint64_t to;
	uint64_t max_frames; /* isolate at most this many [frames] */
	uint32_t max_runs;   /* and at most this many runs */
	uint32_t order;      /* blocks of this order or more; 2^order frames, aligned */
	uint32_t flags;      /* PAGEHINT_HARVEST_* */
	uint32_t max_work;   /* bound on words looked at in this call; 0 = 65536 */
};

/** struct pagehint_harvested - what came of it */
struct pagehint_harvested {
	uint64_t next;   /* go on here; == to when the range is done */
	uint64_t frames; /* isolated (PEEK: could have been) [frames] */
	uint64_t young;  /* free and unreported, but not old enough yet [frames] */
	uint32_t runs;   /* entries filled */
	uint32_t reserved;
};

/* how a run returns */
#define PAGEHINT_RELEASE_REPORTED 0u /* it was freed below: remember it as reported */
#define PAGEHINT_RELEASE_KEPT 1u     /* it was not: it stays a candidate, aged anew */

/** struct pagehint_origin_free - how much is free where [frames]; what an origin cannot know is 0 */
struct pagehint_origin_free {
	uint64_t struct_size;
	uint64_t free;       /* free, whole or in parts, reported or not */
	uint64_t reported;   /* of it: reported and untouched since */
	uint64_t below;      /* of it: unreported, in blocks smaller than the order asked about */
	uint64_t hidden;     /* free, but in caches */
	uint64_t handed_out; /* frames handed out since creation that had been reported (refaults to expect) */
};

/**
 * struct pagehint_origin_ops - copied by pagehint_origin_new
 *
 * All calls come from the reporter's thread, with no lock of ours held; the allocator may run on other threads meanwhile.
 * next_span: required. The first range of present frames that ends after `from`; -ENOENT: none.
 * harvest:   required. Ages, isolates, joins adjacent blocks into maximal runs in address order. The runs lie in [from, to).
 * release:   required. Takes back a part of or a whole isolated run. Cannot fail.
 * depart:    optional. These isolated frames are now in flight at a backend (for statistics only).
 * get_free:  optional. `order` as in a harvest.
 * quiesce:   optional. Asks caches to let go of what they hide; never waits.
 * explain:   optional.
 * destroy:   optional.
 * zeroed:    optional. This isolated run was discarded and reads as zero; comes before its release as reported, and only from
 *            backends that promise PAGEHINT_BACKEND_READS_ZERO.
 */
struct pagehint_origin_ops {
	size_t struct_size;
	const char *name;
	uint32_t frame_shift; /* 0 = 12 */
	uint32_t min_order;   /* smallest order a harvest may ask for */
	uint32_t order;       /* the order it works in when idle */
	uint32_t reserved;
	int (*next_span)(void *ctx, uint64_t from, struct pagehint_run *ret_span);
	int (*harvest)(void *ctx, const struct pagehint_harvest *ask, struct pagehint_run *runs,
		       struct pagehint_harvested *ret);
	void (*release)(void *ctx, const struct pagehint_run *run, uint32_t how);
	void (*depart)(void *ctx, uint64_t frames);
	void (*get_free)(void *ctx, uint32_t order, struct pagehint_origin_free *ret_free);
	void (*quiesce)(void *ctx);
	void (*explain)(void *ctx, const struct pagehint_sink *sink);
	void (*destroy)(void *ctx);
	void (*zeroed)(void *ctx, const struct pagehint_run *run);
};

/**
 * pagehint_origin_new - wraps an ops table
 * @ops:        copied
 * @ctx:        handed to every op; owned from now on (destroy), left alone on failure
 * @ret_origin: the handle
 * Return: 0; -EINVAL a required op is missing, an order above 18 or min_order above order, frame_shift out of 12..30;
 * -E2BIG; -ENOMEM.
 * Thread: init-only.   Cost: one allocation.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_origin_new(const struct pagehint_origin_ops *ops, void *ctx,
							 struct pagehint_origin **ret_origin);

/**
 * pagehint_origin_free - destroys it; the reporter on it must be gone. NULL is allowed.
 * Thread: init-only.   Cost: one free.   Since: 0.1
 */
PAGEHINT_API void pagehint_origin_free(struct pagehint_origin *origin);

/**
 * pagehint_zone_origin_new - a zone as origin
 * @zone:       borrowed; must outlive the origin. One origin a zone.
 * @ret_origin: the handle
 * Return: 0; -EINVAL a NULL; -EBUSY the zone has an origin already, or is SHARED (there the host takes: reclaimer.h); -ENOMEM.
 * Thread: init-only.   Cost: one allocation.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_zone_origin_new(struct pagehint_zone *zone,
							      struct pagehint_origin **ret_origin);

/**
 * struct pagehint_bitmap_origin_opts - the embedder's allocator behind a bitmap of free frames
 *
 * The embedder sets the bits of a block when it frees it, and clears them when it hands it out. The reporter takes runs of
 * set bits (and clears them), then asks isolate: the allocator answers 0 when it has taken the whole run off its lists, or
 * -EBUSY when some of it is in use again (the run is dropped: those bits come back with the next free). After the discard,
 * release gives the run back; the allocator puts it on its lists. Whether it was freed below is told by `reported`.
 *
 * The protocol, of which the last two points make age and "reported" true:
 *  - free: put the block on the lists, then set its bits; hand out: take it off the lists, then clear its bits; both before
 *    anybody else can do the opposite to the same block (under the allocator's lock, if it has one).
 *  - isolate and release work on the lists under that lock. isolate leaves the bits alone; release may set them again, as for
 *    any free. A run released with reported 0 whose bits are not set is never offered again until it is freed once more.
 *  - every hand-out calls pagehint_bitmap_clear for its frames, also when their bits are clear already: the clear is what the
 *    origin sees as a touch. A frame handed out and freed between two looks is young again; a reported frame is reported
 *    again only after a hand-out.
 *  - a block of the order that is partly reported counts as unreported: it is reported whole.
 */
struct pagehint_bitmap_origin_opts {
	size_t struct_size;
	void *ctx;
	int (*isolate)(void *ctx, const struct pagehint_run *run);
	void (*release)(void *ctx, const struct pagehint_run *run, uint32_t reported);
	uint64_t threshold;   /* nothing is taken while fewer bits are set; 0 = no threshold [frames] */
	uint32_t frame_shift; /* 0 = 12 */
	uint32_t order;       /* smallest block that is taken: runs are aligned to it; 0 = 9 */
	uint32_t min_order;   /* under pressure it may fall to this */
	uint32_t flags;       /* must be 0 */
};

/**
 * pagehint_bitmap_origin_new - a bitmap with an embedder's allocator as origin
 * @bitmap:     borrowed; must outlive the origin. One origin a bitmap.
 * @opts:       copied
 * @ret_origin: the handle
 * Return: 0; -EINVAL a callback is missing, orders out of 0..15, min_order above order, frame_shift out of 12..30, unknown
 * flags; -EBUSY the bitmap has an origin already; -E2BIG; -ENOMEM.
 * Thread: init-only.   Cost: two allocations.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_bitmap_origin_new(struct pagehint_bitmap *bitmap,
								const struct pagehint_bitmap_origin_opts *opts,
								struct pagehint_origin **ret_origin);

PAGEHINT_END
#endif
