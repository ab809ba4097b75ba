/*
 * How many notifications giving memory back costs: the reporter through the virtio driver, at 2 MiB and at 64 KiB, with and
 * without ageing (S3 in README.md), beside a model of what the Linux driver does (driver/kernel.h), on the recorded build. All of
 * it in the trace's own time, so it counts and does not measure: one run is as good as many.
 *
 * A notification is an exit of the guest, the price that small orders and early reports pay.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pagehint/driver.h>
#include <pagehint/origin.h>
#include <pagehint/reporter.h>
#include <pagehint/zone.h>

#include "agent/balloon.h"
#include "driver/kernel.h"
#include "trace.h"

#define INTERVAL_NS UINT64_C(100000000) /* of both: the build is short, and this gives enough rounds to count */
#define GIB (UINT64_C(1) << 30)

struct guest {
	struct balloon balloon;
	struct pagehint_driver *driver;
	struct pagehint_zone *zone;
	struct pagehint_origin *origin;
	struct pagehint_backend *backend;
	struct pagehint_reporter *reporter;
	void *memory, *dma;
};

/* what came of one way */
struct figures {
	uint64_t kicks, buffers, bytes;
};

static struct trace trace;
static uint32_t *frame_of;
static uint64_t frames;

static int failed(const char *what)
{
	fprintf(stderr, "driver: %s\n", what);
	return 1;
}

static void ignore(void *ctx, uint64_t addr, uint64_t bytes, int is_back)
{
	(void)ctx;
	(void)addr;
	(void)bytes;
	(void)is_back;
}

static int open_driver(struct guest *g)
{
	struct pagehint_driver_opts opts = { .struct_size = sizeof(opts), .dma_address = UINT64_C(1) << 40 };
	uint64_t bytes;
	if (pagehint_driver_size(&opts, &bytes, &opts.dma_bytes) < 0)
		return -1;
	g->memory = aligned_alloc(64, (size_t)((bytes + 63) / 64 * 64));
	g->dma = aligned_alloc(64, (size_t)((opts.dma_bytes + 63) / 64 * 64));
	struct balloon_ask ask = {
		.discard = ignore, .dma = g->dma, .dma_address = opts.dma_address, .report_ring = KERNEL_CAPACITY
	};
	if (g->memory == NULL || g->dma == NULL || balloon_open(&g->balloon, &ask) < 0 ||
	    pagehint_driver_init(g->memory, bytes, g->dma, g->balloon.virtio, NULL, NULL, &opts, &g->driver) < 0)
		return -1;
	return pagehint_driver_start(g->driver, 0);
}

static int open_guest(struct guest *g, uint32_t order, int ageing)
{
	struct pagehint_zone_opts zone = { .struct_size = sizeof(zone), .granule_order = order };
	struct pagehint_reporter_opts opts = { .struct_size = sizeof(opts), .interval_ns = INTERVAL_NS };
	memset(g, 0, sizeof(*g));
	zone.max_sections = (frames + PAGEHINT_SECTION_FRAMES - 1) / PAGEHINT_SECTION_FRAMES;
	if (open_driver(g) < 0 || pagehint_zone_new(&zone, &g->zone) < 0 || pagehint_zone_add(g->zone, 0, frames) < 0 ||
	    pagehint_zone_origin_new(g->zone, &g->origin) < 0 ||
	    pagehint_driver_backend_new(g->driver, NULL, &g->backend) < 0 ||
	    pagehint_reporter_new(g->origin, g->backend, &opts, &g->reporter) < 0)
		return -1;
	/* without a ladder the order stays that of the granule; what is left of the pressure is: nothing ages */
	return ageing ? 0 : pagehint_reporter_pressure(g->reporter, PAGEHINT_PRESSURE_FULL, 0);
}

static int step(struct guest *g, uint64_t now_ns, uint64_t *next_ns)
{
	do {
		if (pagehint_reporter_step(g->reporter, now_ns, 0, next_ns) < 0)
			return -1;
	} while (*next_ns <= now_ns);
	return 0;
}

