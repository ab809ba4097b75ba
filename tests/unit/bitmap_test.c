/*
 * The bitmap's state: making one, sections that come and go, set, clear, test, count. Runs are in bitmap_runs_test.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <pagehint/bitmap.h>

#include "bitmap/state.h"

#define SECTION ((uint64_t)PAGEHINT_BITMAP_SECTION_BITS)

static struct pagehint_bitmap_opts opts_of(uint64_t span, uint32_t max_sections)
{
	struct pagehint_bitmap_opts opts = { .struct_size = sizeof(opts), .span = span, .max_sections = max_sections };
	return opts;
}

static struct pagehint_bitmap *make(uint64_t span, uint32_t max_sections)
{
	struct pagehint_bitmap_opts opts = opts_of(span, max_sections);
	struct pagehint_bitmap *b = NULL;
	assert_int_equal(pagehint_bitmap_new(&opts, &b), 0);
	return b;
}

static void options_are_checked(void **state)
{
	(void)state;
	uint64_t bytes = 7;
	struct pagehint_bitmap *b = NULL;
	struct pagehint_bitmap_opts opts = opts_of(0, 0);
	assert_int_equal(pagehint_bitmap_size(&opts, &bytes), -EINVAL);
	assert_int_equal(pagehint_bitmap_size(NULL, &bytes), -EINVAL);
	opts.span = (UINT64_C(1) << 52) + 1;
	assert_int_equal(pagehint_bitmap_size(&opts, &bytes), -EINVAL);
	assert_int_equal(pagehint_bitmap_new(&opts, &b), -EINVAL);
	opts.span = 1;
	opts.flags = 1;
	assert_int_equal(pagehint_bitmap_size(&opts, &bytes), -EINVAL);
	opts.flags = 0;
	opts.struct_size = 4; /* not even the size itself */
	assert_int_equal(pagehint_bitmap_size(&opts, &bytes), -EINVAL);
	assert_int_equal(bytes, 7);
	assert_null(b);
	opts.struct_size = offsetof(struct pagehint_bitmap_opts, max_sections); /* the rest is defaulted */
	opts.flags = 99;
	assert_int_equal(pagehint_bitmap_size(&opts, &bytes), 0);
	assert_int_equal(bytes % 16, 0);
}

static void longer_options_need_a_zero_tail(void **state)
{
	(void)state;
	struct {
		struct pagehint_bitmap_opts opts;
		uint64_t tail;
	} longer = { .opts = opts_of(100, 0), .tail = 0 };
	longer.opts.struct_size = sizeof(longer);
	uint64_t bytes = 7;
	assert_int_equal(pagehint_bitmap_size(&longer.opts, &bytes), 0);
	longer.tail = 1;
	bytes = 7;
	struct pagehint_bitmap *b = NULL;
	assert_int_equal(pagehint_bitmap_size(&longer.opts, &bytes), -E2BIG);
	assert_int_equal(pagehint_bitmap_new(&longer.opts, &b), -E2BIG);
	assert_int_equal(bytes, 7);
}

static void every_span_has_a_size_and_cost_follows_max_sections(void **state)
{
	(void)state;
	struct pagehint_bitmap_opts opts = opts_of(UINT64_C(1) << 52, 0);
	uint64_t all, few, one;
	assert_int_equal(pagehint_bitmap_size(&opts, &all), 0);
	opts.max_sections = 4;
	assert_int_equal(pagehint_bitmap_size(&opts, &few), 0);
	opts = opts_of(1, UINT32_MAX);
	assert_int_equal(pagehint_bitmap_size(&opts, &one), 0);
	assert_true(all > UINT64_C(1) << 49); /* 4 KiB for each of 2^37 sections, at least */
	assert_true(few < 4 * 20480);
	assert_true(one < 20480);
}

static void init_wants_aligned_room(void **state)
{
	(void)state;
	struct pagehint_bitmap_opts opts = opts_of(SECTION, 0);
	uint64_t bytes;
	assert_int_equal(pagehint_bitmap_size(&opts, &bytes), 0);
	unsigned char *raw = calloc(1, (size_t)bytes + 32);
	unsigned char *mem = raw + (16 - (uintptr_t)raw % 16) % 16;
	struct pagehint_bitmap *b = NULL;
	assert_int_equal(pagehint_bitmap_init(mem + 8, bytes, &opts, &b), -EINVAL);
	assert_int_equal(pagehint_bitmap_init(mem, bytes - 1, &opts, &b), -EINVAL);
	assert_int_equal(pagehint_bitmap_init(NULL, bytes, &opts, &b), -EINVAL);
	assert_null(b);
	for (uint64_t i = 0; i < bytes; i++)
		assert_int_equal(mem[i], 0); /* failures touch nothing */
	assert_int_equal(pagehint_bitmap_init(mem, bytes, &opts, &b), 0);
	assert_ptr_equal(b, mem);
	assert_int_equal(pagehint_bitmap_count(b), 0);
	free(raw);
}

