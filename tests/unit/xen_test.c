/* A domain's memory over a fake hypervisor: options, extents, batches, limits. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pagehint/xen.h>

#include "support/xen_domain.h"
#include "xen/reservation.h"

static int try_opts(const struct pagehint_xen_opts *o)
{
	struct pagehint_xen *x = NULL;
	int r = pagehint_xen_new(&fake_xen_calls, &fake, o, &x);
	if (r == 0)
		assert_int_equal(pagehint_xen_free(x), 0);
	return r;
}

#define REFUSED(field, value)                              \
	do {                                               \
		struct pagehint_xen_opts bad = opts;       \
		bad.field = (value);                       \
		assert_int_equal(try_opts(&bad), -EINVAL); \
	} while (0)

static void test_options(void **state)
{
	(void)state;
	uint64_t table[4];
	struct pagehint_xen_calls few = fake_xen_calls;
	struct pagehint_xen *x = NULL;
	assert_int_equal(try_opts(&opts), 0);
	assert_int_equal(try_opts(NULL), -EINVAL);
	REFUSED(domid, 0); /* Domain-0 says SELF */
	REFUSED(domid, 0x7ff1);
	REFUSED(kind, 3);
	REFUSED(flags, 64);
	REFUSED(node, 256);
	REFUSED(address_bits, 64);
	REFUSED(batch, 513);
	REFUSED(flags, PAGEHINT_XEN_EXACT_NODE); /* of which node? */
	REFUSED(p2m, table);                     /* a translated domain has none */
	REFUSED(kind, PAGEHINT_XEN_PV);          /* and this one must */
	REFUSED(kind, PAGEHINT_XEN_OWN);
	few.zero = NULL;
	assert_int_equal(pagehint_xen_new(&few, &fake, &opts, &x), -EOPNOTSUPP); /* it could not wipe */
	opts.flags = PAGEHINT_XEN_NO_SCRUB;
	assert_int_equal(pagehint_xen_new(&few, &fake, &opts, &x), 0);
	assert_int_equal(pagehint_xen_free(x), 0);
	few.memory_op = NULL;
	assert_int_equal(pagehint_xen_new(&few, &fake, &opts, &x), -EINVAL);
	opts.domid = FAKE_DOMID + 1;
	assert_int_equal(try_opts(&opts), -ENODEV);
	opts.domid = FAKE_DOMID;
	fake.denied = 1;
	assert_int_equal(try_opts(&opts), -EPERM);
	assert_int_equal(pagehint_xen_free(NULL), 0);
	for (unsigned i = 0; i < FAKE_BUFFERS; i++)
		assert_null(fake.buffers[i].at); /* whatever failed gave its buffers back */
}

static void test_runs(void **state)
{
	(void)state;
	const struct pagehint_run bad[][2] = { { { 4, 0 }, { 8, 1 } },
					       { { 4, 4 }, { 7, 1 } },
					       { { 4, 4 }, { 1, 1 } },
					       { { 1, 1 }, { UINT64_MAX >> 12, 1 } },
					       { { 1, 1 }, { 2, UINT64_MAX } } };
	open_it();
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(pagehint_xen_populate(xen, bad[i], 2, 0, NULL, NULL), -EINVAL);
		assert_int_equal(pagehint_xen_reclaim(xen, bad[i], 2, NULL, NULL), -EINVAL);
	}
	assert_int_equal(pagehint_xen_populate(xen, NULL, 1, 0, NULL, NULL), -EINVAL);
	assert_int_equal(pagehint_xen_populate(xen, bad[1], 1, 2, NULL, NULL), -EINVAL);
	assert_int_equal(pagehint_xen_populate(xen, NULL, 0, 0, NULL, NULL), 0);
	assert_int_equal(pagehint_xen_reclaim(xen, NULL, 0, NULL, NULL), 0);
	for (unsigned i = 0; i < FAKE_OPS; i++)
		assert_int_equal(fake.calls[i], 0);
}

static void test_extents_follow_alignment(void **state)
{
	(void)state;
	open_it();
	/* 3 frames, then 511 blocks of 2 MiB up to the end of the GiB */
	assert_int_equal(populate(509, 3 + 511 * 512, NULL), 0);
	read_stats();
	assert_int_equal(stats.extents_1g, 0);
	assert_int_equal(stats.extents_2m, 511);
	assert_int_equal(stats.extents_4k, 3);
	assert_int_equal(fake.calls[PH_XEN_POPULATE], 4 + 1); /* 128 + 128 + 128 + 127, and the single ones */
	assert_int_equal(populate(GIB, GIB, NULL), 0);
	read_stats();
	assert_int_equal(stats.extents_1g, 1);
	assert_int_equal(fake.calls[PH_XEN_POPULATE], 6);
	fake_xen_check(&fake);
}

