#include "host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void need(struct host *h, int result, const char *what)
{
	if (result == 0)
		return;
	if (!h->failed)
		fprintf(stderr, "%s: %s\n", what, strerror(-result));
	h->failed = 1;
}

int host_open(struct host *h, uint64_t seed)
{
	struct pagehint_zone_opts zone = { .struct_size = sizeof(zone), .max_sections = HOST_GIB };
	struct pagehint_flush_opts flush = { .struct_size = sizeof(flush),
					     .max_sections = HOST_GIB,
					     .cpus = HOST_CPUS };
	memset(h, 0, sizeof(*h));
	h->random = seed * 2654435761u + 88172645463325252u;
	int r = pagehint_zone_new(&zone, &h->zone);
	if (r == 0)
		r = pagehint_zone_add(h->zone, 0, (uint64_t)HOST_GIB * PAGEHINT_SECTION_FRAMES);
	if (r == 0)
		r = pagehint_flush_new(&flush, &h->flush);
	return r;
}

void host_close(struct host *h)
{
	pagehint_flush_free(h->flush);
	pagehint_zone_destroy(h->zone);
}

uint64_t host_out(struct host *h)
{
	struct pagehint_zone_stats stats = { .struct_size = sizeof(stats) };
	need(h, pagehint_zone_stats(h->zone, &stats), "stats");
	return stats.out;
}

/* Life goes on: some CPU switches to another address space, and so flushes. */
static void one_cpu_switches(struct host *h)
{
	h->random ^= h->random << 13;
	h->random ^= h->random >> 7;
	h->random ^= h->random << 17;
	uint32_t cpu = (uint32_t)((h->random >> 11) % HOST_CPUS);
	need(h, pagehint_flush_done(h->flush, cpu, pagehint_flush_tick(h->flush)), "switch");
}

/* What the filter has gathered is decided here: flushes the CPUs that need it, if there are any. */
static void decide(struct host *h, const struct pagehint_flush_filter *filter)
{
	uint64_t cpus[HOST_CPU_WORDS];
	uint32_t n;
	need(h, pagehint_flush_need(h->flush, filter, NULL, HOST_CPU_WORDS, cpus, &n), "need");
	if (n == 0)
		return;
	uint64_t tick = pagehint_flush_tick(h->flush);
	for (uint32_t cpu = 0; cpu < HOST_CPUS; cpu++)
		if (cpus[cpu / 64] >> (cpu % 64) & 1)
			need(h, pagehint_flush_done(h->flush, cpu, tick), "done");
	h->flushes++;
}

static void domain_add(struct host *h, struct domain *d, uint64_t frame, uint64_t frames)
{
	if (d->n != 0 && d->runs[d->n - 1].frame + d->runs[d->n - 1].frames == frame) {
		d->runs[d->n - 1].frames += frames;
		return;
	}
	if (d->n == d->room) {
		size_t room = d->room * 2 + 64;
		struct pagehint_run *runs = realloc(d->runs, room * sizeof(*runs));
		if (runs == NULL) {
			need(h, -12, "runs");
			return;
		}
		d->runs = runs;
		d->room = room;
	}
	d->runs[d->n++] = (struct pagehint_run) { frame, frames };
}

/* Up to n extents from the front of a dying domain: stamped, then freed. */
static void tear_down(struct host *h, struct domain *d, uint32_t order, uint32_t n)
{
	uint64_t frames[HOST_BATCH];
	while (n != 0 && d->at < d->n && !h->failed) {
		struct pagehint_run *run = &d->runs[d->at];
		uint64_t left = run->frames >> order;
		uint32_t here = left < n ? (uint32_t)left : n;
		here = here < HOST_BATCH ? here : HOST_BATCH;
		struct pagehint_run going = { run->frame, (uint64_t)here << order };
		for (uint32_t i = 0; i < here; i++)
			frames[i] = run->frame + ((uint64_t)i << order);
		need(h, pagehint_flush_freed(h->flush, &going, 1), "stamp");
		need(h, pagehint_zone_free_batch(h->zone, order, here, frames, NULL), "free");
		run->frame += going.frames;
		run->frames -= going.frames;
		d->at += run->frames == 0;
		n -= here;
	}
}

/* the filter for one extent, frame by frame */
static void decide_each_frame(struct host *h, uint64_t frame, uint32_t order)
{
	for (uint64_t i = 0; i < UINT64_C(1) << order; i++) {
		struct pagehint_flush_filter filter;
		struct pagehint_run run = { frame + i, 1 };
		pagehint_flush_begin(&filter);
		need(h, pagehint_flush_add(h->flush, &filter, &run, 1), "add");
		decide(h, &filter);
	}
}

/* One batch, extent by extent. */
static void batch_of_extents(struct host *h, struct domain *d, enum way way, uint32_t order, uint32_t n,
			     struct domain *dying)
{
	struct pagehint_flush_filter filter;
	pagehint_flush_begin(&filter);
	for (uint32_t i = 0; i < n && !h->failed; i++) {
		uint64_t frame;
		if (dying != NULL)
			tear_down(h, dying, order, 1);
		need(h, pagehint_zone_alloc(h->zone, order, &frame), "alloc");
		if (h->failed)
			return;
		if (way == WAY_BLOCK) {
			decide_each_frame(h, frame, order);
		} else {
			if (way == WAY_ALLOC)
				pagehint_flush_begin(&filter);
			need(h, pagehint_flush_add_blocks(h->flush, &filter, order, 1, &frame), "add");
			if (way == WAY_ALLOC)
				decide(h, &filter);
		}
		domain_add(h, d, frame, UINT64_C(1) << order);
	}
	if (way == WAY_BATCH)
		decide(h, &filter);
}

static void batch_at_once(struct host *h, struct domain *d, enum way way, uint32_t order, uint32_t n,
			  struct domain *dying)
{
	uint64_t frames[HOST_BATCH];
	uint32_t got = 0;
	if (dying != NULL)
		tear_down(h, dying, order, n);
	need(h, pagehint_zone_alloc_batch(h->zone, order, n, frames, &got), "alloc");
	if (way == WAY_POPULATE) {
		struct pagehint_flush_filter filter;
		pagehint_flush_begin(&filter);
		need(h, pagehint_flush_add_blocks(h->flush, &filter, order, got, frames), "add");
		decide(h, &filter);
	}
	for (uint32_t i = 0; i < got; i++)
		domain_add(h, d, frames[i], UINT64_C(1) << order);
}

void host_create(struct host *h, struct domain *d, enum way way, uint32_t order, uint64_t n, struct domain *dying)
{
	d->n = d->at = 0;
	while (n != 0 && !h->failed) {
		uint32_t here = n < HOST_BATCH ? (uint32_t)n : HOST_BATCH;
		if (way == WAY_NONE || way == WAY_POPULATE)
			batch_at_once(h, d, way, order, here, dying);
		else
			batch_of_extents(h, d, way, order, here, dying);
		h->batches++;
		n -= here;
		if (dying != NULL)
			one_cpu_switches(h);
	}
}

void host_destroy(struct host *h, struct domain *d, uint32_t order)
{
	while (d->at < d->n && !h->failed) {
		tear_down(h, d, order, HOST_BATCH);
		one_cpu_switches(h);
	}
}