/* Sanitizers abort on absurd sizes unless told that NULL is an answer. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1";
}
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	return "allocator_may_return_null=1";
}

static void too_much_memory_is_refused(void **state)
{
	(void)state;
	struct pagehint_bitmap_opts opts = opts_of(UINT64_C(1) << 52, 0);
	struct pagehint_bitmap *b = NULL;
	assert_int_equal(pagehint_bitmap_new(&opts, &b), -ENOMEM);
	assert_null(b);
	pagehint_bitmap_free(NULL);
}

/* No pointers inside: a copy elsewhere is the same bitmap. */
static void the_state_works_at_any_address(void **state)
{
	(void)state;
	struct pagehint_bitmap_opts opts = opts_of(UINT64_C(1) << 40, 3);
	uint64_t bytes, was = 0;
	assert_int_equal(pagehint_bitmap_size(&opts, &bytes), 0);
	uint64_t *raw[2] = { calloc(1, (size_t)bytes + 16), calloc(1, (size_t)bytes + 16) };
	void *mem[2];
	for (int i = 0; i < 2; i++)
		mem[i] = (unsigned char *)raw[i] + (16 - (uintptr_t)raw[i] % 16) % 16;
	struct pagehint_bitmap *b;
	assert_int_equal(pagehint_bitmap_init(mem[0], bytes, &opts, &b), 0);
	assert_int_equal(pagehint_bitmap_add(b, 5 * SECTION, 1), 0);
	assert_int_equal(pagehint_bitmap_set(b, 5 * SECTION + 60, 9, NULL), 0);
	memcpy(mem[1], mem[0], (size_t)bytes);
	memset(mem[0], 0xa5, (size_t)bytes);
	struct pagehint_bitmap *copy = mem[1];
	assert_int_equal(copy->magic, PH_BITMAP_MAGIC);
	assert_int_equal(copy->layout, PH_BITMAP_LAYOUT);
	assert_int_equal(copy->endian, PH_BITMAP_ENDIAN);
	assert_int_equal(copy->bytes, bytes);
	assert_int_equal(pagehint_bitmap_count(copy), 9);
	assert_int_equal(pagehint_bitmap_test(copy, 5 * SECTION + 60), 1);
	assert_int_equal(pagehint_bitmap_clear(copy, 5 * SECTION + 60, 9, &was), 0);
	assert_int_equal(was, 9);
	free(raw[0]);
	free(raw[1]);
}

static void bits_at_every_edge(void **state)
{
	(void)state;
	uint64_t span = 2 * SECTION + 70;
	struct pagehint_bitmap *b = make(span, 0);
	assert_int_equal(pagehint_bitmap_add(b, 0, span), 0);
	const uint64_t edges[] = { 0,
				   1,
				   63,
				   64,
				   127,
				   SECTION - 1,
				   SECTION,
				   SECTION + 1,
				   2 * SECTION - 1,
				   2 * SECTION,
				   2 * SECTION + 64,
				   span - 1 };
	for (size_t i = 0; i < sizeof(edges) / sizeof(*edges); i++) {
		uint64_t was = 9;
		assert_int_equal(pagehint_bitmap_test(b, edges[i]), 0);
		assert_int_equal(pagehint_bitmap_set(b, edges[i], 1, &was), 0);
		assert_int_equal(was, 0);
		assert_int_equal(pagehint_bitmap_set(b, edges[i], 1, &was), 0);
		assert_int_equal(was, 1);
		assert_int_equal(pagehint_bitmap_test(b, edges[i]), 1);
		assert_int_equal(pagehint_bitmap_count(b), i + 1);
	}
	uint64_t was = 0;
	assert_int_equal(pagehint_bitmap_clear(b, 0, span, &was), 0);
	assert_int_equal(was, sizeof(edges) / sizeof(*edges));
	assert_int_equal(pagehint_bitmap_count(b), 0);
	assert_int_equal(pagehint_bitmap_clear(b, 0, span, &was), 0);
	assert_int_equal(was, 0);
	pagehint_bitmap_free(b);
}

