/*
 * device.h: the virtio-balloon device without any I/O of its own: what a VMM, or a vhost-user program, puts behind its transport.
 *
 * The problem: four VMMs wrote this device, each a part of it, and queue indices, sub-pages, guest lengths and poison went wrong
 * again and again. Why this shape: one engine over a map (what memory there is), a backend (how it goes back) and a gate (whether
 * it may). The transport hands in kicks, config accesses and the time; what the guest must be told comes back in a
 * struct pagehint_device_work. Discards of a request are merged and go down as one batch; a request is acknowledged only when
 * its discards are done, also on an asynchronous backend, and on each queue in the order in which the guest made it available.
 * So whatever was not acknowledged may be done again: after a crash of the process a queue continues at its used index.
 * Not here: what the host asks of the balloon (target, statistics, hints, counters, saved state: device_control.h); sockets, PCI,
 * interrupts, the memory table, policy (who picks the target). Legacy big-endian guests are not served.
 * Guest input is never trusted: work per call is bounded, what is wrong is dropped and counted (pagehint_device_stats).
 * What the guest may only read (ROM) does not belong into the map, or is pinned there: pinned regions are never discarded.
 * Thread: one-per-handle for all of it, unless said. Calls from the engine's own callbacks get -EDEADLK; in a forked child all
 * fallible calls get -ENODEV. Nothing is allocated after pagehint_device_new.
 * Source: OASIS virtio 1.3, section 5.5; where that is silent, what QEMU's device does.
 */
#ifndef PAGEHINT_DEVICE_H
#define PAGEHINT_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include <pagehint/api.h>
#include <pagehint/balloon.h>
#include <pagehint/run.h>
#include <pagehint/sink.h>

PAGEHINT_BEGIN

struct pagehint_device;
struct pagehint_map;
struct pagehint_backend;
struct pagehint_gate;

/* flags of a device */
/* Deflated pages are made present (pagehint_backend_populate) before they are acknowledged; offers MUST_TELL_HOST its sense. */
#define PAGEHINT_DEVICE_POPULATE 1u
/* A hint run that the guest has ended is set DONE at once, so the guest gets its pages back without pagehint_device_hint_done. */
#define PAGEHINT_DEVICE_HINT_AUTO_DONE 2u
/* Ask the backend for freed against absent (PAGEHINT_DISCARD_PROBE): the rate then counts only what was really there. */
#define PAGEHINT_DEVICE_PROBE 4u
/*
 * Unratified, off unless asked for: offers bit 6 as DEVICE_INIT_REPORTED. When negotiated, the used length of a report is all its
 * bytes if every one was discarded and reads as zero, else 0. (Other proposals use bit 6 differently: know your guests.)
 */
#define PAGEHINT_DEVICE_INIT_REPORTED 8u
#define PAGEHINT_BALLOON_F_DEVICE_INIT_REPORTED (UINT64_C(1) << 6)

/* what is offered when nothing is said */
#define PAGEHINT_DEVICE_FEATURES_DEFAULT                                                          \
	(PAGEHINT_BALLOON_F_ALL | PAGEHINT_VIRTIO_F_VERSION_1 | PAGEHINT_VIRTIO_F_INDIRECT_DESC | \
	 PAGEHINT_VIRTIO_F_EVENT_IDX)

/**
 * struct pagehint_device_hooks - the embedder's callbacks; every member is optional
 * hinted: memory that the guest hinted as free in the current run [runs of 4 KiB pages]: may be skipped by a migration. Never
 *         discarded, and no discard is safe: the guest may use it again at any time.
 * log:    at most 10 lines a second; PAGEHINT_LOG_* of backend.h
 */
struct pagehint_device_hooks {
	size_t struct_size;
	void *ctx;
	void (*hinted)(void *ctx, uint32_t id, const struct pagehint_run *runs, uint32_t n);
	void (*log)(void *ctx, uint32_t level, const char *text);
};

