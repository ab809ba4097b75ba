/*
 * extent: frames of a zone as extents of a jemalloc arena, and the hooks that jemalloc calls for them.
 *
 * Why a file of its own: an extent must lie in one region of the map and be aligned by its *address*, the zone aligns by
 * frame. Where the two disagree, more is taken and the rest given back.
 * Not here: the life of an arena (arena.c). Owns: nothing.
 * Invariants: no allocation and no lock here; `held` is exact whenever nobody is inside a hook.
 */
#ifndef PH_JEMALLOC_EXTENT_H
#define PH_JEMALLOC_EXTENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <jemalloc/jemalloc.h>

#include <pagehint/jemalloc.h>

struct pagehint_jemalloc {
	extent_hooks_t hooks; /* first: a hook gets its address, and we find the rest */
	struct pagehint_jemalloc_opts opts;
	uint32_t frame_shift;
	uint32_t arena;
	_Atomic uint64_t held;   /* frames */
	_Atomic uint64_t purged; /* bytes */
	_Atomic uint64_t allocs;
	_Atomic uint64_t frees;
	_Atomic uint64_t refused;
	_Atomic uint64_t purges_refused;
};

extern const extent_hooks_t ph_jemalloc_hooks;

#endif
