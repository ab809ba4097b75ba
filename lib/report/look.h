/*
 * look: where one pass over the whole origin stands, cut into windows that lie in one span and in one region.
 *
 * The problem: spans of the origin and regions of the backend do not line up; a run must not straddle a region, holes
 * between regions may be huge, and a pass must be able to stop anywhere. Why this shape: a cursor and a bound on the work;
 * a window is the next piece that one harvest may be asked about.
 * Not here: what is harvested (cycle.h), whether it may be (pace.h).
 * Owns: the cursor, and what was counted on the way. Called from: the cycle and the reporter.
 * Invariants: the cursor only rises within a look; every present frame is passed once, in a window or as no_region.
 * In a hole the search goes in strides of 2 MiB; where a stride meets a region, the first frame behind a hole is found. So a
 * region of 2 MiB or more is never missed, nor is a smaller one that touches the region above it. What begins and ends
 * within one stride, with holes on both sides, may be.
 */
#ifndef PH_REPORT_LOOK_H
#define PH_REPORT_LOOK_H

#include <stdint.h>

#include <pagehint/backend.h>

#include "report/origin.h"
#include "report/pace.h"

/* counted during one look; frames unless said */
struct ph_tally {
	uint64_t taken;                 /* isolated */
	uint64_t could[PH_GRANT_COUNT]; /* could have been, but for this answer of the pace */
	uint64_t young;                 /* not old enough yet */
	uint64_t no_region;             /* present, but the backend knows no region there */
	uint64_t least_bytes;           /* the largest least size met that is above the order in force [bytes] */
	uint64_t below_order;           /* from get_free, at the end */
	uint64_t below_least;           /* likewise */
	uint64_t hidden;                /* likewise */
	uint64_t free;                  /* likewise */
	uint64_t reported;              /* likewise */
	uint32_t origin_errors;         /* calls that failed */
	int32_t origin_error;           /* the last of them */
};

struct ph_look {
	uint64_t cursor;
	uint64_t span_end; /* frames [cursor, span_end) are present; <= cursor: ask the origin */
	uint32_t active;
	uint32_t reserved;
	struct ph_tally tally;
};

struct ph_window {
	uint64_t from;
	uint64_t to;
	uint64_t least_bytes;
};

void ph_look_begin(struct ph_look *look);

/*
 * Finds the next window, at the cursor or behind it; at most *work words are spent (and taken off *work).
 * Returns 0; -ENOENT the look is over; -EAGAIN the work ran out first.
 */
int ph_look_window(struct ph_look *look, const struct pagehint_origin *origin, struct pagehint_backend *backend,
		   uint32_t *work, struct ph_window *ret_window);

/* The frames before `next` have been looked at. */
void ph_look_advance(struct ph_look *look, uint64_t next);

#endif
