/*
 * session: what a vhost-user handle is made of, for the files that make up this room: session.c (life and step), requests.c
 * and ring_requests.c (what each message does), rings.c (when a queue runs), tell.c (notifications to the frontend), explain.c.
 *
 * The problem: what a frontend says comes in any order and may be said again while the device works. Why this shape: messages
 * only change what is wanted (struct ph_vhost_ring), and one function brings a queue from what it is to what is wanted.
 * A message that must wait for discards in flight is parked and tried again from its start at the next step; until then no
 * other is taken.
 * Owns: see pagehint/vhost.h. Called from: one thread at a time.
 * Invariants: a queue runs only while its ring, whole, is in the memory table; memory is unmapped only while no queue runs.
 */
#ifndef PH_VHOST_SESSION_H
#define PH_VHOST_SESSION_H

#include <stdint.h>

#include <pagehint/backend.h>
#include <pagehint/device_control.h>
#include <pagehint/vhost.h>

#include "base/sys.h"
#include "vhost/inflight.h"
#include "vhost/memory.h"
#include "vhost/message.h"
#include "vhost/wire.h"
#include "virtio/ring.h"

#define PH_VHOST_QUEUES PAGEHINT_BALLOON_Q_COUNT
#define PH_VHOST_MESSAGES 16u
#define PH_VHOST_POLL_NS UINT64_C(10000000) /* of a queue whose frontend gives no kick descriptor */

/* what a step waits for, in epoll data: the socket, or the kick of queue i */
#define PH_VHOST_AT_SOCKET 100u

struct ph_vhost_ring {
	struct ph_vhost_vring_addr addr;
	uint32_t size;
	uint32_t base;
	int kick; /* -1 = none */
	int call;
	int err;
	uint32_t kick_is_socket;
	uint32_t call_is_socket;
	uint32_t err_is_socket;
	uint32_t placed;  /* addr was said */
	uint32_t started; /* a kick was given, or said to be polled for */
	uint32_t polled;
	uint32_t enabled;
	uint32_t runs;        /* in the device */
	const uint16_t *used; /* its used ring (flags, index, ..), while it runs */
	int32_t refused;      /* why the device did not take it, or 0 */
};

/* How far the device is with a ring that runs. */
static inline uint16_t ph_vhost_used_index(const struct ph_vhost_ring *ring)
{
	return ph_le16_get(&ring->used[1]);
}

struct pagehint_vhost {
	const struct ph_sys *sys;
	struct pagehint_map *map;
	struct pagehint_backend *backend;
	struct pagehint_device *device;
	struct ph_vhost_memory memory;
	struct ph_vhost_wire wire;
	struct ph_vhost_inflight inflight;
	struct ph_vhost_ring rings[PH_VHOST_QUEUES];
	struct ph_vhost_message parked;
	int epoll;
	int socket;       /* -1 = no frontend */
	int backend_chan; /* the frontend's descriptor for messages of ours, or -1 */
	int answer_fd;    /* goes with the answer that is being sent, or -1 */
	uint32_t chan_is_socket;
	uint32_t met; /* bit i: queue i's driver began with this handle, or its state was loaded: its poison is known */
	uint32_t poison;        /* of a driver that is being replaced; kept until the next one says */
	uint32_t socket_events; /* what epoll watches the socket for */
	uint32_t is_parked;
	uint32_t ending;          /* the frontend is gone; what it brought goes as soon as nothing is in flight */
	uint32_t inside;          /* a step is on */
	uint32_t ran;             /* a queue was started since the driver began */
	uint32_t messages;        /* a step */
	uint32_t events;          /* to be told by this step */
	uint32_t refused_request; /* the last message that was refused, and why */
	int32_t refused_why;
	uint32_t due;      /* bit i: queue i is to be served without a kick */
	uint64_t features; /* as last set, with PH_VHOST_F_PROTOCOL */
	uint64_t protocol;
	uint64_t now_ns;
	void *state; /* to be loaded, or NULL */
	uint64_t state_bytes;
	struct pagehint_vhost_stats stats;
};

/* pagehint_vhost_new with another operating system beneath. */
int ph_vhost_new_with(const struct pagehint_vhost_opts *opts, const struct ph_sys *sys,
		      struct pagehint_vhost **ret_vhost);

/*
 * Does what a message says and answers it; takes its descriptors.
 * Return: 0, also when it was refused; -EAGAIN discards are in flight: the same message again at the next step (its
 * descriptors are still in it); else the connection cannot go on.
 */
int ph_vhost_handle(struct pagehint_vhost *vhost, struct ph_vhost_message *message);

/* Of these, what deals with one ring. Return: as above, or -errno: refused. */
int ph_vhost_on_ring_state(struct pagehint_vhost *vhost, struct ph_vhost_message *message);
int ph_vhost_on_ring_addr(struct pagehint_vhost *vhost, struct ph_vhost_message *message);
int ph_vhost_on_ring_base(struct pagehint_vhost *vhost, struct ph_vhost_message *message);
int ph_vhost_on_ring_fd(struct pagehint_vhost *vhost, struct ph_vhost_message *message);
int ph_vhost_answer(struct pagehint_vhost *vhost, uint32_t request, const void *payload, uint32_t size);

/* 1 a socket, 0 a pipe or an eventfd, made not to wait; -EINVAL neither; else what fstat or fcntl gave. */
int ph_vhost_fd_kind(const struct pagehint_vhost *vhost, int fd);

/* Brings a queue from what it is to what is wanted. Return: 0 (a ring that cannot run is noted in it); -EAGAIN. */
int ph_vhost_ring_sync(struct pagehint_vhost *vhost, uint32_t index);
int ph_vhost_rings_sync(struct pagehint_vhost *vhost);

/* Takes queues out of the device, whatever is wanted. Return: 0; -EAGAIN discards are in flight. */
int ph_vhost_ring_stop(struct pagehint_vhost *vhost, uint32_t index);
int ph_vhost_rings_stop(struct pagehint_vhost *vhost);

/* Gives a ring another descriptor (-1 = none) and closes the one before. `which` is one of the ring's. */
void ph_vhost_ring_fd(struct pagehint_vhost *vhost, int *which, int fd);
/* Forgets everything that was said of the rings; none may run. */
void ph_vhost_rings_forget(struct pagehint_vhost *vhost);

/* A kick arrived, or a queue is due. */
void ph_vhost_serve(struct pagehint_vhost *vhost, uint32_t index, uint64_t *deadline);
/* Does what the device asks for. */
void ph_vhost_work(struct pagehint_vhost *vhost, const struct pagehint_device_work *work, uint64_t *deadline);

/* Interrupts the guest for a queue; tells the frontend that the configuration changed. What is not taken is counted. */
void ph_vhost_tell_queue(struct pagehint_vhost *vhost, uint32_t index);
void ph_vhost_tell_config(struct pagehint_vhost *vhost);

/* Closes a descriptor, unless it is -1. */
void ph_vhost_close(const struct pagehint_vhost *vhost, int fd);

#endif
