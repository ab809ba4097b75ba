/*
 * workload: the work that every subject does alike: what is in hand before, what is timed, what must hold afterwards.
 *
 *   alloc   all frames, one block after the other, out of memory that is free again after use
 *   free    all of them, in the order of allocation or shuffled
 *   pairs   half full, at random places: free a random block, allocate one; `cross`: the block may be another thread's
 *   churn   the same, 512 frees and then 512 allocations
 *   mix     half full, orders 0 to 9 with P(order k) ~ 2^-k: free a random block, allocate one of a random order
 *
 * Invariants: each check is an overlap check of all that is in hand, and no call failed.
 * Not here: work that only a zone can do (own.h).
 */
#ifndef BENCH_ALLOC_WORKLOAD_H
#define BENCH_ALLOC_WORKLOAD_H

#include "crew.h"
#include "subject.h"

enum work_kind { WORK_ALLOC, WORK_FREE, WORK_PAIRS, WORK_CHURN, WORK_MIX };

struct workload {
	const char *name;
	enum work_kind kind;
	uint32_t order;
	uint32_t batches; /* passes a round */
	int shuffled;     /* WORK_FREE */
	int cross;        /* WORK_PAIRS: over all threads' blocks */
};

/* What a case found beside its time, over all rounds. */
struct outcome {
	uint64_t rounds;
	double least_huge_free_pct; /* WORK_MIX */
};

/* A case: this work, done by this subject, with so many threads, on so many frames. */
struct plan {
	const struct workload *work;
	const struct subject *who;
	struct outcome *outcome;
	uint64_t frames;
	unsigned threads;
};

uint64_t workload_ops(const struct plan *plan); /* operations of a thread in one pass */

/* the steps of a case, as the shim wants them; the argument of `open` is a plan */
void *workload_open(const void *plan);
void workload_prepare(void *ctx, uint64_t n);
double workload_timed(void *ctx, uint64_t n);
int workload_check(void *ctx);
void workload_close(void *ctx);

/* passes of `live` in place of what is timed; returns how often a frame was in two hands or a call failed */
uint64_t workload_live(const struct plan *plan, unsigned passes, uint64_t *ret_ops);

#endif
