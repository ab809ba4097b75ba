/*
 * worker: the process that does the work: the device behind its end of a channel, and the clients that ask for its state.
 *
 * The problem: it reads what guests write, so it is the one that may die. Why this shape: it keeps nothing that the keeper does
 * not have too (see keeper.h), runs behind a filter of system calls, and ends when its channel does.
 */
#ifndef BALLOON_WORKER_H
#define BALLOON_WORKER_H

#include "options.h"
#include "state.h"

/* how a worker ends, beside being killed */
#define WORKER_DONE 0   /* the channel was closed, or what came through it was no vhost-user: not to be replaced */
#define WORKER_FAILED 1 /* it could not begin */

struct worker_sockets {
	int channel; /* vhost-user, from the keeper */
	int control; /* listening, or -1 */
	int metrics;
};

/* Return: WORKER_*: the exit status. */
int worker_run(const struct balloon_options *options, struct balloon_state *state,
	       const struct worker_sockets *sockets);

#endif
