/* bits.h against loops that are too slow to be wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include "base/bits.h"

#include <cmocka.h>

static int bit(uint64_t v, unsigned i)
{
	return (int)(v >> i & 1);
}

static int slow_is_run(uint64_t v, unsigned start, unsigned order)
{
	if (start % (1u << order) != 0)
		return 0;
	for (unsigned i = 0; i < 1u << order; i++)
		if (!bit(v, start + i))
			return 0;
	return 1;
}

static void check_word(uint64_t v)
{
	unsigned count = 0;
	int largest = -1;
	for (unsigned i = 0; i < 64; i++)
		count += (unsigned)bit(v, i);
	assert_int_equal(ph_popcount(v), count);
	if (v != 0) {
		unsigned first = 0;
		while (!bit(v, first))
			first++;
		assert_int_equal(ph_ctz(v), first);
	}
	for (unsigned o = 0; o <= 6; o++) {
		uint64_t want = 0;
		for (unsigned i = 0; i < 64; i++)
			want |= (uint64_t)slow_is_run(v, i, o) << i;
		assert_true(ph_runs(v, o) == want);
		if (want != 0)
			largest = (int)o;
	}
	assert_int_equal(ph_largest_run(v), largest);
	for (unsigned first = 0; first < 64; first++) {
		unsigned n = 0;
		while (first + n < 64 && bit(v, first + n))
			n++;
		assert_int_equal(ph_run_length(v, first), n);
	}
}

/* Every value of 8 bits at every place, alone and on a background of ones. */
static void test_small_patterns_everywhere(void **state)
{
	(void)state;
	for (unsigned v = 0; v < 256; v++)
		for (unsigned at = 0; at <= 56; at++) {
			uint64_t hole = UINT64_C(0xff) << at;
			check_word((uint64_t)v << at);
			check_word(~hole | (uint64_t)v << at);
		}
}

/* Every single stretch of ones, and of zeros. */
static void test_every_stretch(void **state)
{
	(void)state;
	for (unsigned first = 0; first < 64; first++)
		for (unsigned n = 0; first + n <= 64; n++) {
			uint64_t want = 0;
			for (unsigned i = 0; i < n; i++)
				want |= UINT64_C(1) << (first + i);
			assert_true(ph_mask(first, n) == want);
			if (first == 0)
				assert_true(ph_low_mask(n) == want);
			check_word(want);
			check_word(~want);
		}
	assert_true(ph_low_mask(64) == PH_FULL);
	assert_true(ph_low_mask(1000) == PH_FULL);
}

static void test_random_words(void **state)
{
	(void)state;
	uint64_t x = UINT64_C(0x9e3779b97f4a7c15);
	for (int i = 0; i < 20000; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		check_word(x);
		check_word(x | x << 1 | x << 2); /* with longer stretches */
	}
}

static void test_run_starts(void **state)
{
	(void)state;
	for (unsigned o = 0; o <= 6; o++)
		for (unsigned i = 0; i < 64; i++)
			assert_int_equal(bit(ph_run_starts(o), i), i % (1u << o) == 0);
}

static void test_sums_and_rounding(void **state)
{
	(void)state;
	static const uint64_t edges[] = { 0, 1, 2, 4095, 4096, UINT64_MAX / 2, UINT64_MAX - 1, UINT64_MAX };
	const unsigned n = sizeof(edges) / sizeof(edges[0]);
	for (unsigned i = 0; i < n; i++)
		for (unsigned j = 0; j < n; j++)
			assert_int_equal(ph_sum_fits(edges[i], edges[j]), edges[i] + edges[j] >= edges[i]);
	for (uint64_t to = 1; to <= 70; to++)
		for (uint64_t v = 0; v <= 300; v++) {
			uint64_t down = 0;
			while (down + to <= v)
				down += to;
			assert_true(ph_round_down(v, to) == down);
			assert_true(ph_round_up(v, to) == (down == v ? v : down + to));
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_small_patterns_everywhere),
		cmocka_unit_test(test_every_stretch),
		cmocka_unit_test(test_random_words),
		cmocka_unit_test(test_run_starts),
		cmocka_unit_test(test_sums_and_rounding),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