/** struct pagehint_device_knobs - what may be changed at run time */
struct pagehint_device_knobs {
	uint64_t struct_size;
	uint64_t rate;              /* bytes a second given back at the most; 0 = no limit */
	uint64_t min_report_bytes;  /* reported ranges below it are acknowledged and kept; 0 = none; at most 1 GiB */
	uint64_t holdback_ns;       /* least time between two reports acted upon; 0 = none; at most an hour */
	uint64_t stats_interval_ns; /* ask for statistics so often; 0 = only when asked; at least 1 ms */
};

/** struct pagehint_device_opts - NULL = defaults */
struct pagehint_device_opts {
	uint64_t struct_size;
	uint64_t features;                         /* offered; 0 = PAGEHINT_DEVICE_FEATURES_DEFAULT */
	const struct pagehint_device_hooks *hooks; /* copied; NULL = none */
	const struct pagehint_device_knobs *knobs; /* copied; NULL = all 0 */
	uint64_t stale_ns;                         /* statistics older than this are unknown; 0 = 30 s */
	uint64_t stall_ns;   /* no progress towards the target for so long is a failure; 0 = 10 s */
	uint32_t numbering;  /* PAGEHINT_BALLOON_NUMBERING_* */
	uint32_t flags;      /* PAGEHINT_DEVICE_* */
	uint32_t queue_size; /* largest ring taken [entries]; 0 = 1024; 2 .. 32768 */
	uint32_t budget;     /* descriptors, PFNs and ranges walked in one call; 0 = 65536; at least 64 */
	uint32_t
		partial_blocks; /* room for blocks of 2 MiB in which some of a larger host page is inflated; 0 = 4096; at most 2^20 */
	uint32_t reserved; /* must be 0 */
};

/* bits of pagehint_device_work.events */
#define PAGEHINT_DEVICE_EVENT_CONFIG 1u      /* interrupt the guest: configuration changed */
#define PAGEHINT_DEVICE_EVENT_NEEDS_RESET 2u /* the guest broke the device; all queues stand still until a reset */
#define PAGEHINT_DEVICE_EVENT_RESET_DONE 4u  /* a reset that had to wait is complete */
#define PAGEHINT_DEVICE_EVENT_STATS 8u       /* a new sample of statistics arrived */
#define PAGEHINT_DEVICE_EVENT_HINT 16u       /* the hint run began or ended */

/** struct pagehint_device_work - what is to be done after a call; every event is told once */
struct pagehint_device_work {
	uint64_t struct_size;
	uint64_t deadline_ns; /* call pagehint_device_step at this time at the latest; UINT64_MAX = only after a kick */
	uint32_t interrupt;   /* bit i: interrupt the guest for queue i */
	uint32_t
		more; /* bit i: the budget ended before queue i did; step or kick again without waiting for the guest */
	uint32_t events; /* PAGEHINT_DEVICE_EVENT_* */
	uint32_t reserved;
};

/* flags of pagehint_device_queue */
/* split: start at the index in the used ring, not at base: a predecessor died, and what it did not finish is done again */
#define PAGEHINT_DEVICE_QUEUE_FROM_USED 1u
#define PAGEHINT_DEVICE_QUEUE_RESUME 2u /* start where the loaded state or the last pagehint_device_queue_stop stood */

/** struct pagehint_device_queue - a ring as the transport found it; all addresses are of this process */
struct pagehint_device_queue {
	uint64_t struct_size;
	void *desc;   /* descriptor table, or packed descriptor ring */
	void *driver; /* available ring, or driver event suppression */
	void *device; /* used ring, or device event suppression */
	uint32_t size;
	uint32_t
		base; /* split: next available index; packed: avail | used << 16, each offset | wrap << 15 (vhost-user's form) */
	uint32_t flags; /* PAGEHINT_DEVICE_QUEUE_* */
	uint32_t reserved;
};

