#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <pagehint/bitmap.h>

#include "peers/xen/cases.h"
#include "peers/xen/domain.h"
#include "support/chance.h"
#include "xen/abi.h"
#include "xen/hypercall.h"

#define MIB 256u
#define FRAMES (MIB * MIB_FRAMES)
#define MAX_RUNS 2048u

int subject_open(struct subject *s, int pvh, uint64_t max_mib, uint32_t flags, uint32_t how)
{
	struct pagehint_xen_opts opts = { .struct_size = sizeof(opts), .flags = flags };
	const uint64_t frames = max_mib * MIB_FRAMES + 512;
	struct pagehint_bitmap_opts bitmap = { .struct_size = sizeof(bitmap), .span = FIRST + frames };
	memset(s, 0, sizeof(*s));
	s->domid = domain_make(pvh, max_mib);
	CHECK(s->domid != 0);
	if (!pvh) {
		s->p2m = malloc(frames * sizeof(*s->p2m));
		CHECK(s->p2m != NULL);
		for (uint64_t i = 0; i < frames; i++)
			s->p2m[i] = PAGEHINT_XEN_NOWHERE;
		opts.kind = PAGEHINT_XEN_PV;
		opts.p2m = s->p2m;
		opts.p2m_first = FIRST;
		opts.p2m_frames = frames;
	} else if ((how & KNOWS) != 0) {
		CHECK(pagehint_bitmap_new(&bitmap, &s->present) == 0);
		CHECK(pagehint_bitmap_add(s->present, 0, FIRST + frames) == 0);
		opts.present = s->present;
	}
	opts.domid = s->domid;
	int r = pagehint_xen_open(&opts, &s->xen);
	if (r < 0)
		printf("pagehint_xen_open: error %d\n", r);
	CHECK(r == 0);
	return 0;
}

int subject_close(struct subject *s)
{
	CHECK(pagehint_xen_free(s->xen) == 0);
	pagehint_bitmap_free(s->present);
	free(s->p2m);
	CHECK(s->domid == 0 || domain_destroy(s->domid) == 0);
	return 0;
}

static struct pagehint_run runs[MAX_RUNS];

/* Cuts the frames into runs of any length; every other one is in. Returns how many; *ret_frames: in them. */
static uint32_t random_runs(uint64_t *ret_frames)
{
	uint64_t at = FIRST;
	uint32_t n = 0;
	*ret_frames = 0;
	while (at < FIRST + FRAMES && n < MAX_RUNS) {
		uint64_t left = FIRST + FRAMES - at, in = 1 + rnd(rnd(4) == 0 ? 2048 : 64);
		in = in < left ? in : left;
		runs[n++] = (struct pagehint_run) { at, in };
		*ret_frames += in;
		at += in + 1 + rnd(rnd(4) == 0 ? 2048 : 64);
	}
	return n;
}

/* What the hypervisor says through us, and through libxenctrl. */
static int has(struct subject *s, uint64_t frames)
{
	uint64_t current = 0;
	return pagehint_xen_reservation(s->xen, &current, NULL) == 0 && current == frames &&
	       domain_frames(s->domid) == frames;
}

static int populate_and_reclaim(int pvh)
{
	const struct pagehint_run pieces[] = { { FIRST, 512 * 3 + 17 },
					       { FIRST + 512 * 3 + 17, 4096 },
					       { FIRST + 512 * 3 + 17 + 4096, FRAMES - (512 * 3 + 17 + 4096) } };
	const uint64_t before = host_free_frames();
	struct pagehint_outcome outcomes[MAX_RUNS], sum;
	struct pagehint_xen_stats stats = { .struct_size = sizeof(stats) };
	struct subject s;
	uint64_t gone = 0, had = 0;
	state = 0x9e3779b97f4a7c15;
	CHECK(subject_open(&s, pvh, MIB + 8, 0, KNOWS) == 0);
	for (int i = 0; i < 3; i++) {
		CHECK(pagehint_xen_populate(s.xen, &pieces[i], 1, 0, outcomes, &sum) == 0);
		CHECK(sum.accepted == pieces[i].frames << 12 && outcomes[0].accepted == sum.accepted);
		had += pieces[i].frames;
		CHECK(has(&s, had));
	}
	uint32_t n = random_runs(&gone);
	CHECK(n > 100 && gone > FRAMES / 4);
	CHECK(pagehint_xen_reclaim(s.xen, runs, n, outcomes, &sum) == 0);
	CHECK(sum.freed == gone << 12 && sum.asked == sum.freed);
	CHECK(has(&s, FRAMES - gone));
	/* once more: nothing is there any more, and nothing is taken twice */
	CHECK(pagehint_xen_reclaim(s.xen, runs, n, NULL, &sum) == 0);
	CHECK(sum.absent == gone << 12 && has(&s, FRAMES - gone));
	CHECK(pagehint_xen_populate(s.xen, runs, n, 0, outcomes, &sum) == 0);
	CHECK(sum.accepted == gone << 12 && has(&s, FRAMES));
	CHECK(pagehint_xen_populate(s.xen, runs, n, 0, NULL, &sum) == -EEXIST && has(&s, FRAMES));
	CHECK(pagehint_xen_stats(s.xen, &stats) == 0);
	CHECK(stats.extents_2m > 100 && stats.claims >= 4 && stats.populated == FRAMES + gone);
	CHECK(subject_close(&s) == 0);
	uint64_t after = host_free_frames();
	printf("host: %llu frames free before, %llu after\n", (unsigned long long)before, (unsigned long long)after);
	CHECK(after + MIB_FRAMES >= before && before + MIB_FRAMES >= after);
	return 0;
}

