/*
 * scenario: a whole cycle of the library in which one thing fails: the k-th system call of a kind, or allocation, or callback, for
 * each kind and k = 1, 2, .. until there is no k-th any more.
 *
 * A scenario says `attempt` of every call that may fail: what failed must have failed for what was made to fail, and says so by its
 * error; done again, it succeeds. After each run nothing may be left: no descriptor, no mapping of the library's, no allocation.
 * The executable links with --wrap=calloc, malloc, aligned_alloc and free.
 */
#ifndef TESTS_SUPPORT_SCENARIO_H
#define TESTS_SUPPORT_SCENARIO_H

#include <stdint.h>

#include <pagehint/sink.h>

#include "support/faulty_sys.h"

enum scenario_kind { SCENARIO_NOTHING, SCENARIO_CALL, SCENARIO_ALLOCATION, SCENARIO_CALLBACK };

struct scenario {
	struct faulty_sys faulty;
	const struct ph_sys *sys; /* what the library gets */
	_Atomic uint64_t points;  /* so far, of the kind that fails */
	uint64_t fail_at;
	enum scenario_kind fail_kind;
	enum faulty_call fail_call; /* FAULTY_CALLS: no call */
	int error;
	/* what failed */
	_Atomic enum scenario_kind kind;
	enum faulty_call call;
	/* over a whole sweep */
	uint64_t struck[FAULTY_CALLS], allocations, callbacks;
};

/* Of a callback of the scenario's own: 0, or what it shall fail with. */
int scenario_callback(struct scenario *s);

/* on: what is allocated meanwhile is a fake's, no point and no leak of the library's. Of one thread. */
void scenario_apart(struct scenario *s, int on);

/* An error of the library: 1 when it is the one of what failed. */
int scenario_explains(const struct scenario *s, int error);

/* Does it; when it fails for what was made to fail, once more. */
#define ATTEMPT(s, what)                                                          \
	do {                                                                      \
		int attempted = (what);                                           \
		if (attempted != 0) {                                             \
			if (!scenario_explains((s), attempted))                   \
				scenario_unexplained((s), #what, attempted);      \
			attempted = (what);                                       \
		}                                                                 \
		if (attempted != 0)                                               \
			scenario_unexplained((s), #what " once more", attempted); \
	} while (0)
void scenario_unexplained(const struct scenario *s, const char *what, int error);

/*
 * Runs it for every kind and k, and each of these errors; says how much was made to fail. Ends the test when a call of `reached` never
 * was: the scenario does not get there any more. Returns how often something was made to fail.
 */
uint64_t scenario_sweep(struct scenario *s, void (*run)(struct scenario *s), const int *errors, unsigned n,
			const enum faulty_call *reached, unsigned n_reached);

/* What an explain says, searched. */
int scenario_said(void (*explain)(void *handle, const struct pagehint_sink *sink), void *handle, const char *text);

#endif
