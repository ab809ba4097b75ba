/*
 * One suite over every backend and every backing: memory leaves the host, reads as zero, and nothing else changes.
 *
 * The host's side of each figure is taken past the library. Where the kind of memory has pages of a file behind it, "reads
 * as zero" is the point: the file's bytes must not come back.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "support/backing.h"

#include <cmocka.h>

static uint64_t frames_of(const struct subject *s, uint64_t units)
{
	return units * s->unit >> 12;
}

static struct pagehint_run units(const struct subject *s, uint64_t first, uint64_t n)
{
	return (struct pagehint_run) { FIRST_FRAME + frames_of(s, first), frames_of(s, n) };
}

static void fill(struct subject *s, uint64_t first, uint64_t n)
{
	memset(s->memory + first * s->unit, USED, (size_t)(n * s->unit));
}

static int all(const unsigned char *p, uint64_t bytes, unsigned char value)
{
	return bytes == 0 || (p[0] == value && memcmp(p, p + 1, (size_t)bytes - 1) == 0);
}

static int unit_is(const struct subject *s, uint64_t unit, unsigned char value)
{
	return all(s->memory + unit * s->unit, s->unit, value);
}

static void assert_adds_up(const struct pagehint_outcome *o, uint64_t asked)
{
	assert_int_equal(o->asked, asked);
	assert_int_equal(o->freed + o->absent + o->accepted + o->kept + o->lazy + o->failed, asked);
}

static int is_private(const struct subject *s)
{
	return s->kind == FILE_PRIVATE || s->kind == MEMFD_PRIVATE;
}

#define OPEN(s)                     \
	struct subject *s = *state; \
	if (!subject_open(s))       \
	return

static void test_memory_leaves_the_host(void **state)
{
	OPEN(s);
	fill(s, 0, UNITS);
	const uint64_t before = host_holds(s);
	assert_true(before >= UNITS * s->unit);
	if (s->kind == THP && proc_value("/proc/self/smaps_rollup", "AnonHugePages") <= 0)
		printf("not applicable: %s: no huge page could be made, so small ones are tested\n", s->name);
	/* unsorted, and two of them adjacent */
	const struct pagehint_run runs[] = { units(s, 5, 1), units(s, 2, 1), units(s, 1, 1) };
	const int64_t huge_free = proc_value("/proc/meminfo", "HugePages_Free");
	struct pagehint_outcome out[3], sum;
	uint32_t done = 0;
	assert_int_equal(pagehint_backend_discard(s->backend, runs, 3, 0, out, &sum, &done), 0);
	assert_int_equal(done, 3);
	for (unsigned i = 0; i < 3; i++)
		assert_adds_up(&out[i], s->unit);
	assert_int_equal(sum.accepted, 3 * s->unit);
	const uint64_t gone = s->kind == NOTHING ? 0 : 3 * s->unit;
	assert_int_equal(host_holds(s), before - gone);
	if (s->kind == HUGETLB)
		assert_int_equal(proc_value("/proc/meminfo", "HugePages_Free"), huge_free + 3);
	for (uint64_t i = 0; i < UNITS; i++) {
		int went = s->kind != NOTHING && (i == 1 || i == 2 || i == 5);
		assert_true(unit_is(s, i, went ? 0 : USED));
	}
	subject_close(s);
}

