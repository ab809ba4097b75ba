/*
 * The zone in every order that two or three threads can take turns in, up to a bound of turns taken away: short plays around the
 * places where words go from level to level. The allocator is compiled once more for it, see turns.h.
 */
#include "support/zone_rest.h"

#include "support/rounds.h"
#include "support/zone_play.h"

#define S PAGEHINT_SECTION_FRAMES
#define STALE PAGEHINT_ZONE_STALE
#define STRICT PAGEHINT_ZONE_STRICT
#define LADDER PAGEHINT_ZONE_LADDER
#define SCRUB PAGEHINT_ZONE_SCRUB

/*
 * name; flags, granule order, slots and span of the zone [sections]; bound; caches; what was before; the parts.
 * A frame is written as section:frame.
 */
static const struct zone_play plays[] = {
	{ "split: two frames of one block", { 0, 9, 1, 1 }, 2, 0, "add 0 64", { "take 0", "take 0" } },
	{ "split: two levels down, and one", { 0, 9, 1, 1 }, 3, 0, "add 0 4096", { "take 0", "take 6" } },
	{ "split: three at once", { STRICT, 9, 1, 1 }, 2, 0, "add 0 128", { "take 5", "take 1", "take 6" } },
	{ "split: nothing is left in transit", { 0, 9, 1, 1 }, 2, 0, "add 0 64", { "take 0; give", "take 5; give" } },
	{ "merge: the last two frames come home",
	  { 0, 9, 1, 1 },
	  3,
	  0,
	  "add 0 64; take 0; take 0",
	  { "give-old 0", "give-old 1" } },
	{ "merge: and a third takes one",
	  { 0, 9, 1, 1 },
	  2,
	  0,
	  "add 0 64; take 0; take 0",
	  { "give-old 0", "give-old 1", "take 0" } },
	{ "merge: what merges is not missed",
	  { 0, 9, 1, 1 },
	  2,
	  0,
	  "add 0 64; take 0",
	  { "give-old 0", "take 0; give" } },
	{ "merge: over two levels",
	  { 0, 9, 1, 1 },
	  3,
	  0,
	  "add 0 4096; take 0; take 6",
	  { "give-old 0", "give-old 1" } },
	{ "the last frame", { 0, 9, 1, 1 }, 2, 0, "add 0 64; reserve 1 63", { "take 0; give", "take 0; give" } },
	{ "summary: emptied and filled at once",
	  { 0, 9, 1, 1 },
	  3,
	  0,
	  "add 0 64; reserve 1 1; reserve 2 62",
	  { "take 0", "give-old 0" } },
	{ "summary: a pair is broken, another made",
	  { 0, 9, 1, 1 },
	  2,
	  0,
	  "add 0 64; reserve 3 1; reserve 4 60",
	  { "take 1", "give-old 0; take 0" } },
	{ "summary: on level one", { 0, 9, 1, 1 }, 3, 0, "add 0 128; take 6", { "take 6", "give-old 0" } },
	{ "batch: two share a word", { 0, 9, 1, 1 }, 2, 0, "add 0 64", { "batch 0 40", "batch 0 40" } },
	{ "runs: what does not suffice goes back", { 0, 9, 1, 1 }, 2, 0, "add 0 64", { "runs 100 1", "take 0; give" } },
	{ "contig: over a block that is split", { 0, 9, 1, 1 }, 2, 0, "add 0 192", { "contig 100; give", "take 0" } },
	{ "contig: over a border of sections",
	  { 0, 9, 2, 2 },
	  2,
	  0,
	  "add 0 64; add 1:0 64",
	  { "reserve 1:0 64; give", "take 6; take 6" } },
	{ "out: both free the same block",
	  { 0, 9, 1, 1 },
	  3,
	  0,
	  "add 0 64; take 3",
	  { "give-twice 0", "give-twice 0" } },
	{ "out: strictly", { STRICT, 9, 1, 1 }, 3, 0, "add 0 64; take 3", { "give-twice 0", "give-twice 0" } },
	{ "out: one of them through its cache",
	  { 0, 9, 1, 1 },
	  3,
	  1,
	  "add 0 64; take 0",
	  { "give-twice 0 1", "give-twice 0" } },
	{ "out: two parts of one block",
	  { STRICT, 9, 1, 1 },
	  2,
	  0,
	  "add 0 128; take 6",
	  { "give-front 0 20", "give-rest 0 20" } },
	{ "isolate: while a frame is taken",
	  { STALE, 6, 1, 1 },
	  2,
	  0,
	  "add 0 128",
	  { "harvest 1; reported", "take 0; give" } },
	{ "isolate: what is there is not missed",
	  { STALE, 6, 1, 1 },
	  2,
	  0,
	  "add 0 64",
	  { "harvest 1; kept", "take 6" } },
	{ "touched: what was used is young",
	  { STALE, 6, 1, 1 },
	  3,
	  0,
	  "add 0 64; harvest",
	  { "harvest; reported", "take 0; give" } },
	{ "touched: looks, one after the other",
	  { 0, 6, 1, 1 },
	  2,
	  0,
	  "add 0 64; take 0; give",
	  { "harvest; harvest; reported", "take 0; give" } },
	{ "touched: through caches",
	  { STALE, 6, 1, 1 },
	  2,
	  1,
	  "add 0 64; harvest",
	  { "cache-take; cache-give; drain", "harvest; reported" } },
	{ "ladder: pieces",
	  { STALE | LADDER, 6, 1, 1 },
	  2,
	  0,
	  "add 0 64; reserve 5 40",
	  { "harvest 1 1; reported", "take 1; give" } },
	{ "cache: a refill is on its way", { 0, 9, 1, 1 }, 2, 1, "add 0 64", { "cache-take; cache-give", "take 0" } },
	{ "cache: what is drained is not missed",
	  { 0, 9, 1, 1 },
	  2,
	  1,
	  "add 0 64",
	  { "cache-take; cache-give; drain", "take 6" } },
	{ "cache: the last one is drained",
	  { 0, 9, 1, 1 },
	  2,
	  1,
	  "add 0 64; reserve 2 62",
	  { "cache-take; drain", "take 0" } },
	{ "cache: two of them",
	  { 0, 9, 1, 1 },
	  2,
	  2,
	  "add 0 128; take 6",
	  { "cache-take; cache-give; cache-take", "cache-take; give-old 0; cache-take" } },
	{ "cache: parked, and drained by another",
	  { 0, 9, 1, 1 },
	  2,
	  1,
	  "add 0 64",
	  { "cache-take; park; unpark", "take 3" } },
	{ "found: two take pairs of one word",
	  { 0, 9, 1, 1 },
	  2,
	  2,
	  "add 0 64",
	  { "cache-take 1; cache-take 1", "cache-take 1; cache-take 1" } },
	{ "found: what comes home is not missed",
	  { 0, 9, 1, 1 },
	  2,
	  1,
	  "add 0 64; take 0; reserve 8 56",
	  { "cache-take 1; cache-take 1; cache-take 1", "give-old 0; take 1" } },
	{ "found: blocks, and words for a refill",
	  { 0, 9, 1, 1 },
	  2,
	  2,
	  "add 0 256",
	  { "cache-take 6; cache-take", "cache-take 6; cache-take; cache-give" } },
	{ "found: where two meet, one moves on",
	  { 0, 9, 1, 1 },
	  2,
	  2,
	  "add 0 8192",
	  { "cache-take 6; cache-take", "cache-take 6; cache-take" } },
	{ "found: its section goes",
	  { 0, 9, 2, 2 },
	  2,
	  1,
	  "add 0 64",
	  { "cache-take 1; cache-give; drain; cache-take 1", "remove 0 64; add 1:0 64" } },
	{ "section: comes and goes",
	  { 0, 9, 2, 2 },
	  2,
	  0,
	  "add 0 64; reserve 0 64",
	  { "add 1:0 64; remove 1:0 64", "take 0; give" } },
	{ "section: another one in its slot",
	  { 0, 9, 2, 3 },
	  2,
	  0,
	  "add 0 64; reserve 0 64; add 1:0 64",
	  { "remove 1:0 64; add 2:0 64", "contig 3; give" } },
	{ "section: while it is looked at",
	  { STALE, 6, 2, 3 },
	  2,
	  0,
	  "add 0 64; add 1:0 64",
	  { "remove 1:0 64; add 2:0 64", "harvest 1; reported" } },
	{ "section: gives up, and leaves no trace",
	  { 0, 9, 1, 1 },
	  2,
	  0,
	  "add 0 128",
	  { "remove 0 128", "take 0; give" } },
	{ "scrub: while it is wanted as zeroes",
	  { SCRUB, 6, 1, 1 },
	  2,
	  0,
	  "add 0 64; take 3; give",
	  { "scrub", "take-zero 2; give; take-zero 1" } },
	{ "scrub: what is scrubbed is not denied",
	  { SCRUB | STALE, 6, 1, 1 },
	  2,
	  0,
	  "add 0 64",
	  { "scrub", "take-zero 6" } },
	{ "scrub: and the reporter wants it",
	  { SCRUB | STALE, 6, 1, 1 },
	  2,
	  0,
	  "add 0 128",
	  { "scrub", "harvest 1; reported; take-zero 0" } },
	{ "scrub: another section in its slot",
	  { SCRUB | STALE, 6, 2, 3 },
	  2,
	  0,
	  "add 0 64; reserve 0 64; add 1:0 64",
	  { "scrub", "remove 1:0 64; add 2:0 64" } },
};
#define PLAYS (sizeof(plays) / sizeof(plays[0]))

