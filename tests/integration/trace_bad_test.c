/* Traces that are cut off, damaged or forged are refused with their place, and leave nothing behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zstd.h>

#include "trace-pack.h"
#include "trace.h"
#include "traces.h"

#define SAMPLE TRACE_DATA "/perf-script.txt"
#define MAGIC 8u

static void *read_file(const char *path, size_t *ret_bytes)
{
	FILE *file = fopen(path, "rb");
	char *data = malloc(1u << 20);

	assert_non_null(file);
	assert_non_null(data);
	*ret_bytes = fread(data, 1, 1u << 20, file);
	fclose(file);
	return data;
}

static void assert_empty(const struct trace *trace)
{
	assert_null(trace->events);
	assert_int_equal(trace->n, 0);
}

static void text_cut_anywhere_names_its_line(void **state)
{
	struct trace_error error;
	struct trace trace;
	size_t bytes = 0;
	char *text = read_file(SAMPLE, &bytes);
	unsigned line = 1;

	(void)state;
	bytes = bytes < 3000 ? bytes : 3000;
	for (size_t cut = 1; cut < bytes; cut++) {
		char place[32];

		if (text[cut - 1] == '\n') {
			line++; /* a whole file, only shorter */
			continue;
		}
		snprintf(place, sizeof(place), "t:%u: ", line);
		assert_int_not_equal(trace_parse("t", text, cut, &trace, &error), 0);
		assert_memory_equal(error.text, place, strlen(place));
		assert_empty(&trace);
	}
	assert_true(line > 20);
	free(text);
}

static void packed_cut_anywhere_is_refused(void **state)
{
	struct trace_error error;
	struct trace trace;
	void *data = NULL;
	size_t bytes = 0;

	(void)state;
	assert_int_equal(trace_load(SAMPLE, &trace, &error), 0);
	assert_int_equal(trace_pack(&trace, &data, &bytes), 0);
	trace_free(&trace);
	for (size_t cut = 0; cut < bytes; cut++) {
		assert_int_not_equal(trace_parse("t", data, cut, &trace, &error), 0);
		assert_non_null(strstr(error.text, cut ? "cut off" : "empty"));
		assert_empty(&trace);
	}
	free(data);
}

/* A flipped bit is found, unless it changes nothing (there are such bits in a zstd header). */
static void packed_with_a_flipped_bit(void **state)
{
	struct trace_error error;
	struct trace whole;
	struct trace trace;
	unsigned char *data;
	void *packed = NULL;
	size_t bytes = 0;
	size_t refused = 0;

	(void)state;
	assert_int_equal(trace_load(SAMPLE, &whole, &error), 0);
	assert_int_equal(trace_pack(&whole, &packed, &bytes), 0);
	data = packed;
	for (size_t bit = 0; bit < bytes * 8; bit++) {
		data[bit / 8] ^= (unsigned char)(1u << bit % 8);
		error.text[0] = 0;
		if (trace_parse("t", data, bytes, &trace, &error)) {
			refused++;
			assert_true(strlen(error.text) > 10);
			assert_empty(&trace);
		} else {
			assert_same(&whole, &trace);
			trace_free(&trace);
		}
		data[bit / 8] ^= (unsigned char)(1u << bit % 8);
	}
	assert_true(refused > bytes * 8 - 16);
	trace_free(&whole);
	free(packed);
}

static void noise_is_refused(void **state)
{
	struct trace_error error;
	struct trace trace;
	unsigned char noise[600] = "PHTRACE1";
	uint32_t x = 12345;

	(void)state;
	for (unsigned round = 0; round < 2000; round++) {
		size_t from = round % 2 ? MAGIC : 0;

		for (size_t i = from; i < sizeof(noise); i++) {
			x = x * 1664525u + 1013904223u;
			noise[i] = (unsigned char)(x >> 24);
		}
		if (round % 2)
			memcpy(noise, "PHTRACE1", MAGIC);
		assert_int_not_equal(trace_parse("t", noise, 1 + x % (sizeof(noise) - 1), &trace, &error), 0);
		assert_empty(&trace);
	}
}

