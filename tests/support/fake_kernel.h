/*
 * fake_kernel: a pretended kernel beneath map and madvise: its mappings are text, every call that frees is recorded, and
 * each kind of call answers as told.
 *
 * Addresses need not exist unless a test makes the code touch them (zeroing, populate without the new advice).
 */
#ifndef TESTS_SUPPORT_FAKE_KERNEL_H
#define TESTS_SUPPORT_FAKE_KERNEL_H

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <pagehint/host.h>
#include <pagehint/map.h>

#include "base/sys.h"
#include "memory/map.h"

#define KERNEL_CALLS 4096
#define KERNEL_PAGES 8192

enum call {
	CALL_MADVISE,
	CALL_TOGETHER,
	CALL_FALLOCATE,
	CALL_MMAP,
	CALL_PREAD,
	CALL_MINCORE,
	CALL_LSEEK,
	CALL_PIDFD,
	CALL_OPEN,
	CALL_KINDS
};

struct call_record {
	enum call call;
	int how;         /* advice, mode or whence */
	uint64_t addr;   /* or offset */
	uint64_t length; /* or number of ranges */
};

struct fake_kernel {
	struct ph_sys sys;
	char smaps[4096];
	size_t smaps_at;
	char path[64]; /* last opened */
	uint32_t magic;
	int64_t pid, now;
	struct call_record calls[KERNEL_CALLS];
	uint32_t n;
	uint32_t count[CALL_KINDS];
	int open_fds;
	/* answers: 0, or this error; for one advice only where refused_advice is not 0 */
	int error[CALL_KINDS];
	int refused_advice;
	uint64_t hole_at;   /* a range of madvise that contains this address gets -ENOMEM; 0 = none */
	uint64_t locked_at; /* ... gets -EINVAL unless the advice is DONTNEED_LOCKED */
	/* pagemap, from this address on, and the data extents of any file */
	uint64_t pages_from;
	uint64_t pages[KERNEL_PAGES];
	struct {
		uint64_t from, to;
	} extent[8];
	uint64_t in_core_from, in_core_to; /* addresses that mincore finds; what is data, but not here, is on swap */
};

#define SMAPS_FD 1000
#define FILE_FD 1001
#define PAGEMAP_FD 1002
#define PIDFD 1003
#define REOPENED_FD 1004

static inline void kernel_note(struct fake_kernel *k, enum call call, int how, uint64_t addr, uint64_t length)
{
	k->count[call]++;
	if (k->n < KERNEL_CALLS)
		k->calls[k->n++] = (struct call_record) { call, how, addr, length };
}

static inline void kernel_forget(struct fake_kernel *k)
{
	k->n = 0;
	memset(k->count, 0, sizeof(k->count));
}

static inline int64_t kernel_getpid(void *ctx)
{
	return ((struct fake_kernel *)ctx)->pid;
}

static inline int64_t kernel_clock(void *ctx)
{
	return ((struct fake_kernel *)ctx)->now;
}

static inline int advise(struct fake_kernel *k, uint64_t addr, uint64_t length, int advice)
{
	if (k->hole_at != 0 && k->hole_at >= addr && k->hole_at < addr + length)
		return -ENOMEM;
	if (k->locked_at != 0 && k->locked_at >= addr && k->locked_at < addr + length && advice != 24)
		return -EINVAL;
	return 0;
}

static inline int kernel_madvise(void *ctx, void *addr, size_t length, int advice)
{
	struct fake_kernel *k = ctx;
	kernel_note(k, CALL_MADVISE, advice, (uintptr_t)addr, length);
	if (k->error[CALL_MADVISE] != 0 && (k->refused_advice == 0 || k->refused_advice == advice))
		return k->error[CALL_MADVISE];
	return advise(k, (uintptr_t)addr, length, advice);
}

static inline int64_t kernel_together(void *ctx, int pidfd, const struct iovec *iov, size_t n, int advice)
{
	struct fake_kernel *k = ctx;
	int64_t through = 0;
	assert_int_equal(pidfd, PIDFD);
	assert_true(n <= 1024);
	kernel_note(k, CALL_TOGETHER, advice, n == 0 ? 0 : (uintptr_t)iov[0].iov_base, n);
	if (k->error[CALL_TOGETHER] != 0)
		return k->error[CALL_TOGETHER];
	for (size_t i = 0; i < n; i++) {
		int r = advise(k, (uintptr_t)iov[i].iov_base, iov[i].iov_len, advice);
		if (r < 0)
			return through != 0 ? through : r;
		through += (int64_t)iov[i].iov_len;
	}
	return through;
}

static inline int kernel_pidfd_open(void *ctx, int64_t pid)
{
	struct fake_kernel *k = ctx;
	kernel_note(k, CALL_PIDFD, 0, (uint64_t)pid, 0);
	if (k->error[CALL_PIDFD] != 0)
		return k->error[CALL_PIDFD];
	k->open_fds++;
	return PIDFD;
}

