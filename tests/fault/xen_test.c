/*
 * A hypervisor that fails: at every call, after every number of extents that matters, in every way it can.
 *
 * Whatever happens: the frames that the domain has, that are free and that were lost add up; the books say what the fake
 * says, frame by frame; every byte is accounted for in one class; the same call succeeds afterwards; and it all ends
 * after a number of calls that is known, since nothing is tried for ever.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pagehint/bitmap.h>
#include <pagehint/xen.h>

#include "fakes/fake_xen.h"

#define TABLE 16384u
#define RUNS 5u
#define MOST_CALLS 400u /* and two more for each frame, when every call does one and says EAGAIN */

enum kind { KNOWN, UNKNOWN, PV, KINDS };

/* edges, whole 2 MiB, single frames, and more than a batch */
static const struct pagehint_run runs[RUNS] = {
	{ 3, 1 }, { 500, 1100 }, { 2048, 1024 }, { 4000, 7 }, { 8192, 700 },
};
#define FRAMES UINT64_C(2832)

static struct fake_xen fake;
static struct pagehint_bitmap *present;
static struct pagehint_xen *xen;
static uint64_t p2m[TABLE];
static enum kind kind;

static void start(enum kind which, uint32_t flags)
{
	struct pagehint_bitmap_opts bits = { .struct_size = sizeof(bits), .span = TABLE };
	struct pagehint_xen_opts opts = { .struct_size = sizeof(opts), .domid = FAKE_DOMID, .flags = flags };
	kind = which;
	fake_xen_setup(&fake, kind == PV, 32768, 20000);
	fake.next_mfn = 1 << 17; /* no frame is called what it is called in the guest */
	if (kind == KNOWN) {
		assert_int_equal(pagehint_bitmap_new(&bits, &present), 0);
		assert_int_equal(pagehint_bitmap_add(present, 0, TABLE), 0);
		opts.present = present;
	}
	if (kind == PV) {
		for (uint32_t i = 0; i < TABLE; i++)
			p2m[i] = PAGEHINT_XEN_NOWHERE;
		opts.kind = PAGEHINT_XEN_PV;
		opts.p2m = p2m;
		opts.p2m_frames = TABLE;
	}
	assert_int_equal(pagehint_xen_new(&fake_xen_calls, &fake, &opts, &xen), 0);
}

static void end(void)
{
	assert_int_equal(pagehint_xen_free(xen), 0);
	pagehint_bitmap_free(present);
	present = NULL;
	fake_xen_teardown(&fake);
}

static int there(uint64_t frame)
{
	if (kind == PV)
		return p2m[frame] != PAGEHINT_XEN_NOWHERE;
	return kind == KNOWN ? pagehint_bitmap_test(present, frame) : fake.present[frame] != 0;
}

/* The books against the fake; and nothing outside the runs was touched. */
static void check_books(void)
{
	uint64_t booked = 0;
	fake_xen_check(&fake);
	if (fake.gone)
		return;
	for (uint64_t f = 0; f < TABLE; f++) {
		int has = there(f), inside = 0;
		booked += has;
		for (unsigned i = 0; i < RUNS; i++)
			inside |= f >= runs[i].frame && f < runs[i].frame + runs[i].frames;
		assert_true(inside || !has);
		if (kind != PV)
			assert_int_equal(has, fake.present[f] != 0);
		else if (has)
			assert_true(fake.present[p2m[f]] != 0);
	}
	assert_int_equal(booked, fake.current);
}

static uint64_t bytes(uint64_t frames)
{
	return frames << 12;
}

static void check_outcomes(const struct pagehint_outcome *out, const struct pagehint_outcome *sum)
{
	struct pagehint_outcome all = { 0 };
	for (unsigned i = 0; i < RUNS; i++) {
		const struct pagehint_outcome *o = &out[i];
		assert_int_equal(o->asked, bytes(runs[i].frames));
		assert_int_equal(o->freed + o->absent + o->accepted + o->kept + o->lazy + o->failed, o->asked);
		assert_true(o->failed == 0 || o->failed_why != PAGEHINT_WHY_NONE);
		assert_true(o->kept == 0 || o->kept_why != PAGEHINT_WHY_NONE);
		all.freed += o->freed;
		all.absent += o->absent;
		all.accepted += o->accepted;
		all.kept += o->kept;
		all.lazy += o->lazy;
		all.failed += o->failed;
	}
	assert_int_equal(sum->asked, bytes(FRAMES));
	assert_int_equal(sum->freed, all.freed);
	assert_int_equal(sum->absent, all.absent);
	assert_int_equal(sum->accepted, all.accepted);
	assert_int_equal(sum->kept, all.kept);
	assert_int_equal(sum->lazy, all.lazy);
	assert_int_equal(sum->failed, all.failed);
}

