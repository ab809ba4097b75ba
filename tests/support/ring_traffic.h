/*
 * ring_traffic: requests of random shapes from a driver end to a device end and back, each checked byte by byte and counted.
 *
 * Each side makes steps and says whether it may go on by itself or must sleep until it is notified: so a notification that
 * is lost leaves both asleep with requests in flight. What a device writes, and how much, follows from the request; so the
 * driver knows what must be there. A device holds some requests back and completes them out of order.
 */
#ifndef TESTS_SUPPORT_RING_TRAFFIC_H
#define TESTS_SUPPORT_RING_TRAFFIC_H

#include "support/ring_rig.h"

#define TRAFFIC_BUFFERS 5u /* of a request, at most */
#define TRAFFIC_STRIDE 24u /* bytes of a buffer, at most */
#define TRAFFIC_CELL (TRAFFIC_BUFFERS * TRAFFIC_STRIDE)
#define TRAFFIC_HELD 8u

struct traffic_request {
	uint64_t serial; /* 0 = the cell is free */
	struct ph_ring_buffer buffers[TRAFFIC_BUFFERS];
	uint32_t n_readable, n_writable, writable_bytes;
};

struct traffic_held {
	struct ph_segment segments[TRAFFIC_BUFFERS];
	struct ph_chain chain;
};

struct traffic {
	struct ring_rig rig;
	/* the driver's side */
	struct traffic_request *cells;
	uint32_t *free_cells;
	uint32_t n_free;
	uint64_t driver_random, total, submitted, reaped, kicks;
	int driver_fault; /* line of the first thing that was wrong; 0 = all is well */
	/* the device's side */
	struct traffic_held held[TRAFFIC_HELD];
	uint32_t n_held;
	uint64_t device_random, served, interrupts;
	int device_fault;
};

static inline uint64_t traffic_draw(uint64_t *random, uint64_t below)
{
	*random ^= *random << 13;
	*random ^= *random >> 7;
	*random ^= *random << 17;
	return (*random >> 11) % below;
}

#define TRAFFIC_REQUIRE(fault, cond)         \
	do {                                 \
		if (!(cond) && (fault) == 0) \
			(fault) = __LINE__;  \
	} while (0)

static inline void traffic_open(struct traffic *t, uint32_t form, uint32_t size, uint64_t total, uint64_t seed)
{
	memset(t, 0, sizeof(*t));
	uint32_t indirect = form & PH_RING_INDIRECT ? size / 2 : 0; /* when they are all taken, requests go directly */
	rig_lay_out(&t->rig, form, size, TRAFFIC_BUFFERS, (uint64_t)size * TRAFFIC_CELL);
	rig_open_driver(&t->rig, indirect, size < TRAFFIC_BUFFERS ? size : TRAFFIC_BUFFERS);
	rig_open_device(&t->rig);
	t->cells = calloc(size, sizeof(*t->cells));
	t->free_cells = calloc(size, sizeof(*t->free_cells));
	for (t->n_free = 0; t->n_free < size; t->n_free++)
		t->free_cells[t->n_free] = t->n_free;
	t->total = total;
	t->driver_random = seed * 2 + 1;
	t->device_random = seed * 2 + UINT64_C(0x9e3779b97f4a7c15);
}

static inline void traffic_close(struct traffic *t)
{
	free(t->cells);
	free(t->free_cells);
	rig_close(&t->rig);
}

/* what stands in byte i of a part of the request that is named by `key` */
static inline unsigned char traffic_byte(uint64_t key, uint64_t i)
{
	return (unsigned char)((key * UINT64_C(0x9e3779b97f4a7c15) >> 40) + i * 7);
}

/* ---- the driver ---- */

