/*
 * release: gives single frames back in batches, whoever wants them gone: a reclaim, or the undoing of a populate.
 *
 * The problem: a batch mixes frames of many runs, a hole stops it in the middle, and each frame must be booked once. Why
 * this shape: frames are added one by one with the run they are of; a full batch is wiped, sent, booked, and sent again
 * after every hole. Invariants: frames leave the batch only when they are booked; after `stop` has a reason nothing is sent
 * any more, and whoever adds frames books them as not tried.
 */
#ifndef PH_XEN_RELEASE_H
#define PH_XEN_RELEASE_H

#include <stdint.h>

#include "discard/result.h"
#include "xen/diagnose.h"
#include "xen/reservation.h"

struct ph_xen_release {
	struct pagehint_xen *x;
	struct pagehint_outcome *outcomes; /* by run; NULL: not wanted */
	struct ph_sum *sum;
	struct ph_xen_verdict stop;
	uint64_t before;   /* what the domain had before the next call [frames] */
	uint64_t freed;    /* by the counts */
	uint32_t undo;     /* book by taking from what was accepted; do not wipe */
	uint32_t n;        /* in the batch */
	uint32_t refusals; /* holes met */
	uint32_t scrub;
};

/* Begins: asks what the domain has. 0 or -errno (also in stop). */
int ph_xen_release_start(struct ph_xen_release *r);

/* Adds a frame; sends the batch when it is full. */
void ph_xen_release_add(struct ph_xen_release *r, uint32_t run, uint64_t frame, uint64_t name);

/* Sends what is left. */
void ph_xen_release_flush(struct ph_xen_release *r);

/* Books bytes of a run that were never in a batch. */
void ph_xen_release_absent(struct ph_xen_release *r, uint32_t run, uint64_t frames);
void ph_xen_release_kept(struct ph_xen_release *r, uint32_t run, uint64_t frames, uint32_t why);
void ph_xen_release_not_tried(struct ph_xen_release *r, uint32_t run, uint64_t frames);

#endif
