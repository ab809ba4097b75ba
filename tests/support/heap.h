/*
 * heap: a jemalloc arena on a memfd, with everything it stands on, and what zone, host and jemalloc say of it.
 */
#ifndef TESTS_SUPPORT_HEAP_H
#define TESTS_SUPPORT_HEAP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jemalloc/jemalloc.h>

#include <pagehint/host.h>
#include <pagehint/jemalloc.h>
#include <pagehint/map.h>
#include <pagehint/origin.h>
#include <pagehint/reporter.h>
#include <pagehint/zone.h>

#include "support/region.h"

#define BYTES ((size_t)128 * MIB)
#define HUGE ((size_t)2 * MIB)

struct heap {
	int fd;
	unsigned char *memory;
	struct pagehint_map *map;
	struct pagehint_backend *backend;
	struct pagehint_zone *zone;
	struct pagehint_jemalloc *jem;
	int flags; /* of mallocx */
};

static inline uint64_t held(const struct heap *h)
{
	struct pagehint_jemalloc_stats stats = { .struct_size = sizeof(stats) };
	assert_int_equal(pagehint_jemalloc_stats(h->jem, &stats), 0);
	return stats.held;
}

static inline uint64_t out(const struct heap *h)
{
	struct pagehint_zone_stats stats = { .struct_size = sizeof(stats) };
	assert_int_equal(pagehint_zone_stats(h->zone, &stats), 0);
	return stats.out << 12;
}

static inline uint64_t host_holds(const struct heap *h)
{
	struct stat st;
	assert_int_equal(fstat(h->fd, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

static inline int ctl(const struct heap *h, const char *format, void *to, void *from, size_t bytes)
{
	char name[96];
	size_t room = bytes;
	snprintf(name, sizeof(name), format, pagehint_jemalloc_arena(h->jem));
	return mallctl(name, to, to != NULL ? &room : NULL, from, from != NULL ? bytes : 0);
}

static inline void purge(const struct heap *h)
{
	assert_int_equal(ctl(h, "arena.%u.purge", NULL, NULL, 0), 0);
}

/* A memfd of BYTES in `regions` pieces; the frames begin `skew` frames after a 2 MiB boundary. */
static inline void open_memory(struct heap *h, unsigned regions, uint64_t skew)
{
	const size_t piece = BYTES / regions;
	uint64_t id;
	h->fd = memfd("heap", BYTES, 0);
	assert_true(h->fd >= 0);
	unsigned char *area = anon_aligned(BYTES, HUGE);
	assert_non_null(area);
	h->memory = mmap(area, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, h->fd, 0);
	assert_ptr_equal(h->memory, area);
	assert_int_equal(pagehint_map_new(NULL, &h->map), 0);
	struct pagehint_zone_opts opts = { .struct_size = sizeof(opts), .max_sections = 2, .span_sections = 4 };
	assert_int_equal(pagehint_zone_new(&opts, &h->zone), 0);
	for (unsigned i = 0; i < regions; i++) {
		struct pagehint_region_desc d = describe(skew + i * (piece >> 12), h->memory + i * piece, piece, h->fd);
		d.fd_offset = i * piece;
		assert_int_equal(pagehint_map_add(h->map, &d, &id), 0);
	}
	assert_int_equal(pagehint_zone_add(h->zone, skew, BYTES >> 12), 0);
	struct pagehint_backend_opts b = { .struct_size = sizeof(b) };
	assert_int_equal(pagehint_madvise_new(h->map, NULL, &b, &h->backend), 0);
}

static inline void open_heap(struct heap *h, unsigned regions, uint64_t skew)
{
	memset(h, 0, sizeof(*h));
	open_memory(h, regions, skew);
	struct pagehint_jemalloc_opts opts = {
		.struct_size = sizeof(opts), .zone = h->zone, .map = h->map, .backend = h->backend
	};
	assert_int_equal(pagehint_jemalloc_new(&opts, &h->jem), 0);
	h->flags = MALLOCX_ARENA(pagehint_jemalloc_arena(h->jem)) | MALLOCX_TCACHE_NONE;
}

static inline void close_memory(struct heap *h)
{
	assert_int_equal(pagehint_zone_check(h->zone, NULL), 0);
	assert_int_equal(out(h), 0);
	pagehint_zone_destroy(h->zone);
	assert_int_equal(pagehint_backend_free(h->backend), 0);
	assert_int_equal(pagehint_map_free(h->map), 0);
	munmap(h->memory, BYTES);
	close(h->fd);
}

static inline void close_heap(struct heap *h)
{
	assert_int_equal(pagehint_jemalloc_free(h->jem), 0);
	close_memory(h);
}

#endif