static void test_batches(void **state)
{
	(void)state;
	struct pagehint_run ragged[100];
	uint64_t frames = 0;
	for (uint64_t i = 0; i < 100; i++) { /* no run has a whole block: all of them share batches */
		ragged[i] = (struct pagehint_run) { 1000 * i, 40 + i };
		frames += 40 + i;
	}
	open_it();
	assert_int_equal(pagehint_xen_populate(xen, ragged, 100, 0, NULL, NULL), 0);
	assert_int_equal(fake.calls[PH_XEN_POPULATE], (frames + 511) / 512);
	assert_int_equal(pagehint_xen_reclaim(xen, ragged, 100, NULL, NULL), 0);
	assert_int_equal(fake.calls[PH_XEN_DECREASE], (frames + 511) / 512);
	assert_int_equal(fake.current, 0);
	fake_xen_check(&fake);
}

static void test_small_batch_and_flags(void **state)
{
	(void)state;
	opts.batch = 10;
	opts.flags = PAGEHINT_XEN_NO_2M | PAGEHINT_XEN_EXACT_NODE | PAGEHINT_XEN_NO_CLAIM;
	opts.node = 3; /* number 2 */
	opts.address_bits = 36;
	open_it();
	assert_int_equal(populate(0, 512, NULL), 0);
	assert_int_equal(fake.calls[PH_XEN_POPULATE], 52);
	assert_int_equal(fake.most_extents, 10);
	assert_int_equal(fake.last_flags, 36 | 3 << 8 | 1 << 17);
	assert_int_equal(fake.calls[PH_XEN_CLAIM], 0);
	assert_int_equal(reclaim(0, 512, NULL), 0);
	assert_int_equal(fake.last_flags, 0);
}

static void test_falls_back_to_smaller(void **state)
{
	(void)state;
	open_it();
	fake.max_order = 9; /* as much as a domain may ask for */
	fake.free_2m = 100; /* and no more blocks than that in one piece */
	assert_int_equal(populate(GIB, GIB, NULL), 0);
	read_stats();
	assert_int_equal(stats.extents_1g, 0);
	assert_int_equal(stats.extents_2m, 100);
	assert_int_equal(stats.extents_4k, GIB - 100 * 512);
	assert_int_equal(fake_xen_has(&fake, GIB, GIB), GIB);
	fake_xen_check(&fake);
}

static void test_limits(void **state)
{
	(void)state;
	struct pagehint_outcome out;
	fake.max = 1000;
	open_it();
	assert_int_equal(populate(0, 1001, &out), -ENOSPC);
	assert_int_equal(out.failed, 1001 << 12);
	assert_int_equal(out.failed_why, PAGEHINT_WHY_LIMIT);
	assert_int_equal(fake.calls[PH_XEN_POPULATE], 0); /* known before */
	fake.max = 1 << 19;
	fake.host_free = fake.host_total = 700;
	assert_int_equal(populate(0, 701, &out), -ENOMEM);
	assert_int_equal(out.failed_why, PAGEHINT_WHY_NO_MEMORY);
	assert_int_equal(fake.calls[PH_XEN_POPULATE], 0); /* by the claim */
	fake.no_claims = 1;
	assert_int_equal(populate(0, 701, &out), -ENOMEM); /* half way, and undone */
	assert_int_equal(out.failed_why, PAGEHINT_WHY_NO_MEMORY);
	assert_true(fake.calls[PH_XEN_POPULATE] > 0);
	assert_int_equal(fake.current, 0);
	read_stats();
	assert_int_equal(stats.undone, 700);
	assert_int_equal(populate(0, 700, &out), 0);
	fake_xen_check(&fake);
}

static void test_half_of_it_when_asked(void **state)
{
	(void)state;
	const struct pagehint_run run = { 0, 2048 };
	struct pagehint_outcome out, sum;
	fake.max = 1000;
	open_it();
	assert_int_equal(pagehint_xen_populate(xen, &run, 1, PAGEHINT_XEN_PARTIAL, &out, &sum), -ENOSPC);
	assert_int_equal(out.accepted, 1000 << 12);
	assert_int_equal(out.failed, 1048 << 12);
	assert_int_equal(fake.current, 1000);
	fake_xen_check(&fake);
}