/* Every range of a small bitmap, over words and a section border, sets exactly its own bits. */
static void every_small_range(void **state)
{
	(void)state;
	struct pagehint_bitmap *b = make(2 * SECTION, 0);
	assert_int_equal(pagehint_bitmap_add(b, 0, 2 * SECTION), 0);
	uint64_t base = SECTION - 70, width = 140;
	for (uint64_t first = 0; first < width; first++)
		for (uint64_t n = 1; first + n <= width; n += n < 8 ? 1 : 7) {
			uint64_t was;
			assert_int_equal(pagehint_bitmap_set(b, base + first, n, &was), 0);
			assert_int_equal(was, 0);
			assert_int_equal(pagehint_bitmap_count(b), n);
			for (uint64_t bit = 0; bit < width; bit++)
				if (pagehint_bitmap_test(b, base + bit) != (bit >= first && bit < first + n))
					fail_msg("bit %d of [%d, +%d)", (int)bit, (int)first, (int)n);
			assert_int_equal(pagehint_bitmap_clear(b, base + first, n, &was), 0);
			assert_int_equal(was, n);
		}
	assert_int_equal(pagehint_bitmap_count(b), 0);
	pagehint_bitmap_free(b);
}

static void ranges_are_checked_and_failures_change_nothing(void **state)
{
	(void)state;
	uint64_t span = 4 * SECTION - 1, was = 42;
	struct pagehint_bitmap *b = make(span, 0);
	assert_int_equal(pagehint_bitmap_add(b, SECTION, 1), 0);
	const struct {
		uint64_t first, n;
		int rc;
	} cases[] = {
		{ SECTION, 0, -EINVAL },           { 0, 1, -ERANGE },
		{ SECTION - 1, 2, -ERANGE },       { 2 * SECTION - 1, 2, -ERANGE },
		{ SECTION, 2 * SECTION, -ERANGE }, { span, 1, -ERANGE },
		{ SECTION, UINT64_MAX, -ERANGE },  { SECTION + 1, UINT64_MAX - SECTION, -ERANGE },
		{ UINT64_MAX, 1, -ERANGE },
	};
	assert_int_equal(pagehint_bitmap_set(b, SECTION, SECTION, NULL), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		assert_int_equal(pagehint_bitmap_set(b, cases[i].first, cases[i].n, &was), cases[i].rc);
		assert_int_equal(pagehint_bitmap_clear(b, cases[i].first, cases[i].n, &was), cases[i].rc);
	}
	assert_int_equal(was, 42);
	assert_int_equal(pagehint_bitmap_count(b), SECTION);
	assert_int_equal(pagehint_bitmap_test(b, SECTION - 1), -ERANGE);
	assert_int_equal(pagehint_bitmap_test(b, span), -ERANGE);
	assert_int_equal(pagehint_bitmap_test(b, UINT64_MAX), -ERANGE);
	pagehint_bitmap_free(b);
}

static void sections_come_and_go(void **state)
{
	(void)state;
	struct pagehint_bitmap *b = make(UINT64_C(1) << 52, 3);
	uint64_t far = (UINT64_C(1) << 52) - SECTION;
	assert_int_equal(pagehint_bitmap_add(b, far, 0), -EINVAL);
	assert_int_equal(pagehint_bitmap_add(b, far, SECTION + 1), -ERANGE);
	assert_int_equal(pagehint_bitmap_add(b, UINT64_MAX, 2), -ERANGE);
	assert_int_equal(pagehint_bitmap_add(b, far + 100, 1), 0);
	assert_int_equal(pagehint_bitmap_add(b, far, 1), -EEXIST);
	assert_int_equal(pagehint_bitmap_add(b, far - SECTION, 2 * SECTION), -EEXIST);
	assert_int_equal(pagehint_bitmap_test(b, far - 1), -ERANGE); /* the failure added nothing */
	assert_int_equal(pagehint_bitmap_add(b, 0, 3 * SECTION), -ENOSPC);
	assert_int_equal(pagehint_bitmap_test(b, 0), -ERANGE);
	assert_int_equal(pagehint_bitmap_add(b, SECTION - 1, 2), 0); /* two sections are touched */
	assert_int_equal(pagehint_bitmap_add(b, 9 * SECTION, 1), -ENOSPC);

	assert_int_equal(pagehint_bitmap_set(b, 0, 2 * SECTION, NULL), 0);
	assert_int_equal(pagehint_bitmap_set(b, far, SECTION, NULL), 0);
	assert_int_equal(pagehint_bitmap_remove(b, 0, 0), -EINVAL);
	assert_int_equal(pagehint_bitmap_remove(b, SECTION, SECTION + 1), -ERANGE);
	assert_int_equal(pagehint_bitmap_remove(b, UINT64_C(1) << 52, 1), -ERANGE);
	assert_int_equal(pagehint_bitmap_count(b), 3 * SECTION);
	assert_int_equal(pagehint_bitmap_remove(b, SECTION + 5, 1), 0);
	assert_int_equal(pagehint_bitmap_count(b), 2 * SECTION);
	assert_int_equal(pagehint_bitmap_test(b, SECTION), -ERANGE);
	assert_int_equal(pagehint_bitmap_add(b, 77 * SECTION, 1), 0); /* in the slot that became free */
	assert_int_equal(pagehint_bitmap_test(b, 77 * SECTION), 0);   /* its old bits are forgotten */
	assert_int_equal(pagehint_bitmap_count(b), 2 * SECTION);
	pagehint_bitmap_free(b);
}

