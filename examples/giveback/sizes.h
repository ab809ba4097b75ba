/*
 * sizes: the pages and granules in which the demo counts, whatever the machine's own page is.
 */
#ifndef GIVEBACK_SIZES_H
#define GIVEBACK_SIZES_H

#include <stdint.h>

#define PAGE_SHIFT 12u
#define PAGE_BYTES 4096u

/* What the library reports at a time, and what a huge page is: 2 MiB. */
#define GRANULE_ORDER 9u
#define GRANULE_FRAMES (UINT64_C(1) << GRANULE_ORDER)
#define GRANULE_BYTES (GRANULE_FRAMES << PAGE_SHIFT)

#endif
