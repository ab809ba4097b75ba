/*
 * populate: giving a domain memory, all of it or nothing. Extents are cut by extents.h; what a short count meant is found by
 * diagnose.h; undoing goes through release.h.
 */
#include <errno.h>
#include <string.h>

#include "discard/result.h"
#include "xen/abi.h"
#include "xen/diagnose.h"
#include "xen/extents.h"
#include "xen/hypercall.h"
#include "xen/ledger.h"
#include "xen/release.h"

/* Extents a call, so that one hypercall stays short: 1 GiB each. */
#define BATCH_1G 1u
#define BATCH_2M 128u

struct populate {
	struct pagehint_xen *x;
	struct ph_xen_plan plan;
	const uint32_t *parents; /* the caller's run for each of the plan's; NULL: the same */
	struct pagehint_outcome *outcomes;
	struct ph_xen_verdict stop;
	uint64_t current; /* what the domain has, as far as we know [frames] */
	uint64_t came;    /* [frames] */
	uint64_t kept;    /* were there already [frames] */
	uint32_t partial;
};

static uint32_t parent(const struct populate *p, uint32_t run)
{
	return p->parents == NULL ? run : p->parents[run];
}

static void came(struct populate *p, uint32_t first, uint32_t n, uint32_t order)
{
	struct pagehint_xen *x = p->x;
	for (uint32_t i = 0; i < n; i++) {
		ph_xen_came(x, x->frame_of[first + i], order, x->extents[i]);
		if (p->outcomes != NULL)
			ph_outcome_accepted(&p->outcomes[parent(p, x->run_of[first + i])],
					    UINT64_C(1) << (order + PH_XEN_FRAME_SHIFT));
	}
	uint64_t *extents = order == PH_XEN_ORDER_1G   ? &x->stats.extents_1g
			    : order == PH_XEN_ORDER_2M ? &x->stats.extents_2m
						       : &x->stats.extents_4k;
	*extents += n;
	x->stats.populated += (uint64_t)n << order;
	p->came += (uint64_t)n << order;
	p->current += (uint64_t)n << order;
}

/*
 * How many extents a call did that answered with an error. A PV frame without the name that the hypervisor has for it is of no
 * use: a wrong one would give up another frame. Such extents stay the domain's until it is destroyed, and are not told as had.
 */
static uint32_t done_in_spite(struct populate *p, uint32_t first, uint32_t n, uint32_t order)
{
	const struct pagehint_xen *x = p->x;
	uint32_t moved = ph_xen_progress(p->x, p->current, 0, n, order), named = moved;
	if (x->kind == PAGEHINT_XEN_PV)
		for (named = 0; named < moved && x->extents[named] != x->frame_of[first + named];)
			named++;
	p->current += (uint64_t)(moved - named) << order;
	return named;
}

/* A batch, until it is done or does not get on. Returns how many are; *ret_answer < 0: the error that ended it. */
static uint32_t send(struct populate *p, uint32_t n, uint32_t order, int64_t *ret_answer)
{
	struct pagehint_xen *x = p->x;
	uint32_t done = 0, retries = 0;
	for (;;) {
		int64_t r = ph_xen_extents(x, PH_XEN_POPULATE, n - done, order);
		uint32_t got = r < 0 ? done_in_spite(p, done, n - done, order) : (uint32_t)r;
		came(p, done, got, order);
		done += got;
		memmove(x->extents, x->extents + got, (n - done) * sizeof(x->extents[0]));
		retries = got != 0 ? 0 : retries + 1;
		*ret_answer = r < 0 ? r : 0;
		if (done == n || r != -EAGAIN || retries >= PH_XEN_RETRIES)
			return done;
		x->stats.retries++;
	}
}

static struct ph_xen_place *cut_of(struct ph_xen_plan *plan, uint32_t order)
{
	return order == PH_XEN_ORDER_1G ? &plan->cut_1g : order == PH_XEN_ORDER_2M ? &plan->cut_2m : &plan->cut_4k;
}

/* 0: all of it is there. 1: go on with smaller extents from here. -1: p->stop says why. */
static int flush(struct populate *p, uint32_t n, uint32_t order)
{
	struct pagehint_xen *x = p->x;
	int64_t answer = 0;
	uint32_t done = n == 0 ? 0 : send(p, n, order, &answer);
	if (done == n)
		return 0;
	*cut_of(&p->plan, order) = (struct ph_xen_place) { x->run_of[done], x->frame_of[done] };
	struct ph_xen_verdict why = answer < 0 ? ph_xen_refused(answer) : ph_xen_not_populated(x, order);
	if (order != 0 && answer == 0 &&
	    (why.why == PAGEHINT_WHY_NO_MEMORY || (p->partial && why.why == PAGEHINT_WHY_LIMIT)))
		return 1;
	p->stop = why;
	return -1;
}

