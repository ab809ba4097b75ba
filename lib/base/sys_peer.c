#include "base/sys_peer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static int64_t result(int64_t value)
{
	return value < 0 ? -errno : value;
}

int ph_peer_map_shared(void *ctx, int fd, size_t length, uint64_t offset, void **ret_addr)
{
	(void)ctx;
	void *p = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, (off_t)offset);
	if (p == MAP_FAILED)
		return -errno;
	*ret_addr = p;
	return 0;
}

int ph_peer_memfd(void *ctx, const char *name, uint64_t length)
{
	(void)ctx;
	int fd = (int)result(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING)), r;
	if (fd < 0)
		return fd;
	do
		r = (int)result(ftruncate(fd, (off_t)length));
	while (r == -EINTR);
	if (r == 0)
		r = (int)result(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL));
	if (r == 0)
		return fd;
	close(fd);
	return r;
}

/* Takes up to max descriptors out of a control message into fds[*n..], closes the others. Returns how many there were. */
static uint32_t take_fds(struct cmsghdr *c, int *fds, uint32_t max, uint32_t *n)
{
	uint32_t count = (uint32_t)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	for (uint32_t i = 0; i < count; i++) {
		int fd;
		memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
		if (*n < max)
			fds[(*n)++] = fd;
		else
			close(fd);
	}
	return count;
}

#define SCM_MAX_FDS 253 /* the kernel sends no more at once */

int64_t ph_peer_receive(void *ctx, int fd, void *buffer, size_t length, int *fds, uint32_t max_fds, uint32_t *ret_fds)
{
	(void)ctx;
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(SCM_MAX_FDS * sizeof(int))];
	} control;
	struct iovec iov = { buffer, length };
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
	};
	uint32_t came = 0, taken = 0;
	int64_t r;
	do
		r = result(recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC));
	while (r == -EINTR);
	if (r < 0)
		return r;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c != NULL; c = CMSG_NXTHDR(&m, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
			came += take_fds(c, fds, max_fds, &taken);
	*ret_fds = taken;
	return came > taken || (m.msg_flags & MSG_CTRUNC) != 0 ? -EMSGSIZE : r;
}

int64_t ph_peer_send(void *ctx, int fd, const void *buffer, size_t length, const int *fds, uint32_t n)
{
	(void)ctx;
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(SCM_MAX_FDS * sizeof(int))];
	} control;
	struct iovec iov;
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	int64_t r;
	memcpy(&iov.iov_base, &buffer, sizeof(buffer)); /* the kernel only reads it */
	iov.iov_len = length;
	if (n > SCM_MAX_FDS)
		return -EINVAL;
	if (n > 0) {
		memset(&control, 0, sizeof(control));
		m.msg_control = &control;
		m.msg_controllen = CMSG_SPACE(n * sizeof(int));
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n * sizeof(int));
	}
	do
		r = result(sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL));
	while (r == -EINTR);
	return r;
}

int ph_peer_nonblock(void *ctx, int fd)
{
	(void)ctx;
	int flags = (int)result(fcntl(fd, F_GETFL));
	return flags < 0 ? flags : (int)result(fcntl(fd, F_SETFL, flags | O_NONBLOCK));
}

int ph_peer_epoll_new(void *ctx)
{
	(void)ctx;
	return (int)result(epoll_create1(EPOLL_CLOEXEC));
}

int ph_peer_epoll_set(void *ctx, int epoll, int op, int fd, uint32_t events, uint64_t data)
{
	(void)ctx;
	struct epoll_event e = { .events = events, .data = { .u64 = data } };
	return (int)result(epoll_ctl(epoll, op, fd, &e));
}

int ph_peer_epoll_look(void *ctx, int epoll, struct epoll_event *events, int max)
{
	(void)ctx;
	int r = (int)result(epoll_wait(epoll, events, max, 0));
	return r == -EINTR ? 0 : r;
}
