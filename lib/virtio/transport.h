/*
 * transport: the inside of a handle of pagehint/virtio.h: the ops that a driver calls, and what the two built-in transports
 * remember.
 *
 * Why this shape: built-in transports fill the same ops table that an embedder may fill, with the handle as their ctx; so
 * the driver knows one way to a device. Owns: nothing but the handle. Called from: the driver engine.
 * Invariants: everything here is the guest's own and constant after init; what is read from the device is checked where it
 * is read. Freestanding.
 */
#ifndef PH_VIRTIO_TRANSPORT_H
#define PH_VIRTIO_TRANSPORT_H

#include <pagehint/virtio.h>

/* a structure of registers in a BAR */
struct ph_virtio_window {
	uint64_t offset;
	uint32_t length;
	uint32_t bar;
};

#define PH_VIRTIO_QUEUES 5u /* a balloon has no more */

struct pagehint_virtio {
	struct pagehint_virtio_ops ops;
	void *ctx;                            /* of ops */
	struct pagehint_virtio_access access; /* from here on: the built-in transports' */
	void *access_ctx;
	struct ph_virtio_window common, notify, isr, device; /* pci */
	uint64_t base;                                       /* mmio */
	uint32_t notify_multiplier;
	uint32_t vector;
	uint32_t notify_at[PH_VIRTIO_QUEUES]; /* offset in `notify` of a queue that was set up */
	uint32_t reserved;
};

/* Checks mem and copies the access table; the ops are still to be set. 0, -EINVAL, -E2BIG. */
int ph_virtio_begin(void *mem, uint64_t bytes, const struct pagehint_virtio_access *access, void *ctx,
		    struct pagehint_virtio **ret_virtio);

#endif
