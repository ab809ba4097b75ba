/*
 * bounds: the figures that the allocator is judged by, made from the cases' minima, each beside its bound.
 *
 * A bound is a promise, not a test: a bench that misses one says so and ends well. Overlaps do not.
 */
#ifndef BENCH_ALLOC_BOUNDS_H
#define BENCH_ALLOC_BOUNDS_H

#include "../shim/shim.h"

/* What is known beside the cases' times. */
struct found {
	int has_huge_free;
	double huge_free_pct;
	int has_overlaps;
	uint64_t overlaps;
	uint64_t ops; /* among which they were looked for */
};

/* Publishes every figure whose cases were run, then says which hold. */
void bounds_judge(const struct bench_result *results, size_t n, const struct found *found);

#endif
