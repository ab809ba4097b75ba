/*
 * vhost.h: the balloon device (device.h) behind a vhost-user socket.
 *
 * The problem: a VMM that has no balloon, or a poor one, can hand the device to another process, which must then take any message,
 * with any file descriptors, cut anywhere, without harm to the guest's memory. Why this shape: one handle owns everything
 * that came from the frontend: the memory table (a map of its own), a backend over it, the rings' descriptors, and the device
 * itself; one descriptor to poll and one bounded step drive it from any event loop.
 * Not here: listening, reconnecting, privileges (pagehint-balloon(1) has them); packed rings, which are not offered.
 * Owns: the socket from pagehint_vhost_attach on, every descriptor that it brings, map, backend and device. Borrows: the gate.
 * Invariants: nothing is discarded outside the memory table that holds now; a table that is refused leaves no memory at all;
 * a message is answered after its effect is there; queues start at the index in their used ring, so what a process that
 * died left undone is done again; nothing ever waits.
 * Source: QEMU, docs/interop/vhost-user; OASIS virtio 1.3, section 5.5
 */
#ifndef PAGEHINT_VHOST_H
#define PAGEHINT_VHOST_H

#include <stddef.h>
#include <stdint.h>

#include <pagehint/api.h>
#include <pagehint/device.h>
#include <pagehint/sink.h>

PAGEHINT_BEGIN

struct pagehint_vhost;
struct pagehint_gate;

/** struct pagehint_vhost_opts - NULL = defaults */
struct pagehint_vhost_opts {
	uint64_t struct_size;
	/* Copied. NULL = defaults, but queues numbered as NEGOTIATED; a numbering of 0 in options that are given means SPEC. */
	const struct pagehint_device_opts *device;
	struct pagehint_gate *gate; /* borrowed; NULL = never inhibited */
	/* Makes the backend that discards in `map`; it is freed by the handle. NULL = pagehint_madvise_new. */
	int (*backend)(void *ctx, struct pagehint_map *map, struct pagehint_gate *gate,
		       struct pagehint_backend **ret_backend);
	void *backend_ctx;
	/*
	 * A state that pagehint_device_save wrote; copied. It is loaded when the memory table is there, before the first queue
	 * starts. One that this device does not take is dropped, and explained. NULL = start fresh.
	 */
	const void *state;
	uint64_t state_bytes;
	uint32_t messages; /* taken in one step at the most; 0 = 16; 1 .. 1024 */
	uint32_t flags;    /* must be 0 */
};

/* beside PAGEHINT_DEVICE_EVENT_*, in what a step says */
#define PAGEHINT_VHOST_EVENT_MEMORY 0x10000u /* the memory table changed: targets were clamped to the one before */
#define PAGEHINT_VHOST_EVENT_RESET 0x20000u  /* the driver began anew */

/** struct pagehint_vhost_stats - since creation, unless said */
struct pagehint_vhost_stats {
	uint64_t struct_size;
	uint64_t connected;   /* 1 while a frontend is attached */
	uint64_t connections; /* frontends attached */
	uint64_t messages;    /* taken */
	uint64_t refused; /* of them, those that were wrong: nothing was done, a failure answered where one is wanted */
	uint64_t unknown; /* of them, requests that are not known */
	uint64_t broken;  /* connections ended because their bytes made no message */
	uint64_t kicks;   /* notifications by the guest */
	uint64_t interrupts;        /* notifications to the guest */
	uint64_t interrupts_lost;   /* that the frontend's descriptor did not take: it is full, so one is on its way */
	uint64_t config_changes;    /* told to the frontend */
	uint64_t regions;           /* in the memory table now */
	uint64_t memory;            /* in it [bytes] */
	uint64_t queues_running;    /* now */
	uint64_t states_refused;    /* saved states that the device did not take */
	uint64_t protocol_features; /* negotiated now */
};

