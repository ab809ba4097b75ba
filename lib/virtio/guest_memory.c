/* The memory map as guest memory. */
#include "virtio/guest_memory.h"

#include <errno.h>
#include <stddef.h>

#include <pagehint/map.h>

static int map_host(void *ctx, uint64_t addr, uint64_t bytes, int want_write, void **ret_host)
{
	const struct pagehint_map *map = ctx;
	(void)want_write;
	if (bytes == 0 || bytes - 1 > UINT64_MAX - addr)
		return -ERANGE;
	uint32_t shift = pagehint_map_frame_shift(map);
	uint64_t first = addr >> shift, last = (addr + (bytes - 1)) >> shift;
	void *host = NULL;
	if (pagehint_map_host(map, first, last - first + 1, &host) != 0)
		return -ERANGE;
	*ret_host = (char *)host + (addr - (first << shift));
	return 0;
}

struct ph_guest_memory ph_guest_memory_of_map(const struct pagehint_map *map)
{
	return (struct ph_guest_memory) { .ctx = (void *)(uintptr_t)map, .host = map_host };
}