#define GOOD " 1.000001: kmem:mm_page_alloc: page=0x1 pfn=0x1 order=0 migratetype=0 gfp_flags=GFP_KERNEL\n"

static const struct {
	const char *text;
	const char *complaint;
} bad_lines[] = {
	{ "hello\n", "t:1: the time is not a number" },
	{ GOOD "1.00001: kmem:mm_page_free: page=0x1 pfn=0x1 order=0\n", "t:2: the time has neither 6 nor 9 digits" },
	{ GOOD "1.000000: kmem:mm_page_free: page=0x1 pfn=0x1 order=0\n", "t:2: time goes backwards" },
	{ GOOD "\n# remark\n1.000002: kmem:mm_page_free: page=0x1 pfn=0x1 order=19\n",
	  "t:4: order is 19, more than 18" },
	{ GOOD "1.000002: kmem:mm_page_free: page=0x1 pfn=0x1 order=\n",
	  "t:2: the line ends where order should stand" },
	{ GOOD "1.000002: kmem:mm_page_free: page=0x1 pfn=0xzz order=0\n", "t:2: pfn is not a number" },
	{ GOOD "1.000002: kmem:mm_page_free: page=0x1 pfn=0xfffffffffffffff order=0\n", "is no frame number" },
	{ GOOD "1.000002: kmem:mm_page_free: page=0x1 pfn=0xfffffffffffffffff order=0\n", "t:2: pfn is too large" },
	{ GOOD "1.000002: kmem:mm_page_free: page=0x1 order=0\n", "t:2: expected 'pfn='" },
	{ GOOD "1.000002: kmem:mm_page_free: page=0x1 pfn=0x1 order=0 more\n", "t:2: unexpected text" },
	{ GOOD "1.000002: kmem:mm_page_alloc: page=0x1 pfn=0x1 order=0 migratetype=9 gfp_flags=X\n",
	  "t:2: migratetype is 9" },
	{ GOOD "1.000002: kmem:mm_page_alloc: page=0x1 pfn=0x1 order=0 migratetype=0 gfp_flags=\n",
	  "t:2: the line ends" },
	{ GOOD "1.000002: mm_page_alloc page=0x1\n", "t:2: 'mm_page_alloc' is no event name" },
	{ GOOD "1.000002\n", "t:2: the line ends where ':' should stand" },
	{ GOOD "1.000002: kmem:mm_page_free: page=0x1 pfn=0x1 order=0", "t:2: the last line has no newline" },
	{ "us,op,pfn\n1,a,1,0,0\n", "t:1: " },
	{ "us,op,pfn,order,migratetype\n1,x,1,0,0\n", "t:2: expected 'f,'" },
	{ "us,op,pfn,order,migratetype\n1,a,1,0,\n", "t:2: the line ends where migratetype should stand" },
	{ "us,op,pfn,order,migratetype\n", "t:1: no page allocation or free" },
	{ "# nothing\n", "t:1: no page allocation or free" },
};

static void bad_lines_are_named(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(bad_lines) / sizeof(bad_lines[0]); i++) {
		struct trace_error error = { "" };
		struct trace trace;

		assert_int_not_equal(parse(bad_lines[i].text, &trace, &error), 0);
		if (!strstr(error.text, bad_lines[i].complaint))
			fail_msg("'%s' instead of '%s'", error.text, bad_lines[i].complaint);
		assert_empty(&trace);
	}
}

static void a_zero_byte_is_no_text(void **state)
{
	static const char text[] = GOOD "\0\n";
	struct trace_error error = { "" };
	struct trace trace;

	(void)state;
	assert_int_not_equal(trace_parse("t", text, sizeof(text) - 1, &trace, &error), 0);
	assert_non_null(strstr(error.text, "t:2: the line holds a zero byte"));
}

/* A payload of one's own in a frame that zstd finds good. */
static int unpack_forged(const void *payload, size_t bytes, struct trace_error *error)
{
	unsigned char data[256] = "PHTRACE1";
	struct trace trace;
	size_t length = ZSTD_compress(data + MAGIC, sizeof(data) - MAGIC, payload, bytes, 1);
	int rc;

	assert_false(ZSTD_isError(length));
	rc = trace_parse("t", data, MAGIC + length, &trace, error);
	trace_free(&trace);
	return rc;
}

