/*
 * zone_play.h: a play for a few threads on a small zone, as a text of steps, and its performance in every order (turns.h) before
 * a witness (zone_witness.h).
 *
 * After each run that ended in a way not seen before: no invariant is broken with everything where it is; then everything is given
 * back, no invariant is broken, no frame is missing, and every frame can be had again.
 */
#ifndef TESTS_SUPPORT_ZONE_PLAY_H
#define TESTS_SUPPORT_ZONE_PLAY_H

#include "support/turns.h"

/*
 * A part is a text of steps, `verb [n [m]]`, with a semicolon between two. A frame of section 2 is written as 2:frame.
 *   take n            a block of order n
 *   take-zero n       the same, which must read as zero
 *   batch n m         m blocks of order n
 *   runs n [1]        n frames in runs; 1 = more than there are
 *   contig n          n adjacent frames
 *   reserve n m       frames [n, n + m)
 *   cache-take [n]    the same as take through the thread's cache
 *   give              the newest thing of one's own
 *   cache-give        the same, through one's cache
 *   give-old n        the n-th thing from before the play
 *   give-twice n [1]  the same; another does so, too: one of them must be refused (1: through one's cache)
 *   give-front n m    the first m frames of the n-th thing from before, as a run
 *   give-rest n m     all but the first m frames of it
 *   drain, park, unpark
 *   add n m, remove n m       frames [n, n + m)
 *   harvest [n [m]]   a look that takes what has aged (n = 1: whatever is free), by order m - 1 (0 = the granule's)
 *   scrub             steps of scrubbing, once through the zone
 *   reported, kept    all that the thread has isolated goes back
 * On a shared zone (zone_host.h):
 *   reclaim n         the host takes n granules, discards them, and puts them back
 *   hold n, restore   the host takes n granules and keeps them; all of them go back
 *   install           of the newest thing of one's own, until there is memory behind it or somebody else is at it
 */
struct zone_play {
	const char *name;
	struct {
		uint32_t flags, granule, sections, span;
	} zone;
	uint32_t preemptions;
	uint32_t caches; /* so many threads have one, from the first on */
	const char *before;
	const char *parts[TURN_THREADS]; /* NULL = nobody */
};

struct turn_result zone_play_perform(const struct zone_play *play, uint32_t preemptions,
				     const struct turn_mutant *mutant);

#endif
