#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/patience.h"
#include "base/sys_peer.h"
#define USERFAULTFD_NEW _IO(0xAA, 0x00) /* USERFAULTFD_IOC_NEW of newer headers */

static int64_t result(int64_t value)
{
	return value < 0 ? -errno : value;
}

static int64_t real_getpid(void *ctx)
{
	(void)ctx;
	return getpid();
}

static int64_t real_clock_ns(void *ctx)
{
	(void)ctx;
	struct timespec t;
	if (clock_gettime(CLOCK_MONOTONIC, &t) < 0)
		return -errno;
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int real_madvise(void *ctx, void *addr, size_t length, int advice)
{
	(void)ctx;
	return (int)result(madvise(addr, length, advice));
}

static int64_t real_process_madvise(void *ctx, int pidfd, const struct iovec *iov, size_t n, int advice)
{
	(void)ctx;
	return result(syscall(SYS_process_madvise, pidfd, iov, n, advice, 0));
}

static int real_pidfd_open(void *ctx, int64_t pid)
{
	(void)ctx;
	return (int)result(syscall(SYS_pidfd_open, (pid_t)pid, 0));
}

static int real_mincore(void *ctx, void *addr, size_t length, unsigned char *in_core)
{
	(void)ctx;
	return (int)result(mincore(addr, length, in_core));
}

static int real_fallocate(void *ctx, int fd, int mode, uint64_t offset, uint64_t length)
{
	(void)ctx;
	int r;
	do
		r = (int)result(fallocate(fd, mode, (off_t)offset, (off_t)length));
	while (r == -EINTR);
	return r;
}

static int real_mmap_fixed_anon(void *ctx, void *addr, size_t length)
{
	(void)ctx;
	void *p = mmap(addr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
		       -1, 0);
	return p == MAP_FAILED ? -errno : 0;
}

static int real_open(void *ctx, const char *path, int flags)
{
	(void)ctx;
	int r;
	do
		r = (int)result(open(path, flags | O_CLOEXEC));
	while (r == -EINTR);
	return r;
}

static int64_t real_read(void *ctx, int fd, void *buffer, size_t length)
{
	(void)ctx;
	int64_t r;
	do
		r = result(read(fd, buffer, length));
	while (r == -EINTR);
	return r;
}

static int64_t real_pread(void *ctx, int fd, void *buffer, size_t length, uint64_t offset)
{
	(void)ctx;
	int64_t r;
	do
		r = result(pread(fd, buffer, length, (off_t)offset));
	while (r == -EINTR);
	return r;
}

static int64_t real_lseek(void *ctx, int fd, int64_t offset, int whence)
{
	(void)ctx;
	return result(lseek(fd, (off_t)offset, whence));
}

static int real_close(void *ctx, int fd)
{
	(void)ctx;
	return (int)result(close(fd));
}

static int real_fstat(void *ctx, int fd, struct stat *st)
{
	(void)ctx;
	return (int)result(fstat(fd, st));
}

static int real_fstatfs(void *ctx, int fd, struct statfs *st)
{
	(void)ctx;
	int r;
	do
		r = (int)result(fstatfs(fd, st));
	while (r == -EINTR);
	return r;
}

static int64_t real_page_size(void *ctx)
{
	(void)ctx;
	return result(sysconf(_SC_PAGESIZE));
}

static int real_poll_pri(void *ctx, int fd)
{
	(void)ctx;
	struct pollfd p = { .fd = fd, .events = POLLPRI, .revents = 0 };
	int r = (int)result(poll(&p, 1, 0));
	if (r == -EINTR)
		return 0;
	if (r > 0 && (p.revents & (POLLERR | POLLNVAL)) != 0)
		return -EIO; /* the event source is gone: no news, for ever */
	return r <= 0 ? r : (p.revents & POLLPRI) != 0;
}

static int real_poll_in(void *ctx, int fd)
{
	(void)ctx;
	struct pollfd p = { .fd = fd, .events = POLLIN, .revents = 0 };
	int r = (int)result(poll(&p, 1, 0));
	return r == -EINTR ? 0 : r;
}

static int real_userfaultfd(void *ctx, int flags)
{
	(void)ctx;
	int fd = (int)result(syscall(SYS_userfaultfd, flags));
	if (fd != -EPERM && fd != -ENOSYS)
		return fd;
	int refused = fd, device = real_open(NULL, "/dev/userfaultfd", O_RDWR);
	if (device < 0)
		return refused;
	fd = (int)result(ioctl(device, USERFAULTFD_NEW, flags));
	(void)close(device);
	return fd;
}

static int real_mprotect_none(void *ctx, void *addr, size_t length)
{
	(void)ctx;
	return (int)result(mprotect(addr, length, PROT_NONE));
}

static void *real_map_memory(void *ctx, size_t length)
{
	(void)ctx;
	void *p = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

static void real_unmap_memory(void *ctx, void *addr, size_t length)
{
	(void)ctx;
	munmap(addr, length);
}

static int64_t real_write(void *ctx, int fd, const void *buffer, size_t length)
{
	(void)ctx;
	int64_t r;
	do
		r = result(write(fd, buffer, length));
	while (r == -EINTR);
	return r;
}

static int64_t real_ioctl(void *ctx, int fd, unsigned long request, void *arg)
{
	(void)ctx;
	return result(syscall(SYS_ioctl, fd, request, arg)); /* the C library's cuts the result to an int */
}

static int real_map_file(void *ctx, int fd, size_t length, void **ret_addr)
{
	return ph_peer_map_shared(ctx, fd, length, 0, ret_addr);
}

const struct ph_sys ph_sys_real = {
	.ctx = NULL,
	.getpid = real_getpid,
	.clock_ns = real_clock_ns,
	.madvise = real_madvise,
	.process_madvise = real_process_madvise,
	.pidfd_open = real_pidfd_open,
	.mincore = real_mincore,
	.fallocate = real_fallocate,
	.mmap_fixed_anon = real_mmap_fixed_anon,
	.open = real_open,
	.read = real_read,
	.pread = real_pread,
	.lseek = real_lseek,
	.close = real_close,
	.fstat = real_fstat,
	.fstatfs = real_fstatfs,
	.page_size = real_page_size,
	.poll_pri = real_poll_pri,
	.poll_in = real_poll_in,
	.userfaultfd = real_userfaultfd,
	.mprotect_none = real_mprotect_none,
	.map_memory = real_map_memory,
	.unmap_memory = real_unmap_memory,
	.map_shared = ph_peer_map_shared,
	.memfd = ph_peer_memfd,
	.receive = ph_peer_receive,
	.send = ph_peer_send,
	.nonblock = ph_peer_nonblock,
	.epoll_new = ph_peer_epoll_new,
	.epoll_set = ph_peer_epoll_set,
	.epoll_look = ph_peer_epoll_look,
	.write = real_write,
	.ioctl = real_ioctl,
	.map_file = real_map_file,
	.open_within = ph_sys_open_within,
};
