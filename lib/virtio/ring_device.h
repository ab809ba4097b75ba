/*
 * ring_device: the device end of a virtqueue, split and packed behind one face.
 *
 * The problem: everything in the ring is written by a guest that may be hostile, or alive while we read. Why this shape: a
 * descriptor is copied once and only the copy is looked at; a chain is checked whole before its head is given out; a popped
 * head has a ticket, and is completed once with it. The first lie breaks the ring: the call that finds it returns -EPROTO,
 * every later one -ENODEV, until the ring is set up anew; ph_ring_device.why says what it was.
 * Not here: what a buffer means; whether a buffer's address is in guest memory (ph_chain_read and ph_chain_write look; a
 * report's pages are never touched, so their addresses are for the engine to judge).
 * Owns: nothing; the caller gives memory for the table of heads in flight and the segments of the latest chain.
 * Called from: one thread at a time a ring.
 *
 *	serve:  ph_ring_device_disarm; pop .. complete .., until pop says -ENOENT or -EAGAIN; flush, and interrupt if it says 1;
 *	        on -ENOENT: ph_ring_device_arm, and once more from the start if it says 1; on -EAGAIN: come back without a kick.
 *
 * Invariants: out = popped - completed - unpopped <= size; nothing that was completed is visible before flush.
 */
#ifndef PH_VIRTIO_RING_DEVICE_H
#define PH_VIRTIO_RING_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "virtio/guest_memory.h"
#include "virtio/ring.h"

/* a buffer of a chain: guest addresses, not looked up; length 0 is possible, wrapping is not */
struct ph_segment {
	uint64_t addr;
	uint32_t len;
	uint32_t writable; /* by the device; 0 or 1 */
};

/* what pop gives out */
struct ph_chain {
	const struct ph_segment
		*segments; /* n_readable, then n_writable of them; valid until the next pop, unless copied */
	uint64_t readable_bytes;
	uint64_t writable_bytes;
	uint64_t ticket;     /* names it until it is completed; never given out again by this ring */
	uint32_t n_readable; /* 0 segments in all is impossible */
	uint32_t n_writable;
	uint16_t head;    /* split: index of the first descriptor; packed: buffer id */
	uint16_t n_descs; /* ring entries that it takes */
	uint32_t reserved;
};

/* where both ends stand; what a saved state and vhost-user's vring base are made of */
struct ph_ring_position {
	uint16_t avail; /* next to pop. Split: a free-running index; packed: offset, and the wrap counter in bit 15 */
	uint16_t used;  /* next to use, the same way */
};

/* a head in flight, for saved states and inflight tracking */
struct ph_ring_held {
	uint64_t ticket;
	uint16_t head;
	uint16_t n_descs;
	uint32_t reserved;
};

struct ph_ring_setup {
	struct ph_ring_place place;
	struct ph_guest_memory memory; /* for indirect tables and ph_chain_*; copied */
	uint32_t form;                 /* PH_RING_*, but not IN_ORDER: completions here come in any order */
	uint32_t size;                 /* entries */
};

struct ph_ring_slot {
	uint64_t ticket; /* 0 = free */
	uint16_t head;
	uint16_t n_descs;
	uint16_t next_free; /* packed */
	uint16_t reserved;
};

/* read-only for others */
struct ph_ring_device {
	struct ph_ring_place place;
	struct ph_guest_memory memory;
	struct ph_segment *segments; /* size of them */
	struct ph_ring_slot *slots;  /* size of them; split: indexed by head */
	uint64_t serial;             /* of tickets */
	uint64_t last_ticket;        /* of the latest pop; 0 = none */
	uint32_t form;
	uint32_t size;
	uint32_t out;         /* heads in flight */
	uint32_t out_descs;   /* ring entries that they take */
	uint32_t staged;      /* ring entries completed, not flushed */
	uint32_t why;         /* PH_RING_OK, or why it is broken */
	uint16_t avail;       /* positions as in ph_ring_position */
	uint16_t used;        /* counts what is staged */
	uint16_t shown;       /* used as of the latest flush */
	uint16_t first_free;  /* packed: a slot, while out < size */
	uint16_t first_flags; /* packed: of the first staged entry, written last */
	uint16_t reserved;
};

/* bytes of caller's memory that a ring of `size` entries takes, 8-byte aligned; 0 = size is out of bounds */
size_t ph_ring_device_memory(uint32_t size);

/*
 * A ring at its start, kicks wanted; nothing of the guest's is touched.
 * memory: ph_ring_device_memory(setup->size) bytes, of any content.
 * Return: 0; -EINVAL, -ERANGE as ph_ring_check; -EINVAL PH_RING_IN_ORDER, or no translate callback.
 */
