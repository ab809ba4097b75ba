/*
 * keeper: the process that stays: it holds the frontend's socket, every descriptor that came through it, and the state, over the
 * death of a worker.
 *
 * The problem: User-Mode Linux cannot reconnect, and a guest whose report is never acknowledged waits for ever. Why this shape:
 * towards the frontend the keeper is a backend that never dies; towards a worker it is a frontend that can reconnect. It passes
 * messages on, remembers the last of each kind (journal.h), and says them again to the next worker; a question that the dead one
 * did not answer is asked again. Kicks, calls and guest memory go to the worker directly.
 * Not here: what any of it means. The keeper maps no guest memory and reads no ring.
 * Owns: the frontend's connection, the workers. Borrows: the listening sockets and the state.
 */
#ifndef BALLOON_KEEPER_H
#define BALLOON_KEEPER_H

#include "options.h"
#include "state.h"

struct keeper_sockets {
	int frontend; /* listening, all three; -1 = none, but for the first */
	int control;
	int metrics;
};

/* Runs until SIGTERM or SIGINT. Return: 0; 1 workers die as fast as they are made, or none can be made. */
int keeper_run(const struct balloon_options *options, struct balloon_state *state,
	       const struct keeper_sockets *sockets);

#endif
