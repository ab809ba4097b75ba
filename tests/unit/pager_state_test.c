/* The states of pages: every change against the rule that it is written from, runs and searches against a plain array. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pager/state.h"

#define PAGES 100u

static _Atomic uint64_t words[(PAGES + 15) / 16];
static struct ph_states s = { words, PAGES };
static unsigned plain[PAGES];

static void set_all(unsigned state)
{
	struct ph_change all;
	memset(all.to, (int)state, sizeof(all.to));
	(void)ph_state_change(&s, 0, PAGES, &all);
	for (unsigned i = 0; i < PAGES; i++)
		plain[i] = state;
}

static void set(unsigned page, unsigned state)
{
	struct ph_change all;
	memset(all.to, (int)state, sizeof(all.to));
	(void)ph_state_change(&s, page, 1, &all);
	plain[page] = state;
}

/* Only one in flight may be installed, only one at rest may leave, and nothing that was removed becomes absent again. */
static void test_rules(void **state)
{
	(void)state;
	static const struct {
		const struct ph_change *change;
		unsigned from, to;
	} rules[] = {
		{ &ph_change_claim, PH_ABSENT, PH_INFLIGHT },
		{ &ph_change_claim_removed, PH_REMOVED, PH_CLEARING },
		{ &ph_change_present, PH_INFLIGHT, PH_PRESENT },
		{ &ph_change_present, PH_CLEARING, PH_PRESENT },
		{ &ph_change_release, PH_INFLIGHT, PH_ABSENT },
		{ &ph_change_release, PH_CLEARING, PH_REMOVED },
		{ &ph_change_poisoned, PH_INFLIGHT, PH_POISONED },
		{ &ph_change_leave, PH_INFLIGHT, PH_CLEARING },
		{ &ph_change_leave, PH_ABSENT, PH_ABSENT | PH_LEAVING },
		{ &ph_change_leave, PH_PRESENT | PH_DIRTY, PH_PRESENT | PH_DIRTY | PH_LEAVING },
		{ &ph_change_left, PH_ABSENT | PH_LEAVING, PH_REMOVED },
		{ &ph_change_left, PH_PRESENT | PH_DIRTY | PH_LEAVING, PH_REMOVED },
		{ &ph_change_stay, PH_PRESENT | PH_DIRTY | PH_LEAVING, PH_PRESENT | PH_DIRTY },
		{ &ph_change_left_present, PH_ABSENT | PH_LEAVING, PH_ABSENT },
		{ &ph_change_dirty, PH_REMOVED, PH_PRESENT | PH_DIRTY },
		{ &ph_change_clean, PH_PRESENT | PH_DIRTY, PH_PRESENT },
		{ &ph_change_attach, PH_CLEARING, PH_REMOVED },
		{ &ph_change_attach, PH_INFLIGHT, PH_ABSENT },
	};
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		assert_int_equal(rules[i].change->to[rules[i].from], rules[i].to);
	const struct ph_change *const all[] = {
		&ph_change_claim,    &ph_change_claim_removed, &ph_change_present,      &ph_change_release,
		&ph_change_poisoned, &ph_change_dirty,         &ph_change_clean,        &ph_change_leave,
		&ph_change_stay,     &ph_change_left,          &ph_change_left_present, &ph_change_take_away,
		&ph_change_attach,
	};
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		assert_int_not_equal(all[i]->to[PH_REMOVED], PH_ABSENT);
		assert_int_not_equal(all[i]->to[PH_CLEARING], PH_ABSENT);
		assert_int_not_equal(all[i]->to[PH_REMOVED | PH_LEAVING], PH_ABSENT);
	}
	assert_int_equal(ph_change_leave.to[PH_CLEARING], PH_CLEARING);
	for (unsigned v = 0; v < 16; v++)
		assert_int_equal(ph_change_take_away.to[v], PH_REMOVED);
}

static void test_take_stops_at_a_gap(void **state)
{
	(void)state;
	for (unsigned gap = 0; gap < PAGES; gap++)
		for (unsigned first = gap < 40 ? 0 : gap - 40; first <= gap; first += 7) {
			set_all(PH_ABSENT);
			set(gap, PH_PRESENT);
			assert_int_equal(ph_state_take(&s, first, PAGES - first, &ph_change_claim), gap - first);
			for (unsigned i = 0; i < PAGES; i++)
				assert_int_equal(ph_state_get(&s, i), i == gap                ? PH_PRESENT
								      : i >= first && i < gap ? PH_INFLIGHT
											      : PH_ABSENT);
		}
}

static void test_runs(void **state)
{
	(void)state;
	static const unsigned values[] = { PH_ABSENT, PH_PRESENT, PH_REMOVED, PH_PRESENT | PH_DIRTY };
	srand(5);
	set_all(PH_ABSENT);
	for (unsigned round = 0; round < 300; round++) {
		unsigned first = (unsigned)rand() % PAGES, n = (unsigned)rand() % (PAGES - first) + 1;
		unsigned value = values[rand() % 4], got, length = 1, counted = 0;
		for (unsigned i = first; i < first + n && round % 3 != 0; i++)
			set(i, value);
		while (first + length < PAGES && plain[first + length] == plain[first])
			length++;
		assert_int_equal(ph_state_run(&s, first, PAGES - first, &got), length);
		assert_int_equal(got, plain[first]);
		unsigned found = first;
		while (found < PAGES && plain[found] != value)
			found++;
		assert_int_equal(ph_state_find(&s, first, PAGES, PH_SET(value)), found);
		for (unsigned i = 0; i < PAGES; i++)
			counted += plain[i] == value;
		assert_int_equal(ph_state_count(&s, 0, PAGES, PH_SET(value)), counted);
	}
}

/* What changed is told page by page, so that two who mark the same pages each know their own. */
static void test_word(void **state)
{
	(void)state;
	set_all(PH_PRESENT);
	set(3, PH_INFLIGHT);
	set(5, PH_PRESENT | PH_LEAVING);
	assert_int_equal(ph_state_word(&s, 0, 0x00ff, &ph_change_leave), 0x00df);
	assert_int_equal(ph_state_get(&s, 3), PH_CLEARING);
	assert_int_equal(ph_state_get(&s, 4), PH_PRESENT | PH_LEAVING);
	assert_int_equal(ph_state_get(&s, 8), PH_PRESENT);
	assert_int_equal(ph_state_word(&s, 0, 0x00ff, &ph_change_leave), 0);
	assert_int_equal(ph_state_change(&s, 0, PAGES, &ph_change_stay), 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rules),
		cmocka_unit_test(test_take_stops_at_a_gap),
		cmocka_unit_test(test_runs),
		cmocka_unit_test(test_word),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
