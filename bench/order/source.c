#include "source.h"

#include <stdio.h>
#include <stdlib.h>

#include "trace.h"

#define STEP_FRAMES (UINT64_C(64) << 20 >> 12)
#define CHURN_FRAMES (UINT64_C(2) << 30 >> 12)
#define CHURN_EVENTS 600000u
#define CHURN_NS UINT64_C(100000) /* between two events: a minute in all */
#define CHURN_PHASE 60000u        /* events from full to empty */
#define HUGE_ORDER 9u

static uint64_t rnd(uint64_t *s, uint64_t below)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return (*s >> 11) % below;
}

int source_trace(struct source *source, const char *path)
{
	struct trace trace;
	struct trace_error error;
	if (trace_load(path, &trace, &error) != 0) {
		fprintf(stderr, "order: %s\n", error.text);
		return -1;
	}
	*source = (struct source) { .name = "trace", .ids = trace.allocs };
	source->events = malloc(trace.n * sizeof(*source->events));
	source->frames = (trace_peak_live(&trace) / 2 * 3 / 4096 + STEP_FRAMES) / STEP_FRAMES * STEP_FRAMES;
	for (size_t i = 0; source->events != NULL && i < trace.n; i++) {
		const struct trace_event *e = &trace.events[i];
		if (e->kind != TRACE_FREE_FOREIGN)
			source->events[source->n++] =
				(struct source_event) { e->us * 1000, e->id, e->order, e->kind != TRACE_ALLOC };
	}
	trace_free(&trace);
	if (source->events == NULL)
		return fprintf(stderr, "order: no memory\n"), -1;
	return 0;
}

/* orders 0 to 8, each half as likely as the one before; one in 1024 is a huge page, which makes a tenth of what is asked for */
static uint8_t draw_order(uint64_t *seed)
{
	uint64_t bits = rnd(seed, 256), order = 0;
	if (rnd(seed, 1024) == 0)
		return HUGE_ORDER;
	while (order < 8 && (bits >> order & 1) == 0)
		order++;
	return (uint8_t)order;
}

/* What is live wanders from a quarter of the memory to two thirds and back: a phase of growing, one of shrinking. */
static int wants_free(uint64_t *seed, uint32_t event, uint64_t live)
{
	uint64_t least = CHURN_FRAMES / 4, most = CHURN_FRAMES / 3 * 2;
	int shrinks = event / CHURN_PHASE % 2 != 0;
	if (live <= least || live >= most)
		return live >= most;
	return rnd(seed, 100) < (shrinks ? 56 : 44);
}

int source_churn(struct source *source, uint64_t seed)
{
	uint32_t *alive = malloc(CHURN_EVENTS * sizeof(*alive)), n = 0;
	uint8_t *orders = malloc(CHURN_EVENTS);
	uint64_t live = 0;
	*source = (struct source) { .name = "churn", .frames = CHURN_FRAMES };
	source->events = malloc(CHURN_EVENTS * sizeof(*source->events));
	if (alive == NULL || orders == NULL || source->events == NULL)
		return fprintf(stderr, "order: no memory\n"), -1;
	for (uint32_t i = 0; i < CHURN_EVENTS; i++) {
		struct source_event *e = &source->events[source->n++];
		if (n != 0 && wants_free(&seed, i, live)) {
			uint32_t at = (uint32_t)rnd(&seed, n), id = alive[at];
			alive[at] = alive[--n];
			*e = (struct source_event) { i * CHURN_NS, id, orders[id], 1 };
			live -= UINT64_C(1) << orders[id];
		} else {
			uint32_t id = source->ids++;
			orders[id] = draw_order(&seed);
			alive[n++] = id;
			*e = (struct source_event) { i * CHURN_NS, id, orders[id], 0 };
			live += UINT64_C(1) << orders[id];
		}
	}
	free(alive);
	free(orders);
	return 0;
}

void source_free(struct source *source)
{
	free(source->events);
	source->events = NULL;
}
