/*
 * ring_device_form: what the device end's face asks of its two forms, and how both gather a chain.
 *
 * The problem: split and packed differ in where things stand, hardly in what must be checked. Why this shape: each form walks
 * its own descriptors and hands every one, copied, to ph_gather_add, where the checks stand once.
 * Not here: tickets and slots' meaning (ring_device.h). Called from: ring_device.c and the two forms.
 */
#ifndef PH_VIRTIO_RING_DEVICE_FORM_H
#define PH_VIRTIO_RING_DEVICE_FORM_H

#include "virtio/ring_device.h"

/* a chain that is being read */
struct ph_gather {
	uint64_t readable_bytes;
	uint64_t writable_bytes;
	uint32_t n;          /* segments */
	uint32_t n_readable; /* of these */
	uint32_t n_descs;    /* ring entries */
	uint32_t head;
};

/* a descriptor, copied */
struct ph_copied {
	uint64_t addr;
	uint32_t len;
	uint16_t flags;
	uint16_t next; /* packed: id */
};

/* Marks the ring broken. Returns -EPROTO. */
int ph_ring_device_break(struct ph_ring_device *ring, uint32_t why);

/* One buffer more. Return: 0 or -EPROTO. */
int ph_gather_add(struct ph_ring_device *ring, struct ph_gather *gather, const struct ph_copied *desc);

/*
 * The indirect table that `desc` names: its descriptors in this process, and how many.
 * Return: 0; -EPROTO not negotiated, with a next, of a bad length, not in guest memory.
 */
int ph_gather_table(struct ph_ring_device *ring, const struct ph_copied *desc, const unsigned char **ret_table,
		    uint32_t *ret_descs);

/* Copies a descriptor of an indirect table, which may lie at any address. */
void ph_gather_copy(const unsigned char *table, uint32_t i, struct ph_copied *ret_copied);

/* The next chain. Return: 0; -ENOENT; -EPROTO. Nothing of the ring changes but `why` and the segments. */
int ph_split_next(struct ph_ring_device *ring, struct ph_gather *gather);
int ph_packed_next(struct ph_ring_device *ring, struct ph_gather *gather);

/* The chain that starts at a head. Return: 0; -EPROTO. */
int ph_split_walk(struct ph_ring_device *ring, uint32_t head, struct ph_gather *gather);

/* One used entry at ring->used, which they move. */
void ph_split_use(struct ph_ring_device *ring, const struct ph_ring_slot *slot, uint32_t written);
void ph_packed_use(struct ph_ring_device *ring, const struct ph_ring_slot *slot, uint32_t written);

/* Shows what is staged. Return: 1 the driver wants an interrupt, 0. */
int ph_split_show(struct ph_ring_device *ring);
int ph_packed_show(struct ph_ring_device *ring);

/* Return: 1 something is available, 0; -EPROTO. */
int ph_split_arm(struct ph_ring_device *ring);
int ph_packed_arm(struct ph_ring_device *ring);

void ph_split_disarm(struct ph_ring_device *ring);
void ph_packed_disarm(struct ph_ring_device *ring);

#endif
