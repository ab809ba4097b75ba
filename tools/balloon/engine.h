/*
 * engine: the vhost-user device of one worker, with the wishes of the program applied to it.
 *
 * Not here: sockets of clients, processes. Owns: the vhost handle, the gate. Borrows: the state that outlives it.
 * Invariants: after every step the newest state of the device is in the shared memory.
 */
#ifndef BALLOON_ENGINE_H
#define BALLOON_ENGINE_H

#include <stdint.h>

#include <pagehint/device_control.h>
#include <pagehint/gate.h>
#include <pagehint/vhost.h>

#include "options.h"
#include "state.h"

struct engine {
	struct pagehint_vhost *vhost;
	struct pagehint_gate *gate;
	struct balloon_state *state;
	uint64_t hinted_ranges; /* of the current run */
	uint64_t hinted_bytes;
	uint64_t unsaved; /* times the state did not fit */
	uint64_t now_ns;
	uint64_t running; /* queues, after the last step */
	int unloaded;     /* what the last worker left waits for the first queue, and is the newest state still */
};

/* Makes the backend that memory goes through; NULL = the library's own. A file of its own: tests replace it by wrong ones. */
extern int (*const engine_backend)(void *ctx, struct pagehint_map *map, struct pagehint_gate *gate,
				   struct pagehint_backend **ret_backend);
/* Told of every hinted range, or NULL. */
extern void (*const engine_hinted)(uint32_t id, const struct pagehint_run *runs, uint32_t n);

/* Return: 0; else what the library gave. */
int engine_open(struct engine *engine, const struct balloon_options *options, struct balloon_state *state);
void engine_close(struct engine *engine);

/* One step, and the wishes that it makes possible. Return and ret_deadline: as pagehint_vhost_step. */
int engine_step(struct engine *engine, uint64_t now_ns, uint64_t *ret_deadline);

/* The wishes in the state changed. Return: 0; else what the library gave. */
int engine_apply(struct engine *engine);

#endif
