#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "vhost/session.h"

void ph_vhost_ring_fd(struct pagehint_vhost *vhost, int *which, int fd)
{
	if (*which >= 0) {
		/* whoever gave it may have kept a copy: only this takes it out of the set */
		(void)vhost->sys->epoll_set(vhost->sys->ctx, vhost->epoll, EPOLL_CTL_DEL, *which, 0, 0);
		ph_vhost_close(vhost, *which);
	}
	*which = fd;
}

void ph_vhost_rings_forget(struct pagehint_vhost *vhost)
{
	for (uint32_t i = 0; i < PH_VHOST_QUEUES; i++) {
		struct ph_vhost_ring *ring = &vhost->rings[i];
		ph_vhost_ring_fd(vhost, &ring->kick, -1);
		ph_vhost_ring_fd(vhost, &ring->call, -1);
		ph_vhost_ring_fd(vhost, &ring->err, -1);
		*ring = (struct ph_vhost_ring) { .kick = -1, .call = -1, .err = -1 };
	}
}

int ph_vhost_ring_stop(struct pagehint_vhost *vhost, uint32_t index)
{
	struct ph_vhost_ring *ring = &vhost->rings[index];
	if (!ring->runs)
		return 0;
	int r = pagehint_device_queue_stop(vhost->device, index, &ring->base);
	if (r == -EAGAIN || r == -EDEADLK)
		return -EAGAIN;
	ring->runs = 0;
	ring->used = NULL;
	return 0;
}

int ph_vhost_rings_stop(struct pagehint_vhost *vhost)
{
	int result = 0;
	for (uint32_t i = 0; i < PH_VHOST_QUEUES; i++)
		if (ph_vhost_ring_stop(vhost, i) != 0)
			result = -EAGAIN;
	return result;
}

/* Where [user, user + bytes) of the frontend is in this process. */
static int find(const struct pagehint_vhost *vhost, uint64_t user, uint64_t bytes, void **ret_at)
{
	uint64_t guest;
	int r = ph_vhost_memory_guest(&vhost->memory, user, bytes, &guest);
	return r != 0 ? r : ph_vhost_memory_host(&vhost->memory, guest, bytes, ret_at);
}

static int place(const struct pagehint_vhost *vhost, const struct ph_vhost_ring *ring,
		 struct pagehint_device_queue *queue)
{
	const uint32_t split = 0, n = ring->size;
	int r = find(vhost, ring->addr.desc, ph_ring_desc_area_bytes(split, n), &queue->desc);
	if (r == 0)
		r = find(vhost, ring->addr.avail, ph_ring_driver_area_bytes(split, n), &queue->driver);
	if (r == 0)
		r = find(vhost, ring->addr.used, ph_ring_device_area_bytes(split, n), &queue->device);
	return r;
}

/* The state is of a driver that accepted something else: it is not the one that is here now. */
static int is_of_this_driver(struct pagehint_vhost *vhost)
{
	uint64_t bits = vhost->features & ~PH_VHOST_F_PROTOCOL;
	if (pagehint_device_negotiated(vhost->device) == bits)
		return 1;
	(void)!pagehint_device_reset(vhost->device); /* nothing runs yet */
	(void)!pagehint_device_set_features(vhost->device, bits);
	return 0;
}

/*
 * What the last process left, as soon as there is memory for it. It may have died between an answer and the next saved state:
 * a poison that this frontend has said itself is the newer one.
 */
static void load(struct pagehint_vhost *vhost)
{
	uint32_t said = 0;
	if (vhost->state == NULL)
		return;
	(void)!pagehint_device_config_read(vhost->device, PAGEHINT_BALLOON_CONFIG_POISON_VAL, &said, sizeof(said));
	if (pagehint_device_load(vhost->device, vhost->now_ns, vhost->state, vhost->state_bytes) == 0 &&
	    is_of_this_driver(vhost))
		vhost->met = UINT32_MAX;
	else
		vhost->stats.states_refused++;
	if (said != 0)
		(void)!pagehint_device_config_write(vhost->device, vhost->now_ns, PAGEHINT_BALLOON_CONFIG_POISON_VAL,
						    &said, sizeof(said));
	free(vhost->state);
	vhost->state = NULL;
	ph_vhost_tell_config(vhost); /* perhaps it was not told of the last change */
}

/*
 * A ring that was used before, by a driver that we have never met: a predecessor died, and with it what the guest's poison was.
 * Reports are then acknowledged and kept, as for any poison, until the driver begins anew.
 */
static void beware_of_poison(struct pagehint_vhost *vhost, uint32_t index)
{
	const uint32_t some = UINT32_MAX;
	uint16_t used = ph_vhost_used_index(&vhost->rings[index]);
	if (used != 0 && (vhost->met >> index & 1) == 0 && (vhost->features & PAGEHINT_BALLOON_F_PAGE_POISON) != 0)
		(void)!pagehint_device_config_write(vhost->device, vhost->now_ns, PAGEHINT_BALLOON_CONFIG_POISON_VAL,
						    &some, sizeof(some));
	vhost->met |= 1u << index;
}

static int start(struct pagehint_vhost *vhost, uint32_t index)
{
	struct ph_vhost_ring *ring = &vhost->rings[index];
	struct pagehint_device_queue queue = { .struct_size = sizeof(queue),
					       .size = ring->size,
					       .base = ring->base,
					       .flags = PAGEHINT_DEVICE_QUEUE_FROM_USED };
	int r = place(vhost, ring, &queue);
	if (r != 0)
		return r;
	load(vhost);
	r = pagehint_device_queue_start(vhost->device, index, &queue);
	if (r != 0)
		return r;
	ring->runs = 1;
	ring->used = queue.device;
	beware_of_poison(vhost, index);
	vhost->due |= 1u << index;
	ph_vhost_tell_queue(vhost, index); /* perhaps the last interrupt was lost with a process that died */
	return 0;
}

int ph_vhost_ring_sync(struct pagehint_vhost *vhost, uint32_t index)
{
	struct ph_vhost_ring *ring = &vhost->rings[index];
	/* without protocol features nobody says that a ring is enabled */
	int enabled = ring->enabled || (vhost->features & PH_VHOST_F_PROTOCOL) == 0;
	uint32_t wanted = ring->started && ring->placed && ring->size != 0 && enabled && vhost->memory.n != 0;
	if (wanted == ring->runs)
		return 0;
	if (!wanted)
		return ph_vhost_ring_stop(vhost, index);
	ring->refused = start(vhost, index);
	return 0;
}

int ph_vhost_rings_sync(struct pagehint_vhost *vhost)
{
	int result = 0;
	for (uint32_t i = 0; i < PH_VHOST_QUEUES; i++)
		if (ph_vhost_ring_sync(vhost, i) != 0)
			result = -EAGAIN;
	return result;
}
