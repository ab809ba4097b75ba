/*
 * reporter.h: takes what has stayed free, in big runs, out of the allocator's reach, has a backend discard it, and gives it
 * back remembered as reported.
 *
 * The problem: reporting at once costs refaults and many small calls; reporting late leaves memory unreturned; reporting
 * through a slow backend must not hold the allocator back. Why this shape: a state machine that somebody else's event loop
 * steps: every step is bounded, time comes in as an argument, the next deadline goes out. There is no thread.
 * Ageing: a block of the origin's own order or more is taken when it was free at two looks, one interval apart, and untouched
 * between (S3's open question: small blocks get time to merge). So all free memory of the order in force is back within
 *     T = bytes / rate + 2 intervals.
 * Pressure makes less of that. While blocks below the granule of a zone are asked for (its ladder: SOME and FULL), pieces of
 * it do not age: what is free is taken at the first look that meets it. Under FULL nothing ages, whatever the origin. And a rise
 * of pressure begins a look at once, so the interval before that look is shorter.
 * Holding back: a look harvests upwards and stops taking when no more than what is to be left alone is unreported; so what
 * watermark and hold-back leave alone is what lies at the highest addresses.
 * The four knobs: interval, rate, watermark, hold-back.
 */
#ifndef PAGEHINT_REPORTER_H
#define PAGEHINT_REPORTER_H

#include <stddef.h>
#include <stdint.h>

#include <pagehint/api.h>
#include <pagehint/backend.h>
#include <pagehint/origin.h>
#include <pagehint/sink.h>

PAGEHINT_BEGIN

struct pagehint_reporter;

#define PAGEHINT_REPORTER_PSI 1u      /* psi_fd is valid: POLLPRI on it means pressure */
#define PAGEHINT_REPORTER_DISABLED 2u /* start switched off */
#define PAGEHINT_REPORTER_PROBE 4u    /* ask the backend for freed against absent */

/** struct pagehint_reporter_opts - NULL = defaults */
struct pagehint_reporter_opts {
	uint64_t struct_size;
	/* the four knobs */
	uint64_t interval_ns; /* between two looks; 0 = 4 s */
	uint64_t rate;        /* bytes a second given back at the most; 0 = no limit */
	uint64_t watermark;   /* unreported free memory to leave alone, the highest [bytes]; 0 = none */
	uint32_t
		holdback_intervals; /* keep as much as was re-used in the busiest of so many intervals; 0..64; 0 = keep nothing */
	uint32_t flags;             /* PAGEHINT_REPORTER_* */
	/* rarely needed */
	uint64_t max_bytes_per_step; /* 0 = 256 MiB; one block of the order in force is always allowed */
	uint64_t backoff_ns;         /* pause after a batch in vain, doubled up to 32 times it; 0 = one interval */
	uint64_t pressure_hold_ns;   /* how long a PSI event lasts; 0 = 10 s */
	int32_t psi_fd;              /* borrowed */
	uint32_t max_in_flight;      /* batches in flight; 0 = 2; 1..64 */
};

/* pressure levels: which orders the ladder may go down to */
#define PAGEHINT_PRESSURE_NONE 0u /* the origin's own order, usually 2 MiB */
#define PAGEHINT_PRESSURE_SOME 1u /* 64 KiB; pieces below a zone's granule do not age */
#define PAGEHINT_PRESSURE_FULL 2u /* one frame; no ageing, no hold-back, no watermark */

/** struct pagehint_reporter_stats - since creation; bytes unless said */
struct pagehint_reporter_stats {
	uint64_t struct_size;
	uint64_t steps;
	uint64_t looks;             /* whole passes over the origin */
	uint64_t batches;           /* submitted */
	uint64_t runs;              /* in them */
	uint64_t isolated;          /* taken from the origin */
	uint64_t reported;          /* returned as reported (freed, absent, accepted or lazy below) */
	uint64_t kept;              /* returned unreported, and the kept parts of reported runs */
	uint64_t failed;            /* of kept: by error */
	uint64_t below_order;       /* free, unreported, too small for the order in force (as of the last look) */
	uint64_t below_least;       /* free, but below the least size that frees on its backing (as of the last look) */
	uint64_t held_back;         /* left alone by watermark and hold-back (as of the last look) */
	uint64_t in_flight;         /* at the backend now */
	uint64_t refaults_expected; /* handed out although reported: they fault in again */
	uint64_t backoffs;
	uint64_t bound_ns; /* T for what was free at the last look */
	uint64_t kept_by[PAGEHINT_WHY_COUNT];
	uint32_t order;    /* in force now */
	uint32_t pressure; /* in force now */
};

