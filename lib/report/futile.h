/*
 * futile: where memory was asked for in vain, and until when it is left in peace.
 *
 * The problem: what a backend keeps for what it is (clean page cache, no whole page, a backing that cannot) is kept again at
 * every try, for ever; a pause of the whole reporter would hold up memory that can be given back. Why this shape: one range of
 * frames that is only looked at until a time; each round in vain doubles it, and so does nothing else. What lies outside
 * goes on; when the time is over everything in it is tried once.
 * Not here: back-off of a backend that fails (pace.h), regions that refuse for this look only (the cycle's muted_to).
 * Owns: nothing but its values. Called from: the cycle.
 * Invariants: a pause is at most 32 back-offs; the range is the hull of what was in vain since the pause began.
 */
#ifndef PH_REPORT_FUTILE_H
#define PH_REPORT_FUTILE_H

#include <stdint.h>

#include "report/look.h"
#include "report/pace.h"

struct ph_futile {
	uint64_t from; /* frames [from, to) */
	uint64_t to;
	uint64_t until_ns;
	uint32_t rounds; /* in vain in a row; 0 = none */
	uint32_t quiet;  /* looks begun since the pause was over */
	uint32_t why;    /* PAGEHINT_WHY_* of the last */
	uint32_t reserved;
};

/* Frames [from, to) were asked for in vain. Returns 1 when that begins a pause, 0 when it joins the one there is. */
int ph_futile_note(struct ph_futile *futile, const struct ph_pace *pace, uint64_t now_ns, uint64_t from, uint64_t to,
		   uint32_t why);

/* A look begins: some of them after a pause in which nothing more was in vain, and all is forgotten. */
void ph_futile_look(struct ph_futile *futile, uint64_t now_ns);

/* Cuts the window at the borders of the range. Returns 1 when it lies in it, 0 outside, or when there is no pause. */
int ph_futile_cut(const struct ph_futile *futile, uint64_t now_ns, struct ph_window *window);

#endif