static inline int kernel_fallocate(void *ctx, int fd, int mode, uint64_t offset, uint64_t length)
{
	struct fake_kernel *k = ctx;
	assert_int_equal(fd, FILE_FD);
	kernel_note(k, CALL_FALLOCATE, mode, offset, length);
	return k->error[CALL_FALLOCATE];
}

static inline int kernel_mmap(void *ctx, void *addr, size_t length)
{
	struct fake_kernel *k = ctx;
	kernel_note(k, CALL_MMAP, 0, (uintptr_t)addr, length);
	return k->error[CALL_MMAP];
}

static inline int kernel_open(void *ctx, const char *path, int flags)
{
	struct fake_kernel *k = ctx;
	(void)flags;
	if (strcmp(path, "/proc/self/smaps") == 0) {
		k->smaps_at = 0;
		k->open_fds++;
		return SMAPS_FD;
	}
	if (strncmp(path, "/sys/", 5) == 0)
		return -ENOENT;
	snprintf(k->path, sizeof(k->path), "%s", path);
	kernel_note(k, CALL_OPEN, 0, 0, 0);
	if (k->error[CALL_OPEN] != 0)
		return k->error[CALL_OPEN];
	k->open_fds++;
	return strcmp(path, "/proc/self/pagemap") == 0 ? PAGEMAP_FD : REOPENED_FD;
}

static inline int64_t kernel_read(void *ctx, int fd, void *buffer, size_t length)
{
	struct fake_kernel *k = ctx;
	assert_int_equal(fd, SMAPS_FD);
	size_t left = strlen(k->smaps) - k->smaps_at, n = left < length ? left : length;
	memcpy(buffer, k->smaps + k->smaps_at, n);
	k->smaps_at += n;
	return (int64_t)n;
}

static inline int64_t kernel_pread(void *ctx, int fd, void *buffer, size_t length, uint64_t offset)
{
	struct fake_kernel *k = ctx;
	assert_int_equal(fd, PAGEMAP_FD);
	kernel_note(k, CALL_PREAD, 0, offset * 512, length / 8);
	if (k->error[CALL_PREAD] != 0)
		return k->error[CALL_PREAD];
	uint64_t first = (offset * 512 - k->pages_from) >> 12;
	assert_true(first + length / 8 <= KERNEL_PAGES);
	memcpy(buffer, &k->pages[first], length);
	return (int64_t)length;
}

static inline int kernel_mincore(void *ctx, void *addr, size_t length, unsigned char *in_core)
{
	struct fake_kernel *k = ctx;
	kernel_note(k, CALL_MINCORE, 0, (uintptr_t)addr, length);
	if (k->error[CALL_MINCORE] != 0)
		return k->error[CALL_MINCORE];
	for (size_t i = 0; i < length >> 12; i++) {
		uint64_t at = (uintptr_t)addr + (i << 12);
		in_core[i] = at >= k->in_core_from && at < k->in_core_to;
	}
	return 0;
}

static inline int64_t kernel_lseek(void *ctx, int fd, int64_t offset, int whence)
{
	struct fake_kernel *k = ctx;
	uint64_t at = (uint64_t)offset;
	assert_int_equal(fd, REOPENED_FD); /* never the embedder's own: its position would move */
	kernel_note(k, CALL_LSEEK, whence, at, 0);
	if (k->error[CALL_LSEEK] != 0)
		return k->error[CALL_LSEEK];
	for (unsigned i = 0; i < 8 && k->extent[i].to != 0; i++) {
		int inside = at >= k->extent[i].from && at < k->extent[i].to;
		if (whence == SEEK_HOLE && inside)
			return (int64_t)k->extent[i].to;
		if (whence == SEEK_DATA && at < k->extent[i].to)
			return inside ? offset : (int64_t)k->extent[i].from;
	}
	return whence == SEEK_HOLE ? offset : -ENXIO;
}

static inline int kernel_close(void *ctx, int fd)
{
	struct fake_kernel *k = ctx;
	(void)fd;
	k->open_fds--;
	return 0;
}

static inline int kernel_fstat(void *ctx, int fd, struct stat *st)
{
	(void)ctx;
	assert_int_equal(fd, FILE_FD);
	memset(st, 0, sizeof(*st));
	st->st_mode = S_IFREG | 0600;
	st->st_ino = 77;
	st->st_dev = 1; /* 00:01 */
	st->st_size = INT32_MAX;
	return 0;
}

static inline int kernel_fstatfs(void *ctx, int fd, struct statfs *st)
{
	struct fake_kernel *k = ctx;
	(void)fd;
	memset(st, 0, sizeof(*st));
	st->f_type = (__typeof__(st->f_type))k->magic; /* not as wide on every machine */
	return 0;
}