/**
 * pagehint_reporter_new - a reporter between an origin and a backend
 * @origin:       borrowed, one reporter an origin
 * @backend:      borrowed, used by nobody else meanwhile
 * @opts:         NULL for defaults
 * @ret_reporter: the handle
 * Return: 0; -EINVAL a value out of its bounds, frame_shift of origin and backend differ, or a watermark or hold-back on an
 * origin without get_free; -E2BIG; -ENOMEM.
 * Thread: init-only.   Cost: one allocation.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_reporter_new(struct pagehint_origin *origin,
							   struct pagehint_backend *backend,
							   const struct pagehint_reporter_opts *opts,
							   struct pagehint_reporter **ret_reporter);

/**
 * pagehint_reporter_free - frees it; NULL is allowed
 * Return: 0; -EBUSY runs are in flight: pagehint_reporter_stop first (nothing is changed). In a child after fork always 0:
 * what is in flight is the parent's, the child's copy of the memory is freed.
 * Thread: init-only.   Cost: one free.   Since: 0.1
 */
PAGEHINT_API int pagehint_reporter_free(struct pagehint_reporter *reporter);

/**
 * pagehint_reporter_step - does one bounded piece of work
 * @reporter:     the reporter
 * @now_ns:       monotonic time; going backwards is treated as standing still
 * @budget:       bytes to give back in this step at the most (less than a block: the step only looks);
 *                0 = max_bytes_per_step
 * @ret_deadline: call again at this time at the latest (now_ns or earlier: at once); UINT64_MAX: only when something
 *                arrives
 *
 * Ages, isolates, submits, reaps, releases. An error of the backend is no error of the step: it is counted, backed off and
 * explained.
 * Return: 0; -EDEADLK called from a callback of the same reporter; -ENODEV after fork.
 * Thread: one-per-handle.   Cost: bounded by budget and by 65 536 words of the origin.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_reporter_step(struct pagehint_reporter *reporter, uint64_t now_ns,
							    uint64_t budget, uint64_t *ret_deadline);

/**
 * pagehint_reporter_pressure - tells how badly the host wants memory
 * @reporter: the reporter
 * @level:    PAGEHINT_PRESSURE_*
 * @hold_ns:  falls back to NONE after this long from the next step on; 0 = until told otherwise
 * Return: 0; -EINVAL unknown level.
 * Thread: any.   Cost: O(1).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_reporter_pressure(struct pagehint_reporter *reporter, uint32_t level,
								uint64_t hold_ns);

/**
 * pagehint_reporter_enable - switches it on or off at run time
 * @on: 0 = nothing new is isolated; what is in flight is still reaped and released by steps
 * Thread: any.   Cost: O(1).   Since: 0.1
 */
PAGEHINT_API void pagehint_reporter_enable(struct pagehint_reporter *reporter, uint32_t on);

/**
 * pagehint_reporter_stop - switches off and drains: everything in flight is reaped and released
 * @reporter:     the reporter
 * @now_ns:       monotonic time
 * @ret_deadline: when -EAGAIN: call again then
 * Return: 0 nothing is in flight or isolated any more; -EAGAIN the backend has not answered yet; -EDEADLK; -ENODEV.
 * Thread: one-per-handle.   Cost: O(runs in flight).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_reporter_stop(struct pagehint_reporter *reporter, uint64_t now_ns,
							    uint64_t *ret_deadline);

/**
 * pagehint_reporter_stats - reads the counters
 * @reporter: the reporter
 * @stats:    struct_size set by the caller; the rest is written
 * Return: 0; -EINVAL struct_size below 8.
 * Thread: one-per-handle.   Cost: O(1).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_reporter_stats(const struct pagehint_reporter *reporter,
							     struct pagehint_reporter_stats *stats);

/**
 * pagehint_reporter_explain - names the first missing link when memory does not come back, then the others
 * @reporter: the reporter
 * @sink:     receives the lines; NULL, or without a line function: nothing happens
 * Thread: one-per-handle.   Cost: O(regions).   Since: 0.1
 */
PAGEHINT_API void pagehint_reporter_explain(struct pagehint_reporter *reporter, const struct pagehint_sink *sink);

PAGEHINT_END
#endif
