#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pagehint/reporter.h>

#include "report/pace.h"

#define SEC UINT64_C(1000000000)
#define MIB (UINT64_C(1) << 20)
#define NO_KEEP UINT64_MAX /* so much is unreported that nothing is held */

static struct ph_pace make(uint64_t rate, uint64_t watermark, uint32_t intervals)
{
	struct ph_pace p;
	ph_pace_init(&p, 2 * SEC, rate, watermark, intervals, SEC, 256 * MIB);
	return p;
}

static void test_no_limit_grants_everything(void **state)
{
	(void)state;
	struct ph_pace p = make(0, 0, 0);
	uint64_t bytes = 0;
	assert_int_equal(ph_pace_grant(&p, 0, 2 * MIB, 0, &bytes), PH_GRANT_TAKE);
	assert_true(bytes == UINT64_MAX);
	ph_pace_spend(&p, 1000 * MIB);
	assert_int_equal(ph_pace_grant(&p, 0, 2 * MIB, 0, &bytes), PH_GRANT_TAKE);
	assert_int_equal(ph_pace_refill_ns(&p, 5, 2 * MIB), 5);
	assert_int_equal(ph_pace_bound_ns(&p, 1000 * MIB), 4 * SEC);
}

/* Spend as fast as it lets us for a while; the bytes in any window are at most rate * window + one bucket. */
static void spend_all(uint64_t rate, uint64_t block)
{
	enum { N = 400 };
	static uint64_t at[N], got[N];
	struct ph_pace p = make(rate, 0, 0);
	uint64_t now = 12345, cap = p.bucket.depth > block ? p.bucket.depth : block, total = 0;
	for (unsigned i = 0; i < N;) {
		uint64_t bytes = 0;
		uint32_t answer = ph_pace_grant(&p, now, block, NO_KEEP, &bytes);
		if (answer == PH_GRANT_TAKE) {
			assert_true(bytes >= block && bytes <= cap);
			bytes -= bytes % block;
			ph_pace_spend(&p, bytes);
			at[i] = now;
			got[i++] = bytes;
			total += bytes;
			continue;
		}
		assert_int_equal(answer, PH_GRANT_RATE);
		uint64_t next = ph_pace_refill_ns(&p, now, block);
		assert_true(next > now);
		now = next;
	}
	for (unsigned i = 0; i < N; i++) {
		uint64_t sum = 0;
		for (unsigned j = i; j < N; j++) {
			sum += got[j];
			long double allowed = (long double)rate * (at[j] - at[i]) / SEC + cap + 1;
			assert_true(sum <= allowed);
		}
	}
	if (cap / rate == 0 && rate / SEC > cap / 64)
		return; /* a bucket fills within a few ns: what is lost to rounding up is no small part */
	/* and it is not slower than the rate: the first bucket is free of charge */
	long double least = (long double)(now - 12345) * rate / SEC;
	assert_true(total + 2 * (long double)cap >= least);
}

static void test_rate_holds_over_every_window(void **state)
{
	(void)state;
	const uint64_t rates[] = { 1, 4096, 1000003, 100 * MIB, 10000 * MIB, UINT64_C(1) << 40, UINT64_MAX / 3 };
	const uint64_t blocks[] = { 4096, 65536, 2 * MIB };
	for (unsigned r = 0; r < 7; r++)
		for (unsigned b = 0; b < 3; b++)
			spend_all(rates[r], blocks[b]);
}

static void test_refund_is_no_gain(void **state)
{
	(void)state;
	struct ph_pace p = make(MIB, 0, 0);
	uint64_t bytes = 0;
	assert_int_equal(ph_pace_grant(&p, 0, 2 * MIB, NO_KEEP, &bytes), PH_GRANT_TAKE);
	assert_int_equal(bytes, 2 * MIB);
	ph_pace_spend(&p, bytes);
	assert_int_equal(ph_pace_grant(&p, 0, 2 * MIB, NO_KEEP, &bytes), PH_GRANT_RATE);
	assert_int_equal(ph_pace_refill_ns(&p, 0, 2 * MIB), 2 * SEC);
	ph_pace_refund(&p, 2 * MIB);
	ph_pace_refund(&p, 2 * MIB);
	assert_int_equal(ph_pace_grant(&p, 0, 2 * MIB, NO_KEEP, &bytes), PH_GRANT_TAKE);
	assert_int_equal(bytes, 2 * MIB); /* never more than a bucket */
}

