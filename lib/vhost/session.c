#include "vhost/session.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include <pagehint/host.h>

#include "base/opts.h"
#include "memory/map.h"

#define MESSAGES_MAX 1024u
#define STATE_MAX (UINT64_C(1) << 30)
#define EVENTS 8

/* ---- life ---- */

static int make_backend(struct pagehint_vhost *v, const struct pagehint_vhost_opts *opts)
{
	const struct pagehint_backend_opts backend = { .struct_size = sizeof(backend), .gate = opts->gate };
	if (opts->backend != NULL)
		return opts->backend(opts->backend_ctx, v->map, opts->gate, &v->backend);
	return pagehint_madvise_new(v->map, NULL, &backend, &v->backend);
}

static int make_device(struct pagehint_vhost *v, const struct pagehint_vhost_opts *opts)
{
	struct pagehint_device_opts device = { .struct_size = sizeof(device),
					       .numbering = PAGEHINT_BALLOON_NUMBERING_NEGOTIATED };
	int r = opts->device != NULL ? PH_OPTS_IN(device, opts->device) : 0;
	device.struct_size = sizeof(device);
	if (r == 0 && (device.features & PAGEHINT_VIRTIO_F_RING_PACKED) != 0)
		r = -EINVAL;
	return r != 0 ? r : pagehint_device_new(v->map, v->backend, opts->gate, &device, &v->device);
}

static int keep_state(struct pagehint_vhost *v, const struct pagehint_vhost_opts *opts)
{
	if (opts->state == NULL)
		return 0;
	if (opts->state_bytes == 0 || opts->state_bytes > STATE_MAX)
		return -EINVAL;
	v->state = malloc((size_t)opts->state_bytes);
	if (v->state == NULL)
		return -ENOMEM;
	memcpy(v->state, opts->state, (size_t)opts->state_bytes);
	v->state_bytes = opts->state_bytes;
	return 0;
}

static int make(struct pagehint_vhost *v, const struct pagehint_vhost_opts *opts)
{
	const struct pagehint_map_opts map = { .struct_size = sizeof(map), .max_regions = PH_VHOST_SLOTS };
	int r = ph_map_new_with(&map, v->sys, &v->map);
	if (r == 0)
		r = make_backend(v, opts);
	if (r == 0)
		r = make_device(v, opts);
	if (r == 0)
		r = keep_state(v, opts);
	if (r == 0) {
		v->epoll = v->sys->epoll_new(v->sys->ctx);
		r = v->epoll < 0 ? v->epoll : 0;
	}
	ph_vhost_memory_init(&v->memory, v->sys, v->map);
	return r;
}

static void unmake(struct pagehint_vhost *v)
{
	ph_vhost_close(v, v->epoll);
	(void)pagehint_device_free(v->device); /* nothing is in flight */
	(void)pagehint_backend_free(v->backend);
	(void)pagehint_map_free(v->map);
	free(v->state);
	free(v);
}

int ph_vhost_new_with(const struct pagehint_vhost_opts *opts, const struct ph_sys *sys,
		      struct pagehint_vhost **ret_vhost)
{
	struct pagehint_vhost_opts o;
	int r = PH_OPTS_IN(o, opts);
	if (r != 0)
		return r;
	if (ret_vhost == NULL || o.flags != 0 || o.messages > MESSAGES_MAX)
		return -EINVAL;
	struct pagehint_vhost *v = calloc(1, sizeof(*v));
	if (v == NULL)
		return -ENOMEM;
	v->sys = sys;
	v->messages = o.messages != 0 ? o.messages : PH_VHOST_MESSAGES;
	v->epoll = v->socket = v->backend_chan = v->answer_fd = -1;
	for (uint32_t i = 0; i < PH_VHOST_QUEUES; i++)
		v->rings[i].kick = v->rings[i].call = v->rings[i].err = -1;
	r = make(v, &o);
	if (r != 0) {
		unmake(v);
		return r;
	}
	*ret_vhost = v;
	return 0;
}