/* Hotplug for a long time, at places that never come again: the index must neither fill up nor lose a section. */
static void hotplug_goes_on_for_ever(void **state)
{
	(void)state;
	struct pagehint_bitmap *b = make(UINT64_C(1) << 50, 7);
	uint64_t live[7], x = 1;
	for (int i = 0; i < 7; i++) {
		live[i] = (uint64_t)i * 1000003;
		assert_int_equal(pagehint_bitmap_add(b, live[i] * SECTION, 1), 0);
		assert_int_equal(pagehint_bitmap_set(b, live[i] * SECTION + (uint64_t)i, 1, NULL), 0);
	}
	for (int round = 0; round < 20000; round++) {
		int i = round % 7;
		assert_int_equal(pagehint_bitmap_remove(b, live[i] * SECTION, 1), 0);
		x = x * UINT64_C(6364136223846793005) + 1442695040888963407u;
		live[i] = (x >> 30) | 1u << 27;
		assert_int_equal(pagehint_bitmap_add(b, live[i] * SECTION, 1), 0);
		assert_int_equal(pagehint_bitmap_set(b, live[i] * SECTION + (uint64_t)i, 1, NULL), 0);
		for (int j = 0; j < 7; j++)
			assert_int_equal(pagehint_bitmap_test(b, live[j] * SECTION + (uint64_t)j), 1);
		assert_int_equal(pagehint_bitmap_test(b, (live[i] + 1) * SECTION), -ERANGE);
		assert_int_equal(pagehint_bitmap_count(b), 7);
	}
	pagehint_bitmap_free(b);
}

static void next_section_walks_in_order(void **state)
{
	(void)state;
	for (uint32_t max = 0; max < 4; max += 3) { /* both kinds of index */
		struct pagehint_bitmap *b = make(10 * SECTION + 7, max);
		struct pagehint_run run = { 1, 2 };
		assert_int_equal(pagehint_bitmap_next_section(b, 0, &run), -ENOENT);
		assert_int_equal(run.frame, 1);
		assert_int_equal(pagehint_bitmap_add(b, 10 * SECTION, 1), 0);
		assert_int_equal(pagehint_bitmap_add(b, 2 * SECTION, 1), 0);
		assert_int_equal(pagehint_bitmap_add(b, 3 * SECTION, 1), 0);
		const uint64_t asks[] = { 0, 2 * SECTION, 3 * SECTION - 1, 3 * SECTION, 4 * SECTION, 10 * SECTION + 6 };
		const uint64_t found[] = { 2, 2, 2, 3, 10, 10 };
		for (size_t i = 0; i < sizeof(asks) / sizeof(*asks); i++) {
			assert_int_equal(pagehint_bitmap_next_section(b, asks[i], &run), 0);
			assert_int_equal(run.frame, found[i] * SECTION);
			assert_int_equal(run.frames, found[i] == 10 ? 7 : SECTION);
		}
		assert_int_equal(pagehint_bitmap_next_section(b, 10 * SECTION + 7, &run), -ENOENT);
		assert_int_equal(pagehint_bitmap_next_section(b, UINT64_MAX, &run), -ENOENT);
		pagehint_bitmap_free(b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options_are_checked),
		cmocka_unit_test(longer_options_need_a_zero_tail),
		cmocka_unit_test(every_span_has_a_size_and_cost_follows_max_sections),
		cmocka_unit_test(init_wants_aligned_room),
		cmocka_unit_test(too_much_memory_is_refused),
		cmocka_unit_test(the_state_works_at_any_address),
		cmocka_unit_test(bits_at_every_edge),
		cmocka_unit_test(every_small_range),
		cmocka_unit_test(ranges_are_checked_and_failures_change_nothing),
		cmocka_unit_test(sections_come_and_go),
		cmocka_unit_test(hotplug_goes_on_for_ever),
		cmocka_unit_test(next_section_walks_in_order),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
