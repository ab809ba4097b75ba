/*
 * A heap that gives its memory back through every layer: a jemalloc arena on a memfd, as it would lie under a guest or beside
 * other processes. Small objects are allocated, freed and decay; the reporter finds the frames free and has the host take them.
 *
 * usage: jemalloc-arena [MIB]      how much to allocate; default 1024. Exit 0: at least 95 % of it left the host.
 *
 * What the host holds is asked of the host (fstat), not of the library.
 */
#define _GNU_SOURCE 1
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jemalloc/jemalloc.h>

#include <pagehint/backend.h>
#include <pagehint/host.h>
#include <pagehint/jemalloc.h>
#include <pagehint/map.h>
#include <pagehint/origin.h>
#include <pagehint/reporter.h>
#include <pagehint/zone.h>

/* jemalloc would keep the rest of each extent, and every rest keeps 2 MiB from being reported */
extern const char *malloc_conf;
const char *malloc_conf = "retain:false";

#define MIB ((uint64_t)1 << 20)
#define SECOND UINT64_C(1000000000)

struct heap {
	int fd;
	void *memory;
	uint64_t bytes;
	struct pagehint_map *map;
	struct pagehint_zone *zone;
	struct pagehint_origin *origin;
	struct pagehint_backend *backend;
	struct pagehint_reporter *reporter;
	struct pagehint_jemalloc *jem;
	int flags;
};

static int fail(const char *what, int error)
{
	fprintf(stderr, "%s: %s\n", what, strerror(error < 0 ? -error : error));
	return -1;
}

static int open_memory(struct heap *h)
{
	struct pagehint_region_desc region = { .struct_size = sizeof(region), .frames = h->bytes >> 12 };
	uint64_t id;
	h->fd = memfd_create("heap", MFD_CLOEXEC);
	if (h->fd < 0 || ftruncate(h->fd, (off_t)h->bytes) != 0)
		return -1;
	h->memory = mmap(NULL, h->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, h->fd, 0);
	if (h->memory == MAP_FAILED)
		return -1;
	region.host_addr = (uintptr_t)h->memory;
	region.fd = h->fd;
	const int error = pagehint_map_new(NULL, &h->map);
	return error != 0 ? error : pagehint_map_add(h->map, &region, &id);
}

static int open_heap(struct heap *h)
{
	const struct pagehint_zone_opts zone = { .struct_size = sizeof(zone),
						 .max_sections = (h->bytes >> 12) / PAGEHINT_SECTION_FRAMES + 1 };
	int error = open_memory(h);
	if (error == 0)
		error = pagehint_zone_new(&zone, &h->zone);
	if (error == 0)
		error = pagehint_zone_add(h->zone, 0, h->bytes >> 12);
	if (error == 0)
		error = pagehint_madvise_new(h->map, NULL, NULL, &h->backend);
	if (error == 0)
		error = pagehint_zone_origin_new(h->zone, &h->origin);
	if (error == 0)
		error = pagehint_reporter_new(h->origin, h->backend, NULL, &h->reporter);
	const struct pagehint_jemalloc_opts opts = { .struct_size = sizeof(opts), .zone = h->zone, .map = h->map };
	if (error == 0)
		error = pagehint_jemalloc_new(&opts, &h->jem);
	if (error != 0)
		return fail("setting up", error);
	h->flags = MALLOCX_ARENA(pagehint_jemalloc_arena(h->jem)) | MALLOCX_TCACHE_NONE;
	return 0;
}

static uint64_t host_holds(const struct heap *h)
{
	struct stat st;
	return fstat(h->fd, &st) == 0 ? (uint64_t)st.st_blocks * 512 : UINT64_MAX;
}

/* A list of objects of many small sizes, through the objects themselves. */
static void **fill(const struct heap *h, uint64_t bytes)
{
	void **list = NULL;
	for (uint64_t done = 0, i = 0; done < bytes; i++) {
		const size_t size = 32 + i * 41 % 2048;
		void **object = mallocx(size, h->flags);
		if (object == NULL)
			break;
		memset(object, 1, size);
		*object = list;
		list = object;
		done += size;
	}
	return list;
}

/* All that is due: in a program with an event loop, its timer does this at each deadline. Here time is only said. */
static int report(struct heap *h)
{
	uint64_t now = 0, deadline;
	for (unsigned i = 0; i < 64; i++) {
		const int error = pagehint_reporter_step(h->reporter, now, 0, &deadline);
		if (error != 0)
			return fail("reporting", error);
		now = deadline == UINT64_MAX || deadline <= now ? now + SECOND : deadline;
	}
	return 0;
}

static int run(struct heap *h, uint64_t bytes)
{
	char name[64];
	const uint64_t before = host_holds(h);
	void **list = fill(h, bytes);
	const uint64_t full = host_holds(h);
	printf("allocated: the host holds %llu MiB\n", (unsigned long long)(full / MIB));
	while (list != NULL) {
		void **next = *list;
		dallocx(list, h->flags);
		list = next;
	}
	printf("freed:     the host holds %llu MiB\n", (unsigned long long)(host_holds(h) / MIB));
	/* what the decay timer does by itself after ten seconds */
	snprintf(name, sizeof(name), "arena.%u.purge", (unsigned)pagehint_jemalloc_arena(h->jem));
	const int error = mallctl(name, NULL, NULL, NULL, 0);
	if (error != 0)
		return fail("purging", error);
	if (report(h) != 0)
		return -1;
	const uint64_t after = host_holds(h);
	const double share = 100.0 * (double)(full - after) / (double)(full - before);
	printf("decayed:   the host holds %llu MiB: %.1f %% came back\n", (unsigned long long)(after / MIB), share);
	return full - before >= bytes && share >= 95 ? 0 : -1;
}

static void close_heap(struct heap *h)
{
	(void)pagehint_jemalloc_free(h->jem);
	(void)pagehint_reporter_free(h->reporter);
	pagehint_origin_free(h->origin);
	(void)pagehint_backend_free(h->backend);
	pagehint_zone_destroy(h->zone);
	(void)pagehint_map_free(h->map);
	if (h->memory != NULL && h->memory != MAP_FAILED)
		munmap(h->memory, h->bytes);
	if (h->fd >= 0)
		close(h->fd);
}

int main(int argc, char **argv)
{
	struct heap h = { .fd = -1 };
	const uint64_t mib = argc > 1 ? strtoull(argv[1], NULL, 10) : 1024;
	if (mib == 0 || mib > 65536) {
		fprintf(stderr, "usage: jemalloc-arena [MIB], 1 to 65536\n");
		return 2;
	}
	h.bytes = (mib + mib / 4 + 64) / 2 * 2 * MIB; /* jemalloc's own, and what does not fit evenly */
	const int failed = open_heap(&h) != 0 || run(&h, mib * MIB) != 0;
	close_heap(&h);
	return failed;
}