int pagehint_vhost_new(const struct pagehint_vhost_opts *opts, struct pagehint_vhost **ret_vhost)
{
	return ph_vhost_new_with(opts, &ph_sys_real, ret_vhost);
}

/* Watches the socket for what can be done now: nothing is taken while a message is parked or an answer waits. */
static int watch(struct pagehint_vhost *v)
{
	uint32_t events = v->wire.pending != 0 ? EPOLLOUT : v->is_parked ? 0 : EPOLLIN;
	if (v->socket < 0 || events == v->socket_events)
		return 0;
	v->socket_events = events;
	return v->sys->epoll_set(v->sys->ctx, v->epoll, EPOLL_CTL_MOD, v->socket, events, PH_VHOST_AT_SOCKET);
}

int pagehint_vhost_attach(struct pagehint_vhost *v, int socket)
{
	struct stat st;
	if (v == NULL)
		return -EINVAL;
	if (v->socket >= 0 || v->ending)
		return -EBUSY;
	int r = v->sys->fstat(v->sys->ctx, socket, &st);
	if (r == 0 && !S_ISSOCK(st.st_mode))
		r = -EINVAL;
	if (r == 0)
		r = v->sys->epoll_set(v->sys->ctx, v->epoll, EPOLL_CTL_ADD, socket, EPOLLIN, PH_VHOST_AT_SOCKET);
	if (r != 0)
		return r;
	v->socket = socket;
	v->socket_events = EPOLLIN;
	ph_vhost_wire_init(&v->wire, v->sys, socket);
	v->ran = 0;
	v->stats.connected = 1;
	v->stats.connections++;
	return 0;
}

static void close_answer_fd(struct pagehint_vhost *v)
{
	ph_vhost_close(v, v->answer_fd);
	v->answer_fd = -1;
}

/* The frontend is gone: nothing more is read. What it brought goes in end(). */
static void leave(struct pagehint_vhost *v)
{
	if (v->socket < 0)
		return;
	ph_vhost_wire_drop(&v->wire);
	v->wire.pending = 0;
	close_answer_fd(v);
	if (v->is_parked)
		ph_vhost_message_close(v->sys, &v->parked);
	v->is_parked = 0;
	ph_vhost_ring_fd(v, &v->socket, -1);
	v->ending = 1;
}

/* Return: 0 everything is closed; -EAGAIN discards are in flight. */
static int end(struct pagehint_vhost *v)
{
	if (ph_vhost_rings_stop(v) != 0 || ph_vhost_memory_clear(&v->memory) != 0)
		return -EAGAIN;
	ph_vhost_rings_forget(v);
	ph_vhost_inflight_drop(&v->inflight, v->sys);
	ph_vhost_close(v, v->backend_chan);
	v->backend_chan = -1;
	v->features = v->protocol = 0;
	v->due = v->ending = 0;
	v->stats.connected = 0;
	return 0;
}

int pagehint_vhost_free(struct pagehint_vhost *v)
{
	if (v == NULL)
		return 0;
	if (v->inside)
		return -EBUSY;
	leave(v);
	if (end(v) != 0 || pagehint_device_reset(v->device) == -EAGAIN)
		return -EBUSY;
	unmake(v);
	return 0;
}

/* ---- step ---- */

/* Return: 0; else the connection cannot go on. */
static int take_one(struct pagehint_vhost *v)
{
	int r = ph_vhost_handle(v, &v->parked);
	v->is_parked = r == -EAGAIN;
	return v->is_parked ? 0 : r;
}

static int take_messages(struct pagehint_vhost *v)
{
	for (uint32_t i = 0; i < v->messages && !v->is_parked; i++) {
		int r = ph_vhost_wire_receive(&v->wire, &v->parked);
		if (r == -EAGAIN)
			return 0;
		if (r == 0)
			r = take_one(v);
		if (r != 0)
			return r;
		if (v->wire.pending == 0)
			close_answer_fd(v);
	}
	return 0;
}

