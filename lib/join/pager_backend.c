/*
 * pager_backend: a backend that tells the pager before another backend takes memory away, and afterwards what became of it.
 *
 * The problem: memory that is paged in lazily may be on its way in when it is given away; who discards must not wait for
 * that, and must not free what is just arriving. Why a backend: the reporter and the device know nothing of pagers, and
 * need not. Each run is cut at the edges of regions and around pages in flight; those are kept, the others go on.
 * DISCARD_ZERO is not handed on inside regions: what is kept there is zeroed here, since only the pager knows which pages
 * may be touched without a fault.
 * Owns: room for the parts of one call. Borrows: the pager, the inner backend.
 * Invariants: what was marked is unmarked before the call ends, whatever the inner backend says.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <pagehint/pager_backend.h>

#include "base/opts.h"
#include "discard/backend.h"
#include "discard/result.h"
#include "pager/pager.h"
#include "pager/removed.h"

#define PARTS 512u

struct pager_backend {
	struct pagehint_pager *pager;
	struct pagehint_backend *inner;
	uint32_t frame_shift;
	uint32_t n;
	struct ph_leaving parts[PARTS];
	struct pagehint_run runs[PARTS];
	struct pagehint_outcome outcomes[PARTS];
};

static void absorb(struct pagehint_outcome *to, const struct pagehint_outcome *part)
{
	ph_outcome_freed(to, part->freed);
	ph_outcome_absent(to, part->absent);
	ph_outcome_accepted(to, part->accepted);
	ph_outcome_lazy(to, part->lazy, part->lazy_why);
	ph_outcome_kept(to, part->kept, part->kept_why);
	ph_outcome_failed(to, part->failed, part->failed_why, part->error);
}

static uint32_t ending_of(const struct pagehint_outcome *o)
{
	uint64_t stayed = o->kept + o->failed;
	if (stayed == 0)
		return PH_LEFT_ALL;
	return stayed == o->asked ? PH_LEFT_NONE : PH_LEFT_SOME;
}

/* Kept bytes that the caller wants zeroed. What was never here is zero by its mark; what is here is wiped. */
static void wipe(struct pager_backend *b, const struct ph_leaving *part, struct pagehint_outcome *o)
{
	uint64_t wiped = ph_removed_wipe(b->pager, part->frame, part->frames);
	struct pagehint_outcome zeroed = { 0 };
	ph_outcome_kept(&zeroed, wiped, PAGEHINT_WHY_ZEROED);
	ph_outcome_absent(&zeroed, o->asked - wiped);
	*o = zeroed;
}

static int may_wipe(const struct pagehint_outcome *o)
{
	return o->kept == o->asked && o->kept_why != PAGEHINT_WHY_PINNED && o->kept_why != PAGEHINT_WHY_INHIBITED &&
	       o->kept_why != PAGEHINT_WHY_HOOK_REFUSED;
}

/* What became of one part, told to the pager and added to the run it is of. */
static void settle(struct pager_backend *b, const struct ph_leaving *part, struct pagehint_outcome *o, uint32_t flags,
		   int error, struct pagehint_outcome *run)
{
	uint64_t bytes = part->frames << b->frame_shift;
	if (o->asked != bytes) { /* refused as a whole, before any run was looked at */
		memset(o, 0, sizeof(*o));
		ph_outcome_failed(o, bytes, PAGEHINT_WHY_NOT_TRIED, error);
	}
	if (part->leaves == PH_LEAVES) {
		uint32_t ending = ending_of(o);
		if ((flags & PAGEHINT_DISCARD_ZERO) != 0 && ending == PH_LEFT_NONE && may_wipe(o)) {
			wipe(b, part, o);
			ending = PH_LEFT_ALL; /* zero either way: what is present stays and is zero */
		}
		ph_removed_left(b->pager, part->frame, part->frames, ending);
	}
	absorb(run, o);
}

static int goes_down(const struct ph_leaving *part)
{
	return part->leaves == PH_LEAVES || part->leaves == PH_OUTSIDE;
}

/* All parts that were collected go down in one call. Returns its error. */
static int flush(struct pager_backend *b, uint32_t flags, struct pagehint_outcome *outcomes)
{
	uint32_t n = 0, at = 0;
	int r = 0;
	for (uint32_t i = 0; i < b->n; i++)
		if (goes_down(&b->parts[i]))
			b->runs[n++] = (struct pagehint_run) { b->parts[i].frame, b->parts[i].frames };
	memset(b->outcomes, 0, n * sizeof(b->outcomes[0]));
	if (n > 0)
		r = pagehint_backend_discard(b->inner, b->runs, n, flags & ~PAGEHINT_DISCARD_ZERO, b->outcomes, NULL,
					     NULL);
	for (uint32_t i = 0; i < b->n; i++) {
		const struct ph_leaving *part = &b->parts[i];
		struct pagehint_outcome *run = &outcomes[part->run];
		if (!goes_down(part))
			ph_outcome_kept(run, part->frames << b->frame_shift,
					part->leaves == PH_EDGE ? PAGEHINT_WHY_ALIGNMENT : PAGEHINT_WHY_IN_FLIGHT);
		else
			settle(b, part, &b->outcomes[at++], flags, r, run);
	}
	b->n = 0;
	return r;
}

