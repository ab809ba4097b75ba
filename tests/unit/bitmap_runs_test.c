/*
 * Runs of the bitmap: next_run, take_run, export.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <pagehint/bitmap.h>

#define SECTION ((uint64_t)PAGEHINT_BITMAP_SECTION_BITS)

static struct pagehint_bitmap *make(uint64_t span, uint32_t max_sections)
{
	struct pagehint_bitmap_opts opts = { .struct_size = sizeof(opts), .span = span, .max_sections = max_sections };
	struct pagehint_bitmap *b = NULL;
	assert_int_equal(pagehint_bitmap_new(&opts, &b), 0);
	return b;
}

static struct pagehint_bitmap *make_present(uint64_t span)
{
	struct pagehint_bitmap *b = make(span, 0);
	assert_int_equal(pagehint_bitmap_add(b, 0, span), 0);
	return b;
}

static void set(struct pagehint_bitmap *b, uint64_t first, uint64_t n)
{
	assert_int_equal(pagehint_bitmap_set(b, first, n, NULL), 0);
}

static void expect_run(const struct pagehint_bitmap *b, uint64_t from, uint64_t to, uint64_t frame, uint64_t frames)
{
	struct pagehint_run run = { 0, 0 };
	assert_int_equal(pagehint_bitmap_next_run(b, from, to, &run), 0);
	assert_int_equal(run.frame, frame);
	assert_int_equal(run.frames, frames);
}

static void next_run_finds_maximal_runs(void **state)
{
	(void)state;
	struct pagehint_bitmap *b = make(UINT64_C(1) << 45, 4);
	struct pagehint_run run = { 3, 4 };
	uint64_t far = UINT64_C(1) << 44;
	assert_int_equal(pagehint_bitmap_next_run(b, 0, UINT64_MAX, &run), -ENOENT); /* nothing is present */
	assert_int_equal(pagehint_bitmap_next_run(b, 5, 4, &run), -EINVAL);
	assert_int_equal(pagehint_bitmap_next_run(b, 4, 4, &run), -ENOENT);
	assert_int_equal(pagehint_bitmap_add(b, SECTION, 2 * SECTION), 0);
	assert_int_equal(pagehint_bitmap_add(b, far, 1), 0);
	assert_int_equal(pagehint_bitmap_next_run(b, 0, UINT64_MAX, &run), -ENOENT);
	assert_int_equal(run.frame, 3);
	set(b, SECTION, 1);
	set(b, SECTION + 62, 4);
	set(b, 2 * SECTION - 100, 200); /* over the border of two sections */
	set(b, 3 * SECTION - 1, 1);     /* the last before a hole */
	set(b, far, SECTION);           /* a whole section between holes */
	expect_run(b, 0, UINT64_MAX, SECTION, 1);
	expect_run(b, SECTION + 1, UINT64_MAX, SECTION + 62, 4);
	expect_run(b, SECTION + 63, UINT64_MAX, SECTION + 63, 3);
	expect_run(b, SECTION + 63, SECTION + 65, SECTION + 63, 2);
	expect_run(b, SECTION + 70, UINT64_MAX, 2 * SECTION - 100, 200);
	expect_run(b, SECTION + 70, 2 * SECTION, 2 * SECTION - 100, 100);
	expect_run(b, 2 * SECTION + 100, UINT64_MAX, 3 * SECTION - 1, 1);
	expect_run(b, 3 * SECTION, UINT64_MAX, far, SECTION);
	assert_int_equal(pagehint_bitmap_next_run(b, 3 * SECTION, far, &run), -ENOENT);
	assert_int_equal(pagehint_bitmap_next_run(b, far + SECTION, UINT64_MAX, &run), -ENOENT);
	assert_int_equal(pagehint_bitmap_next_run(b, UINT64_MAX, UINT64_MAX, &run), -ENOENT);
	pagehint_bitmap_free(b);
}

static void take_run_checks_its_arguments(void **state)
{
	(void)state;
	struct pagehint_bitmap *b = make_present(SECTION + 10);
	set(b, 0, SECTION + 10);
	struct pagehint_run run = { 3, 4 };
	assert_int_equal(pagehint_bitmap_take_run(b, 0, 10, 0, 5, 0, &run), -EINVAL);
	assert_int_equal(pagehint_bitmap_take_run(b, 0, 10, 5, 4, 0, &run), -EINVAL);
	assert_int_equal(pagehint_bitmap_take_run(b, 11, 10, 1, 4, 0, &run), -EINVAL);
	assert_int_equal(pagehint_bitmap_take_run(b, 0, 10, 11, 20, 0, &run), -ENOENT);
	assert_int_equal(pagehint_bitmap_take_run(b, 0, 0, 1, 1, 0, &run), -ENOENT);
	assert_int_equal(pagehint_bitmap_take_run(b, 0, UINT64_MAX, UINT64_MAX, UINT64_MAX, 1, &run), -ENOENT);
	assert_int_equal(pagehint_bitmap_take_run(b, 0, UINT64_MAX, 1, UINT64_MAX, UINT64_MAX, &run), -ENOENT);
	assert_int_equal(pagehint_bitmap_take_run(b, 0, UINT64_MAX, 1, 7, 8, &run), -ENOENT); /* 8 is more than most */
	assert_int_equal(pagehint_bitmap_take_run(b, SECTION + 10, UINT64_MAX, 1, 1, 1, &run), -ENOENT);
	assert_int_equal(pagehint_bitmap_take_run(b, SECTION, UINT64_MAX, 1, 64, 16, &run),
			 -ENOENT); /* ends at the span */
	assert_int_equal(run.frame, 3);
	assert_int_equal(run.frames, 4);
	assert_int_equal(pagehint_bitmap_count(b), SECTION + 10);
	pagehint_bitmap_free(b);
}

