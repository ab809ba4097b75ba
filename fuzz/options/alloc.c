/* zones, node sets, bitmaps, flush filters, scrubbers */
#include "kinds.h"

#include <sanitizer/asan_interface.h>

#include <pagehint/bitmap.h>
#include <pagehint/cache.h>
#include <pagehint/flush.h>
#include <pagehint/node.h>
#include <pagehint/scrub.h>
#include <pagehint/zone.h>

#define SMALL (UINT64_C(4) << 20) /* made in memory of exactly the size that was said, and seen when it is too small */
#define LARGE (UINT64_C(1) << 36) /* not made at all: there is no such address space for us */

struct pagehint_zone *some_zone(uint32_t i, uint32_t flags)
{
	struct pagehint_zone_opts opts = { .struct_size = sizeof(opts), .flags = flags, .granule_order = 9 };
	struct pagehint_zone *zone;
	SURE(pagehint_zone_new(&opts, &zone) == 0 && pagehint_zone_add(zone, 64 * i, 4096) == 0);
	return zone;
}

/* Memory that is exactly so large, though it is aligned: who steps into the rest of the 64 bytes is seen. */
static void *exact(uint64_t bytes)
{
	uint64_t room = (bytes + 63) / 64 * 64;
	unsigned char *mem = aligned_alloc(64, room);
	SURE(mem != NULL);
	memset(mem, 0, room);
	ASAN_POISON_MEMORY_REGION(mem + bytes, room - bytes);
	return mem;
}

static void free_exact(void *mem, uint64_t bytes)
{
	ASAN_UNPOISON_MEMORY_REGION((unsigned char *)mem + bytes, (bytes + 63) / 64 * 64 - bytes);
	free(mem);
}

static void use_zone(struct pagehint_zone *zone)
{
	struct pagehint_cache *cache;
	uint64_t frame[3];
	SURE(pagehint_zone_add(zone, 0, 4096) == 0);
	SURE(pagehint_zone_alloc(zone, 0, &frame[0]) == 0 && pagehint_zone_alloc(zone, 7, &frame[1]) == 0);
	SURE(pagehint_cache_open(zone, &cache) == 0 && pagehint_cache_alloc(cache, 2, &frame[2]) == 0);
	SURE(pagehint_cache_free(cache, frame[2], 2) == 0);
	pagehint_cache_close(cache);
	SURE(pagehint_zone_check(zone, NULL) == 0);
	SURE(pagehint_zone_free(zone, frame[0], 0) == 0 && pagehint_zone_free(zone, frame[1], 7) == 0);
	SURE(pagehint_zone_remove(zone, 0, 4096, NULL) == 0);
}

static int make_zone(const void *opts)
{
	struct pagehint_zone *zone = NOTHING;
	uint64_t bytes = 77;
	int r = pagehint_zone_size(opts, &bytes);
	if (r != 0) {
		SURE(bytes == 77 && pagehint_zone_new(opts, &zone) == r && zone == NOTHING);
		return r;
	}
	if (bytes > LARGE)
		return 0;
	if (bytes > SMALL) {
		SURE(pagehint_zone_new(opts, &zone) == 0);
		use_zone(zone);
		pagehint_zone_destroy(zone);
		return 0;
	}
	void *mem = exact(bytes);
	SURE(pagehint_zone_init(mem, bytes - 1, opts, &zone) == -EINVAL && zone == NOTHING);
	SURE(pagehint_zone_init(mem, bytes, opts, &zone) == 0);
	use_zone(zone);
	free_exact(mem, bytes);
	return 0;
}

/* ---- node sets ---- */

static struct pagehint_zone *zones[PAGEHINT_NODES_MAX];
static uint8_t distances[PAGEHINT_NODES_MAX * PAGEHINT_NODES_MAX];

static void point_node(void *opts, uint64_t how)
{
	struct pagehint_node_opts *o = opts;
	for (uint32_t i = 0; distances[0] == 0 && i < sizeof(distances); i++)
		distances[sizeof(distances) - 1 - i] = (uint8_t)(i * 37 % 200 + 10);
	o->zones = MAYBE(how, 0, zones);
	o->distances = MAYBE(how, 1, distances);
	if ((how & 4) != 0)
		o->nodes = o->nodes % 4 + 1;
}