static inline void traffic_fill(struct traffic *t, uint32_t cell, struct traffic_request *request)
{
	uint64_t *random = &t->driver_random, offset = 0;
	uint32_t n = 1 + (uint32_t)traffic_draw(random, TRAFFIC_BUFFERS);
	n = n < t->rig.size ? n : t->rig.size;
	request->serial = t->submitted + 1;
	request->n_readable = (uint32_t)traffic_draw(random, n + 1);
	request->n_writable = n - request->n_readable;
	request->writable_bytes = 0;
	for (uint32_t i = 0; i < n; i++) {
		struct ph_ring_buffer *buffer = &request->buffers[i];
		buffer->addr = t->rig.data + (uint64_t)cell * TRAFFIC_CELL + (uint64_t)i * TRAFFIC_STRIDE;
		buffer->len = 8 + (uint32_t)traffic_draw(random, TRAFFIC_STRIDE - 7);
		unsigned char *bytes = rig_at(&t->rig, buffer->addr);
		if (i >= request->n_readable) {
			memset(bytes, 0xee, buffer->len);
			request->writable_bytes += buffer->len;
			continue;
		}
		for (uint32_t b = 0; b < buffer->len; b++, offset++)
			bytes[b] = offset < 8 ? (unsigned char)(request->serial >> offset * 8)
					      : traffic_byte(request->serial, offset);
	}
}

/* how a request is named to both sides: by its serial number if it carries one, else by where it is */
static inline uint64_t traffic_key(uint32_t n_readable, uint64_t serial, uint64_t first_addr)
{
	return n_readable != 0 ? serial : first_addr;
}

static inline uint32_t traffic_written(uint64_t key, uint64_t writable_bytes)
{
	return writable_bytes == 0 ? 0 : (uint32_t)(key * 31 % (writable_bytes + 1));
}

static inline void traffic_reap(struct traffic *t, uint64_t cookie, uint32_t used)
{
	uint32_t cell = (uint32_t)(cookie % t->rig.size);
	struct traffic_request *request = &t->cells[cell];
	TRAFFIC_REQUIRE(t->driver_fault, request->serial != 0 && request->serial == cookie / t->rig.size);
	uint64_t key = traffic_key(request->n_readable, request->serial, request->buffers[0].addr), offset = 0;
	TRAFFIC_REQUIRE(t->driver_fault, used == traffic_written(key, request->writable_bytes));
	for (uint32_t i = request->n_readable; i < request->n_readable + request->n_writable; i++) {
		const unsigned char *bytes = rig_at(&t->rig, request->buffers[i].addr);
		for (uint32_t b = 0; b < request->buffers[i].len; b++, offset++)
			TRAFFIC_REQUIRE(t->driver_fault,
					bytes[b] == (offset < used ? traffic_byte(key, offset) : 0xee));
	}
	request->serial = 0;
	t->free_cells[t->n_free++] = cell;
	t->reaped++;
}

/* up to `n` requests. Return: 1 there is no room for more */
static inline int traffic_submit(struct traffic *t, uint64_t n)
{
	for (; n != 0 && t->submitted < t->total; n--) {
		if (t->n_free == 0)
			return 1;
		uint32_t cell = t->free_cells[t->n_free - 1];
		struct traffic_request *request = &t->cells[cell];
		uint64_t random = t->driver_random;
		traffic_fill(t, cell, request);
		int err = ph_ring_driver_submit(&t->rig.driver, request->buffers, request->n_readable,
						request->n_writable, request->serial * t->rig.size + cell);
		if (err != 0) {
			TRAFFIC_REQUIRE(t->driver_fault, err == -EAGAIN);
			request->serial = 0;
			t->driver_random = random; /* the same again, later */
			return 1;
		}
		t->n_free--;
		t->submitted++;
	}
	return 0;
}

/* Return: 1 go on, 0 sleep until an interrupt. *ret_kick: notify the device. */
static inline int traffic_drive(struct traffic *t, int *ret_kick)
{
	uint64_t cookie = 0;
	uint32_t used = 0;
	int err = 0;
	uint64_t most = 1 + traffic_draw(&t->driver_random, 2 * (uint64_t)t->rig.size);
	if (traffic_draw(&t->driver_random, 2) != 0)
		ph_ring_driver_disarm(&t->rig.driver);
	for (; most != 0 && (err = ph_ring_driver_reap(&t->rig.driver, &cookie, &used)) == 0; most--)
		traffic_reap(t, cookie, used);
	TRAFFIC_REQUIRE(t->driver_fault, err == 0 || err == -EAGAIN);
	int full = traffic_submit(t, traffic_draw(&t->driver_random, 16) == 0
					     ? t->rig.size
					     : 1 + traffic_draw(&t->driver_random, 1 + t->rig.size / 4));
	int wanted = ph_ring_driver_publish(&t->rig.driver);
	TRAFFIC_REQUIRE(t->driver_fault, wanted == 0 || wanted == 1);
	*ret_kick = wanted == 1;
	t->kicks += wanted == 1;
	if ((!full && t->submitted < t->total) || t->reaped == t->total || t->driver_fault != 0)
		return 1;
	int more = ph_ring_driver_arm(&t->rig.driver);
	TRAFFIC_REQUIRE(t->driver_fault, more == 0 || more == 1);
	return more != 0;
}

