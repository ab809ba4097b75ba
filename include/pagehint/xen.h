/*
 * xen.h: memory of a Xen domain, given back to the hypervisor and fetched again.
 *
 * The problem: Xen's memory operations answer with a count and never say why it is short; a populate over a frame that is
 * there loses the old one until the domain is destroyed; a decrease does not wipe what it gives away; one call a page is
 * ten times slower than a batch. Why this shape: one handle a domain, which cuts runs into the largest extents, batches
 * them, asks the hypervisor what a short count meant, and says of every byte what became of it. A table of functions
 * stands for the way to the hypervisor, so that a fake, libxencall (xencall.h) and raw privcmd come through one door.
 *
 * Three kinds of domain, because frame numbers mean three things:
 *   TRANSLATED  PVH and HVM, from the toolstack: the hypervisor takes guest frame numbers as they are.
 *   PV          from the toolstack: the hypervisor takes machine frames; the table `p2m` has them, and we keep it.
 *   OWN         a PVH or HVM guest gives up locked memory of this very process: frames are those of a map, their guest
 *               frame numbers are read from pagemap, and `p2m` remembers those that are out. After a discard the memory
 *               must not be touched until it is populated again, nor may the kernel move or merge such pages: no
 *               compaction (vm.compact_unevictable_allowed=0), no NUMA balancing, MADV_NOHUGEPAGE and MADV_UNMERGEABLE.
 *               A page that a fork or another process has mapped, too, is kept.
 *               A PV guest cannot do this: its pages stay referenced.
 * For a guest agent the safe way is another: pagehint_xen_set_target asks the kernel's own balloon driver.
 *
 * One caller a domain: two that populate one domain at the same time hinder each other in the hypervisor, and each would
 * take the other's frames for its own progress. A handle refuses a second thread; another process must not have one.
 * Not here: creating and destroying domains. A frame is 4 KiB always.
 */
#ifndef PAGEHINT_XEN_H
#define PAGEHINT_XEN_H

#include <stddef.h>
#include <stdint.h>

#include <pagehint/api.h>
#include <pagehint/backend.h>
#include <pagehint/outcome.h>
#include <pagehint/run.h>

PAGEHINT_BEGIN

struct pagehint_xen;
struct pagehint_bitmap;
struct pagehint_map;

#define PAGEHINT_XEN_SELF 0x7ff0u       /* as a domid: the domain we run in */
#define PAGEHINT_XEN_NOWHERE UINT64_MAX /* an entry of p2m: PV: the frame has no memory; OWN: it is not out */

/* kinds of domain */
#define PAGEHINT_XEN_TRANSLATED 0u
#define PAGEHINT_XEN_PV 1u
#define PAGEHINT_XEN_OWN 2u

/* flags of a handle */
#define PAGEHINT_XEN_NO_SCRUB 1u       /* what is reclaimed keeps its content, and another domain may come to see it */
#define PAGEHINT_XEN_EXACT_NODE 2u     /* populate from `node` or not at all */
#define PAGEHINT_XEN_NO_CLAIM 4u       /* do not claim memory before it is populated */
#define PAGEHINT_XEN_NO_1G 8u          /* no extents of 1 GiB */
#define PAGEHINT_XEN_NO_2M 16u         /* nor of 2 MiB */
#define PAGEHINT_XEN_GUEST_PRIVCMD 32u /* pagehint_xen_open: use privcmd in a guest, too (see there) */

/**
 * struct pagehint_xen_calls - the way to the hypervisor; copied by pagehint_xen_new
 *
 * memory_op:  required. HYPERVISOR_memory_op; arg lies in a buffer. What the hypervisor gave, or -errno. Never waits.
 * get_buffer: required. Zeroed memory that hypercalls may read and write; NULL: none.
 * put_buffer: required.
 * zero:       optional. Wipes n frames (as the hypervisor names them) of a domain; errors[i] = 0 or -errno. 0 or -errno.
 * destroy:    optional. Called once, by pagehint_xen_free.
 */
struct pagehint_xen_calls {
	size_t struct_size;
	const char *name;
	int64_t (*memory_op)(void *ctx, uint32_t op, void *arg);
	void *(*get_buffer)(void *ctx, size_t bytes);
	void (*put_buffer)(void *ctx, void *buffer, size_t bytes);
	int (*zero)(void *ctx, uint32_t domid, const uint64_t *frames, uint32_t n, int32_t *errors);
	void (*destroy)(void *ctx);
};

