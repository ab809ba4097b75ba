/*
 * crew: runs a loop on one thread or on several at once, and says how long it took.
 *
 * One thread: its own CPU time, which preemption by others does not touch. Several: the common interval, from the first
 * start to the last end, so that threads that did not overlap get no credit. Threads are pinned to different CPUs.
 */
#ifndef BENCH_ALLOC_CREW_H
#define BENCH_ALLOC_CREW_H

#include "subject.h"

#define CREW_MAX 2u

/* pins the calling thread; returns how many CPUs there are for a crew */
unsigned crew_start(void);

/* nanoseconds; jobs[thread].done and .failed are the loop's */
double crew_run(loop_fn loop, void *state, struct job *jobs, unsigned threads);

/* the same outside of the measurement: what comes before and after (a name of its own for profilers) */
void crew_prepare(loop_fn loop, void *state, struct job *jobs, unsigned threads);

double crew_cpu_ns(void); /* CPU time of the calling thread */

#endif
