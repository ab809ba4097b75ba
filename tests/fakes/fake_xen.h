/*
 * fake_xen: a hypervisor in a few hundred lines, as one was observed: what it answers to memory operations, and to faults.
 *
 * It answers with counts alone, stops at the first extent that fails, frees up to a hole in a large extent and says nothing
 * of it, loses the old frame when a PVH frame is populated twice, and does not wipe what is given up. It counts frames
 * on its own: everything that a domain has, that is free, and that was lost adds up, or a test fails.
 */
#ifndef FAKES_FAKE_XEN_H
#define FAKES_FAKE_XEN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pagehint/xen.h>

#include "xen/abi.h"

#define FAKE_DOMID 7u
#define FAKE_FRAMES (UINT64_C(1) << 20) /* that can be named, unless a test makes room for more */
#define FAKE_OPS 32u
#define FAKE_BUFFERS 4u

/* what happens to one populate or decrease */
enum fake_fault {
	FAULT_NONE,
	FAULT_SHORT, /* stops after `after` extents, for no reason that can be asked for */
	FAULT_ERROR, /* `error`, after `after` extents were done */
	FAULT_DIES,  /* the domain is gone after `after` extents; the count says so many */
};

struct fake_xen {
	/* the host and the domain; set before use */
	uint32_t pv;
	uint32_t domid;
	uint64_t host_free; /* frames */
	uint64_t max;       /* the domain's maximum [frames] */
	uint64_t frames;    /* guest frames that can be named: 0 .. frames-1 */
	uint32_t max_order; /* larger extents are refused */
	uint64_t free_2m;   /* how many blocks of 2 MiB are left in one piece */
	uint32_t denied;    /* every operation: EPERM */
	uint32_t no_claims; /* claims: ENOSYS */
	/* the fault: at the k-th populate or decrease from now on (1 = the next); 0 = none */
	enum fake_fault fault;
	uint64_t fault_at;
	uint64_t fault_times; /* so many calls in a row; 0 = 1 */
	uint64_t fault_after;
	int64_t fault_error;
	uint32_t nameless; /* when the fault strikes a PV populate, the names of what came do not come back */
	uint64_t drift; /* when the fault strikes, the domain gives up the frames 5000 .. 5000 + drift - 1 by itself */
	int32_t zero_error; /* of every frame */
	/* its state */
	uint64_t host_total;
	uint64_t current;
	uint64_t last; /* the highest frame that ever was there */
	uint64_t lost; /* frames that nobody can name any more */
	uint64_t claimed;
	uint32_t gone;
	uint64_t next_mfn;
	unsigned char *present; /* by guest frame (PV: by machine frame): 1 = there, 2 = there and not wiped */
	unsigned char *mapped;  /* the same: somebody else maps it */
	uint64_t still_mapped;  /* given up, but not freed yet */
	/* the record */
	uint64_t calls[FAKE_OPS];
	uint64_t extents[FAKE_OPS];
	uint64_t struck;           /* faults that happened */
	uint64_t leaked;           /* frames given up with content */
	uint32_t largest_decrease; /* order */
	uint64_t most_extents;     /* in one call */
	uint64_t last_flags;
	struct {
		unsigned char *at;
		size_t bytes;
	} buffers[FAKE_BUFFERS];
};

/* A domain of `max` frames on a host that has `host` free ones. */
void fake_xen_setup(struct fake_xen *f, uint32_t pv, uint64_t host, uint64_t max);
void fake_xen_teardown(struct fake_xen *f);

/* Room for more frames; only before anything is there. */
void fake_xen_grow(struct fake_xen *f, uint64_t frames);

/* The calls table over it; ctx is the fake. */
extern const struct pagehint_xen_calls fake_xen_calls;

/* Everything adds up: what the domain has is what can be named in it (and what was lost). */
void fake_xen_check(const struct fake_xen *f);

/* Frames of a run that are there. */
uint64_t fake_xen_has(const struct fake_xen *f, uint64_t frame, uint64_t frames);

/* Somebody writes into every frame that is there. */
void fake_xen_dirty(struct fake_xen *f);

/* Nobody maps anything any more. */
void fake_xen_unmap(struct fake_xen *f);

void fake_xen_forget(struct fake_xen *f); /* the record, and the fault */

#endif
