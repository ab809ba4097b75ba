/*
 * shim: google-benchmark behind a C face.
 *
 * The problem: a figure alone says nothing, and two figures from two runs say little. Why this shape: every case names its
 * baseline; case and baseline run in one process, in rounds, in a random order within each round (seed printed), so that
 * drift and noise hit both alike; what is published is minimum, median and spread over the rounds, and ratios of those.
 * A case whose check fails fails the whole bench: a fast wrong answer is not a result.
 * Not here: what is measured (bench/<name>.c). Owns: nothing beyond bench_main. This directory is the only C++ we have.
 *
 * Output: a table for people, then lines `RESULT <key> <value> <unit>`, and the same with every round as JSON.
 */
#ifndef BENCH_SHIM_H
#define BENCH_SHIM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A case. Per round: setup once, then (prepare, batch) several times, then check, then teardown; only batch is timed. */
struct bench_case {
	const char *name;                       /* "anon.2m"; the key is <bench>.<name> */
	const char *baseline;                   /* name of another case in the table; NULL: this is one itself */
	uint64_t n;                             /* operations in one batch; figures are per operation */
	uint64_t bytes;                         /* bytes that one batch deals with: adds GiB/s; 0 = none */
	uint32_t batches;                       /* batches a round; 0 = 1 */
	void *(*setup)(void);                   /* NULL result = the case cannot run: an error */
	void (*prepare)(void *ctx, uint64_t n); /* before every batch, not timed; NULL = nothing */
	void (*batch)(void *ctx, uint64_t n);
	int (*check)(void *ctx); /* 0 = the work was really done; required */
	void (*teardown)(void *ctx);
	/* for tables that are made of parts: instead of setup, with the case's own argument */
	void *(*open)(const void *arg);
	const void *arg;
	/* for work that has a clock of its own (thread CPU time, several threads): instead of batch; returns its time [ns] */
	double (*timed)(void *ctx, uint64_t n);
};

/* What one case gave, for figures of a bench's own. Times are ns per operation. */
struct bench_result {
	const char *name;
	double min;
	double median;
	double max;
	double min_ratio;    /* this min / baseline min; 0 for a baseline */
	double median_ratio; /* median of the rounds' own ratios; 0 for a baseline */
};

/* Called once all rounds are through, before the JSON is closed; prints its own lines with bench_publish. */
typedef void (*bench_summary)(const struct bench_result *results, size_t n);

/*
 * Runs the cases of a bench and publishes them. Arguments: [--rounds N] (at least 7, default 9) [--seed N] [--json FILE]
 * [--quick] (3 rounds: for a look, not for a figure) [--only NAME] (cases whose name begins so, and their baselines; the
 * summary gets no others).
 * Returns the exit code of the program: 0; 1 a check or a setup failed; 2 wrong arguments or a wrong table.
 */
int bench_main(int argc, char **argv, const char *bench, const struct bench_case *cases, size_t n,
	       bench_summary summary);

/* Publishes one more figure: RESULT <bench>.<key>, or <key> as it is when it has a dot. */
void bench_publish(const char *key, double value, const char *unit);

#ifdef __cplusplus
}
#endif
#endif
