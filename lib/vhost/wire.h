/*
 * wire: vhost-user messages over a stream socket, without waiting.
 *
 * The problem: a message may come in pieces, descriptors come with any of them, and a peer may stop in the middle or never
 * read its answers. Why this shape: one message is collected at a time and never a byte beyond it is read, so descriptors
 * cannot end up with the wrong message; one answer may wait to be sent, and until it is gone nothing more is read.
 * Not here: what a message means. Owns: the socket is the caller's; descriptors of a message that is not handed out yet.
 * Called from: the session (which is the backend), and the daemon's keeper (which is both ends).
 * Invariants: each received descriptor is handed out once or closed; after a failure but -EAGAIN the wire stays broken.
 */
#ifndef PH_VHOST_WIRE_H
#define PH_VHOST_WIRE_H

#include <stdint.h>

#include "base/sys.h"
#include "vhost/message.h"

struct ph_vhost_wire {
	const struct ph_sys *sys;
	int fd;
	int broken;       /* 0 or -errno */
	uint32_t have;    /* bytes of `in`, header included */
	uint32_t pending; /* bytes of `out` that are not sent yet */
	uint32_t sent;
	uint32_t out_fds_n;
	int out_fds[PH_VHOST_FDS]; /* go with the first byte of `out`; borrowed */
	struct ph_vhost_message in;
	unsigned char out[PH_VHOST_HEADER + PH_VHOST_PAYLOAD];
};

void ph_vhost_wire_init(struct ph_vhost_wire *wire, const struct ph_sys *sys, int fd);

/* Closes the descriptors of a message that is half here. */
void ph_vhost_wire_drop(struct ph_vhost_wire *wire);

/*
 * Collects the next message; its descriptors are the caller's then. At most two reads for a message.
 * Return: 0; -EAGAIN not whole yet, or an answer waits; -ENODEV the peer is gone; -EPROTO no message at all: a size that is too
 * large, too many descriptors; else what recvmsg gave.
 */
int ph_vhost_wire_receive(struct ph_vhost_wire *wire, struct ph_vhost_message *ret_message);

/*
 * Sends a message, or keeps what the socket does not take now. fds: go along, borrowed until the message is gone.
 * Return: 0; -EBUSY one waits already; -ENODEV the peer is gone; -EINVAL size; else what sendmsg gave.
 */
int ph_vhost_wire_send(struct ph_vhost_wire *wire, uint32_t request, uint32_t flags, const void *payload, uint32_t size,
		       const int *fds, uint32_t fds_n);

/* Sends what waits. Return: 0 nothing waits any more; -EAGAIN; -ENODEV; else what sendmsg gave. */
int ph_vhost_wire_flush(struct ph_vhost_wire *wire);

#endif
