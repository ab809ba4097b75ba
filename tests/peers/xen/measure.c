/*
 * What batches and large extents gain on the real hypervisor. Ratios alone: everything runs in an emulator, which makes the
 * entry into the hypervisor dearer than it is. The ways are measured in turns; medians; the work is checked each time.
 */
#include <stdio.h>
#include <stdlib.h>

#include "peers/xen/cases.h"
#include "peers/xen/domain.h"
#include "xen/abi.h"
#include "xen/hypercall.h"

#define ROUNDS 5u
#define SMALL_MIB 32u /* by single calls */
#define LARGE_MIB 256u
#define GIB_MIB 1024u

static uint32_t looks, starts; /* whether the hypervisor has wiped; what is timed after that */

/* [s] */
static double start_quiet(void)
{
	starts++;
	return host_quiet(&looks) == 0 ? (double)host_now() / 1e9 : -1;
}

static double seconds_since(double start)
{
	return (double)host_now() / 1e9 - start;
}

static int by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;
	return (*x > *y) - (*x < *y);
}

/* Sorts. */
static double median(double *of)
{
	qsort(of, ROUNDS, sizeof(of[0]), by_value);
	return of[ROUNDS / 2];
}

static void publish(const char *key, double value, const char *unit)
{
	printf("RESULT %s %.4g %s\n", key, value, unit);
}

/* How much longer the baseline takes: medians of the times; the spread is that of the rounds' own ratios. Sorts. */
static void publish_ratio(const char *key, double *baseline, double *ours)
{
	char spread[80];
	double ratio[ROUNDS];
	for (unsigned i = 0; i < ROUNDS; i++)
		ratio[i] = baseline[i] / ours[i];
	const double of_rounds = median(ratio), base_s = median(baseline), ours_s = median(ours);
	printf("%s: %.1f ms against %.1f ms\n", key, base_s * 1e3, ours_s * 1e3);
	publish(key, base_s / ours_s, "x");
	snprintf(spread, sizeof(spread), "%s.spread", key);
	publish(spread, 100 * (ratio[ROUNDS - 1] - ratio[0]) / of_rounds, "%");
}

/* One call a frame, without anything of ours above the call. */
static int single(struct subject *s, uint32_t op, uint64_t frames)
{
	for (uint64_t i = 0; i < frames; i++) {
		s->xen->extents[0] = FIRST + i;
		CHECK(ph_xen_extents(s->xen, op, 1, 0) == 1);
	}
	return 0;
}

/* Populates a new domain one way, and times that. 0 = done, and all of it is there */
static int populate(int pvh, uint32_t mib, uint32_t flags, int one_by_one, double *ret_seconds)
{
	const struct pagehint_run run = { FIRST, mib * MIB_FRAMES };
	struct subject s;
	CHECK(subject_open(&s, pvh, mib + 4, flags, 0) == 0);
	const double start = start_quiet();
	CHECK(start >= 0);
	if (one_by_one)
		CHECK(single(&s, PH_XEN_POPULATE, run.frames) == 0);
	else
		CHECK(pagehint_xen_populate(s.xen, &run, 1, 0, NULL, NULL) == 0);
	*ret_seconds = seconds_since(start);
	CHECK(domain_frames(s.domid) == run.frames);
	return subject_close(&s);
}

/* Takes memory back one way, and times that. */
static int reclaim(int one_by_one, double *ret_seconds)
{
	const struct pagehint_run run = { FIRST, SMALL_MIB * MIB_FRAMES };
	struct subject s;
	CHECK(subject_open(&s, 1, SMALL_MIB + 4, PAGEHINT_XEN_NO_SCRUB, 0) == 0);
	CHECK(pagehint_xen_populate(s.xen, &run, 1, 0, NULL, NULL) == 0);
	const double start = start_quiet();
	CHECK(start >= 0);
	if (one_by_one)
		CHECK(single(&s, PH_XEN_DECREASE, run.frames) == 0);
	else
		CHECK(pagehint_xen_reclaim(s.xen, &run, 1, NULL, NULL) == 0);
	*ret_seconds = seconds_since(start);
	CHECK(domain_frames(s.domid) == 0);
	return subject_close(&s);
}

