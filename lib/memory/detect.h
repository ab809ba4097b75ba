/*
 * detect: what really backs a range of this process, or whether an fd is what its owner says.
 *
 * The problem: the call that frees memory depends on the backing, and a wrong one "succeeds". Why this shape: the kernel is
 * asked once, at registration; fstat and fstatfs of the fd, smaps of every mapping in the range, the THP settings.
 * Not here: the region table (table.h), alignment to frames (map.c). Owns: nothing; no fd stays open.
 * Invariant: what is not understood is a DEVICE, which nobody discards.
 */
#ifndef PH_MEMORY_DETECT_H
#define PH_MEMORY_DETECT_H

#include <pagehint/map.h>

#include "base/sys.h"

struct ph_detected {
	uint64_t host_page_bytes;
	uint64_t least_bytes;
	uint32_t backing;
	uint32_t flags; /* the PAGEHINT_REGION_* that the kernel shows: LOCKED, THP, UFFD */
};

/*
 * Looks at `bytes` from desc->host_addr on, or at desc->fd alone when host_addr is 0 (guest_memfd).
 * page_bytes: the host's page size, or a larger pretended one; the least that host_page_bytes may be.
 * Returns 0; -EINVAL a hole in the range, mappings that differ, an fd or offset that is not the mapping's, a claim of
 * desc->backing that is not true, hugetlb without an fd; else what a syscall gave.
 */
int ph_detect(const struct ph_sys *sys, const struct pagehint_region_desc *desc, uint64_t bytes, uint64_t page_bytes,
	      struct ph_detected *ret_detected);

#endif
