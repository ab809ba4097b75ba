/*
 * merge: sorts the runs of a batch and joins neighbours into maximal runs, and deals the outcomes back to the parts.
 *
 * The problem: one call for 1024 adjacent frames costs a thirtieth of 1024 calls, and callers bring frames in the order
 * they were freed. Why this shape: indices are sorted, not runs, so that outcomes return in the caller's order; storage is
 * the caller's, nothing is allocated.
 * Not here: which runs take part (a hook may leave some out). Owns: nothing.
 * Invariants: parts of one merged run stand next to each other in `order`, by address.
 */
#ifndef PH_DISCARD_MERGE_H
#define PH_DISCARD_MERGE_H

#include <stdint.h>

#include <pagehint/outcome.h>
#include <pagehint/run.h>

#include "discard/result.h"

#define PH_MERGE_LEFT_OUT UINT32_MAX

struct ph_merge {
	uint32_t n;                  /* runs given */
	uint32_t taken;              /* of them in `order` */
	uint32_t merged_n;           /* maximal runs */
	uint32_t *order;             /* [n] indices of the runs taken, by address */
	uint32_t *part;              /* [n] in: LEFT_OUT or 0; out: index into `merged` */
	struct pagehint_run *merged; /* [n] */
};

/*
 * The first frame that a run which starts at `frame` must not reach; regions end there. *ret_least: frames that it takes to
 * free anything there, aligned.
 */
typedef uint64_t (*ph_merge_limit)(void *ctx, uint64_t frame, uint64_t *ret_least);

/* Sorts the runs whose part is not LEFT_OUT. Returns 0, or -EINVAL when two of them overlap. O(n) when in order already. */
int ph_merge_sort(struct ph_merge *merge, const struct pagehint_run *runs, uint32_t n);

/* After sort: fills merged and part. limit may be NULL. */
void ph_merge_join(struct ph_merge *merge, const struct pagehint_run *runs, ph_merge_limit limit, void *ctx);

/*
 * After join: got[0..merged_n) are used up and dealt out to outcomes[i] of every run that was not left out. What was kept for
 * its alignment goes to the runs whose edges it is; of all else only the sums are known.
 */
void ph_merge_deal(const struct ph_merge *merge, const struct pagehint_run *runs, uint32_t frame_shift,
		   ph_merge_limit limit, void *ctx, struct pagehint_outcome *got, struct pagehint_outcome *outcomes);

#endif
