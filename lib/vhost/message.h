/*
 * message: one vhost-user message, what shape each kind must have, and nothing of what it means.
 *
 * The problem: a frontend may send any bytes, with any number of file descriptors, cut anywhere. Why this shape: one table
 * says for each request which sizes and how many descriptors are right; whoever handles a message that passed reads members
 * that are there.
 * Not here: the socket (wire.h), what a message does (session.h). Owns nothing; a message's descriptors belong to whoever
 * holds the message.
 * Invariants: numbers are in the byte order of the host, as the protocol has them; size <= PH_VHOST_PAYLOAD always.
 * Source: QEMU, docs/interop/vhost-user
 */
#ifndef PH_VHOST_MESSAGE_H
#define PH_VHOST_MESSAGE_H

#include <stdint.h>
#include <string.h>

#include "base/sys.h"

#define PH_VHOST_HEADER 12u   /* request, flags, size: u32 each */
#define PH_VHOST_PAYLOAD 512u /* the largest that we know has 12 + 256 bytes */
#define PH_VHOST_FDS 8u       /* a memory table has at most 8 regions */
#define PH_VHOST_CONFIG 256u  /* config space that one message carries, at the most */

/* flags of a header */
#define PH_VHOST_VERSION 1u
#define PH_VHOST_VERSION_MASK 3u
#define PH_VHOST_REPLY 4u
#define PH_VHOST_NEED_REPLY 8u

/* bit of the features that says there are protocol features; never seen by the device */
#define PH_VHOST_F_PROTOCOL (UINT64_C(1) << 30)

/*
 * Protocol features that are offered, by number. STATUS is not among them: QEMU writes status 0 whenever a guest is paused, which
 * must not make the device forget the guest's poison.
 */
enum {
	PH_VHOST_P_MQ = 0,
	PH_VHOST_P_REPLY_ACK = 3,
	PH_VHOST_P_BACKEND_REQ = 5,
	PH_VHOST_P_CONFIG = 9,
	PH_VHOST_P_INFLIGHT = 12,
	PH_VHOST_P_RESET_DEVICE = 13,
	PH_VHOST_P_MEM_SLOTS = 15
};
#define PH_VHOST_P(name) (UINT64_C(1) << PH_VHOST_P_##name)

enum {
	PH_VHOST_GET_FEATURES = 1,
	PH_VHOST_SET_FEATURES = 2,
	PH_VHOST_SET_OWNER = 3,
	PH_VHOST_RESET_OWNER = 4,
	PH_VHOST_SET_MEM_TABLE = 5,
	PH_VHOST_SET_VRING_NUM = 8,
	PH_VHOST_SET_VRING_ADDR = 9,
	PH_VHOST_SET_VRING_BASE = 10,
	PH_VHOST_GET_VRING_BASE = 11,
	PH_VHOST_SET_VRING_KICK = 12,
	PH_VHOST_SET_VRING_CALL = 13,
	PH_VHOST_SET_VRING_ERR = 14,
	PH_VHOST_GET_PROTOCOL_FEATURES = 15,
	PH_VHOST_SET_PROTOCOL_FEATURES = 16,
	PH_VHOST_GET_QUEUE_NUM = 17,
	PH_VHOST_SET_VRING_ENABLE = 18,
	PH_VHOST_SET_BACKEND_REQ_FD = 21,
	PH_VHOST_GET_CONFIG = 24,
	PH_VHOST_SET_CONFIG = 25,
	PH_VHOST_GET_INFLIGHT_FD = 31,
	PH_VHOST_SET_INFLIGHT_FD = 32,
	PH_VHOST_RESET_DEVICE = 34,
	PH_VHOST_GET_MAX_MEM_SLOTS = 36,
	PH_VHOST_ADD_MEM_REG = 37,
	PH_VHOST_REM_MEM_REG = 38,
	PH_VHOST_REQUESTS = 39
};

/* what the backend sends on the channel of its own */
#define PH_VHOST_BACKEND_CONFIG_CHANGE 2u

/* SET_VRING_KICK, CALL, ERR: a u64 of queue index and this bit, "no descriptor: poll" */
#define PH_VHOST_VRING_INDEX UINT64_C(0xff)
#define PH_VHOST_VRING_NOFD UINT64_C(0x100)

struct ph_vhost_message {
	uint32_t request;
	uint32_t flags;
	uint32_t size; /* of the payload [bytes] */
	uint32_t fds_n;
	int fds[PH_VHOST_FDS];
	unsigned char payload[PH_VHOST_PAYLOAD];
};

/* payloads, as they are on the wire */
struct ph_vhost_region {
	uint64_t guest; /* guest-physical address */
	uint64_t size;
	uint64_t user;   /* address in the frontend, which ring addresses are given in */
	uint64_t offset; /* in the descriptor */
};
struct ph_vhost_vring_state {
	uint32_t index;
	uint32_t num;
};
struct ph_vhost_vring_addr {
	uint32_t index;
	uint32_t flags; /* bit 0: log writes; never offered */
	uint64_t desc;
	uint64_t used;
	uint64_t avail;
	uint64_t log;
};
struct ph_vhost_config {
	uint32_t offset;
	uint32_t size;
	uint32_t flags; /* followed by size bytes */
};
struct ph_vhost_inflight_said {
	uint64_t mmap_size;
	uint64_t mmap_offset;
	uint16_t queues;
	uint16_t queue_size;
	uint32_t padding;
};

/*
 * Whether size and descriptors of a message are what its request wants. Returns 0; -EINVAL no: the stream cannot be trusted
 * any more (wrong version, a reply where a request belongs, impossible size); -EOPNOTSUPP a request that we do not know, whole
 * and harmless; -EPROTO a known one whose size or number of descriptors is wrong.
 */
int ph_vhost_message_check(const struct ph_vhost_message *message);

/* 1 when the request is answered with a payload of its own, whatever its flags say. */
int ph_vhost_message_answers(uint32_t request);

/* "SET_FEATURES"...; "?" for what we do not know */
const char *ph_vhost_message_name(uint32_t request);

/* Closes the descriptors that are still in a message; -1: it was taken out. */
void ph_vhost_message_close(const struct ph_sys *sys, struct ph_vhost_message *message);

/* A number from the payload at an offset that the check has made sure of. */
static inline uint64_t ph_vhost_u64(const struct ph_vhost_message *message)
{
	uint64_t value;
	memcpy(&value, message->payload, sizeof(value));
	return value;
}

#endif
