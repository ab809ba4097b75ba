/* The demo's judgement: every bound can be missed, and is named when it is; what was not measured does not pass. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "judge.h"
#include "results.h"

#define ALL ((1u << BACKINGS) - 1)

static struct results results;
static char text[4096]; /* what the judge printed */

/* All figures of a run in which everything went well. */
static void all_good(void)
{
	memset(&results, 0, sizeof(results));
	for (uint32_t kind = 0; kind < BACKINGS; kind++) {
		results_count(&results, 1000, "bytes", "demo.%s.freed_bytes", backing_name(kind));
		results_count(&results, 1009, "bytes", "demo.%s.host_freed_bytes", backing_name(kind));
		results_count(&results, 0, "pages", "demo.%s.corrupt_pages", backing_name(kind));
	}
	results_ratio(&results, 1.25, "ratio", "demo.replay.host_over_live.2m");
	results_ratio(&results, 1.05, "ratio", "demo.replay.host_over_live.pressed");
	results_ratio(&results, 0.549, "ratio", "demo.replay.unreturned_share.2m");
	results_ratio(&results, 0.5, "ratio", "demo.replay.oracle_share.2m");
	results_count(&results, 0, "bytes", "demo.replay.rereported_bytes");
	results_count(&results, 0, "count", "demo.replay.zone_violations");
	results_ratio(&results, 0.90, "ratio", "demo.reporter_vs_raw");
	results_ratio(&results, 1.20, "bits", "zone.metadata_bits_per_frame.untracked");
	results_ratio(&results, 2.30, "bits", "zone.metadata_bits_per_frame.tracked");
}

static struct result *item_of(const char *key)
{
	for (uint32_t i = 0; i < results.n; i++) {
		if (strcmp(results.items[i].key, key) == 0)
			return &results.items[i];
	}
	fail_msg("no figure %s", key);
	return NULL;
}

static void set(const char *key, double value)
{
	item_of(key)->value = value;
}

static void take_out(const char *key)
{
	struct result *item = item_of(key);

	results.n--;
	memmove(item, item + 1, (size_t)(&results.items[results.n] - item) * sizeof(*item));
}

static void set_of(uint32_t kind, const char *what, double value)
{
	char key[80];

	snprintf(key, sizeof(key), "demo.%s.%s", backing_name(kind), what);
	set(key, value);
}

static unsigned judged(enum judge_scope scope, uint32_t ran)
{
	struct judge_case about = { .scope = scope, .ran = ran };
	FILE *to;
	unsigned missed;

	memset(text, 0, sizeof(text));
	to = fmemopen(text, sizeof(text) - 1, "w");
	assert_non_null(to);
	missed = judge(&results, &about, to);
	fclose(to);
	return missed;
}

static const char *said(unsigned missed, const struct judge_case *about)
{
	FILE *to;

	memset(text, 0, sizeof(text));
	to = fmemopen(text, sizeof(text) - 1, "w");
	assert_non_null(to);
	judge_say(missed, about, to);
	fclose(to);
	return text;
}

/* only_build: the bound is promised for the whole build, and says nothing of a part or of another trace. */
static const struct {
	const char *key;
	double bad;
	int only_build;
} figures[] = {
	{ "demo.replay.host_over_live.2m", 1.2501, 1 },
	{ "demo.replay.host_over_live.pressed", 1.06, 1 },
	{ "demo.replay.unreturned_share.2m", 0.551, 1 },
	{ "demo.replay.oracle_share.2m", 0, 1 },
	{ "demo.reporter_vs_raw", 0.89, 1 },
	{ "demo.replay.rereported_bytes", 4096, 0 },
	{ "demo.replay.zone_violations", 1, 0 },
	{ "zone.metadata_bits_per_frame.untracked", 1.21, 0 },
	{ "zone.metadata_bits_per_frame.tracked", 2.31, 0 },
};

#define FIGURES (sizeof(figures) / sizeof(figures[0]))

static void good_figures_pass(void **state)
{
	(void)state;
	all_good();
	assert_int_equal(judged(JUDGE_BUILD, ALL), 0);
	assert_int_equal(judged(JUDGE_PART, ALL), 0);
	assert_int_equal(judged(JUDGE_OWN, ALL), 0);
	assert_string_equal(text, "");
}

static void the_judge_finds_each_miss(void **state)
{
	(void)state;
	for (size_t i = 0; i < FIGURES; i++) {
		all_good();
		set(figures[i].key, figures[i].bad);
		assert_int_equal(judged(JUDGE_BUILD, ALL), 1);
		assert_non_null(strstr(text, figures[i].key));
		assert_int_equal(judged(JUDGE_PART, ALL), !figures[i].only_build);
		assert_int_equal(judged(JUDGE_OWN, ALL), !figures[i].only_build);
	}
}

static void a_missing_figure_is_a_miss(void **state)
{
	(void)state;
	for (size_t i = 0; i < FIGURES; i++) {
		all_good();
		take_out(figures[i].key);
		assert_int_equal(judged(JUDGE_BUILD, ALL), 1);
		assert_non_null(strstr(text, figures[i].key));
		assert_non_null(strstr(text, "was not taken"));
		assert_int_equal(judged(JUDGE_OWN, ALL), !figures[i].only_build);
	}
}

static void a_ratio_of_zero_is_a_miss(void **state)
{
	static const char *const ratios[] = {
		"demo.replay.host_over_live.2m",
		"demo.replay.host_over_live.pressed",
		"demo.reporter_vs_raw",
		"zone.metadata_bits_per_frame.untracked",
		"zone.metadata_bits_per_frame.tracked",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(ratios) / sizeof(ratios[0]); i++) {
		all_good();
		set(ratios[i], 0);
		assert_int_equal(judged(JUDGE_BUILD, ALL), 1);
		assert_non_null(strstr(text, ratios[i]));
	}
	/* of a pair, both */
	all_good();
	set("demo.replay.unreturned_share.2m", 0);
	set("demo.replay.oracle_share.2m", 0);
	assert_int_equal(judged(JUDGE_BUILD, ALL), 1);
	assert_non_null(strstr(text, "demo.replay.oracle_share.2m"));
}