/**
 * pagehint_device_new - a device in its reset state, target 0
 * @map:        what memory the guest has; borrowed. Regions may come and go at any time
 * @backend:    takes the discards, synchronous or not; borrowed, used by nobody else; frame_shift as the map's
 * @gate:       closed = requests are acknowledged and nothing is discarded; borrowed; NULL = only the backend's own
 * @opts:       NULL for defaults
 * @ret_device: the handle
 * Return: 0; -EINVAL a NULL, a value out of its bounds, unknown feature bits or flags, frame_shifts that differ; -E2BIG unknown
 * non-zero tail; -ENOMEM.
 * Thread: init-only.   Cost: one allocation of a few MiB at the most with default sizes.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_device_new(struct pagehint_map *map, struct pagehint_backend *backend,
							 struct pagehint_gate *gate,
							 const struct pagehint_device_opts *opts,
							 struct pagehint_device **ret_device);

/**
 * pagehint_device_free - unplugs it; NULL is allowed
 * Return: 0; -EBUSY a discard is in flight: pagehint_device_reset first; -EDEADLK from a callback (nothing is changed).
 * Thread: init-only.   Cost: one free.   Since: 0.1
 */
PAGEHINT_API int pagehint_device_free(struct pagehint_device *device);

/** pagehint_device_tune - changes the knobs. Return: 0; -EINVAL a value out of its bounds; -E2BIG; -EDEADLK; -ENODEV.
 *  Thread: one-per-handle.  Cost: O(1).  Since: 0.1 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_device_tune(struct pagehint_device *device,
							  const struct pagehint_device_knobs *knobs);

/* ---- life: features, status, reset ---- */

/** pagehint_device_features - the bits offered. Thread: any.  Cost: O(1).  Since: 0.1 */
PAGEHINT_API uint64_t pagehint_device_features(const struct pagehint_device *device);

/** pagehint_device_negotiated - the bits last accepted; 0 after a reset. Thread: one-per-handle.  Cost: O(1).  Since: 0.1 */
PAGEHINT_API uint64_t pagehint_device_negotiated(const struct pagehint_device *device);

/**
 * pagehint_device_set_features - what the driver accepted; may be said again as long as no queue runs
 * Return: 0; -EINVAL a bit that was not offered, or ACCESS_PLATFORM offered and not accepted; -EBUSY a queue runs (the same bits
 * again are fine), or a reset waits; -EDEADLK; -ENODEV.
 * Thread: one-per-handle.   Cost: O(1).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_device_set_features(struct pagehint_device *device, uint64_t features);

/* device status (virtio 1.3, section 2.1) */
#define PAGEHINT_VIRTIO_STATUS_ACKNOWLEDGE 1u
#define PAGEHINT_VIRTIO_STATUS_DRIVER 2u
#define PAGEHINT_VIRTIO_STATUS_DRIVER_OK 4u
#define PAGEHINT_VIRTIO_STATUS_FEATURES_OK 8u
#define PAGEHINT_VIRTIO_STATUS_NEEDS_RESET 64u
#define PAGEHINT_VIRTIO_STATUS_FAILED 128u

/**
 * pagehint_device_set_status - the driver's write to the status register; 0 = pagehint_device_reset
 *
 * A transport without status never calls it: queues then work as soon as they are started. Once a status other than 0 was
 * written they work only with DRIVER_OK. FEATURES_OK does not stick while the last pagehint_device_set_features failed or none
 * was made; read it back.
 * Return: 0; -EINVAL bits above 255; -EAGAIN as pagehint_device_reset; -EDEADLK; -ENODEV.
 * Thread: one-per-handle.   Cost: O(1).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_device_set_status(struct pagehint_device *device, uint32_t status);

/** pagehint_device_status - what the driver reads; not 0 while a reset waits. Thread: one-per-handle.  Cost: O(1).  Since: 0.1 */
PAGEHINT_API uint32_t pagehint_device_status(const struct pagehint_device *device);

/**
 * pagehint_device_reset - stops every queue and forgets features, poison, statistics, hint run, partial pages and `actual`
 *
 * The target, the knobs and the counters stay. No ring is touched from now on. Discards in flight must end before the guest may
 * use its memory: until then -EAGAIN, and steps complete the reset (PAGEHINT_DEVICE_EVENT_RESET_DONE).
 * Return: 0 complete; -EAGAIN begun, discards are in flight; -EDEADLK; -ENODEV.
 * Thread: one-per-handle.   Cost: O(partial_blocks).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_device_reset(struct pagehint_device *device);

/* ---- queues ---- */

