/*
 * pager.h: demand paging: pages come from a source when they are first touched, and stay right while others are given away.
 *
 * The problem: with one userfaultfd and one thread, vCPUs queue on one lock; and a handler that does not know what was
 * discarded meanwhile brings back stale pages. Why this shape: one atomic state a page, which every way in and every way
 * out goes through; one userfaultfd a shard of the address space, read by the embedder's own threads; a thread that got a
 * fault as an exit or a signal may resolve it itself. The pager has no thread, and time comes in as now_ns.
 *
 *     ABSENT ---claim---> INFLIGHT ---installed---> PRESENT (or DIRTY, where writes are tracked)
 *       ^                    | failed                  |
 *       +--------------------+           discarded     v
 *     POISONED (reading gives SIGBUS) <---         REMOVED ---touched---> a page of zeros
 *
 * With discarding: put pagehint_pager_backend_new (pager_backend.h) in front of the backend. It marks REMOVED before memory
 * goes, and leaves alone (kept) what is in flight; it never waits. So no event is needed inside one process. Where another process discards
 * memory that this pager serves, PAGEHINT_PAGER_EVENT_REMOVE subscribes to its events: the thread of the shard reads all of
 * them before it resolves anything, and nothing else may install pages then.
 *
 * Not here: what backs memory (map.h), freeing it (host.h), where content comes from (source.h).
 * Owns: its userfaultfds, the states unless they are brought along, buffers. Borrows: map, sources, memory.
 * Invariants: only who claimed a page installs it; whoever ends a flight wakes who waits; a page whose content cannot be
 * had is never silently zero; nothing that was removed comes back from the source.
 */
#ifndef PAGEHINT_PAGER_H
#define PAGEHINT_PAGER_H

#include <stddef.h>
#include <stdint.h>

#include <pagehint/api.h>
#include <pagehint/sink.h>
#include <pagehint/source.h>

PAGEHINT_BEGIN

struct pagehint_pager;
struct pagehint_map;

/* flags of a pager */
#define PAGEHINT_PAGER_SIGBUS 1u /* inline: a fault is a SIGBUS of the thread, which calls pagehint_pager_resolve */
#define PAGEHINT_PAGER_EVENT_REMOVE 2u /* another process discards: removals are events; steps alone install pages */
#define PAGEHINT_PAGER_FOREIGN 4u      /* the memory is another process's; needs `fds`, and no map */
#define PAGEHINT_PAGER_RECORD 8u       /* remember the order of faults */

/* flags of a region */
#define PAGEHINT_PAGER_MINOR 1u      /* shared memory: pages that are in the file are right as they are */
#define PAGEHINT_PAGER_MISSING 2u    /* pages that are nowhere come from the source; default when MINOR is not given */
#define PAGEHINT_PAGER_TRACK 4u      /* write-protect what is installed, so that writes make it DIRTY */
#define PAGEHINT_PAGER_ATTACH 8u     /* `state` is that of a pager which is gone: go on from there */
#define PAGEHINT_PAGER_SHARE 16u     /* `state` is that of a living pager, which has another mapping of the same file */
#define PAGEHINT_PAGER_KEEP_FORK 32u /* let a child have the region; what was absent reads as zero there */

/* what to do with pages whose source failed */
#define PAGEHINT_FAIL_POISON 0u /* whoever touches them gets SIGBUS */
#define PAGEHINT_FAIL_RETRY 1u  /* ask again, after a pause */
#define PAGEHINT_FAIL_ZERO 2u   /* they are zero, because the embedder says so */

/** struct pagehint_pager_failure - told to `failed` */
struct pagehint_pager_failure {
	uint64_t struct_size;
	uint64_t frame;  /* first frame; of a shard that nobody serves: 0 */
	uint64_t frames; /* 0: it is about a shard */
	uint32_t shard;
	uint32_t tries; /* how often these were tried */
	int32_t error; /* -errno of the source or the kernel; -ETIMEDOUT: it did not answer, or nobody steps the shard */
	uint32_t reserved;
};