/** struct pagehint_xen_opts - which domain, and how */
struct pagehint_xen_opts {
	uint64_t struct_size;
	uint64_t open_timeout_ns; /* pagehint_xen_open in a guest: how long it may take; 0 = 1 s */
	uint64_t p2m_first;       /* frame of p2m[0] */
	uint64_t p2m_frames;      /* entries of p2m */
	uint64_t *p2m;            /* PV and OWN: borrowed and kept up to date; the caller fills it (NOWHERE) before */
	struct pagehint_bitmap
		*present; /* TRANSLATED: frames that have memory; borrowed and kept up to date; NULL = unknown */
	struct pagehint_map *memory; /* OWN: where the frames are mapped here; borrowed */
	uint32_t domid;              /* 1 .. 0x7fef, or PAGEHINT_XEN_SELF */
	uint32_t kind;               /* PAGEHINT_XEN_TRANSLATED, _PV or _OWN */
	uint32_t flags;
	uint32_t node;         /* populate from this NUMA node: its number + 1; 0 = any; 1..255 */
	uint32_t address_bits; /* populate below 2^address_bits; 0 = anywhere; ..63 */
	uint32_t batch;        /* extents a hypercall; 0 = 512; 1..512 */
};

/** struct pagehint_xen_stats - since creation; frames unless said */
struct pagehint_xen_stats {
	uint64_t struct_size;
	uint64_t hypercalls; /* [calls] */
	uint64_t populated;
	uint64_t reclaimed;
	uint64_t scrubbed;
	uint64_t undone;       /* populated, and given back because the rest could not be had */
	uint64_t short_counts; /* answers that were diagnosed [answers] */
	uint64_t retries;      /* calls made again after EAGAIN [calls] */
	uint64_t extents_1g;   /* populated in [extents] */
	uint64_t extents_2m;   /* [extents] */
	uint64_t extents_4k;   /* [extents] */
	uint64_t claims;       /* made [claims] */
};

/**
 * pagehint_xen_new - a handle on a domain over a given way to the hypervisor
 * @calls:   copied
 * @ctx:     handed to each call; owned from now on (destroy), left alone when this fails
 * @opts:    required
 * @ret_xen: the handle
 * Asks for the current reservation once, to see that it may.
 * Return: 0; -EINVAL a required call is missing, domid, kind, batch, node or address_bits out of bounds, unknown flags, a p2m
 * where none belongs or none where one does, OWN without a map or of another domain; -E2BIG unknown non-zero tail;
 * -EOPNOTSUPP the calls cannot wipe frames and PAGEHINT_XEN_NO_SCRUB is not set; -ENOMEM; -ENODEV no such domain; else what
 * the hypervisor gave (-EPERM: not allowed).
 * Thread: init-only.   Cost: one allocation, two buffers, one hypercall.   Since: 0.1
 * Source: Xen public/memory.h
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_xen_new(const struct pagehint_xen_calls *calls, void *ctx,
						      const struct pagehint_xen_opts *opts,
						      struct pagehint_xen **ret_xen);

/**
 * pagehint_xen_open - the same over /dev/xen/privcmd, with nothing but the kernel beneath
 * @opts:    required
 * @ret_xen: the handle
 * In a guest that is not the hardware domain, newer kernels let privcmd be opened only once xenstored has answered, and
 * then refuse hypercalls unless the module was told otherwise. So there it is used only with PAGEHINT_XEN_GUEST_PRIVCMD: a
 * child process that shares nothing tries to open it, and is killed when open_timeout_ns are over.
 * Return: 0; -ENODEV this is not Xen, or no such domain; -EOPNOTSUPP in a guest without the flag, on an architecture whose
 * hypercalls we do not know, OWN in a PV guest, or built without xen; -ETIMEDOUT the open did not end in time; -EINVAL;
 * -E2BIG; -ENOMEM; -EPERM hypercalls are refused; else what open, mmap or ioctl gave.
 * Thread: init-only.   Cost: about ten syscalls; in a guest up to open_timeout_ns.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_xen_open(const struct pagehint_xen_opts *opts,
						       struct pagehint_xen **ret_xen);

/**
 * pagehint_xen_free - frees the handle; what the domain has stays as it is. NULL is allowed.
 * Return: 0; -EBUSY a backend is on it, or a call is inside (nothing is changed).
 * Thread: init-only.   Cost: frees.   Since: 0.1
 */
PAGEHINT_API int pagehint_xen_free(struct pagehint_xen *xen);

/* flags of a populate */
#define PAGEHINT_XEN_PARTIAL 1u /* keep what could be had, and pass over what is there already */