static void test_probe_tells_freed_from_absent(void **state)
{
	OPEN(s);
	if (s->kind != NOTHING && s->kind != LOCKED) { /* locked memory is present from the start */
		fill(s, 0, 4);
		const uint64_t before = host_holds(s);
		const struct pagehint_run runs[] = { units(s, 2, 2), units(s, 6, 1) };
		struct pagehint_outcome out[2], sum;
		assert_int_equal(pagehint_backend_discard(s->backend, runs, 2, PAGEHINT_DISCARD_PROBE, out, &sum, NULL),
				 0);
		assert_adds_up(&out[0], 2 * s->unit);
		assert_adds_up(&out[1], s->unit);
		assert_int_equal(sum.freed, 2 * s->unit);
		assert_int_equal(sum.absent, s->unit);
		assert_int_equal(before - host_holds(s), sum.freed);
		/* and once more: there is nothing left to free */
		assert_int_equal(pagehint_backend_discard(s->backend, runs, 2, PAGEHINT_DISCARD_PROBE, out, &sum, NULL),
				 0);
		assert_int_equal(sum.absent, 3 * s->unit);
		assert_true(unit_is(s, 6, is_private(s) ? IN_FILE : 0));
	}
	subject_close(s);
}

/* What was never written to is the page cache's: not freed, not made anonymous, unless zeroes are demanded. */
static void test_clean_pages_of_a_file(void **state)
{
	OPEN(s);
	if (is_private(s)) {
		const struct pagehint_run run = units(s, 3, 1);
		struct pagehint_outcome out;
		assert_true(unit_is(s, 3, IN_FILE));
		assert_int_equal(host_holds(s), 0);
		assert_int_equal(
			pagehint_backend_discard(s->backend, &run, 1, PAGEHINT_DISCARD_PROBE, &out, NULL, NULL), 0);
		assert_int_equal(out.kept, s->unit);
		assert_int_equal(out.kept_why, PAGEHINT_WHY_PAGE_CACHE);
		assert_int_equal(host_holds(s), 0);
		assert_true(unit_is(s, 3, IN_FILE));
		assert_int_equal(pagehint_backend_discard(s->backend, &run, 1,
							  PAGEHINT_DISCARD_PROBE | PAGEHINT_DISCARD_ZERO, &out, NULL,
							  NULL),
				 0);
		assert_adds_up(&out, s->unit);
		assert_true(unit_is(s, 3, 0));
		assert_true(unit_is(s, 2, IN_FILE) && unit_is(s, 4, IN_FILE));
		/* replaced once, freed by the cheap call from now on */
		struct pagehint_madvise_stats stats = { .struct_size = sizeof(stats) };
		assert_int_equal(pagehint_madvise_stats(s->backend, &stats), 0);
		assert_int_equal(stats.mappings_used, 1);
		fill(s, 3, 1);
		assert_int_equal(host_holds(s), s->unit);
		assert_int_equal(pagehint_backend_discard(s->backend, &run, 1, 0, &out, NULL, NULL), 0);
		assert_int_equal(host_holds(s), 0);
		assert_true(unit_is(s, 3, 0));
		assert_int_equal(pagehint_madvise_stats(s->backend, &stats), 0);
		assert_int_equal(stats.remap, 1);
	}
	subject_close(s);
}

static void test_the_kept_remainder_stays(void **state)
{
	OPEN(s);
	uint64_t frames = 0, least = 0;
	assert_int_equal(pagehint_backend_extent(s->backend, FIRST_FRAME, &frames, &least), 0);
	if (s->kind != NOTHING && least > 4096) {
		const struct pagehint_run run = { FIRST_FRAME + frames_of(s, 1) + 1, frames_of(s, 3) - 2 };
		struct pagehint_outcome out;
		fill(s, 0, UNITS);
		const uint64_t before = host_holds(s), kept = 2 * (least - 4096);
		assert_int_equal(
			pagehint_backend_discard(s->backend, &run, 1, PAGEHINT_DISCARD_PROBE, &out, NULL, NULL), 0);
		assert_adds_up(&out, run.frames << 12);
		assert_int_equal(out.kept, kept);
		assert_int_equal(out.kept_why, PAGEHINT_WHY_ALIGNMENT);
		assert_int_equal(before - host_holds(s), out.freed);
		const unsigned char *unit = s->memory + s->unit;
		assert_true(all(unit, least, USED) && all(unit + 3 * s->unit - least, least, USED));
		assert_true(all(unit + least, 3 * s->unit - 2 * least, 0));
		/* a run with no whole page in it, in the middle of one */
		const struct pagehint_run inner = { FIRST_FRAME + 1, 2 };
		assert_int_equal(pagehint_backend_discard(s->backend, &inner, 1, 0, &out, NULL, NULL), 0);
		assert_int_equal(out.kept, 2 << 12);
		assert_true(unit_is(s, 0, USED));
		/* zeroes demanded: the same, but it reads as zero, and not a byte more */
		assert_int_equal(
			pagehint_backend_discard(s->backend, &inner, 1, PAGEHINT_DISCARD_ZERO, &out, NULL, NULL), 0);
		assert_int_equal(out.kept_why, PAGEHINT_WHY_ZEROED);
		assert_true(all(s->memory, 4096, USED) && all(s->memory + 4096, 8192, 0) &&
			    all(s->memory + 12288, s->unit - 12288, USED));
	}
	subject_close(s);
}

