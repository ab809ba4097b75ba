/*
 * trace-live: which allocation owns a frame of the recorded machine, while a text is being read.
 *
 * A hash of frame number to allocation number with open addressing; a free leaves a mark behind that an allocation may fill.
 * Owns its table. Called from trace-text.c only.
 */
#ifndef EXAMPLES_TRACE_LIVE_H
#define EXAMPLES_TRACE_LIVE_H

#include "trace.h"

struct trace_live_slot {
	uint64_t pfn;
	uint32_t id;
	uint8_t state;
	uint8_t order;
	uint16_t reserved;
};

struct trace_live {
	struct trace_live_slot *slots;
	size_t room; /* a power of two, or 0 */
	size_t used; /* slots that are not empty, marks included */
	size_t live;
};

/* A page was allocated: one event, or two when the recording had missed its free. 0 or -ENOMEM. */
int trace_live_alloc(struct trace_live *live, struct trace *trace, uint64_t us, uint64_t pfn, uint32_t order,
		     uint32_t migratetype);

/* A page was freed: one event, of the order it was allocated with. 0 or -ENOMEM. */
int trace_live_free(struct trace_live *live, struct trace *trace, uint64_t us, uint64_t pfn, uint32_t order);

void trace_live_destroy(struct trace_live *live);

#endif
