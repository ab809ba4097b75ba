/*
 * diagnose: why an answer was short.
 *
 * The problem: populate and decrease answer with a count, and with nothing else: too much for the domain, too large an
 * extent, no memory, a hole, a dead domain all look alike. Why this shape: one place that asks what can be asked
 * afterwards (is the domain there, what has it, what may it have), and is honest when that does not tell.
 */
#ifndef PH_XEN_DIAGNOSE_H
#define PH_XEN_DIAGNOSE_H

#include <stdint.h>

#include "xen/reservation.h"

/* What stopped us: PAGEHINT_WHY_* and the error that a call returns for it. why NONE: nothing did. */
struct ph_xen_verdict {
	uint32_t why;
	int error;
};

/* An answer below 0. */
struct ph_xen_verdict ph_xen_refused(int64_t answer);

/*
 * An extent of 2^order was not populated. LIMIT: the domain's maximum; NO_MEMORY: the host has none like this, or
 * the order is more than we may ask for; GONE.
 */
struct ph_xen_verdict ph_xen_not_populated(struct pagehint_xen *x, uint32_t order);

/* A frame was not taken. HOLE: nothing there that could be given up; GONE. */
struct ph_xen_verdict ph_xen_not_taken(struct pagehint_xen *x);

/*
 * How many of n extents were done by a call that answered with an error: by how much the reservation moved from
 * `before` (down when falling) [extents].
 */
uint32_t ph_xen_progress(struct pagehint_xen *x, uint64_t before, uint32_t falling, uint32_t n, uint32_t order);

#endif
