/*
 * trace: a recording of page allocations and frees, as a replay wants it.
 *
 * The problem: a replay needs to know when a page was allocated, of which order, and which later free belongs to it; it does
 * not need to know where the recorded machine had put it. Why this shape: allocations are numbered in the order in which they
 * happened, and a free names the number; frame numbers of the recorded machine serve only to find it while text is read.
 * Three inputs, told apart by their first bytes: our packed form (trace-pack.h), what `perf script -F time,event,trace`
 * prints for kmem:mm_page_alloc and kmem:mm_page_free, and comma-separated us,op,pfn,order,migratetype.
 * Not here: what is done with it (giveback/replay.h).
 * Invariants of a loaded trace: times never fall; ids of allocations count up from 0; every free names an allocation that
 * has happened and was not freed before.
 */
#ifndef EXAMPLES_TRACE_H
#define EXAMPLES_TRACE_H

#include <stddef.h>
#include <stdint.h>

#define TRACE_ORDER_MAX 18u
#define TRACE_MIGRATETYPE_MAX 7u
#define TRACE_NO_ID UINT32_MAX

/* what an event is */
enum {
	TRACE_ALLOC = 0,
	TRACE_FREE = 1,
	TRACE_FREE_FOREIGN = 2, /* of a page that was allocated before the recording began; id is TRACE_NO_ID */
	TRACE_FREE_LOST = 3     /* not recorded, but the page was allocated again: it must have been freed by now */
};

struct trace_event {
	uint64_t us; /* since the first event */
	uint32_t id; /* number of the allocation */
	uint8_t kind;
	uint8_t order;
	uint8_t migratetype; /* of an allocation: 0 unmovable, 1 movable, 2 reclaimable, ... */
	uint8_t reserved;
};

struct trace {
	struct trace_event *events;
	size_t n;
	size_t room;
	uint32_t allocs;  /* numbered 0 .. allocs - 1 */
	uint64_t foreign; /* frees of pages from before the recording */
	uint64_t lost;    /* frees that the recording missed */
	uint64_t resized; /* frees of another order than the allocation's (split pages), taken as frees of the whole */
	uint64_t skipped; /* well-formed lines about something else, and failed allocations */
};

/* what went wrong, for people: "FILE:LINE: ..." for text, "FILE: byte N: ..." for the packed form */
struct trace_error {
	char text[400];
};

/* Loads a whole file ("-": standard input). 0 or -errno; on failure *trace is empty and *error says why and where. */
int trace_load(const char *path, struct trace *trace, struct trace_error *error);

/* The same from memory; name stands in messages. */
int trace_parse(const char *name, const void *data, size_t bytes, struct trace *trace, struct trace_error *error);

/* Text only; perf's lines, or comma-separated ones after their header line. */
int trace_parse_text(const char *name, const char *text, size_t bytes, struct trace *trace, struct trace_error *error);

/* Appends one event; 0 or -ENOMEM. Checks nothing: what calls it has checked. */
int trace_append(struct trace *trace, const struct trace_event *event);

/* The most bytes that were live at once, a frame being 4 KiB. */
uint64_t trace_peak_live(const struct trace *trace);

void trace_free(struct trace *trace);

/* Fills *error and returns -EINVAL. */
int trace_refuse(struct trace_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
