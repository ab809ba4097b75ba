#include "../process.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <pagehint/host.h>

#define PIECE_FRAMES UINT64_C(512)
#define THRESHOLD_FRAMES UINT64_C(16384) /* of the bitmap: 64 MiB */

void host_must(const char *what, int r)
{
	if (r < 0) {
		fprintf(stderr, "process: %s: %s\n", what, strerror(-r));
		exit(1);
	}
}

uint64_t host_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

int host_way(const char *name)
{
	static const char *const names[] = { "none", "plain", "bitmap", "ours" };
	for (int i = 0; i < 4; i++)
		if (strcmp(name, names[i]) == 0)
			return i;
	return -1;
}

/* the backend of WAY_PLAIN: a call for each 2 MiB */
static int plain_discard(void *ctx, const struct pagehint_run *runs, uint32_t n, uint32_t flags,
			 struct pagehint_outcome *outcomes, uint32_t *ret_done)
{
	struct host *host = ctx;
	for (*ret_done = 0; *ret_done < n; ++*ret_done) {
		const struct pagehint_run *run = &runs[*ret_done];
		struct pagehint_outcome *sum = &outcomes[*ret_done], part;
		memset(sum, 0, sizeof(*sum));
		for (uint64_t at = 0; at < run->frames; at += PIECE_FRAMES) {
			uint64_t left = run->frames - at;
			struct pagehint_run piece = { run->frame + at, left < PIECE_FRAMES ? left : PIECE_FRAMES };
			int r = pagehint_backend_discard(host->inner, &piece, 1, flags, &part, NULL, NULL);
			if (r != 0)
				return r;
			if (part.kept != 0 || part.failed != 0)
				return -EIO; /* of a memfd nothing is */
			sum->asked += part.asked;
			sum->freed += part.freed;
			sum->absent += part.absent;
			sum->accepted += part.accepted;
		}
	}
	return 0;
}

static int plain_extent(void *ctx, uint64_t frame, uint64_t *ret_frames, uint64_t *ret_least_bytes)
{
	return pagehint_backend_extent(((struct host *)ctx)->inner, frame, ret_frames, ret_least_bytes);
}

/* the embedder's allocator of WAY_BITMAP: its lists are a zone's, but it knows of no reporter */
static int isolate(void *ctx, const struct pagehint_run *run)
{
	struct host *host = ctx;
	pthread_mutex_lock(&host->lock);
	int r = pagehint_zone_reserve(host->zone, run->frame, run->frames, NULL);
	pthread_mutex_unlock(&host->lock);
	return r == 0 ? 0 : -EBUSY;
}

static void release(void *ctx, const struct pagehint_run *run, uint32_t reported)
{
	struct host *host = ctx;
	pthread_mutex_lock(&host->lock);
	host_must("release", pagehint_zone_free_runs(host->zone, run, 1, NULL));
	if (!reported)
		host_must("bits", pagehint_bitmap_set(host->bitmap, run->frame, run->frames, NULL));
	pthread_mutex_unlock(&host->lock);
}

static void open_bitmap(struct host *host)
{
	const struct pagehint_bitmap_opts bits = { .struct_size = sizeof(bits), .span = host->frames };
	const struct pagehint_bitmap_origin_opts opts = {
		.struct_size = sizeof(opts),
		.ctx = host,
		.isolate = isolate,
		.release = release,
		.threshold = THRESHOLD_FRAMES,
		.order = 9,
		.min_order = 9,
	};
	pthread_mutex_init(&host->lock, NULL);
	host_must("bitmap", pagehint_bitmap_new(&bits, &host->bitmap));
	host_must("bitmap", pagehint_bitmap_add(host->bitmap, 0, host->frames));
	host_must("origin", pagehint_bitmap_origin_new(host->bitmap, &opts, &host->origin));
}

static void open_backend(struct host *host)
{
	static const struct pagehint_backend_ops ops = {
		.struct_size = sizeof(ops), .name = "plain", .discard = plain_discard, .extent = plain_extent
	};
	host_must("madvise", pagehint_madvise_new(host->map, NULL, NULL, &host->inner));
	host->backend = host->inner;
	if (host->way == WAY_PLAIN)
		host_must("plain", pagehint_backend_new(&ops, host, NULL, &host->backend));
}

static void open_memory(struct host *host, uint64_t bytes)
{
	struct pagehint_region_desc region = { .struct_size = sizeof(region), .frames = bytes >> 12 };
	uint64_t id;
	region.fd = host->fd = memfd_create("guest", 0);
	if (host->fd < 0 || ftruncate(host->fd, (off_t)bytes) < 0)
		host_must("memfd", -errno);
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, host->fd, 0);
	if (p == MAP_FAILED)
		host_must("mmap", -errno);
	host->memory = p;
	host->frames = bytes >> 12;
	region.host_addr = (uint64_t)(uintptr_t)p;
	host_must("map", pagehint_map_new(NULL, &host->map));
	host_must("region", pagehint_map_add(host->map, &region, &id));
}

