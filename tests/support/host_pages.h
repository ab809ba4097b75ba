/*
 * host_pages: this machine as one of larger pages: it says so, refuses what is not of whole pages of that size, as such a kernel
 * does, and tells of its memory by those pages. What it lets through really happens.
 */
#ifndef TESTS_SUPPORT_HOST_PAGES_H
#define TESTS_SUPPORT_HOST_PAGES_H

#include <errno.h>
#include <linux/types.h>
#include <linux/userfaultfd.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/sys.h"

#define ENTRIES_MAX 512u

struct host_pages {
	struct ph_sys sys; /* ctx is this struct */
	uint64_t page, real;
	uint32_t refused; /* calls: the library must make none of them */
	uint32_t let;
};

static inline int host_takes(struct host_pages *h, uint64_t at, uint64_t length)
{
	if (((at | length) & (h->page - 1)) == 0) {
		h->let++;
		return 1;
	}
	h->refused++;
	printf("refused on pages of %d KiB: %#llx, %#llx bytes\n", (int)(h->page >> 10), (unsigned long long)at,
	       (unsigned long long)length);
	return 0;
}

static inline int64_t host_page_size(void *ctx)
{
	return (int64_t)((struct host_pages *)ctx)->page;
}

static inline int host_madvise(void *ctx, void *addr, size_t length, int advice)
{
	return host_takes(ctx, (uintptr_t)addr, length) ? ph_sys_real.madvise(NULL, addr, length, advice) : -EINVAL;
}

static inline int64_t host_process_madvise(void *ctx, int pidfd, const struct iovec *iov, size_t n, int advice)
{
	for (size_t i = 0; i < n; i++)
		if (!host_takes(ctx, (uintptr_t)iov[i].iov_base, iov[i].iov_len))
			return -EINVAL;
	return ph_sys_real.process_madvise(NULL, pidfd, iov, n, advice);
}

static inline int host_fallocate(void *ctx, int fd, int mode, uint64_t offset, uint64_t length)
{
	/* a kernel would take it, and zero the rest of a page that it does not free */
	return host_takes(ctx, offset, length) ? ph_sys_real.fallocate(NULL, fd, mode, offset, length) : -EINVAL;
}

static inline int host_mmap_fixed_anon(void *ctx, void *addr, size_t length)
{
	return host_takes(ctx, (uintptr_t)addr, length) ? ph_sys_real.mmap_fixed_anon(NULL, addr, length) : -EINVAL;
}

static inline int host_mprotect_none(void *ctx, void *addr, size_t length)
{
	return host_takes(ctx, (uintptr_t)addr, length) ? ph_sys_real.mprotect_none(NULL, addr, length) : -EINVAL;
}

/* One of the larger pages is there when one of its parts is. */
static inline int host_mincore(void *ctx, void *addr, size_t length, unsigned char *in_core)
{
	struct host_pages *h = ctx;
	const size_t parts = (size_t)(h->page / h->real);
	unsigned char real[ENTRIES_MAX];
	if (!host_takes(h, (uintptr_t)addr, 0))
		return -EINVAL;
	for (size_t i = 0; i * h->page < length; i++) {
		int r = ph_sys_real.mincore(NULL, (unsigned char *)addr + i * h->page, (size_t)h->page, real);
		if (r < 0)
			return r;
		in_core[i] = 0;
		for (size_t k = 0; k < parts; k++)
			in_core[i] |= real[k] & 1;
	}
	return 0;
}

/* pagemap alone is read so: an entry a page. */
static inline int64_t host_pread(void *ctx, int fd, void *buffer, size_t length, uint64_t offset)
{
	struct host_pages *h = ctx;
	const size_t parts = (size_t)(h->page / h->real);
	uint64_t real[ENTRIES_MAX], *entries = buffer;
	for (size_t i = 0; i < length / 8; i++) {
		int64_t got = ph_sys_real.pread(NULL, fd, real, parts * 8, (offset + i * 8) * parts);
		if (got < (int64_t)(parts * 8))
			return got < 0 ? got : (int64_t)(i * 8);
		entries[i] = 0;
		for (size_t k = 0; k < parts; k++)
			entries[i] = real[k] >> 62 != 0 ? real[k] : entries[i];
	}
	return (int64_t)length;
}

/* A userfaultfd's requests begin with a range, or, where they copy, with a place, a source and a length. */
static inline int64_t host_ioctl(void *ctx, int fd, unsigned long request, void *arg)
{
	uint64_t words[3] = { 0 };
	int copies = request == UFFDIO_COPY || _IOC_NR(request) == 0x05;
	if (request == UFFDIO_API)
		return ph_sys_real.ioctl(NULL, fd, request, arg);
	memcpy(words, arg, copies ? 24 : 16);
	if (!host_takes(ctx, words[0], words[copies ? 2 : 1]))
		return -EINVAL;
	return ph_sys_real.ioctl(NULL, fd, request, arg);
}

static inline void host_pages_setup(struct host_pages *h, uint64_t page)
{
	*h = (struct host_pages) { .sys = ph_sys_real, .page = page, .real = (uint64_t)sysconf(_SC_PAGESIZE) };
	h->sys.ctx = h;
	h->sys.page_size = host_page_size;
	h->sys.madvise = host_madvise;
	h->sys.process_madvise = host_process_madvise;
	h->sys.fallocate = host_fallocate;
	h->sys.mmap_fixed_anon = host_mmap_fixed_anon;
	h->sys.mprotect_none = host_mprotect_none;
	h->sys.mincore = host_mincore;
	h->sys.pread = host_pread;
	h->sys.ioctl = host_ioctl;
}

#endif