static void take_run_takes_over_words_and_sections(void **state)
{
	(void)state;
	struct pagehint_bitmap *b = make_present(3 * SECTION);
	struct pagehint_run run;
	set(b, 100, 2 * SECTION);
	assert_int_equal(pagehint_bitmap_take_run(b, 0, 3 * SECTION, SECTION + 1, UINT64_MAX, 0, &run), 0);
	assert_int_equal(run.frame, 100);
	assert_int_equal(run.frames, 2 * SECTION);
	assert_int_equal(pagehint_bitmap_count(b), 0);
	assert_int_equal(pagehint_bitmap_next_run(b, 0, 3 * SECTION, &run), -ENOENT);

	set(b, 100, 2 * SECTION);
	assert_int_equal(pagehint_bitmap_take_run(b, 0, 3 * SECTION, 512, 1024, 512, &run), 0);
	assert_int_equal(run.frame, 512);
	assert_int_equal(run.frames, 1024);
	assert_int_equal(pagehint_bitmap_take_run(b, 0, 3 * SECTION, 512, UINT64_MAX, 512, &run), 0);
	assert_int_equal(run.frame, 1536);
	assert_int_equal(run.frames, 2 * SECTION - 1536); /* the tail is no multiple of 512 */
	assert_int_equal(pagehint_bitmap_count(b), 412 + 100);
	assert_int_equal(pagehint_bitmap_take_run(b, 0, 3 * SECTION, 512, UINT64_MAX, 512, &run), -ENOENT);
	assert_int_equal(pagehint_bitmap_count(b), 412 + 100);
	pagehint_bitmap_free(b);
}

static void take_run_passes_over_what_is_absent_or_too_short(void **state)
{
	(void)state;
	struct pagehint_bitmap *b = make(UINT64_C(1) << 40, 3);
	struct pagehint_run run;
	uint64_t far = UINT64_C(1) << 39;
	assert_int_equal(pagehint_bitmap_add(b, SECTION, SECTION), 0);
	assert_int_equal(pagehint_bitmap_add(b, far, SECTION), 0);
	set(b, 2 * SECTION - 30, 30);
	set(b, far, 64);
	assert_int_equal(pagehint_bitmap_take_run(b, 0, UINT64_MAX, 31, 40, 0, &run), 0);
	assert_int_equal(run.frame, far);
	assert_int_equal(run.frames, 40);
	assert_int_equal(pagehint_bitmap_take_run(b, 0, UINT64_MAX, 30, 30, 0, &run), 0);
	assert_int_equal(run.frame, 2 * SECTION - 30);
	assert_int_equal(pagehint_bitmap_count(b), 24);
	pagehint_bitmap_free(b);
}

/* What a taker that is alone must find in a pattern of 16 bits, the slow and simple way. */
static int oracle_take(uint32_t pattern, unsigned from, unsigned to, unsigned least, unsigned most, unsigned align,
		       struct pagehint_run *ret_run)
{
	least = (least + align - 1) / align * align;
	for (unsigned first = (from + align - 1) / align * align; first < to; first += align) {
		unsigned n = 0;
		while (first + n < to && n < most && (pattern >> (first + n) & 1))
			n++;
		n = n / align * align;
		if (n == 0 || n < least)
			continue;
		ret_run->frame = first;
		ret_run->frames = n;
		return 0;
	}
	return -ENOENT;
}

static void check_pattern(struct pagehint_bitmap *b, uint64_t base, uint32_t pattern, unsigned align)
{
	for (unsigned i = 0; i < 12; i++)
		if (pattern >> i & 1)
			set(b, base + i, 1);
	struct pagehint_run want = { 0, 0 }, got = { 0, 0 };
	for (unsigned least = 1; least <= 5; least += 2)
		for (unsigned most = least; most <= 9; most += 4) {
			int rc = oracle_take(pattern, 1, 12, least, most, align, &want);
			assert_int_equal(pagehint_bitmap_take_run(b, base + 1, base + 12, least, most, align, &got),
					 rc);
			if (rc != 0)
				continue;
			assert_int_equal(got.frame, base + want.frame);
			assert_int_equal(got.frames, want.frames);
			for (uint64_t i = 0; i < got.frames; i++)
				assert_int_equal(pagehint_bitmap_test(b, got.frame + i), 0);
			set(b, got.frame, got.frames);
		}
	uint64_t was;
	assert_int_equal(pagehint_bitmap_clear(b, base, 12, &was), 0);
	assert_int_equal(was, (uint64_t)__builtin_popcount(pattern));
}

