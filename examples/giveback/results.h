/*
 * results: the figures of a run by name, in the order in which they were found.
 *
 * One list feeds the RESULT lines, the JSON file and the judgement, so that they cannot disagree.
 */
#ifndef GIVEBACK_RESULTS_H
#define GIVEBACK_RESULTS_H

#include <stdint.h>
#include <stdio.h>

#define RESULTS_MAX 192u

struct result {
	char key[80];
	char unit[16];
	double value;
	int is_whole; /* printed without a point */
};

struct results {
	struct result items[RESULTS_MAX];
	uint32_t n;
};

void results_count(struct results *results, uint64_t value, const char *unit, const char *key, ...)
	__attribute__((format(printf, 4, 5)));
void results_ratio(struct results *results, double value, const char *unit, const char *key, ...)
	__attribute__((format(printf, 4, 5)));

/* NULL: no such figure. */
const struct result *results_find(const struct results *results, const char *key, ...)
	__attribute__((format(printf, 2, 3)));

/* RESULT <key> <value> <unit>, a line each */
void results_print(const struct results *results, FILE *to);

/* The members of a JSON object: "key": {"value": ..., "unit": "..."}, ... */
void results_print_json(const struct results *results, FILE *to);

#endif
