/*
 * hypercall: memory operations on one domain, as functions.
 *
 * The problem: arguments must lie in memory that the hypervisor can reach, and every answer is a count or an error in one
 * number. Why this shape: the handle owns one buffer for the argument and one for extents; whoever wants a batch fills
 * x->extents and says how many. Not here: what a short count means (diagnose.h), how a call gets there (the calls table).
 */
#ifndef PH_XEN_HYPERCALL_H
#define PH_XEN_HYPERCALL_H

#include <stdint.h>

#include "xen/reservation.h"

/* PH_XEN_CURRENT, PH_XEN_MAXIMUM, PH_XEN_MAXIMUM_GPFN: the answer [frames], or -errno (-ENODEV: no such domain). */
int64_t ph_xen_ask(struct pagehint_xen *x, uint32_t op);

/* n extents of 2^order frames, in x->extents: how many from the front were done, or -errno. Never more than n. */
int64_t ph_xen_extents(struct pagehint_xen *x, uint32_t op, uint32_t n, uint32_t order);

/* Sets memory aside until the domain has `frames` in all; 0 = no longer. 0 or -errno. */
int ph_xen_claim(struct pagehint_xen *x, uint64_t frames);

#endif
