#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "support/rounds.h"
#include "support/zone_plays.h"

/* fewer under slow instruments, more in long nights */
static uint32_t bound_of(const struct zone_play *play)
{
	uint32_t bound = play->preemptions;
	return rounds_scaled(100) < 50 ? 1 : rounds_scaled(100) >= 400 ? bound + 1 : bound;
}

void zone_plays_perform(const struct zone_play *plays, size_t n)
{
	uint64_t runs = 0, ends = 0;
	for (size_t i = 0; i < n; i++) {
		uint32_t bound = bound_of(&plays[i]);
		struct turn_result r = zone_play_perform(&plays[i], bound, NULL);
		print_message("%-42s %u threads, %u preemptions: %8llu orders, %4llu ends, %3llu contended words\n",
			      plays[i].name, plays[i].parts[2] != NULL ? 3u : 2u, bound, (unsigned long long)r.runs,
			      (unsigned long long)r.ends, (unsigned long long)r.words);
		fflush(stdout);
		if (r.faulty)
			fail_msg("%s: %s", plays[i].name, r.fault);
		assert_true(r.runs > 1 && r.words > 0);
		runs += r.runs;
		ends += r.ends;
	}
	print_message("%llu orders of %zu plays, %llu different ends\n", (unsigned long long)runs, n,
		      (unsigned long long)ends);
}

static const struct zone_play *find(const struct zone_play *plays, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(plays[i].name, name) == 0)
			return &plays[i];
	fail_msg("no play %s", name);
	return NULL;
}

void zone_plays_find(const struct zone_play *plays, size_t n, const struct zone_wrong *wrongs, size_t n_wrongs)
{
	for (size_t i = 0; i < n_wrongs; i++) {
		const struct zone_play *play = find(plays, n, wrongs[i].play);
		struct turn_result r = zone_play_perform(play, play->preemptions, &wrongs[i].mutant);
		print_message("%-22s in %-40s %s, after %llu orders\n", wrongs[i].mutant.func, play->name,
			      r.faulty ? r.fault : "NOT FOUND", (unsigned long long)(r.runs + r.learning));
		assert_true(r.faulty);
	}
}
