/*
 * backend: a domain as a backend: discard is a reclaim, populate a populate. The handle above sorts and merges, which is
 * all that a reclaim wants of its runs.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/opts.h"
#include "discard/backend.h"
#include "memory/map.h"
#include "xen/abi.h"
#include "xen/ledger.h"
#include "xen/reservation.h"

#define MAX_RUNS 4096u

static int xen_discard(void *ctx, const struct pagehint_run *runs, uint32_t n, uint32_t flags,
		       struct pagehint_outcome *outcomes, uint32_t *ret_done)
{
	struct pagehint_xen *x = ctx;
	const uint32_t before = x->flags;
	if ((flags & PAGEHINT_DISCARD_ZERO) != 0 && (x->calls.zero != NULL || x->kind == PAGEHINT_XEN_OWN))
		x->flags &= ~PAGEHINT_XEN_NO_SCRUB;
	int r = pagehint_xen_reclaim(x, runs, n, outcomes, NULL); /* a decrease tells what was there, without a probe */
	x->flags = before;
	*ret_done = r == -EBUSY || (r == -ENODEV && outcomes[0].asked == 0) ? 0 : n;
	return r;
}

/*
 * One by one where they come in any order, or where all of them together failed: what is done is a prefix. Where nobody knows
 * what is present, what came before a failure must be undone: to populate it again would lose it.
 */
static int xen_populate(void *ctx, const struct pagehint_run *runs, uint32_t n, uint32_t *ret_done)
{
	const uint32_t how = ph_xen_knows(ctx) ? PAGEHINT_XEN_PARTIAL : 0;
	int r = -EINVAL;
	*ret_done = 0;
	if (ph_xen_check_runs(runs, n) == 0)
		r = pagehint_xen_populate(ctx, runs, n, how, NULL, NULL);
	if (r == 0)
		*ret_done = n;
	for (uint32_t i = *ret_done; r != -EBUSY && r != -ENODEV && i < n; i++) {
		r = pagehint_xen_populate(ctx, &runs[i], 1, how, NULL, NULL);
		if (r < 0)
			break;
		*ret_done = i + 1;
	}
	return r;
}

/* Of own memory: another region may be pinned, or not be locked, and a run that reached into it would end in two ways. */
static int own_extent(void *ctx, uint64_t frame, uint64_t *ret_frames, uint64_t *ret_least_bytes)
{
	const struct pagehint_xen *x = ctx;
	struct ph_region region;
	int r = ph_map_find(x->memory, frame, &region);
	if (r < 0)
		return r;
	*ret_frames = region.frames - (frame - region.frame);
	*ret_least_bytes = PH_XEN_FRAME_BYTES;
	return 0;
}

static void xen_explain(void *ctx, const struct pagehint_sink *sink)
{
	struct pagehint_xen *x = ctx;
	char text[192];
	uint64_t current = 0, maximum = 0;
	int r = pagehint_xen_reservation(x, &current, &maximum);
	if (r < 0)
		snprintf(text, sizeof(text), "xen: domain %" PRIu32 " cannot be asked (error %d)", x->domid, r);
	else
		snprintf(text, sizeof(text), "xen: domain %" PRIu32 " has %" PRIu64 " of %" PRIu64 " frames over %s",
			 x->domid, current, maximum, x->calls.name == NULL ? "?" : x->calls.name);
	sink->line(sink->ctx, text);
	if ((x->flags & PAGEHINT_XEN_NO_SCRUB) != 0)
		sink->line(sink->ctx, "xen: what is given back is not wiped: another domain may come to see it");
	if (x->stats.short_counts != 0) {
		snprintf(text, sizeof(text), "xen: %" PRIu64 " answers were short, %" PRIu64 " calls made again",
			 x->stats.short_counts, x->stats.retries);
		sink->line(sink->ctx, text);
	}
}

static void xen_destroy(void *ctx)
{
	struct pagehint_xen *x = ctx;
	atomic_store(&x->backends, 0);
}

int pagehint_xen_backend_new(struct pagehint_xen *xen, const struct pagehint_backend_opts *opts,
			     struct pagehint_backend **ret_backend)
{
	struct pagehint_backend_ops ops = {
		.struct_size = sizeof(ops),
		.name = "xen",
		.max_runs = MAX_RUNS,
		.discard = xen_discard,
		.populate = xen_populate,
		.explain = xen_explain,
		.destroy = xen_destroy,
	};
	struct pagehint_backend_opts how;
	uint32_t none = 0;
	if (xen == NULL || ret_backend == NULL)
		return -EINVAL;
	int r = PH_OPTS_IN(how, opts);
	if (r < 0)
		return r;
	if (xen->kind == PAGEHINT_XEN_OWN)
		ops.extent = own_extent;
	if (how.frame_shift != 0 && how.frame_shift != PH_XEN_FRAME_SHIFT)
		return -EINVAL;
	how.struct_size = sizeof(how);
	if (!atomic_compare_exchange_strong(&xen->backends, &none, 1))
		return -EBUSY;
	r = ph_backend_new_with(&ops, xen, &how, xen->sys, ret_backend);
	if (r < 0)
		atomic_store(&xen->backends, 0);
	return r;
}
