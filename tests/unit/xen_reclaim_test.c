/* Taking memory back from a domain of a fake hypervisor: holes, wiping, what is mapped elsewhere, and who keeps the books. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pagehint/bitmap.h>
#include <pagehint/xen.h>

#include "support/xen_domain.h"

static void test_a_hole(void **state)
{
	(void)state;
	struct pagehint_outcome out;
	opts.flags = PAGEHINT_XEN_NO_SCRUB;
	open_it();
	assert_int_equal(populate(0, 1024, NULL), 0);
	fake.present[7] = fake.present[600] = 0; /* behind our back */
	fake.current -= 2;
	fake.host_free += 2;
	assert_int_equal(reclaim(0, 1024, &out), 0);
	assert_int_equal(out.freed, 1022 << 12);
	assert_int_equal(out.kept, 2 << 12);
	assert_int_equal(out.kept_why, PAGEHINT_WHY_HOLE);
	assert_int_equal(fake.largest_decrease, 0); /* a large one would have been freed up to the hole */
	assert_int_equal(fake.current, 0);
	fake_xen_check(&fake);
}

static void test_holes_end(void **state)
{
	(void)state;
	struct pagehint_outcome out;
	opts.flags = PAGEHINT_XEN_NO_SCRUB;
	open_it();
	assert_int_equal(populate(9000, 100, NULL), 0);
	assert_int_equal(reclaim(0, 1 << 19, &out), -EAGAIN); /* bounded, and told which part was not looked at */
	assert_int_equal(out.kept, 1024 << 12);
	assert_int_equal(out.kept + out.failed + out.absent, out.asked);
	assert_true(fake.calls[PH_XEN_DECREASE] <= 1024);
	/* what lies beyond the last frame that was ever there is not asked for */
	assert_int_equal(out.failed, (9100 - 1024) << 12);
	assert_int_equal(fake.current, 100);
}

static void test_scrub(void **state)
{
	(void)state;
	struct pagehint_outcome out;
	open_it();
	assert_int_equal(populate(0, 1000, NULL), 0);
	fake_xen_dirty(&fake);
	assert_int_equal(reclaim(0, 500, &out), 0);
	assert_int_equal(fake.leaked, 0);
	fake.zero_error = -EFAULT; /* what cannot be wiped is not given away */
	assert_int_equal(reclaim(500, 500, &out), 0);
	assert_int_equal(out.kept, 500 << 12);
	assert_int_equal(out.kept_why, PAGEHINT_WHY_UNSCRUBBED);
	assert_int_equal(fake.current, 500);
	assert_int_equal(fake.leaked, 0);
	read_stats();
	assert_int_equal(stats.scrubbed, 500);
}

static void test_no_scrub(void **state)
{
	(void)state;
	opts.flags = PAGEHINT_XEN_NO_SCRUB;
	open_it();
	assert_int_equal(populate(0, 1000, NULL), 0);
	fake_xen_dirty(&fake);
	assert_int_equal(reclaim(0, 500, NULL), 0);
	assert_int_equal(fake.leaked, 500);
}

static void test_mapped(void **state)
{
	(void)state;
	struct pagehint_outcome out[2], sum;
	const struct pagehint_run runs[] = { { 0, 100 }, { 200, 50 } };
	open_it();
	assert_int_equal(pagehint_xen_populate(xen, runs, 2, 0, NULL, NULL), 0);
	fake.mapped[5] = fake.mapped[6] = fake.mapped[220] = 1;
	assert_int_equal(pagehint_xen_reclaim(xen, runs, 2, out, &sum), 0);
	assert_int_equal(sum.lazy, 3 << 12);
	assert_int_equal(sum.lazy_why, PAGEHINT_WHY_MAPPED);
	assert_int_equal(sum.freed, 147 << 12);
	assert_int_equal(out[0].freed + out[1].freed, sum.freed);
	assert_int_equal(out[0].lazy + out[1].lazy, sum.lazy);
	fake_xen_unmap(&fake);
	fake_xen_check(&fake);
	assert_int_equal(fake.current, 0);
}