/* Where nothing is paged in the inner backend does it all, and zeroes itself where that is asked for. */
static int outside(struct pager_backend *b, uint64_t frame, uint64_t frames, uint32_t flags, uint32_t run,
		   struct pagehint_outcome *outcomes)
{
	struct ph_leaving part = { frame, frames, PH_OUTSIDE, run };
	const struct pagehint_run alone = { frame, frames };
	struct pagehint_outcome o = { 0 };
	if ((flags & PAGEHINT_DISCARD_ZERO) == 0) {
		b->parts[b->n++] = part;
		return 0;
	}
	int r = pagehint_backend_discard(b->inner, &alone, 1, flags, &o, NULL, NULL);
	settle(b, &part, &o, flags, r, &outcomes[run]);
	return r;
}

/* Collects the parts of one run; goes down whenever there is no room for more. */
static int collect(struct pager_backend *b, const struct pagehint_run *run, uint32_t index, uint32_t flags,
		   struct pagehint_outcome *outcomes)
{
	uint64_t frame = run->frame, left = run->frames;
	int first = 0, r = 0;
	while (left > 0) {
		int inside;
		uint64_t part = ph_removed_part(b->pager, frame, left, &inside), done = part;
		if (b->n == PARTS)
			r = flush(b, flags, outcomes);
		first = first == 0 ? r : first;
		if (inside) {
			uint32_t n = ph_removed_leave(b->pager, frame, part, b->parts + b->n, PARTS - b->n, &done);
			for (uint32_t i = 0; i < n; i++)
				b->parts[b->n + i].run = index;
			b->n += n;
			if (done == 0)
				r = flush(b, flags, outcomes);
		} else {
			r = outside(b, frame, part, flags, index, outcomes);
		}
		first = first == 0 ? r : first;
		frame += done;
		left -= done;
	}
	return first;
}

static int pager_discard(void *ctx, const struct pagehint_run *runs, uint32_t n, uint32_t flags,
			 struct pagehint_outcome *outcomes, uint32_t *ret_done)
{
	struct pager_backend *b = ctx;
	int first = 0, r;
	b->n = 0;
	for (uint32_t i = 0; i < n; i++) {
		r = collect(b, &runs[i], i, flags, outcomes);
		first = first == 0 ? r : first;
	}
	r = flush(b, flags, outcomes);
	*ret_done = n;
	return first == 0 ? r : first;
}

/* Inside a region a page is brought by the pager: the inner backend would fault, and wait for whoever serves it. */
static int pager_populate(void *ctx, const struct pagehint_run *runs, uint32_t n, uint32_t *ret_done)
{
	struct pager_backend *b = ctx;
	for (*ret_done = 0; *ret_done < n; ++*ret_done) {
		uint64_t frame = runs[*ret_done].frame, left = runs[*ret_done].frames;
		while (left > 0) {
			int inside, r;
			uint64_t part = ph_removed_part(b->pager, frame, left, &inside);
			const struct pagehint_run run = { frame, part };
			r = inside ? pagehint_pager_ensure(b->pager, frame, part, NULL)
				   : pagehint_backend_populate(b->inner, &run, 1, NULL);
			if (r < 0)
				return r;
			frame += part;
			left -= part;
		}
	}
	return 0;
}

static int pager_extent(void *ctx, uint64_t frame, uint64_t *ret_frames, uint64_t *ret_least_bytes)
{
	struct pager_backend *b = ctx;
	return pagehint_backend_extent(b->inner, frame, ret_frames, ret_least_bytes);
}

static void pager_explain(void *ctx, const struct pagehint_sink *sink)
{
	struct pager_backend *b = ctx;
	pagehint_pager_explain(b->pager, sink);
	pagehint_backend_explain(b->inner, sink);
}

int pagehint_pager_backend_new(struct pagehint_pager *pager, struct pagehint_backend *inner,
			       const struct pagehint_backend_opts *opts, struct pagehint_backend **ret_backend)
{
	struct pagehint_backend_ops ops = {
		.struct_size = sizeof(ops),
		.name = "pager",
		.max_runs = PARTS,
		.discard = pager_discard,
		.populate = pager_populate,
		.extent = pager_extent,
		.explain = pager_explain,
		.destroy = free,
	};
	struct pagehint_backend_opts how;
	int r = pager == NULL || inner == NULL || ret_backend == NULL ? -EINVAL : PH_OPTS_IN(how, opts);
	if (r < 0)
		return r;
	if ((pagehint_backend_caps(inner) & PAGEHINT_BACKEND_ASYNC) != 0)
		return -EOPNOTSUPP;
	if ((pager->flags & (PAGEHINT_PAGER_FOREIGN | PAGEHINT_PAGER_EVENT_REMOVE)) != 0 ||
	    ph_backend_frame_shift(inner) != pager->frame_shift ||
	    (how.frame_shift != 0 && how.frame_shift != pager->frame_shift))
		return -EINVAL;
	ops.caps = pagehint_backend_caps(inner) & PAGEHINT_BACKEND_READS_ZERO;
	how.struct_size = sizeof(how);
	how.frame_shift = pager->frame_shift;
	struct pager_backend *b = calloc(1, sizeof(*b));
	if (b == NULL)
		return -ENOMEM;
	b->pager = pager;
	b->inner = inner;
	b->frame_shift = pager->frame_shift;
	r = ph_backend_new_with(&ops, b, &how, pager->sys, ret_backend);
	if (r < 0)
		free(b);
	return r;
}
