/*
 * meeting: two threads that meet again and again at slightly different distances, so that a window of a few nanoseconds is
 * hit sooner or later.
 */
#ifndef TESTS_SUPPORT_MEETING_H
#define TESTS_SUPPORT_MEETING_H

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

#define MEETINGS 20000

static inline void stroll(uint32_t steps)
{
	for (volatile uint32_t i = 0; i < steps; i++) {
	}
}

static inline void await(_Atomic uint32_t *what, uint32_t value)
{
	for (uint32_t spins = 1; atomic_load(what) != value; spins++)
		if (spins % 1024 == 0)
			sched_yield();
}

#endif
