/*
 * zone_plays.h: a list of plays (zone_play.h), each performed in every order; and mistakes made on purpose, each of which a play
 * must find. The two tests of such a file.
 */
#ifndef TESTS_SUPPORT_ZONE_PLAYS_H
#define TESTS_SUPPORT_ZONE_PLAYS_H

#include <stddef.h>

#include "support/zone_play.h"

/* What is wrong on purpose, and the play that it shows in. */
struct zone_wrong {
	const char *play;
	struct turn_mutant mutant;
};

/* Both, as tests; returns what main does. */
int zone_plays_run(const struct zone_play *plays, size_t n, const struct zone_wrong *wrongs, size_t n_wrongs);

#endif
