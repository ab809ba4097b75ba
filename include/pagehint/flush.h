/*
 * flush.h: the flush filter: which CPUs must flush before frames that were freed may be used again.
 *
 * The problem: a CPU may hold translations (TLB entries) to a frame after its owner gave it up. Flushing at every free is
 * slow; so is deciding for each frame that is handed out. Why this shape: a clock counts flushes; a free stamps the frames
 * with the clock, a flush stamps the CPU. A CPU needs a flush for a frame only if its stamp is not newer than the frame's. A
 * batch of allocations keeps the newest stamp of all it took, in a filter, and asks once, at its end: one flush at the most,
 * of only the CPUs that need one. Stamps are kept a word of 64 frames: 32 bits, which is half a bit a frame.
 *
 * The order, which is what makes it safe. Who frees:
 *   1. takes the translations out of the page tables; 2. finishes its last access, its own (scrubbing) included;
 *   3. pagehint_flush_freed; 4. frees to the zone or the cache. Stamped before the last access, a flush between the two would
 *   seem to cover what the access left behind.
 * Who allocates:
 *   1. takes everything the batch wants; 2. pagehint_flush_add for all of it; 3. makes the content final: zeroes, copies;
 *   4. pagehint_flush_need, once; if it names CPUs: pagehint_flush_tick, flush those (and the CPU that wrote in step 3, if it
 *   wrote through a translation that goes away now), pagehint_flush_done for each; 5. hands the frames to their new owner.
 *   Flushed before the content is final, the writer's own translations stay behind.
 *   An owner that still runs can write through an old translation until step 4 is over. Where that matters do step 3 after
 *   step 4, through a mapping that stays, so that it leaves nothing to flush.
 * A batch that gives up and frees its frames again has nothing to stamp: a filter only reads.
 *
 * Wrapping: the clock has 64 bits and does not wrap. A stamp is its lower half and is read as the newest time, up to now, that
 * ends so. One that is 2^32 flushes old or older may read as newer than it is, never as older: a flush too many, none too few.
 *
 * Not here: page tables, and flushing itself. An object of its own beside a zone: a zone that needs none pays nothing.
 * Memory: caller-owned (pagehint_flush_size, then _init), pointer-free, or _new and _free.
 */
#ifndef PAGEHINT_FLUSH_H
#define PAGEHINT_FLUSH_H

#include <stddef.h>
#include <stdint.h>

#include <pagehint/api.h>
#include <pagehint/run.h>

PAGEHINT_BEGIN

struct pagehint_flush;

/** struct pagehint_flush_opts - fixed for life */
struct pagehint_flush_opts {
	uint64_t struct_size;
	uint64_t max_sections;  /* sections of 2^18 frames that can have stamps of their own; 1 .. 16384; 0 = 1 */
	uint64_t span_sections; /* frames are numbered 0 .. span_sections * 2^18 - 1; 0 = max_sections; up to 2^22 */
	uint32_t cpus;          /* CPUs are numbered 0 .. cpus-1; 1 .. 65536 */
	uint32_t flags;         /* must be 0 */
};

/** struct pagehint_flush_filter - what a batch has gathered; the caller's (on its stack), made by pagehint_flush_begin */
struct pagehint_flush_filter {
	uint64_t newest; /* newest stamp of what was taken; 0 = none had one */
	uint64_t words;  /* stamps looked at [words of 64 frames] */
};

/**
 * pagehint_flush_size - bytes of state for these options
 * @opts:      required; give it the zone's max_sections and span_sections
 * @ret_bytes: size for pagehint_flush_init: 16 KiB a section, 4 bytes a section of the span, 8 bytes a CPU; the 16 KiB of a
 *             section are untouched (virtual) until frames of it are freed with a stamp
 * Return: 0; -EINVAL a value out of its bounds, unknown flags; -E2BIG unknown non-zero tail.
 * Thread: any.   Cost: O(1).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_flush_size(const struct pagehint_flush_opts *opts, uint64_t *ret_bytes);

/**
 * pagehint_flush_init - no frame has a stamp, no CPU has flushed yet
 * @mem:       zeroed, 64-byte aligned; stays the caller's and must outlive the handle
 * @bytes:     at least pagehint_flush_size
 * @opts:      as for pagehint_flush_size
 * @ret_flush: the handle; it is `mem`
 * Return: 0; -EINVAL as above, or mem misaligned or too small; -E2BIG.
 * Thread: init-only.   Cost: O(1), touches one page.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_flush_init(void *mem, uint64_t bytes,
							 const struct pagehint_flush_opts *opts,
							 struct pagehint_flush **ret_flush);

/**
 * pagehint_flush_new - size, map zeroed memory, init
 * Return: as pagehint_flush_init; -ENOMEM.
 * Thread: init-only.   Cost: one mmap.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_flush_new(const struct pagehint_flush_opts *opts,
							struct pagehint_flush **ret_flush);

/** pagehint_flush_free - unmaps what pagehint_flush_new made; NULL is allowed. Thread: init-only.  Cost: one munmap.  Since: 0.1 */
PAGEHINT_API void pagehint_flush_free(struct pagehint_flush *flush);

