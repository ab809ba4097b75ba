/* The inhibit gate: counted reasons, drained, refused, explained. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "discard/gate.h"

static int set_up(void **state)
{
	return pagehint_gate_new((struct pagehint_gate **)state);
}

static int tear_down(void **state)
{
	return pagehint_gate_free(*state);
}

static void test_open_gate(void **state)
{
	struct pagehint_gate *gate = *state;
	uint32_t reason = 99;
	uint64_t inside = 99;
	assert_int_equal(pagehint_gate_closed(gate), 0);
	assert_int_equal(pagehint_gate_in_flight(gate), 0);
	assert_int_equal(pagehint_gate_enter(gate, &reason), 0);
	assert_int_equal(reason, 99);
	assert_int_equal(pagehint_gate_enter(gate, NULL), 0);
	assert_int_equal(pagehint_gate_in_flight(gate), 2);
	assert_int_equal(pagehint_gate_free(gate), -EBUSY);
	assert_int_equal(pagehint_gate_close(gate, PAGEHINT_INHIBIT_SNAPSHOT, &inside), 0);
	assert_int_equal(inside, 2);
	pagehint_gate_leave(gate);
	assert_int_equal(pagehint_gate_in_flight(gate), 1);
	pagehint_gate_leave(gate);
	assert_int_equal(pagehint_gate_in_flight(gate), 0); /* drained */
	assert_int_equal(pagehint_gate_enter(gate, &reason), -EBUSY);
	assert_int_equal(reason, PAGEHINT_INHIBIT_SNAPSHOT);
	assert_int_equal(pagehint_gate_in_flight(gate), 0);
	assert_int_equal(pagehint_gate_open(gate, PAGEHINT_INHIBIT_SNAPSHOT), 0);
	assert_int_equal(pagehint_gate_enter(gate, NULL), 0);
	pagehint_gate_leave(gate);
}

static void test_reasons_are_counted(void **state)
{
	struct pagehint_gate *gate = *state;
	uint32_t why;
	for (uint32_t r = 0; r < PAGEHINT_INHIBIT_COUNT; r++) {
		assert_int_equal(pagehint_gate_open(gate, r), -EALREADY);
		assert_int_equal(pagehint_gate_close(gate, r, NULL), 0);
		assert_int_equal(pagehint_gate_close(gate, r, NULL), 0);
		assert_int_equal(pagehint_gate_closed(gate), 1u << r);
		assert_int_equal(pagehint_gate_open(gate, r), 0);
		assert_int_equal(pagehint_gate_enter(gate, &why), -EBUSY); /* one holder is left */
		assert_int_equal(why, r);
		assert_int_equal(pagehint_gate_open(gate, r), 0);
		assert_int_equal(pagehint_gate_open(gate, r), -EALREADY);
		assert_int_equal(pagehint_gate_closed(gate), 0);
	}
	/* reasons do not open each other; the first one is named */
	assert_int_equal(pagehint_gate_close(gate, PAGEHINT_INHIBIT_EMBEDDER, NULL), 0);
	assert_int_equal(pagehint_gate_close(gate, PAGEHINT_INHIBIT_POISON, NULL), 0);
	assert_int_equal(pagehint_gate_open(gate, PAGEHINT_INHIBIT_POSTCOPY), -EALREADY);
	assert_int_equal(pagehint_gate_enter(gate, &why), -EBUSY);
	assert_int_equal(why, PAGEHINT_INHIBIT_POISON);
	assert_int_equal(pagehint_gate_open(gate, PAGEHINT_INHIBIT_POISON), 0);
	assert_int_equal(pagehint_gate_enter(gate, &why), -EBUSY);
	assert_int_equal(why, PAGEHINT_INHIBIT_EMBEDDER);
}

static void test_bad_input(void **state)
{
	struct pagehint_gate *gate = *state;
	uint64_t inside = 5;
	assert_int_equal(pagehint_gate_new(NULL), -EINVAL);
	assert_int_equal(pagehint_gate_free(NULL), 0);
	assert_int_equal(pagehint_gate_close(gate, PAGEHINT_INHIBIT_COUNT, &inside), -EINVAL);
	assert_int_equal(pagehint_gate_close(gate, UINT32_MAX, &inside), -EINVAL);
	assert_int_equal(inside, 5);
	assert_int_equal(pagehint_gate_open(gate, PAGEHINT_INHIBIT_COUNT), -EINVAL);
	assert_int_equal(pagehint_gate_closed(gate), 0);
}

static void test_stats(void **state)
{
	struct pagehint_gate *gate = *state;
	struct {
		struct pagehint_gate_stats s;
		uint64_t tail;
	} out = { .s = { .struct_size = sizeof(out) }, .tail = 7 };
	assert_int_equal(pagehint_gate_enter(gate, NULL), 0);
	assert_int_equal(pagehint_gate_close(gate, PAGEHINT_INHIBIT_PINNED, NULL), 0);
	assert_int_equal(pagehint_gate_close(gate, PAGEHINT_INHIBIT_PINNED, NULL), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pagehint_gate_enter(gate, NULL), -EBUSY);
	assert_int_equal(pagehint_gate_stats(gate, &out.s), 0);
	assert_int_equal(out.s.in_flight, 1);
	assert_int_equal(out.s.refused, 3);
	assert_int_equal(out.s.closed[PAGEHINT_INHIBIT_PINNED], 2);
	assert_int_equal(out.s.closed[PAGEHINT_INHIBIT_POISON], 0);
	assert_int_equal(out.tail, 0); /* what we do not know reads as zero */
	out.s.struct_size = 16;
	out.s.refused = 77;
	assert_int_equal(pagehint_gate_stats(gate, &out.s), 0);
	assert_int_equal(out.s.refused, 77);
	out.s.struct_size = 7;
	assert_int_equal(pagehint_gate_stats(gate, &out.s), -EINVAL);
	assert_int_equal(pagehint_gate_stats(gate, NULL), -EINVAL);
	pagehint_gate_leave(gate);
}

struct lines {
	int n;
	char last[200];
};

static void take_line(void *ctx, const char *text)
{
	struct lines *l = ctx;
	l->n++;
	snprintf(l->last, sizeof(l->last), "%s", text);
}

static void test_explain(void **state)
{
	struct pagehint_gate *gate = *state;
	struct lines l = { 0 };
	struct pagehint_sink sink = { .ctx = &l, .line = take_line };
	pagehint_gate_explain(gate, &sink);
	assert_int_equal(l.n, 0);
	assert_int_equal(pagehint_gate_close(gate, PAGEHINT_INHIBIT_SNAPSHOT, NULL), 0);
	assert_int_equal(pagehint_gate_close(gate, PAGEHINT_INHIBIT_SNAPSHOT, NULL), 0);
	pagehint_gate_explain(gate, &sink);
	assert_int_equal(l.n, 1); /* one line a reason, not a holder */
	assert_non_null(strstr(l.last, "snapshot"));
	assert_non_null(strstr(l.last, "held by 2"));
	assert_int_equal(pagehint_gate_close(gate, PAGEHINT_INHIBIT_POSTCOPY, NULL), 0);
	pagehint_gate_explain(gate, &sink);
	assert_int_equal(l.n, 3);
	for (uint32_t r = 0; r < PAGEHINT_INHIBIT_COUNT; r++)
		assert_string_not_equal(ph_gate_reason_name(r), "?");
	assert_string_equal(ph_gate_reason_name(PAGEHINT_INHIBIT_COUNT), "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_open_gate, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_reasons_are_counted, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_bad_input, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_stats, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_explain, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