int ph_ring_device_init(struct ph_ring_device *ring, const struct ph_ring_setup *setup, void *memory);

/* The same ring somewhere else in this process (the memory table changed). Return: as ph_ring_check. */
int ph_ring_device_move(struct ph_ring_device *ring, const struct ph_ring_place *place);

/*
 * Takes the next chain.
 * budget: buffers that may still be read in this kick; each pop takes away as many as its chain has, down to 0. A chain is not
 * cut short, so the last one may have up to size - 1 more than was left.
 * Return: 0; -ENOENT nothing is available; -EAGAIN the budget is 0 (there may be more); -EPROTO found broken; -ENODEV was
 * broken before. `ret_chain` is untouched on failure.
 */
int ph_ring_device_pop(struct ph_ring_device *ring, uint32_t *budget, struct ph_chain *ret_chain);

/*
 * Takes back the latest pop, as if it had not been; nothing may have been popped since. Not for a head from reread or adopt.
 * Return: 0; -EALREADY it is not the latest, or is completed; -ENODEV broken.
 */
int ph_ring_device_unpop(struct ph_ring_device *ring, uint64_t ticket);

/*
 * Puts a head into the used ring, for the next flush to show. written: bytes written into its device-writable part.
 * Return: 0; -EALREADY no such ticket is in flight; -ENODEV broken.
 */
int ph_ring_device_complete(struct ph_ring_device *ring, uint64_t ticket, uint32_t written);

/* Shows the driver what was completed. Return: 1 it wants an interrupt; 0 it does not, or nothing was new; -ENODEV broken. */
int ph_ring_device_flush(struct ph_ring_device *ring);

/* Asks for a kick at the next buffer. Return: 1 there is one already, so serve first; 0; -ENODEV broken, -EPROTO. */
int ph_ring_device_arm(struct ph_ring_device *ring);
/* No kicks are wanted; a hint only, they may come all the same. */
void ph_ring_device_disarm(struct ph_ring_device *ring);

/* ---- position, saved state, inflight ---- */

/* Where the ring stands. What is staged does not count as used. */
void ph_ring_device_position(const struct ph_ring_device *ring, struct ph_ring_position *ret_position);

/*
 * Continues where another stood; only while no head is out and nothing is staged (a fresh ring). adopt then brings back the
 * heads that were in flight. vhost-user's SET_VRING_BASE is avail; used is then ph_ring_device_used_seen (split), or, packed,
 * what the message says in its upper half.
 * Return: 0; -EBUSY; -EINVAL (packed) an offset outside the ring, or (split) used ahead of avail or more than size behind.
 */
int ph_ring_device_restore(struct ph_ring_device *ring, const struct ph_ring_position *position);

/* The used index that stands in the ring, which is what the driver saw last; split (packed: the position of our own). */
uint16_t ph_ring_device_used_seen(const struct ph_ring_device *ring);

/* The i-th head in flight, i < out, in no order. Return: 0; -ENOENT no such. Cost: O(size). */
int ph_ring_device_held(const struct ph_ring_device *ring, uint32_t i, struct ph_ring_held *ret_held);

/*
 * Takes a head that was in flight when the state was saved: it is in flight again, under the new ticket. Its buffers are not
 * read again: who saves a state keeps what it needs of them. held->ticket is ignored.
 * Return: 0; -EINVAL outside the ring, no descriptors; -EALREADY (split) this head is in flight; -ENOSPC all are; -ENODEV.
 */
int ph_ring_device_adopt(struct ph_ring_device *ring, const struct ph_ring_held *held, uint64_t *ret_ticket);

/*
 * The same with its buffers, read anew from the descriptor table: what vhost-user's inflight area is for. Split only.
 * Return: as ph_ring_device_adopt and ph_ring_device_pop; -EOPNOTSUPP packed.
 */
int ph_ring_device_reread(struct ph_ring_device *ring, uint16_t head, struct ph_chain *ret_chain);

/* ---- bytes of a chain ---- */

/*
 * Copies bytes of the device-readable part, from `offset` on, out of guest memory.
 * Return: 0, ret_bytes = how many (less than `bytes` at the end of the chain); -ERANGE a buffer is not in guest memory
 * (ret_bytes = what was copied before it).
 */
int ph_chain_read(const struct ph_ring_device *ring, const struct ph_chain *chain, uint64_t offset, void *to,
		  size_t bytes, size_t *ret_bytes);
/* The other way, into the device-writable part. */
int ph_chain_write(const struct ph_ring_device *ring, const struct ph_chain *chain, uint64_t offset, const void *from,
		   size_t bytes, size_t *ret_bytes);

#endif
