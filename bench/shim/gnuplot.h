/*
 * gnuplot: pictures of the benches: opens gnuplot on a file, and hands it figures that somebody published, to stand beside ours.
 */
#ifndef BENCH_SHIM_GNUPLOT_H
#define BENCH_SHIM_GNUPLOT_H

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A gnuplot that draws an SVG into `path` (no quotes in it) of what is written to it now; NULL: there is none, or it does not start. */
FILE *gnuplot_open(const char *path, unsigned width, unsigned height);

/* The lines of a CSV file that are no comment, as the data block $name. */
void gnuplot_csv(FILE *to, const char *name, const char *csv);

/* 0 = it was drawn */
int gnuplot_close(FILE *to);

#ifdef __cplusplus
}
#endif

#endif
