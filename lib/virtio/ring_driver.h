/*
 * ring_driver: the driver end of a virtqueue, split and packed behind one face.
 *
 * The problem: the device may be wrong, hostile, or dead, and every buffer handed to it must come back exactly once. Why this
 * shape: what is in flight stands in a table of our own; the ring is only written, and of it nothing is believed but used
 * entries, each checked against that table. The first lie breaks the ring: the call that finds it returns -EPROTO, every later
 * one -ENODEV; then ph_ring_driver_take_back gives back what is still in flight.
 * Not here: who rings the doorbell, how the areas get to the device (a transport).
 * Owns: nothing; areas, indirect tables and the table's memory are the caller's.
 * Called from: one thread at a time a ring.
 *
 *	submit .. submit; publish, and notify the device if it says 1; later reap .. until -EAGAIN; arm, and reap again if 1.
 *
 * Invariants: freestanding; in flight = submitted - reaped - taken back; a cookie is given back once.
 */
#ifndef PH_VIRTIO_RING_DRIVER_H
#define PH_VIRTIO_RING_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include "virtio/ring.h"

/* a buffer as the device will see it */
struct ph_ring_buffer {
	uint64_t addr; /* guest-physical, or what the platform makes of it */
	uint32_t len;  /* not 0 */
	uint32_t reserved;
};

struct ph_ring_driver_setup {
	struct ph_ring_place place; /* zeroed by init */
	void *tables;               /* PH_RING_INDIRECT: n_tables * table_descs * 16 bytes, 16-byte aligned; or NULL */
	uint64_t tables_addr;       /* where the device finds them */
	uint32_t n_tables;          /* indirect requests in flight; when none is free a request goes directly */
	uint32_t table_descs;       /* buffers of the largest indirect request, at most size */
	uint32_t form;              /* PH_RING_* */
	uint32_t size;              /* entries */
};

/* a request in flight, or a free place for one */
struct ph_ring_request {
	uint64_t cookie;
	uint64_t writable_bytes;
	uint16_t n_descs; /* ring entries; 0 = free */
	uint16_t number;  /* of its submission */
	uint16_t last;    /* split: its last descriptor */
	uint16_t table;   /* 1 + its indirect table, 0 = direct */
	uint16_t younger; /* the one submitted after it, if there is one */
	uint16_t reserved[3];
};

/* read-only for others */
struct ph_ring_driver {
	struct ph_ring_place place;
	struct ph_ring_request *requests; /* size of them. Split: by head; packed: by buffer id */
	uint16_t *links; /* size of them. Split: the next descriptor, of a request or free; packed: the next free id */
	uint16_t *free_tables; /* n_tables of them, a stack */
	unsigned char *tables;
	uint64_t tables_addr;
	uint32_t n_tables;
	uint32_t tables_free;
	uint32_t table_descs;
	uint32_t form;
	uint32_t size;
	uint32_t free_descs;
	uint32_t in_flight; /* requests submitted and not given back */
	uint32_t published; /* of these, shown to the device */
	uint32_t staged;    /* ring entries not shown yet */
	uint32_t why;       /* PH_RING_OK, or why it is broken */
	uint32_t stopped;   /* 1 after ph_ring_driver_stop */
	uint32_t cursor;    /* of take_back */
	uint32_t batch_len; /* in order: what was written into the last of a batch */
	uint16_t batch_id;  /* in order: the last of a batch that the device used at once */
	uint16_t in_batch;  /* in order: 1 while requests of the batch are to be given out */
	uint16_t avail;     /* positions; packed: wrap counter in bit 15 */
	uint16_t used;
	uint16_t shown;        /* avail as of the latest publish */
	uint16_t submitted;    /* number of the next request */
	uint16_t shown_number; /* of the first that is not published */
	uint16_t free_head;    /* of links. Split: first in first out; packed: last in first out */
	uint16_t free_tail;    /* split */
	uint16_t first_flags;  /* packed: of the first staged entry, written last */
	uint16_t oldest;       /* in flight */
	uint16_t newest;
};

/* bytes of caller's memory for a ring, 8-byte aligned; 0 = out of bounds */
size_t ph_ring_driver_memory(uint32_t size, uint32_t n_tables);

/*
 * An empty ring; its areas are zeroed and ready for the device. Interrupts are wanted.
 * Return: 0; -EINVAL, -ERANGE as ph_ring_check; -EINVAL tables without PH_RING_INDIRECT, misaligned, or larger than allowed.
 */
int ph_ring_driver_init(struct ph_ring_driver *ring, const struct ph_ring_driver_setup *setup, void *memory);

/*
 * Puts a request into the ring, for the next publish to show. buffers: n_readable that the device reads, then n_writable
 * that it writes. A request of two or more goes through an indirect table while one is free and it fits.
 * Return: 0; -EAGAIN no room until something is reaped; -EINVAL no buffer, an empty or wrapping one, more than the ring or
 * a table can ever take, more than 2^32 bytes in all; -ENODEV broken or stopped.
 */
int ph_ring_driver_submit(struct ph_ring_driver *ring, const struct ph_ring_buffer *buffers, uint32_t n_readable,
			  uint32_t n_writable, uint64_t cookie);

/* Shows the device what was submitted. Return: 1 it must be notified; 0 it need not; -ENODEV broken or stopped. */
int ph_ring_driver_publish(struct ph_ring_driver *ring);

/*
 * Takes one request that the device has used.
 * ret_used_bytes: what it wrote, as it says; at most what was writable.
 * Return: 0; -EAGAIN none; -EPROTO found broken (ph_ring_driver.why); -ENODEV was broken before, or stopped.
 */
int ph_ring_driver_reap(struct ph_ring_driver *ring, uint64_t *ret_cookie, uint32_t *ret_used_bytes);

/* Asks for an interrupt at the next used buffer. Return: 1 there is one already; 0; -EPROTO; -ENODEV. */
int ph_ring_driver_arm(struct ph_ring_driver *ring);
/* No interrupts are wanted; a hint only. */
void ph_ring_driver_disarm(struct ph_ring_driver *ring);

/* The device was reset, or is gone: nothing more is submitted or reaped. */
void ph_ring_driver_stop(struct ph_ring_driver *ring);

/*
 * Of a broken or stopped ring: the cookie of one more request that never came back. Reset the device before: until then it
 * may still work on these buffers.
 * Return: 0; -ENOENT no more; -EBUSY the ring is alive. Cost: O(size) for all together.
 */
int ph_ring_driver_take_back(struct ph_ring_driver *ring, uint64_t *ret_cookie);

/* Buffers that a request may have right now without -EAGAIN; 0 when broken or stopped. */
uint32_t ph_ring_driver_room(const struct ph_ring_driver *ring);

#endif
