#include "xen/reservation.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/opts.h"
#include "xen/abi.h"
#include "xen/hypercall.h"

#define FLAGS                                                                                           \
	(PAGEHINT_XEN_NO_SCRUB | PAGEHINT_XEN_EXACT_NODE | PAGEHINT_XEN_NO_CLAIM | PAGEHINT_XEN_NO_1G | \
	 PAGEHINT_XEN_NO_2M | PAGEHINT_XEN_GUEST_PRIVCMD)
#define DOMID_LAST 0x7fefu
#define TOP_FRAME (UINT64_MAX >> PH_XEN_FRAME_SHIFT)

static int numbers_fit(const struct pagehint_xen_opts *o)
{
	return (o->domid == PAGEHINT_XEN_SELF || (o->domid != 0 && o->domid <= DOMID_LAST)) &&
	       o->kind <= PAGEHINT_XEN_OWN && (o->flags & ~FLAGS) == 0 && o->node <= 255 && o->address_bits <= 63 &&
	       o->batch <= PH_XEN_BATCH && ((o->flags & PAGEHINT_XEN_EXACT_NODE) == 0 || o->node != 0);
}

static int tables_fit(const struct pagehint_xen_opts *o)
{
	int has_p2m = o->p2m != NULL && o->p2m_frames != 0 && o->p2m_first <= TOP_FRAME &&
		      o->p2m_frames <= TOP_FRAME - o->p2m_first;
	switch (o->kind) {
	case PAGEHINT_XEN_TRANSLATED:
		return o->p2m == NULL && o->memory == NULL;
	case PAGEHINT_XEN_PV:
		return has_p2m && o->present == NULL && o->memory == NULL;
	default:
		return has_p2m && o->present == NULL && o->memory != NULL && o->domid == PAGEHINT_XEN_SELF;
	}
}

int ph_xen_check_opts(const struct pagehint_xen_opts *opts, struct pagehint_xen_opts *ret)
{
	struct pagehint_xen_opts how;
	if (opts == NULL)
		return -EINVAL;
	int r = PH_OPTS_IN(how, opts);
	if (r != 0)
		return r;
	if (!numbers_fit(&how) || !tables_fit(&how))
		return -EINVAL;
	*ret = how;
	return 0;
}

static void fill(struct pagehint_xen *x, const struct pagehint_xen_opts *how)
{
	x->domid = how->domid;
	x->kind = how->kind;
	x->flags = how->flags;
	x->node = how->node;
	x->address_bits = how->address_bits;
	x->batch = how->batch == 0 ? PH_XEN_BATCH : how->batch;
	x->p2m = how->p2m;
	x->p2m_first = how->p2m_first;
	x->p2m_frames = how->p2m_frames;
	x->present = how->present;
	x->memory = how->memory;
	x->pagemap = -1;
}

static void put_buffers(struct pagehint_xen *x)
{
	if (x->arg != NULL)
		x->calls.put_buffer(x->ctx, x->arg, PH_XEN_BUFFER);
	if (x->extents != NULL)
		x->calls.put_buffer(x->ctx, x->extents, PH_XEN_BUFFER);
}

/* Buffers, and the first question. */
static int start(struct pagehint_xen *x)
{
	x->arg = x->calls.get_buffer(x->ctx, PH_XEN_BUFFER);
	x->extents = x->calls.get_buffer(x->ctx, PH_XEN_BUFFER);
	int64_t r = x->arg == NULL || x->extents == NULL ? -ENOMEM : ph_xen_ask(x, PH_XEN_CURRENT);
	if (r < 0) /* more than 0: what the domain has */
		put_buffers(x);
	return r < 0 ? (int)r : 0;
}