void host_open(struct host *host, enum way way, uint64_t bytes)
{
	struct pagehint_zone_opts zone = { .struct_size = sizeof(zone), .flags = PAGEHINT_ZONE_LADDER };
	memset(host, 0, sizeof(*host));
	host->way = way;
	open_memory(host, bytes);
	open_backend(host);
	zone.max_sections = (host->frames + PAGEHINT_SECTION_FRAMES - 1) / PAGEHINT_SECTION_FRAMES;
	if (way != WAY_OURS)
		zone.flags = 0;
	host_must("zone", pagehint_zone_new(&zone, &host->zone));
	host_must("frames", pagehint_zone_add(host->zone, 0, host->frames));
	if (way == WAY_NONE)
		return;
	if (way == WAY_BITMAP)
		open_bitmap(host);
	else
		host_must("origin", pagehint_zone_origin_new(host->zone, &host->origin));
	host_must("reporter", pagehint_reporter_new(host->origin, host->backend, NULL, &host->reporter));
	if (way == WAY_PLAIN) /* without a ladder, what is left of the pressure is that nothing ages */
		host_must("pressure", pagehint_reporter_pressure(host->reporter, PAGEHINT_PRESSURE_FULL, 0));
}

uint64_t host_alloc(struct host *host, struct pagehint_cache *cache, uint32_t order)
{
	uint64_t frame;
	int r;
	for (unsigned tries = 0; tries < 1000000; tries++) {
		if (host->way == WAY_BITMAP) {
			pthread_mutex_lock(&host->lock);
			r = pagehint_zone_alloc(host->zone, order, &frame);
			if (r == 0)
				host_must("bits",
					  pagehint_bitmap_clear(host->bitmap, frame, UINT64_C(1) << order, NULL));
			pthread_mutex_unlock(&host->lock);
		} else if (cache != NULL) {
			r = pagehint_cache_alloc(cache, order, &frame);
		} else {
			r = pagehint_zone_alloc(host->zone, order, &frame);
		}
		if (r != -EAGAIN) /* the reporter has what is free, for a moment */
			break;
	}
	host_must("alloc", r);
	return frame;
}

void host_free(struct host *host, struct pagehint_cache *cache, uint64_t frame, uint32_t order)
{
	if (host->way == WAY_BITMAP) {
		pthread_mutex_lock(&host->lock);
		host_must("free", pagehint_zone_free(host->zone, frame, order));
		host_must("bits", pagehint_bitmap_set(host->bitmap, frame, UINT64_C(1) << order, NULL));
		pthread_mutex_unlock(&host->lock);
	} else {
		host_must("free", cache != NULL ? pagehint_cache_free(cache, frame, order)
						: pagehint_zone_free(host->zone, frame, order));
	}
}

uint64_t host_step(struct host *host, uint64_t now_ns)
{
	uint64_t deadline = 0;
	if (host->reporter == NULL)
		return UINT64_MAX;
	while (deadline <= now_ns)
		host_must("step", pagehint_reporter_step(host->reporter, now_ns, 0, &deadline));
	return deadline;
}

/* Sleeps until the reporter wants to be called, or until it is told to stop. */
static void *stepper(void *arg)
{
	struct host *host = arg;
	pthread_mutex_lock(&host->stopping);
	while (!host->stop) {
		uint64_t due = host_step(host, host_now());
		const struct timespec at = { .tv_sec = (time_t)(due / SECOND), .tv_nsec = (long)(due % SECOND) };
		while (!host->stop && host_now() < due)
			pthread_cond_timedwait(&host->stopped, &host->stopping, &at);
	}
	pthread_mutex_unlock(&host->stopping);
	return NULL;
}

void host_run(struct host *host)
{
	pthread_condattr_t clock;
	if (host->reporter == NULL)
		return;
	pthread_mutex_init(&host->stopping, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&host->stopped, &clock);
	host_must("thread", -pthread_create(&host->thread, NULL, stepper, host));
}

void host_close(struct host *host)
{
	uint64_t deadline;
	if (host->thread != 0) {
		pthread_mutex_lock(&host->stopping);
		host->stop = 1;
		pthread_cond_signal(&host->stopped);
		pthread_mutex_unlock(&host->stopping);
		pthread_join(host->thread, NULL);
	}
	if (host->reporter != NULL)
		host_must("stop", pagehint_reporter_stop(host->reporter, host_now(), &deadline));
	host_must("reporter", pagehint_reporter_free(host->reporter));
	pagehint_origin_free(host->origin);
	pagehint_bitmap_free(host->bitmap);
	if (pagehint_zone_check(host->zone, NULL) != 0)
		host_must("the zone is not whole", -EUCLEAN);
	pagehint_zone_destroy(host->zone);
	if (host->backend != host->inner)
		host_must("backend", pagehint_backend_free(host->backend));
	host_must("backend", pagehint_backend_free(host->inner));
	host_must("map", pagehint_map_free(host->map));
	munmap(host->memory, host->frames << 12);
	close(host->fd);
}