/* fewer under slow instruments, more in long nights */
static uint32_t bound_of(const struct zone_play *play)
{
	uint32_t bound = play->preemptions;
	return rounds_scaled(100) < 50 ? 1 : rounds_scaled(100) >= 400 ? bound + 1 : bound;
}

static const struct zone_play *find(const char *name)
{
	for (size_t i = 0; i < PLAYS; i++)
		if (strcmp(plays[i].name, name) == 0)
			return &plays[i];
	fail_msg("no play %s", name);
	return NULL;
}

static void test_every_order_of_every_play(void **state)
{
	(void)state;
	uint64_t runs = 0, ends = 0;
	for (size_t i = 0; i < PLAYS; i++) {
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
	print_message("%llu orders of %zu plays, %llu different ends\n", (unsigned long long)runs, PLAYS,
		      (unsigned long long)ends);
}

/* What is wrong on purpose, and where it shows. */
static const struct {
	const char *play;
	struct turn_mutant mutant;
} wrongs[] = {
	/* whoever narrows a summary does not look again at what he hid */
	{ "summary: emptied and filled at once", { "ph_summary_narrow", TURN_LOADS_NOTHING } },
	{ "summary: on level one", { "ph_summary_narrow", TURN_LOADS_NOTHING } },
	/* a word that was full a moment ago becomes a block above, though somebody took of it */
	{ "merge: what merges is not missed", { "ph_level_publish", TURN_ALWAYS_EXCHANGES } },
	{ "merge: and a third takes one", { "ph_level_publish", TURN_ALWAYS_EXCHANGES } },
	/* runs are taken out of a word that has changed */
	{ "batch: two share a word", { "take_runs", TURN_ALWAYS_EXCHANGES } },
	{ "contig: over a block that is split", { "claim_bits", TURN_ALWAYS_EXCHANGES } },
	{ "found: two take pairs of one word", { "take_found", TURN_ALWAYS_EXCHANGES } },
	{ "found: blocks, and words for a refill", { "take_found", TURN_ALWAYS_EXCHANGES } },
	/* a refusal does not ask what is between two levels, in somebody's hands, on its way to a cache, at the reporter */
	{ "split: two frames of one block", { "ph_zone_versions", TURN_LOADS_NOTHING } },
	{ "runs: what does not suffice goes back", { "take_in_runs", TURN_WRITES_NOTHING } },
	{ "cache: a refill is on its way", { "ph_cache_any_moving", TURN_LOADS_NOTHING } },
	{ "isolate: what is there is not missed", { "pagehint_zone_stats", TURN_LOADS_NOTHING } },
	/* two free the same */
	{ "out: both free the same block", { "ph_track_clear", TURN_ALWAYS_EXCHANGES } },
	/* what was broken and merged between the look and the claim is taken */
	{ "touched: what was used is young", { "ph_reap_keep", TURN_LOADS_NOTHING } },
	/* what a frame's owner wrote is forgotten, or what is scrubbed is in nobody's account */
	{ "scrub: while it is wanted as zeroes", { "ph_scrub_set_unclean", TURN_WRITES_NOTHING } },
	{ "scrub: what is scrubbed is not denied", { "pagehint_zone_stats", TURN_LOADS_NOTHING } },
	/* nobody remembers that a granule was broken */
	{ "isolate: while a frame is taken", { "touch", TURN_WRITES_NOTHING } },
};
#define WRONGS (sizeof(wrongs) / sizeof(wrongs[0]))

static void test_what_is_wrong_is_found(void **state)
{
	(void)state;
	for (size_t i = 0; i < WRONGS; i++) {
		const struct zone_play *play = find(wrongs[i].play);
		struct turn_result r = zone_play_perform(play, play->preemptions, &wrongs[i].mutant);
		print_message("%-20s in %-40s %s, after %llu orders\n", wrongs[i].mutant.func, play->name,
			      r.faulty ? r.fault : "NOT FOUND", (unsigned long long)(r.runs + r.learning));
		assert_true(r.faulty);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_wrong_is_found),
		cmocka_unit_test(test_every_order_of_every_play),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
