/*
 * driver_queue: requests into the driver's queues, answers out of them, and the verdict that a device is broken.
 *
 * The problem: a lie is found in the middle of any duty. Why this shape: every duty goes through here; the first lie sets the
 * state, and from then on nothing is put in or taken out. Called from: the files of driver.h.
 * Invariant: what ph_queue_put refused has not reached the device, and stays with the caller.
 */
#ifndef PH_VIRTIO_DRIVER_QUEUE_H
#define PH_VIRTIO_DRIVER_QUEUE_H

#include "virtio/driver.h"

/* The device lied or asked for a reset; `trouble` is a literal. */
void ph_driver_break(struct pagehint_driver *d, const char *trouble);

/* May anything be put in? 0; -ENODEV not running, broken, silent. */
int ph_driver_is_well(const struct pagehint_driver *d);

/* One request, shown with the next ph_queue_show. 0; -EAGAIN no room; -ENODEV. */
int ph_queue_put(struct pagehint_driver *d, uint32_t q, const struct ph_ring_buffer *buffers, uint32_t n_readable,
		 uint32_t n_writable, uint64_t cookie);

/* Publishes what was put, and notifies the device where it wants that. */
void ph_queue_show(struct pagehint_driver *d, uint32_t q);

/* Gives every answer of a queue to its duty. Returns how many there were. */
uint32_t ph_queue_take(struct pagehint_driver *d, uint32_t q);

/* Asks for interrupts. Returns 1 when there is an answer already. */
int ph_queue_arm(struct pagehint_driver *d, uint32_t q);

/* When the queue counts as silent; UINT64_MAX when it owes nothing. */
uint64_t ph_queue_deadline(const struct pagehint_driver *d, uint32_t q);

#endif