static int close_guest(struct guest *g)
{
	int r = pagehint_reporter_free(g->reporter);
	if (r == 0)
		r = pagehint_backend_free(g->backend);
	pagehint_origin_free(g->origin);
	if (pagehint_zone_check(g->zone, NULL) != 0)
		r = -1;
	pagehint_zone_destroy(g->zone);
	free(g->memory);
	free(g->dma);
	return r;
}

/* The trace through zone, reporter and driver. */
static int run_ours(uint32_t order, int ageing, struct figures *f)
{
	struct guest g;
	uint64_t next_ns = 0, now_ns = 0, frame;
	if (open_guest(&g, order, ageing) < 0)
		return failed("a guest does not come up");
	uint64_t kicks = g.balloon.kicks;
	for (size_t i = 0; i < trace.n; i++) {
		const struct trace_event *e = &trace.events[i];
		for (now_ns = e->us * 1000; next_ns <= now_ns;)
			if (step(&g, next_ns, &next_ns) < 0)
				return failed("the reporter failed");
		if (e->kind == TRACE_ALLOC) {
			if (pagehint_zone_alloc(g.zone, e->order, &frame) < 0)
				return failed("the zone is full");
			frame_of[e->id] = (uint32_t)frame;
		} else if (e->kind != TRACE_FREE_FOREIGN) {
			if (pagehint_zone_free(g.zone, frame_of[e->id], e->order) < 0)
				return failed("the zone refuses a free");
		}
	}
	for (uint64_t end_ns = now_ns + 2 * INTERVAL_NS; next_ns <= end_ns;)
		if (step(&g, next_ns, &next_ns) < 0)
			return failed("the reporter failed");
	struct pagehint_reporter_stats stats = { .struct_size = sizeof(stats) };
	if (pagehint_reporter_stop(g.reporter, next_ns, &next_ns) < 0)
		return failed("the device did not answer");
	if (pagehint_reporter_stats(g.reporter, &stats) < 0 || stats.reported != g.balloon.reported)
		return failed("the device was told something else than the reporter says");
	*f = (struct figures) { g.balloon.kicks - kicks, g.balloon.buffers, g.balloon.reported };
	return close_guest(&g) < 0 ? failed("something would not let go") : 0;
}

static int run_kernel(uint32_t order, struct figures *f)
{
	struct kernel *k = kernel_new(frames, order, INTERVAL_NS);
	uint64_t now_ns = 0, live = 0;
	for (size_t i = 0; i < trace.n; i++) {
		const struct trace_event *e = &trace.events[i];
		now_ns = e->us * 1000;
		kernel_tick(k, now_ns);
		if (e->kind == TRACE_ALLOC) {
			uint64_t frame = kernel_alloc(k, e->order);
			if (frame == UINT64_MAX)
				return failed("the kernel's model is full");
			frame_of[e->id] = (uint32_t)frame;
			live += UINT64_C(1) << e->order;
		} else if (e->kind != TRACE_FREE_FOREIGN) {
			kernel_free(k, frame_of[e->id], e->order, now_ns);
			live -= UINT64_C(1) << e->order;
		}
	}
	kernel_tick(k, now_ns + 2 * INTERVAL_NS);
	struct kernel_counts c = kernel_counts(k);
	*f = (struct figures) { c.kicks, c.buffers, c.frames << 12 };
	kernel_delete(k);
	return c.free_frames + live == frames ? 0 : failed("the kernel's model lost frames");
}

static double per_gib(const struct figures *f)
{
	return f->bytes == 0 ? 0 : (double)f->kicks / ((double)f->bytes / (double)GIB);
}

static void say(const char *name, const struct figures *f)
{
	printf("%-20s %8" PRIu64 " %10" PRIu64 " %10.1f %12.1f\n", name, f->kicks, f->buffers,
	       (double)f->bytes / (1 << 20), per_gib(f));
}

