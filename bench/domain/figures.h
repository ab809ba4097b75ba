/*
 * figures: what was measured, of every case in every round; medians and spread, a table, the JSON, the picture.
 */
#ifndef BENCH_DOMAIN_FIGURES_H
#define BENCH_DOMAIN_FIGURES_H

#include <stddef.h>
#include <stdint.h>

#include "host.h"

#define MAX_ROUNDS 32u

/* one kind of extent, one way, one size */
struct figure {
	char name[32]; /* "4k.batch.64" */
	uint32_t order;
	enum way way;
	uint32_t gib;
	unsigned rounds;           /* how many there are to be */
	unsigned n;                /* how many there are */
	double create[MAX_ROUNDS]; /* CPU time [s] */
	double destroy[MAX_ROUNDS];
	uint64_t flushes; /* asked for by the last creation on its own [flushes] */
};

double figures_median(const double *v, unsigned n);
double figures_min(const double *v, unsigned n);
double figures_max(const double *v, unsigned n);

void figures_table(const struct figure *f, size_t n);

/* RESULT <key> <value> <unit>, kept for the JSON */
void figures_publish(const char *key, double value, const char *unit);

/* 0, or -errno */
int figures_json(const char *path, const struct figure *f, size_t n, unsigned long seed);

/* Draws both the published curve and this one with gnuplot; 0; -1 when it could not be drawn. */
int figures_plot(const char *path, const char *published, const struct figure *f, size_t n);

extern const char *const way_names[WAYS];

#endif
