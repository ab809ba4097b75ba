/*
 * backing: a stretch of real memory of one kind, as a VMM would give it to a guest.
 *
 *     anon     private anonymous memory, small pages only
 *     thp      the same with transparent huge pages
 *     memfd    a shared memfd
 *     hugetlb  a shared memfd of 2 MiB pages (needs reserved ones: hugepool.h)
 *     file     a private mapping of a file, as a restored snapshot; one page in eight of the file is not zero
 *
 * The mapping starts at 2 MiB and lies between pages that nothing may touch, so that its figures in smaps are its own.
 * Owns mapping and file. Not here: what the host says of it (host.h).
 */
#ifndef GIVEBACK_BACKING_H
#define GIVEBACK_BACKING_H

#include <stddef.h>
#include <stdint.h>

#include "sizes.h"

enum { BACKING_ANON, BACKING_THP, BACKING_MEMFD, BACKING_HUGETLB, BACKING_FILE, BACKINGS };

struct backing {
	uint32_t kind;
	int fd; /* -1 if none */
	unsigned char *base;
	uint64_t bytes;
	uint64_t unit_bytes;       /* what the host gives it at a time */
	uint64_t huge_used_before; /* hugetlb: pages of the pool that others use */
	unsigned char *reserved;   /* base and its surroundings */
	uint64_t reserved_bytes;
};

struct why {
	char text[240];
};

const char *backing_name(uint32_t kind);

/* The PAGEHINT_BACKING_* that the library is told, and has to find true. */
uint32_t backing_claim(uint32_t kind);

/* bytes: a multiple of 2 MiB. 0; -ENODEV this machine has no such memory; or another -errno. *why is filled then. */
int backing_open(struct backing *backing, uint32_t kind, uint64_t bytes, struct why *why);

/* Everything as it was when opened: nothing resident. 0 or -errno. */
int backing_reset(struct backing *backing);

/* The seed of a frame that nobody has written yet; 0: it reads as zero. */
uint64_t backing_fresh_seed(const struct backing *backing, uint64_t frame);

/* NULL is not allowed; a backing that failed to open is. */
void backing_close(struct backing *backing);

#endif
