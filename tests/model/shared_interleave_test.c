/*
 * A shared zone in every order that a host and its guest's threads can take turns in, up to a bound: what the host takes, discards,
 * keeps and puts back while the guest takes and gives the same words, and memory that is installed before it is used.
 */
#include "support/zone_rest.h"

#include "support/zone_plays.h"

#define SHARED PAGEHINT_ZONE_SHARED
#define STRICT PAGEHINT_ZONE_STRICT

/* as in zone_interleave_test.c */
static const struct zone_play plays[] = {
	{ "reclaim: while a frame is taken", { SHARED, 6, 1, 1 }, 3, 0, "add 0 128", { "reclaim 2", "take 0; give" } },
	{ "reclaim: strictly",
	  { SHARED | STRICT, 6, 1, 1 },
	  2,
	  0,
	  "add 0 192; take 0",
	  { "reclaim 2", "take 6; give-old 0" } },
	{ "reclaim: what is there is not missed", { SHARED, 6, 1, 1 }, 3, 0, "add 0 64", { "reclaim 1", "take 6" } },
	{ "reclaim: pieces of a word",
	  { SHARED, 3, 1, 1 },
	  2,
	  0,
	  "add 0 64; reserve 20 1",
	  { "reclaim 4", "take 2; give-old 0" } },
	{ "reclaim: what was used again is remembered",
	  { SHARED, 6, 1, 1 },
	  2,
	  0,
	  "add 0 64; take 0; give",
	  { "reclaim 1; reclaim 1", "take 0; give" } },
	{ "reclaim: through caches",
	  { SHARED, 6, 1, 1 },
	  2,
	  1,
	  "add 0 128",
	  { "cache-take; cache-give; drain", "reclaim 2" } },
	{ "reclaim: the guest merges meanwhile",
	  { SHARED, 6, 1, 1 },
	  2,
	  0,
	  "add 0 4096; take 0",
	  { "reclaim 64", "give-old 0" } },
	{ "hold: what is kept is nowhere else",
	  { SHARED, 6, 1, 1 },
	  2,
	  0,
	  "add 0 128; take 0",
	  { "hold 2; restore", "give-old 0; take 6" } },
	{ "hold: and two of the guest's",
	  { SHARED, 6, 1, 1 },
	  1,
	  0,
	  "add 0 192",
	  { "hold 2; restore", "take 6; give", "take 0; give" } },
	{ "hold: put back while a neighbour comes home",
	  { SHARED, 3, 1, 1 },
	  2,
	  0,
	  "add 0 64; take 3; hold 7",
	  { "restore", "give-old 0; take 4" } },
	{ "hold: its section would go",
	  { SHARED, 6, 2, 2 },
	  2,
	  0,
	  "add 0 64; add 1:0 64",
	  { "hold 1; restore", "remove 1:0 64" } },
	{ "hold: another section in its slot",
	  { SHARED, 6, 2, 3 },
	  1,
	  0,
	  "add 0 64; add 1:0 64",
	  { "hold 1; restore", "remove 1:0 64; add 2:0 64" } },
	{ "install: two share a granule",
	  { SHARED, 6, 1, 1 },
	  3,
	  0,
	  "add 0 64; hold 1; restore",
	  { "take 0; install", "take 0; install" } },
	{ "install: and it is taken once more",
	  { SHARED, 6, 1, 1 },
	  2,
	  0,
	  "add 0 128; hold 1; restore",
	  { "take 6; install; give; take 0; install", "reclaim 2" } },
};
#define PLAYS (sizeof(plays) / sizeof(plays[0]))

static const struct zone_wrong wrongs[] = {
	/* the host takes what was taken between its look and its claim */
	{ "reclaim: while a frame is taken", { "claim_word", TURN_ALWAYS_EXCHANGES } },
	{ "hold: what is kept is nowhere else", { "claim_word", TURN_ALWAYS_EXCHANGES } },
	/* the guest takes what the host has taken */
	{ "reclaim: what is there is not missed", { "ph_say", TURN_WRITES_NOTHING } },
	/* a word that was full a moment ago becomes a block above, though the guest took of it */
	{ "hold: put back while a neighbour comes home", { "ph_host_publish", TURN_ALWAYS_EXCHANGES } },
	/* nobody knows that the memory has gone, or that somebody fetches it */
	{ "install: and it is taken once more", { "say_evicted", TURN_WRITES_NOTHING } },
	{ "install: two share a granule", { "install_granule", TURN_WRITES_NOTHING } },
	/* what is used after its discard is forgotten */
	{ "reclaim: what was used again is remembered", { "touch", TURN_WRITES_NOTHING } },
};
#define WRONGS (sizeof(wrongs) / sizeof(wrongs[0]))

int main(void)
{
	return zone_plays_run(plays, PLAYS, wrongs, WRONGS);
}