/** struct pagehint_pager_opts - NULL = defaults */
struct pagehint_pager_opts {
	uint64_t struct_size;
	struct pagehint_map
		*map;   /* where frames are; NULL: each region says it. Regions must be claimed (UFFD_OWN) there */
	const int *fds; /* `shards` userfaultfds to use instead of new ones; the pager closes them in the end */
	uint32_t (*failed)(void *ctx,
			   const struct pagehint_pager_failure *failure); /* PAGEHINT_FAIL_*; NULL = poison */
	void *ctx;
	uint32_t frame_shift; /* 0 = 12, or the map's */
	uint32_t flags;       /* PAGEHINT_PAGER_* */
	uint32_t shards;      /* one userfaultfd each, 1..256; 0 = 1. As many as there are threads to serve them */
	uint32_t max_regions; /* that may be added in its life, 1..1024; 0 = 16 */
	uint32_t around_min;  /* pages resolved around a fault: at least; 0 = 16; 1..512 */
	uint32_t around_max;  /* and at the most, where faults follow each other; 0 = 512 */
	uint32_t flights;     /* fetches at the same time, 2..64; 0 = 16; each has a buffer of 2 MiB of address space */
	uint32_t record_max;  /* faults remembered; 0 = 65536 */
	uint64_t stripe_bytes; /* of a shard, in turn; a multiple of 2 MiB; 0 = a region is cut into `shards` parts */
	uint64_t timeout_ns;   /* how long a fetch, or a shard that is not stepped, may take; 0 = 5 s */
	uint64_t fill_rate;    /* bytes a second that pagehint_pager_fill brings at the most; 0 = no limit */
};

/** struct pagehint_pager_region - a region to serve */
struct pagehint_pager_region {
	uint64_t struct_size;
	uint64_t frame;                 /* first frame */
	uint64_t frames;                /* how many [frames] */
	uint64_t host_addr;             /* where; 0 = as the map says */
	uint64_t page_bytes;            /* of the mapping: 0 = as the map says, else 4096; at most 2 MiB */
	struct pagehint_source *source; /* borrowed; NULL: zero, and for MINOR alone what the file has */
	uint64_t source_offset;         /* of the region's first byte in the source [bytes] */
	void *state;                    /* pagehint_pager_state_size bytes, zeroed unless ATTACH or SHARE; NULL = own */
	uint64_t state_bytes;           /* room there */
	uint32_t flags;                 /* PAGEHINT_PAGER_MINOR .. */
	uint32_t backing;               /* PAGEHINT_BACKING_ANON, SHARED or HUGETLB; 0 = as the map says, else anon */
};

/* what a page is */
#define PAGEHINT_PAGE_ABSENT 0u   /* not here yet: the source has it */
#define PAGEHINT_PAGE_INFLIGHT 1u /* on its way: ask again */
#define PAGEHINT_PAGE_PRESENT 2u  /* here; where writes are tracked: as the source has it */
#define PAGEHINT_PAGE_REMOVED 3u  /* discarded: zero, whatever the source has */
#define PAGEHINT_PAGE_DIRTY 4u    /* here, and written since */
#define PAGEHINT_PAGE_ZERO 5u     /* not here yet, and known to be zero */
#define PAGEHINT_PAGE_POISONED 6u /* its content is lost */

/** struct pagehint_page_run - adjacent frames that are the same */
struct pagehint_page_run {
	uint64_t frame;
	uint64_t frames;
	uint32_t what; /* PAGEHINT_PAGE_* */
	uint32_t reserved;
};

/** struct pagehint_pager_stats - since creation; pages are those of the regions */
struct pagehint_pager_stats {
	uint64_t struct_size;
	uint64_t reads;          /* of userfaultfds */
	uint64_t messages;       /* faults that were read */
	uint64_t faults;         /* resolved for a thread that waited: by event, signal or exit */
	uint64_t installed;      /* pages: copied, continued or moved, also around and ahead */
	uint64_t zeroed;         /* pages of zeros */
	uint64_t met;            /* pages that were there already */
	uint64_t ioctls;         /* that installed */
	uint64_t moves;          /* of 2 MiB */
	uint64_t wakes;          /* explicit */
	uint64_t parked;         /* faults put off: the kernel or the page was not ready */
	uint64_t filled;         /* pages that fill brought */
	uint64_t yields;         /* times that fill gave way to a fault */
	uint64_t removed;        /* pages marked by a discard here */
	uint64_t removed_events; /* by another process */
	uint64_t kept_in_flight; /* pages that a discard left alone */
	uint64_t stale_refused;  /* pages fetched, and dropped because they had been removed meanwhile */
	uint64_t poisoned;       /* pages */
	uint64_t failures;       /* told to `failed` */
	uint64_t revoked;        /* fetches that did not answer in time */
	uint64_t restarts;       /* shards whose faults were raised anew */
	uint64_t surprises;      /* faults on pages that were present: somebody else took them away */
	uint64_t dirtied;        /* write faults on tracked pages */
	uint64_t record_dropped; /* faults beyond record_max */
	uint64_t around;         /* window of the last fault [pages] */
};

