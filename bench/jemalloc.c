/*
 * What it costs a heap to stand on frames, and how much comes back: the same mix of allocations in an arena on a zone and in an
 * arena of stock jemalloc, each with a tcache; and a heap that is filled, freed and reported.
 *
 * The check: every object carries its address until it is freed; in the end the arena has none, and the zone's invariants hold.
 * What came back is asked of the host (fstat).
 */
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

#include "shim/shim.h"

extern const char *malloc_conf;
const char *malloc_conf = "retain:false";

#define BYTES ((uint64_t)1 << 30)
#define SLOTS 16384u
#define OPS 400000u
#define FILL ((uint64_t)512 << 20)
#define STEPS 64u
#define ROUNDS_MAX 64u

struct heap {
	int fd;
	void *memory;
	struct pagehint_map *map;
	struct pagehint_zone *zone;
	struct pagehint_backend *backend;
	struct pagehint_origin *origin;
	struct pagehint_reporter *reporter;
	struct pagehint_jemalloc *jem; /* NULL: stock */
	unsigned arena, tcache;
	int flags;
	int failed;
	uint64_t seed;
	uint64_t full, empty; /* bytes the host held */
	uint64_t *slot[SLOTS];
	void **list;
};

static double returned[ROUNDS_MAX];
static unsigned returned_n;

static void need(struct heap *h, int ok, const char *what)
{
	if (!ok && !h->failed)
		fprintf(stderr, "%s failed\n", what);
	h->failed |= !ok;
}

