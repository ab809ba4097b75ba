#include <errno.h>

#include "vhost/session.h"

void ph_vhost_close(const struct pagehint_vhost *vhost, int fd)
{
	if (fd >= 0)
		(void)vhost->sys->close(vhost->sys->ctx, fd);
}

/* User-Mode Linux gives socket ends where others give eventfds; both take eight bytes. Neither is waited for. */
static int64_t poke(const struct pagehint_vhost *vhost, int fd, uint32_t is_socket, const void *bytes, size_t n)
{
	const struct ph_sys *sys = vhost->sys;
	return is_socket ? sys->send(sys->ctx, fd, bytes, n, NULL, 0) : sys->write(sys->ctx, fd, bytes, n);
}

static const uint64_t one = 1;

void ph_vhost_tell_queue(struct pagehint_vhost *vhost, uint32_t index)
{
	const struct ph_vhost_ring *ring = &vhost->rings[index];
	if (ring->call < 0)
		return;
	if (poke(vhost, ring->call, ring->call_is_socket, &one, sizeof(one)) == (int64_t)sizeof(one))
		vhost->stats.interrupts++;
	else
		vhost->stats.interrupts_lost++;
}

void ph_vhost_tell_config(struct pagehint_vhost *vhost)
{
	const uint32_t changed[3] = { PH_VHOST_BACKEND_CONFIG_CHANGE, PH_VHOST_VERSION, 0 };
	if (vhost->backend_chan < 0)
		return;
	if (poke(vhost, vhost->backend_chan, vhost->chan_is_socket, changed, sizeof(changed)) ==
	    (int64_t)sizeof(changed))
		vhost->stats.config_changes++;
	else
		vhost->stats.interrupts_lost++;
}

/* The guest broke the device: every queue's error descriptor says so. */
static void tell_broken(struct pagehint_vhost *vhost)
{
	for (uint32_t i = 0; i < PH_VHOST_QUEUES; i++)
		if (vhost->rings[i].err >= 0)
			(void)poke(vhost, vhost->rings[i].err, vhost->rings[i].err_is_socket, &one, sizeof(one));
}

/* How far each queue is, for the frontend's keeping. */
static void note(const struct pagehint_vhost *vhost)
{
	if (vhost->inflight.at == NULL)
		return;
	for (uint32_t i = 0; i < PH_VHOST_QUEUES; i++)
		if (vhost->rings[i].runs)
			ph_vhost_inflight_note(&vhost->inflight, i, vhost->features,
					       ph_vhost_used_index(&vhost->rings[i]));
}

void ph_vhost_work(struct pagehint_vhost *vhost, const struct pagehint_device_work *work, uint64_t *deadline)
{
	for (uint32_t i = 0; i < PH_VHOST_QUEUES; i++)
		if (work->interrupt >> i & 1)
			ph_vhost_tell_queue(vhost, i);
	if (work->events & PAGEHINT_DEVICE_EVENT_CONFIG)
		ph_vhost_tell_config(vhost);
	if (work->events & PAGEHINT_DEVICE_EVENT_NEEDS_RESET)
		tell_broken(vhost);
	vhost->events |= work->events;
	vhost->due |= work->more;
	if (work->deadline_ns < *deadline)
		*deadline = work->deadline_ns;
	note(vhost);
}

void ph_vhost_serve(struct pagehint_vhost *vhost, uint32_t index, uint64_t *deadline)
{
	struct pagehint_device_work work = { .struct_size = sizeof(work) };
	if (pagehint_device_queue_kick(vhost->device, index, vhost->now_ns, &work) == 0)
		ph_vhost_work(vhost, &work, deadline);
}
