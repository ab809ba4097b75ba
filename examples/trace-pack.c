#include "trace-pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

static const char magic[8] = { 'P', 'H', 'T', 'R', 'A', 'C', 'E', '1' };

#define NUMBER_BYTES 10u                /* the longest a 64-bit number gets */
#define PAYLOAD_MAX (UINT64_C(1) << 30) /* no honest trace needs more; keeps a forged length from taking all memory */

enum { WHAT, WHEN, WHOSE, MIGRATETYPE, COLUMNS };

struct column {
	uint8_t *data;
	size_t bytes;
};

int trace_is_packed(const void *data, size_t bytes)
{
	/* a file that is cut off within the magic is still ours */
	size_t length = bytes < sizeof(magic) ? bytes : sizeof(magic);

	return length > 0 && memcmp(data, magic, length) == 0;
}

static void put_number(struct column *to, uint64_t value)
{
	for (; value >= 128; value >>= 7)
		to->data[to->bytes++] = (uint8_t)(value | 128);
	to->data[to->bytes++] = (uint8_t)value;
}

/* 0; -EINVAL it runs past the end or does not fit 64 bits */
static int get_number(struct column *from, uint64_t *ret_value)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < NUMBER_BYTES && from->bytes > 0; i++) {
		uint8_t byte = *from->data++;

		from->bytes--;
		if (i == NUMBER_BYTES - 1 && byte > 1)
			return -EINVAL;
		value |= (uint64_t)(byte & 127) << (7 * i);
		if (byte < 128) {
			*ret_value = value;
			return 0;
		}
	}
	return -EINVAL;
}

static uint64_t fold_sign(int64_t value)
{
	return value < 0 ? ((uint64_t)(-(value + 1)) << 1) | 1 : (uint64_t)value << 1;
}

static int64_t unfold_sign(uint64_t value)
{
	return value & 1 ? -(int64_t)(value >> 1) - 1 : (int64_t)(value >> 1);
}

static void fill_columns(const struct trace *trace, struct column *columns)
{
	uint64_t last_us = 0;
	int64_t last_id = 0;

	for (size_t i = 0; i < trace->n; i++) {
		const struct trace_event *event = &trace->events[i];

		columns[WHAT].data[columns[WHAT].bytes++] = (uint8_t)(event->kind | event->order << 2);
		put_number(&columns[WHEN], event->us - last_us);
		last_us = event->us;
		if (event->kind == TRACE_ALLOC) {
			columns[MIGRATETYPE].data[columns[MIGRATETYPE].bytes++] = event->migratetype;
		} else if (event->kind != TRACE_FREE_FOREIGN) {
			put_number(&columns[WHOSE], fold_sign((int64_t)event->id - last_id));
			last_id = event->id;
		}
	}
}

static int compress_payload(const struct column *payload, void **ret_data, size_t *ret_bytes)
{
	size_t room = ZSTD_compressBound(payload->bytes);
	uint8_t *out = malloc(sizeof(magic) + room);
	ZSTD_CCtx *ctx = ZSTD_createCCtx();
	size_t bytes = 0;
	int rc = out && ctx ? 0 : -ENOMEM;

	if (!rc && (ZSTD_isError(ZSTD_CCtx_setParameter(ctx, ZSTD_c_compressionLevel, 19)) ||
		    ZSTD_isError(ZSTD_CCtx_setParameter(ctx, ZSTD_c_checksumFlag, 1))))
		rc = -EINVAL;
	if (!rc) {
		bytes = ZSTD_compress2(ctx, out + sizeof(magic), room, payload->data, payload->bytes);
		rc = ZSTD_isError(bytes) ? -EINVAL : 0;
	}
	ZSTD_freeCCtx(ctx);
	if (rc) {
		free(out);
		return rc;
	}
	memcpy(out, magic, sizeof(magic));
	*ret_data = out;
	*ret_bytes = sizeof(magic) + bytes;
	return 0;
}

int trace_pack(const struct trace *trace, void **ret_data, size_t *ret_bytes)
{
	size_t room = trace->n * NUMBER_BYTES + NUMBER_BYTES;
	struct column columns[COLUMNS] = { 0 };
	struct column payload = { 0 };
	int rc = 0;

	for (unsigned c = 0; c < COLUMNS; c++) {
		columns[c].data = malloc(room);
		rc = columns[c].data ? rc : -ENOMEM;
	}
	payload.data = malloc(COLUMNS * room + 8 * NUMBER_BYTES);
	rc = payload.data ? rc : -ENOMEM;
	if (!rc) {
		fill_columns(trace, columns);
		put_number(&payload, trace->n);
		put_number(&payload, trace->allocs);
		for (unsigned c = 0; c < COLUMNS; c++) {
			put_number(&payload, columns[c].bytes);
			memcpy(payload.data + payload.bytes, columns[c].data, columns[c].bytes);
			payload.bytes += columns[c].bytes;
		}
		rc = compress_payload(&payload, ret_data, ret_bytes);
	}
	for (unsigned c = 0; c < COLUMNS; c++)
		free(columns[c].data);
	free(payload.data);
	return rc;
}

/* The payload, its checksum verified by zstd. */
static int decompress(const char *name, const uint8_t *data, size_t bytes, struct column *ret_payload,
		      struct trace_error *error)
{
	unsigned long long size = ZSTD_getFrameContentSize(data, bytes);
	size_t frame = ZSTD_findFrameCompressedSize(data, bytes);
	size_t got;

