/* What the messages about rings do: they say what is wanted, and leave it to ph_vhost_ring_sync. */
#include <errno.h>
#include <sys/epoll.h>

#include "vhost/session.h"

/* The ring of a message whose first word is an index; NULL: there is no such. */
static struct ph_vhost_ring *ring_of(struct pagehint_vhost *v, uint64_t index)
{
	return index < PH_VHOST_QUEUES ? &v->rings[index] : NULL;
}

int ph_vhost_on_ring_state(struct pagehint_vhost *v, struct ph_vhost_message *m)
{
	struct ph_vhost_vring_state said;
	memcpy(&said, m->payload, sizeof(said));
	struct ph_vhost_ring *ring = ring_of(v, said.index);
	if (ring == NULL)
		return -EINVAL;
	switch (m->request) {
	case PH_VHOST_SET_VRING_NUM:
		if (said.num == 0 || said.num > PH_RING_SIZE_MAX || (said.num & (said.num - 1)) != 0)
			return -EINVAL;
		if (ph_vhost_ring_stop(v, said.index) != 0)
			return -EAGAIN;
		ring->size = said.num;
		break;
	case PH_VHOST_SET_VRING_BASE:
		if (said.num > UINT16_MAX)
			return -EINVAL;
		if (ph_vhost_ring_stop(v, said.index) != 0)
			return -EAGAIN;
		ring->base = said.num;
		break;
	default: /* ENABLE */
		ring->enabled = said.num != 0;
		break;
	}
	return ph_vhost_ring_sync(v, said.index);
}

int ph_vhost_on_ring_addr(struct pagehint_vhost *v, struct ph_vhost_message *m)
{
	struct ph_vhost_vring_addr said;
	memcpy(&said, m->payload, sizeof(said));
	struct ph_vhost_ring *ring = ring_of(v, said.index);
	if (ring == NULL)
		return -EINVAL;
	if (ph_vhost_ring_stop(v, said.index) != 0)
		return -EAGAIN;
	ring->addr = said;
	ring->placed = 1;
	return ph_vhost_ring_sync(v, said.index);
}

int ph_vhost_on_ring_base(struct pagehint_vhost *v, struct ph_vhost_message *m)
{
	struct ph_vhost_vring_state said;
	memcpy(&said, m->payload, sizeof(said));
	struct ph_vhost_ring *ring = ring_of(v, said.index);
	if (ring == NULL)
		return -EINVAL;
	if (ph_vhost_ring_stop(v, said.index) != 0)
		return -EAGAIN;
	ring->started = 0;
	ph_vhost_ring_fd(v, &ring->kick, -1);
	said.num = ring->base;
	return ph_vhost_answer(v, m->request, &said, sizeof(said));
}

int ph_vhost_fd_kind(const struct pagehint_vhost *v, int fd)
{
	struct stat st;
	int r = v->sys->fstat(v->sys->ctx, fd, &st);
	if (r != 0)
		return r;
	if (S_ISSOCK(st.st_mode))
		return 1;
	if (!S_ISFIFO(st.st_mode) && (st.st_mode & S_IFMT) != 0) /* anonymous inodes have no type */
		return -EINVAL;
	return v->sys->nonblock(v->sys->ctx, fd);
}

static int take_kick(struct pagehint_vhost *v, struct ph_vhost_ring *ring, uint32_t index, int fd)
{
	if (fd >= 0) {
		int r = v->sys->epoll_set(v->sys->ctx, v->epoll, EPOLL_CTL_ADD, fd, EPOLLIN, index);
		if (r != 0)
			return r;
	}
	ph_vhost_ring_fd(v, &ring->kick, fd);
	ring->polled = fd < 0;
	ring->started = 1;
	v->ran = 1;
	return 0;
}

int ph_vhost_on_ring_fd(struct pagehint_vhost *v, struct ph_vhost_message *m)
{
	uint64_t said = ph_vhost_u64(m);
	uint32_t index = (uint32_t)(said & PH_VHOST_VRING_INDEX);
	struct ph_vhost_ring *ring = ring_of(v, index);
	int fd = m->fds_n != 0 ? m->fds[0] : -1, is_socket = 0, r = 0;
	if (ring == NULL)
		return -EINVAL;
	if (fd >= 0)
		is_socket = ph_vhost_fd_kind(v, fd);
	if (is_socket < 0)
		return is_socket;
	switch (m->request) {
	case PH_VHOST_SET_VRING_KICK:
		r = take_kick(v, ring, index, fd);
		ring->kick_is_socket = r == 0 ? (uint32_t)is_socket : ring->kick_is_socket;
		break;
	case PH_VHOST_SET_VRING_CALL:
		ph_vhost_ring_fd(v, &ring->call, fd);
		ring->call_is_socket = (uint32_t)is_socket;
		break;
	default: /* ERR */
		ph_vhost_ring_fd(v, &ring->err, fd);
		ring->err_is_socket = (uint32_t)is_socket;
		break;
	}
	if (r != 0)
		return r;
	m->fds_n = 0;
	return ph_vhost_ring_sync(v, index);
}