/**
 * pagehint_pager_new - a pager without regions
 * @opts:      NULL for defaults
 * @ret_pager: the pager
 * Return: 0; -EINVAL a value out of its bounds; -E2BIG unknown non-zero tail; -ENOMEM; -EPERM this process may have no
 * userfaultfd that sees faults of the kernel; -ENOSYS the kernel has none; -EOPNOTSUPP it lacks a feature that a flag needs;
 * -ENODEV the map's process is another.
 * Thread: init-only.   Cost: a few allocations, two system calls a shard.   Since: 0.1
 * Source: userfaultfd(2), ioctl_userfaultfd(2)
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_pager_new(const struct pagehint_pager_opts *opts,
							struct pagehint_pager **ret_pager);

/**
 * pagehint_pager_free - frees it, and closes its userfaultfds; NULL is allowed
 * @pager: nobody steps, resolves or fills any more
 *
 * Where a userfaultfd is closed pages that are absent read as zero, without a word. So it refuses while any is.
 * Return: 0; -EBUSY pages are absent or in flight (nothing is changed): fill, or pagehint_pager_abandon. In a child after
 * fork always 0.
 * Thread: init-only.   Cost: O(pages).   Since: 0.1
 */
PAGEHINT_API int pagehint_pager_free(struct pagehint_pager *pager);

/**
 * pagehint_pager_abandon - gives up on everything that is absent: it is poisoned, or left to a successor
 * @pager:    the pager
 * @hand_over: 0: poison; 1: another pager has the descriptors and the state, and goes on
 * Return: 0; -EAGAIN a flight has not ended, or the kernel was not ready: call again; -EOPNOTSUPP the kernel cannot poison;
 * -ENODEV after fork; else what the kernel gave.
 * Thread: init-only.   Cost: O(pages), a system call a run of absent pages.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_pager_abandon(struct pagehint_pager *pager, uint32_t hand_over);

/**
 * pagehint_pager_state_size - bytes that the states of a region need
 * @bytes:      of the region
 * @page_bytes: of its mapping
 * Return: bytes; 0 when an argument is 0, or not a multiple.
 * Thread: any.   Cost: O(1).   Since: 0.1
 */
PAGEHINT_API uint64_t pagehint_pager_state_size(uint64_t bytes, uint64_t page_bytes);

/**
 * pagehint_pager_add - serves a region from now on
 * @pager:  the pager
 * @region: its memory is mapped, and holds nothing yet that the source has (unless ATTACH or SHARE)
 *
 * Children do not inherit it (MADV_DONTFORK) unless KEEP_FORK. With ATTACH what was in flight becomes absent and whoever
 * waits is woken, so that faults are raised again.
 * Return: 0; -EINVAL a value out of its bounds, not claimed in the map, a state that is not one, of a SIGBUS pager TRACK or
 * a source that is not for signal handlers; -EEXIST overlaps a region;
 * -ENOSPC max_regions; -E2BIG; -ENOMEM; -EBUSY another userfaultfd has it; -EOPNOTSUPP the kernel cannot serve this kind
 * (a private mapping of a disk file: restore into anonymous memory instead) or lacks what a flag needs; -ENODEV after fork;
 * else what the kernel gave.
 * Thread: one-per-handle, while others step.   Cost: O(shards or stripes) system calls.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_pager_add(struct pagehint_pager *pager,
							const struct pagehint_pager_region *region);

/** pagehint_pager_shards - how many userfaultfds it has. Thread: any.  Cost: O(1).  Since: 0.1 */
PAGEHINT_API uint32_t pagehint_pager_shards(const struct pagehint_pager *pager);

