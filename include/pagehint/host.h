/*
 * host.h: the backends of this machine.
 *
 * null     counts and frees nothing: for measuring, and for tests of what stands above it.
 * madvise  gives memory of this process back to Linux with the one call that really frees for each backing:
 *            anon            MADV_DONTNEED, merged runs, in process_madvise batches where the kernel allows it on oneself
 *                            (probed once per handle), else one madvise a run; mlocked: MADV_DONTNEED_LOCKED
 *            shared          fallocate(PUNCH_HOLE); MADV_REMOVE where a userfaultfd must be told
 *            hugetlb         fallocate(PUNCH_HOLE) of whole huge pages; the rest is kept: alignment
 *            private file    once replaced by anonymous memory: MADV_DONTNEED; else MAP_FIXED anonymous memory within a
 *                            mapping budget; never on a range registered with a userfaultfd, nor on locked memory
 *            guest_memfd     fallocate(PUNCH_HOLE);      device: kept: cannot
 *          populate: MADV_POPULATE_WRITE; before Linux 5.14 fallocate, or a touch of every page that keeps its content.
 *          Measured figures behind each choice are in pagehint_backends(7).
 */
#ifndef PAGEHINT_HOST_H
#define PAGEHINT_HOST_H

#include <stddef.h>
#include <stdint.h>

#include <pagehint/api.h>
#include <pagehint/backend.h>

PAGEHINT_BEGIN

struct pagehint_map;

/**
 * pagehint_null_new - a backend that accepts every run and frees nothing
 * @opts:        NULL for defaults
 * @ret_backend: the handle; pagehint_backend_stats has its counts
 * Return: 0; -EINVAL; -E2BIG; -ENOMEM as pagehint_backend_new.
 * Thread: init-only.   Cost: one allocation.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_null_new(const struct pagehint_backend_opts *opts,
						       struct pagehint_backend **ret_backend);

#define PAGEHINT_MADVISE_LAZY 1u     /* anon: MADV_FREE (outcome lazy) instead of MADV_DONTNEED */
#define PAGEHINT_MADVISE_NO_BATCH 2u /* never process_madvise */

/** struct pagehint_madvise_opts - NULL = defaults */
struct pagehint_madvise_opts {
	uint64_t struct_size;
	uint32_t flags;          /* PAGEHINT_MADVISE_* */
	uint32_t mapping_budget; /* holes that private files may be cut into by this handle; 0 = 16384 */
};

/** struct pagehint_madvise_stats - syscalls by kind, since creation */
struct pagehint_madvise_stats {
	uint64_t struct_size;
	uint64_t madvise;         /* madvise calls */
	uint64_t process_madvise; /* process_madvise calls */
	uint64_t punch;           /* fallocate(PUNCH_HOLE) calls */
	uint64_t remap;           /* MAP_FIXED replacements */
	uint64_t probe;           /* residency probes */
	uint64_t populate;        /* populate calls */
	uint64_t mappings_used;   /* holes cut so far, of the budget */
};

/**
 * pagehint_madvise_new - the backend for memory mapped in this process
 * @map:         says what backs each frame; borrowed, must outlive the backend
 * @madvise:     NULL for defaults
 * @opts:        NULL for defaults; frame_shift must be 0 or the map's
 * @ret_backend: the handle
 * Return: 0; -EINVAL unknown flags, or frame_shift not the map's; -E2BIG; -ENOMEM.
 * Thread: init-only.   Cost: two allocations, up to four syscalls (the probe of process_madvise).   Since: 0.1
 * Source: madvise(2), process_madvise(2), fallocate(2)
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_madvise_new(struct pagehint_map *map,
							  const struct pagehint_madvise_opts *madvise,
							  const struct pagehint_backend_opts *opts,
							  struct pagehint_backend **ret_backend);

/**
 * pagehint_madvise_stats - syscall counts of a madvise backend
 * @backend: from pagehint_madvise_new
 * @stats:   struct_size set by the caller; the rest is written
 * Return: 0; -EINVAL not a madvise backend, or struct_size below 8.
 * Thread: any.   Cost: O(1).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_madvise_stats(const struct pagehint_backend *backend,
							    struct pagehint_madvise_stats *stats);

/**
 * pagehint_madvise_resident - how much of a run the host holds in memory now
 * @backend:   from pagehint_madvise_new
 * @run:       one run inside one region
 * @ret_bytes: resident [bytes]; of a shared file, what the file holds, whoever put it there
 *
 * For audits: a reported run that is resident again was refilled behind the zone's back (khugepaged, a stray access).
 * Return: 0; -EINVAL not a madvise backend, run empty; -ERANGE not inside one region; -EOPNOTSUPP no way to tell here
 * (device, guest_memfd); -ENODEV after fork; -EDEADLK; -EBUSY as pagehint_backend_discard; else what the probe gave.
 * Thread: one-per-handle.   Cost: O(frames), one syscall per 512 frames.   Since: 0.1
 * Source: proc_pid_pagemap(5), mincore(2), lseek(2) SEEK_DATA
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_madvise_resident(struct pagehint_backend *backend,
							       const struct pagehint_run *run, uint64_t *ret_bytes);

PAGEHINT_END
#endif
