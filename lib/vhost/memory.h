/*
 * memory: the guest memory that a frontend shares, as it said in its memory table.
 *
 * The problem: a table may overlap itself, wrap, reach past the end of its file or lie about anything; and rings are named by
 * addresses of the frontend, while the device works with guest addresses. Why this shape: every region is checked before it
 * is mapped, then registered in a memory map, which is what the device and its backend see; this table keeps the frontend's
 * addresses beside it.
 * Not here: who may discard. Owns: descriptors and mappings of the regions; borrows the map.
 * Invariants: a region is here, mapped, and in the map, or it is nowhere; a table that is refused leaves none of itself and
 * none of the one before (the guest's memory is no longer what that said).
 */
#ifndef PH_VHOST_MEMORY_H
#define PH_VHOST_MEMORY_H

#include <stdint.h>

#include <pagehint/map.h>

#include "base/sys.h"
#include "vhost/message.h"

#define PH_VHOST_SLOTS 32u /* regions, at the most */

struct ph_vhost_place {
	struct ph_vhost_region said;
	uint64_t id; /* in the map */
	void *at;
	int fd;
};

struct ph_vhost_memory {
	const struct ph_sys *sys;
	struct pagehint_map *map;
	uint32_t n;
	struct ph_vhost_place places[PH_VHOST_SLOTS];
};

void ph_vhost_memory_init(struct ph_vhost_memory *memory, const struct ph_sys *sys, struct pagehint_map *map);

/* Forgets all regions. Return: 0; -EAGAIN a discard is inside one (the others may be gone). */
int ph_vhost_memory_clear(struct ph_vhost_memory *memory);

/*
 * Adds a region; takes fd, also on failure.
 * Return: 0; -EINVAL empty, unaligned, wrapping, not a file, or past the end of the file; -EEXIST overlaps another, in the guest
 * or in the frontend; -ENOSPC no slot; else what fstat, mmap or the map gave.
 */
int ph_vhost_memory_add(struct ph_vhost_memory *memory, const struct ph_vhost_region *region, int fd);

/* Forgets the region with these guest and frontend addresses and this size. Return: 0; -ERANGE none; -EBUSY as the map has it. */
int ph_vhost_memory_remove(struct ph_vhost_memory *memory, const struct ph_vhost_region *region);

/* The guest address of [user, user + bytes), which must lie in one region. Return: 0; -ERANGE. */
int ph_vhost_memory_guest(const struct ph_vhost_memory *memory, uint64_t user, uint64_t bytes, uint64_t *ret_guest);

/* Where [guest, guest + bytes) is in this process. Return: 0; -ERANGE not in one region. */
int ph_vhost_memory_host(const struct ph_vhost_memory *memory, uint64_t guest, uint64_t bytes, void **ret_host);

#endif
