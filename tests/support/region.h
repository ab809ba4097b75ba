/*
 * region: what tests of the memory map need again and again: descriptions, memory of each kind.
 */
#ifndef TESTS_SUPPORT_REGION_H
#define TESTS_SUPPORT_REGION_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <pagehint/map.h>

#define MIB ((size_t)1 << 20)

static inline void not_applicable(const char *why)
{
	printf("not applicable: %s\n", why);
	fflush(stdout);
}

/* Whether the kernel that answers is that of an emulator's process, as tests/cross/ tells its tests: what it says of memory is then
 * about the emulator's, and advice is not passed on. */
static inline int emulated(void)
{
	if (getenv("PAGEHINT_TEST_EMULATED") == NULL)
		return 0;
	not_applicable("an emulator stands between this process and the kernel");
	return 1;
}

/* A region of 4 KiB frames. */
static inline struct pagehint_region_desc describe(uint64_t frame, const void *addr, size_t bytes, int fd)
{
	struct pagehint_region_desc d;
	memset(&d, 0, sizeof(d));
	d.struct_size = sizeof(d);
	d.frame = frame;
	d.frames = bytes >> 12;
	d.host_addr = (uintptr_t)addr;
	d.fd = fd;
	return d;
}

static inline void *anon(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

/* Anonymous memory that starts at a multiple of `align`. */
static inline void *anon_aligned(size_t bytes, size_t align)
{
	unsigned char *p = anon(bytes + align);
	if (p == NULL)
		return NULL;
	size_t skip = (align - (uintptr_t)p % align) % align;
	if (skip != 0)
		munmap(p, skip);
	munmap(p + skip + bytes, align - skip);
	return p + skip;
}

static inline int memfd(const char *name, size_t bytes, unsigned flags)
{
	int fd = memfd_create(name, MFD_CLOEXEC | flags);
	if (fd >= 0 && ftruncate(fd, (off_t)bytes) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static inline void *map_fd(int fd, size_t bytes, int flags)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
	return p == MAP_FAILED ? NULL : p;
}

#endif
