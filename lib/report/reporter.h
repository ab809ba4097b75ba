/*
 * reporter: what stands behind the public handle: a cycle, its pace, and when to be called next.
 *
 * Why this shape: the public functions only arrange; limits are in pace.h, the carrying in cycle.h. What other threads may
 * touch (pressure, enable) are two atomics that the next step reads.
 * Owns: one block of memory with everything in it; nothing is allocated later. Borrows: origin, backend, psi_fd.
 * Invariants: `inside` is 1 exactly while a step or a stop runs, so a callback that calls back in is told -EDEADLK; a look
 * starts one interval after the last one was over (so what a look passes has aged an interval, however long a look takes),
 * or at once when the pressure rises.
 */
#ifndef PH_REPORT_REPORTER_H
#define PH_REPORT_REPORTER_H

#include <stdatomic.h>
#include <stdint.h>

#include <pagehint/reporter.h>

#include "base/sys.h"
#include "report/cycle.h"

#define PH_MAIL_EMPTY UINT64_MAX

struct pagehint_reporter {
	const struct ph_sys *sys;
	int64_t owner; /* process that made it */
	struct ph_pace pace;
	struct ph_cycle cycle;
	_Atomic uint64_t mail; /* hold_ns * 4 + level of the last call of pressure; PH_MAIL_EMPTY = read */
	_Atomic uint32_t on;
	_Atomic uint32_t inside;
	uint64_t now_ns;  /* the latest time told */
	uint64_t next_ns; /* next look */
	uint64_t poll_ns; /* next question whether something in flight was answered */
	uint64_t poll_gap_ns;
	uint64_t max_bytes;
	uint64_t hold_ns; /* of a PSI event */
	uint64_t steps;
	uint64_t bound_ns;
	uint32_t level; /* pressure in force at the last step */
	uint32_t stop;  /* PH_STOP_* of the last look */
	int32_t psi_fd; /* -1 = none */
	int32_t psi_error;
};

/* pagehint_reporter_new with another operating system beneath (fork check, PSI). */
int ph_reporter_new_with(struct pagehint_origin *origin, struct pagehint_backend *backend,
			 const struct pagehint_reporter_opts *opts, const struct ph_sys *sys,
			 struct pagehint_reporter **ret_reporter);

/* An answer is overdue: something has been in flight for two intervals or more. */
int ph_reporter_silent(const struct pagehint_reporter *reporter);

#endif