/* Takes a kick off its descriptor; the frontend may have closed the other end. */
static void take_kick(struct pagehint_vhost *v, uint32_t index)
{
	struct ph_vhost_ring *ring = &v->rings[index];
	const struct ph_sys *sys = v->sys;
	unsigned char bytes[64];
	uint32_t fds = 0;
	if (ring->kick < 0)
		return; /* closed by a message of this very step */
	int64_t r = ring->kick_is_socket ? sys->receive(sys->ctx, ring->kick, bytes, sizeof(bytes), NULL, 0, &fds)
					 : sys->read(sys->ctx, ring->kick, bytes, sizeof(bytes));
	if (r == -EAGAIN || r == -EWOULDBLOCK)
		return;
	if (r == 0 || (r < 0 && r != -EMSGSIZE)) {
		/* closed at the other end: nobody can kick any more, and the ring's memory may be the guest's again */
		ph_vhost_ring_fd(v, &ring->kick, -1);
		ring->started = 0;
		return;
	}
	v->stats.kicks++;
	v->due |= 1u << index;
}

static int look(struct pagehint_vhost *v)
{
	struct epoll_event events[EVENTS];
	int n = v->sys->epoll_look(v->sys->ctx, v->epoll, events, EVENTS), r = 0;
	for (int i = 0; i < n; i++)
		if (events[i].data.u64 < PH_VHOST_QUEUES)
			take_kick(v, (uint32_t)events[i].data.u64);
	if (v->socket < 0)
		return 0;
	r = ph_vhost_wire_flush(&v->wire);
	if (r != 0)
		return r == -EAGAIN ? 0 : r;
	close_answer_fd(v);
	if (v->is_parked)
		r = take_one(v);
	return r != 0 ? r : take_messages(v);
}

/* Stops queues whose kick was closed, before anything is written into their rings. With discards in flight: again next time. */
static void stop_closed(struct pagehint_vhost *v)
{
	for (uint32_t i = 0; i < PH_VHOST_QUEUES; i++)
		if (v->rings[i].runs && !v->rings[i].started)
			(void)ph_vhost_ring_stop(v, i);
}

static void serve_due(struct pagehint_vhost *v, uint64_t *deadline)
{
	uint32_t due = v->due;
	v->due = 0;
	for (uint32_t i = 0; i < PH_VHOST_QUEUES; i++) {
		const struct ph_vhost_ring *ring = &v->rings[i];
		if (!ring->runs)
			continue;
		if (ring->polled && *deadline > v->now_ns + PH_VHOST_POLL_NS)
			*deadline = v->now_ns + PH_VHOST_POLL_NS;
		if ((due >> i & 1) || ring->polled)
			ph_vhost_serve(v, i, deadline);
	}
}

static int step(struct pagehint_vhost *v, uint64_t *deadline)
{
	struct pagehint_device_work work = { .struct_size = sizeof(work) };
	int r = look(v);
	if (r != 0) {
		v->stats.broken += r == -EPROTO;
		leave(v);
	}
	stop_closed(v);
	if (pagehint_device_step(v->device, v->now_ns, &work) == 0)
		ph_vhost_work(v, &work, deadline);
	serve_due(v, deadline);
	if (v->due != 0)
		*deadline = v->now_ns;
	if (v->ending)
		return end(v) == 0 ? -ENODEV : 0;
	if (v->is_parked && *deadline > v->now_ns + PH_VHOST_POLL_NS)
		*deadline = v->now_ns + PH_VHOST_POLL_NS;
	return watch(v);
}

int pagehint_vhost_step(struct pagehint_vhost *v, uint64_t now_ns, uint64_t *ret_deadline, uint32_t *ret_events)
{
	uint64_t deadline = UINT64_MAX;
	if (v == NULL || ret_deadline == NULL)
		return -EINVAL;
	if (v->inside)
		return -EDEADLK;
	v->inside = 1;
	v->now_ns = now_ns;
	v->events = 0;
	int r = step(v, &deadline);
	v->inside = 0;
	*ret_deadline = deadline;
	if (ret_events != NULL)
		*ret_events = v->events;
	return r;
}