/* All extents of one size. */
static int pass(struct populate *p, uint32_t order)
{
	struct pagehint_xen *x = p->x;
	const uint32_t most = order == PH_XEN_ORDER_1G ? BATCH_1G : order == PH_XEN_ORDER_2M ? BATCH_2M : PH_XEN_BATCH;
	const uint32_t room = x->batch < most ? x->batch : most;
	struct ph_xen_place at = ph_xen_first();
	uint32_t n = 0;
	while (ph_xen_seek(&p->plan, order, &at)) {
		x->extents[n] = ph_xen_name_to_populate(x, at.frame);
		x->frame_of[n] = at.frame;
		x->run_of[n++] = at.run;
		at = ph_xen_after(&p->plan, at, order);
		if (n < room)
			continue;
		int r = flush(p, n, order);
		n = 0;
		if (r != 0)
			return r;
	}
	return flush(p, n, order);
}

/* A cut is at the end while its pass runs, and stays at the beginning when that is never reached. */
static int run_plan(struct populate *p, const struct pagehint_run *runs, uint32_t n)
{
	static const uint32_t orders[] = { PH_XEN_ORDER_1G, PH_XEN_ORDER_2M, 0 };
	const uint32_t left_out[] = { PAGEHINT_XEN_NO_1G, PAGEHINT_XEN_NO_2M, 0 };
	const int single = p->x->kind == PAGEHINT_XEN_OWN; /* what is out lies anywhere */
	p->plan = (struct ph_xen_plan) { .runs = runs, .n = n };
	for (int i = 0; i < 3; i++) {
		if (orders[i] != 0 && (single || (p->x->flags & left_out[i]) != 0))
			continue;
		*cut_of(&p->plan, orders[i]) = ph_xen_last(&p->plan);
		if (pass(p, orders[i]) < 0)
			return -1;
	}
	return 0;
}

/* Gives back what the plan says that came. */
static void undo(struct populate *p)
{
	const struct ph_xen_plan *plan = &p->plan;
	struct ph_xen_release release = { .x = p->x, .outcomes = p->outcomes, .undo = 1 };
	struct ph_xen_place at = { 0, plan->runs[0].frame };
	if (p->came == 0 || ph_xen_release_start(&release) < 0)
		return;
	while (at.run < plan->n && release.stop.error == 0) {
		uint32_t order = ph_xen_order_at(plan, at);
		if (order != 0 || ph_xen_before(at, plan->cut_4k))
			for (uint64_t i = 0; i < UINT64_C(1) << order; i++)
				ph_xen_release_add(&release, at.run, at.frame + i,
						   ph_xen_name_to_reclaim(p->x, at.frame + i));
		at = ph_xen_after(plan, at, order);
	}
	ph_xen_release_flush(&release);
	p->came -= release.freed < p->came ? release.freed : p->came;
}

/* Sets the memory aside. 1: claimed; 0: not possible, and no reason not to go on; -1: it cannot be had (p->stop). */
static int claim(struct populate *p, uint64_t frames)
{
	struct pagehint_xen *x = p->x;
	int64_t maximum = ph_xen_ask(x, PH_XEN_MAXIMUM);
	if (maximum >= 0 && (p->current > (uint64_t)maximum || frames > (uint64_t)maximum - p->current)) {
		p->stop = (struct ph_xen_verdict) { PAGEHINT_WHY_LIMIT, -ENOSPC };
		return -1;
	}
	if ((x->flags & PAGEHINT_XEN_NO_CLAIM) != 0 || x->domid == PAGEHINT_XEN_SELF)
		return 0;
	int r = ph_xen_claim(x, p->current + frames);
	if (r == -ENOMEM) {
		p->stop = (struct ph_xen_verdict) { PAGEHINT_WHY_NO_MEMORY, -ENOMEM };
		return -1;
	}
	x->stats.claims += r == 0;
	return r == 0;
}

static uint64_t frames_of(const struct pagehint_run *runs, uint32_t n)
{
	uint64_t frames = 0; /* cannot wrap: the runs are disjoint */
	for (uint32_t i = 0; i < n; i++)
		frames += runs[i].frames;
	return frames;
}

static void populate_all(struct populate *p, const struct pagehint_run *runs, uint32_t n)
{
	struct pagehint_run there;
	for (uint32_t i = 0; i < n; i++)
		if (ph_xen_knows(p->x) &&
		    ph_xen_next_present(p->x, runs[i].frame, runs[i].frame + runs[i].frames, &there)) {
			p->stop = (struct ph_xen_verdict) { PAGEHINT_WHY_PRESENT, -EEXIST };
			return;
		}
	int claimed = claim(p, frames_of(runs, n));
	if (claimed >= 0 && run_plan(p, runs, n) < 0)
		undo(p);
	if (claimed > 0)
		(void)ph_xen_claim(p->x, 0); /* nothing of it is left after a success; a domain that is gone has none */
}

