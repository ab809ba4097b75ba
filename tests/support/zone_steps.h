/*
 * zone_steps.h: the steps of a play on a zone, read from their text (zone_play.h says what each does).
 */
#ifndef TESTS_SUPPORT_ZONE_STEPS_H
#define TESTS_SUPPORT_ZONE_STEPS_H

#include <stdint.h>

#define PLAY_STEPS 16u

enum {
	END = 0,
	TAKE,
	TAKE_ZERO,
	BATCH,
	RUNS,
	CONTIG,
	RESERVE,
	CACHE_TAKE,
	GIVE,
	CACHE_GIVE,
	GIVE_OLD,
	GIVE_TWICE,
	GIVE_FRONT,
	GIVE_REST,
	DRAIN,
	PARK,
	UNPARK,
	ADD,
	REMOVE,
	HARVEST,
	SCRUB,
	REPORTED,
	KEPT,
	RECLAIM,
	HOLD,
	RESTORE,
	INSTALL,
	VERBS
};

struct play_step {
	uint32_t what;
	uint64_t n, m;
};

/* Fills PLAY_STEPS steps, the last of them END; a NULL text has none. */
void play_read_steps(const char *text, struct play_step *steps);

#endif
