/*
 * judge: says which figures missed their bound, and what that makes of the run as a whole.
 *
 * What holds for any input is judged always: no page is lost, what the library says it freed is what left the host, nothing is
 * given back twice, a zone costs so many bits. The rest is promised for the recorded build: on a part of it what comes back
 * must still be something, on somebody else's trace it may be nothing. A figure that should have been taken and was not is a
 * miss, so that a run that measured nothing cannot pass.
 */
#ifndef GIVEBACK_JUDGE_H
#define GIVEBACK_JUDGE_H

#include <stdio.h>

#include "backing.h"
#include "results.h"

enum judge_scope {
	JUDGE_BUILD, /* the whole recorded build */
	JUDGE_PART,  /* the first part of it */
	JUDGE_OWN,   /* a trace of the user's */
};

struct judge_case {
	enum judge_scope scope;
	uint32_t ran;                /* bit BACKING_*: its figures must be there */
	struct why absent[BACKINGS]; /* why a backing that was wanted did not run; "" else */
};

/* Prints a line for each figure that missed; returns how many did. */
unsigned judge(const struct results *results, const struct judge_case *about, FILE *to);

/* The last line of a run. */
void judge_say(unsigned missed, const struct judge_case *about, FILE *to);

#endif