static uint64_t calls_made(void)
{
	uint64_t n = 0;
	for (unsigned i = 0; i < FAKE_OPS; i++)
		n += fake.calls[i];
	return n;
}

static uint64_t most_calls(void)
{
	return MOST_CALLS + (fake.fault_after == 0 ? 0 : 2 * FRAMES);
}

/* Frames of run i that are there now. */
static uint64_t has(unsigned i)
{
	uint64_t n = 0;
	for (uint64_t f = 0; f < runs[i].frames; f++)
		n += (uint64_t)there(runs[i].frame + f);
	return n;
}

static void populate_once(uint32_t flags)
{
	struct pagehint_outcome out[RUNS], sum;
	int r = pagehint_xen_populate(xen, runs, RUNS, flags, out, &sum);
	assert_true(calls_made() < most_calls());
	check_outcomes(out, &sum);
	check_books();
	assert_int_equal(r < 0, sum.failed != 0);
	if (fake.gone && r == 0)
		return; /* with the last extent */
	if (fake.gone) {
		assert_int_equal(r, -ENODEV);
		assert_int_equal(sum.failed, bytes(FRAMES));
		assert_int_equal(sum.failed_why, PAGEHINT_WHY_GONE);
		return;
	}
	for (unsigned i = 0; i < RUNS; i++)
		assert_int_equal(out[i].accepted, bytes(has(i))); /* what is there was said to be */
	if (r < 0 && (flags & PAGEHINT_XEN_PARTIAL) == 0 && fake.fault_at == 0)
		assert_int_equal(fake.current, 0); /* all or nothing */
}

static void reclaim_once(void)
{
	struct pagehint_outcome out[RUNS], sum;
	const uint64_t before = fake.current;
	int r = pagehint_xen_reclaim(xen, runs, RUNS, out, &sum);
	assert_true(calls_made() < most_calls());
	assert_int_equal(fake.largest_decrease, 0);
	check_outcomes(out, &sum);
	check_books();
	assert_int_equal(r < 0, sum.failed != 0);
	if (fake.gone) {
		assert_int_equal(r, sum.freed == sum.asked ? 0 : -ENODEV); /* it may have died of the last frame */
		return;
	}
	assert_int_equal(bytes(before - fake.current), sum.freed);
	assert_int_equal(sum.lazy, 0);
}

/* Again, without a fault: the end is as it should be. */
static void finish_populate(void)
{
	struct pagehint_outcome sum;
	fake_xen_forget(&fake);
	if (kind == UNKNOWN && fake.current != 0)
		return; /* nobody knows what is there; to try again would lose frames */
	assert_int_equal(pagehint_xen_populate(xen, runs, RUNS, kind == UNKNOWN ? 0 : PAGEHINT_XEN_PARTIAL, NULL, &sum),
			 0);
	assert_int_equal(sum.accepted + sum.kept, bytes(FRAMES));
	assert_int_equal(fake.current, FRAMES);
	check_books();
}

static void finish_reclaim(void)
{
	struct pagehint_outcome sum;
	fake_xen_forget(&fake);
	/* where nobody knows what has gone already, holes are met, and one call takes no more than 1024 of them */
	for (unsigned i = 0; i < RUNS; i++)
		for (uint64_t at = 0; at < runs[i].frames; at += 512) {
			uint64_t left = runs[i].frames - at;
			struct pagehint_run part = { runs[i].frame + at, left < 512 ? left : 512 };
			assert_int_equal(pagehint_xen_reclaim(xen, &part, 1, NULL, &sum), 0);
		}
	assert_int_equal(fake.current, 0);
	check_books();
}

