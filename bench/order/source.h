/*
 * source: the work that is played: what is allocated and freed, when, of which order.
 *
 * Two of them. The recorded build: real, but 99.9% of its allocations are single frames. And a synthetic churn for the mixed
 * orders: phases in which memory fills and empties, orders 0 to 8 falling by halves, and huge pages, a tenth of the memory.
 * Not here: where a block lies. Invariants: times never fall; a free names an allocation that was made and not freed.
 */
#ifndef BENCH_ORDER_SOURCE_H
#define BENCH_ORDER_SOURCE_H

#include <stddef.h>
#include <stdint.h>

struct source_event {
	uint64_t ns;
	uint32_t id; /* of the allocation */
	uint8_t order;
	uint8_t is_free;
};

struct source {
	const char *name;
	struct source_event *events;
	size_t n;
	uint32_t ids;
	uint64_t frames; /* of the machine it is played on: a multiple of 64 MiB */
};

/* 0, or -1: said why on standard error */
int source_trace(struct source *source, const char *path);
int source_churn(struct source *source, uint64_t seed);
void source_free(struct source *source);

#endif
