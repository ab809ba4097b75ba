/*
 * kinds: every struct that is taken with its size, and what takes it.
 *
 * A kind makes something from options, uses it a little, and frees it. Pointers among the options are set by the kind, to what is
 * there or to NULL; everything else comes from the fuzzer.
 */
#ifndef FUZZ_OPTIONS_KINDS_H
#define FUZZ_OPTIONS_KINDS_H

#include <errno.h>

#include "input.h"

struct kind {
	const char *name;
	uint32_t size;
	/* sets the pointers of a whole struct; bits of `how` choose. NULL: it has none */
	void (*point)(void *opts, uint64_t how);
	/* What making gave; after 0 it was used and freed. A refusal has written nothing. */
	int (*make)(const void *opts);
};

#define NOTHING ((void *)(uintptr_t)0x5a5a)

/* A pointer that the fuzzer may have or not. */
#define MAYBE(how, bit, pointer) (((how) >> (bit)&1) != 0 ? (pointer) : NULL)

/* What others need: a zone with memory, a backend that takes everything, a map without regions. */
struct pagehint_zone;
struct pagehint_backend;
struct pagehint_map;
struct pagehint_zone *some_zone(uint32_t i, uint32_t flags); /* the caller destroys it */
struct pagehint_backend *some_backend(void);                 /* the caller frees it */
struct pagehint_map *some_map(void);                         /* lives for ever */

extern const struct kind alloc_kinds[], give_kinds[], virtio_kinds[], page_kinds[];
extern const uint32_t alloc_kinds_n, give_kinds_n, virtio_kinds_n, page_kinds_n;

#endif