struct way {
	enum fake_fault fault;
	int64_t error;
	uint64_t times;
};
static const struct way ways[] = {
	{ FAULT_SHORT, 0, 1 },        { FAULT_ERROR, -EFAULT, 1 }, { FAULT_ERROR, -EPERM, 1 },
	{ FAULT_ERROR, -EAGAIN, 1 },  { FAULT_ERROR, -EAGAIN, 3 }, { FAULT_ERROR, -EAGAIN, 1000 },
	{ FAULT_ERROR, -ENOSYS, 1 },  { FAULT_ERROR, -EINVAL, 1 }, { FAULT_DIES, 0, 1 },
	{ FAULT_ERROR, INT64_MAX, 1 } /* a count that cannot be */
};
static const uint64_t afters[] = { 0, 1, 2, 63, 300, 511, 512 };

static void arm(const struct way *way, uint64_t at, uint64_t after)
{
	fake_xen_forget(&fake);
	fake.fault = way->fault;
	fake.fault_error = way->error;
	fake.fault_times = way->times;
	fake.fault_at = at;
	fake.fault_after = after;
}

static void every_fault(void (*prepare)(void), void (*act)(void), void (*finish)(void), uint32_t flags)
{
	for (int k = 0; k < KINDS; k++)
		for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++)
			for (size_t a = 0; a < sizeof(afters) / sizeof(afters[0]); a++)
				for (uint64_t at = 1, struck = 1; struck != 0; at++) {
					start((enum kind)k, flags);
					prepare();
					arm(&ways[w], at, afters[a]);
					act();
					struck = fake.struck;
					assert_true(at < 100);
					if (!fake.gone)
						finish();
					end();
				}
}

static void nothing(void)
{
}

static void fill(void)
{
	struct pagehint_outcome sum;
	assert_int_equal(pagehint_xen_populate(xen, runs, RUNS, 0, NULL, &sum), 0);
	assert_int_equal(sum.accepted, bytes(FRAMES));
	assert_int_equal(fake.current, FRAMES);
}

static void populate_all(void)
{
	populate_once(0);
}

static void populate_part(void)
{
	populate_once(PAGEHINT_XEN_PARTIAL);
}

static void test_populate(void **state)
{
	(void)state;
	every_fault(nothing, populate_all, finish_populate, 0);
}

static void test_populate_partial(void **state)
{
	(void)state;
	every_fault(nothing, populate_part, finish_populate, 0);
}

static void test_reclaim(void **state)
{
	(void)state;
	every_fault(fill, reclaim_once, finish_reclaim, 0);
}

static void test_reclaim_without_scrub(void **state)
{
	(void)state;
	every_fault(fill, reclaim_once, finish_reclaim, PAGEHINT_XEN_NO_SCRUB);
}

/* A count that is short at every single extent of every call. */
static void test_short_at_every_extent(void **state)
{
	(void)state;
	for (int k = 0; k < KINDS; k++)
		for (uint64_t after = 0; after < 512; after += 1 + after / 16) {
			start((enum kind)k, 0);
			fill();
			arm(&ways[0], 1, after);
			fake.fault_times = 3;
			reclaim_once();
			assert_true(fake.struck > 0);
			finish_reclaim();
			arm(&ways[0], 1, after);
			populate_once(0);
			finish_populate();
			end();
		}
}

/* The undoing of a populate fails, too: what is still there is said to be. */
static void test_undo_fails(void **state)
{
	(void)state;
	struct pagehint_outcome out[RUNS], sum;
	for (int k = 0; k < KINDS; k++)
		for (uint64_t at = 2; at < 9; at++) {
			start((enum kind)k, 0);
			arm(&ways[2], at, 40); /* EPERM from here on, for good */
			fake.fault_times = 1000;
			int r = pagehint_xen_populate(xen, runs, RUNS, 0, out, &sum);
			check_outcomes(out, &sum);
			check_books();
			assert_int_equal(r < 0, fake.struck != 0);
			assert_int_equal(sum.accepted, bytes(fake.current));
			finish_populate();
			end();
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_populate),
		cmocka_unit_test(test_populate_partial),
		cmocka_unit_test(test_reclaim),
		cmocka_unit_test(test_reclaim_without_scrub),
		cmocka_unit_test(test_short_at_every_extent),
		cmocka_unit_test(test_undo_fails),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