/* ---- the device ---- */

static inline void traffic_answer(struct traffic *t, struct traffic_held *held)
{
	unsigned char bytes[TRAFFIC_CELL];
	const struct ph_chain *chain = &held->chain;
	uint64_t serial = 0;
	size_t n = 0;
	TRAFFIC_REQUIRE(t->device_fault, ph_chain_read(&t->rig.device, chain, 0, bytes, sizeof(bytes), &n) == 0 &&
						 n == chain->readable_bytes);
	for (uint32_t i = 0; i < 8 && i < n; i++)
		serial |= (uint64_t)bytes[i] << i * 8;
	for (uint32_t i = 8; i < n; i++)
		TRAFFIC_REQUIRE(t->device_fault, bytes[i] == traffic_byte(serial, i));
	uint64_t key = traffic_key(chain->n_readable, serial, chain->segments[0].addr);
	uint32_t written = traffic_written(key, chain->writable_bytes);
	for (uint32_t i = 0; i < written; i++)
		bytes[i] = traffic_byte(key, i);
	TRAFFIC_REQUIRE(t->device_fault,
			ph_chain_write(&t->rig.device, chain, 0, bytes, written, &n) == 0 && n == written);
	TRAFFIC_REQUIRE(t->device_fault, ph_ring_device_complete(&t->rig.device, chain->ticket, written) == 0);
	t->served++;
}

/* answers requests that are held, in random order, until `left` are */
static inline void traffic_answer_some(struct traffic *t, uint32_t left)
{
	while (t->n_held > left) {
		uint32_t i = (uint32_t)traffic_draw(&t->device_random, t->n_held);
		traffic_answer(t, &t->held[i]);
		t->held[i] = t->held[--t->n_held];
		t->held[i].chain.segments = t->held[i].segments;
	}
}

/* Return: 1 go on, 0 sleep until a kick. *ret_interrupt: interrupt the driver. */
static inline int traffic_serve(struct traffic *t, int *ret_interrupt)
{
	uint32_t budget = 1 + (uint32_t)traffic_draw(&t->device_random, 3 * t->rig.size);
	int err = 0;
	if (traffic_draw(&t->device_random, 2) != 0)
		ph_ring_device_disarm(&t->rig.device);
	for (;;) {
		struct traffic_held *held = &t->held[t->n_held];
		err = ph_ring_device_pop(&t->rig.device, &budget, &held->chain);
		if (err != 0)
			break;
		uint32_t n = held->chain.n_readable + held->chain.n_writable;
		if (traffic_draw(&t->device_random, 32) == 0) {
			TRAFFIC_REQUIRE(t->device_fault, ph_ring_device_unpop(&t->rig.device, held->chain.ticket) == 0);
			continue;
		}
		TRAFFIC_REQUIRE(t->device_fault, n <= TRAFFIC_BUFFERS);
		memcpy(held->segments, held->chain.segments, n * sizeof(held->segments[0]));
		held->chain.segments = held->segments;
		if (++t->n_held == TRAFFIC_HELD)
			traffic_answer_some(t, (uint32_t)traffic_draw(&t->device_random, TRAFFIC_HELD));
	}
	TRAFFIC_REQUIRE(t->device_fault, err == -ENOENT || err == -EAGAIN);
	traffic_answer_some(t, err == -EAGAIN ? (uint32_t)traffic_draw(&t->device_random, TRAFFIC_HELD) : 0);
	int wanted = ph_ring_device_flush(&t->rig.device);
	TRAFFIC_REQUIRE(t->device_fault, wanted == 0 || wanted == 1);
	*ret_interrupt = wanted == 1;
	t->interrupts += wanted == 1;
	if (err == -EAGAIN || t->device_fault != 0)
		return 1;
	int more = ph_ring_device_arm(&t->rig.device);
	TRAFFIC_REQUIRE(t->device_fault, more == 0 || more == 1);
	return more != 0;
}

#endif
