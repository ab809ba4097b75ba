/*
 * handle: what a backend handle is made of, for the files that make up this room: backend.c (life, figures), dispatch.c
 * (discard), queue.c (submit and reap), populate.c, explain.c.
 *
 * Invariants: one thread is inside at a time (`inside` is its identity, 0 = nobody), and only it writes anything here but
 * `inside` itself; counters are atomic so that any thread may read them. All memory is one allocation, made at the start.
 * A batch keeps its gate entered from before its first hook until its outcomes are known.
 */
#ifndef PH_DISCARD_HANDLE_H
#define PH_DISCARD_HANDLE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <pagehint/backend.h>
#include <pagehint/gate.h>

#include "base/sys.h"
#include "discard/hooks.h"
#include "discard/merge.h"
#include "discard/result.h"

#define PH_BACKEND_CHUNK 1024u      /* runs a call below, when the ops table takes any number */
#define PH_BACKEND_CHUNK_MAX 16384u /* and at the most, whatever it takes */
#define PH_BACKEND_SLOT_RUNS 65536u /* room for asynchronous batches [runs], within the two bounds below */
#define PH_BACKEND_SLOTS_MIN 4u
#define PH_BACKEND_SLOTS_MAX 64u

#define PH_BACKEND_COUNTERS (sizeof(struct pagehint_backend_stats) / sizeof(uint64_t))

/* A batch at an asynchronous implementation. Its identity below is index + generation, so that a stale one is noticed. */
struct ph_slot {
	uint32_t used;
	uint32_t generation;
	uint32_t inhibited; /* the gate was closed: nothing reached the implementation, nothing was entered */
	uint32_t reserved;
	uint64_t cookie; /* the caller's */
	struct pagehint_run *runs;
	struct ph_merge merge;
};

/* The one finished batch that waits to be reaped. */
struct ph_held {
	uint32_t used;
	uint32_t n;
	uint64_t cookie;
	struct pagehint_outcome *outcomes;
};

struct pagehint_backend {
	struct pagehint_backend_ops ops;
	void *ctx;
	const struct ph_sys *sys;
	struct pagehint_gate *gate;
	struct ph_hooks hooks;
	int64_t pid;
	_Atomic uintptr_t inside;
	uint32_t frame_shift;
	uint32_t max_runs;
	uint32_t last_why; /* of the last failure */
	int32_t last_error;
	struct pagehint_run last_run;
	struct ph_merge merge;             /* of the call that is inside */
	struct pagehint_outcome *got;      /* [max_runs] what the ops table says */
	struct pagehint_outcome *outcomes; /* [max_runs] by caller's run, when the caller brings no room */
	struct ph_held held;
	struct ph_slot *slots;
	uint32_t slots_n;
	_Atomic uint64_t counters[PH_BACKEND_COUNTERS]; /* struct pagehint_backend_stats, word by word */
};

/* Where a member of the statistics stands among the counters, and adding to it. */
#define PH_WORD(member) (offsetof(struct pagehint_backend_stats, member) / sizeof(uint64_t))
#define PH_COUNT(backend, member, amount) ph_backend_count((backend), PH_WORD(member), (amount))
void ph_backend_count(struct pagehint_backend *backend, size_t word, uint64_t amount);
void ph_backend_count_sum(struct pagehint_backend *backend, const struct ph_sum *sum);

/* Enters the handle: 0; -ENODEV in a fork; -EDEADLK from its own callback; -EBUSY another thread is inside. */
int ph_backend_begin(struct pagehint_backend *backend);
void ph_backend_end(struct pagehint_backend *backend);

/* 0; -EINVAL NULL with n > 0, a run empty, wrapping, or too far up to be counted in bytes. */
int ph_backend_check_runs(const struct pagehint_backend *backend, const struct pagehint_run *runs, uint32_t n);

/*
 * The steps of a discard, for one batch of at most max_runs. `merge->part` says afterwards which runs take part.
 * prepare: before_discard for every run in the caller's order, then sorting and merging. 0 or -EINVAL (no hook was called).
 * settle:  checks `done` outcomes in got, deals all out in the caller's order, calls after_discard. Returns the first error.
 */
int ph_backend_prepare(struct pagehint_backend *backend, struct ph_merge *merge, const struct pagehint_run *runs,
		       uint32_t n);
int ph_backend_settle(struct pagehint_backend *backend, struct ph_merge *merge, const struct pagehint_run *runs,
		      int result, uint32_t done, struct pagehint_outcome *outcomes);

/* Everything from gate to after_discard for any number of runs; the handle is entered, the runs are checked. */
int ph_backend_discard_inside(struct pagehint_backend *backend, const struct pagehint_run *runs, uint32_t n,
			      uint32_t flags, struct pagehint_outcome *outcomes, struct pagehint_outcome *ret_sum,
			      uint32_t *ret_done);

/* Fills outcomes (may be NULL) and adds to sum: every run kept for one reason. */
void ph_backend_keep_all(const struct pagehint_backend *backend, const struct pagehint_run *runs, uint32_t n,
			 uint32_t why, struct pagehint_outcome *outcomes, struct ph_sum *sum);
/* The same, failed: not tried. */
void ph_backend_fail_all(const struct pagehint_backend *backend, const struct pagehint_run *runs, uint32_t n, int error,
			 struct pagehint_outcome *outcomes, struct ph_sum *sum);

#endif