/**
 * pagehint_vhost_new - a device without a frontend
 * @opts:      NULL for defaults
 * @ret_vhost: the handle
 * Return: 0; -EINVAL a value out of its bounds, or device options that pagehint_device_new refuses, or a packed ring among their
 * features; -E2BIG unknown non-zero tail; -ENOMEM; else what epoll_create1 or opts.backend gave.
 * Thread: init-only.   Cost: allocations of a few MiB, two syscalls and those of the backend.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_vhost_new(const struct pagehint_vhost_opts *opts,
							struct pagehint_vhost **ret_vhost);

/**
 * pagehint_vhost_free - ends the connection, unmaps the guest's memory, frees everything; NULL is allowed
 * Return: 0; -EBUSY discards are in flight: the connection is ended, step until -ENODEV, then call again.
 * Thread: init-only.   Cost: syscalls per region and queue.   Since: 0.1
 */
PAGEHINT_API int pagehint_vhost_free(struct pagehint_vhost *vhost);

/**
 * pagehint_vhost_attach - takes a frontend's connection
 * @vhost:  without a frontend
 * @socket: a connected stream socket of the Unix domain; owned by the handle from now on, left alone on failure
 *
 * The device is as the last connection left it (target, configuration, what was negotiated), which is what a frontend that
 * reconnects counts on; pagehint_device_reset makes it new.
 * Return: 0; -EBUSY a frontend is attached; -EINVAL not a socket; else what fstat or epoll_ctl gave.
 * Thread: one-per-handle.   Cost: three syscalls.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_vhost_attach(struct pagehint_vhost *vhost, int socket);

/** pagehint_vhost_fd - readable when a step has something to do; valid while the handle lives. Thread: any. Cost: O(1). Since: 0.1 */
PAGEHINT_API int pagehint_vhost_fd(const struct pagehint_vhost *vhost);

/**
 * pagehint_vhost_step - takes what is there: messages, kicks, and what is due in the device
 * @vhost:        the handle
 * @now_ns:       monotonic time [ns]
 * @ret_deadline: call again at this time at the latest, or when the descriptor is readable; UINT64_MAX = only then [ns]
 * @ret_events:   PAGEHINT_DEVICE_EVENT_* that came up, for information; or NULL
 * Return: 0; -ENODEV the frontend is gone, or sent what is no message: everything it brought is closed, and another may be
 * attached (the device can be stepped without one); -EINVAL a NULL; -EDEADLK from a callback; else what epoll_ctl gave: the
 * next step tries again.
 * Thread: one-per-handle.   Cost: bounded by opts.messages and the budget of the device.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_vhost_step(struct pagehint_vhost *vhost, uint64_t now_ns,
							 uint64_t *ret_deadline, uint32_t *ret_events);

/**
 * pagehint_vhost_device - the device: target, statistics, hints, saved state (device_control.h); step the handle afterwards
 * Its transport (features, status, queues, steps) belongs to the handle. Thread: any.  Cost: O(1).  Since: 0.1
 */
PAGEHINT_API struct pagehint_device *pagehint_vhost_device(struct pagehint_vhost *vhost);

/** pagehint_vhost_backend - the backend below, for its counters and explanations. Thread: any.  Cost: O(1).  Since: 0.1 */
PAGEHINT_API struct pagehint_backend *pagehint_vhost_backend(struct pagehint_vhost *vhost);

/** pagehint_vhost_map - the frontend's memory table as a map; regions come and go. Thread: any.  Cost: O(1).  Since: 0.1 */
PAGEHINT_API struct pagehint_map *pagehint_vhost_map(struct pagehint_vhost *vhost);

/**
 * pagehint_vhost_stats - reads the counters
 * @vhost: the handle
 * @stats: struct_size set by the caller; the rest is written
 * Return: 0; -EINVAL struct_size below 8.
 * Thread: one-per-handle.   Cost: O(regions).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_vhost_stats(const struct pagehint_vhost *vhost,
							  struct pagehint_vhost_stats *stats);

/**
 * pagehint_vhost_explain - says, line by line, what stands between a guest's free memory and the host
 * @vhost: the handle
 * @sink:  receives the lines: the connection's first, then the queues', the device's and the backend's
 * Thread: one-per-handle.   Cost: O(regions + queues).   Since: 0.1
 */
PAGEHINT_API void pagehint_vhost_explain(struct pagehint_vhost *vhost, const struct pagehint_sink *sink);

PAGEHINT_END
#endif