static int make_node(const void *opts)
{
	struct pagehint_nodes *nodes = NOTHING;
	uint64_t bytes = 77, frame;
	uint32_t order[4];
	for (uint32_t i = 0; i < 4; i++)
		zones[i] = some_zone(i, 0);
	int r = pagehint_node_size(opts, &bytes);
	if (r != 0) {
		SURE(pagehint_node_new(opts, &nodes) == r && nodes == NOTHING);
	} else {
		void *mem = exact(bytes);
		SURE(pagehint_node_init(mem, bytes, opts, &nodes) == 0);
		SURE(pagehint_node_fallbacks(nodes, 0, order, 4) == 0 && order[0] == 0);
		SURE(pagehint_node_alloc(nodes, 0, 3, 0, &frame) == 0);
		free_exact(mem, bytes);
	}
	for (uint32_t i = 0; i < 4; i++)
		pagehint_zone_destroy(zones[i]);
	return r;
}

/* ---- bitmaps ---- */

static int make_bitmap(const void *opts)
{
	struct pagehint_bitmap *bitmap = NOTHING;
	uint64_t bytes = 77, was = 77;
	int r = pagehint_bitmap_size(opts, &bytes);
	if (r != 0) {
		SURE(bytes == 77 && pagehint_bitmap_new(opts, &bitmap) == r && bitmap == NOTHING);
		return r;
	}
	if (bytes > SMALL)
		return 0;
	void *mem = exact(bytes);
	SURE(pagehint_bitmap_init(mem, bytes, opts, &bitmap) == 0);
	SURE(pagehint_bitmap_add(bitmap, 0, 1) == 0 && pagehint_bitmap_set(bitmap, 0, 1, &was) == 0 && was == 0);
	SURE(pagehint_bitmap_count(bitmap) == 1 && pagehint_bitmap_test(bitmap, 0) == 1);
	SURE(pagehint_bitmap_remove(bitmap, 0, 1) == 0);
	free_exact(mem, bytes);
	SURE(pagehint_bitmap_new(opts, &bitmap) == 0);
	pagehint_bitmap_free(bitmap);
	return 0;
}

/* ---- flush filters ---- */

static int make_flush(const void *opts)
{
	struct pagehint_flush *flush = NOTHING;
	struct pagehint_flush_filter filter;
	const struct pagehint_run run = { 64, 64 };
	uint64_t bytes = 77;
	int r = pagehint_flush_size(opts, &bytes);
	if (r != 0) {
		SURE(bytes == 77 && pagehint_flush_new(opts, &flush) == r && flush == NOTHING);
		return r;
	}
	if (bytes > SMALL)
		return 0;
	void *mem = exact(bytes);
	SURE(pagehint_flush_init(mem, bytes, opts, &flush) == 0);
	SURE(pagehint_flush_freed(flush, &run, 1) == 0);
	pagehint_flush_begin(&filter);
	SURE(pagehint_flush_add(flush, &filter, &run, 1) == 0);
	SURE(pagehint_flush_done(flush, 0, pagehint_flush_tick(flush)) == 0);
	free_exact(mem, bytes);
	SURE(pagehint_flush_new(opts, &flush) == 0);
	pagehint_flush_free(flush);
	return 0;
}

/* ---- scrubbers ---- */

static int zero(void *ctx, uint64_t frame, uint64_t frames)
{
	(void)ctx;
	SURE(frames != 0 && frame + frames <= 4096);
	return 0;
}

static void point_scrubber(void *opts, uint64_t how)
{
	struct pagehint_scrubber *o = opts;
	o->ctx = NULL;
	o->zero = MAYBE(how, 0, zero);
}

static int make_scrubber(const void *opts)
{
	struct pagehint_zone *zone = some_zone(0, PAGEHINT_ZONE_SCRUB | PAGEHINT_ZONE_STALE);
	const struct pagehint_run run = { 5, 70 };
	uint64_t frame = 77;
	SURE(pagehint_zone_reserve(zone, run.frame, run.frames, NULL) == 0);
	int r = pagehint_scrub_runs(zone, opts, &run, 1);
	int again = pagehint_scrub_alloc(zone, 3, PAGEHINT_ALLOC_ZERO, opts, &frame);
	SURE(again == r && (r == 0) == (frame != 77));
	SURE(pagehint_zone_check(zone, NULL) == 0);
	pagehint_zone_destroy(zone);
	return r;
}

const struct kind alloc_kinds[] = {
	{ "zone", sizeof(struct pagehint_zone_opts), NULL, make_zone },
	{ "node", sizeof(struct pagehint_node_opts), point_node, make_node },
	{ "bitmap", sizeof(struct pagehint_bitmap_opts), NULL, make_bitmap },
	{ "flush", sizeof(struct pagehint_flush_opts), NULL, make_flush },
	{ "scrubber", sizeof(struct pagehint_scrubber), point_scrubber, make_scrubber },
};
const uint32_t alloc_kinds_n = sizeof(alloc_kinds) / sizeof(*alloc_kinds);
