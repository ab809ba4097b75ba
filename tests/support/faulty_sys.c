#include "support/faulty_sys.h"

#include <string.h>

/* beside these the seam has its ctx, and unmapping */
_Static_assert(sizeof(struct ph_sys) == (FAULTY_CALLS + 2) * sizeof(void *), "a call of the seam is missing here");

static const char *const names[FAULTY_CALLS] = {
	[FAULTY_GETPID] = "getpid",
	[FAULTY_CLOCK] = "clock_ns",
	[FAULTY_MADVISE] = "madvise",
	[FAULTY_PROCESS_MADVISE] = "process_madvise",
	[FAULTY_PIDFD_OPEN] = "pidfd_open",
	[FAULTY_MINCORE] = "mincore",
	[FAULTY_FALLOCATE] = "fallocate",
	[FAULTY_MMAP_FIXED_ANON] = "mmap_fixed_anon",
	[FAULTY_OPEN] = "open",
	[FAULTY_READ] = "read",
	[FAULTY_PREAD] = "pread",
	[FAULTY_LSEEK] = "lseek",
	[FAULTY_CLOSE] = "close",
	[FAULTY_FSTAT] = "fstat",
	[FAULTY_FSTATFS] = "fstatfs",
	[FAULTY_PAGE_SIZE] = "page_size",
	[FAULTY_POLL_PRI] = "poll_pri",
	[FAULTY_POLL_IN] = "poll_in",
	[FAULTY_USERFAULTFD] = "userfaultfd",
	[FAULTY_MPROTECT_NONE] = "mprotect_none",
	[FAULTY_MAP_MEMORY] = "map_memory",
	[FAULTY_MAP_SHARED] = "map_shared",
	[FAULTY_MEMFD] = "memfd",
	[FAULTY_RECEIVE] = "receive",
	[FAULTY_SEND] = "send",
	[FAULTY_NONBLOCK] = "nonblock",
	[FAULTY_EPOLL_NEW] = "epoll_new",
	[FAULTY_EPOLL_SET] = "epoll_set",
	[FAULTY_EPOLL_LOOK] = "epoll_look",
	[FAULTY_WRITE] = "write",
	[FAULTY_IOCTL] = "ioctl",
	[FAULTY_MAP_FILE] = "map_file",
	[FAULTY_OPEN_WITHIN] = "open_within",
};

const char *faulty_call_name(enum faulty_call call)
{
	return call < FAULTY_CALLS ? names[call] : "?";
}

static int strikes(void *ctx, enum faulty_call call)
{
	struct faulty_sys *f = ctx;
	atomic_fetch_add(&f->calls[call], 1);
	return f->strike == NULL ? 0 : f->strike(f->ctx, call);
}

static int opened(void *ctx, int fd)
{
	struct faulty_sys *f = ctx;
	atomic_fetch_add(&f->fds, fd >= 0);
	return fd;
}

static int mapped(void *ctx, int r, size_t length)
{
	struct faulty_sys *f = ctx;
	atomic_fetch_add(&f->mapped, r == 0 ? (int64_t)length : 0);
	return r;
}

static const struct ph_sys *below(void *ctx)
{
	return ((struct faulty_sys *)ctx)->below;
}

#define BELOW below(ctx)->ctx
/* [function] a call that changes no account: its parameters, and how they are handed on */
#define PLAIN(type, function, call, parameters, ...)                                 \
	static type f_##function parameters                                          \
	{                                                                            \
		int error = strikes(ctx, call);                                      \
		return error != 0 ? (type)error : below(ctx)->function(__VA_ARGS__); \
	}
/* [function] a call that opens a descriptor */
#define OPENS(function, call, parameters, ...)                                              \
	static int f_##function parameters                                                  \
	{                                                                                   \
		int error = strikes(ctx, call);                                             \
		return error != 0 ? error : opened(ctx, below(ctx)->function(__VA_ARGS__)); \
	}
