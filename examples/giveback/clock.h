/*
 * clock: real time, for speeds and progress only; everything that is decided goes by the trace's own clock.
 */
#ifndef GIVEBACK_CLOCK_H
#define GIVEBACK_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* What this thread has used of a CPU: both sides of a comparison work in it, and nobody else's work counts. */
static inline uint64_t clock_used_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