/**
 * pagehint_pager_fd - what to poll for a shard (POLLIN), and to pass to a process that may have to take over
 * @pager:  the pager
 * @shard:  0 .. shards - 1
 * @ret_fd: stays the pager's
 * Return: 0; -EINVAL no such shard.
 * Thread: any.   Cost: O(1).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_pager_fd(const struct pagehint_pager *pager, uint32_t shard, int *ret_fd);

/**
 * pagehint_pager_step - reads what a shard has to say and resolves it; never waits
 * @pager:        the pager
 * @shard:        0 .. shards - 1
 * @now_ns:       monotonic time
 * @ret_deadline: call again then, or when the descriptor is readable; UINT64_MAX: only then
 *
 * At most 1024 messages a call. A fault that cannot be resolved yet is kept and tried again, with a pause that grows.
 * Return: 0; -EINVAL no such shard; -EBUSY another thread is in this shard, or took it over; -ENODEV after fork; -ESRCH the
 * memory's process is gone; else what reading gave.
 * Thread: one-per-shard.   Cost: bounded; system calls: a read for 64 messages, one for each run of pages, one wake.
 * Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_pager_step(struct pagehint_pager *pager, uint32_t shard, uint64_t now_ns,
							 uint64_t *ret_deadline);

/**
 * pagehint_pager_resolve - resolves a fault of the calling thread: from its SIGBUS handler, or after an exit
 * @pager: the pager
 * @addr:  host address that was touched (si_addr)
 *
 * Async-signal-safe when the region's source is (PAGEHINT_SOURCE_SIGNAL_SAFE), and `failed` is or is NULL.
 * Return: 0 try the access again; -EAGAIN another thread or an asynchronous source has it in hand: the same; -ERANGE not a
 * region of this pager; -EHWPOISON its content is lost; -EOPNOTSUPP removals are events, or the memory
 * is another process's; -ENODEV after fork; else what the source or the kernel gave.
 * Thread: any.   Cost: one fetch, one or two system calls.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_pager_resolve(struct pagehint_pager *pager, const void *addr);

/* how KVM_RUN came back when memory was missing */
#define PAGEHINT_EXIT_MEMORY_FAULT 0u /* KVM_EXIT_MEMORY_FAULT: gpa and size are known */
#define PAGEHINT_EXIT_EFAULT 1u       /* -EFAULT without an address */
#define PAGEHINT_EXIT_MMIO 2u         /* KVM_EXIT_MMIO at an address that is memory */

#define PAGEHINT_RETRY 0u  /* enter the guest again */
#define PAGEHINT_ACCESS 1u /* the pages are there: do what the exit describes in host memory, then enter the guest */

