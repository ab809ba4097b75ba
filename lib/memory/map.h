/*
 * map: which frames exist, where they are mapped, and what backs them; the inside of pagehint/map.h.
 *
 * The problem: a discard must not race a removal or a pin of the region it works in, and must never wait for a lock. Why
 * this shape: enter/leave count discards inside a region; remove and pin look at that count after raising their own mark
 * (both sides seq_cst), so one of the two always sees the other.
 * Not here: how to discard (host/), whether it is allowed at all (discard/gate.h).
 * Owns: the region table, and for private files the bitmap of pages that were replaced by anonymous memory.
 * Invariants: between enter and leave the region's mapping stays as it was described.
 */
#ifndef PH_MEMORY_MAP_H
#define PH_MEMORY_MAP_H

#include <stdatomic.h>
#include <stdint.h>

#include <pagehint/map.h>

#include "base/sys.h"

/* What a backend needs to know of a region, copied out by enter. */
struct ph_region {
	uint64_t id;
	uint64_t frame;
	uint64_t frames;
	uint64_t host_addr;
	uint64_t fd_offset;
	uint64_t host_page_bytes;
	uint64_t least_bytes;
	int32_t fd;
	uint32_t backing;
	uint32_t flags; /* PAGEHINT_REGION_* */
	_Atomic uint64_t
		*replaced; /* FILE_PRIVATE: bit i = host page i of the region is anonymous memory now; else NULL */
};

/* pagehint_map_new with another operating system beneath (tests). */
int ph_map_new_with(const struct pagehint_map_opts *opts, const struct ph_sys *sys, struct pagehint_map **ret_map);

/*
 * Begins a discard of frames [frame, frame + frames), which must lie in one region.
 * Returns 0 (ph_map_leave must follow); -ERANGE not in one region; -EBUSY the region is pinned; -EINVAL empty or wrapping.
 */
int ph_map_enter(struct pagehint_map *map, uint64_t frame, uint64_t frames, struct ph_region *ret_region);
void ph_map_leave(struct pagehint_map *map, uint64_t id);

/*
 * Copies what is known of the region that has `frame`, without entering it. Returns 0 or -ERANGE.
 * `replaced` may be followed only between enter and leave: a removal frees it.
 */
int ph_map_find(const struct pagehint_map *map, uint64_t frame, struct ph_region *ret_region);

/* The same for the first region that ends after `frame`, and for the region that is mapped at `addr`. */
int ph_map_find_next(const struct pagehint_map *map, uint64_t frame, struct ph_region *ret_region);
int ph_map_find_host(const struct pagehint_map *map, uint64_t addr, struct ph_region *ret_region);

/* What is counted for a region now; zeros when it is gone. */
void ph_map_counts(const struct pagehint_map *map, uint64_t id, uint64_t *ret_pins, uint64_t *ret_in_flight);

const struct ph_sys *ph_map_sys(const struct pagehint_map *map);

/* 1 while this process is the one that made the map, 0 in a forked child. One getpid. */
int ph_map_is_owner(const struct pagehint_map *map);

#endif
