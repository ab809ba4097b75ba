/*
 * The bitmap against a byte a bit, with random operations.
 *
 *     model-bitmap [SEED]     repeats a run; the seed is printed
 * PAGEHINT_TEST_ROUNDS_PCT scales the number of operations.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include <errno.h>
#include <pagehint/bitmap.h>

#include "support/rounds.h"

#define SECTION ((uint64_t)PAGEHINT_BITMAP_SECTION_BITS)
#define SECTIONS 6u
#define ABSENT 2 /* a byte of the oracle: 0 clear, 1 set */

static uint64_t seed;
static unsigned long rounds = 12000;

struct model {
	struct pagehint_bitmap *bitmap;
	uint64_t span;
	uint32_t max_sections;
	uint32_t present;
	uint64_t set;
	uint64_t random;
	unsigned char bits[SECTIONS * PAGEHINT_BITMAP_SECTION_BITS];
};

static uint64_t draw(struct model *m, uint64_t below)
{
	m->random ^= m->random << 13;
	m->random ^= m->random >> 7;
	m->random ^= m->random << 17;
	return (m->random >> 11) % below;
}

/* mostly short, sometimes long, near edges more often than chance */
static void draw_range(struct model *m, uint64_t *first, uint64_t *n)
{
	*first = draw(m, m->span + 2);
	if (draw(m, 3) == 0) {
		uint64_t edge = draw(m, 2) ? draw(m, SECTIONS + 1) * SECTION : draw(m, m->span / 64) * 64;
		*first = edge < 3 ? edge : edge - 3 + draw(m, 6);
	}
	*n = draw(m, 4) == 0 ? draw(m, 3 * SECTION) : draw(m, 200);
}

static int oracle_range(const struct model *m, uint64_t first, uint64_t n)
{
	if (n == 0)
		return -EINVAL;
	if (first >= m->span || n > m->span - first)
		return -ERANGE;
	for (uint64_t bit = first; bit < first + n; bit++)
		if (m->bits[bit] == ABSENT)
			return -ERANGE;
	return 0;
}

static void change(struct model *m, int to)
{
	uint64_t first, n, was = 0, got = 77;
	draw_range(m, &first, &n);
	int rc = oracle_range(m, first, n);
	if (rc == 0)
		for (uint64_t bit = first; bit < first + n; bit++) {
			was += m->bits[bit];
			m->bits[bit] = (unsigned char)to;
		}
	if (to)
		assert_int_equal(pagehint_bitmap_set(m->bitmap, first, n, &got), rc);
	else
		assert_int_equal(pagehint_bitmap_clear(m->bitmap, first, n, &got), rc);
	assert_int_equal(got, rc == 0 ? was : 77);
	if (rc == 0)
		m->set = to ? m->set + n - was : m->set - was;
}

static void plug(struct model *m, int in)
{
	uint64_t first = draw(m, m->span), n = 1 + draw(m, 2 * SECTION);
	uint64_t begin = first / SECTION, end = (first + n - 1) / SECTION + 1;
	int rc = first + n > m->span ? -ERANGE : 0;
	for (uint64_t s = begin; s < end && rc == 0; s++)
		if ((m->bits[s * SECTION] == ABSENT) != in)
			rc = in ? -EEXIST : -ERANGE;
	if (rc == 0 && in && m->present + (end - begin) > m->max_sections)
		rc = -ENOSPC;
	if (in)
		assert_int_equal(pagehint_bitmap_add(m->bitmap, first, n), rc);
	else
		assert_int_equal(pagehint_bitmap_remove(m->bitmap, first, n), rc);
	if (rc != 0)
		return;
	m->present = in ? m->present + (uint32_t)(end - begin) : m->present - (uint32_t)(end - begin);
	for (uint64_t bit = begin * SECTION; bit < end * SECTION && bit < m->span; bit++) {
		m->set -= m->bits[bit] == 1;
		m->bits[bit] = in ? 0 : ABSENT;
	}
}

static void find(struct model *m)
{
	uint64_t from, n;
	struct pagehint_run run = { 1, 1 };
	draw_range(m, &from, &n);
	uint64_t to = from + n, end = to < m->span ? to : m->span, first = from;
	while (first < end && m->bits[first] != 1)
		first++;
	uint64_t last = first;
	while (last < end && m->bits[last] == 1)
		last++;
	assert_int_equal(pagehint_bitmap_next_run(m->bitmap, from, to, &run), first < last ? 0 : -ENOENT);
	if (first < last) {
		assert_int_equal(run.frame, first);
		assert_int_equal(run.frames, last - first);
	}
}