static void test_watermark_leaves_alone(void **state)
{
	(void)state;
	struct ph_pace p = make(0, 10 * MIB, 0);
	uint64_t bytes = 7;
	assert_int_equal(ph_pace_grant(&p, 0, 2 * MIB, 10 * MIB, &bytes), PH_GRANT_HELD);
	assert_int_equal(ph_pace_grant(&p, 0, 2 * MIB, 12 * MIB - 1, &bytes), PH_GRANT_HELD);
	assert_int_equal(ph_pace_grant(&p, 0, 2 * MIB, 0, &bytes), PH_GRANT_HELD);
	assert_int_equal(bytes, 7);
	assert_int_equal(ph_pace_grant(&p, 0, 2 * MIB, 15 * MIB, &bytes), PH_GRANT_TAKE);
	assert_int_equal(bytes, 5 * MIB);
	ph_pace_press(&p, 0, PAGEHINT_PRESSURE_FULL, 0);
	assert_int_equal(ph_pace_grant(&p, 0, 2 * MIB, 3 * MIB, &bytes), PH_GRANT_TAKE);
}

static void test_holdback_is_the_busiest_of_the_window(void **state)
{
	(void)state;
	struct ph_pace p = make(0, 0, 3);
	const uint64_t used[] = { 5, 9, 2, 1, 1, 0 }, keeps[] = { 5, 9, 9, 9, 2, 1 };
	for (unsigned i = 0; i < 6; i++) {
		ph_pace_reuse(&p, used[i] * MIB);
		ph_pace_interval_over(&p);
		assert_int_equal(ph_pace_keep(&p, 0), keeps[i] * MIB);
	}
	ph_pace_reuse(&p, 20 * MIB); /* the interval that runs counts at once */
	assert_int_equal(ph_pace_keep(&p, 0), 20 * MIB);
	ph_pace_press(&p, 0, PAGEHINT_PRESSURE_FULL, 0);
	assert_int_equal(ph_pace_keep(&p, 0), 0);
}

static void test_backoff_doubles_to_32_and_forgets(void **state)
{
	(void)state;
	struct ph_pace p = make(0, 0, 0);
	uint64_t now = 0, bytes;
	const uint64_t times[] = { 1, 2, 4, 8, 16, 32, 32, 32 };
	for (unsigned i = 0; i < 8; i++) {
		ph_pace_failed(&p, now, 0);
		assert_int_equal(ph_pace_grant(&p, now + times[i] * SEC - 1, 1, 0, &bytes), PH_GRANT_BACKOFF);
		now += times[i] * SEC;
		assert_int_equal(ph_pace_grant(&p, now, 1, 0, &bytes), PH_GRANT_TAKE);
	}
	ph_pace_failed(&p, now, 1); /* something was gained: no more than one back-off */
	assert_int_equal(p.pause_until_ns, now + SEC);
	ph_pace_failed(&p, now, 0);
	ph_pace_succeeded(&p);
	ph_pace_failed(&p, now, 0);
	assert_int_equal(p.pause_until_ns, now + SEC);
	ph_pace_failed(&p, UINT64_MAX - 1, 0);
	assert_true(p.pause_until_ns == UINT64_MAX);
}

static void test_disabled_comes_first(void **state)
{
	(void)state;
	struct ph_pace p = make(1, MIB, 0);
	uint64_t bytes;
	p.enabled = 0;
	ph_pace_failed(&p, 0, 0);
	assert_int_equal(ph_pace_grant(&p, 0, 1, 0, &bytes), PH_GRANT_DISABLED);
	p.enabled = 1;
	assert_int_equal(ph_pace_grant(&p, 0, 1, 0, &bytes), PH_GRANT_BACKOFF);
}

static void test_pressure_falls_back_by_itself(void **state)
{
	(void)state;
	struct ph_pace p = make(0, 0, 0);
	ph_pace_press(&p, 100, PAGEHINT_PRESSURE_SOME, 50);
	assert_int_equal(ph_pace_level(&p, 100), PAGEHINT_PRESSURE_SOME);
	assert_int_equal(ph_pace_level(&p, 149), PAGEHINT_PRESSURE_SOME);
	assert_int_equal(ph_pace_level(&p, 150), PAGEHINT_PRESSURE_NONE);
	ph_pace_press(&p, 100, PAGEHINT_PRESSURE_FULL, 0);
	assert_int_equal(ph_pace_level(&p, UINT64_MAX - 1), PAGEHINT_PRESSURE_FULL);
	ph_pace_press(&p, 200, PAGEHINT_PRESSURE_NONE, 0);
	assert_int_equal(ph_pace_level(&p, 200), PAGEHINT_PRESSURE_NONE);
}

