#include "trace-live.h"

#include <errno.h>
#include <stdlib.h>

enum { EMPTY = 0, TAKEN = 1, LEFT = 2 };

static size_t home(const struct trace_live *live, uint64_t pfn)
{
	return (size_t)((pfn * UINT64_C(0x9e3779b97f4a7c15)) >> 20) & (live->room - 1);
}

/* The slot of this pfn, or the one where it belongs. There is always an empty slot, so the search ends. */
static struct trace_live_slot *find(const struct trace_live *live, uint64_t pfn)
{
	struct trace_live_slot *left = NULL;

	for (size_t i = home(live, pfn);; i = (i + 1) & (live->room - 1)) {
		struct trace_live_slot *slot = &live->slots[i];

		if (slot->state == EMPTY)
			return left ? left : slot;
		if (slot->state == TAKEN && slot->pfn == pfn)
			return slot;
		if (slot->state == LEFT && !left)
			left = slot;
	}
}

static int make_room(struct trace_live *live)
{
	struct trace_live old = *live;

	if (live->room && live->used < live->room / 2)
		return 0;
	live->room = 1024;
	while (live->room < old.live * 4)
		live->room *= 2;
	live->slots = calloc(live->room, sizeof(*live->slots));
	if (!live->slots) {
		*live = old;
		return -ENOMEM;
	}
	live->used = old.live;
	for (size_t i = 0; i < old.room; i++) {
		if (old.slots[i].state == TAKEN)
			*find(live, old.slots[i].pfn) = old.slots[i];
	}
	free(old.slots);
	return 0;
}

static int append(struct trace *trace, uint64_t us, uint32_t kind, uint32_t id, uint32_t order, uint32_t migratetype)
{
	struct trace_event event = {
		.us = us,
		.id = id,
		.kind = (uint8_t)kind,
		.order = (uint8_t)order,
		.migratetype = (uint8_t)migratetype,
	};

	return trace_append(trace, &event);
}

int trace_live_alloc(struct trace_live *live, struct trace *trace, uint64_t us, uint64_t pfn, uint32_t order,
		     uint32_t migratetype)
{
	struct trace_live_slot *slot;
	int rc = make_room(live);

	if (rc)
		return rc;
	slot = find(live, pfn);
	if (slot->state == TAKEN) {
		rc = append(trace, us, TRACE_FREE_LOST, slot->id, slot->order, 0);
		if (rc)
			return rc;
	} else {
		live->used += slot->state == EMPTY;
		live->live++;
	}
	*slot = (struct trace_live_slot) { .pfn = pfn, .id = trace->allocs, .state = TAKEN, .order = (uint8_t)order };
	return append(trace, us, TRACE_ALLOC, slot->id, order, migratetype);
}

int trace_live_free(struct trace_live *live, struct trace *trace, uint64_t us, uint64_t pfn, uint32_t order)
{
	struct trace_live_slot *slot = live->room ? find(live, pfn) : NULL;

	if (!slot || slot->state != TAKEN)
		return append(trace, us, TRACE_FREE_FOREIGN, TRACE_NO_ID, order, 0);
	/* a split block comes back in pieces: its first piece frees all of it, the others then look foreign */
	trace->resized += slot->order != order;
	slot->state = LEFT;
	live->live--;
	return append(trace, us, TRACE_FREE, slot->id, slot->order, 0);
}

void trace_live_destroy(struct trace_live *live)
{
	free(live->slots);
	*live = (struct trace_live) { 0 };
}
