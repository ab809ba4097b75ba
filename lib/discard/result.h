/*
 * result: arithmetic on outcomes: one class at a time, sums, checks, and dealing one outcome out to the parts it covers.
 *
 * The problem: every byte asked for must end in exactly one class, also when a merged run is split again and when a backend
 * lies. Why this shape: nobody adds to an outcome by hand; every way to do so keeps
 *     asked = freed + absent + accepted + kept + lazy + failed.
 * Not here: who decides the class. Owns: nothing. Called from: the dispatch, and the backends of host/.
 */
#ifndef PH_DISCARD_RESULT_H
#define PH_DISCARD_RESULT_H

#include <stdint.h>

#include <pagehint/outcome.h>

/* These add bytes to `asked` and to one class. A reason gives way to another that brings more than all before it. */
void ph_outcome_freed(struct pagehint_outcome *to, uint64_t bytes);
void ph_outcome_absent(struct pagehint_outcome *to, uint64_t bytes);
void ph_outcome_accepted(struct pagehint_outcome *to, uint64_t bytes);
void ph_outcome_kept(struct pagehint_outcome *to, uint64_t bytes, uint32_t why);
void ph_outcome_lazy(struct pagehint_outcome *to, uint64_t bytes, uint32_t why);
void ph_outcome_failed(struct pagehint_outcome *to, uint64_t bytes, uint32_t why, int32_t error);

/* The sum of many outcomes; knows by reason, so that the total names the reason of the largest part. Starts all zero. */
struct ph_sum {
	struct pagehint_outcome total;
	uint64_t kept_by[PAGEHINT_WHY_COUNT];
	uint64_t lazy_by[PAGEHINT_WHY_COUNT];
	uint64_t failed_by[PAGEHINT_WHY_COUNT];
	int32_t error_of[PAGEHINT_WHY_COUNT]; /* the first of each reason */
};

/* `one` must be true in the sense of ph_outcome_is_true. */
void ph_sum_add(struct ph_sum *sum, const struct pagehint_outcome *one);
struct pagehint_outcome ph_sum_total(const struct ph_sum *sum);

/* 1 when it asked for exactly `asked` bytes, its classes add up to that, and each class that needs a reason has a known one. */
int ph_outcome_is_true(const struct pagehint_outcome *outcome, uint64_t asked);

/*
 * Moves `bytes` out of `from` into a fresh outcome. Classes go in a fixed order: freed, accepted, absent, lazy, kept,
 * failed. Called for the parts of a merged run in address order this gives exact sums for every part; the place of what
 * was kept or failed is that of a backend which works from the front, since an outcome does not say places.
 */
struct pagehint_outcome ph_outcome_take(struct pagehint_outcome *from, uint64_t bytes);

/* A few words for PAGEHINT_WHY_*; "?" if unknown. */
const char *ph_why_text(uint32_t why);

#endif