/* 2^26 frames: more than one call may name, were they single */
static void test_very_many(void **state)
{
	(void)state;
	const uint64_t many = UINT64_C(1) << 26;
	struct pagehint_outcome out;
	fake_xen_grow(&fake, 2 * many);
	fake.max = fake.host_free = fake.host_total = many;
	fake.free_2m = many >> 9;
	open_it();
	assert_int_equal(populate(0, many, &out), 0);
	assert_int_equal(out.accepted, many << 12);
	assert_int_equal(fake.calls[PH_XEN_POPULATE], many / GIB);
	assert_int_equal(fake.current, many);
	fake_xen_check(&fake);
}

/* A PV populate breaks off before it says what the frames are called: a guess would give up somebody else's. */
static void test_names_that_do_not_come_back(void **state)
{
	(void)state;
	static uint64_t table[256];
	struct pagehint_outcome out;
	for (unsigned i = 0; i < 256; i++)
		table[i] = PAGEHINT_XEN_NOWHERE;
	fake.pv = 1;
	fake.next_mfn = 100; /* so that guest numbers are names of other frames, too */
	opts.kind = PAGEHINT_XEN_PV;
	opts.p2m = table;
	opts.p2m_frames = 256;
	open_it();
	assert_int_equal(populate(0, 50, NULL), 0);
	fake.fault = FAULT_ERROR;
	fake.fault_error = -EFAULT;
	fake.fault_at = 1;
	fake.fault_after = 40;
	fake.nameless = 1;
	assert_int_equal(populate(110, 100, &out), -EFAULT);
	assert_int_equal(out.failed, 100 << 12);
	for (unsigned i = 110; i < 210; i++)
		assert_true(table[i] == PAGEHINT_XEN_NOWHERE);
	assert_int_equal(fake.current, 90); /* 40 that nobody can name */
	assert_int_equal(populate(110, 100, &out), 0);
	assert_int_equal(reclaim(110, 100, &out), 0);
	assert_int_equal(out.freed, 100 << 12);
	for (unsigned i = 0; i < 50; i++)
		assert_true(fake.present[table[i]] != 0); /* nothing of the others went */
	assert_int_equal(fake.current, 90);
}

/* The names under which frames of a PV domain come would be lost, and its frames with them. */
static void test_a_kind_that_is_not_so(void **state)
{
	(void)state;
	struct pagehint_outcome out;
	fake.pv = 1;
	fake.next_mfn = 1 << 18;
	open_it();
	assert_int_equal(populate(0, 700, &out), -EINVAL);
	assert_int_equal(out.failed, 700 << 12);
	assert_int_equal(fake.current, 0);
	fake_xen_check(&fake);
	/* also when only some have a name that they could have been given here */
	fake.next_mfn = 1024;
	assert_int_equal(populate(1024, 5, &out), 0);
	assert_int_equal(populate(3000, 5, &out), -EINVAL);
	assert_int_equal(fake.current, 5);
}

static void test_one_caller(void **state)
{
	(void)state;
	uint64_t current = 0;
	struct pagehint_outcome out;
	open_it();
	assert_int_equal(ph_xen_begin(xen), 0);
	assert_int_equal(populate(0, 1, NULL), -EBUSY);
	assert_int_equal(reclaim(0, 1, NULL), -EBUSY);
	assert_int_equal(pagehint_xen_reservation(xen, &current, NULL), -EBUSY);
	assert_int_equal(pagehint_xen_free(xen), -EBUSY);
	ph_xen_end(xen);
	xen->pid++; /* as in a fork */
	assert_int_equal(populate(0, 1, &out), -ENODEV);
	xen->pid--;
	assert_int_equal(fake.calls[PH_XEN_POPULATE], 0);
}

/* Whoever comes to a domain that runs: what it has is no error, and what was got for the handle stays until it goes. */
static void test_a_domain_that_has_memory(void **state)
{
	(void)state;
	uint64_t current;
	open_it();
	assert_int_equal(populate(0, 700, NULL), 0);
	assert_int_equal(pagehint_xen_free(xen), 0);
	open_it();
	assert_int_equal(pagehint_xen_reservation(xen, &current, NULL), 0);
	assert_int_equal(current, 700);
	assert_int_equal(populate(1024, 100, NULL), 0);
	assert_int_equal(fake_xen_has(&fake, 0, 2048), 800);
	fake_xen_check(&fake);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_options),
		CASE(test_runs),
		CASE(test_extents_follow_alignment),
		CASE(test_batches),
		CASE(test_small_batch_and_flags),
		CASE(test_falls_back_to_smaller),
		CASE(test_limits),
		CASE(test_half_of_it_when_asked),
		CASE(test_very_many),
		CASE(test_names_that_do_not_come_back),
		CASE(test_a_kind_that_is_not_so),
		CASE(test_a_domain_that_has_memory),
		CASE(test_one_caller),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
