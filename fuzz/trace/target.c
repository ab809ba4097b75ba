/*
 * The reader of traces: text, the packed form, and payloads in a frame that zstd finds good. The first byte says which.
 *
 * Checked: what is accepted keeps the promises of trace.h, has an event a line, is the same once it went through the packed form, and is
 * refused when it is cut off; what is refused leaves nothing, and says why.
 */
#include <zstd.h>

#include "input.h"
#include "trace-pack.h"
#include "trace.h"

#define MAGIC "PHTRACE1"
#define MAGIC_BYTES 8u

/* The order of the n-th allocation + 1, or 0 when it is free. */
static void judge(const struct trace *t)
{
	uint8_t *live = calloc(t->n + 1, 1);
	uint64_t n[4] = { 0 }, us = 0;
	SURE(live != NULL && t->n != 0);
	for (size_t i = 0; i < t->n; i++) {
		const struct trace_event *e = &t->events[i];
		SURE(e->us >= us && e->kind <= TRACE_FREE_LOST && e->order <= TRACE_ORDER_MAX);
		us = e->us;
		if (e->kind == TRACE_ALLOC) {
			SURE(e->id == n[TRACE_ALLOC] && e->migratetype <= TRACE_MIGRATETYPE_MAX);
			live[e->id] = (uint8_t)(e->order + 1);
		} else if (e->kind == TRACE_FREE_FOREIGN) {
			SURE(e->id == TRACE_NO_ID);
		} else {
			SURE(e->id < n[TRACE_ALLOC] && live[e->id] == e->order + 1);
			live[e->id] = 0;
		}
		n[e->kind]++;
	}
	SURE(n[TRACE_ALLOC] == t->allocs && n[TRACE_FREE_FOREIGN] == t->foreign && n[TRACE_FREE_LOST] == t->lost);
	SURE(trace_peak_live(t) <= t->allocs * (UINT64_C(4096) << TRACE_ORDER_MAX));
	free(live);
}

static void judge_same(const struct trace *a, const struct trace *b)
{
	SURE(a->n == b->n && a->allocs == b->allocs && a->foreign == b->foreign && a->lost == b->lost);
	for (size_t i = 0; i < a->n; i++) {
		const struct trace_event *x = &a->events[i], *y = &b->events[i];
		SURE(x->us == y->us && x->id == y->id && x->kind == y->kind && x->order == y->order);
		SURE(x->kind != TRACE_ALLOC || x->migratetype == y->migratetype);
	}
}

static void judge_packed(const struct trace *t)
{
	struct trace_error error;
	struct trace again;
	void *data;
	size_t bytes;
	SURE(trace_pack(t, &data, &bytes) == 0);
	SURE(trace_parse("t", data, bytes, &again, &error) == 0);
	judge_same(t, &again);
	trace_free(&again);
	SURE(trace_parse("t", data, bytes - 1, &again, &error) != 0 && again.events == NULL);
	free(data);
}

/* Lines that say something: all after the header of the comma-separated ones; else those that are neither blank nor a remark. */
static size_t lines_of(const char *text, size_t bytes)
{
	int is_csv = bytes >= 3 && memcmp(text, "us,", 3) == 0;
	size_t n = 0;
	for (const char *at = text, *end; at < text + bytes; at = end + 1) {
		end = memchr(at, '\n', (size_t)(text + bytes - at));
		const char *stop = end > at && end[-1] == '\r' ? end - 1 : end;
		while (!is_csv && at < stop && (*at == ' ' || *at == '\t'))
			at++;
		n += is_csv ? at != text : at != stop && *at != '#';
	}
	return n;
}

/* 1 when it was accepted */
static int read_in(const void *data, size_t bytes)
{
	struct trace_error error = { "" };
	struct trace t;
	int r = trace_parse("t", data, bytes, &t, &error);
	if (r != 0) {
		SURE(t.events == NULL && t.n == 0 && strncmp(error.text, "t:", 2) == 0);
		return 0;
	}
	judge(&t);
	if (!trace_is_packed(data, bytes))
		SURE(t.n - t.lost + t.skipped == lines_of(data, bytes));
	judge_packed(&t);
	trace_free(&t);
	return 1;
}

/* behind the magic: the bytes as they are, or as what zstd has packed */
static void read_packed(const uint8_t *data, size_t bytes, int compress)
{
	size_t room = MAGIC_BYTES + (compress ? ZSTD_compressBound(bytes) : bytes);
	uint8_t *whole = malloc(room);
	SURE(whole != NULL);
	memcpy(whole, MAGIC, MAGIC_BYTES);
	if (compress) {
		size_t r = ZSTD_compress(whole + MAGIC_BYTES, room - MAGIC_BYTES, data, bytes, 1);
		SURE(!ZSTD_isError(r));
		room = MAGIC_BYTES + r;
	} else {
		memcpy(whole + MAGIC_BYTES, data, bytes);
	}
	uint8_t *exact = realloc(whole, room); /* so that a byte too far is seen */
	(void)read_in(exact, room);
	free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	if (bytes < 2)
		return 0;
	uint8_t what = data[0] % 4, *exact;
	data++, bytes--;
	if (what >= 2) {
		read_packed(data, bytes, what == 2);
		return 0;
	}
	exact = malloc(bytes);
	SURE(exact != NULL);
	memcpy(exact, data, bytes);
	/* without its last newline it is cut off, unless that ended an empty line */
	if (read_in(exact, bytes) && !trace_is_packed(exact, bytes) && exact[bytes - 2] != '\n') {
		struct trace_error error;
		struct trace t;
		SURE(trace_parse("t", exact, bytes - 1, &t, &error) != 0 && t.events == NULL);
	}
	free(exact);
	return 0;
}