/**
 * pagehint_xen_populate - gives a domain memory at these frames
 * @xen:      the handle
 * @runs:     array of n, ascending, disjoint
 * @n:        how many [runs]
 * @flags:    PAGEHINT_XEN_PARTIAL
 * @outcomes: array of n, or NULL: accepted = has memory now; kept: present already; failed, with its reason
 * @ret_sum:  their sum, or NULL; written also on failure
 *
 * All or nothing unless PARTIAL: what was populated before a failure is given back. The memory is claimed first where that is
 * allowed, so that a request that cannot be met fails at once. Extents are 1 GiB and 2 MiB where frame and length allow
 * it, else 4 KiB; where the hypervisor refuses a large one, smaller ones are tried. The content is undefined.
 * Without `present` nobody knows what is there: populating a TRANSLATED frame twice loses a frame until the domain is
 * destroyed.
 * Return: 0; -EINVAL runs empty, wrapping, overlapping or not ascending, unknown flags; -EEXIST some frame is present;
 * -ERANGE outside p2m or present; -ENOSPC it would exceed the domain's maximum; -ENOMEM the host (or node) has none;
 * -ENODEV the domain is gone, or this is a fork; -EBUSY another thread is inside; else what the hypervisor gave.
 * Thread: one-per-handle.   Cost: a hypercall per batch of extents of one size, four more.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_xen_populate(struct pagehint_xen *xen, const struct pagehint_run *runs,
							   uint32_t n, uint32_t flags,
							   struct pagehint_outcome *outcomes,
							   struct pagehint_outcome *ret_sum);

/**
 * pagehint_xen_reclaim - takes memory of a domain back
 * @xen:      the handle
 * @runs:     array of n, ascending, disjoint
 * @n:        how many [runs]
 * @outcomes: array of n, or NULL: freed; absent: had no memory; lazy: somebody maps it still, it is freed when that ends;
 *            kept: no frame there that would be given up (hole), or it could not be wiped; OWN: no locked page of a region,
 *            pinned, or mapped elsewhere, too; failed, with its reason
 * @ret_sum:  their sum, or NULL; written also on failure
 *
 * Frames are wiped first unless NO_SCRUB, and go one by one in batches (a large extent with a hole in it would be freed up to
 * the hole, and the answer would say nothing of it). A hole costs two hypercalls; after 1024 of them the call ends.
 * Return: 0 (also when something was kept); -EINVAL as above; -ENODEV the domain is gone, or this is a fork; -EBUSY; -EAGAIN
 * too many holes, or the hypervisor wants it later: call again for what failed; -EPERM; else what the hypervisor gave.
 * Thread: one-per-handle.   Cost: a hypercall per 512 frames.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_xen_reclaim(struct pagehint_xen *xen, const struct pagehint_run *runs,
							  uint32_t n, struct pagehint_outcome *outcomes,
							  struct pagehint_outcome *ret_sum);

/**
 * pagehint_xen_reservation - how much memory the domain has, and may have
 * @xen:         the handle
 * @ret_current: [frames]
 * @ret_maximum: [frames], or NULL
 * Return: 0; -ENODEV the domain is gone, or this is a fork; -EBUSY; -EPERM; else what the hypervisor gave.
 * Thread: one-per-handle.   Cost: one or two hypercalls.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_xen_reservation(struct pagehint_xen *xen, uint64_t *ret_current,
							      uint64_t *ret_maximum);

/**
 * pagehint_xen_stats - reads the counters
 * @xen:   the handle
 * @stats: struct_size set by the caller; the rest is written
 * Return: 0; -EINVAL struct_size below 8.
 * Thread: one-per-handle.   Cost: O(1).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_xen_stats(const struct pagehint_xen *xen,
							struct pagehint_xen_stats *stats);

/**
 * pagehint_xen_backend_new - the domain as a backend: discard reclaims, populate populates
 * @xen:         borrowed, used by nobody else meanwhile
 * @opts:        NULL for defaults; frame_shift must be 0 or 12
 * @ret_backend: the handle
 * Its populate passes over frames that are present, when that is known. Memory that comes back has undefined content.
 * Return: 0; -EINVAL a NULL, or another frame_shift; -EBUSY a backend is on it already; -E2BIG; -ENOMEM.
 * Thread: init-only.   Cost: two allocations.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_xen_backend_new(struct pagehint_xen *xen,
							      const struct pagehint_backend_opts *opts,
							      struct pagehint_backend **ret_backend);

/**
 * pagehint_xen_get_target - what the kernel's balloon driver is to reach, and where it is
 * @ret_target:  [bytes]
 * @ret_current: [bytes], or NULL
 * Return: 0; -ENODEV there is no such driver: not Xen; -EPROTO it says no number; else what open or read gave.
 * Thread: any.   Cost: three to six syscalls.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_xen_get_target(uint64_t *ret_target, uint64_t *ret_current);

/**
 * pagehint_xen_set_target - has the kernel's own balloon driver bring this domain to a size
 * @bytes:      wanted
 * @least:      never below this [bytes]
 * @most:       never above this [bytes]
 * @ret_target: what the driver aims at now [bytes], or NULL
 * Which frames go is the kernel's choice; it scrubs them. It goes on in the background. The target is in whole frames, within
 * the bounds: `bytes` is rounded down, `least` up.
 * Return: 0; -EINVAL no frame, or least above most, in whole frames; -ENODEV; -EPROTO; -EACCES not root; else what open, read or write gave.
 * Thread: any.   Cost: six syscalls.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_xen_set_target(uint64_t bytes, uint64_t least, uint64_t most,
							     uint64_t *ret_target);

PAGEHINT_END
#endif
