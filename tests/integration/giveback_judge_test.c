/* The demo's judgement: every bound can be missed, and is named when it is. */
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

/* What judge says of one figure against a bound of the whole build; text gets the line it prints. */
static unsigned judge_one(const char *key, double value, int is_build, char *text, size_t room)
{
	struct results *results = calloc(1, sizeof(*results));
	FILE *to = fmemopen(text, room, "w");
	unsigned missed;

	assert_non_null(results);
	assert_non_null(to);
	memset(text, 0, room);
	results_ratio(results, value, "ratio", "%s", key);
	missed = judge(results, is_build, to);
	fclose(to);
	free(results);
	return missed;
}

static void the_judge_finds_each_miss(void **state)
{
	static const struct {
		const char *key;
		double good;
		double bad;
		int only_build;
	} figures[] = {
		{ "demo.replay.host_over_live.2m", 1.25, 1.2501, 1 },
		{ "demo.replay.host_over_live.pressed", 1.05, 1.06, 1 },
		{ "demo.reporter_vs_raw", 0.90, 0.89, 1 },
		{ "demo.replay.rereported_bytes", 0, 4096, 0 },
		{ "demo.replay.zone_violations", 0, 1, 0 },
		{ "zone.metadata_bits_per_frame.untracked", 1.20, 1.21, 0 },
		{ "zone.metadata_bits_per_frame.tracked", 2.30, 2.31, 0 },
	};
	char text[200];

	(void)state;
	for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
		assert_int_equal(judge_one(figures[i].key, figures[i].good, 1, text, sizeof(text)), 0);
		assert_int_equal(judge_one(figures[i].key, figures[i].bad, 1, text, sizeof(text)), 1);
		assert_non_null(strstr(text, figures[i].key));
		assert_int_equal(judge_one(figures[i].key, figures[i].bad, 0, text, sizeof(text)),
				 !figures[i].only_build);
	}
}

static void the_judge_compares_pairs(void **state)
{
	struct results *results = calloc(1, sizeof(*results));
	FILE *nowhere = fopen("/dev/null", "w");

	(void)state;
	assert_non_null(results);
	assert_non_null(nowhere);
	results_count(results, 1000, "bytes", "demo.anon.freed_bytes");
	results_count(results, 989, "bytes", "demo.anon.host_freed_bytes");
	results_count(results, 0, "pages", "demo.anon.corrupt_pages");
	assert_int_equal(judge(results, 0, nowhere), 1);
	results->items[1].value = 1011;
	assert_int_equal(judge(results, 0, nowhere), 1);
	results->items[1].value = 1009;
	assert_int_equal(judge(results, 0, nowhere), 0);
	results->items[2].value = 1;
	assert_int_equal(judge(results, 0, nowhere), 1);
	results->n = 0;
	results_ratio(results, 0.551, "ratio", "demo.replay.unreturned_share.2m");
	results_ratio(results, 0.5, "ratio", "demo.replay.oracle_share.2m");
	assert_int_equal(judge(results, 1, nowhere), 1);
	results->items[0].value = 0.549;
	assert_int_equal(judge(results, 1, nowhere), 0);
	fclose(nowhere);
	free(results);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_judge_finds_each_miss),
		cmocka_unit_test(the_judge_compares_pairs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
