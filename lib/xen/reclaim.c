/*
 * reclaim: taking memory of a domain back, frame by frame in batches. What is known to be absent is never asked for; what
 * the batch does is release.h's.
 */
#include <errno.h>
#include <string.h>

#include "discard/result.h"
#include "xen/abi.h"
#include "xen/hypercall.h"
#include "xen/ledger.h"
#include "xen/own.h"
#include "xen/release.h"

static void reclaim_present(struct ph_xen_release *r, uint32_t index, const struct pagehint_run *run)
{
	if (r->x->kind == PAGEHINT_XEN_OWN) {
		ph_xen_own_release(r, index, run);
		return;
	}
	for (uint64_t i = 0; i < run->frames; i++) {
		if (r->stop.error != 0) {
			ph_xen_release_not_tried(r, index, run->frames - i);
			return;
		}
		ph_xen_release_add(r, index, run->frame + i, ph_xen_name_to_reclaim(r->x, run->frame + i));
	}
}

static void reclaim_run(struct ph_xen_release *r, uint32_t index, const struct pagehint_run *run, uint64_t end)
{
	uint64_t at = run->frame, last = run->frame + run->frames, stop = last < end ? last : end;
	struct pagehint_run there;
	while (r->stop.error == 0 && at < stop && ph_xen_next_present(r->x, at, stop, &there)) {
		ph_xen_release_absent(r, index, there.frame - at);
		reclaim_present(r, index, &there);
		at = there.frame + there.frames;
	}
	if (r->stop.error != 0 && at < stop) {
		ph_xen_release_not_tried(r, index, stop - at);
		at = stop;
	}
	if (at < last)
		ph_xen_release_absent(r, index, last - at);
}

/* Frames from here on have no memory: nobody has to try them one by one. */
static uint64_t end_of_domain(struct pagehint_xen *x)
{
	if (x->kind != PAGEHINT_XEN_TRANSLATED || x->present != NULL)
		return UINT64_MAX;
	int64_t last = ph_xen_ask(x, PH_XEN_MAXIMUM_GPFN);
	return last < 0 ? UINT64_MAX : (uint64_t)last + 1;
}

/*
 * Fewer frames left the domain than the counts said: somebody has them mapped, and they go when that ends. Which ones, nobody
 * says; they are booked from the end. More: the domain gave up others itself meanwhile.
 */
static void book_mapped(struct ph_xen_release *r, uint32_t n, struct pagehint_outcome *ret_sum)
{
	int64_t now = r->freed == 0 ? -1 : ph_xen_ask(r->x, PH_XEN_CURRENT);
	if (now < 0 || (uint64_t)now <= r->before)
		return;
	uint64_t more = (uint64_t)now - r->before;
	uint64_t bytes = (more < r->freed ? more : r->freed) << PH_XEN_FRAME_SHIFT;
	ret_sum->freed -= bytes;
	ret_sum->asked -= bytes;
	ph_outcome_lazy(ret_sum, bytes, PAGEHINT_WHY_MAPPED);
	for (uint32_t i = n; r->outcomes != NULL && bytes > 0 && i-- > 0;) {
		struct pagehint_outcome *o = &r->outcomes[i];
		uint64_t part = o->freed < bytes ? o->freed : bytes;
		if (part == 0)
			continue;
		o->freed -= part;
		o->asked -= part;
		ph_outcome_lazy(o, part, PAGEHINT_WHY_MAPPED);
		bytes -= part;
	}
}

static int reclaim_inside(struct pagehint_xen *x, const struct pagehint_run *runs, uint32_t n,
			  struct pagehint_outcome *outcomes, struct pagehint_outcome *ret_sum)
{
	struct ph_sum sum;
	struct ph_xen_release release = { .x = x, .outcomes = outcomes, .sum = &sum };
	memset(&sum, 0, sizeof(sum));
	if (outcomes != NULL)
		memset(outcomes, 0, n * sizeof(*outcomes));
	release.scrub = (x->flags & PAGEHINT_XEN_NO_SCRUB) == 0 && x->kind != PAGEHINT_XEN_OWN;
	uint64_t end = ph_xen_release_start(&release) < 0 ? UINT64_MAX : end_of_domain(x);
	for (uint32_t i = 0; i < n; i++)
		reclaim_run(&release, i, &runs[i], end);
	ph_xen_release_flush(&release);
	*ret_sum = ph_sum_total(&sum);
	book_mapped(&release, n, ret_sum);
	return release.stop.error;
}

int pagehint_xen_reclaim(struct pagehint_xen *xen, const struct pagehint_run *runs, uint32_t n,
			 struct pagehint_outcome *outcomes, struct pagehint_outcome *ret_sum)
{
	struct pagehint_outcome sum = { 0 };
	int r = xen == NULL ? -EINVAL : ph_xen_check_runs(runs, n);
	if (r == 0)
		r = ph_xen_begin(xen);
	if (r == 0) {
		if (n > 0)
			r = reclaim_inside(xen, runs, n, outcomes, &sum);
		ph_xen_end(xen);
	}
	if (ret_sum != NULL)
		*ret_sum = sum;
	return r;
}
