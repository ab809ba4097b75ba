/*
 * report: everything that is shown: the figures by name, the table for people, the JSON file, the picture.
 *
 * Owns nothing. What a run found is in struct run; nothing here measures.
 */
#ifndef GIVEBACK_REPORT_H
#define GIVEBACK_REPORT_H

#include <stdio.h>

#include "backing.h"
#include "naive.h"
#include "replay.h"
#include "results.h"

/* One backing's turn. */
struct run {
	uint32_t kind;
	int is_done; /* else this machine has no such memory */
	uint64_t bytes;
	struct replay_result replay;
	struct naive_result naive;
};

/* Figures of all runs, then those of the replay as a whole (the worst of the backings with small pages). */
void report_figures(const struct run *runs, uint32_t n, struct results *results);

void report_table(const struct run *runs, uint32_t n, FILE *to);

/* 0 or -errno. */
int report_json(const char *path, const char *trace, const struct run *runs, uint32_t n, const struct results *results);

/* Draws one run over trace time. 0; -ENOENT gnuplot is not installed; or another -errno. */
int report_picture(const char *path, const struct run *run);

#endif
