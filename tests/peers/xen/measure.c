/*
 * What batches and large extents gain on the real hypervisor. Ratios alone: everything runs in an emulator, which makes the
 * entry into the hypervisor dearer than it is. The ways are measured in turns; medians; the work is checked each time.
 */
#include <inttypes.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

#include "peers/xen/cases.h"
#include "peers/xen/domain.h"
#include "xen/abi.h"
#include "xen/hypercall.h"

#define ROUNDS 5u
#define SMALL_MIB 32u /* by single calls */
#define LARGE_MIB 256u
#define GIB_MIB 1024u

static double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double median(double *of, unsigned n)
{
	for (unsigned i = 1; i < n; i++)
		for (unsigned k = i; k > 0 && of[k - 1] > of[k]; k--) {
			double kept = of[k];
			of[k] = of[k - 1];
			of[k - 1] = kept;
		}
	return of[n / 2];
}

static void publish(const char *key, double value, const char *unit)
{
	printf("RESULT %s %.4g %s\n", key, value, unit);
}

/* One call a frame, without anything of ours above the call. */
static int single(struct subject *s, uint64_t frames)
{
	for (uint64_t i = 0; i < frames; i++) {
		s->xen->extents[0] = FIRST + i;
		CHECK(ph_xen_extents(s->xen, PH_XEN_POPULATE, 1, 0) == 1);
	}
	return 0;
}

/* Populates a new domain one way, and times that. 0 = done, and all of it is there */
static int once(int pvh, uint32_t mib, uint32_t flags, int one_by_one, double *ret_seconds)
{
	const struct pagehint_run run = { FIRST, mib * MIB_FRAMES };
	struct subject s;
	CHECK(subject_open(&s, pvh, mib + 4, flags, 0) == 0);
	host_quiet(LARGE_MIB * MIB_FRAMES);
	double start = seconds();
	if (one_by_one)
		CHECK(single(&s, run.frames) == 0);
	else
		CHECK(pagehint_xen_populate(s.xen, &run, 1, 0, NULL, NULL) == 0);
	*ret_seconds = seconds() - start;
	CHECK(domain_frames(s.domid) == run.frames);
	return subject_close(&s);
}

static int batch_vs_single(int pvh, const char *key, double *ret_ratio)
{
	double by_one[ROUNDS], ours[ROUNDS];
	for (unsigned i = 0; i < ROUNDS; i++) {
		CHECK(once(pvh, SMALL_MIB, 0, 1, &by_one[i]) == 0);
		CHECK(once(pvh, SMALL_MIB, PAGEHINT_XEN_NO_2M | PAGEHINT_XEN_NO_1G, 0, &ours[i]) == 0);
	}
	*ret_ratio = median(by_one, ROUNDS) / median(ours, ROUNDS);
	printf("%s: %.1f ms by single calls, %.1f ms in batches, for %u MiB\n", key, median(by_one, ROUNDS) * 1e3,
	       median(ours, ROUNDS) * 1e3, SMALL_MIB);
	publish(key, *ret_ratio, "x");
	return 0;
}

static int large_vs_small(int pvh, const char *key, double *ret_ratio)
{
	double small[ROUNDS], large[ROUNDS];
	for (unsigned i = 0; i < ROUNDS; i++) {
		CHECK(once(pvh, LARGE_MIB, PAGEHINT_XEN_NO_2M | PAGEHINT_XEN_NO_1G, 0, &small[i]) == 0);
		CHECK(once(pvh, LARGE_MIB, PAGEHINT_XEN_NO_1G, 0, &large[i]) == 0);
	}
	*ret_ratio = median(small, ROUNDS) / median(large, ROUNDS);
	printf("%s: %.1f ms in small extents, %.1f ms in large ones, for %u MiB\n", key, median(small, ROUNDS) * 1e3,
	       median(large, ROUNDS) * 1e3, LARGE_MIB);
	publish(key, *ret_ratio, "x");
	return 0;
}

/* Every other frame of 2 GiB of addresses; and all of it in one run. Calls that populate takes, whatever for. */
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

/* Taking back: one call a frame against batches. */
static int reclaim_batch_vs_single(void)
{
	const struct pagehint_run run = { FIRST, SMALL_MIB * MIB_FRAMES };
	double by_one[ROUNDS], ours[ROUNDS];
	for (unsigned i = 0; i < ROUNDS; i++)
		for (int way = 0; way < 2; way++) {
			struct subject s;
			CHECK(subject_open(&s, 1, SMALL_MIB + 4, PAGEHINT_XEN_NO_SCRUB, 0) == 0);
			CHECK(pagehint_xen_populate(s.xen, &run, 1, 0, NULL, NULL) == 0);
			host_quiet(SMALL_MIB * MIB_FRAMES);
			double start = seconds();
			for (uint64_t k = 0; way == 0 && k < run.frames; k++) {
				s.xen->extents[0] = FIRST + k;
				CHECK(ph_xen_extents(s.xen, PH_XEN_DECREASE, 1, 0) == 1);
			}
			if (way == 1)
				CHECK(pagehint_xen_reclaim(s.xen, &run, 1, NULL, NULL) == 0);
			*(way == 0 ? &by_one[i] : &ours[i]) = seconds() - start;
			CHECK(domain_frames(s.domid) == 0 && subject_close(&s) == 0);
		}
	publish("xen.reclaim_4k.batch_vs_single", median(by_one, ROUNDS) / median(ours, ROUNDS), "x");
	return 0;
}

int case_measure(void)
{
	double batch = 0, large = 0, ratio = 0;
	CHECK(batch_vs_single(1, "xen.populate_4k.batch_vs_single", &batch) == 0);
	CHECK(batch_vs_single(0, "xen.populate_4k.batch_vs_single.pv", &ratio) == 0);
	CHECK(large_vs_small(1, "xen.populate_2m_vs_4k_batch", &large) == 0);
	CHECK(large_vs_small(0, "xen.populate_2m_vs_4k_batch.pv", &ratio) == 0);
	CHECK(reclaim_batch_vs_single() == 0);
	return calls_per_gib();
}
