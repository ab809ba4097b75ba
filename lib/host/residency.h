/*
 * residency: what the host holds in memory for a range, asked before a discard (freed against absent) and for audits.
 *
 * The problem: the call that frees does not say how much it freed. Why this shape: pagemap for what hangs in our own page
 * tables (anonymous, private files, hugetlb, whose files do not tell holes from data); mincore for shared memory, since a page
 * that is not mapped here is paid for all the same, and for what it does not find SEEK_DATA, since swap is paid for, too.
 * (SEEK_HOLE would walk all data behind the range.) The file is opened anew for that: seeking must not move the position of
 * the embedder's own descriptor.
 * Not here: what follows from it. Limits: a hugetlb page that only another process has touched, and a swapped page of shared
 * memory without fd are not seen; the zero page and pages shared with a forked child count as absent, since discarding them frees nothing.
 */
#ifndef PH_HOST_RESIDENCY_H
#define PH_HOST_RESIDENCY_H

#include "host/madvise.h"

struct ph_residency {
	uint64_t own;    /* bytes that a discard frees */
	uint64_t shared; /* present, but discarding frees nothing now: the zero page, or shared with a forked child */
	uint64_t cache;  /* FILE_PRIVATE: clean page-cache bytes mapped here; else 0 */
};

/* Counts [at, at + bytes) of the region. Returns 0; -EOPNOTSUPP no way to tell; else what a syscall gave. */
int ph_residency(struct ph_madvise *m, const struct ph_region *region, uint64_t at, uint64_t bytes,
		 struct ph_residency *ret_residency);

/* What ph_book takes: the own bytes when the job asked for a probe and there is an answer, else PH_RESIDENT_UNKNOWN. */
uint64_t ph_residency_for(struct ph_madvise *m, const struct ph_job *job, uint64_t at, uint64_t bytes);

/* Page by page, in order. */
enum ph_page {
	PH_PAGE_NONE,
	PH_PAGE_OWN,
	PH_PAGE_CACHE,
	PH_PAGE_SHARED
}; /* SHARED: the zero page, or a forked child has it, too */

struct ph_pages {
	uint64_t addr; /* of the next page */
	uint64_t end;
	uint32_t at; /* in m->entries, which is this walk's alone until it ends */
	uint32_t n;
};

void ph_pages_start(struct ph_madvise *m, struct ph_pages *pages, uint64_t addr, uint64_t bytes);
/* 1 a page; 0 the end; -errno. */
int ph_pages_next(struct ph_madvise *m, struct ph_pages *pages, enum ph_page *ret_page);

#endif