/* [function] a call that maps `length` bytes */
#define MAPS(function, call, parameters, ...)                                                       \
	static int f_##function parameters                                                          \
	{                                                                                           \
		int error = strikes(ctx, call);                                                     \
		return error != 0 ? error : mapped(ctx, below(ctx)->function(__VA_ARGS__), length); \
	}

PLAIN(int64_t, getpid, FAULTY_GETPID, (void *ctx), BELOW)
PLAIN(int64_t, clock_ns, FAULTY_CLOCK, (void *ctx), BELOW)
PLAIN(int, madvise, FAULTY_MADVISE, (void *ctx, void *addr, size_t length, int advice), BELOW, addr, length, advice)
PLAIN(int64_t, process_madvise, FAULTY_PROCESS_MADVISE,
      (void *ctx, int pidfd, const struct iovec *iov, size_t n, int advice), BELOW, pidfd, iov, n, advice)
OPENS(pidfd_open, FAULTY_PIDFD_OPEN, (void *ctx, int64_t pid), BELOW, pid)
PLAIN(int, mincore, FAULTY_MINCORE, (void *ctx, void *addr, size_t length, unsigned char *in_core), BELOW, addr, length,
      in_core)
PLAIN(int, fallocate, FAULTY_FALLOCATE, (void *ctx, int fd, int mode, uint64_t offset, uint64_t length), BELOW, fd,
      mode, offset, length)
PLAIN(int, mmap_fixed_anon, FAULTY_MMAP_FIXED_ANON, (void *ctx, void *addr, size_t length), BELOW, addr, length)
OPENS(open, FAULTY_OPEN, (void *ctx, const char *path, int flags), BELOW, path, flags)
PLAIN(int64_t, read, FAULTY_READ, (void *ctx, int fd, void *buffer, size_t length), BELOW, fd, buffer, length)
PLAIN(int64_t, pread, FAULTY_PREAD, (void *ctx, int fd, void *buffer, size_t length, uint64_t offset), BELOW, fd,
      buffer, length, offset)
PLAIN(int64_t, lseek, FAULTY_LSEEK, (void *ctx, int fd, int64_t offset, int whence), BELOW, fd, offset, whence)
PLAIN(int, fstat, FAULTY_FSTAT, (void *ctx, int fd, struct stat *st), BELOW, fd, st)
PLAIN(int, fstatfs, FAULTY_FSTATFS, (void *ctx, int fd, struct statfs *st), BELOW, fd, st)
PLAIN(int64_t, page_size, FAULTY_PAGE_SIZE, (void *ctx), BELOW)
PLAIN(int, poll_pri, FAULTY_POLL_PRI, (void *ctx, int fd), BELOW, fd)
PLAIN(int, poll_in, FAULTY_POLL_IN, (void *ctx, int fd), BELOW, fd)
OPENS(userfaultfd, FAULTY_USERFAULTFD, (void *ctx, int flags), BELOW, flags)
PLAIN(int, mprotect_none, FAULTY_MPROTECT_NONE, (void *ctx, void *addr, size_t length), BELOW, addr, length)
MAPS(map_shared, FAULTY_MAP_SHARED, (void *ctx, int fd, size_t length, uint64_t offset, void **ret_addr), BELOW, fd,
     length, offset, ret_addr)
OPENS(memfd, FAULTY_MEMFD, (void *ctx, const char *name, uint64_t length), BELOW, name, length)
PLAIN(int64_t, send, FAULTY_SEND, (void *ctx, int fd, const void *buffer, size_t length, const int *fds, uint32_t n),
      BELOW, fd, buffer, length, fds, n)
PLAIN(int, nonblock, FAULTY_NONBLOCK, (void *ctx, int fd), BELOW, fd)
OPENS(epoll_new, FAULTY_EPOLL_NEW, (void *ctx), BELOW)
PLAIN(int, epoll_set, FAULTY_EPOLL_SET, (void *ctx, int epoll, int op, int fd, uint32_t events, uint64_t data), BELOW,
      epoll, op, fd, events, data)
