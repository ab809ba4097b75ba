#include "xen/release.h"

#include <errno.h>
#include <string.h>

#include "xen/abi.h"
#include "xen/hypercall.h"
#include "xen/ledger.h"

static void book(struct ph_xen_release *r, uint32_t run, const struct pagehint_outcome *one)
{
	if (r->undo) {
		/* it was booked as accepted when it came */
		if (r->outcomes != NULL && one->freed != 0) {
			r->outcomes[run].asked -= one->freed;
			r->outcomes[run].accepted -= one->freed;
		}
		return;
	}
	ph_sum_add(r->sum, one);
	if (r->outcomes == NULL)
		return;
	struct pagehint_outcome *to = &r->outcomes[run];
	ph_outcome_freed(to, one->freed);
	ph_outcome_absent(to, one->absent);
	ph_outcome_kept(to, one->kept, one->kept_why);
	ph_outcome_failed(to, one->failed, one->failed_why, one->error);
}

void ph_xen_release_absent(struct ph_xen_release *r, uint32_t run, uint64_t frames)
{
	struct pagehint_outcome one = { 0 };
	ph_outcome_absent(&one, frames << PH_XEN_FRAME_SHIFT);
	book(r, run, &one);
}

void ph_xen_release_kept(struct ph_xen_release *r, uint32_t run, uint64_t frames, uint32_t why)
{
	struct pagehint_outcome one = { 0 };
	ph_outcome_kept(&one, frames << PH_XEN_FRAME_SHIFT, why);
	book(r, run, &one);
}

static void failed(struct ph_xen_release *r, uint32_t run, uint64_t frames, uint32_t why)
{
	struct pagehint_outcome one = { 0 };
	ph_outcome_failed(&one, frames << PH_XEN_FRAME_SHIFT, why, r->stop.error);
	book(r, run, &one);
}

void ph_xen_release_not_tried(struct ph_xen_release *r, uint32_t run, uint64_t frames)
{
	failed(r, run, frames, r->stop.why == PAGEHINT_WHY_GONE ? PAGEHINT_WHY_GONE : PAGEHINT_WHY_NOT_TRIED);
}

int ph_xen_release_start(struct ph_xen_release *r)
{
	int64_t current = ph_xen_ask(r->x, PH_XEN_CURRENT);
	if (current < 0)
		r->stop = ph_xen_refused(current);
	else
		r->before = (uint64_t)current;
	return r->stop.error;
}

/* The first `n` of the batch are dealt with. */
static void drop(struct ph_xen_release *r, uint32_t n)
{
	struct pagehint_xen *x = r->x;
	r->n -= n;
	memmove(x->extents, x->extents + n, r->n * sizeof(x->extents[0]));
	memmove(x->frame_of, x->frame_of + n, r->n * sizeof(x->frame_of[0]));
	memmove(x->run_of, x->run_of + n, r->n * sizeof(x->run_of[0]));
}

static void took(struct ph_xen_release *r, uint32_t n)
{
	struct pagehint_xen *x = r->x;
	for (uint32_t from = 0, i = 0; i < n; i++) {
		ph_xen_went(x, x->frame_of[i], x->extents[i]);
		if (i + 1 < n && x->run_of[i + 1] == x->run_of[from])
			continue;
		struct pagehint_outcome one = { 0 };
		ph_outcome_freed(&one, (uint64_t)(i + 1 - from) << PH_XEN_FRAME_SHIFT);
		book(r, x->run_of[from], &one);
		from = i + 1;
	}
	r->before -= n < r->before ? n : r->before;
	r->freed += n;
	if (r->undo)
		x->stats.undone += n;
	else
		x->stats.reclaimed += n;
	drop(r, n);
}

/*
 * Frames that could not be wiped leave the batch: what they hold must not be seen by others. None could: then it is asked
 * whether the domain is there at all, since nobody says so otherwise.
 */
static void scrub(struct ph_xen_release *r)
{
	struct pagehint_xen *x = r->x;
	uint32_t kept = 0, bad = 0;
	memset(x->errors, 0, r->n * sizeof(x->errors[0]));
	int all = x->calls.zero(x->ctx, x->domid, x->extents, r->n, x->errors);
	for (uint32_t i = 0; i < r->n; i++)
		bad += all < 0 || x->errors[i] != 0;
	if (bad == r->n) {
		int64_t current = ph_xen_ask(x, PH_XEN_CURRENT);
		if (current < 0) {
			r->stop = ph_xen_refused(current);
			return;
		}
	}
	for (uint32_t i = 0; i < r->n; i++) {
		if (all < 0 || x->errors[i] != 0) {
			ph_xen_release_kept(r, x->run_of[i], 1, PAGEHINT_WHY_UNSCRUBBED);
			continue;
		}
		x->extents[kept] = x->extents[i];
		x->frame_of[kept] = x->frame_of[i];
		x->run_of[kept++] = x->run_of[i];
	}
	x->stats.scrubbed += kept;
	r->n = kept;
}

/* The call answered with an error: what it did is booked; unless it is worth another try, that was it. */
static void go_on(struct ph_xen_release *r, int64_t answer, uint32_t *retries)
{
	uint32_t done = ph_xen_progress(r->x, r->before, 1, r->n, 0);
	took(r, done);
	*retries = done != 0 ? 0 : *retries + 1;
	if (r->n == 0)
		return;
	if (answer == -EAGAIN && *retries < PH_XEN_RETRIES)
		r->x->stats.retries++;
	else
		r->stop = ph_xen_refused(answer);
}

/* The first frame of the batch was not taken. */
static void meet_hole(struct ph_xen_release *r)
{
	struct ph_xen_verdict why = ph_xen_not_taken(r->x);
	if (why.error < 0) {
		r->stop = why;
		return;
	}
	ph_xen_release_kept(r, r->x->run_of[0], 1, why.why);
	drop(r, 1);
	if (++r->refusals >= PH_XEN_REFUSALS)
		r->stop = (struct ph_xen_verdict) { PAGEHINT_WHY_NOT_TRIED, -EAGAIN };
}

void ph_xen_release_flush(struct ph_xen_release *r)
{
	uint32_t retries = 0;
	if (r->n > 0 && r->scrub && r->stop.error == 0)
		scrub(r);
	while (r->n > 0 && r->stop.error == 0) {
		int64_t answer = ph_xen_extents(r->x, PH_XEN_DECREASE, r->n, 0);
		if (answer < 0) {
			go_on(r, answer, &retries);
			continue;
		}
		took(r, (uint32_t)answer);
		if (r->n > 0)
			meet_hole(r);
	}
	for (uint32_t i = 0; i < r->n; i++)
		failed(r, r->x->run_of[i], 1, r->stop.why);
	r->n = 0;
}

void ph_xen_release_add(struct ph_xen_release *r, uint32_t run, uint64_t frame, uint64_t name)
{
	struct pagehint_xen *x = r->x;
	x->extents[r->n] = name;
	x->frame_of[r->n] = frame;
	x->run_of[r->n++] = run;
	if (r->n == x->batch)
		ph_xen_release_flush(r);
}
