/*
 * table: the regions of a map in slots, and their order by frame.
 *
 * The problem: a lookup stands on the path of every discard and must not wait for whoever adds or removes a region; a
 * removal or a pin must not miss a discard that begins at the same moment.
 * Why this shape: the order is kept twice. A writer fills the idle copy and flips; a reader searches the copy that was
 * current and retries only when that copy was being rewritten, that is after two whole changes. What is counted stands in
 * one word with a tag of the region that it counts for, so a slot that was reused in between is noticed by the same
 * compare-and-swap that counts.
 * Not here: what backs a region (detect.h), syscalls of any kind. Owns: its part of the map's one allocation.
 * Called from: map.c only.
 * Invariants: no two regions share a frame or a mapped byte; a slot is rewritten only when no current order names it;
 * the lock is a flag held for O(regions) instructions, and over nothing else.
 */
#ifndef PH_MEMORY_TABLE_H
#define PH_MEMORY_TABLE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/map.h"

/* Alone in its cache lines: discards in two regions do not disturb each other. */
struct ph_slot {
	_Alignas(64) _Atomic uint64_t use; /* tag << 32 | live << 31 | discards inside */
	_Atomic uint64_t pins;             /* tag << 32 | pins */
	_Atomic uint64_t id;
	_Atomic uint64_t frame;
	_Atomic uint64_t frames;
	_Atomic uint64_t host_addr;
	_Atomic uint64_t fd_offset;
	_Atomic uint64_t host_page_bytes;
	_Atomic uint64_t least_bytes;
	_Atomic uint32_t fd;
	_Atomic uint32_t backing;
	_Atomic uint32_t flags;
	_Atomic uint32_t unused;
	_Atomic uintptr_t replaced;
};

/* the slots in the order of their frames */
struct ph_order {
	_Atomic uint32_t *slots;
	_Atomic uint32_t n;
};

struct ph_table {
	_Atomic uint64_t version; /* odd while a writer works; bit 1 says which order is current */
	_Atomic uint32_t locked;
	uint32_t max;
	uint32_t frame_shift;
	uint64_t sequence; /* of the last id; under the lock */
	struct ph_order orders[2];
	struct ph_slot *slots;
};

/* Bytes that ph_table_init wants for max regions, a multiple of 64. */
size_t ph_table_bytes(uint32_t max);

/* Makes an empty table in `memory`, which is 64-byte aligned and ph_table_bytes(max) long. */
void ph_table_init(struct ph_table *t, void *memory, uint32_t max, uint32_t frame_shift);

/* Adds a region (its id is ignored) with a number of pins. Returns 0, -EEXIST or -ENOSPC. */
int ph_table_add(struct ph_table *t, const struct ph_region *region, uint32_t pins, uint64_t *ret_id);

/* Removes a region and copies what it was. Returns 0, -ERANGE or -EBUSY. */
int ph_table_remove(struct ph_table *t, uint64_t id, struct ph_region *ret_region);

/* How ph_table_find looks. */
enum {
	PH_FIND_FRAME = 0, /* the region that has the frame */
	PH_FIND_NEXT = 1,  /* the first region that ends after the frame */
	PH_FIND_HOST = 2,  /* the region that is mapped at the address */
};

/* Returns 0 or -ERANGE. */
int ph_table_find(struct ph_table *t, uint32_t how, uint64_t key, struct ph_region *ret_region);

/* Counts one discard more in a region that was found before. Returns 0, -EBUSY it is pinned, -ERANGE it was removed. */
int ph_table_enter(struct ph_table *t, uint64_t id);
void ph_table_leave(struct ph_table *t, uint64_t id);

/* A count that has reached UINT32_MAX stays there: the region is pinned for good. Return 0, -ERANGE or -EALREADY. */
int ph_table_pin(struct ph_table *t, uint64_t id, uint64_t *ret_in_flight);
int ph_table_unpin(struct ph_table *t, uint64_t id);

/* What is counted now for a region; zeros when it was removed. */
void ph_table_counts(struct ph_table *t, uint64_t id, uint64_t *ret_pins, uint64_t *ret_in_flight);

uint32_t ph_table_regions(struct ph_table *t);

#endif
