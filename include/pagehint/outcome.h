/*
 * outcome.h: the truth about a discard. Every byte that was asked for ends in exactly one class:
 *
 *     asked = freed + absent + accepted + kept + lazy + failed
 *
 * freed     was resident and went back to the layer below
 * absent    was not resident, so nothing could be gained
 * accepted  the layer below took it, and nobody asked for a residency probe that would tell freed from absent
 * kept      still paid for, by rule (kept_why)
 * lazy      will be freed when the layer below wants memory (lazy_why)
 * failed    still paid for, by error (failed_why, error)
 *
 * freed and absent are only ever told apart by a probe made before the call (PAGEHINT_DISCARD_PROBE).
 */
#ifndef PAGEHINT_OUTCOME_H
#define PAGEHINT_OUTCOME_H

#include <stdint.h>

/* Why bytes were kept, are lazy, or failed. Values are stable; new ones are appended before PAGEHINT_WHY_COUNT. */
enum {
	PAGEHINT_WHY_NONE = 0,
	PAGEHINT_WHY_INHIBITED = 1,     /* the inhibit gate is closed */
	PAGEHINT_WHY_PINNED = 2,        /* the region is pinned: a device may hold these pages */
	PAGEHINT_WHY_ALIGNMENT = 3,     /* outside the whole host pages (or least size that frees) of the run */
	PAGEHINT_WHY_PAGE_CACHE = 4,    /* clean page-cache pages of a file: not ours to free */
	PAGEHINT_WHY_BUDGET = 5,        /* the mapping budget is spent: freeing would need one mapping more */
	PAGEHINT_WHY_CANNOT = 6,        /* this backing has no way to give memory back */
	PAGEHINT_WHY_NO_REGION = 7,     /* not wholly inside one region */
	PAGEHINT_WHY_SYSCALL = 8,       /* the kernel refused; errno in outcome.error */
	PAGEHINT_WHY_BACKEND_LIED = 9,  /* the backend claimed more than was asked, or its classes do not add up */
	PAGEHINT_WHY_HOOK_REFUSED = 10, /* the embedder's before_discard hook said no */
	PAGEHINT_WHY_MADV_FREE = 11,    /* lazily freed: the kernel takes it under pressure */
	PAGEHINT_WHY_ZEROED = 12,       /* content is zero now, the memory is still paid for */
	PAGEHINT_WHY_NOT_TRIED = 13,    /* the backend stopped before it came to this run */
	PAGEHINT_WHY_UFFD = 14,    /* the region is registered with a userfaultfd that the needed call would break */
	PAGEHINT_WHY_FORKED = 15,  /* the handle belongs to the parent process */
	PAGEHINT_WHY_GONE = 16,    /* the device or hypervisor on the other side is gone */
	PAGEHINT_WHY_REENTRY = 17, /* called from inside one of the backend's own callbacks */
	PAGEHINT_WHY_HOLE = 18,  /* no frame there that the hypervisor would take: a hole, or one it does not give up */
	PAGEHINT_WHY_LIMIT = 19, /* it would have more memory than it may */
	PAGEHINT_WHY_NO_MEMORY = 20,  /* the layer below has none (of this kind) */
	PAGEHINT_WHY_PRESENT = 21,    /* a populate met memory that was there already */
	PAGEHINT_WHY_MAPPED = 22,     /* somebody else maps it: lazy: freed once the last has let go; kept: not taken */
	PAGEHINT_WHY_UNSCRUBBED = 23, /* it could not be wiped, so it was not given away */
	PAGEHINT_WHY_IN_FLIGHT = 24,  /* a pager is bringing these pages at this moment */
	PAGEHINT_WHY_COUNT = 25
};

/**
 * struct pagehint_outcome - what became of one run, or of a batch (sums; the why of the largest part) [bytes]
 * Fixed for the life of a soname: it appears in arrays.
 */
struct pagehint_outcome {
	uint64_t asked;
	uint64_t freed;
	uint64_t absent;
	uint64_t accepted;
	uint64_t kept;
	uint64_t lazy;
	uint64_t failed;
	uint32_t kept_why;
	uint32_t lazy_why;
	uint32_t failed_why;
	int32_t error; /* 0 or -errno that goes with failed */
};

#endif
