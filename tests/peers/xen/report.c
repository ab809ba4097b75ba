/*
 * The whole way: a zone hands out a domain's frames, a reporter finds what is free, the backend takes it from the domain.
 * Judged by what the toolstack's own interface counts for the domain.
 */
#include <string.h>

#include <pagehint/bitmap.h>
#include <pagehint/origin.h>
#include <pagehint/reporter.h>
#include <pagehint/zone.h>

#include "peers/xen/cases.h"
#include "peers/xen/domain.h"
#include "support/chance.h"

#define MIB 64u
#define FRAMES (MIB * MIB_FRAMES)
#define BLOCKS 2048u

static struct {
	uint64_t frame;
	uint32_t order;
} block[BLOCKS];
static uint32_t blocks;

static int balanced(struct pagehint_zone *zone)
{
	struct pagehint_zone_stats z = { .struct_size = sizeof(z) };
	return pagehint_zone_stats(zone, &z) == 0 && pagehint_zone_check(zone, NULL) == 0 && z.total == FRAMES &&
	       z.free + z.cached + z.out + z.isolated + z.in_flight + z.transit == z.total;
}

/* Takes blocks until about `wanted` frames are out; what has no memory gets it before it is used. 0 = done */
static int take(struct pagehint_zone *zone, struct pagehint_backend *backend, struct subject *s, uint64_t wanted)
{
	uint64_t out = 0;
	while (out < wanted && blocks < BLOCKS) {
		uint32_t order = (uint32_t)rnd(10);
		uint64_t frame = 0;
		if (pagehint_zone_alloc(zone, order, &frame) != 0)
			break;
		const struct pagehint_run run = { frame, UINT64_C(1) << order };
		CHECK(pagehint_backend_populate(backend, &run, 1, NULL) == 0);
		for (uint64_t i = 0; i < run.frames; i++)
			CHECK(pagehint_bitmap_test(s->present, frame + i) == 1);
		block[blocks].frame = frame;
		block[blocks++].order = order;
		out += run.frames;
	}
	CHECK(out + 512 > wanted);
	return 0;
}

static int step_until_quiet(struct pagehint_reporter *reporter, uint64_t *now)
{
	for (int i = 0; i < 64; i++) {
		uint64_t next = 0;
		CHECK(pagehint_reporter_step(reporter, *now, 0, &next) == 0);
		if (next == UINT64_MAX)
			break;
		*now = next > *now ? next : *now + 1;
	}
	return 0;
}

static int rounds(struct subject *s, struct pagehint_zone *zone, struct pagehint_backend *backend,
		  struct pagehint_reporter *reporter)
{
	struct pagehint_reporter_stats before = { .struct_size = sizeof(before) }, after = before;
	struct pagehint_backend_stats sent = { .struct_size = sizeof(sent) }, now_sent = sent;
	uint64_t now = 1;
	for (int round = 0; round < 4; round++) {
		CHECK(take(zone, backend, s, FRAMES / 2) == 0);
		CHECK(balanced(zone) && domain_frames(s->domid) == pagehint_bitmap_count(s->present));
		while (blocks > 0) {
			uint32_t i = (uint32_t)rnd(blocks);
			if (blocks < 40 && round < 3)
				break; /* some stay out, so that not every granule is whole */
			CHECK(pagehint_zone_free(zone, block[i].frame, block[i].order) == 0);
			block[i] = block[--blocks];
		}
		uint64_t had = domain_frames(s->domid);
		CHECK(pagehint_reporter_stats(reporter, &before) == 0);
		CHECK(pagehint_backend_stats(backend, &sent) == 0);
		CHECK(step_until_quiet(reporter, &now) == 0);
		CHECK(pagehint_reporter_stats(reporter, &after) == 0);
		uint64_t has = domain_frames(s->domid);
		printf("reporter: round %d: the domain had %llu frames, has %llu\n", round, (unsigned long long)had,
		       (unsigned long long)has);
		CHECK(pagehint_backend_stats(backend, &now_sent) == 0);
		/* by exactly what was said to be freed */
		CHECK(has < had && has == pagehint_bitmap_count(s->present));
		CHECK(now_sent.freed - sent.freed == (had - has) << 12 && now_sent.lazy == 0);
		CHECK(after.reported - before.reported >= (had - has) << 12 && after.failed == 0);
		CHECK(balanced(zone));
	}
	return 0;
}

int case_reporter(void)
{
	const struct pagehint_run all = { FIRST, FRAMES };
	struct pagehint_zone_opts opts = { .struct_size = sizeof(opts), .flags = PAGEHINT_ZONE_STALE };
	struct pagehint_backend_stats stats = { .struct_size = sizeof(stats) };
	struct pagehint_zone *zone = NULL;
	struct pagehint_origin *origin = NULL;
	struct pagehint_backend *backend = NULL;
	struct pagehint_reporter *reporter = NULL;
	struct subject s;
	uint64_t next = 0;
	state = 0x1234567;
	CHECK(subject_open(&s, 1, MIB + 4, 0, KNOWS) == 0);
	CHECK(pagehint_xen_populate(s.xen, &all, 1, 0, NULL, NULL) == 0 && domain_frames(s.domid) == FRAMES);
	CHECK(pagehint_zone_new(&opts, &zone) == 0 && pagehint_zone_add(zone, FIRST, FRAMES) == 0);
	CHECK(pagehint_zone_origin_new(zone, &origin) == 0);
	CHECK(pagehint_xen_backend_new(s.xen, NULL, &backend) == 0);
	CHECK(pagehint_reporter_new(origin, backend, NULL, &reporter) == 0);
	CHECK(rounds(&s, zone, backend, reporter) == 0);
	/* everything was freed in the last round: all of the domain's memory has gone back */
	CHECK(domain_frames(s.domid) == 0);
	CHECK(pagehint_backend_stats(backend, &stats) == 0);
	CHECK(stats.failed == 0 && stats.kept == 0);
	CHECK(pagehint_reporter_stop(reporter, UINT64_C(1) << 60, &next) == 0);
	CHECK(pagehint_reporter_free(reporter) == 0);
	pagehint_origin_free(origin);
	CHECK(pagehint_backend_free(backend) == 0);
	pagehint_zone_destroy(zone);
	return subject_close(&s);
}