/**
 * pagehint_flush_freed - stamps frames that are about to be freed and to which translations may linger
 * @flush: the handle
 * @runs:  array of n
 * @n:     how many [runs]
 *
 * After the last access, before the free. Frames whose owner leaves no translations need no call. The stamp covers the words
 * of 64 frames that a run touches. When more sections than max_sections have stamps, those without room share one stamp,
 * which counts for every batch: flushes too many, none too few.
 * Return: 0; -EINVAL a run empty or wrapping; -ERANGE a run beyond the span. On failure nothing is stamped.
 * Thread: any.   Cost: one atomic on the clock a call, at most one for each 64 frames.   Since: 0.1
 * Source: the idea of a stamped free and a filter at allocation is that of hypervisors' page allocators.
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_flush_freed(struct pagehint_flush *flush, const struct pagehint_run *runs,
							  uint32_t n);

/**
 * pagehint_flush_freed_blocks - the same for n blocks of one order, before pagehint_zone_free_batch
 * @flush:  the handle
 * @order:  0 .. PAGEHINT_ORDER_MAX (18)
 * @n:      how many [blocks]
 * @frames: array of n: first frames, multiples of 2^order
 * Return: 0; -EINVAL order, or a block misaligned; -ERANGE a block beyond the span. On failure nothing is stamped.
 * Thread: any.   Cost: as pagehint_flush_freed; neighbours in the array that lie in one word of 64 frames cost one.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_flush_freed_blocks(struct pagehint_flush *flush, uint32_t order,
								 uint32_t n, const uint64_t *frames);

/** pagehint_flush_begin - an empty filter, for a new batch. Thread: any.  Cost: O(1).  Since: 0.1 */
PAGEHINT_API void pagehint_flush_begin(struct pagehint_flush_filter *filter);

/**
 * pagehint_flush_add - adds frames that the batch has taken
 * @flush:  the handle; only read
 * @filter: the batch's
 * @runs:   array of n
 * @n:      how many [runs]
 * Return: 0; -EINVAL a run empty or wrapping; -ERANGE a run beyond the span. On failure the filter is as it was.
 * Thread: any; a filter belongs to one.   Cost: one load for each 64 frames.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_flush_add(const struct pagehint_flush *flush,
							struct pagehint_flush_filter *filter,
							const struct pagehint_run *runs, uint32_t n);

/**
 * pagehint_flush_add_blocks - the same for n blocks of one order, after pagehint_zone_alloc_batch
 * @flush:  the handle; only read
 * @filter: the batch's
 * @order:  0 .. PAGEHINT_ORDER_MAX (18)
 * @n:      how many [blocks]
 * @frames: array of n: first frames, multiples of 2^order
 * Return: 0; -EINVAL order, or a block misaligned; -ERANGE a block beyond the span. On failure the filter is as it was.
 * Thread: any; a filter belongs to one.   Cost: as pagehint_flush_add; neighbours in one word cost one load.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_flush_add_blocks(const struct pagehint_flush *flush,
							       struct pagehint_flush_filter *filter, uint32_t order,
							       uint32_t n, const uint64_t *frames);

/**
 * pagehint_flush_need - which CPUs must flush before the batch is handed out
 * @flush:    the handle; only read
 * @filter:   the batch's, with everything it took
 * @among:    bitmap of `words` words: the CPUs that may hold translations at all (online; where old owners ran); NULL = all
 * @words:    room in among and ret_cpus, at least (cpus + 63) / 64 [64-bit words]
 * @ret_cpus: bit c % 64 of word c / 64 is set: CPU c must flush; all `words` words are written
 * @ret_n:    how many CPUs that is; 0 = no flush; or NULL
 *
 * Ask once a batch, when the content is final. The answer holds until the batch is handed out, however late that is.
 * Return: 0; -EINVAL words too small.
 * Thread: any.   Cost: O(cpus) loads; O(words) when nothing that was taken had a stamp.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_flush_need(const struct pagehint_flush *flush,
							 const struct pagehint_flush_filter *filter,
							 const uint64_t *among, uint32_t words, uint64_t *ret_cpus,
							 uint32_t *ret_n);

/**
 * pagehint_flush_tick - a flush of any number of CPUs begins: moves the clock
 * @flush: the handle
 * Every flush of a whole TLB is worth a tick, whoever wants it (a switch of address spaces, say): it spares a later one.
 * Return: the new time; give it to pagehint_flush_done for each CPU, when that CPU has flushed. Its lower 32 bits are never 0.
 * Thread: any.   Cost: one atomic.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK uint64_t pagehint_flush_tick(struct pagehint_flush *flush);

/**
 * pagehint_flush_done - a CPU has flushed everything, and began to do so after that tick
 * @flush: the handle
 * @cpu:   0 .. cpus-1
 * @tick:  what pagehint_flush_tick returned before the flush
 * A CPU that comes online with an empty TLB is one that has just flushed: tick, then done.
 * Return: 0 (also when the CPU has a newer stamp already: it keeps that); -EINVAL tick is 0 or lies ahead of the clock;
 * -ERANGE no such CPU.
 * Thread: any.   Cost: one atomic.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_flush_done(struct pagehint_flush *flush, uint32_t cpu, uint64_t tick);

/** pagehint_flush_clock - the time now: the last tick, 1 at first. Thread: any.  Cost: O(1).  Since: 0.1 */
PAGEHINT_API uint64_t pagehint_flush_clock(const struct pagehint_flush *flush);

/**
 * pagehint_flush_remove - gives back the room of sections whose frames are gone from the zone
 * @flush:  the handle
 * @frame:  first frame, a multiple of 2^18
 * @frames: how many [frames], a multiple of 2^18
 * What still lingers there is kept as the stamp that counts for every batch, so the sections may come back at any time.
 * Return: 0 (also when no section of the range had stamps); -EINVAL frames 0, no multiples of 2^18, or wrapping;
 * -ERANGE beyond the span.
 * Thread: one at a time, while nobody stamps or adds frames of these sections; any for everything else meanwhile.
 * Cost: 4096 words a section that had stamps.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_flush_remove(struct pagehint_flush *flush, uint64_t frame,
							   uint64_t frames);

PAGEHINT_END
#endif