int ph_xen_new_with(const struct pagehint_xen_calls *calls, void *ctx, const struct pagehint_xen_opts *opts,
		    const struct ph_sys *sys, struct pagehint_xen **ret_xen)
{
	struct pagehint_xen_calls table;
	struct pagehint_xen_opts how;
	if (calls == NULL || ret_xen == NULL)
		return -EINVAL;
	int r = PH_OPTS_IN(table, calls);
	if (r == 0)
		r = ph_xen_check_opts(opts, &how);
	if (r == 0 && (table.memory_op == NULL || table.get_buffer == NULL || table.put_buffer == NULL))
		r = -EINVAL;
	if (r == 0 && (how.flags & PAGEHINT_XEN_NO_SCRUB) == 0 && how.kind != PAGEHINT_XEN_OWN && table.zero == NULL)
		r = -EOPNOTSUPP;
	if (r != 0)
		return r;
	struct pagehint_xen *x = calloc(1, sizeof(*x));
	if (x == NULL)
		return -ENOMEM;
	fill(x, &how);
	x->calls = table;
	x->ctx = ctx;
	x->sys = sys;
	x->pid = sys->getpid(sys->ctx);
	r = x->pid < 0 ? (int)x->pid : start(x);
	if (r < 0) {
		free(x);
		return r;
	}
	*ret_xen = x;
	return 0;
}

int pagehint_xen_new(const struct pagehint_xen_calls *calls, void *ctx, const struct pagehint_xen_opts *opts,
		     struct pagehint_xen **ret_xen)
{
	return ph_xen_new_with(calls, ctx, opts, &ph_sys_real, ret_xen);
}

int pagehint_xen_free(struct pagehint_xen *xen)
{
	if (xen == NULL)
		return 0;
	if (xen->sys->getpid(xen->sys->ctx) == xen->pid &&
	    (atomic_load(&xen->inside) != 0 || atomic_load(&xen->backends) != 0))
		return -EBUSY;
	if (xen->pagemap >= 0)
		(void)xen->sys->close(xen->sys->ctx, xen->pagemap);
	put_buffers(xen);
	if (xen->calls.destroy != NULL)
		xen->calls.destroy(xen->ctx);
	free(xen);
	return 0;
}

int ph_xen_begin(struct pagehint_xen *x)
{
	uint32_t nobody = 0;
	if (x->sys->getpid(x->sys->ctx) != x->pid)
		return -ENODEV;
	return atomic_compare_exchange_strong(&x->inside, &nobody, 1) ? 0 : -EBUSY;
}

void ph_xen_end(struct pagehint_xen *x)
{
	atomic_store(&x->inside, 0);
}

int ph_xen_check_runs(const struct pagehint_run *runs, uint32_t n)
{
	uint64_t from = 0;
	if (runs == NULL && n > 0)
		return -EINVAL;
	for (uint32_t i = 0; i < n; i++) {
		if (runs[i].frames == 0 || runs[i].frame < from || runs[i].frame > TOP_FRAME ||
		    runs[i].frames > TOP_FRAME - runs[i].frame)
			return -EINVAL;
		from = runs[i].frame + runs[i].frames;
	}
	return 0;
}

int pagehint_xen_reservation(struct pagehint_xen *xen, uint64_t *ret_current, uint64_t *ret_maximum)
{
	int r = ph_xen_begin(xen);
	if (r < 0)
		return r;
	int64_t current = ph_xen_ask(xen, PH_XEN_CURRENT), maximum = 0;
	if (current >= 0 && ret_maximum != NULL)
		maximum = ph_xen_ask(xen, PH_XEN_MAXIMUM);
	ph_xen_end(xen);
	if (current < 0 || maximum < 0)
		return (int)(current < 0 ? current : maximum);
	*ret_current = (uint64_t)current;
	if (ret_maximum != NULL)
		*ret_maximum = (uint64_t)maximum;
	return 0;
}

int pagehint_xen_stats(const struct pagehint_xen *xen, struct pagehint_xen_stats *stats)
{
	return PH_OPTS_OUT(stats, xen->stats);
}
