/*
 * madvise: gives memory of this process back to Linux; the inside of the backend of pagehint/host.h.
 *
 * The problem: each backing has exactly one call that frees, several that only look like it, and one call a range is many
 * times too slow. Why this shape: a run enters its region, is cut into whole pages of the least size, and the backing's own
 * file does the rest; what MADV_DONTNEED frees gathers in a batch over run borders.
 * Not here: which runs may go (the handle in front: gate, hooks, merging).
 * Owns: a pidfd (batches), a pagemap fd once probed, counters. Borrows: the map, whose table to the system it uses.
 * Invariants: no syscall for a run that is not in one region; a run with pages in the batch keeps its region entered until
 * they are flushed; every byte of a run lands in its outcome exactly once.
 */
#ifndef PH_HOST_MADVISE_H
#define PH_HOST_MADVISE_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/uio.h>

#include <pagehint/host.h>

#include "base/sys.h"
#include "discard/result.h"
#include "memory/map.h"

#define PH_BATCH_MAX 1024u                 /* UIO_MAXIOV */
#define PH_BATCH_BYTES (UINT64_C(1) << 30) /* the kernel silently cuts a batch off below 2 GiB */
#define PH_PAGES_MAX 512u                  /* pagemap entries a read */
#define PH_MAPPING_BUDGET 16384u           /* half of the holes at which a default vm.max_map_count is used up */
#define PH_RESIDENT_UNKNOWN UINT64_MAX

#define PH_ADVICE_POPULATE_WRITE 23 /* names of newer headers */
#define PH_ADVICE_DONTNEED_LOCKED 24

/* One run on its way. Offsets `at` below are bytes from the start of the region. */
struct ph_job {
	struct ph_region region;
	uint64_t at;
	uint64_t bytes;
	uint32_t flags; /* PAGEHINT_DISCARD_* */
	uint32_t in_batch;
	struct pagehint_outcome *outcome;
};

struct ph_batch_item {
	struct pagehint_outcome *outcome;
	uint64_t resident; /* bytes that go when it succeeds, or PH_RESIDENT_UNKNOWN */
};

struct ph_batch {
	uint32_t n;
	uint32_t entered_n;
	int advice;
	uint64_t bytes;
	struct iovec iov[PH_BATCH_MAX];
	struct ph_batch_item item[PH_BATCH_MAX];
	uint64_t entered[PH_BATCH_MAX]; /* regions to leave after the flush, one for each run that is in here */
};

#define PH_MADVISE_COUNTERS (sizeof(struct pagehint_madvise_stats) / sizeof(uint64_t))

struct ph_madvise {
	struct pagehint_map *map;
	const struct ph_sys *sys;
	struct pagehint_backend *handle;
	uint64_t page_bytes; /* the host's real page, which pagemap counts in */
	uint32_t frame_shift;
	uint32_t flags; /* PAGEHINT_MADVISE_* */
	uint32_t mapping_budget;
	int32_t batch_error;                            /* why there are no batches: 0 or -errno */
	int pidfd;                                      /* -1 = no batches */
	int pagemap;                                    /* -1 = not opened yet */
	_Atomic uint64_t counters[PH_MADVISE_COUNTERS]; /* struct pagehint_madvise_stats, word by word */
	uint64_t entries[PH_PAGES_MAX];
	struct ph_batch batch;
};

#define PH_MADVISE_COUNT(m, member) atomic_fetch_add_explicit(PH_MADVISE_COUNTER(m, member), 1, memory_order_relaxed)
#define PH_MADVISE_COUNTER(m, member) \
	(&(m)->counters[offsetof(struct pagehint_madvise_stats, member) / sizeof(uint64_t)])

static inline void *ph_host_pointer(uint64_t addr)
{
	return (void *)(uintptr_t)addr;
}

/* anon.c: memory that MADV_DONTNEED frees, in batches */
void ph_batch_probe(struct ph_madvise *m); /* may this process advise itself? */
void ph_batch_add(struct ph_madvise *m, struct ph_job *job, uint64_t at, uint64_t bytes);
void ph_batch_keep_entered(struct ph_madvise *m, const struct ph_job *job);
void ph_batch_flush(struct ph_madvise *m);

/* shared.c: memory that belongs to a file: shared, hugetlb, guest_memfd */
void ph_shared_discard(struct ph_madvise *m, struct ph_job *job, uint64_t at, uint64_t bytes);

/* file.c: private mappings of a file */
void ph_file_discard(struct ph_madvise *m, struct ph_job *job, uint64_t at, uint64_t bytes);
int ph_file_is_replaced(const struct ph_region *region, uint64_t at);

/* keep.c: what stays, zeroed when that was asked for */
void ph_keep(struct ph_madvise *m, struct ph_job *job, uint64_t at, uint64_t bytes, uint32_t why);

/* present.c: the way back */
int ph_present(struct ph_madvise *m, const struct pagehint_run *run);

/* Books what a call that succeeded did: resident bytes were freed, the rest was absent; unknown: accepted. */
static inline void ph_book(struct pagehint_outcome *outcome, uint64_t bytes, uint64_t resident)
{
	if (resident == PH_RESIDENT_UNKNOWN) {
		ph_outcome_accepted(outcome, bytes);
		return;
	}
	resident = resident > bytes ? bytes : resident;
	ph_outcome_freed(outcome, resident);
	ph_outcome_absent(outcome, bytes - resident);
}

#endif
