/*
 * cycle: isolate -> submit -> reap -> release, the state machine that carries runs from the origin to the backend and back.
 *
 * The problem: whatever a backend does, every frame that was taken must return exactly once, and while it is gone nobody may
 * have it. Why this shape: harvests fill one batch; it departs, is submitted whole or released at once; an answer releases
 * each of its runs by its own outcome. Nothing stays filled between two steps: frames are free, or in flight.
 * Not here: when and how much (pace.h), where (look.h), the public face (reporter.h).
 * Owns: the queue, room for outcomes, the counters. Borrows: origin, backend, pace.
 * Called from: the reporter, one call at a time, with no lock held.
 * Invariants: isolated = reported + kept + filled + in flight, in bytes, at every moment no callback runs.
 * What is in flight is released only by its answer, or when the backend says that the other side is gone (-ENODEV).
 */
#ifndef PH_REPORT_CYCLE_H
#define PH_REPORT_CYCLE_H

#include <stdint.h>

#include <pagehint/backend.h>

#include "report/futile.h"
#include "report/look.h"
#include "report/origin.h"
#include "report/pace.h"
#include "report/queue.h"

/* since creation; bytes unless said */
struct ph_counts {
	uint64_t looks, batches, runs; /* numbers */
	uint64_t isolated, reported, kept, failed;
	uint64_t kept_by[PAGEHINT_WHY_COUNT];
	uint64_t kept_at_look[PAGEHINT_WHY_COUNT]; /* 1 + number of the look in which kept_by last grew; 0 = never */
	uint64_t backoffs;                         /* number */
	uint64_t strays;                           /* answers that belong to nothing in flight */
	int32_t error;                             /* the last error of a backend call or outcome, 0 or -errno */
	uint32_t reserved;
};

struct ph_cycle {
	struct pagehint_origin *origin;
	struct pagehint_backend *backend;
	struct ph_pace *pace;
	struct pagehint_outcome *outcomes; /* queue.max_runs */
	struct ph_queue queue;
	struct ph_batch *filled;
	struct pagehint_run *scratch; /* queue.max_runs: what one harvest brings */
	struct ph_look look;
	struct ph_tally last; /* of the last look that was over */
	struct ph_counts counts;
	struct ph_futile futile;
	uint64_t muted_to;    /* frames below this are only looked at for the rest of this look */
	uint64_t interval_ns; /* when the interval began in which re-use is counted */
	uint64_t reuse_base;  /* handed_out at that time [frames] */
	uint64_t handed_out;  /* as last told */
	uint32_t room;        /* batches that the backend was seen to take, at most queue.n_slots */
	uint32_t frame_shift;
	uint32_t flags; /* PAGEHINT_DISCARD_* */
	uint32_t order; /* in force */
	uint32_t begun; /* a look was begun ever */
	uint32_t
		given_up; /* batches that were taken for lost with the other side: answers may be lying there all the same */
};

/* what ph_cycle_look stopped for */
enum {
	PH_STOP_OVER = 0, /* the look is over */
	PH_STOP_MORE = 1, /* work or budget is spent: go on at once */
	PH_STOP_RATE = 2, /* the rate leaves nothing */
	PH_STOP_ROOM = 3  /* the backend holds all it takes */
};

/* what one step may still do; `refill_ns` is written when it stops for the rate */
struct ph_allowance {
	uint64_t now_ns;
	uint64_t budget; /* bytes */
	uint64_t refill_ns;
	uint32_t work;    /* words */
	uint32_t literal; /* the budget is the caller's word; else one block is always allowed */
};

/* Asks caches to let go, closes the interval of re-use, and starts at frame 0; a look that was not over is dropped. */
void ph_cycle_look_begin(struct ph_cycle *cycle, uint64_t now_ns);

/* Goes on with the look until it is over or something stops it; everything isolated is submitted or released. */
uint32_t ph_cycle_look(struct ph_cycle *cycle, struct ph_allowance *allow);

/* Takes every answer there is and releases its runs; never waits. Returns how many batches ended. */
uint32_t ph_cycle_reap(struct ph_cycle *cycle, uint64_t now_ns);

/* Submits what is filled, or releases it when it is refused. */
void ph_cycle_submit(struct ph_cycle *cycle, uint64_t now_ns);

#endif