static void test_psi_rises_by_steps(void **state)
{
	(void)state;
	struct ph_pace p = make(0, 0, 0);
	ph_pace_psi(&p, 0, 10 * SEC);
	ph_pace_psi(&p, SEC, 10 * SEC); /* within the first interval: the same event going on */
	assert_int_equal(ph_pace_level(&p, SEC), PAGEHINT_PRESSURE_SOME);
	ph_pace_psi(&p, 2 * SEC, 10 * SEC);
	assert_int_equal(ph_pace_level(&p, 2 * SEC), PAGEHINT_PRESSURE_FULL);
	assert_int_equal(ph_pace_level(&p, 12 * SEC), PAGEHINT_PRESSURE_NONE);
	ph_pace_psi(&p, 13 * SEC, 10 * SEC);
	assert_int_equal(ph_pace_level(&p, 13 * SEC), PAGEHINT_PRESSURE_SOME);
	ph_pace_press(&p, 13 * SEC, PAGEHINT_PRESSURE_FULL, SEC); /* the higher of the two counts */
	assert_int_equal(ph_pace_level(&p, 13 * SEC), PAGEHINT_PRESSURE_FULL);
	assert_int_equal(ph_pace_level(&p, 14 * SEC), PAGEHINT_PRESSURE_SOME);
}

static void test_ladder(void **state)
{
	(void)state;
	assert_int_equal(ph_pace_order(PAGEHINT_PRESSURE_NONE, 12, 0, 9), 9);
	assert_int_equal(ph_pace_order(PAGEHINT_PRESSURE_SOME, 12, 0, 9), 4);
	assert_int_equal(ph_pace_order(PAGEHINT_PRESSURE_FULL, 12, 0, 9), 0);
	assert_int_equal(ph_pace_order(PAGEHINT_PRESSURE_SOME, 16, 0, 5), 0); /* 64 KiB frames */
	assert_int_equal(ph_pace_order(PAGEHINT_PRESSURE_SOME, 21, 0, 5), 0);
	assert_int_equal(ph_pace_order(PAGEHINT_PRESSURE_SOME, 12, 6, 9), 6); /* what the origin takes */
	assert_int_equal(ph_pace_order(PAGEHINT_PRESSURE_FULL, 12, 6, 9), 6);
	assert_int_equal(ph_pace_order(PAGEHINT_PRESSURE_SOME, 12, 0, 2), 2);
	assert_int_equal(ph_pace_raise(0, 12, 4096), 0);
	assert_int_equal(ph_pace_raise(0, 12, 4097), 1);
	assert_int_equal(ph_pace_raise(4, 12, 2 * MIB), 9);
	assert_int_equal(ph_pace_raise(9, 12, 4096), 9);
	assert_int_equal(ph_pace_raise(9, 12, UINT64_C(1) << 30), 18);
	assert_true(ph_pace_raise(9, 12, (UINT64_C(1) << 30) + 1) > PH_PACE_MAX_ORDER);
	assert_true(ph_pace_raise(0, 12, UINT64_MAX) > PH_PACE_MAX_ORDER);
}

static void test_bound(void **state)
{
	(void)state;
	struct ph_pace p = make(100 * MIB, 0, 0);
	assert_int_equal(ph_pace_bound_ns(&p, 0), 4 * SEC);
	assert_int_equal(ph_pace_bound_ns(&p, 1000 * MIB), 14 * SEC);
	p = make(1, 0, 0);
	assert_true(ph_pace_bound_ns(&p, UINT64_MAX) == UINT64_MAX); /* saturates */
	ph_pace_init(&p, UINT64_MAX, 0, 0, 0, 1, MIB);
	assert_true(ph_pace_bound_ns(&p, 0) == UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_limit_grants_everything),
		cmocka_unit_test(test_rate_holds_over_every_window),
		cmocka_unit_test(test_refund_is_no_gain),
		cmocka_unit_test(test_watermark_leaves_alone),
		cmocka_unit_test(test_holdback_is_the_busiest_of_the_window),
		cmocka_unit_test(test_backoff_doubles_to_32_and_forgets),
		cmocka_unit_test(test_disabled_comes_first),
		cmocka_unit_test(test_pressure_falls_back_by_itself),
		cmocka_unit_test(test_psi_rises_by_steps),
		cmocka_unit_test(test_ladder),
		cmocka_unit_test(test_bound),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
