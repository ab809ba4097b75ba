/*
 * state: what must outlive a worker: the device's saved state, and what the program was asked for.
 *
 * The problem: a worker may die at any instruction, and the next one must find a whole state. Why this shape: memory shared by
 * keeper and workers, two slots written in turn, and the number of the newest one published last; a slot that was being
 * written when its worker died is never the newest.
 * Owns: the shared memory. Written by the one worker that lives, cleared by the keeper when the guest is gone.
 */
#ifndef BALLOON_STATE_H
#define BALLOON_STATE_H

#include <stdint.h>

#include "options.h"

#define STATE_SLOT_BYTES (1u << 20)

struct state_slot {
	uint64_t bytes;
	unsigned char blob[STATE_SLOT_BYTES];
};

struct balloon_state {
	_Atomic uint64_t serial; /* slot serial % 2 is the newest; 0 = there is none */
	uint64_t target_bytes;   /* as last asked for */
	uint64_t rate_bytes;
	uint32_t least_order;
	uint32_t hold_back_ms;
	uint32_t stats_ms;
	uint32_t paused;
	uint64_t restarts; /* workers that died and were replaced */
	struct state_slot slots[2];
};

/* Return: the state, with what the options want; NULL: no memory. */
struct balloon_state *state_new(const struct balloon_options *options);

/* The newest blob; NULL: there is none. */
const void *state_newest(const struct balloon_state *state, uint64_t *ret_bytes);

/* Where to write the next blob, of at most STATE_SLOT_BYTES; then, how long it became. */
void *state_room(struct balloon_state *state);
void state_publish(struct balloon_state *state, uint64_t bytes);

/* The guest is gone. What was asked for stays. */
void state_forget(struct balloon_state *state);

#endif