/* the longest run that may be taken at `first` */
static uint64_t fits(const struct model *m, uint64_t first, uint64_t end, uint64_t most, uint64_t align)
{
	uint64_t n = 0;
	while (first + n < end && n < most && m->bits[first + n] == 1)
		n++;
	return n / align * align;
}

static void take(struct model *m)
{
	static const uint64_t aligns[] = { 1, 1, 2, 3, 16, 64, 512, 4096 };
	uint64_t from, n, align = aligns[draw(m, 8)];
	draw_range(m, &from, &n);
	uint64_t to = from + n, end = to < m->span ? to : m->span;
	uint64_t least = 1 + draw(m, draw(m, 2) ? 4 : 1000), most = least + draw(m, 2 * SECTION);
	uint64_t first = (from + align - 1) / align * align, got = 0;
	for (; first < end; first += align) {
		got = fits(m, first, end, most, align);
		if (got >= least && got != 0)
			break;
	}
	struct pagehint_run run = { 1, 1 };
	int rc = pagehint_bitmap_take_run(m->bitmap, from, to, least, most, draw(m, 2) && align == 1 ? 0 : align, &run);
	assert_int_equal(rc, first < end ? 0 : -ENOENT);
	if (rc != 0)
		return;
	assert_int_equal(run.frame, first);
	assert_int_equal(run.frames, got);
	memset(m->bits + first, 0, (size_t)got);
	m->set -= got;
}

static void check_all(struct model *m)
{
	static uint64_t out[SECTIONS * PAGEHINT_BITMAP_SECTION_BITS / 64];
	memset(out, 0xff, sizeof(out));
	assert_int_equal(pagehint_bitmap_export(m->bitmap, 0, m->span, out, sizeof(out) / sizeof(*out)), 0);
	const unsigned char *bytes = (const unsigned char *)out;
	for (uint64_t bit = 0; bit < m->span; bit++)
		if ((bytes[bit / 8] >> bit % 8 & 1) != (m->bits[bit] == 1))
			fail_msg("bit %llu differs", (unsigned long long)bit);
	for (int i = 0; i < 20; i++) {
		uint64_t bit = draw(m, m->span);
		assert_int_equal(pagehint_bitmap_test(m->bitmap, bit), m->bits[bit] == ABSENT ? -ERANGE : m->bits[bit]);
	}
}

static void play(uint64_t span, uint32_t max_sections)
{
	static struct model m;
	memset(&m, 0, sizeof(m));
	m.span = span;
	m.random = seed * 2 + 1;
	m.max_sections = max_sections;
	struct pagehint_bitmap_opts opts = { .struct_size = sizeof(opts), .span = span, .max_sections = max_sections };
	assert_int_equal(pagehint_bitmap_new(&opts, &m.bitmap), 0);
	memset(m.bits, ABSENT, sizeof(m.bits));
	for (unsigned long i = 0; i < rounds; i++) {
		switch (draw(&m, 20)) {
		case 0:
			plug(&m, 1);
			break;
		case 1:
			if (draw(&m, 4) == 0)
				plug(&m, 0);
			break;
		case 2:
		case 3:
		case 4:
		case 5:
			find(&m);
			break;
		case 6:
		case 7:
		case 8:
		case 9:
			take(&m);
			break;
		case 10:
		case 11:
		case 12:
			change(&m, 0);
			break;
		default:
			change(&m, 1);
		}
		assert_int_equal(pagehint_bitmap_count(m.bitmap), m.set);
		if (i % 200 == 0)
			check_all(&m);
	}
	check_all(&m);
	pagehint_bitmap_free(m.bitmap);
}

static void random_operations_every_section_has_room(void **state)
{
	(void)state;
	play(SECTIONS * SECTION - 37, SECTIONS);
}

static void random_operations_with_room_for_few_sections(void **state)
{
	(void)state;
	play(SECTIONS * SECTION - 1, 2);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_operations_every_section_has_room),
		cmocka_unit_test(random_operations_with_room_for_few_sections),
	};
	rounds = rounds_scaled(rounds);
	seed = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)time(NULL);
	printf("seed %llu\n", (unsigned long long)seed);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