/**
 * pagehint_pager_exit - resolves what made a vCPU leave the guest
 * @pager:      the pager
 * @kind:       PAGEHINT_EXIT_*
 * @gpa:        guest-physical address [bytes]; ignored for EFAULT
 * @bytes:      how many; 0 = 1; ignored for EFAULT
 * @ret_action: PAGEHINT_RETRY or PAGEHINT_ACCESS
 *
 * EFAULT says no address: up to 2 MiB of what is not here is brought, going round, so that repeating comes to an end.
 * Return: 0; -EAGAIN in other hands: enter again; -ERANGE no region has it; -EFAULT everything is here already: the cause is
 * another; -EINVAL unknown kind; -EHWPOISON; -EOPNOTSUPP; -ENODEV as pagehint_pager_resolve.
 * Thread: any.   Cost: as resolve; for EFAULT up to 2 MiB.   Since: 0.1
 * Source: KVM API, KVM_EXIT_MEMORY_FAULT
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_pager_exit(struct pagehint_pager *pager, uint32_t kind, uint64_t gpa,
							 uint64_t bytes, uint32_t *ret_action);

/**
 * pagehint_pager_ensure - makes a range present before the caller's own access: system calls into it, a device, an alias
 * @pager:    the pager
 * @frame:    first frame
 * @frames:   how many, in one region [frames]
 * @ret_done: frames from the first on that are present, or NULL; written also on failure
 * Return: 0; -EAGAIN in other hands: call again; -ERANGE not in one region; -EINVAL frames 0 or wrapping; -EHWPOISON;
 * -EOPNOTSUPP; -ENODEV as pagehint_pager_resolve; else what the source or the kernel gave.
 * Thread: any.   Cost: O(frames / 16), a fetch and a system call a run that is missing.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_pager_ensure(struct pagehint_pager *pager, uint64_t frame,
							   uint64_t frames, uint64_t *ret_done);

/**
 * pagehint_pager_fill - brings what nobody has asked for yet, in the background
 * @pager:        the pager
 * @shard:        where; UINT32_MAX = anywhere. With EVENT_REMOVE the caller's own shard
 * @now_ns:       monotonic time
 * @budget:       bytes at the most; 0 = 2 MiB
 * @ret_bytes:    brought, or NULL; written also on failure
 * @ret_deadline: call again then; UINT64_MAX: nothing is left to bring
 *
 * First what was prefetched (pagehint_pager_prefetch), in that order, then upwards. Zeros are left alone. Stops when a fault
 * comes up, or when the rate is used up. Whole 2 MiB of anonymous memory are moved in as one page.
 * Return: 0; -EBUSY another thread is filling; -EINVAL no such shard, or UINT32_MAX with EVENT_REMOVE; -ENODEV; else what the
 * source or the kernel gave.
 * Thread: any, one at a time; with EVENT_REMOVE the thread of the shard.   Cost: bounded by budget.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_pager_fill(struct pagehint_pager *pager, uint32_t shard, uint64_t now_ns,
							 uint64_t budget, uint64_t *ret_bytes, uint64_t *ret_deadline);

/**
 * pagehint_pager_deliver - the answer to a fetch that was -EINPROGRESS
 * @pager:  the pager
 * @cookie: of the fetch
 * @data:   content, or NULL = zero; ignored when error is not 0
 * @bytes:  how many from the fetch's offset on; what is missing is asked for again when it is touched
 * @error:  0, or -errno: these pages cannot be had
 * Return: 0; -EALREADY it was answered, revoked or never asked; -EINVAL bytes 0 or more than asked for; -ENODEV.
 * Thread: any; with EVENT_REMOVE the thread of the shard.   Cost: one or two system calls.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_pager_deliver(struct pagehint_pager *pager, uint64_t cookie,
							    const void *data, uint64_t bytes, int error);

/**
 * pagehint_pager_watch - looks for what does not move: fetches that do not answer, shards that nobody steps
 * @pager:        the pager
 * @now_ns:       monotonic time, the same clock as everywhere
 * @ret_deadline: call again then
 *
 * From a thread that serves no shard. A fetch older than timeout_ns is revoked and `failed` is asked; a shard that had
 * something to say for that long is told to `failed`, and its faults are raised anew for whoever steps it next.
 * Return: 0; -ENODEV after fork.
 * Thread: one-per-handle.   Cost: O(flights + shards), a poll a shard.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_pager_watch(struct pagehint_pager *pager, uint64_t now_ns,
							  uint64_t *ret_deadline);

/**
 * pagehint_pager_record - the order of faults so far, to be kept in a small file
 * @pager:     made with PAGEHINT_PAGER_RECORD
 * @blob:      room, or NULL
 * @room:      bytes there
 * @ret_bytes: how many it takes; more than room = nothing was written, call again with more
 * Return: 0; -EOPNOTSUPP nothing is recorded; -ENODEV.
 * Thread: any.   Cost: O(faults).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_pager_record(struct pagehint_pager *pager, void *blob, uint64_t room,
							   uint64_t *ret_bytes);

/**
 * pagehint_pager_prefetch - fill brings these first, and faults bring around them only what is among them
 * @pager: its regions are added; nobody fills yet
 * @blob:  from pagehint_pager_record, maybe of another process and machine; not trusted
 * @bytes: of blob
 * Return: 0; -EINVAL not a whole record, or frames of no region; -ENOMEM; -ENODEV.
 * Thread: init-only.   Cost: O(bytes + pages / 64).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_pager_prefetch(struct pagehint_pager *pager, const void *blob,
							     uint64_t bytes);

/**
 * pagehint_pager_export - what each page is: for snapshots that hold what is needed, and no more
 * @pager:    the pager; quiet, or the answer is of no single moment
 * @frame:    where to start
 * @runs:     array of max, in order of frames; gaps are frames of no region
 * @max:      room [runs]
 * @ret_n:    how many; 0: nothing from `frame` on. Go on after the last one
 * Return: 0; -EINVAL max 0 or a pointer NULL; -ENODEV.
 * Thread: any.   Cost: O(pages / 16 + runs).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_pager_export(struct pagehint_pager *pager, uint64_t frame,
							   struct pagehint_page_run *runs, uint32_t max,
							   uint32_t *ret_n);

/**
 * pagehint_pager_clean - forgets that pages of a tracked region were written; copy them after this, not before
 * @pager: the pager
 * @frame: first frame
 * @frames: how many, in one region [frames]
 * Return: 0; -ERANGE not in one region; -EOPNOTSUPP the region is not tracked; -EINVAL; -ENODEV; else what the kernel gave.
 * Thread: any.   Cost: O(pages / 16), one system call a run of dirty pages.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_pager_clean(struct pagehint_pager *pager, uint64_t frame,
							  uint64_t frames);

/**
 * pagehint_pager_stats - reads the counters
 * @pager: the pager
 * @stats: struct_size set by the caller; the rest is written
 * Return: 0; -EINVAL struct_size below 8.
 * Thread: any.   Cost: O(1).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_pager_stats(const struct pagehint_pager *pager,
							  struct pagehint_pager_stats *stats);

/** pagehint_pager_explain - a line a region and a shard, and what stands in the way. Thread: any.  Cost: O(pages / 16).  Since: 0.1 */
PAGEHINT_API void pagehint_pager_explain(const struct pagehint_pager *pager, const struct pagehint_sink *sink);

PAGEHINT_END
#endif
