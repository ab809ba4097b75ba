/*
 * shared.h: a zone whose state lies in shared memory, and processes that attach to it.
 *
 * The problem: whoever gives memory to a guest wants to see which of it is free without asking, and several processes want to
 * allocate from one pool; yet none of them may be led astray by what another writes, or lose frames when one dies. Why this
 * shape: zone state has no pointers, so any process can map it. A zone with PAGEHINT_ZONE_SHARED keeps where everything is
 * on pages of its own; a process that attaches computes these from options that it knows itself, and never reads them from
 * the shared memory again. What is left there are words that say which frames are free.
 *
 * Who may write what: allocating processes trust each other. The host (reclaimer.h) trusts none of them: it only calls the
 * functions of its reclaimer, and pagehint_zone_detach.
 *
 * Death. Of the host: the next one finds what it left (pagehint_reclaimer_new). Of all allocating processes: the state is
 * void; the host frees its reclaimer and detaches. Of one among several: pagehint_zone_repair.
 * Not here: the frames' own memory (map.h). Seal the file against shrinking (F_SEAL_SHRINK) where somebody else could.
 */
#ifndef PAGEHINT_SHARED_H
#define PAGEHINT_SHARED_H

#include <stddef.h>
#include <stdint.h>

#include <pagehint/api.h>
#include <pagehint/run.h>
#include <pagehint/zone.h>

PAGEHINT_BEGIN

/**
 * pagehint_zone_attach - the zone that lies in a file, made there by pagehint_zone_init
 * @fd:       of shared memory (memfd, shmem); may be closed afterwards
 * @offset:   of the state in it, a multiple of 65536 [bytes]
 * @opts:     as the zone was made with; the flags have PAGEHINT_ZONE_SHARED
 * @owner:    names this process in the caches that it opens: any number, the same for nobody else; see pagehint_zone_repair
 * @ret_zone: the handle of this process; pagehint_zone_detach when done
 * Return: 0; -EINVAL an argument, opts that are not SHARED, or a state that was made otherwise or is none; -E2BIG; -ERANGE the
 * file is too short; -ENOMEM, -EACCES and others of mmap.
 * Thread: any.   Cost: three system calls.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_zone_attach(int fd, uint64_t offset,
							  const struct pagehint_zone_opts *opts, uint32_t owner,
							  struct pagehint_zone **ret_zone);

/** pagehint_zone_detach - unmaps what pagehint_zone_attach mapped; NULL is allowed. Thread: init-only.  Cost: one munmap.  Since: 0.1 */
PAGEHINT_API void pagehint_zone_detach(struct pagehint_zone *zone);

/**
 * pagehint_zone_install - makes sure that memory is behind frames before they are used
 * @zone:    a SHARED zone
 * @frame:   first frame of a block that the caller has allocated
 * @frames:  how many [frames]
 * @install: called for every granule under the block that the host has evicted and nobody has installed since; the whole
 *           granule, also what others have of it. Not 0 = it could not be done.
 * @ctx:     handed to it
 *
 * Where memory simply faults back in nobody needs this. Where a device could touch it first (DMA, passthrough), call it between
 * the allocation and the first use; `install` asks the host to put memory there and pin it. A granule that was never evicted costs one load.
 * Return: 0 all of it has memory; -EAGAIN another thread is installing a granule of it: call again; what install returned: that
 * granule is still without memory, free the block; -ERANGE not present; -EINVAL frames 0 or wrapping, not SHARED.
 * Thread: any; install is called once for a granule, however many ask.   Cost: O(granules).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_zone_install(struct pagehint_zone *zone, uint64_t frame, uint64_t frames,
							   int (*install)(void *ctx, const struct pagehint_run *run),
							   void *ctx);

/** struct pagehint_repaired - what a repair found [frames] */
struct pagehint_repaired {
	uint64_t struct_size;
	uint64_t cached; /* in caches of the dead process; free now */
	uint64_t lost;   /* nowhere: the process died with them between two words; free now */
	uint64_t kept;   /* nowhere, but perhaps a live one's: they count as out now */
	uint64_t freed;  /* named by `heirs`, and free now */
};

/**
 * pagehint_zone_repair - one of several allocating processes has died
 * @zone:   nobody is in a call on it, the host neither
 * @owner:  of the dead process, as it attached
 * @heirs:  names, one run a call, the blocks that the dead process held, and only those: 0, or -ENOENT when there are no more.
 *          NULL = none are known; they stay out
 * @ctx:    handed to it
 * @ret:    struct_size set by the caller; or NULL
 *
 * What is out is what the marks say, and that is all that is certain: everything present that is neither out, nor in a cache of
 * a live process, nor with the host, is free afterwards; trees, summaries and counters are made anew. Caches of the dead are
 * closed. Only a process that died while it freed a part of a block leaves frames that may be somebody's: they stay out.
 * Return: 0; -EINVAL not SHARED, owner 0; -EBUSY a host died and none has looked after it since (pagehint_reclaimer_new and
 * _settle first); what pagehint_zone_free_runs refuses of a run that heirs named (the others have been freed).
 * Thread: one, at rest.   Cost: O(frames / 64).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_zone_repair(struct pagehint_zone *zone, uint32_t owner,
							  int (*heirs)(void *ctx, struct pagehint_run *ret_run),
							  void *ctx, struct pagehint_repaired *ret);

PAGEHINT_END
#endif
