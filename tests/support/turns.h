/*
 * turns: runs the threads of a small play one at a time, and goes through every order in which they can take turns.
 *
 * The problem: a race of three instructions is hit by chance once in a million rounds, or on another machine only. Why this
 * shape: the code under test is compiled once more with every atomic operation calling in here first (yield_atomics.h), its
 * threads are coroutines, and who goes on at each such place is a choice. All choices are gone through, depth first, with at
 * most so many preemptions (turns taken away; a thread that is through gives its turn away for nothing): the bound.
 * What is skipped, and why nothing is lost by it: a turn is only taken away in front of an access to a word that one thread
 * writes and another one uses. Any other access commutes with what the others do. Which words these are is learnt on the way;
 * when there is a new one, the play begins anew.
 * The memory that the atomics lie in is put back after each run, by a log of what was written.
 * Mutants: a test that finds nothing must be able to find something. A mutant is an atomic operation, named by its function,
 * that does not do what it should.
 */
#ifndef TESTS_SUPPORT_TURNS_H
#define TESTS_SUPPORT_TURNS_H

#include <stddef.h>
#include <stdint.h>

#define TURN_THREADS 3u

enum turn_wrong {
	TURN_RIGHT = 0,
	TURN_LOADS_NOTHING, /* its loads say 0 */
	TURN_WRITES_NOTHING,
	TURN_ALWAYS_EXCHANGES, /* its compare-and-exchanges do not compare */
};

struct turn_mutant {
	const char *func;
	enum turn_wrong wrong;
};

struct turn_play {
	uint32_t threads;
	uint32_t preemptions;
	void (*begin)(void);           /* before each run: what the test itself keeps */
	void (*body)(uint32_t thread); /* each thread's part */
	uint64_t (*mark)(
		void);       /* what the test itself keeps, as a number: with the memory it says all that judge sees */
	void (*judge)(void); /* after a run that ended in a way not seen before; may change the memory */
};

struct turn_result {
	uint64_t runs;     /* orders gone through, with the words that are contended known */
	uint64_t learning; /* orders before that */
	uint64_t ends;     /* different ends */
	uint64_t words;    /* contended words */
	int faulty;        /* something was wrong: what is in fault */
	char fault[160];
};

/* The memory that all atomics lie in, aligned to 8 bytes. */
void turns_on(void *memory, size_t bytes);

/* Goes through every order; stops at the first that is faulty. `mutant` may be NULL. */
struct turn_result turns_explore(const struct turn_play *play, const struct turn_mutant *mutant);

/* Something is wrong in this run. From a body it does not come back: the run is over. */
void turn_fault(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