static struct {
	char key[64];
	double value;
} published[16];
static size_t n_published;

/* RESULT KEY[.SIZE.WAY] VALUE */
static void publish(const char *key, const char *size, const char *way, double value)
{
	char *full = published[n_published].key;
	snprintf(full, sizeof(published[0].key), size == NULL ? "%s" : "%s.%s.%s", key, size, way);
	published[n_published++].value = value;
	printf("RESULT %s %.3f %s\n", full, value, strstr(full, "vs") != NULL ? "ratio" : "kicks");
}

static int write_json(const char *path)
{
	FILE *to = fopen(path, "w");
	if (to == NULL)
		return failed("cannot write the JSON");
	fprintf(to, "{\n");
	for (size_t i = 0; i < n_published; i++)
		fprintf(to, "  \"%s\": %.6f%s\n", published[i].key, published[i].value, i + 1 < n_published ? "," : "");
	fprintf(to, "}\n");
	return fclose(to) == 0 ? 0 : failed("cannot write the JSON");
}

static int run_all(void)
{
	static const struct {
		const char *name;
		uint32_t order;
	} sizes[] = { { "2m", 9 }, { "64k", 4 } };
	static struct figures ours[2][2], kernel[2];
	for (uint32_t s = 0; s < 2; s++)
		if (run_ours(sizes[s].order, 1, &ours[s][0]) != 0 || run_ours(sizes[s].order, 0, &ours[s][1]) != 0 ||
		    run_kernel(sizes[s].order, &kernel[s]) != 0)
			return 1;
	printf("%-20s %8s %10s %10s %12s\n", "", "kicks", "buffers", "MiB", "kicks/GiB");
	for (uint32_t s = 0; s < 2; s++) {
		char name[40];
		snprintf(name, sizeof(name), "%s aged", sizes[s].name);
		say(name, &ours[s][0]);
		snprintf(name, sizeof(name), "%s at once", sizes[s].name);
		say(name, &ours[s][1]);
		snprintf(name, sizeof(name), "%s kernel's way", sizes[s].name);
		say(name, &kernel[s]);
	}
	for (uint32_t s = 0; s < 2; s++) {
		const char *name = sizes[s].name;
		if (ours[s][0].bytes == 0 || ours[s][1].bytes == 0 || kernel[s].kicks == 0)
			return failed("nothing was reported");
		publish("driver.kicks_per_gib", name, "aged", per_gib(&ours[s][0]));
		publish("driver.kicks_per_gib", name, "at_once", per_gib(&ours[s][1]));
		publish("driver.kicks_per_gib", name, "kernel", per_gib(&kernel[s]));
		publish("driver.kicks_vs_kernel", name, "aged", per_gib(&ours[s][0]) / per_gib(&kernel[s]));
		publish("driver.kicks_vs_kernel", name, "at_once", per_gib(&ours[s][1]) / per_gib(&kernel[s]));
	}
	publish("driver.kicks_vs_kernel", NULL, NULL, per_gib(&ours[0][0]) / per_gib(&kernel[0]));
	return 0;
}

int main(int argc, char **argv)
{
	struct trace_error error;
	const char *json = NULL;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--json") == 0 && i + 1 < argc)
			json = argv[++i];
		else if (strcmp(argv[i], "--quick") != 0) /* it takes a second anyway */
			return fprintf(stderr, "usage: %s [--quick] [--json FILE]\n", argv[0]), 2;
	}
	if (trace_load(BENCH_TRACE, &trace, &error) != 0)
		return failed(error.text);
	frames = (trace_peak_live(&trace) / 2 * 3 + (64 << 20)) / (64 << 20) * (64 << 20) >> 12;
	frame_of = calloc((size_t)trace.allocs + 1, sizeof(*frame_of));
	int r = frame_of == NULL ? failed("no memory") : run_all();
	if (r == 0 && json != NULL)
		r = write_json(json);
	free(frame_of);
	trace_free(&trace);
	return r;
}
