#include "xen/diagnose.h"

#include <errno.h>

#include "xen/abi.h"
#include "xen/hypercall.h"

struct ph_xen_verdict ph_xen_refused(int64_t answer)
{
	if (answer == -ENODEV || answer == -ESRCH)
		return (struct ph_xen_verdict) { PAGEHINT_WHY_GONE, -ENODEV };
	return (struct ph_xen_verdict) { PAGEHINT_WHY_SYSCALL, (int)answer };
}

struct ph_xen_verdict ph_xen_not_populated(struct pagehint_xen *x, uint32_t order)
{
	x->stats.short_counts++;
	int64_t current = ph_xen_ask(x, PH_XEN_CURRENT);
	if (current < 0)
		return ph_xen_refused(current);
	int64_t maximum = ph_xen_ask(x, PH_XEN_MAXIMUM);
	if (maximum >= 0 && (INT64_C(1) << order) > maximum - current)
		return (struct ph_xen_verdict) { PAGEHINT_WHY_LIMIT, -ENOSPC };
	return (struct ph_xen_verdict) { PAGEHINT_WHY_NO_MEMORY, -ENOMEM };
}

struct ph_xen_verdict ph_xen_not_taken(struct pagehint_xen *x)
{
	x->stats.short_counts++;
	int64_t current = ph_xen_ask(x, PH_XEN_CURRENT);
	if (current < 0)
		return ph_xen_refused(current);
	return (struct ph_xen_verdict) { PAGEHINT_WHY_HOLE, 0 };
}

uint32_t ph_xen_progress(struct pagehint_xen *x, uint64_t before, uint32_t falling, uint32_t n, uint32_t order)
{
	int64_t now = ph_xen_ask(x, PH_XEN_CURRENT);
	x->stats.short_counts++;
	if (now < 0)
		return 0;
	uint64_t low = falling ? (uint64_t)now : before, high = falling ? before : (uint64_t)now;
	uint64_t moved = high > low ? (high - low) >> order : 0;
	return moved < n ? (uint32_t)moved : n;
}
