/*
 * The flush filter in the long run: a clock whose stamps keep half of it, stamps that come late, sections without room, and
 * sections that go.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "support/flush_calls.h"

#define TURN (UINT64_C(1) << 32)

static void the_clock_passes_over_zero_halves(void **state)
{
	(void)state;
	struct pagehint_flush *f = make(1, 1);
	assert_int_equal(pagehint_flush_clock(f), 1);
	clock_to(f, 5 * TURN - 1);
	freed(f, 0, 1); /* stamp 0xffffffff */
	flush_cpus(f, 0, 1);
	assert_true(pagehint_flush_clock(f) == 5 * TURN + 1);
	freed(f, 64, 1); /* stamp 1 */
	assert_int_equal(count(f, 0, 1), CPUS - 1);
	assert_int_equal(count(f, 64, 1), CPUS);
	flush_cpus(f, 0, CPUS);
	assert_int_equal(count(f, 0, 128), 0);
	pagehint_flush_free(f);
}

/* Whatever the clock was at the free and is now: a CPU that has not flushed since is asked; with young stamps, only such. */
static void stamps_of_any_age_are_safe(void **state)
{
	(void)state;
	const uint64_t gaps[] = { 1,        2,    TURN / 2 - 1, TURN / 2, TURN / 2 + 1,     TURN - 2,
				  TURN - 1, TURN, TURN + 1,     3 * TURN, UINT64_C(1) << 60 };
	const uint64_t starts[] = { 1, TURN - 3, TURN - 1, TURN + 1, 7 * TURN + TURN / 2 };
	for (size_t s = 0; s < sizeof(starts) / sizeof(*starts); s++)
		for (size_t g = 0; g < sizeof(gaps) / sizeof(*gaps); g++) {
			struct pagehint_flush *f = make(1, 1);
			clock_to(f, starts[s]);
			flush_cpus(f, 0, 8); /* before the free */
			freed(f, 0, 1);
			uint64_t now = pagehint_flush_clock(f) + gaps[g];
			clock_to(f, now + ((uint32_t)now == 0));
			uint64_t cpus[WORDS];
			assert_int_equal(need(f, 0, 1, cpus), CPUS); /* the free is older than no flush */
			flush_cpus(f, 3, 5);
			uint32_t after = need(f, 0, 1, cpus);
			assert_int_equal(cpus[0] & 7, 7);
			if (gaps[g] < TURN - 2)
				assert_int_equal(after, CPUS - 5);
			freed(f, 0, 1); /* and a new stamp counts, whatever the old one seems to be */
			assert_int_equal(count(f, 0, 1), CPUS);
			pagehint_flush_free(f);
		}
}

/* The stamp of a slow thread does not hide a quicker one's. */
static void a_stamp_never_goes_back(void **state)
{
	(void)state;
	struct pagehint_flush *f = make(1, 1);
	clock_to(f, TURN + 10);
	freed(f, 0, 1);
	clock_to(f, TURN + 20);
	ph_flush_stamp(f, 0, 1, TURN - 5);                        /* a thread that read the clock before the turn */
	assert_int_equal(pagehint_flush_done(f, 0, TURN + 5), 0); /* after the older, before the newer */
	uint64_t cpus[WORDS];
	need(f, 0, 1, cpus);
	assert_int_equal(cpus[0] & 1, 1);
	assert_true(ph_flush_seen(5, TURN + 5) == TURN + 5);
	assert_true(ph_flush_seen(6, TURN + 5) == 6);
	assert_true(ph_flush_seen(UINT32_MAX, TURN + 5) == TURN - 1);
	pagehint_flush_free(f);
}

static void sections_without_room_share_a_stamp(void **state)
{
	(void)state;
	struct pagehint_flush *f = make(2, 100);
	freed(f, 90 * SECTION, 1);
	freed(f, 5 * SECTION, 1);
	assert_int_equal(count(f, 0, SECTION), 0);
	flush_cpus(f, 0, CPUS);
	freed(f, 50 * SECTION, 1); /* the third */
	assert_int_equal(count(f, 50 * SECTION, 1), CPUS);
	assert_int_equal(count(f, 0, 1), CPUS); /* too much, never too little */
	flush_cpus(f, 0, CPUS);
	assert_int_equal(count(f, 0, 100 * SECTION), 0);
	freed(f, 5 * SECTION + 64, 1); /* those with room are as exact as ever */
	assert_int_equal(count(f, 5 * SECTION, 64), 0);
	assert_int_equal(count(f, 5 * SECTION + 64, 64), CPUS);
	pagehint_flush_free(f);
}

static void sections_go_and_nothing_is_forgotten(void **state)
{
	(void)state;
	struct pagehint_flush *f = make(2, 100);
	assert_int_equal(pagehint_flush_remove(f, 0, 0), -EINVAL);
	assert_int_equal(pagehint_flush_remove(f, 64, SECTION), -EINVAL);
	assert_int_equal(pagehint_flush_remove(f, 0, SECTION + 64), -EINVAL);
	assert_int_equal(pagehint_flush_remove(f, UINT64_MAX - SECTION + 1, 2 * SECTION), -EINVAL);
	assert_int_equal(pagehint_flush_remove(f, 99 * SECTION, 2 * SECTION), -ERANGE);
	assert_int_equal(pagehint_flush_remove(f, 7 * SECTION, SECTION), 0); /* has no stamps */
	for (uint64_t round = 0; round < 40; round++) {
		uint64_t at = round * 2 * SECTION;
		flush_cpus(f, 0, CPUS);
		freed(f, at + 100, 1);
		assert_int_equal(count(f, at, 64), 0); /* it had room of its own, and old stamps are gone */
		flush_cpus(f, 0, 10);
		assert_int_equal(pagehint_flush_remove(f, at, 2 * SECTION), 0);
		assert_int_equal(count(f, at + 100, 1), CPUS - 10); /* whoever gets it back */
	}
	flush_cpus(f, 0, CPUS);
	assert_int_equal(count(f, 0, 100 * SECTION), 0);
	assert_int_equal(atomic_load(&ph_flush_used(f)[0]), 0);
	pagehint_flush_free(f);
}

/* every slot of a number that is no multiple of 64 can be had, and no more */
static void each_slot_has_one_section(void **state)
{
	(void)state;
	struct pagehint_flush *f = make(67, 200);
	for (uint64_t s = 0; s < 67; s++)
		freed(f, s * SECTION, 1);
	assert_int_equal(atomic_load(&f->rest), 0);
	for (uint64_t s = 0; s < 67; s++) {
		assert_int_equal(count(f, s * SECTION, 64), CPUS);
		assert_int_equal(count(f, s * SECTION + 64, SECTION - 64), 0);
	}
	freed(f, 67 * SECTION, 1);
	assert_int_not_equal(atomic_load(&f->rest), 0);
	pagehint_flush_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_clock_passes_over_zero_halves),
		cmocka_unit_test(stamps_of_any_age_are_safe),
		cmocka_unit_test(a_stamp_never_goes_back),
		cmocka_unit_test(sections_without_room_share_a_stamp),
		cmocka_unit_test(sections_go_and_nothing_is_forgotten),
		cmocka_unit_test(each_slot_has_one_section),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