#define FORGED(complaint, ...)                                                              \
	{                                                                                   \
		{ __VA_ARGS__ }, sizeof((const unsigned char[]) { __VA_ARGS__ }), complaint \
	}

/* events, allocs, then length and content of what, when, whose, migratetype */
static const struct {
	unsigned char payload[24];
	size_t bytes;
	const char *complaint;
} forged[] = {
	FORGED(NULL, 2, 1, 2, 0, 1, 2, 0, 5, 1, 0, 1, 1),
	FORGED("do not add up", 3, 1, 2, 0, 1, 2, 0, 5, 1, 0, 1, 1),
	FORGED("do not add up", 2, 2, 2, 0, 1, 2, 0, 5, 1, 0, 1, 1),
	FORGED("do not add up", 2, 1, 2, 0, 1, 2, 0, 5, 1, 0, 1, 1, 9),
	FORGED("do not add up", 2, 1, 200, 0),
	FORGED("do not add up", 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255),
	FORGED("event 1: the order is too large", 2, 1, 2, 19 << 2, 1, 2, 0, 5, 1, 0, 1, 1),
	FORGED("event 2: frees what is not allocated", 2, 1, 2, 0, 1, 2, 0, 5, 1, 2, 1, 1),
	FORGED("event 2: frees what is not allocated", 2, 1, 2, 0, 1, 2, 0, 5, 1, 1, 1, 1),
	FORGED("event 2: frees what is not allocated", 2, 1, 2, 0, 1 | 1 << 2, 2, 0, 5, 1, 0, 1, 1),
	FORGED("event 3: frees what is not allocated", 3, 1, 3, 0, 1, 1, 3, 0, 5, 0, 2, 0, 0, 1, 1),
	FORGED("event 1: frees what is not allocated", 2, 1, 2, 1, 0, 2, 0, 5, 1, 0, 1, 1),
	FORGED("event 1: the migratetype is too large", 2, 1, 2, 0, 1, 2, 0, 5, 1, 0, 1, 8),
	FORGED("event 2: more allocations than", 2, 1, 2, 0, 0, 2, 0, 5, 0, 1, 1),
	FORGED("event 2: the time is damaged", 2, 1, 2, 0, 1, 1, 0, 1, 0, 1, 1),
	FORGED("event 2: the id of a free is damaged", 2, 1, 2, 0, 1, 2, 0, 5, 0, 1, 1),
	FORGED("goes on after its last event", 2, 1, 2, 0, 1, 3, 0, 5, 5, 1, 0, 1, 1),
	FORGED("no page allocation or free", 0, 0, 0, 0, 0, 0),
};

static void forged_payloads_are_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(forged) / sizeof(forged[0]); i++) {
		struct trace_error error = { "" };
		int rc = unpack_forged(forged[i].payload, forged[i].bytes, &error);

		if (!forged[i].complaint) {
			assert_int_equal(rc, 0);
			continue;
		}
		assert_int_not_equal(rc, 0);
		if (!strstr(error.text, forged[i].complaint))
			fail_msg("%zu: '%s' instead of '%s'", i, error.text, forged[i].complaint);
	}
}

static void a_missing_file_is_named(void **state)
{
	struct trace_error error = { "" };
	struct trace trace;

	(void)state;
	assert_int_not_equal(trace_load("/nonexistent/trace", &trace, &error), 0);
	assert_non_null(strstr(error.text, "/nonexistent/trace: "));
	assert_empty(&trace);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_cut_anywhere_names_its_line),
		cmocka_unit_test(packed_cut_anywhere_is_refused),
		cmocka_unit_test(packed_with_a_flipped_bit),
		cmocka_unit_test(noise_is_refused),
		cmocka_unit_test(bad_lines_are_named),
		cmocka_unit_test(a_zero_byte_is_no_text),
		cmocka_unit_test(forged_payloads_are_refused),
		cmocka_unit_test(a_missing_file_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
