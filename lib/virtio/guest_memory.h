/*
 * guest_memory: how the device end gets at what a guest address names.
 *
 * The problem: a guest may name any address. Why this shape: one callback, asked for every range before it is touched; the
 * memory map answers it, or whoever has another table of regions.
 * Invariants: a range that is given lies in ONE region, whole.
 */
#ifndef PH_VIRTIO_GUEST_MEMORY_H
#define PH_VIRTIO_GUEST_MEMORY_H

#include <stdint.h>

struct pagehint_map;

struct ph_guest_memory {
	void *ctx;
	/*
	 * The host address of guest bytes [addr, addr + bytes); want_write: 1 they will be written. bytes is not 0.
	 * Return: 0; -ERANGE not wholly in one region, or (want_write) in one that may not be written.
	 */
	int (*host)(void *ctx, uint64_t addr, uint64_t bytes, int want_write, void **ret_host);
};

/* Over a memory map; every region may be written. The map must outlive what it is given to. */
struct ph_guest_memory ph_guest_memory_of_map(const struct pagehint_map *map);

#endif