int case_populate_pvh(void)
{
	return populate_and_reclaim(1);
}

int case_populate_pv(void)
{
	return populate_and_reclaim(0);
}

int case_limit(void)
{
	const struct pagehint_run fits = { FIRST, 8 * MIB_FRAMES }, more = { FIRST + 16384, 9 * MIB_FRAMES };
	const struct pagehint_run huge = { UINT64_C(1) << 18, UINT64_C(1) << 26 };
	struct pagehint_outcome outcome, sum;
	struct subject s;
	CHECK(subject_open(&s, 1, 16, 0, 0) == 0);
	CHECK(pagehint_xen_populate(s.xen, &fits, 1, 0, NULL, NULL) == 0);
	CHECK(pagehint_xen_populate(s.xen, &more, 1, 0, &outcome, NULL) == -ENOSPC);
	CHECK(outcome.failed == more.frames << 12 && outcome.failed_why == PAGEHINT_WHY_LIMIT && has(&s, fits.frames));
	CHECK(pagehint_xen_populate(s.xen, &huge, 1, 0, &outcome, NULL) == -ENOSPC && has(&s, fits.frames));
	/* as much as there is room for: the hypervisor stops half way, and its count is not taken for an error */
	CHECK(pagehint_xen_populate(s.xen, &more, 1, PAGEHINT_XEN_PARTIAL, &outcome, &sum) == -ENOSPC);
	CHECK(outcome.accepted == (8 * MIB_FRAMES) << 12 && outcome.failed == MIB_FRAMES << 12);
	CHECK(has(&s, 16 * MIB_FRAMES) && sum.failed_why == PAGEHINT_WHY_LIMIT);
	/* more than the host has: the claim says so before anything is done */
	CHECK(domain_max(s.domid, 1 << 20) == 0);
	CHECK(pagehint_xen_populate(s.xen, &huge, 1, 0, &outcome, NULL) < 0);
	CHECK(pagehint_xen_populate(s.xen, &(struct pagehint_run) { 1 << 20, 1 << 24 }, 1, 0, &outcome, NULL) ==
	      -ENOMEM);
	CHECK(outcome.failed_why == PAGEHINT_WHY_NO_MEMORY && has(&s, 16 * MIB_FRAMES));
	return subject_close(&s);
}