static void every_backing_is_held_to_the_host(void **state)
{
	(void)state;
	for (uint32_t kind = 0; kind < BACKINGS; kind++) {
		for (int scope = JUDGE_BUILD; scope <= JUDGE_OWN; scope++) {
			all_good();
			set_of(kind, "host_freed_bytes", 989);
			assert_int_equal(judged((enum judge_scope)scope, ALL), 1);
			assert_non_null(strstr(text, backing_name(kind)));
			set_of(kind, "host_freed_bytes", 991);
			assert_int_equal(judged((enum judge_scope)scope, ALL), 0);
			set_of(kind, "host_freed_bytes", 1011);
			assert_int_equal(judged((enum judge_scope)scope, ALL), 1);
			/* the library says that it freed, and nothing left */
			set_of(kind, "host_freed_bytes", 0);
			assert_int_equal(judged((enum judge_scope)scope, ALL), 1);
			set_of(kind, "host_freed_bytes", 1000);
			set_of(kind, "corrupt_pages", 1);
			assert_int_equal(judged((enum judge_scope)scope, ALL), 1);
			assert_non_null(strstr(text, "corrupt_pages"));
		}
	}
}

/* Nothing came back, as the host says, too: over the build that is a miss, over somebody's trace it may be right. */
static void nothing_freed_is_a_miss_over_the_build(void **state)
{
	(void)state;
	for (uint32_t kind = 0; kind < BACKINGS; kind++) {
		all_good();
		set_of(kind, "freed_bytes", 0);
		set_of(kind, "host_freed_bytes", 0);
		assert_int_equal(judged(JUDGE_BUILD, ALL), 1);
		assert_non_null(strstr(text, backing_name(kind)));
		assert_non_null(strstr(text, "freed_bytes is 0"));
		assert_int_equal(judged(JUDGE_PART, ALL), 1);
		assert_int_equal(judged(JUDGE_OWN, ALL), 0);
	}
}

static void figures_of_a_backing_that_ran_must_be_there(void **state)
{
	static const char *const whats[] = { "freed_bytes", "host_freed_bytes", "corrupt_pages" };
	char key[80];

	(void)state;
	for (uint32_t kind = 0; kind < BACKINGS; kind++) {
		for (size_t i = 0; i < 3; i++) {
			all_good();
			snprintf(key, sizeof(key), "demo.%s.%s", backing_name(kind), whats[i]);
			take_out(key);
			assert_int_equal(judged(JUDGE_BUILD, ALL), 1);
			assert_non_null(strstr(text, key));
			assert_int_equal(judged(JUDGE_OWN, ALL), 1);
			assert_int_equal(judged(JUDGE_BUILD, ALL & ~(1u << kind)), 0);
		}
	}
}

/* Huge pages alone have no figures of small pages. */
static void what_did_not_run_is_not_missed(void **state)
{
	(void)state;
	all_good();
	for (size_t i = 0; i < 4; i++)
		take_out(figures[i].key);
	assert_int_equal(judged(JUDGE_BUILD, 1u << BACKING_THP | 1u << BACKING_HUGETLB), 0);
	assert_int_equal(judged(JUDGE_BUILD, 1u << BACKING_ANON), 3); /* the pair of shares is one */
	take_out("demo.replay.rereported_bytes");
	take_out("demo.replay.zone_violations");
	assert_int_equal(judged(JUDGE_BUILD, 0), 0);
	assert_int_equal(judged(JUDGE_BUILD, 1u << BACKING_THP), 2);
}

static void the_last_line_says_what_it_is_worth(void **state)
{
	struct judge_case about = { .scope = JUDGE_BUILD, .ran = ALL };

	(void)state;
	assert_string_equal(said(0, &about), "demo: ok\n");
	assert_string_equal(said(2, &about), "demo: 2 missed\n");
	about.scope = JUDGE_OWN;
	assert_string_equal(said(0, &about), "demo: ran; the bounds are for the build trace\n");
	assert_string_equal(said(1, &about), "demo: 1 missed\n");
	about = (struct judge_case) { .scope = JUDGE_PART, .ran = 1u << BACKING_ANON };
	strcpy(about.absent[BACKING_HUGETLB].text, "hugetlb: none reserved");
	assert_string_equal(said(0, &about), "demo: ok, without hugetlb: none reserved\n");
	assert_string_equal(said(3, &about), "demo: 3 missed, without hugetlb: none reserved\n");
	strcpy(about.absent[BACKING_THP].text, "thp: switched off");
	assert_string_equal(said(0, &about), "demo: ok, without thp: switched off; without hugetlb: none reserved\n");
	about.ran = 0;
	assert_string_equal(said(0, &about),
			    "demo: nothing ran, without thp: switched off; without hugetlb: none reserved\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_figures_pass),
		cmocka_unit_test(the_judge_finds_each_miss),
		cmocka_unit_test(a_missing_figure_is_a_miss),
		cmocka_unit_test(a_ratio_of_zero_is_a_miss),
		cmocka_unit_test(every_backing_is_held_to_the_host),
		cmocka_unit_test(nothing_freed_is_a_miss_over_the_build),
		cmocka_unit_test(figures_of_a_backing_that_ran_must_be_there),
		cmocka_unit_test(what_did_not_run_is_not_missed),
		cmocka_unit_test(the_last_line_says_what_it_is_worth),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
