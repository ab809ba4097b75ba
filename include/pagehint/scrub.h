/*
 * scrub.h: memory that is handed out as zeroes, and is zeroed no more often than it must be.
 *
 * The problem: a frame that somebody had holds his bytes. Who gets it next must not see them; but zeroing everything costs as
 * much as the memory is wide, and much of it reads as zero already: it is fresh, or was discarded, or was scrubbed while nobody
 * wanted it. Why this shape: a zone with PAGEHINT_ZONE_SCRUB remembers of each frame whether it may hold old bytes. A free makes
 * it unclean; a report after which it reads zero, zeroing for an allocation, and a step of background work make it clean. It is
 * kept by frame (one bit), so a block that merges or is split is exactly as unclean as its frames are.
 * The library does not know where the memory is mapped: zeroing is a call of the embedder's.
 *
 * What is clean: frames that were added to a zone without PAGEHINT_ZONE_STALE, until they are freed for the first time; what
 * pagehint_reporter discarded through a backend that promises PAGEHINT_BACKEND_READS_ZERO and kept nothing of it. A backend that
 * does not promise it (Xen: a released frame can come back with old bytes) leaves frames unclean.
 * Nobody has a block while it is scrubbed: it is isolated, and an allocation that would want it is told -EAGAIN. A zeroed
 * allocation is the caller's only when it is clean.
 * Not here: flushing translations: zero first, then flush (flush.h), when whoever had the frame may still write to it.
 */
#ifndef PAGEHINT_SCRUB_H
#define PAGEHINT_SCRUB_H

#include <stddef.h>
#include <stdint.h>

#include <pagehint/api.h>
#include <pagehint/run.h>

PAGEHINT_BEGIN

struct pagehint_zone;

/* flags of an allocation */
#define PAGEHINT_ALLOC_ZERO 1u /* what the block holds reads as zero */

/**
 * struct pagehint_scrubber - how memory is zeroed
 *
 * zero: writes zeroes to frames [frame, frame + frames), all of which are in nobody's hands. Returns 0, or a negated error
 * number: then they count as unclean as before. No lock is held. It must not call back into the zone for these frames.
 */
struct pagehint_scrubber {
	uint64_t struct_size;
	void *ctx;
	int (*zero)(void *ctx, uint64_t frame, uint64_t frames);
};

/**
 * pagehint_scrub_alloc - as pagehint_zone_alloc; with PAGEHINT_ALLOC_ZERO the block reads as zero
 * @zone:      the zone; one without PAGEHINT_ZONE_SCRUB knows of nothing that it is clean, so all of the block is zeroed
 * @order:     0 .. PAGEHINT_ORDER_MAX
 * @flags:     PAGEHINT_ALLOC_*
 * @scrubber:  only read during the call; may be NULL without PAGEHINT_ALLOC_ZERO
 * @ret_frame: first frame
 * Return: 0; -EINVAL unknown flags, no scrubber or no `zero` where one is needed; -E2BIG; else as pagehint_zone_alloc, or what
 * `zero` said: then the block has gone back.
 * Thread: any.   Cost: pagehint_zone_alloc, two loads for each 64 frames, and a call of `zero` for each unclean run.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_scrub_alloc(struct pagehint_zone *zone, uint32_t order, uint32_t flags,
							  const struct pagehint_scrubber *scrubber,
							  uint64_t *ret_frame);

/**
 * pagehint_scrub_runs - makes frames read as zero that were allocated just now, in whatever way
 * @zone:     the zone
 * @scrubber: only read during the call
 * @runs:     array of n: frames that are the caller's, and that it has not written to yet
 * @n:        how many [runs]
 *
 * For batches, runs, adjacent frames, caches and nodes: allocate, then call this.
 * Return: 0; -EINVAL no scrubber, no `zero`, or a run empty or wrapping; -ERANGE some frames are not present; -E2BIG; or what
 * `zero` said: then the frames are still the caller's, and those that were not zeroed still count as unclean.
 * Thread: any.   Cost: two loads for each 64 frames, and a call of `zero` for each unclean run.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_scrub_runs(struct pagehint_zone *zone,
							 const struct pagehint_scrubber *scrubber,
							 const struct pagehint_run *runs, uint32_t n);

/**
 * pagehint_scrub_step - one bounded piece of background work: zeroes free frames that are unclean
 * @zone:       a zone with PAGEHINT_ZONE_SCRUB
 * @scrubber:   only read during the call
 * @max_frames: zero no more than this [frames]
 * @cursor:     where to go on [frame]; 0 at first. Written: where the next step goes on; 0 = this one came to the end
 * @ret_frames: how many were zeroed [frames]; written also when `zero` fails
 *
 * At most 64 frames are in its hands at a time. Whole granules that wait for the reporter are better left to it: a discard makes
 * them clean, too. A granule that is looked at while it is scrubbed begins to age anew.
 * Return: 0; -EINVAL no scrubber, no `zero`, max_frames 0, or a zone without PAGEHINT_ZONE_SCRUB; -E2BIG; or what `zero` said.
 * Thread: any; several may scrub one zone.   Cost: at most 8192 words looked at, and a call of `zero` for each run of a word.
 * Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_scrub_step(struct pagehint_zone *zone,
							 const struct pagehint_scrubber *scrubber, uint64_t max_frames,
							 uint64_t *cursor, uint64_t *ret_frames);

/** struct pagehint_scrub_stats - frames */
struct pagehint_scrub_stats {
	uint64_t struct_size;
	uint64_t unclean;  /* free, and may hold old bytes */
	uint64_t clean;    /* free, and read as zero */
	uint64_t scrubbed; /* zeroed by steps, ever */
	uint64_t zeroed;   /* zeroed for allocations, ever */
	uint64_t spared;   /* wanted as zeroes, and clean already, ever */
};

/**
 * pagehint_scrub_stats - reads the counters
 * @zone:  the zone; of one without PAGEHINT_ZONE_SCRUB every free frame is unclean
 * @stats: struct_size set by the caller; the rest is written
 * Return: 0; -EINVAL struct_size below 8.
 * Thread: any; exact at rest, but that what caches hold is not counted.   Cost: O(frames / 64).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_scrub_stats(const struct pagehint_zone *zone,
							  struct pagehint_scrub_stats *stats);

PAGEHINT_END
#endif