/* What was passed over because it is there. */
static void keep(struct populate *p, uint32_t run, uint64_t frames)
{
	p->kept += frames;
	if (p->outcomes != NULL)
		ph_outcome_kept(&p->outcomes[run], frames << PH_XEN_FRAME_SHIFT, PAGEHINT_WHY_PRESENT);
}

/* What is missing in the runs from (*run, *from) on, as many pieces as there is room for. */
static uint32_t find_missing(struct populate *p, const struct pagehint_run *runs, uint32_t n, uint32_t *run,
			     uint64_t *from)
{
	struct pagehint_xen *x = p->x;
	uint32_t found = 0;
	while (*run < n && found < PH_XEN_BATCH) {
		uint64_t end = runs[*run].frame + runs[*run].frames;
		uint64_t start = *from > runs[*run].frame ? *from : runs[*run].frame;
		if (ph_xen_next_absent(x, start, end, &x->missing[found])) {
			keep(p, *run, x->missing[found].frame - start);
			x->missing_of[found] = *run;
			*from = x->missing[found].frame + x->missing[found].frames;
			found++;
		} else {
			keep(p, *run, end - start);
			++*run;
			*from = 0;
		}
	}
	return found;
}

/* Piece by piece; after a failure only what is there already is still counted. */
static void populate_part(struct populate *p, const struct pagehint_run *runs, uint32_t n)
{
	uint64_t from = 0;
	uint32_t run = 0, found;
	p->parents = p->x->missing_of;
	while ((found = find_missing(p, runs, n, &run, &from)) != 0)
		if (p->stop.error == 0)
			(void)run_plan(p, p->x->missing, found);
}

/* What is neither accepted nor kept failed; and whatever a dead domain had been given is gone with it. */
static struct pagehint_outcome settle(struct populate *p, const struct pagehint_run *runs, uint32_t n)
{
	const int gone = p->stop.why == PAGEHINT_WHY_GONE;
	struct ph_sum sum;
	struct pagehint_outcome one = { 0 };
	memset(&sum, 0, sizeof(sum));
	for (uint32_t i = 0; p->outcomes != NULL && i < n; i++) {
		struct pagehint_outcome *o = &p->outcomes[i];
		o->asked -= gone ? o->accepted : 0;
		o->accepted = gone ? 0 : o->accepted;
		uint64_t rest = (runs[i].frames << PH_XEN_FRAME_SHIFT) - o->asked;
		if (rest != 0)
			ph_outcome_failed(o, rest, p->stop.why, p->stop.error);
	}
	if (gone)
		p->came = 0;
	uint64_t rest = frames_of(runs, n) - p->came - p->kept;
	ph_outcome_accepted(&one, p->came << PH_XEN_FRAME_SHIFT);
	if (p->kept != 0)
		ph_outcome_kept(&one, p->kept << PH_XEN_FRAME_SHIFT, PAGEHINT_WHY_PRESENT);
	if (rest != 0)
		ph_outcome_failed(&one, rest << PH_XEN_FRAME_SHIFT, p->stop.why, p->stop.error);
	ph_sum_add(&sum, &one);
	return ph_sum_total(&sum);
}

static int populate_inside(struct pagehint_xen *x, const struct pagehint_run *runs, uint32_t n, uint32_t flags,
			   struct pagehint_outcome *outcomes, struct pagehint_outcome *ret_sum)
{
	struct populate p = { .x = x, .outcomes = outcomes };
	p.partial = (flags & PAGEHINT_XEN_PARTIAL) != 0 || x->kind == PAGEHINT_XEN_OWN;
	if (outcomes != NULL)
		memset(outcomes, 0, n * sizeof(*outcomes));
	int64_t current = ph_xen_ask(x, PH_XEN_CURRENT);
	if (current < 0)
		p.stop = ph_xen_refused(current);
	p.current = (uint64_t)current;
	if (current >= 0 && p.partial)
		populate_part(&p, runs, n);
	else if (current >= 0)
		populate_all(&p, runs, n);
	*ret_sum = settle(&p, runs, n);
	return p.stop.error;
}

int pagehint_xen_populate(struct pagehint_xen *xen, const struct pagehint_run *runs, uint32_t n, uint32_t flags,
			  struct pagehint_outcome *outcomes, struct pagehint_outcome *ret_sum)
{
	struct pagehint_outcome sum = { 0 };
	int r = xen == NULL || (flags & ~PAGEHINT_XEN_PARTIAL) != 0 ? -EINVAL : ph_xen_check_runs(runs, n);
	for (uint32_t i = 0; r == 0 && i < n; i++)
		r = ph_xen_covers(xen, &runs[i]);
	if (r == 0)
		r = ph_xen_begin(xen);
	if (r == 0) {
		if (n > 0)
			r = populate_inside(xen, runs, n, flags, outcomes, &sum);
		ph_xen_end(xen);
	}
	if (ret_sum != NULL)
		*ret_sum = sum;
	return r;
}
