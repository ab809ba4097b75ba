/*
 * thp: whether transparent huge pages may come to a mapping, by the system's settings and the mapping's own advice.
 *
 * The problem: where they may, giving back less than 2 MiB frees nothing (a deferred split), so the least size changes.
 * Why this shape: settings of the 2 MiB size first (newer kernels), then the general one; a file that is not there
 * means that there are no transparent huge pages. It may claim too much (a process may have switched them off for
 * itself), which costs a coarser least size, never a false success.
 */
#ifndef PH_MEMORY_THP_H
#define PH_MEMORY_THP_H

#include "base/sys.h"
#include "memory/smaps.h"

#define PH_THP_BYTES (UINT64_C(2) << 20)

/* 1 or 0, or what reading a setting gave. */
int ph_thp_possible(const struct ph_sys *sys, const struct ph_mapping *mapping);

#endif
