#include "xen/hypercall.h"

#include <errno.h>
#include <string.h>

#include "xen/abi.h"

static int64_t call(struct pagehint_xen *x, uint32_t op)
{
	x->stats.hypercalls++;
	return x->calls.memory_op(x->ctx, op, x->arg);
}

int64_t ph_xen_ask(struct pagehint_xen *x, uint32_t op)
{
	struct ph_xen_domain who = { .domid = (uint16_t)x->domid };
	memcpy(x->arg, &who, sizeof(who));
	int64_t r = call(x, op);
	return r == -ESRCH || r == -ENOENT ? -ENODEV : r;
}

static uint32_t memory_flags(const struct pagehint_xen *x)
{
	uint32_t flags = x->address_bits | x->node << PH_XEN_FLAG_NODE_SHIFT;
	return (x->flags & PAGEHINT_XEN_EXACT_NODE) != 0 ? flags | PH_XEN_FLAG_EXACT_NODE : flags;
}

int64_t ph_xen_extents(struct pagehint_xen *x, uint32_t op, uint32_t n, uint32_t order)
{
	struct ph_xen_reservation what = {
		.extents = (uintptr_t)x->extents,
		.nr = n,
		.order = order,
		.flags = op == PH_XEN_DECREASE ? 0 : memory_flags(x),
		.domid = (uint16_t)x->domid,
	};
	memcpy(x->arg, &what, sizeof(what));
	int64_t r = call(x, op);
	return r > (int64_t)n ? -EPROTO : r; /* more than was asked cannot be true: nothing of it is believed */
}

int ph_xen_claim(struct pagehint_xen *x, uint64_t frames)
{
	struct ph_xen_reservation what = { .nr = frames, .domid = (uint16_t)x->domid };
	memcpy(x->arg, &what, sizeof(what));
	int64_t r = call(x, PH_XEN_CLAIM);
	return r > 0 ? 0 : (int)r;
}
