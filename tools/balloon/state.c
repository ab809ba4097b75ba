#include "state.h"

#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>

struct balloon_state *state_new(const struct balloon_options *options)
{
	struct balloon_state *state =
		mmap(NULL, sizeof(*state), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (state == MAP_FAILED)
		return NULL;
	state->target_bytes = options->target_bytes;
	state->rate_bytes = options->rate_bytes;
	state->least_order = options->least_order;
	state->hold_back_ms = options->hold_back_ms;
	state->stats_ms = options->stats_ms;
	return state;
}

const void *state_newest(const struct balloon_state *state, uint64_t *ret_bytes)
{
	uint64_t serial = atomic_load(&state->serial);
	const struct state_slot *slot = &state->slots[serial % 2];
	if (serial == 0 || slot->bytes == 0 || slot->bytes > STATE_SLOT_BYTES)
		return NULL;
	*ret_bytes = slot->bytes;
	return slot->blob;
}

void *state_room(struct balloon_state *state)
{
	return state->slots[(atomic_load(&state->serial) + 1) % 2].blob;
}

void state_publish(struct balloon_state *state, uint64_t bytes)
{
	uint64_t next = atomic_load(&state->serial) + 1;
	state->slots[next % 2].bytes = bytes;
	atomic_store(&state->serial, next);
}

void state_forget(struct balloon_state *state)
{
	atomic_store(&state->serial, 0);
}