static void test_present(void **state)
{
	(void)state;
	struct pagehint_bitmap_opts bits = { .struct_size = sizeof(bits), .span = 65536 };
	struct pagehint_bitmap *present = NULL;
	const struct pagehint_run all = { 0, 1000 }, outside = { 32768, 1 };
	struct pagehint_outcome out, sum;
	assert_int_equal(pagehint_bitmap_new(&bits, &present), 0);
	assert_int_equal(pagehint_bitmap_add(present, 0, 32768), 0);
	opts.present = present;
	open_it();
	assert_int_equal(pagehint_xen_populate(xen, &outside, 1, 0, NULL, NULL), -ERANGE);
	assert_int_equal(populate(100, 200, NULL), 0);
	assert_int_equal(pagehint_bitmap_count(present), 200);
	assert_int_equal(populate(0, 1000, &out), -EEXIST); /* it would have been lost */
	assert_int_equal(out.failed_why, PAGEHINT_WHY_PRESENT);
	assert_int_equal(pagehint_xen_populate(xen, &all, 1, PAGEHINT_XEN_PARTIAL, &out, &sum), 0);
	assert_int_equal(out.accepted, 800 << 12);
	assert_int_equal(out.kept, 200 << 12);
	assert_int_equal(out.kept_why, PAGEHINT_WHY_PRESENT);
	assert_int_equal(reclaim(900, 200, &out), 0);
	assert_int_equal(out.freed, 100 << 12);
	assert_int_equal(out.absent, 100 << 12);
	assert_int_equal(pagehint_bitmap_count(present), 900);
	fake_xen_check(&fake);
	pagehint_bitmap_free(present);
}

/* A domain that changes its own memory meanwhile makes progress a guess; still no more is told than was asked. */
static void test_a_domain_that_drifts(void **state)
{
	(void)state;
	struct pagehint_outcome out;
	opts.flags = PAGEHINT_XEN_NO_SCRUB;
	open_it();
	assert_int_equal(populate(0, 10, NULL), 0);
	assert_int_equal(populate(5000, 600, NULL), 0);
	fake.fault = FAULT_ERROR;
	fake.fault_error = -EPERM;
	fake.fault_at = 1;
	fake.fault_after = 4;
	fake.drift = 600;
	(void)!reclaim(0, 10, &out);
	assert_int_equal(out.asked, 10 << 12);
	assert_int_equal(out.freed + out.absent + out.accepted + out.kept + out.lazy + out.failed, out.asked);
	fake.drift = 0;
	(void)!reclaim(0, 10, &out); /* what was guessed too high is found now */
	assert_int_equal(fake.current, 0);
	fake_xen_check(&fake);
}

static void test_pv(void **state)
{
	(void)state;
	static uint64_t table[4096];
	struct pagehint_outcome out;
	for (unsigned i = 0; i < 4096; i++)
		table[i] = PAGEHINT_XEN_NOWHERE;
	fake.pv = 1;
	opts.kind = PAGEHINT_XEN_PV;
	opts.p2m = table;
	opts.p2m_first = 100000;
	opts.p2m_frames = 4096;
	open_it();
	assert_int_equal(populate(99999, 2, NULL), -ERANGE);
	assert_int_equal(populate(104000, 97, NULL), -ERANGE);
	/* from a multiple of 512 in the guest on: in the host the block lies elsewhere, but in one piece */
	assert_int_equal(populate(100352, 600, NULL), 0);
	for (unsigned i = 1; i < 512; i++)
		assert_int_equal(table[352 + i], table[352] + i);
	assert_int_equal(reclaim(100000, 4096, &out), 0);
	assert_int_equal(out.freed, 600 << 12);
	assert_int_equal(out.absent, (4096 - 600) << 12);
	for (unsigned i = 0; i < 4096; i++)
		assert_true(table[i] == PAGEHINT_XEN_NOWHERE);
	/* far more frames than the table has: they are not looked at one by one, or this would not end */
	assert_int_equal(populate(100000, 4096, NULL), 0);
	assert_int_equal(reclaim(1, UINT64_C(1) << 51, &out), 0);
	assert_int_equal(out.freed, 4096 << 12);
	assert_int_equal(out.absent, out.asked - out.freed);
	assert_int_equal(reclaim(UINT64_C(1) << 40, UINT64_C(1) << 51, &out), 0);
	assert_int_equal(out.absent, UINT64_C(1) << 63);
	fake_xen_check(&fake);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_a_hole),
		CASE(test_holes_end),
		CASE(test_scrub),
		CASE(test_no_scrub),
		CASE(test_mapped),
		CASE(test_present),
		CASE(test_a_domain_that_drifts),
		CASE(test_pv),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
