/*
 * traces: what the tests of trace files share.
 */
#ifndef TESTS_INTEGRATION_TRACES_H
#define TESTS_INTEGRATION_TRACES_H

#include <string.h>

#include "trace.h"

static inline void assert_same(const struct trace *a, const struct trace *b)
{
	assert_int_equal(a->n, b->n);
	assert_int_equal(a->allocs, b->allocs);
	assert_int_equal(a->foreign, b->foreign);
	assert_int_equal(a->lost, b->lost);
	for (size_t i = 0; i < a->n; i++) {
		assert_int_equal(a->events[i].us, b->events[i].us);
		assert_int_equal(a->events[i].id, b->events[i].id);
		assert_int_equal(a->events[i].kind, b->events[i].kind);
		assert_int_equal(a->events[i].order, b->events[i].order);
		assert_int_equal(a->events[i].migratetype, b->events[i].migratetype);
	}
}

static inline int parse(const char *text, struct trace *trace, struct trace_error *error)
{
	return trace_parse("t", text, strlen(text), trace, error);
}

#endif