/* Every pattern of 12 bits, inside a word, over two words, over two sections. */
static void take_run_is_right_for_every_small_pattern(void **state)
{
	(void)state;
	struct pagehint_bitmap *b = make_present(2 * SECTION);
	const uint64_t bases[] = { 0, 56, SECTION - 4 }; /* multiples of 4: the oracle counts from there */
	for (uint32_t pattern = 0; pattern < 1u << 12; pattern++)
		for (size_t i = 0; i < sizeof(bases) / sizeof(*bases); i++)
			for (unsigned align = 1; align <= 4; align *= 2)
				check_pattern(b, bases[i], pattern, align);
	assert_int_equal(pagehint_bitmap_count(b), 0);
	pagehint_bitmap_free(b);
}

static void take_run_aligns_to_what_is_no_power_of_two(void **state)
{
	(void)state;
	struct pagehint_bitmap *b = make_present(SECTION);
	struct pagehint_run run;
	set(b, 7, 93);
	assert_int_equal(pagehint_bitmap_take_run(b, 0, SECTION, 1, UINT64_MAX, 6, &run), 0);
	assert_int_equal(run.frame, 12);
	assert_int_equal(run.frames, 84);
	pagehint_bitmap_free(b);
}

static void export_is_flat_and_little_endian(void **state)
{
	(void)state;
	struct pagehint_bitmap *b = make(6 * SECTION, 2);
	assert_int_equal(pagehint_bitmap_add(b, SECTION, SECTION), 0);
	set(b, SECTION, 1);
	set(b, SECTION + 9, 1);
	set(b, SECTION + 60, 10);
	set(b, SECTION + 127, 2);
	uint64_t out[4];
	memset(out, 0xff, sizeof(out));
	assert_int_equal(pagehint_bitmap_export(b, SECTION, 130, out, 3), 0);
	static const unsigned char want[32] = { 0x01, 0x02, 0,    0,    0,    0,    0,    0xf0, 0x3f, 0,   0,
						0,    0,    0,    0,    0x80, 0x01, 0,    0,    0,    0,   0,
						0,    0,    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
	assert_memory_equal(out, want, sizeof(want)); /* the fourth word was not ours to write */

	memset(out, 0xff, sizeof(out));
	assert_int_equal(pagehint_bitmap_export(b, SECTION - 64, 128 + 61, out, 4), 0); /* the hole before it reads 0 */
	static const unsigned char shifted[32] = { 0, 0, 0,    0,    0,    0,    0,    0,    0x01, 0x02, 0,
						   0, 0, 0,    0,    0xf0, 0x3f, 0,    0,    0,    0,    0,
						   0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
	assert_memory_equal(out, shifted, sizeof(shifted)); /* bit 127 lies beyond n */

	memset(out, 0xff, sizeof(out));
	assert_int_equal(pagehint_bitmap_export(b, 4 * SECTION, 65, out, 2), 0); /* absent */
	assert_int_equal(out[0] | out[1], 0);
	assert_true(out[2] == UINT64_MAX);
	pagehint_bitmap_free(b);
}

static void export_checks_its_arguments(void **state)
{
	(void)state;
	struct pagehint_bitmap *b = make_present(SECTION + 3);
	uint64_t out[2] = { 5, 6 };
	assert_int_equal(pagehint_bitmap_export(b, 1, 64, out, 2), -EINVAL);
	assert_int_equal(pagehint_bitmap_export(b, 0, 129, out, 2), -EINVAL);
	assert_int_equal(pagehint_bitmap_export(b, 0, UINT64_MAX, out, 2), -EINVAL);
	assert_int_equal(pagehint_bitmap_export(b, SECTION, 4, out, 2), -ERANGE);
	assert_int_equal(pagehint_bitmap_export(b, 2 * SECTION, 1, out, 2), -ERANGE);
	assert_int_equal(pagehint_bitmap_export(b, SECTION, 0, out, 0), 0);
	assert_int_equal(out[0], 5);
	assert_int_equal(out[1], 6);
	set(b, SECTION, 3);
	assert_int_equal(pagehint_bitmap_export(b, SECTION, 3, out, 1), 0);
	assert_int_equal(*(unsigned char *)out, 7);
	assert_int_equal(out[1], 6);
	pagehint_bitmap_free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(next_run_finds_maximal_runs),
		cmocka_unit_test(take_run_checks_its_arguments),
		cmocka_unit_test(take_run_takes_over_words_and_sections),
		cmocka_unit_test(take_run_passes_over_what_is_absent_or_too_short),
		cmocka_unit_test(take_run_is_right_for_every_small_pattern),
		cmocka_unit_test(take_run_aligns_to_what_is_no_power_of_two),
		cmocka_unit_test(export_is_flat_and_little_endian),
		cmocka_unit_test(export_checks_its_arguments),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
