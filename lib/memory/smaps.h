/*
 * smaps: reads /proc/self/smaps one mapping at a time.
 *
 * The problem: only the kernel knows what a mapping really is (locked, huge, registered with a userfaultfd), and it says so
 * in text of any length. Why this shape: an iterator over a fixed buffer, so that nothing is allocated and the reading
 * stops as soon as the range of interest has passed (each mapping costs the kernel a page table walk).
 * Not here: what the facts mean for discarding (detect.h). Owns: the open file between open and close.
 */
#ifndef PH_MEMORY_SMAPS_H
#define PH_MEMORY_SMAPS_H

#include <stddef.h>
#include <stdint.h>

#include "base/sys.h"

/* flags of a mapping */
#define PH_MAPPING_SHARED 1u     /* may be shared, whatever its protection */
#define PH_MAPPING_LOCKED 2u     /* VmFlags lo */
#define PH_MAPPING_HUGETLB 4u    /* VmFlags ht */
#define PH_MAPPING_UFFD 8u       /* VmFlags um, uw or ui */
#define PH_MAPPING_IO 16u        /* VmFlags io, pf or mm: not ordinary pages */
#define PH_MAPPING_ADVISED 32u   /* VmFlags hg: MADV_HUGEPAGE */
#define PH_MAPPING_AVOIDED 64u   /* VmFlags nh: MADV_NOHUGEPAGE */
#define PH_MAPPING_HAS_THP 128u  /* holds transparent huge pages now */
#define PH_MAPPING_MAY_THP 256u  /* THPeligible: 1 */
#define PH_MAPPING_COMPLETE 512u /* VmFlags were there */

/* what the name of a mapping says */
enum {
	PH_NAME_OTHER = 0,
	PH_NAME_ANON = 1,  /* no name, [heap], [stack] or [anon:...] */
	PH_NAME_SHMEM = 2, /* the kernel's own shmem files: shared anonymous memory, memfd, System V */
	PH_NAME_FILE = 3,  /* any other path */
};

struct ph_mapping {
	uint64_t start;
	uint64_t end;
	uint64_t offset; /* of its first byte in its file */
	uint64_t inode;
	uint64_t page_bytes; /* KernelPageSize */
	uint32_t major;
	uint32_t minor;
	uint32_t flags; /* PH_MAPPING_* */
	uint32_t name;  /* PH_NAME_* */
};

struct ph_smaps {
	const struct ph_sys *sys;
	int fd;
	uint32_t have_header; /* `header` is the first line of the next mapping */
	size_t at;
	size_t filled;
	char header[192];
	char line[192];
	char buffer[4096];
};

/* Returns 0 (ph_smaps_close must follow) or what open gave. */
int ph_smaps_open(struct ph_smaps *smaps, const struct ph_sys *sys);

/* The next mapping, in the order of addresses. Returns 1, 0 at the end, or -errno; -EIO: what stands there is no
 * whole mapping. */
int ph_smaps_next(struct ph_smaps *smaps, struct ph_mapping *ret_mapping);

void ph_smaps_close(struct ph_smaps *smaps);

#endif
