/*
 * plot: the published totals on the left, ours on the right, by number of threads; gnuplot, when it is there.
 */
#ifndef BENCH_PAGING_PLOT_H
#define BENCH_PAGING_PLOT_H

#include <stddef.h>

struct plot_line {
	const char *title;
	double kpages[5]; /* with 1, 2, 4, 8, 16 threads; 0 = not measured */
};

/* 0; -1 when it could not be drawn. */
int plot_totals(const char *path, const char *published, const struct plot_line *lines, size_t n);

#endif
