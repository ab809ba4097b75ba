/*
 * ring_driver_form: what the driver end's face asks of its two forms.
 *
 * Called from: ring_driver.c and the two forms. Owns nothing.
 */
#ifndef PH_VIRTIO_RING_DRIVER_FORM_H
#define PH_VIRTIO_RING_DRIVER_FORM_H

#include "virtio/ring_driver.h"

/* a request on its way into the ring; room is there */
struct ph_ring_order {
	const struct ph_ring_buffer *buffers;
	uint32_t n;          /* in all, at least 1 */
	uint32_t n_readable; /* the first of them */
	uint32_t table;      /* 1 + indirect table, 0 = direct */
};

/* The ring entry of an indirect table that was filled, as a buffer. */
struct ph_ring_buffer ph_driver_table(const struct ph_ring_driver *ring, const struct ph_ring_order *order);

/* Write the entries of a request at ring->avail, which they move. Return its id: head, or buffer id. */
uint32_t ph_split_put(struct ph_ring_driver *ring, const struct ph_ring_order *order);
uint32_t ph_packed_put(struct ph_ring_driver *ring, const struct ph_ring_order *order);

/* Show the device what is staged. Return: 1 it wants a notification, 0. */
int ph_split_publish(struct ph_ring_driver *ring);
int ph_packed_publish(struct ph_ring_driver *ring);

/*
 * The used entry at ring->used, if there is one; nothing is believed of it yet.
 * Return: 0; -EAGAIN there is none; -EPROTO (split) the index is impossible.
 */
int ph_split_look(struct ph_ring_driver *ring, uint32_t *ret_id, uint32_t *ret_len);
int ph_packed_look(struct ph_ring_driver *ring, uint32_t *ret_id, uint32_t *ret_len);

/* A request is done: its entries are free, ring->used moves past it. */
void ph_split_put_back(struct ph_ring_driver *ring, uint32_t id);
void ph_packed_put_back(struct ph_ring_driver *ring, uint32_t id);

/* Ask for an interrupt at ring->used. */
void ph_split_ask(struct ph_ring_driver *ring);
void ph_packed_ask(struct ph_ring_driver *ring);

void ph_split_hush(struct ph_ring_driver *ring);
void ph_packed_hush(struct ph_ring_driver *ring);

#endif
