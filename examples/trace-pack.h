/*
 * trace-pack: the packed form of a trace: small enough to be kept beside the source.
 *
 * Eight bytes of magic, then one zstd frame with a checksum. In it, as little-endian base-128 numbers: how many events, how
 * many allocations; then four columns, each after its length in bytes:
 *   what         a byte an event: kind | order << 2
 *   when         a number an event: microseconds since the event before
 *   whose        a number a free (not the foreign ones): its id less the id of the free before, sign in bit 0
 *   migratetype  a byte an allocation
 * Columns of like things compress far better than records: a machine's page allocations of 25 s take 2 MB.
 * Unpacking checks everything, so that no file, however made, gives a trace that breaks the promises in trace.h.
 */
#ifndef EXAMPLES_TRACE_PACK_H
#define EXAMPLES_TRACE_PACK_H

#include "trace.h"

int trace_is_packed(const void *data, size_t bytes);

/* 0 or -errno with *error filled, *trace empty then. */
int trace_unpack(const char *name, const void *data, size_t bytes, struct trace *trace, struct trace_error *error);

/* The packed form in malloc'ed memory. 0; -ENOMEM; -EINVAL the compressor refused. */
int trace_pack(const struct trace *trace, void **ret_data, size_t *ret_bytes);

#endif