PLAIN(int, epoll_look, FAULTY_EPOLL_LOOK, (void *ctx, int epoll, struct epoll_event *events, int max), BELOW, epoll,
      events, max)
PLAIN(int64_t, write, FAULTY_WRITE, (void *ctx, int fd, const void *buffer, size_t length), BELOW, fd, buffer, length)
PLAIN(int64_t, ioctl, FAULTY_IOCTL, (void *ctx, int fd, unsigned long request, void *arg), BELOW, fd, request, arg)
MAPS(map_file, FAULTY_MAP_FILE, (void *ctx, int fd, size_t length, void **ret_addr), BELOW, fd, length, ret_addr)
OPENS(open_within, FAULTY_OPEN_WITHIN, (void *ctx, const char *path, int flags, int64_t timeout_ns), BELOW, path, flags,
      timeout_ns)

static int f_close(void *ctx, int fd)
{
	int error = strikes(ctx, FAULTY_CLOSE), r = below(ctx)->close(BELOW, fd);
	atomic_fetch_sub(&((struct faulty_sys *)ctx)->fds, 1);
	return error != 0 ? error : r;
}

static void *f_map_memory(void *ctx, size_t length)
{
	void *p = strikes(ctx, FAULTY_MAP_MEMORY) != 0 ? NULL : below(ctx)->map_memory(BELOW, length);
	(void)mapped(ctx, p == NULL, length);
	return p;
}

static void f_unmap_memory(void *ctx, void *addr, size_t length)
{
	atomic_fetch_sub(&((struct faulty_sys *)ctx)->mapped, (int64_t)length);
	below(ctx)->unmap_memory(BELOW, addr, length);
}

static int64_t f_receive(void *ctx, int fd, void *buffer, size_t length, int *fds, uint32_t max_fds, uint32_t *ret_fds)
{
	int error = strikes(ctx, FAULTY_RECEIVE);
	if (error != 0)
		return error;
	int64_t r = below(ctx)->receive(BELOW, fd, buffer, length, fds, max_fds, ret_fds);
	atomic_fetch_add(&((struct faulty_sys *)ctx)->fds, r >= 0 ? (int64_t)*ret_fds : 0);
	return r;
}

void faulty_sys_init(struct faulty_sys *f, int (*strike)(void *ctx, enum faulty_call call), void *ctx)
{
	memset(f, 0, sizeof(*f));
	f->below = &ph_sys_real;
	f->strike = strike;
	f->ctx = ctx;
	f->sys = (struct ph_sys) {
		.ctx = f,
		.getpid = f_getpid,
		.clock_ns = f_clock_ns,
		.madvise = f_madvise,
		.process_madvise = f_process_madvise,
		.pidfd_open = f_pidfd_open,
		.mincore = f_mincore,
		.fallocate = f_fallocate,
		.mmap_fixed_anon = f_mmap_fixed_anon,
		.open = f_open,
		.read = f_read,
		.pread = f_pread,
		.lseek = f_lseek,
		.close = f_close,
		.fstat = f_fstat,
		.fstatfs = f_fstatfs,
		.page_size = f_page_size,
		.poll_pri = f_poll_pri,
		.poll_in = f_poll_in,
		.userfaultfd = f_userfaultfd,
		.mprotect_none = f_mprotect_none,
		.map_memory = f_map_memory,
		.unmap_memory = f_unmap_memory,
		.map_shared = f_map_shared,
		.memfd = f_memfd,
		.receive = f_receive,
		.send = f_send,
		.nonblock = f_nonblock,
		.epoll_new = f_epoll_new,
		.epoll_set = f_epoll_set,
		.epoll_look = f_epoll_look,
		.write = f_write,
		.ioctl = f_ioctl,
		.map_file = f_map_file,
		.open_within = f_open_within,
	};
}
