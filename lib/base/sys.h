/*
 * sys.h: the one seam to the operating system. Every syscall and the clock go through a table that a handle keeps, so that
 * tests can count them, fail the k-th, or pretend another kernel.
 *
 * Invariants: errno is read in this room and nowhere else; every function returns a non-negative result or -errno; EINTR is retried
 * here where a call may give it. The manifest pagehint_syscalls() lists exactly what stands here.
 */
#ifndef PH_BASE_SYS_H
#define PH_BASE_SYS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/uio.h>

struct ph_sys {
	void *ctx; /* for fakes; the real table ignores it */
	int64_t (*getpid)(void *ctx);
	int64_t (*clock_ns)(void *ctx); /* CLOCK_MONOTONIC */
	int (*madvise)(void *ctx, void *addr, size_t length, int advice);
	int64_t (*process_madvise)(void *ctx, int pidfd, const struct iovec *iov, size_t n, int advice);
	int (*pidfd_open)(void *ctx, int64_t pid);
	int (*mincore)(void *ctx, void *addr, size_t length, unsigned char *in_core); /* bit 0 a page */
	int (*fallocate)(void *ctx, int fd, int mode, uint64_t offset, uint64_t length);
	int (*mmap_fixed_anon)(void *ctx, void *addr,
			       size_t length); /* MAP_PRIVATE|MAP_ANONYMOUS|MAP_FIXED|MAP_NORESERVE */
	int (*open)(void *ctx, const char *path, int flags);
	int64_t (*read)(void *ctx, int fd, void *buffer, size_t length);
	int64_t (*pread)(void *ctx, int fd, void *buffer, size_t length, uint64_t offset);
	int64_t (*lseek)(void *ctx, int fd, int64_t offset, int whence);
	int (*close)(void *ctx, int fd);
	int (*fstat)(void *ctx, int fd, struct stat *st);
	int (*fstatfs)(void *ctx, int fd, struct statfs *st);
	int64_t (*page_size)(void *ctx);
	int (*poll_pri)(
		void *ctx,
		int fd); /* 1 = POLLPRI now, 0 = nothing, -EIO = it will never say anything again; never waits */
	int (*poll_in)(void *ctx,
		       int fd); /* 1 = something can be read, or it is gone for good; 0 = nothing; never waits */
	int (*userfaultfd)(void *ctx,
			   int flags); /* by the call, else by /dev/userfaultfd where this process may open it */
	int (*mprotect_none)(void *ctx, void *addr, size_t length);
	void *(*map_memory)(void *ctx, size_t length); /* zeroed anonymous memory, NULL when there is none */
	void (*unmap_memory)(void *ctx, void *addr, size_t length);

	/* for vhost: a shared file, sockets that carry descriptors, and one descriptor to wait for many. None of them waits. */
	int (*map_shared)(void *ctx, int fd, size_t length, uint64_t offset, void **ret_addr); /* MAP_SHARED, r/w */
	int (*memfd)(void *ctx, const char *name, uint64_t length); /* a new one of this length, which cannot shrink */
	/* Stops behind a message with descriptors. -EMSGSIZE: more than max_fds came; the rest of them is closed. */
	int64_t (*receive)(void *ctx, int fd, void *buffer, size_t length, int *fds, uint32_t max_fds,
			   uint32_t *ret_fds);
	int64_t (*send)(void *ctx, int fd, const void *buffer, size_t length, const int *fds, uint32_t n);
	int (*nonblock)(void *ctx, int fd);
	int (*epoll_new)(void *ctx);
	int (*epoll_set)(void *ctx, int epoll, int op, int fd, uint32_t events, uint64_t data);
	int (*epoll_look)(void *ctx, int epoll, struct epoll_event *events, int max); /* how many are ready now */
	int64_t (*write)(void *ctx, int fd, const void *buffer, size_t length);
	int64_t (*ioctl)(void *ctx, int fd, unsigned long request, void *arg); /* EINTR is the caller's */
	int (*map_file)(void *ctx, int fd, size_t length,
			void **ret_addr); /* MAP_SHARED from offset 0, read and write */
	/* open, for what may wait and knows no O_NONBLOCK: -ETIMEDOUT after timeout_ns; a child process tries it first */
	int (*open_within)(void *ctx, const char *path, int flags, int64_t timeout_ns);
};

extern const struct ph_sys ph_sys_real;

#endif