static void test_bad_ranges_change_nothing(void **state)
{
	OPEN(s);
	const uint64_t frames = frames_of(s, UNITS), end = FIRST_FRAME + frames;
	const struct pagehint_run bad[] = { { FIRST_FRAME - 1, 2 },
					    { FIRST_FRAME - 1, frames + 2 },
					    { end - 1, 2 },
					    { end, 1 },
					    { 0, 1 },
					    { FIRST_FRAME, UINT64_C(1) << 40 } };
	if (s->kind != NOTHING) { /* which knows no regions */
		struct pagehint_madvise_stats stats = { .struct_size = sizeof(stats) };
		struct pagehint_outcome out;
		fill(s, 0, UNITS);
		const uint64_t before = host_holds(s);
		for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
			assert_int_equal(pagehint_backend_discard(s->backend, &bad[i], 1, 3, &out, NULL, NULL),
					 -ERANGE);
			assert_adds_up(&out, bad[i].frames << 12);
			assert_int_equal(out.failed_why, PAGEHINT_WHY_NO_REGION);
			assert_int_equal(pagehint_backend_populate(s->backend, &bad[i], 1, NULL), -ERANGE);
			assert_int_equal(pagehint_madvise_resident(s->backend, &bad[i], &out.freed), -ERANGE);
		}
		assert_int_equal(pagehint_madvise_stats(s->backend, &stats), 0);
		assert_int_equal(stats.madvise + stats.process_madvise + stats.punch + stats.remap + stats.probe +
					 stats.populate,
				 0);
		assert_int_equal(host_holds(s), before);
		assert_true(all(s->memory, UNITS * s->unit, USED));
		/* a bad neighbour does not take a good run with it */
		const struct pagehint_run runs[] = { { end, 1 }, units(s, UNITS - 1, 1) };
		struct pagehint_outcome two[2];
		assert_int_equal(pagehint_backend_discard(s->backend, runs, 2, 0, two, NULL, NULL), -ERANGE);
		assert_int_equal(two[0].failed, 4096);
		assert_int_equal(two[1].accepted, s->unit);
		assert_int_equal(host_holds(s), before - s->unit);
	}
	subject_close(s);
}

static void test_populate_brings_it_back(void **state)
{
	OPEN(s);
	if (s->kind != NOTHING) {
		const struct pagehint_run run = units(s, 2, 2);
		uint64_t bytes = 1;
		uint32_t done = 0;
		fill(s, 0, UNITS);
		const uint64_t before = host_holds(s);
		assert_int_equal(pagehint_backend_discard(s->backend, &run, 1, 0, NULL, NULL, NULL), 0);
		assert_int_equal(pagehint_madvise_resident(s->backend, &run, &bytes), 0);
		assert_int_equal(bytes, 0);
		assert_int_equal(pagehint_backend_populate(s->backend, &run, 1, &done), 0);
		assert_int_equal(done, 1);
		assert_int_equal(host_holds(s), before);
		assert_int_equal(pagehint_madvise_resident(s->backend, &run, &bytes), 0);
		assert_int_equal(bytes, 2 * s->unit);
		assert_true(unit_is(s, 1, USED) && unit_is(s, 2, 0) && unit_is(s, 3, 0) && unit_is(s, 4, USED));
		/* populating what is there keeps its content */
		const struct pagehint_run used = units(s, 4, 2);
		assert_int_equal(pagehint_backend_populate(s->backend, &used, 1, &done), 0);
		assert_true(unit_is(s, 4, USED) && unit_is(s, 5, USED));
	}
	subject_close(s);
}

