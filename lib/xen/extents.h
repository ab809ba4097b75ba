/*
 * extents: how runs are cut into extents of 1 GiB, 2 MiB and 4 KiB, one size after another.
 *
 * The problem: a hypercall takes extents of one size, so runs with ragged edges would make many small batches; and when
 * something fails half way, it must be known exactly what had been done. Why this shape: three passes over all runs, the
 * largest size first, each in address order. A cut says how far a size went: what would have been of that size and lies at
 * or after the cut is of the next smaller one. So two cuts and the place where the last pass stopped describe
 * all progress there can be, without a list.
 */
#ifndef PH_XEN_EXTENTS_H
#define PH_XEN_EXTENTS_H

#include <stdint.h>

#include <pagehint/run.h>

/* A frame in a run; ordered by run, then by frame. */
struct ph_xen_place {
	uint32_t run;
	uint64_t frame;
};

struct ph_xen_plan {
	const struct pagehint_run *runs;
	uint32_t n;
	struct ph_xen_place cut_1g; /* extents of 1 GiB begin before this */
	struct ph_xen_place cut_2m;
	struct ph_xen_place cut_4k; /* the last pass stopped here */
};

/* 1 when a comes before b */
int ph_xen_before(struct ph_xen_place a, struct ph_xen_place b);

/* Before every place, and after all of them. */
struct ph_xen_place ph_xen_first(void);
struct ph_xen_place ph_xen_last(const struct ph_xen_plan *plan);

/* The order of the extent that begins at a place: 18, 9 or 0. */
uint32_t ph_xen_order_at(const struct ph_xen_plan *plan, struct ph_xen_place at);

/* Moves `at` to the first place at or after it where an extent of this order begins; 0 when there is none. */
int ph_xen_seek(const struct ph_xen_plan *plan, uint32_t order, struct ph_xen_place *at);

/* The place after an extent. */
struct ph_xen_place ph_xen_after(const struct ph_xen_plan *plan, struct ph_xen_place at, uint32_t order);

#endif
