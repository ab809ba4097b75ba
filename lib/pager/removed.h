/*
 * removed: pages that go away, by a discard of this process or by an event of another.
 *
 * The problem: what is discarded must not come back from the source, and a discard must not wait for a flight. Why this
 * shape: the discarder marks LEAVING first, and nobody resolves such a page until it has ended; what is in flight is left
 * to its flight, which makes it zero if it still can. An event of another process is a fact already: it only marks.
 * Called from: join/pager_backend.c (part, leave, left, wipe), event.c (event).
 */
#ifndef PH_PAGER_REMOVED_H
#define PH_PAGER_REMOVED_H

#include "pager/pager.h"

/* what a part of a run is */
enum {
	PH_STAYS = 0,   /* in flight */
	PH_LEAVES = 1,  /* marked */
	PH_OUTSIDE = 2, /* in no region: nothing is marked */
	PH_EDGE = 3,    /* less than a page */
};

struct ph_leaving {
	uint64_t frame;
	uint64_t frames;
	uint32_t leaves; /* PH_STAYS .. */
	uint32_t run;    /* which run it is of: the caller's */
};

/*
 * How far frames [frame, frame + frames) are alike: up to the edge of a region, *ret_inside telling whether that part is in
 * one. Returns frames, at least 1.
 */
uint64_t ph_removed_part(struct pagehint_pager *p, uint64_t frame, uint64_t frames, int *ret_inside);

/*
 * Marks whole pages of [frame, frame + frames), which lies in one region; what is less than a page of the region is kept.
 * Fills at most `max` parts that cover it from the start; the rest of it, from *ret_frames on, was not looked at.
 */
uint32_t ph_removed_leave(struct pagehint_pager *p, uint64_t frame, uint64_t frames, struct ph_leaving *parts,
			  uint32_t max, uint64_t *ret_frames);

/* How a part that left has ended. */
enum {
	PH_LEFT_ALL = 0,  /* it is gone: zero from now on */
	PH_LEFT_NONE = 1, /* it is all as it was */
	/* nobody knows what of it: what was never here stays absent, the rest counts as here and written */
	PH_LEFT_SOME = 2,
};
void ph_removed_left(struct pagehint_pager *p, uint64_t frame, uint64_t frames, uint32_t how);

/*
 * Zeroes what is present of frames that stay; they are LEAVING. What is absent becomes zero by its mark; what is poisoned is not
 * touched, and stays so. Returns how many bytes were zeroed; those that are poisoned in *ret_poisoned.
 */
uint64_t ph_removed_wipe(struct pagehint_pager *p, uint64_t frame, uint64_t frames, uint64_t *ret_poisoned);

/* An event: host addresses [start, end) are gone. */
void ph_removed_event(struct pagehint_pager *p, uint64_t start, uint64_t end);

#endif