static void test_pinned_regions_are_left_alone(void **state)
{
	OPEN(s);
	if (s->kind != NOTHING) {
		const struct pagehint_run run = units(s, 2, 2);
		struct pagehint_outcome out;
		uint64_t in_flight = 9;
		fill(s, 0, UNITS);
		const uint64_t before = host_holds(s);
		assert_int_equal(pagehint_map_pin(s->map, s->id, &in_flight), 0);
		assert_int_equal(in_flight, 0);
		assert_int_equal(pagehint_backend_discard(s->backend, &run, 1, PAGEHINT_DISCARD_ZERO, &out, NULL, NULL),
				 0);
		assert_int_equal(out.kept_why, PAGEHINT_WHY_PINNED);
		assert_int_equal(host_holds(s), before);
		assert_true(all(s->memory, UNITS * s->unit, USED));
		assert_int_equal(pagehint_backend_populate(s->backend, &run, 1, NULL), 0);
		assert_int_equal(pagehint_map_unpin(s->map, s->id), 0);
		assert_int_equal(pagehint_backend_discard(s->backend, &run, 1, 0, &out, NULL, NULL), 0);
		assert_int_equal(before - host_holds(s), 2 * s->unit);
	}
	subject_close(s);
}

/* The right call on less than a huge page: it succeeds, zeroes the bytes, and the huge page stays. */
static void punch_a_piece(struct subject *s)
{
	const uint64_t before = host_holds(s), at = 2 * s->unit + 4096;
	const int64_t huge_free = proc_value("/proc/meminfo", "HugePages_Free");
	assert_int_equal(fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at, 4096), 0);
	assert_int_equal(host_holds(s), before);
	assert_int_equal(proc_value("/proc/meminfo", "HugePages_Free"), huge_free);
	assert_true(all(s->memory, at, USED) && all(s->memory + at, 4096, 0) &&
		    all(s->memory + at + 4096, UNITS * s->unit - at - 4096, USED));
}

/* Why all this is needed: what everybody calls instead. */
static void test_naive_call_as_control(void **state)
{
	OPEN(s);
	fill(s, 0, UNITS);
	const uint64_t before = host_holds(s);
	if (s->kind == SHARED || s->kind == SHARED_ANON || s->kind == HUGETLB) {
		assert_int_equal(madvise(s->memory + s->unit, (size_t)s->unit, MADV_DONTNEED), 0);
		if (s->kind != SHARED_ANON || before != 0)
			assert_int_equal(host_holds(s), before);
		assert_true(all(s->memory, UNITS * s->unit, USED));
		if (s->kind == HUGETLB)
			punch_a_piece(s);
	} else if (is_private(s)) {
		assert_int_equal(madvise(s->memory + s->unit, (size_t)s->unit, MADV_DONTNEED), 0);
		assert_true(unit_is(s, 1, IN_FILE)); /* the file's bytes come back */
	}
	subject_close(s);
}