static inline int64_t kernel_page_size(void *ctx)
{
	(void)ctx;
	return 4096;
}

static inline void *kernel_map_memory(void *ctx, size_t length)
{
	(void)ctx;
	void *p = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

static inline void kernel_unmap_memory(void *ctx, void *addr, size_t length)
{
	(void)ctx;
	munmap(addr, length);
}

static inline void kernel_setup(struct fake_kernel *k)
{
	memset(k, 0, sizeof(*k));
	k->pid = 100;
	k->sys = (struct ph_sys) {
		.ctx = k,
		.getpid = kernel_getpid,
		.clock_ns = kernel_clock,
		.madvise = kernel_madvise,
		.process_madvise = kernel_together,
		.pidfd_open = kernel_pidfd_open,
		.fallocate = kernel_fallocate,
		.mmap_fixed_anon = kernel_mmap,
		.open = kernel_open,
		.read = kernel_read,
		.pread = kernel_pread,
		.mincore = kernel_mincore,
		.lseek = kernel_lseek,
		.close = kernel_close,
		.fstat = kernel_fstat,
		.fstatfs = kernel_fstatfs,
		.page_size = kernel_page_size,
		.map_memory = kernel_map_memory,
		.unmap_memory = kernel_unmap_memory,
	};
}

/* What a region is; the fake kernel's smaps say so, and the map must come to the same. */
struct claim {
	uint32_t backing;
	const char *vm_flags; /* beyond "rd wr": "lo", "um", "ht" ... */
	uint64_t fd_offset;
	int no_fd;
	uint32_t frame_shift, host_page_shift, region_flags;
};

/* A map with one region at frame 0 (of 4 KiB unless claimed otherwise), and a madvise backend above it. */
static inline uint64_t kernel_region(struct fake_kernel *k, struct pagehint_map *map, uint64_t frame, uint64_t addr,
				     uint64_t bytes, const struct claim *c)
{
	int shared = c->backing == PAGEHINT_BACKING_SHARED || c->backing == PAGEHINT_BACKING_HUGETLB ||
		     c->backing == PAGEHINT_BACKING_GUEST_MEMFD;
	int file = c->backing != PAGEHINT_BACKING_ANON && !c->no_fd;
	uint32_t shift = c->frame_shift == 0 ? 12 : c->frame_shift;
	uint64_t id = 0;
	k->magic = c->backing == PAGEHINT_BACKING_GUEST_MEMFD ? 0x474d454du
		   : c->backing == PAGEHINT_BACKING_DEVICE    ? 0xef53u
							      : 0x01021994u;
	snprintf(k->smaps, sizeof(k->smaps),
		 "%" PRIx64 "-%" PRIx64 " rw-%c %08" PRIx64 " 00:01 %d %s\nKernelPageSize: %d kB\nVmFlags: rd wr %s\n",
		 addr, addr + bytes, shared || c->backing == PAGEHINT_BACKING_DEVICE ? 's' : 'p', c->fd_offset,
		 file       ? 77
		 : c->no_fd ? 78
			    : 0,
		 file                                    ? "/memfd:x (deleted)"
		 : c->backing == PAGEHINT_BACKING_SHARED ? "/dev/zero (deleted)"
							 : "",
		 c->backing == PAGEHINT_BACKING_HUGETLB ? 2048 : 4, c->vm_flags == NULL ? "" : c->vm_flags);
	struct pagehint_region_desc desc = {
		.struct_size = sizeof(desc),
		.frame = frame,
		.frames = bytes >> shift,
		.host_addr = addr,
		.fd_offset = c->fd_offset,
		.fd = file ? FILE_FD : -1,
		.backing = c->backing,
		.flags = c->region_flags,
	};
	assert_int_equal(pagehint_map_add(map, &desc, &id), 0);
	return id;
}

static inline struct pagehint_map *kernel_map(struct fake_kernel *k, const struct claim *c)
{
	struct pagehint_map_opts opts = { .struct_size = sizeof(opts),
					  .frame_shift = c->frame_shift,
					  .host_page_shift = c->host_page_shift };
	struct pagehint_map *map = NULL;
	assert_int_equal(ph_map_new_with(&opts, &k->sys, &map), 0);
	return map;
}

static inline struct pagehint_madvise_stats madvise_stats(const struct pagehint_backend *b)
{
	struct pagehint_madvise_stats stats = { .struct_size = sizeof(stats) };
	assert_int_equal(pagehint_madvise_stats(b, &stats), 0);
	return stats;
}

static inline void assert_whole(const struct pagehint_outcome *o, uint64_t asked)
{
	assert_int_equal(o->asked, asked);
	assert_int_equal(o->freed + o->absent + o->accepted + o->kept + o->lazy + o->failed, asked);
}

#endif
