#include "pager/uffd.h"

#include <errno.h>
#include <fcntl.h>

/* what newer headers have */
#define NR_CONTINUE 0x07
#define NR_POISON 0x08
#define NR_MOVE 0x05
#define MOVE_DONTWAKE (UINT64_C(1) << 0)
#define MOVE_ALLOW_SRC_HOLES (UINT64_C(1) << 1)
#define CONTINUE_MODE_WP (UINT64_C(1) << 1)

struct poison {
	struct uffdio_range range;
	uint64_t mode;
	int64_t updated;
};

struct move {
	uint64_t dst, src, len, mode;
	int64_t moved;
};

#define IOCTL_POISON _IOWR(UFFDIO, NR_POISON, struct poison)
#define IOCTL_MOVE _IOWR(UFFDIO, NR_MOVE, struct move)

int ph_uffd_open(const struct ph_sys *sys, uint64_t need, uint64_t want, uint64_t *ret_features)
{
	/* it can be agreed upon once: a first one tells what there is */
	struct uffdio_api api = { .api = UFFD_API };
	int fd = sys->userfaultfd(sys->ctx, O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return fd;
	int r = (int)sys->ioctl(sys->ctx, fd, UFFDIO_API, &api);
	(void)sys->close(sys->ctx, fd);
	if (r < 0)
		return r;
	if ((api.features & need) != need)
		return -EOPNOTSUPP;
	fd = sys->userfaultfd(sys->ctx, O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return fd;
	api = (struct uffdio_api) { .api = UFFD_API, .features = (api.features & want) | need };
	*ret_features = api.features;
	r = (int)sys->ioctl(sys->ctx, fd, UFFDIO_API, &api);
	if (r == 0)
		return fd;
	(void)sys->close(sys->ctx, fd);
	return r;
}

int ph_uffd_register(const struct ph_sys *sys, int fd, uint64_t addr, uint64_t bytes, uint64_t mode, uint32_t *ret_can)
{
	struct uffdio_register all = { .range = { addr, bytes }, .mode = mode };
	int r = (int)sys->ioctl(sys->ctx, fd, UFFDIO_REGISTER, &all);
	if (r < 0)
		return r;
	*ret_can = ((all.ioctls >> _UFFDIO_COPY & 1) != 0 ? PH_UFFD_CAN_COPY : 0) |
		   ((all.ioctls >> _UFFDIO_ZEROPAGE & 1) != 0 ? PH_UFFD_CAN_ZERO : 0) |
		   ((all.ioctls >> NR_CONTINUE & 1) != 0 ? PH_UFFD_CAN_CONTINUE : 0) |
		   ((all.ioctls >> _UFFDIO_WRITEPROTECT & 1) != 0 ? PH_UFFD_CAN_PROTECT : 0) |
		   ((all.ioctls >> NR_POISON & 1) != 0 ? PH_UFFD_CAN_POISON : 0) |
		   ((all.ioctls >> NR_MOVE & 1) != 0 ? PH_UFFD_CAN_MOVE : 0);
	return 0;
}

int ph_uffd_unregister(const struct ph_sys *sys, int fd, uint64_t addr, uint64_t bytes)
{
	struct uffdio_range range = { addr, bytes };
	return (int)sys->ioctl(sys->ctx, fd, UFFDIO_UNREGISTER, &range);
}

/* Newer kernels say -EAGAIN in the count itself, older ones leave it 0: neither is progress. No call does more than asked. */
static int settle(int r, int64_t count, uint64_t bytes, uint64_t *ret_done)
{
	*ret_done = count > 0 ? (uint64_t)count : 0;
	if (*ret_done > bytes)
		*ret_done = bytes;
	if (r < 0)
		return r == -EINTR ? -EAGAIN : r;
	if (*ret_done == 0) /* no error and nothing done: nobody may go round for ever */
		return count < 0 && count > -4096 ? (int)count : -EIO;
	return *ret_done < bytes ? -EAGAIN : 0;
}

int ph_uffd_copy(const struct ph_sys *sys, int fd, uint64_t to, const void *from, uint64_t bytes, uint32_t mode,
		 uint64_t *ret_done)
{
	struct uffdio_copy c = {
		.dst = to,
		.src = (uintptr_t)from,
		.len = bytes,
		.mode = ((mode & PH_UFFD_DONTWAKE) != 0 ? UFFDIO_COPY_MODE_DONTWAKE : 0) |
			((mode & PH_UFFD_PROTECT) != 0 ? UFFDIO_COPY_MODE_WP : 0),
	};
	int r = (int)sys->ioctl(sys->ctx, fd, UFFDIO_COPY, &c);
	return settle(r, c.copy, bytes, ret_done);
}

int ph_uffd_zero(const struct ph_sys *sys, int fd, uint64_t to, uint64_t bytes, uint32_t mode, uint64_t *ret_done)
{
	struct uffdio_zeropage z = {
		.range = { to, bytes },
		.mode = (mode & PH_UFFD_DONTWAKE) != 0 ? UFFDIO_ZEROPAGE_MODE_DONTWAKE : 0,
	};
	int r = (int)sys->ioctl(sys->ctx, fd, UFFDIO_ZEROPAGE, &z);
	return settle(r, z.zeropage, bytes, ret_done);
}

int ph_uffd_continue(const struct ph_sys *sys, int fd, uint64_t to, uint64_t bytes, uint32_t mode, uint64_t *ret_done)
{
	struct uffdio_continue c = {
		.range = { to, bytes },
		.mode = ((mode & PH_UFFD_DONTWAKE) != 0 ? UFFDIO_CONTINUE_MODE_DONTWAKE : 0) |
			((mode & PH_UFFD_PROTECT) != 0 ? CONTINUE_MODE_WP : 0),
	};
	int r = (int)sys->ioctl(sys->ctx, fd, UFFDIO_CONTINUE, &c);
	return settle(r, c.mapped, bytes, ret_done);
}

int ph_uffd_poison(const struct ph_sys *sys, int fd, uint64_t to, uint64_t bytes, uint32_t mode, uint64_t *ret_done)
{
	struct poison p = { .range = { to, bytes }, .mode = (mode & PH_UFFD_DONTWAKE) != 0 ? 1 : 0 };
	int r = (int)sys->ioctl(sys->ctx, fd, IOCTL_POISON, &p);
	return settle(r, p.updated, bytes, ret_done);
}

int ph_uffd_move(const struct ph_sys *sys, int fd, uint64_t to, void *from, uint64_t bytes, uint32_t mode,
		 uint64_t *ret_done)
{
	struct move m = {
		.dst = to,
		.src = (uintptr_t)from,
		.len = bytes,
		.mode = (mode & PH_UFFD_DONTWAKE) != 0 ? MOVE_DONTWAKE : 0,
	};
	int r = (int)sys->ioctl(sys->ctx, fd, IOCTL_MOVE, &m);
	return settle(r, m.moved, bytes, ret_done);
}

int ph_uffd_protect(const struct ph_sys *sys, int fd, uint64_t addr, uint64_t bytes, uint32_t on)
{
	struct uffdio_writeprotect w = { .range = { addr, bytes }, .mode = on != 0 ? UFFDIO_WRITEPROTECT_MODE_WP : 0 };
	int r = (int)sys->ioctl(sys->ctx, fd, UFFDIO_WRITEPROTECT, &w);
	return r == -EINTR ? -EAGAIN : r;
}

int ph_uffd_wake(const struct ph_sys *sys, int fd, uint64_t addr, uint64_t bytes)
{
	struct uffdio_range range = { addr, bytes };
	int r, tries = 0;
	do /* a waiter that is not woken waits for ever: nothing that passes may come between */
		r = (int)sys->ioctl(sys->ctx, fd, UFFDIO_WAKE, &range);
	while (r < 0 && r != -EINVAL && r != -EBADF && ++tries < 16);
	return r;
}