static struct subject subjects[] = {
	{ .name = "null", .kind = NOTHING, .expected = PAGEHINT_BACKING_ANON },
	{ .name = "anon", .kind = ANON, .expected = PAGEHINT_BACKING_ANON },
	{ .name = "anon, 16K pages", .kind = ANON, .host_page_shift = 14, .expected = PAGEHINT_BACKING_ANON },
	{ .name = "anon, 64K pages", .kind = ANON, .host_page_shift = 16, .expected = PAGEHINT_BACKING_ANON },
	{ .name = "anon, locked", .kind = LOCKED, .expected = PAGEHINT_BACKING_ANON },
	{ .name = "anon, locked, 16K pages", .kind = LOCKED, .host_page_shift = 14, .expected = PAGEHINT_BACKING_ANON },
	{ .name = "anon, transparent huge pages", .kind = THP, .expected = PAGEHINT_BACKING_ANON },
	{ .name = "shared memfd", .kind = SHARED, .expected = PAGEHINT_BACKING_SHARED },
	{ .name = "shared memfd, 16K pages",
	  .kind = SHARED,
	  .host_page_shift = 14,
	  .expected = PAGEHINT_BACKING_SHARED },
	{ .name = "shared memfd, 64K pages",
	  .kind = SHARED,
	  .host_page_shift = 16,
	  .expected = PAGEHINT_BACKING_SHARED },
	{ .name = "shared anonymous", .kind = SHARED_ANON, .expected = PAGEHINT_BACKING_SHARED },
	{ .name = "shared anonymous, 64K pages",
	  .kind = SHARED_ANON,
	  .host_page_shift = 16,
	  .expected = PAGEHINT_BACKING_SHARED },
	{ .name = "hugetlb", .kind = HUGETLB, .expected = PAGEHINT_BACKING_HUGETLB },
	{ .name = "private file", .kind = FILE_PRIVATE, .expected = PAGEHINT_BACKING_FILE_PRIVATE },
	{ .name = "private file, 16K pages",
	  .kind = FILE_PRIVATE,
	  .host_page_shift = 14,
	  .expected = PAGEHINT_BACKING_FILE_PRIVATE },
	{ .name = "private file, 64K pages",
	  .kind = FILE_PRIVATE,
	  .host_page_shift = 16,
	  .expected = PAGEHINT_BACKING_FILE_PRIVATE },
	{ .name = "private memfd", .kind = MEMFD_PRIVATE, .expected = PAGEHINT_BACKING_FILE_PRIVATE },
	{ .name = "private memfd, 64K pages",
	  .kind = MEMFD_PRIVATE,
	  .host_page_shift = 16,
	  .expected = PAGEHINT_BACKING_FILE_PRIVATE },
};

static const struct {
	const char *what;
	CMUnitTestFunction run;
} suite[] = {
	{ "memory leaves the host", test_memory_leaves_the_host },
	{ "probe tells freed from absent", test_probe_tells_freed_from_absent },
	{ "clean pages of a file", test_clean_pages_of_a_file },
	{ "the kept remainder stays", test_the_kept_remainder_stays },
	{ "bad ranges change nothing", test_bad_ranges_change_nothing },
	{ "populate brings it back", test_populate_brings_it_back },
	{ "pinned regions are left alone", test_pinned_regions_are_left_alone },
	{ "the naive call, as a control", test_naive_call_as_control },
};

#define SUBJECTS (sizeof(subjects) / sizeof(subjects[0]))
#define SUITE (sizeof(suite) / sizeof(suite[0]))

int main(void)
{
	static struct CMUnitTest tests[SUBJECTS * SUITE];
	static char names[SUBJECTS * SUITE][96];
	size_t n = 0;
	for (size_t i = 0; i < SUBJECTS; i++)
		for (size_t j = 0; j < SUITE; j++, n++) {
			snprintf(names[n], sizeof(names[n]), "%s: %s", subjects[i].name, suite[j].what);
			tests[n] = (struct CMUnitTest) { .name = names[n],
							 .test_func = suite[j].run,
							 .teardown_func = subject_cleanup,
							 .initial_state = &subjects[i] };
		}
	return _cmocka_run_group_tests("conformance", tests, n, NULL, NULL);
}
