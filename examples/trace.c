#include "trace.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace-pack.h"

int trace_refuse(struct trace_error *error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(error->text, sizeof(error->text), format, args);
	va_end(args);
	return -EINVAL;
}

void trace_free(struct trace *trace)
{
	free(trace->events);
	*trace = (struct trace) { 0 };
}

int trace_append(struct trace *trace, const struct trace_event *event)
{
	if (trace->n == trace->room) {
		size_t room = trace->room ? trace->room * 2 : 4096;
		struct trace_event *events;

		if (room > SIZE_MAX / sizeof(*events))
			return -ENOMEM;
		events = realloc(trace->events, room * sizeof(*events));
		if (!events)
			return -ENOMEM;
		trace->events = events;
		trace->room = room;
	}
	trace->events[trace->n++] = *event;
	trace->allocs += event->kind == TRACE_ALLOC;
	trace->foreign += event->kind == TRACE_FREE_FOREIGN;
	trace->lost += event->kind == TRACE_FREE_LOST;
	return 0;
}

uint64_t trace_peak_live(const struct trace *trace)
{
	uint64_t live = 0;
	uint64_t peak = 0;

	for (size_t i = 0; i < trace->n; i++) {
		uint64_t bytes = UINT64_C(4096) << trace->events[i].order;

		if (trace->events[i].kind == TRACE_ALLOC)
			live += bytes;
		else if (trace->events[i].kind != TRACE_FREE_FOREIGN)
			live -= bytes;
		if (live > peak)
			peak = live;
	}
	return peak;
}

int trace_parse(const char *name, const void *data, size_t bytes, struct trace *trace, struct trace_error *error)
{
	*trace = (struct trace) { 0 };
	if (bytes == 0)
		return trace_refuse(error, "%s: the file is empty", name);
	if (trace_is_packed(data, bytes))
		return trace_unpack(name, data, bytes, trace, error);
	return trace_parse_text(name, data, bytes, trace, error);
}

/* Reads to the end of the file, whatever it is (a pipe has no size). */
static int read_all(FILE *file, char **ret_data, size_t *ret_bytes)
{
	size_t room = 1u << 16;
	size_t bytes = 0;
	char *data = malloc(room);

	while (data) {
		size_t got = fread(data + bytes, 1, room - bytes, file);
		char *larger;

		bytes += got;
		if (got == 0)
			break;
		if (bytes < room)
			continue;
		larger = room > SIZE_MAX / 2 ? NULL : realloc(data, room * 2);
		if (!larger) {
			free(data);
			return -ENOMEM;
		}
		data = larger;
		room *= 2;
	}
	if (!data)
		return -ENOMEM;
	if (ferror(file)) {
		free(data);
		return -EIO;
	}
	*ret_data = data;
	*ret_bytes = bytes;
	return 0;
}

int trace_load(const char *path, struct trace *trace, struct trace_error *error)
{
	int is_stdin = strcmp(path, "-") == 0;
	FILE *file = is_stdin ? stdin : fopen(path, "rb");
	char *data = NULL;
	size_t bytes = 0;
	int rc;

	*trace = (struct trace) { 0 };
	if (!file) {
		rc = -errno;
		trace_refuse(error, "%s: %s", path, strerror(-rc));
		return rc;
	}
	rc = read_all(file, &data, &bytes);
	if (!is_stdin)
		fclose(file);
	if (rc) {
		trace_refuse(error, "%s: cannot be read: %s", path, strerror(-rc));
		return rc;
	}
	rc = trace_parse(is_stdin ? "standard input" : path, data, bytes, trace, error);
	free(data);
	return rc;
}
