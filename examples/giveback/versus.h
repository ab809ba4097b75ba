/*
 * versus: the reporter's whole path against the best raw calls on the same runs.
 *
 * A region is written, three quarters of its granules are freed, so that the free ones lie in runs of different lengths. One
 * side steps a reporter until all of them are back; the other makes the raw calls for the same maximal runs. Sides take turns;
 * the first of a round changes from round to round. What each gave back is checked with the host.
 */
#ifndef GIVEBACK_VERSUS_H
#define GIVEBACK_VERSUS_H

#include <stdint.h>

#include "backing.h"

#define VERSUS_ROUNDS 15u

/* GiB/s of the thread's own CPU time, over the rounds */
struct versus_side {
	double least;
	double median;
	double most;
};

struct versus {
	struct versus_side reporter;
	struct versus_side raw;
	double ratio; /* of the medians */
};

/* kind: BACKING_ANON or BACKING_MEMFD. 0 or -errno with *why. */
int versus_run(uint32_t kind, uint64_t bytes, struct versus *versus, struct why *why);

#endif