static int populate_batch_vs_single(int pvh, const char *key)
{
	double by_one[ROUNDS], ours[ROUNDS];
	for (unsigned i = 0; i < ROUNDS; i++) {
		CHECK(populate(pvh, SMALL_MIB, 0, 1, &by_one[i]) == 0);
		CHECK(populate(pvh, SMALL_MIB, PAGEHINT_XEN_NO_2M | PAGEHINT_XEN_NO_1G, 0, &ours[i]) == 0);
	}
	publish_ratio(key, by_one, ours);
	return 0;
}

static int populate_large_vs_small(int pvh, const char *key)
{
	double small[ROUNDS], large[ROUNDS];
	for (unsigned i = 0; i < ROUNDS; i++) {
		CHECK(populate(pvh, LARGE_MIB, PAGEHINT_XEN_NO_2M | PAGEHINT_XEN_NO_1G, 0, &small[i]) == 0);
		CHECK(populate(pvh, LARGE_MIB, PAGEHINT_XEN_NO_1G, 0, &large[i]) == 0);
	}
	publish_ratio(key, small, large);
	return 0;
}

static int reclaim_batch_vs_single(const char *key)
{
	double by_one[ROUNDS], ours[ROUNDS];
	for (unsigned i = 0; i < ROUNDS; i++) {
		CHECK(reclaim(1, &by_one[i]) == 0);
		CHECK(reclaim(0, &ours[i]) == 0);
	}
	publish_ratio(key, by_one, ours);
	return 0;
}

/* Memory in pieces, and 1 GiB in one run: calls that populate takes, whatever for. */
static int calls_per_gib(void)
{
	static struct pagehint_run pieces[4096];
	const uint64_t frames = GIB_MIB * MIB_FRAMES;
	const struct pagehint_run whole = { UINT64_C(1) << 18, frames };
	struct pagehint_xen_stats before = { .struct_size = sizeof(before) }, after = before;
	struct subject s;
	/* 256 MiB of it in pieces of 16 frames with holes between: no extent is larger than a frame */
	const uint32_t n = (uint32_t)(frames / 4 / 16);
	for (uint32_t i = 0; i < n; i++)
		pieces[i] = (struct pagehint_run) { FIRST + 32 * (uint64_t)i, 16 };
	CHECK(subject_open(&s, 1, GIB_MIB + 4, 0, 0) == 0);
	CHECK(pagehint_xen_stats(s.xen, &before) == 0);
	CHECK(pagehint_xen_populate(s.xen, pieces, n, 0, NULL, NULL) == 0);
	CHECK(pagehint_xen_stats(s.xen, &after) == 0 && domain_frames(s.domid) == frames / 4);
	publish("xen.hypercalls_per_gib.fragmented", (double)(after.hypercalls - before.hypercalls) * 4, "calls");
	CHECK(subject_close(&s) == 0);
	CHECK(subject_open(&s, 1, GIB_MIB + 4, 0, 0) == 0);
	CHECK(pagehint_xen_stats(s.xen, &before) == 0);
	CHECK(pagehint_xen_populate(s.xen, &whole, 1, 0, NULL, NULL) == 0);
	CHECK(pagehint_xen_stats(s.xen, &after) == 0 && domain_frames(s.domid) == frames);
	publish("xen.hypercalls_per_gib.contiguous", (double)(after.hypercalls - before.hypercalls), "calls");
	publish("xen.contiguous.extents_1g", (double)after.extents_1g, "extents");
	publish("xen.contiguous.extents_2m", (double)after.extents_2m, "extents");
	return subject_close(&s);
}

int case_measure(void)
{
	CHECK(populate_batch_vs_single(1, "xen.populate_4k.batch_vs_single") == 0);
	CHECK(populate_batch_vs_single(0, "xen.populate_4k.batch_vs_single.pv") == 0);
	CHECK(populate_large_vs_small(1, "xen.populate_2m_vs_4k_batch") == 0);
	CHECK(populate_large_vs_small(0, "xen.populate_2m_vs_4k_batch.pv") == 0);
	CHECK(reclaim_batch_vs_single("xen.reclaim_4k.batch_vs_single") == 0);
	printf("measure: %u looks at what is to be wiped, before %u starts\n", looks, starts);
	CHECK(looks > starts); /* there was something to wait for, and it was seen */
	return calls_per_gib();
}
