#include "xen/extents.h"

#include "base/bits.h"
#include "xen/abi.h"

int ph_xen_before(struct ph_xen_place a, struct ph_xen_place b)
{
	return a.run != b.run ? a.run < b.run : a.frame < b.frame;
}

struct ph_xen_place ph_xen_first(void)
{
	return (struct ph_xen_place) { 0, 0 };
}

struct ph_xen_place ph_xen_last(const struct ph_xen_plan *plan)
{
	return (struct ph_xen_place) { plan->n, 0 };
}

static uint64_t end_of(const struct ph_xen_plan *plan, uint32_t run)
{
	return plan->runs[run].frame + plan->runs[run].frames;
}

static int fits(const struct ph_xen_plan *plan, struct ph_xen_place at, uint32_t order)
{
	uint64_t size = UINT64_C(1) << order;
	return (at.frame & (size - 1)) == 0 && end_of(plan, at.run) - at.frame >= size;
}

uint32_t ph_xen_order_at(const struct ph_xen_plan *plan, struct ph_xen_place at)
{
	if (ph_xen_before(at, plan->cut_1g) && fits(plan, at, PH_XEN_ORDER_1G))
		return PH_XEN_ORDER_1G;
	if (ph_xen_before(at, plan->cut_2m) && fits(plan, at, PH_XEN_ORDER_2M))
		return PH_XEN_ORDER_2M;
	return 0;
}

struct ph_xen_place ph_xen_after(const struct ph_xen_plan *plan, struct ph_xen_place at, uint32_t order)
{
	at.frame += UINT64_C(1) << order;
	if (at.frame < end_of(plan, at.run))
		return at;
	at.run++;
	at.frame = at.run < plan->n ? plan->runs[at.run].frame : 0;
	return at;
}

int ph_xen_seek(const struct ph_xen_plan *plan, uint32_t order, struct ph_xen_place *at)
{
	while (at->run < plan->n) {
		if (at->frame < plan->runs[at->run].frame)
			at->frame = plan->runs[at->run].frame;
		uint32_t here = ph_xen_order_at(plan, *at);
		if (here == order)
			return 1;
		/* large extents begin at multiples of their size: no need to look between */
		uint64_t next = here != 0 ? at->frame + (UINT64_C(1) << here)
					  : ph_round_up(at->frame + 1, UINT64_C(1) << PH_XEN_ORDER_2M);
		at->frame = next;
		if (next >= end_of(plan, at->run)) {
			at->run++;
			at->frame = 0;
		}
	}
	return 0;
}
