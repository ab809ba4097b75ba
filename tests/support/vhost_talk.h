/*
 * vhost_talk: a frontend (vhost_frontend.h) whose backend is another process: whoever asks waits for the answer. All return 0, or
 * -1 when nobody answers any more.
 */
#ifndef TESTS_SUPPORT_VHOST_TALK_H
#define TESTS_SUPPORT_VHOST_TALK_H

#include "support/vhost_frontend.h"

#define TALK_MS 20000

/* Takes the answer to what was sent last, which may be a refusal. */
static inline int talk_answer(struct frontend *f, struct ph_vhost_message *answer)
{
	struct pollfd p = { .fd = f->wire.fd, .events = POLLIN };
	int r;
	while ((r = ph_vhost_wire_receive(&f->wire, answer)) == -EAGAIN)
		if (poll(&p, 1, TALK_MS) != 1)
			return -1;
	return r == 0 ? 0 : -1;
}

static inline int talk(struct frontend *f, uint32_t request, const void *payload, uint32_t size, int fd)
{
	struct ph_vhost_message answer;
	if (ph_vhost_wire_send(&f->wire, request, PH_VHOST_VERSION | PH_VHOST_NEED_REPLY, payload, size, &fd,
			       fd >= 0) != 0 ||
	    talk_answer(f, &answer) != 0)
		return -1;
	for (uint32_t i = 0; i < answer.fds_n; i++)
		close(answer.fds[i]);
	return 0;
}

static inline int talk_u64(struct frontend *f, uint32_t request, uint64_t value, int fd)
{
	return talk(f, request, &value, sizeof(value), fd);
}

static inline int talk_ring_word(struct frontend *f, uint32_t request, uint32_t index, uint32_t num)
{
	const struct ph_vhost_vring_state said = { index, num };
	return talk(f, request, &said, sizeof(said), -1);
}

static inline int talk_greet(struct frontend *f)
{
	return talk_u64(f, PH_VHOST_SET_PROTOCOL_FEATURES, PH_VHOST_P(REPLY_ACK) | PH_VHOST_P(INFLIGHT), -1) != 0 ||
			       talk_u64(f, PH_VHOST_SET_FEATURES, FE_FEATURES, -1) != 0
		       ? -1
		       : 0;
}

static inline int talk_memory(struct frontend *f)
{
	const struct {
		uint32_t n, padding;
		struct ph_vhost_region region;
	} table = { 1, 0, fe_region() };
	return talk(f, PH_VHOST_SET_MEM_TABLE, &table, sizeof(table), f->ram_fd);
}

/* A fresh driver on a ring, and the backend told of it. */
static inline int talk_ring(struct frontend *f, uint32_t i)
{
	const struct ph_vhost_vring_addr addr = fe_addr(i);
	fe_driver(f, i);
	fe_close_fd(&f->kick[i]);
	fe_close_fd(&f->call[i]);
	f->kick[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	f->call[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return talk_ring_word(f, PH_VHOST_SET_VRING_NUM, i, FE_SIZE) != 0 ||
			       talk(f, PH_VHOST_SET_VRING_ADDR, &addr, sizeof(addr), -1) != 0 ||
			       talk_u64(f, PH_VHOST_SET_VRING_CALL, i, f->call[i]) != 0 ||
			       talk_u64(f, PH_VHOST_SET_VRING_KICK, i, f->kick[i]) != 0
		       ? -1
		       : 0;
}

/* Waits until requests come back. Returns how many did; 0: the backend is gone, or silent. */
static inline uint32_t talk_reap(struct frontend *f, uint32_t i)
{
	struct pollfd wait[] = { { .fd = f->call[i], .events = POLLIN }, { .fd = f->wire.fd, .events = POLLIN } };
	uint64_t seen;
	uint32_t n;
	while ((n = fe_reap(f, i)) == 0) /* there may be interrupts that mean nothing */
		if (poll(wait, 2, TALK_MS) <= 0 || wait[1].revents != 0 || read(f->call[i], &seen, sizeof(seen)) <= 0)
			return 0;
	return n;
}

#endif
