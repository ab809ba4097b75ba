/*
 * world: a process with a few mappings and files, told to the map through the seam to the system, and what the map must make of them,
 * judged page by page.
 */
#ifndef FUZZ_MAP_WORLD_H
#define FUZZ_MAP_WORLD_H

#include <pagehint/map.h>

#include "base/sys.h"
#include "input.h"

#define WORLD_PAGE UINT64_C(0x100) /* where its first mapping begins [pages of 4096 bytes] */
#define WORLD_PAGES UINT64_C(232)
#define WORLD_FDS 5 /* .. 8: a memfd, a private file, a disk's file, a guest_memfd */
#define WORLD_GUEST_FD 8
#define WORLD_GUEST_PAGES UINT64_C(64)

struct world {
	struct ph_sys sys;
	int64_t pid;
	const uint8_t *text; /* of smaps; what is told instead of the truth, where it is not NULL */
	size_t text_bytes;
	size_t at;
	uint32_t open_fds, mapped; /* right now */
	uint32_t no_memory;
};

void world_open(struct world *w);

/*
 * What stands at these bytes. Returns 0; -EINVAL it is no one thing, or not the file; -EBADF. *ret_flags: LOCKED, UFFD.
 */
int world_judge(const struct pagehint_region_desc *desc, uint64_t bytes, uint32_t *ret_backing, uint32_t *ret_flags);

#endif