	if (ZSTD_isError(frame) || size == ZSTD_CONTENTSIZE_UNKNOWN || size == ZSTD_CONTENTSIZE_ERROR)
		return trace_refuse(error, "%s: byte %zu: the packed trace is cut off or damaged", name,
				    bytes + sizeof(magic));
	if (frame != bytes)
		return trace_refuse(error, "%s: byte %zu: something follows the end of the packed trace", name,
				    frame + sizeof(magic));
	if (size > PAYLOAD_MAX)
		return trace_refuse(error, "%s: byte %zu: claims to unpack to %llu bytes, more than any trace", name,
				    sizeof(magic), size);
	ret_payload->data = malloc(size ? (size_t)size : 1);
	if (!ret_payload->data) {
		trace_refuse(error, "%s: out of memory", name);
		return -ENOMEM;
	}
	got = ZSTD_decompress(ret_payload->data, (size_t)size, data, bytes);
	if (ZSTD_isError(got) || got != size) {
		free(ret_payload->data);
		ret_payload->data = NULL;
		return trace_refuse(error, "%s: byte %zu: the packed trace is damaged: %s", name, sizeof(magic),
				    ZSTD_isError(got) ? ZSTD_getErrorName(got) : "short");
	}
	ret_payload->bytes = got;
	return 0;
}

static int split_columns(struct column *payload, struct column *columns, uint64_t *ret_events, uint64_t *ret_allocs)
{
	if (get_number(payload, ret_events) || get_number(payload, ret_allocs))
		return -EINVAL;
	for (unsigned c = 0; c < COLUMNS; c++) {
		uint64_t bytes;

		if (get_number(payload, &bytes) || bytes > payload->bytes)
			return -EINVAL;
		columns[c] = (struct column) { payload->data, (size_t)bytes };
		payload->data += bytes;
		payload->bytes -= (size_t)bytes;
	}
	if (payload->bytes != 0 || *ret_events != columns[WHAT].bytes || *ret_allocs != columns[MIGRATETYPE].bytes ||
	    *ret_allocs >= TRACE_NO_ID)
		return -EINVAL;
	return 0;
}

/* orders[id]: order of a live allocation + 1; 0 = not live */
static const char *next_event(struct column *columns, struct trace_event *event, uint64_t allocs, uint8_t *orders,
			      int64_t *last_id)
{
	uint8_t what = *columns[WHAT].data++;
	uint64_t number;

	event->kind = what & 3;
	event->order = what >> 2;
	event->id = TRACE_NO_ID;
	event->migratetype = 0;
	if (event->order > TRACE_ORDER_MAX)
		return "the order is too large";
	if (get_number(&columns[WHEN], &number) || number > UINT64_MAX - event->us)
		return "the time is damaged";
	event->us += number;
	if (event->kind == TRACE_ALLOC) {
		if (columns[MIGRATETYPE].bytes == 0)
			return "more allocations than were announced";
		columns[MIGRATETYPE].bytes--;
		event->migratetype = *columns[MIGRATETYPE].data++;
		event->id = (uint32_t)(allocs - columns[MIGRATETYPE].bytes - 1);
		orders[event->id] = (uint8_t)(event->order + 1);
		return event->migratetype > TRACE_MIGRATETYPE_MAX ? "the migratetype is too large" : NULL;
	}
	if (event->kind == TRACE_FREE_FOREIGN)
		return NULL;
	if (get_number(&columns[WHOSE], &number) || number > UINT64_C(1) << 33)
		return "the id of a free is damaged";
	*last_id += unfold_sign(number);
	if (*last_id < 0 || *last_id >= (int64_t)allocs || orders[*last_id] != event->order + 1)
		return "frees what is not allocated";
	orders[*last_id] = 0;
	event->id = (uint32_t)*last_id;
	return NULL;
}

static int read_events(const char *name, struct column *payload, struct trace *trace, struct trace_error *error)
{
	struct column columns[COLUMNS];
	struct trace_event event = { 0 };
	uint64_t events = 0;
	uint64_t allocs = 0;
	int64_t last_id = 0;
	const char *complaint = NULL;
	uint8_t *orders;
	int rc = 0;

	if (split_columns(payload, columns, &events, &allocs))
		return trace_refuse(error, "%s: the columns of the packed trace do not add up", name);
	orders = calloc(allocs ? (size_t)allocs : 1, 1);
	if (!orders)
		rc = -ENOMEM;
	for (uint64_t i = 0; i < events && !rc; i++) {
		complaint = next_event(columns, &event, allocs, orders, &last_id);
		if (complaint)
			rc = trace_refuse(error, "%s: event %llu: %s", name, (unsigned long long)i + 1, complaint);
		else
			rc = trace_append(trace, &event);
	}
	free(orders);
	if (rc == -ENOMEM)
		trace_refuse(error, "%s: out of memory", name);
	if (!rc && (columns[WHEN].bytes || columns[WHOSE].bytes || columns[MIGRATETYPE].bytes))
		rc = trace_refuse(error, "%s: event %llu: the packed trace goes on after its last event", name,
				  (unsigned long long)events);
	if (!rc && events == 0)
		rc = trace_refuse(error, "%s: no page allocation or free in the whole file", name);
	return rc;
}

int trace_unpack(const char *name, const void *data, size_t bytes, struct trace *trace, struct trace_error *error)
{
	struct column payload = { 0 };
	struct column rest;
	int rc;

	*trace = (struct trace) { 0 };
	if (bytes <= sizeof(magic))
		return trace_refuse(error, "%s: byte %zu: the packed trace is cut off", name, bytes);
	rc = decompress(name, (const uint8_t *)data + sizeof(magic), bytes - sizeof(magic), &payload, error);
	if (rc)
		return rc;
	rest = payload;
	rc = read_events(name, &rest, trace, error);
	free(payload.data);
	if (rc)
		trace_free(trace);
	return rc;
}