int case_holes(void)
{
	const struct pagehint_run there[] = { { FIRST, 7 }, { FIRST + 8, 504 } }, all = { FIRST, 512 };
	struct pagehint_outcome outcome;
	struct subject s;
	CHECK(subject_open(&s, 1, 16, 0, 0) == 0); /* nobody knows what is present */
	CHECK(pagehint_xen_populate(s.xen, there, 2, 0, NULL, NULL) == 0 && has(&s, 511));
	CHECK(pagehint_xen_reclaim(s.xen, &all, 1, &outcome, NULL) == 0);
	/* the hole could not be wiped, so it was not even tried; what lies behind it went */
	CHECK(outcome.freed == 511 << 12 && outcome.kept == 1 << 12 && has(&s, 0));
	CHECK(outcome.kept_why == PAGEHINT_WHY_UNSCRUBBED);
	CHECK(subject_close(&s) == 0);
	CHECK(subject_open(&s, 1, 16, PAGEHINT_XEN_NO_SCRUB, 0) == 0);
	CHECK(pagehint_xen_populate(s.xen, there, 2, 0, NULL, NULL) == 0);
	CHECK(pagehint_xen_reclaim(s.xen, &all, 1, &outcome, NULL) == 0);
	CHECK(outcome.freed == 511 << 12 && outcome.kept_why == PAGEHINT_WHY_HOLE && has(&s, 0));
	CHECK(subject_close(&s) == 0);
	CHECK(subject_open(&s, 1, 16, 0, KNOWS) == 0);
	CHECK(pagehint_xen_populate(s.xen, there, 2, 0, NULL, NULL) == 0);
	CHECK(pagehint_xen_reclaim(s.xen, &all, 1, &outcome, NULL) == 0);
	CHECK(outcome.freed == 511 << 12 && outcome.absent == 1 << 12 && has(&s, 0));
	return subject_close(&s);
}

int case_mapped(void)
{
	const struct pagehint_run run = { FIRST, 64 };
	const uint64_t frames[] = { FIRST + 3, FIRST + 40 };
	struct pagehint_outcome outcome;
	struct subject s;
	CHECK(subject_open(&s, 1, 16, 0, KNOWS) == 0);
	CHECK(pagehint_xen_populate(s.xen, &run, 1, 0, NULL, NULL) == 0);
	void *at = domain_map(s.domid, frames, 2);
	CHECK(at != NULL);
	CHECK(pagehint_xen_reclaim(s.xen, &run, 1, &outcome, NULL) == 0);
	printf("mapped: freed %llu, lazy %llu bytes\n", (unsigned long long)outcome.freed,
	       (unsigned long long)outcome.lazy);
	CHECK(outcome.lazy == 2 << 12 && outcome.lazy_why == PAGEHINT_WHY_MAPPED && outcome.freed == 62 << 12);
	CHECK(has(&s, 2));
	domain_unmap(at, 2);
	CHECK(has(&s, 0));
	return subject_close(&s);
}

int case_gone(void)
{
	const struct pagehint_run run = { FIRST, 512 };
	struct pagehint_outcome outcome;
	struct subject s;
	uint64_t current = 0;
	CHECK(subject_open(&s, 1, 16, 0, KNOWS) == 0);
	CHECK(pagehint_xen_populate(s.xen, &run, 1, 0, NULL, NULL) == 0);
	CHECK(domain_destroy(s.domid) == 0);
	CHECK(pagehint_xen_reclaim(s.xen, &run, 1, &outcome, NULL) == -ENODEV);
	CHECK(outcome.failed == 512 << 12 && outcome.failed_why == PAGEHINT_WHY_GONE);
	CHECK(pagehint_xen_reservation(s.xen, &current, NULL) == -ENODEV);
	s.domid = 0;
	return subject_close(&s);
}

int case_kind(void)
{
	struct pagehint_xen_opts opts = { .struct_size = sizeof(opts) };
	const struct pagehint_run run = { FIRST, 700 };
	struct pagehint_xen *x = NULL;
	opts.domid = domain_make(0, 16);
	CHECK(opts.domid != 0 && pagehint_xen_open(&opts, &x) == 0);
	CHECK(pagehint_xen_populate(x, &run, 1, 0, NULL, NULL) == -EINVAL && domain_frames(opts.domid) == 0);
	CHECK(pagehint_xen_free(x) == 0);
	return domain_destroy(opts.domid);
}

int case_self(void)
{
	struct pagehint_xen_opts opts = { .struct_size = sizeof(opts), .domid = PAGEHINT_XEN_SELF };
	uint64_t before = 0, now = 0, names[16];
	struct pagehint_xen *x = NULL;
	CHECK(pagehint_xen_open(&opts, &x) == 0);
	CHECK(pagehint_xen_reservation(x, &before, NULL) == 0);
	CHECK(ph_xen_extents(x, PH_XEN_INCREASE, 16, 0) == 16);
	memcpy(names, x->extents, sizeof(names));
	CHECK(pagehint_xen_reservation(x, &now, NULL) == 0 && now == before + 16);
	memcpy(x->extents, names, sizeof(names));
	CHECK(ph_xen_extents(x, PH_XEN_DECREASE, 16, 0) == 16);
	CHECK(pagehint_xen_reservation(x, &now, NULL) == 0 && now == before);
	return pagehint_xen_free(x);
}
