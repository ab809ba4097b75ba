/* Sorting, merging and dealing out against a slow and simple account of every frame; outcomes by class. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "discard/merge.h"

#define FRAMES 600u
#define RUNS 300u

static uint32_t seed = 12345;

static uint32_t next(uint32_t below)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % below;
}

static uint32_t order[RUNS], part[RUNS];
static struct pagehint_run runs[RUNS], merged[RUNS];
static struct ph_merge merge = { .order = order, .part = part, .merged = merged };

static uint64_t every_64(void *ctx, uint64_t frame, uint64_t *ret_least)
{
	(void)ctx;
	*ret_least = 1;
	return frame - frame % 64 + 64;
}

/* Disjoint runs in random order; `map` says which frames are asked for by runs that are not left out. */
static uint32_t make_runs(unsigned char *map, int limited)
{
	uint32_t n = 0;
	memset(map, 0, FRAMES + 1);
	for (uint32_t at = next(4); at < FRAMES && n < RUNS;) {
		uint32_t frames = 1 + next(4);
		if (limited && at % 64 + frames > 64)
			frames = 64 - at % 64;
		if (at + frames > FRAMES)
			break;
		runs[n] = (struct pagehint_run) { at, frames };
		n++;
		at += frames + (next(3) == 0 ? next(5) : 0);
	}
	for (uint32_t i = n; i > 1; i--) {
		uint32_t j = next(i);
		struct pagehint_run other = runs[j];
		runs[j] = runs[i - 1];
		runs[i - 1] = other;
	}
	for (uint32_t i = 0; i < n; i++) {
		part[i] = next(8) == 0 ? PH_MERGE_LEFT_OUT : 0;
		if (part[i] != PH_MERGE_LEFT_OUT)
			memset(map + runs[i].frame, 1, (size_t)runs[i].frames);
	}
	return n;
}

static uint32_t count_maximal(const unsigned char *map, int limited)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < FRAMES; i++)
		n += map[i] && (i == 0 || !map[i - 1] || (limited && i % 64 == 0));
	return n;
}

static uint64_t blocks_of_8(void *ctx, uint64_t frame, uint64_t *ret_least)
{
	(void)ctx;
	(void)frame;
	*ret_least = 8;
	return UINT64_MAX;
}

/* Where less than 8 frames free nothing: neighbours are joined, for two halves make a whole, and each gets its own edge. */
static void test_edges_go_to_whom_they_belong(void **state)
{
	(void)state;
	const struct pagehint_run given[] = {
		{ 3, 5 }, { 8, 16 }, { 24, 4 }, { 28, 4 }, { 32, 1 }, { 41, 2 }, { 43, 2 }
	};
	const uint64_t kept[] = { 5, 0, 0, 0, 1, 2, 2 };
	const uint32_t n = sizeof(given) / sizeof(given[0]);
	struct pagehint_outcome got[2], out[7];
	memcpy(runs, given, sizeof(given));
	memset(part, 0, sizeof(part));
	memset(got, 0, sizeof(got));
	assert_int_equal(ph_merge_sort(&merge, runs, n), 0);
	ph_merge_join(&merge, runs, blocks_of_8, NULL);
	assert_int_equal(merge.merged_n, 2);
	ph_outcome_accepted(&got[0], 24 * 4096);
	ph_outcome_kept(&got[0], 6 * 4096, PAGEHINT_WHY_ALIGNMENT);
	ph_outcome_kept(&got[1], 4 * 4096, PAGEHINT_WHY_ALIGNMENT);
	ph_merge_deal(&merge, runs, 12, blocks_of_8, NULL, got, out);
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(out[i].asked, given[i].frames * 4096);
		assert_int_equal(out[i].kept, kept[i] * 4096);
		assert_int_equal(out[i].accepted, (given[i].frames - kept[i]) * 4096);
	}
	assert_int_equal(got[0].asked + got[1].asked, 0);
}

