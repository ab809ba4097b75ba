/*
 * reservation: the handle on one domain's memory; the inside of pagehint/xen.h.
 *
 * Owns: the two hypercall buffers, and what a batch is made of (which frame of which run each extent stands for). Borrows:
 * p2m, the bitmap of what is present, the map of own memory. Files of the room: extents (cutting runs), ledger (what is
 * where), populate, reclaim and release (taking back), diagnose (what a short count meant), own (own memory), privcmd and
 * open (the raw way there), backend, target.
 * Invariants: one thread is inside at a time (`inside`); p2m and present say at any moment what the hypervisor did, extent
 * by extent, also when a call fails half way.
 */
#ifndef PH_XEN_RESERVATION_H
#define PH_XEN_RESERVATION_H

#include <stdatomic.h>
#include <stdint.h>

#include <pagehint/xen.h>

#include "base/sys.h"

#define PH_XEN_BATCH 512u     /* extents a call: measured, more gains nothing */
#define PH_XEN_RETRIES 8u     /* calls in a row that answer EAGAIN and do nothing */
#define PH_XEN_REFUSALS 1024u /* holes that one reclaim puts up with */
#define PH_XEN_BUFFER 4096u   /* bytes of each buffer; PH_XEN_BATCH frame numbers */

struct pagehint_xen {
	struct pagehint_xen_calls calls;
	void *ctx;
	const struct ph_sys *sys;
	int64_t pid;
	_Atomic uint32_t inside;
	_Atomic uint32_t backends;
	uint32_t domid;
	uint32_t kind;
	uint32_t flags;
	uint32_t node;
	uint32_t address_bits;
	uint32_t batch;
	uint64_t *p2m;
	uint64_t p2m_first;
	uint64_t p2m_frames;
	struct pagehint_bitmap *present;
	struct pagehint_map *memory;
	int pagemap;       /* OWN: open file, or -1 */
	void *arg;         /* buffer: the argument of a call */
	uint64_t *extents; /* buffer: frames of a batch, as the hypervisor names them */
	struct pagehint_xen_stats stats;
	/* the batch that is being made: for each extent its first frame, the run it is of, and an error of its own */
	uint64_t frame_of[PH_XEN_BATCH];
	uint32_t run_of[PH_XEN_BATCH];
	int32_t errors[PH_XEN_BATCH];
	/* a partial populate: what is missing, and of which run */
	struct pagehint_run missing[PH_XEN_BATCH];
	uint32_t missing_of[PH_XEN_BATCH];
	uint64_t pagemap_entries[PH_XEN_BATCH];
};

/* pagehint_xen_new with another operating system beneath. */
int ph_xen_new_with(const struct pagehint_xen_calls *calls, void *ctx, const struct pagehint_xen_opts *opts,
		    const struct ph_sys *sys, struct pagehint_xen **ret_xen);

/* Checks what a caller wants, and copies it out. 0, -EINVAL or -E2BIG. */
int ph_xen_check_opts(const struct pagehint_xen_opts *opts, struct pagehint_xen_opts *ret);

/* Enters the handle: 0; -ENODEV in a fork; -EBUSY somebody is inside. */
int ph_xen_begin(struct pagehint_xen *x);
void ph_xen_end(struct pagehint_xen *x);

/* 0; -EINVAL NULL with n > 0, a run empty, wrapping, too far up, or not after the one before it. */
int ph_xen_check_runs(const struct pagehint_run *runs, uint32_t n);

#endif
