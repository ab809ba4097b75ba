#include "heap.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <pagehint/host.h>
#include <pagehint/map.h>
#include <pagehint/origin.h>
#include <pagehint/reporter.h>
#include <pagehint/zone.h>

#define FRAME ((size_t)4096)
#define GRANULE ((uint64_t)2 << 20)

struct heap {
	unsigned char *base;
	uint64_t bytes;
	struct pagehint_map *map;
	struct pagehint_backend *backend;
	struct pagehint_zone *zone;
	struct pagehint_origin *origin;
	struct pagehint_reporter *reporter;
};

static uint32_t order_of(size_t bytes)
{
	uint32_t order = 0;
	while (order < PAGEHINT_ORDER_MAX && FRAME << order < bytes)
		order++;
	return order;
}

static int open_parts(struct heap *h, uint64_t interval_ns)
{
	struct pagehint_region_desc region = {
		.struct_size = sizeof(region), .frames = h->bytes / FRAME, .fd = -1, .host_addr = (uintptr_t)h->base
	};
	struct pagehint_zone_opts zone = { .struct_size = sizeof(zone), .flags = PAGEHINT_ZONE_LADDER };
	struct pagehint_reporter_opts reporter = { .struct_size = sizeof(reporter), .interval_ns = interval_ns };
	uint64_t id;
	zone.max_sections = (h->bytes + ((uint64_t)1 << 30) - 1) >> 30;
	int rc = pagehint_map_new(NULL, &h->map);
	rc = rc ? rc : pagehint_map_add(h->map, &region, &id);
	rc = rc ? rc : pagehint_madvise_new(h->map, NULL, NULL, &h->backend);
	rc = rc ? rc : pagehint_zone_new(&zone, &h->zone);
	rc = rc ? rc : pagehint_zone_add(h->zone, 0, h->bytes / FRAME);
	rc = rc ? rc : pagehint_zone_origin_new(h->zone, &h->origin);
	return rc ? rc : pagehint_reporter_new(h->origin, h->backend, &reporter, &h->reporter);
}

struct heap *heap_open(uint64_t bytes, uint64_t interval_ns)
{
	struct heap *h = calloc(1, sizeof(*h));
	if (h == NULL)
		return NULL;
	h->bytes = (bytes + GRANULE - 1) / GRANULE * GRANULE;
	h->base = mmap(NULL, (size_t)h->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
		       0);
	int rc = h->base == MAP_FAILED ? -errno : open_parts(h, interval_ns);
	if (rc == 0)
		return h;
	if (h->base == MAP_FAILED)
		h->base = NULL;
	heap_close(h);
	errno = -rc;
	return NULL;
}

void heap_close(struct heap *h)
{
	uint64_t deadline;
	/* the madvise backend answers at once: nothing stays in flight */
	if (h->reporter != NULL && pagehint_reporter_stop(h->reporter, 0, &deadline) == 0)
		pagehint_reporter_free(h->reporter);
	pagehint_origin_free(h->origin);
	pagehint_backend_free(h->backend);
	pagehint_zone_destroy(h->zone);
	pagehint_map_free(h->map);
	if (h->base != NULL)
		munmap(h->base, (size_t)h->bytes);
	free(h);
}

void *heap_alloc(struct heap *h, size_t bytes)
{
	uint64_t frame;
	if (bytes == 0 || pagehint_zone_alloc(h->zone, order_of(bytes), &frame) != 0)
		return NULL;
	return h->base + frame * FRAME;
}

void heap_free(struct heap *h, void *block, size_t bytes)
{
	/* a double free is refused by the zone, and can only be a defect of the caller */
	if (pagehint_zone_free(h->zone, (uint64_t)((unsigned char *)block - h->base) / FRAME, order_of(bytes)) != 0)
		abort();
}

int heap_step(struct heap *h, uint64_t now_ns, uint64_t *ret_deadline)
{
	return pagehint_reporter_step(h->reporter, now_ns, 0, ret_deadline);
}

void heap_squeeze(struct heap *h)
{
	if (pagehint_reporter_pressure(h->reporter, PAGEHINT_PRESSURE_FULL, (uint64_t)10 * 1000000000) != 0)
		abort(); /* the level is a known one */
}

uint64_t heap_resident(const struct heap *h)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), n = (size_t)h->bytes / page;
	unsigned char *in_core = malloc(n);
	uint64_t pages = 0;
	if (in_core != NULL && mincore(h->base, (size_t)h->bytes, in_core) == 0)
		for (size_t i = 0; i < n; i++)
			pages += in_core[i] & 1;
	free(in_core);
	return pages * page;
}
