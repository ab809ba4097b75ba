#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "support/rounds.h"
#include "support/zone_plays.h"

static struct {
	const struct zone_play *plays;
	size_t n;
	const struct zone_wrong *wrongs;
	size_t n_wrongs;
} list;

/* fewer under slow instruments, more in long nights */
static uint32_t bound_of(const struct zone_play *play)
{
	uint32_t bound = play->preemptions;
	return rounds_scaled(100) < 50 ? 1 : rounds_scaled(100) >= 400 ? bound + 1 : bound;
}

static void test_every_order_of_every_play(void **state)
{
	uint64_t runs = 0, ends = 0;
	(void)state;
	for (size_t i = 0; i < list.n; i++) {
		const struct zone_play *play = &list.plays[i];
		uint32_t bound = bound_of(play);
		struct turn_result r = zone_play_perform(play, bound, NULL);
		print_message("%-42s %u threads, %u preemptions: %8llu orders, %4llu ends, %3llu contended words\n",
			      play->name, play->parts[2] != NULL ? 3u : 2u, bound, (unsigned long long)r.runs,
			      (unsigned long long)r.ends, (unsigned long long)r.words);
		fflush(stdout);
		if (r.faulty)
			fail_msg("%s: %s", play->name, r.fault);
		assert_true(r.runs > 1 && r.words > 0);
		runs += r.runs;
		ends += r.ends;
	}
	print_message("%llu orders of %zu plays, %llu different ends\n", (unsigned long long)runs, list.n,
		      (unsigned long long)ends);
}

static const struct zone_play *find(const char *name)
{
	for (size_t i = 0; i < list.n; i++)
		if (strcmp(list.plays[i].name, name) == 0)
			return &list.plays[i];
	fail_msg("no play %s", name);
	return NULL;
}

static void test_what_is_wrong_is_found(void **state)
{
	(void)state;
	for (size_t i = 0; i < list.n_wrongs; i++) {
		const struct zone_wrong *wrong = &list.wrongs[i];
		const struct zone_play *play = find(wrong->play);
		struct turn_result r = zone_play_perform(play, play->preemptions, &wrong->mutant);
		print_message("%-22s in %-40s %s, after %llu orders\n", wrong->mutant.func, play->name,
			      r.faulty ? r.fault : "NOT FOUND", (unsigned long long)(r.runs + r.learning));
		assert_true(r.faulty);
	}
}

int zone_plays_run(const struct zone_play *plays, size_t n, const struct zone_wrong *wrongs, size_t n_wrongs)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_wrong_is_found),
		cmocka_unit_test(test_every_order_of_every_play),
	};
	list.plays = plays;
	list.n = n;
	list.wrongs = wrongs;
	list.n_wrongs = n_wrongs;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
