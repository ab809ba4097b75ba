/*
 * hooks: the embedder's callbacks as one handle sees them, and the limit on log lines.
 *
 * The problem: a guest that provokes errors must not flood a log. Why this shape: a window of one second with room for
 * ten lines; what did not fit is counted, and the next line that fits says so first.
 * Not here: when a hook is called (dispatch). Owns: a copy of the table.
 */
#ifndef PH_DISCARD_HOOKS_H
#define PH_DISCARD_HOOKS_H

#include <stdint.h>

#include <pagehint/backend.h>

#include "base/sys.h"

#define PH_LOG_LINES 10u
#define PH_LOG_WINDOW_NS INT64_C(1000000000)

struct ph_hooks {
	struct pagehint_hooks table;
	int64_t window_start;
	uint32_t window_lines; /* handed out in this window; 0 = no window yet */
	uint64_t dropped;      /* not yet told */
	uint64_t dropped_total;
};

/* NULL = none. Returns 0; -EINVAL; -E2BIG. */
int ph_hooks_init(struct ph_hooks *hooks, const struct pagehint_hooks *from);

/* 0 = go on. */
int ph_hooks_before_discard(const struct ph_hooks *hooks, const struct pagehint_run *run);
void ph_hooks_after_discard(const struct ph_hooks *hooks, const struct pagehint_run *run,
			    const struct pagehint_outcome *outcome);
int ph_hooks_after_populate(const struct ph_hooks *hooks, const struct pagehint_run *run);
void ph_hooks_trace(const struct ph_hooks *hooks, const char *what, uint32_t runs, const struct pagehint_outcome *sum);
void ph_hooks_log(struct ph_hooks *hooks, const struct ph_sys *sys, uint32_t level, const char *text);

#endif
