/*
 * plot: how many times as fast as inflation in 4 KiB pages each way of shrinking a guest is: published on the left, ours on the
 * right. Ratios: of wall time with the discards there, of the host's CPU time without them here.
 */
#ifndef BENCH_RECLAIM_PLOT_H
#define BENCH_RECLAIM_PLOT_H

#include <stddef.h>

#include "../shim/shim.h"

/* The median of a case, or of its ratio to its baseline; 0 = it was not measured. */
double result_of(const struct bench_result *results, size_t n, const char *name, int ratio);

/* Draws what was measured, and says where it is; or that it could not. */
void plot_times(const char *path, const char *published, const struct bench_result *results, size_t n);

#endif
