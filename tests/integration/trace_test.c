/* Traces: what is read is what was recorded, and what is packed comes back the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "trace-pack.h"
#include "trace.h"
#include "traces.h"

#define SAMPLE TRACE_DATA "/perf-script.txt"
#define BUILD TRACE_DATA "/build.trace.zst"

/* Every event of the sample is compared with an independent reading of its line. */
static void sample_is_read_as_it_stands(void **state)
{
	struct trace_error error = { "" };
	struct trace trace;
	FILE *file = fopen(SAMPLE, "r");
	char line[512];
	double first = 0;
	size_t at = 0;

	(void)state;
	assert_non_null(file);
	assert_int_equal(trace_load(SAMPLE, &trace, &error), 0);
	while (fgets(line, sizeof(line), file)) {
		double seconds = strtod(line, NULL);
		const struct trace_event *event = &trace.events[at];

		if (event->kind == TRACE_FREE_LOST)
			event = &trace.events[++at];
		assert_true(at < trace.n);
		if (at == 0)
			first = seconds;
		assert_true(seconds - first > (double)event->us / 1e6 - 2e-7 &&
			    seconds - first < (double)event->us / 1e6 + 2e-7);
		assert_int_equal(event->kind == TRACE_ALLOC, strstr(line, "mm_page_alloc:") != NULL);
		assert_int_equal(event->order, atoi(strstr(line, "order=") + 6));
		if (event->kind == TRACE_ALLOC)
			assert_int_equal(event->migratetype, atoi(strstr(line, "migratetype=") + 12));
		at++;
	}
	fclose(file);
	assert_int_equal(at, trace.n);
	trace_free(&trace);
}

static void frees_find_their_allocation(void **state)
{
	static const char text[] = "us,op,pfn,order,migratetype\n"
				   "100,a,ff,0,1\n"  /* id 0 */
				   "101,a,100,3,0\n" /* id 1 */
				   "105,f,77,2,\n"   /* from before */
				   "105,a,ff,1,2\n"  /* id 2; the free of id 0 was missed */
				   "109,f,ff,1,\n"
				   "110,f,100,0,\n" /* a split block: all of it */
				   "110,f,101,0,\n";
	static const struct trace_event expected[] = {
		{ 0, 0, TRACE_ALLOC, 0, 1, 0 },
		{ 1, 1, TRACE_ALLOC, 3, 0, 0 },
		{ 5, TRACE_NO_ID, TRACE_FREE_FOREIGN, 2, 0, 0 },
		{ 5, 0, TRACE_FREE_LOST, 0, 0, 0 },
		{ 5, 2, TRACE_ALLOC, 1, 2, 0 },
		{ 9, 2, TRACE_FREE, 1, 0, 0 },
		{ 10, 1, TRACE_FREE, 3, 0, 0 },
		{ 10, TRACE_NO_ID, TRACE_FREE_FOREIGN, 0, 0, 0 },
	};
	struct trace_error error = { "" };
	struct trace trace;

	(void)state;
	assert_int_equal(parse(text, &trace, &error), 0);
	assert_int_equal(trace.n, sizeof(expected) / sizeof(expected[0]));
	assert_memory_equal(trace.events, expected, sizeof(expected));
	assert_int_equal(trace.allocs, 3);
	assert_int_equal(trace.foreign, 2);
	assert_int_equal(trace.lost, 1);
	assert_int_equal(trace.resized, 1);
	assert_int_equal(trace_peak_live(&trace), 10 * 4096);
	trace_free(&trace);
}

/* Uses the trace up. */
static void assert_survives_packing(struct trace *trace)
{
	struct trace_error error = { "" };
	struct trace again;
	void *data = NULL;
	size_t bytes = 0;

	assert_int_equal(trace_pack(trace, &data, &bytes), 0);
	assert_int_equal(trace_parse("t", data, bytes, &again, &error), 0);
	assert_same(trace, &again);
	trace_free(&again);
	trace_free(trace);
	free(data);
}

static void packed_and_back_is_the_same(void **state)
{
	struct trace_error error = { "" };
	struct trace trace;

	(void)state;
	assert_int_equal(trace_load(SAMPLE, &trace, &error), 0);
	assert_survives_packing(&trace);
}

/* Numbers at the edges of their encoding. */
static void edges_survive_packing(void **state)
{
	static const char text[] = "us,op,pfn,order,migratetype\n"
				   "0,a,0,18,7\n127,a,10000000000000,0,0\n255,a,7,0,0\n16639,f,0,18,\n"
				   "1152921504606846976,f,7,0,\n1152921504606846976,f,10000000000000,0,\n";
	struct trace_error error = { "" };
	struct trace trace;

	(void)state;
	assert_int_equal(parse(text, &trace, &error), 0);
	assert_survives_packing(&trace);
}

static void build_is_whole(void **state)
{
	struct trace_error error = { "" };
	struct trace trace;

	(void)state;
	assert_int_equal(trace_load(BUILD, &trace, &error), 0);
	assert_int_equal(trace.allocs, 1492015);
	assert_int_equal(trace.n, 1492015 + 1451303 + trace.lost);
	assert_int_equal(trace.foreign, 1929);
	assert_int_equal(trace.events[trace.n - 1].us, 25133887);
	trace_free(&trace);
}

#define GOOD " 1.000001: kmem:mm_page_alloc: page=0x1 pfn=0x1 order=0 migratetype=0 gfp_flags=GFP_KERNEL\n"

static void other_events_and_failures_are_counted(void **state)
{
	static const char text[] =
		GOOD "1.000002: kmem:kmalloc: call_site=foo ptr=0x1\r\n"
		     "1.000003: kmem:mm_page_alloc: page=(nil) pfn=0xffffffffffffffff order=3 migratetype=0 "
		     "gfp_flags=GFP_NOWAIT\n"
		     "1.000004123: kmem:mm_page_free: page=0x1 pfn=1 order=0\n";
	struct trace_error error = { "" };
	struct trace trace;

	(void)state;
	assert_int_equal(parse(text, &trace, &error), 0);
	assert_int_equal(trace.n, 2);
	assert_int_equal(trace.skipped, 2);
	assert_int_equal(trace.events[1].kind, TRACE_FREE);
	assert_int_equal(trace.events[1].us, 3);
	trace_free(&trace);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sample_is_read_as_it_stands),
		cmocka_unit_test(frees_find_their_allocation),
		cmocka_unit_test(packed_and_back_is_the_same),
		cmocka_unit_test(edges_survive_packing),
		cmocka_unit_test(build_is_whole),
		cmocka_unit_test(other_events_and_failures_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