/**
 * pagehint_device_queues - how many queue indices there are: one above the highest that can be in use
 * Before features are set: for everything that is offered. Thread: one-per-handle.  Cost: O(1).  Since: 0.1
 */
PAGEHINT_API uint32_t pagehint_device_queues(const struct pagehint_device *device);

/**
 * pagehint_device_queue_role - what queue `index` is for: PAGEHINT_BALLOON_Q_*
 * Return: the role, 0 or more; -ENOENT the numbering has a gap there, or the feature was not negotiated (before features are set:
 * not offered). Exactly the queues with a role have a handler.
 * Thread: one-per-handle.   Cost: O(1).   Since: 0.1
 */
PAGEHINT_API int pagehint_device_queue_role(const struct pagehint_device *device, uint32_t index);

/**
 * pagehint_device_queue_start - puts a ring in place; it is looked at by the next kick or step
 * @device: features must be set
 * @index:  on the wire
 * @queue:  copied; the memory must stay mapped until the queue is stopped or the device reset
 * Return: 0; -ENOENT no role (or features not set); -EALREADY it runs; -EINVAL a size, an address, a base or flags that cannot be;
 * -EBUSY broken or resetting; -ENOENT RESUME and nothing to resume; -E2BIG; -EDEADLK; -ENODEV.
 * Thread: one-per-handle.   Cost: O(size).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_device_queue_start(struct pagehint_device *device, uint32_t index,
								 const struct pagehint_device_queue *queue);

/**
 * pagehint_device_queue_stop - takes a ring out of use; what was popped and is not acknowledged will be popped again
 * @ret_base: where to start again, in the form of pagehint_device_queue.base; or NULL
 * Return: 0; -EAGAIN discards of this queue are in flight (nothing new is taken; step, then call again); -ENOENT it does not
 * run; -EDEADLK; -ENODEV.
 * Thread: one-per-handle.   Cost: O(1).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_device_queue_stop(struct pagehint_device *device, uint32_t index,
								uint32_t *ret_base);

/**
 * pagehint_device_queue_kick - the guest made buffers available on a queue (a spurious call does no harm)
 * @now_ns: monotonic time; going backwards is treated as standing still
 * @work:   struct_size set by the caller; the rest is written
 * Return: 0; -ENOENT the queue does not run (counted: not ready); -EINVAL struct_size below 8; -EDEADLK; -ENODEV.
 * Thread: one-per-handle.   Cost: bounded by the budget, one batch of discards a request.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_device_queue_kick(struct pagehint_device *device, uint32_t index,
								uint64_t now_ns, struct pagehint_device_work *work);

/**
 * pagehint_device_step - everything that is due: finished discards, requests that waited for rate or budget, polls
 * Also collects what other calls left to be told to the guest (a new target, a hint run, a request for statistics).
 * Parameters, Return (but -ENOENT), Thread, Since: as pagehint_device_queue_kick. Cost: bounded by the budget.
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_device_step(struct pagehint_device *device, uint64_t now_ns,
							  struct pagehint_device_work *work);

/* ---- config space ---- */

/**
 * pagehint_device_config_read - bytes of the config space, little-endian as the guest sees them
 * Return: 0; -EINVAL beyond PAGEHINT_BALLOON_CONFIG_BYTES, or data NULL.
 * Thread: one-per-handle.   Cost: O(length).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_device_config_read(const struct pagehint_device *device, uint32_t offset,
								 void *data, uint32_t length);

/**
 * pagehint_device_config_write - the guest's write; only `actual`, and poison_val if negotiated, take it, the rest is counted
 * `actual` saturates at the guest's memory. Any offset and length inside the space, also of single bytes.
 * Return: 0; -EINVAL beyond the space, or data NULL; -EDEADLK; -ENODEV.
 * Thread: one-per-handle.   Cost: O(regions).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_device_config_write(struct pagehint_device *device, uint64_t now_ns,
								  uint32_t offset, const void *data, uint32_t length);

PAGEHINT_END
#endif