static uint64_t host_holds(const struct heap *h)
{
	struct stat st;
	return fstat(h->fd, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

static void open_frames(struct heap *h, int shared)
{
	struct pagehint_region_desc region = { .struct_size = sizeof(region), .frames = BYTES >> 12 };
	const struct pagehint_zone_opts zone = { .struct_size = sizeof(zone) };
	uint64_t id;
	h->fd = shared ? memfd_create("bench", MFD_CLOEXEC) : -1;
	need(h, !shared || ftruncate(h->fd, (off_t)BYTES) == 0, "memfd");
	h->memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
			 shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, h->fd, 0);
	need(h, h->memory != MAP_FAILED, "mmap");
	region.host_addr = (uintptr_t)h->memory;
	region.fd = h->fd;
	need(h, pagehint_map_new(NULL, &h->map) == 0 && pagehint_map_add(h->map, &region, &id) == 0, "map");
	need(h, pagehint_zone_new(&zone, &h->zone) == 0 && pagehint_zone_add(h->zone, 0, BYTES >> 12) == 0, "zone");
	need(h, pagehint_madvise_new(h->map, NULL, NULL, &h->backend) == 0, "backend");
	need(h, pagehint_zone_origin_new(h->zone, &h->origin) == 0, "origin");
	need(h, pagehint_reporter_new(h->origin, h->backend, NULL, &h->reporter) == 0, "reporter");
	const struct pagehint_jemalloc_opts opts = { .struct_size = sizeof(opts), .zone = h->zone, .map = h->map };
	need(h, pagehint_jemalloc_new(&opts, &h->jem) == 0, "arena");
	if (!h->failed)
		h->arena = pagehint_jemalloc_arena(h->jem);
}

enum ground { STOCK, ANON, SHARED };

static void *heap_new(enum ground ground)
{
	struct heap *h = calloc(1, sizeof(*h));
	size_t bytes = sizeof(h->arena);
	if (h == NULL)
		return NULL;
	h->fd = -1;
	h->seed = 88172645463325252u;
	if (ground != STOCK)
		open_frames(h, ground == SHARED);
	else
		need(h, mallctl("arenas.create", &h->arena, &bytes, NULL, 0) == 0, "arenas.create");
	bytes = sizeof(h->tcache);
	need(h, mallctl("tcache.create", &h->tcache, &bytes, NULL, 0) == 0, "tcache.create");
	h->flags = MALLOCX_ARENA(h->arena) | MALLOCX_TCACHE(h->tcache);
	return h;
}

static void *stock(void)
{
	return heap_new(STOCK);
}

static void *anon(void)
{
	return heap_new(ANON);
}

static void *shared(void)
{
	return heap_new(SHARED);
}

static int ctl(const struct heap *h, const char *verb)
{
	char name[64];
	snprintf(name, sizeof(name), "arena.%u.%s", h->arena, verb);
	return mallctl(name, NULL, NULL, NULL, 0);
}

/* small ones mostly; one in 64 is of pages, one in 4096 is large */
static size_t size_of(uint64_t random)
{
	if (random % 4096 == 0)
		return 262144 + (random >> 12) % 786432;
	if (random % 64 == 0)
		return 4096 + (random >> 12) % 61440;
	return 16 + (random >> 12) % 1008;
}

static void replace(struct heap *h, uint64_t **slot, size_t size)
{
	if (*slot != NULL) {
		need(h, **slot == (uintptr_t)*slot, "an object's content");
		dallocx(*slot, h->flags);
	}
	*slot = size != 0 ? mallocx(size, h->flags) : NULL;
	if (*slot != NULL)
		**slot = (uintptr_t)*slot;
	need(h, *slot != NULL || size == 0, "mallocx");
}

static void mix(void *ctx, uint64_t n)
{
	struct heap *h = ctx;
	for (uint64_t i = 0; i < n; i++) {
		h->seed ^= h->seed << 13, h->seed ^= h->seed >> 7, h->seed ^= h->seed << 17;
		replace(h, &h->slot[(h->seed >> 48) % SLOTS], size_of(h->seed));
	}
}

static int empty_heap(void *ctx)
{
	struct heap *h = ctx;
	for (unsigned i = 0; i < SLOTS; i++)
		replace(h, &h->slot[i], 0);
	need(h, mallctl("tcache.flush", NULL, NULL, &h->tcache, sizeof(h->tcache)) == 0, "tcache.flush");
	need(h, h->zone == NULL || pagehint_zone_check(h->zone, NULL) == 0, "the zone's invariants");
	return h->failed;
}

static void heap_free(void *ctx)
{
	struct heap *h = ctx;
	(void)mallctl("tcache.destroy", NULL, NULL, &h->tcache, sizeof(h->tcache));
	if (h->jem == NULL)
		(void)ctl(h, "destroy");
	(void)pagehint_jemalloc_free(h->jem);
	(void)pagehint_reporter_free(h->reporter);
	pagehint_origin_free(h->origin);
	(void)pagehint_backend_free(h->backend);
	pagehint_zone_destroy(h->zone);
	(void)pagehint_map_free(h->map);
	if (h->memory != NULL && h->memory != MAP_FAILED)
		munmap(h->memory, BYTES);
	if (h->fd >= 0)
		close(h->fd);
	free(h);
}

/* A heap of small objects, filled and freed. */
static void fill(void *ctx, uint64_t n)
{
	struct heap *h = ctx;
	const uint64_t before = host_holds(h);
	for (uint64_t done = 0, i = 0; done < n; i++) {
		const size_t size = 32 + i * 41 % 2048;
		void **object = mallocx(size, h->flags);
		need(h, object != NULL, "mallocx");
		if (object == NULL)
			break;
		memset(object, 1, size);
		*object = h->list;
		h->list = object;
		done += size;
	}
	h->full = host_holds(h) - before;
	h->empty = before;
	for (void **next; h->list != NULL; h->list = next) {
		next = *h->list;
		dallocx(h->list, h->flags);
	}
	need(h, mallctl("tcache.flush", NULL, NULL, &h->tcache, sizeof(h->tcache)) == 0, "tcache.flush");
}

/* decay at once, and the reporter in simulated time */
static void report(void *ctx, uint64_t n)
{
	struct heap *h = ctx;
	uint64_t now = 0, deadline;
	(void)n;
	need(h, ctl(h, "purge") == 0, "purge");
	for (unsigned i = 0; i < STEPS; i++) {
		need(h, pagehint_reporter_step(h->reporter, now, 0, &deadline) == 0, "step");
		now = deadline == UINT64_MAX || deadline <= now ? now + UINT64_C(1000000000) : deadline;
	}
}

static int came_back(void *ctx)
{
	struct heap *h = ctx;
	const double left = (double)(host_holds(h) - h->empty);
	need(h, h->full >= FILL, "filling");
	if (returned_n < ROUNDS_MAX)
		returned[returned_n++] = 100.0 * (1.0 - left / (double)h->full);
	return empty_heap(h);
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void summary(const struct bench_result *results, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(results[i].name, "mix.frames") == 0)
			bench_publish("throughput_vs_stock", 1 / results[i].median_ratio, "x");
	if (returned_n == 0)
		return;
	qsort(returned, returned_n, sizeof(returned[0]), by_value);
	bench_publish("returned_pct", returned[returned_n / 2], "%");
	bench_publish("returned_least_pct", returned[0], "%");
}

int main(int argc, char **argv)
{
#define MIX(NAME, BASELINE, SETUP)                                                                        \
	{                                                                                                 \
		.name = NAME, .baseline = BASELINE, .n = OPS, .batches = 3, .setup = SETUP, .batch = mix, \
		.check = empty_heap, .teardown = heap_free                                                \
	}
	static const struct bench_case cases[] = {
		MIX("mix.stock", NULL, stock),
		MIX("mix.frames", "mix.stock", anon),   /* private memory on both sides */
		MIX("mix.shared", "mix.stock", shared), /* what a memfd costs beside */
		{ .name = "report",
		  .n = FILL,
		  .setup = shared,
		  .prepare = fill,
		  .batch = report,
		  .check = came_back,
		  .teardown = heap_free },
	};
	return bench_main(argc, argv, "jemalloc", cases, sizeof(cases) / sizeof(cases[0]), summary);
}
