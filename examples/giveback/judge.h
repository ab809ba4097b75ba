/*
 * judge: says which figures missed their bound.
 *
 * Bounds are those the project promises for the recorded build; on a part of it, or on somebody else's trace, only those are
 * judged that hold for any input. A figure that was not taken (its memory is not to be had here) is not judged.
 */
#ifndef GIVEBACK_JUDGE_H
#define GIVEBACK_JUDGE_H

#include <stdio.h>

#include "results.h"

/* Prints a line for each figure that missed; returns how many did. is_build: the whole recorded build was replayed. */
unsigned judge(const struct results *results, int is_build, FILE *to);

#endif