static void check_one(int limited)
{
	static unsigned char map[FRAMES + 1];
	static struct pagehint_outcome got[RUNS], out[RUNS];
	uint32_t n = make_runs(map, limited);
	assert_int_equal(ph_merge_sort(&merge, runs, n), 0);
	ph_merge_join(&merge, runs, limited ? every_64 : NULL, NULL);
	assert_int_equal(merge.merged_n, count_maximal(map, limited));
	memset(got, 0, sizeof(got));
	memset(out, 0, sizeof(out));
	uint64_t classes[3] = { 0 }, dealt[3] = { 0 };
	for (uint32_t i = 0; i < merge.merged_n; i++) {
		for (uint64_t f = merged[i].frame; f < merged[i].frame + merged[i].frames; f++)
			assert_int_equal(map[f], 1);
		uint64_t bytes = merged[i].frames * 4096, freed = next((uint32_t)bytes),
			 kept = next((uint32_t)(bytes - freed));
		ph_outcome_freed(&got[i], freed);
		ph_outcome_kept(&got[i], kept, PAGEHINT_WHY_ALIGNMENT);
		ph_outcome_failed(&got[i], bytes - freed - kept, PAGEHINT_WHY_SYSCALL, -EIO);
		classes[0] += freed;
		classes[1] += kept;
		classes[2] += bytes - freed - kept;
	}
	ph_merge_deal(&merge, runs, 12, limited ? every_64 : NULL, NULL, got, out);
	for (uint32_t i = 0; i < n; i++) {
		if (part[i] == PH_MERGE_LEFT_OUT) {
			assert_int_equal(out[i].asked, 0);
			continue;
		}
		assert_true(ph_outcome_is_true(&out[i], runs[i].frames * 4096));
		dealt[0] += out[i].freed;
		dealt[1] += out[i].kept;
		dealt[2] += out[i].failed;
	}
	assert_memory_equal(classes, dealt, sizeof(classes));
	for (uint32_t i = 0; i < merge.merged_n; i++)
		assert_int_equal(got[i].asked, 0); /* used up */
}

static void test_random_batches(void **state)
{
	(void)state;
	printf("seed %u\n", seed);
	for (int i = 0; i < 500; i++) {
		check_one(0);
		check_one(1);
	}
}

static void test_overlaps(void **state)
{
	(void)state;
	static unsigned char map[FRAMES + 1];
	for (int i = 0; i < 300; i++) {
		uint32_t n = make_runs(map, 0);
		uint32_t victim = next(n);
		for (uint32_t j = 0; j < n; j++)
			part[j] = 0;
		if (n == RUNS)
			n--;
		runs[n] = (struct pagehint_run) { runs[victim].frame + runs[victim].frames - 1, 1 };
		part[n] = 0;
		assert_int_equal(ph_merge_sort(&merge, runs, n + 1), -EINVAL);
	}
}

static void test_reasons(void **state)
{
	(void)state;
	struct pagehint_outcome o = { 0 };
	ph_outcome_kept(&o, 10, PAGEHINT_WHY_ALIGNMENT);
	ph_outcome_kept(&o, 5, PAGEHINT_WHY_BUDGET);
	assert_int_equal(o.kept_why, PAGEHINT_WHY_ALIGNMENT);
	ph_outcome_kept(&o, 100, PAGEHINT_WHY_BUDGET);
	assert_int_equal(o.kept_why, PAGEHINT_WHY_BUDGET);
	ph_outcome_failed(&o, 0, PAGEHINT_WHY_SYSCALL, -EIO);
	assert_int_equal(o.failed_why, PAGEHINT_WHY_NONE);
	struct ph_sum sum;
	memset(&sum, 0, sizeof(sum));
	for (int i = 0; i < 3; i++) {
		struct pagehint_outcome small = { 0 }, big = { 0 };
		ph_outcome_failed(&small, 40, PAGEHINT_WHY_SYSCALL, -ENOMEM);
		ph_outcome_failed(&big, i == 0 ? 100 : 0, PAGEHINT_WHY_NO_REGION, -ERANGE);
		ph_sum_add(&sum, &small);
		ph_sum_add(&sum, &big);
	}
	o = ph_sum_total(&sum);
	assert_int_equal(o.failed, 220);
	assert_int_equal(o.failed_why, PAGEHINT_WHY_SYSCALL); /* 120 of it */
	assert_int_equal(o.error, -ENOMEM);
	for (uint32_t why = 0; why < PAGEHINT_WHY_COUNT; why++)
		assert_string_not_equal(ph_why_text(why), "?");
	assert_string_equal(ph_why_text(PAGEHINT_WHY_COUNT), "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_batches),
		cmocka_unit_test(test_overlaps),
		cmocka_unit_test(test_edges_go_to_whom_they_belong),
		cmocka_unit_test(test_reasons),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
