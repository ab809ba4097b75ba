#include "pager/resolve.h"

#include <errno.h>

#include <pagehint/map.h>

#include "pager/fail.h"
#include "pager/flight.h"
#include "pager/install.h"

#define RACED 1          /* somebody changed the page, or a smaller window is needed: look again */
#define LOOKS 16u        /* before it is put off */
#define NO_ROOM_TRIES 8u /* of a kernel without memory, before the embedder is told */

/* ---- the window ---- */

struct window {
	uint64_t low;
	uint64_t high;
	uint32_t how; /* PH_INSTALL_*; COPY = from the source */
};

static int is_wanted(const struct ph_range *g, uint64_t page)
{
	const _Atomic uint64_t *words =
		(const _Atomic uint64_t *)atomic_load_explicit(&g->wanted, memory_order_acquire);
	return words == NULL || (atomic_load_explicit(&words[page / 64], memory_order_relaxed) >> page % 64 & 1) != 0;
}

/* Around the page as far as it is absent and wanted: never over what was removed, or is in other hands. */
static void clip(const struct ph_range *g, uint64_t page, struct window *w)
{
	uint64_t low = page, high = page + 1;
	while (low > w->low && ph_state_get(&g->states, low - 1) == PH_ABSENT && is_wanted(g, low - 1))
		low--;
	while (high < w->high && ph_state_get(&g->states, high) == PH_ABSENT && is_wanted(g, high))
		high++;
	w->low = low;
	w->high = high;
}

static int may_be_minor(const struct ph_ask *a)
{
	return (a->how & (UFFD_PAGEFAULT_FLAG_MINOR | PH_HOW_UNKNOWN)) != 0;
}

/* What the page is made of, and how far around it that is so. */
static void by_content(const struct ph_range *g, const struct ph_ask *a, struct window *w)
{
	uint64_t bytes, page = g->page_bytes, at = g->offset + (a->page << g->page_shift);
	uint32_t is_zero, ignored;
	if ((g->flags & PAGEHINT_PAGER_MINOR) != 0 && !a->not_there && (may_be_minor(a) || g->source == NULL)) {
		w->how = PH_INSTALL_CONTINUE;
		return;
	}
	w->how = PH_INSTALL_COPY;
	ph_source_extent(g->source, at, (w->high - a->page) << g->page_shift, page, &bytes, &is_zero);
	w->high = a->page + (bytes >> g->page_shift);
	if (!is_zero) {
		if (w->low == a->page)
			return;
		ph_source_extent(g->source, g->offset + (w->low << g->page_shift), (a->page - w->low) << g->page_shift,
				 page, &bytes, &ignored);
		if (ignored != 0 || bytes != (a->page - w->low) << g->page_shift)
			w->low = a->page;
		return;
	}
	w->how = PH_INSTALL_ZERO;
	w->low = a->page;
	/* a page of zeros costs memory everywhere but where the kernel's own is mapped */
	if (g->backing == PAGEHINT_BACKING_SHARED || (g->can & PH_UFFD_CAN_ZERO) == 0 ||
	    (g->flags & PAGEHINT_PAGER_TRACK) != 0 || (a->how & UFFD_PAGEFAULT_FLAG_WRITE) != 0)
		w->high = a->page + 1;
}

static void plan(const struct ph_ask *a, struct window *w)
{
	const struct ph_range *g = a->range;
	uint64_t most = PH_BUFFER_BYTES >> g->page_shift, n = a->window < most ? a->window : most;
	uint64_t first, end;
	if (n > PH_WINDOW_MAX)
		n = PH_WINDOW_MAX;
	ph_range_stripe(g, a->page, &first, &end);
	w->low = a->page / n * n;
	w->high = w->low + n < end ? w->low + n : end;
	w->low = w->low > first ? w->low : first;
	clip(g, a->page, w);
	by_content(g, a, w);
}

/* Claims the page and what it can of the window. 0 when the page itself is somebody else's by now. */
static int claim(struct pagehint_pager *p, const struct ph_ask *a, struct window *w)
{
	struct ph_range *g = a->range;
	uint64_t n = ph_state_take(&g->states, a->page, w->high - a->page, &ph_change_claim);
	if (n == 0)
		return 0;
	w->high = a->page + n;
	if (w->low == a->page)
		return 1;
	n = ph_state_take(&g->states, w->low, a->page - w->low, &ph_change_claim);
	if (n != a->page - w->low) { /* a gap: what lies before it is not ours to bring */
		ph_install_release(p, g, w->low, n, 0);
		w->low = a->page;
	}
	return 1;
}

/* ---- content ---- */

int ph_resolve_answer(struct pagehint_pager *p, struct ph_range *g, uint64_t first, uint64_t pages, const void *data,
		      uint64_t bytes, int error)
{
	uint64_t come = error == 0 ? bytes >> g->page_shift : 0, settled = 0;
	struct ph_install i = {
		.range = g,
		.first = first,
		.pages = come,
		.data = data,
		.how = data == NULL ? PH_INSTALL_ZERO : PH_INSTALL_COPY,
		.mode = PH_UFFD_DONTWAKE,
	};
	if (error != 0)
		return ph_fail(p, g, first, pages, error, 0, 0);
	int r = ph_install_claimed(p, &i, &settled);
	if (settled != 0)
		ph_range_wake(p, g, first, settled);
	ph_install_release(p, g, first + come, pages - come, 0);
	return r;
}

/* Fetches claimed pages into *data. 0; -EINPROGRESS it will be delivered; else what went wrong: still claimed, but with
 * *ret_revoked they are nobody's of ours any more. The flight stays open when 0. */
static int fetch(struct pagehint_pager *p, const struct ph_ask *a, const struct window *w, struct ph_flight *f,
		 uint64_t generation, struct pagehint_fetch *ask, int *ret_revoked)
{
	struct ph_range *g = a->range;
	*ask = (struct pagehint_fetch) {
		.offset = g->offset + (w->low << g->page_shift),
		.bytes = (w->high - w->low) << g->page_shift,
		.buffer = f->buffer,
		.demand = a->demand,
	};
	*ret_revoked = 0;
	ask->cookie = ph_flight_start(p, f, generation, g, w->low, w->high - w->low);
	int r = ph_source_fetch(g->source, ask, g->page_bytes);
	if (r == -EINPROGRESS) {
		if (!ph_flight_turn(f, generation, PH_FLIGHT_FETCHING, PH_FLIGHT_WAITING))
			(void)ph_flight_turn(f, generation, PH_FLIGHT_REVOKED, PH_FLIGHT_FREE);
		return r;
	}
	if (!ph_flight_turn(f, generation, PH_FLIGHT_FETCHING, PH_FLIGHT_INSTALLING)) {
		/* revoked, or a source that both delivered and answered: the pages are settled either way */
		(void)ph_flight_turn(f, generation, PH_FLIGHT_REVOKED, PH_FLIGHT_FREE);
		*ret_revoked = 1;
		return -EAGAIN;
	}
	return r;
}

static int failed_fetch(struct pagehint_pager *p, struct ph_ask *a, const struct window *w, int error)
{
	struct ph_range *g = a->range;
	if (w->high - w->low == 1)
		return ph_fail(p, g, a->page, 1, error, a->tries, a->quiet);
	/* which of them it is shows when each is asked for alone */
	ph_install_release(p, g, w->low, w->high - w->low, a->quiet);
	a->window = 1;
	return RACED;
}

/* Installs claimed pages. RACED: the page itself is not among what was settled, so a smaller window is tried. */
static int put(struct pagehint_pager *p, struct ph_ask *a, const struct window *w, uint32_t how, const void *data,
	       uint64_t pages)
{
	struct ph_range *g = a->range;
	struct ph_install i = {
		.range = g,
		.first = w->low,
		.pages = pages,
		.data = data,
		.how = how,
		.mode = a->mode,
		.quiet = a->quiet,
	};
	uint64_t settled;
	int r = ph_install_claimed(p, &i, &settled);
	ph_install_release(p, g, w->low + pages, w->high - w->low - pages, a->quiet);
	a->first = w->low;
	a->pages = settled;
	if (w->low + settled > a->page)
		return 0;
	if (r == 0 || (r != -EAGAIN && r != -ESRCH && w->high - w->low > 1)) {
		a->window = 1;
		return RACED;
	}
	if (how == PH_INSTALL_CONTINUE && r == -EFAULT) {
		a->not_there = 1;
		return RACED;
	}
	return r;
}

/* The kernel cannot do it for a page that is asked for alone; it is not claimed any more. */
static int refused(struct pagehint_pager *p, struct ph_ask *a, int error)
{
	int final = error == -EFAULT || error == -EINVAL ||
		    ((error == -ENOMEM || error == -ENOSPC) && a->tries >= NO_ROOM_TRIES);
	if (!final)
		return error;
	if (ph_state_take(&a->range->states, a->page, 1, &ph_change_claim) == 0 &&
	    ph_state_take(&a->range->states, a->page, 1, &ph_change_claim_removed) == 0)
		return RACED;
	return ph_fail(p, a->range, a->page, 1, error == -EFAULT ? -EIO : error, a->tries, a->quiet);
}

static int bring_from_source(struct pagehint_pager *p, struct ph_ask *a, const struct window *w)
{
	struct pagehint_fetch got;
	uint64_t generation;
	int revoked;
	struct ph_flight *f = ph_flight_take(p, a->moving, &generation);
	if (f == NULL) {
		ph_install_release(p, a->range, w->low, w->high - w->low, a->quiet);
		return -EAGAIN;
	}
	int r = fetch(p, a, w, f, generation, &got, &revoked);
	if (r == -EINPROGRESS || revoked)
		return r;
	if (r < 0) {
		r = failed_fetch(p, a, w, r);
	} else {
		uint32_t how = got.data == NULL ? PH_INSTALL_ZERO : PH_INSTALL_COPY;
		int moves = a->moving && got.data == f->buffer && f == &p->flights[0] && got.done == PH_BUFFER_BYTES;
		r = put(p, a, w, moves ? PH_INSTALL_MOVE : how, got.data, got.done >> a->range->page_shift);
		if (moves && r == RACED) /* not possible here: the same by copying, with the whole window */
			r = -EXDEV;
		else if (moves && r == 0)
			PH_PAGER_COUNT(p, moves, 1);
	}
	ph_flight_end(f, generation);
	return r;
}

static int bring(struct pagehint_pager *p, struct ph_ask *a)
{
	struct window w;
	plan(a, &w);
	if (!claim(p, a, &w))
		return RACED;
	int r;
	if (w.how == PH_INSTALL_COPY)
		r = bring_from_source(p, a, &w);
	else if (w.how == PH_INSTALL_ZERO && (a->how & UFFD_PAGEFAULT_FLAG_WRITE) != 0)
		r = put(p, a, &w, PH_INSTALL_COPY, p->zeros, w.high - w.low);
	else
		r = put(p, a, &w, w.how, NULL, w.high - w.low);
	return r < 0 && r != -EINPROGRESS && r != -EXDEV ? refused(p, a, r) : r;
}

/* A page that was removed: zero, and alone, or discarding its neighbours would have been in vain. */
static int clear(struct pagehint_pager *p, struct ph_ask *a)
{
	struct window w = { .low = a->page, .high = a->page + 1 };
	if (ph_state_take(&a->range->states, a->page, 1, &ph_change_claim_removed) == 0)
		return RACED;
	int r = put(p, a, &w, PH_INSTALL_ZERO, NULL, 1);
	return r < 0 ? refused(p, a, r) : r;
}

/* ---- a fault on a page that is there ---- */

static int written(struct pagehint_pager *p, struct ph_ask *a)
{
	const struct ph_range *g = a->range;
	/* first the mark, then the right to write: a write that is not marked would be lost to the next snapshot */
	if (ph_state_change(&a->range->states, a->page, 1, &ph_change_dirty) != 0)
		PH_PAGER_COUNT(p, dirtied, 1);
	else if (ph_state_get(&g->states, a->page) != (PH_PRESENT | PH_DIRTY))
		return -EAGAIN; /* it is leaving, or in flight again: what that ends with is not known yet */
	int r = ph_uffd_protect(p->sys, ph_range_fd(p, g, a->page), g->addr + (a->page << g->page_shift), g->page_bytes,
				0);
	/* who cleaned it between the mark and the right has taken the mark away, and maybe protected it too early */
	(void)ph_state_change(&a->range->states, a->page, 1, &ph_change_dirty_again);
	return r;
}

/* Mostly it came while the message was on its way. If not, somebody took it away without a word, and it is as empty as the
 * kernel would have it. */
static int again(struct pagehint_pager *p, struct ph_ask *a)
{
	struct ph_install i = {
		.range = a->range,
		.first = a->page,
		.pages = 1,
		.how = (a->range->flags & PAGEHINT_PAGER_MINOR) != 0 && may_be_minor(a) ? PH_INSTALL_CONTINUE
											: PH_INSTALL_ZERO,
		.mode = a->mode,
	};
	int r;
	if ((a->how & UFFD_PAGEFAULT_FLAG_WP) != 0)
		return written(p, a);
	(void)ph_install(p, &i, &r);
	if (r == -EFAULT && i.how == PH_INSTALL_CONTINUE) {
		i.how = PH_INSTALL_ZERO;
		(void)ph_install(p, &i, &r);
	}
	if (r == 0 && i.met == 0 && i.how == PH_INSTALL_ZERO) {
		PH_PAGER_COUNT(p, surprises, 1);
		/* it is not what the source has any more */
		if ((a->range->flags & PAGEHINT_PAGER_TRACK) != 0)
			(void)ph_state_change(&a->range->states, a->page, 1, &ph_change_dirty_again);
		/* discarded between the look and the call: it is here, and must not be said to be removed */
		if ((ph_state_get(&a->range->states, a->page) & ~(unsigned)PH_DIRTY) != PH_PRESENT)
			return RACED;
	}
	a->first = a->page;
	a->pages = 1;
	return r;
}

/* A fault there means that somebody took the poison away without a word: left so, it would fault for ever. */
static int poisoned_again(struct pagehint_pager *p, struct ph_ask *a)
{
	int r = (a->how & PH_HOW_UNKNOWN) != 0 ? 0 : ph_poison(p, a->range, a->page, 1);
	return r == -EAGAIN ? r : -EHWPOISON;
}

static int look(struct pagehint_pager *p, struct ph_ask *a)
{
	switch (ph_state_get(&a->range->states, a->page)) {
	case PH_ABSENT:
		return bring(p, a);
	case PH_REMOVED:
		return (a->how & UFFD_PAGEFAULT_FLAG_WP) != 0 ? written(p, a) : clear(p, a);
	case PH_INFLIGHT:
	case PH_CLEARING:
		/* a write that met its protection is woken by nobody else */
		return (a->how & UFFD_PAGEFAULT_FLAG_WP) != 0 ? -EAGAIN : -EINPROGRESS;
	case PH_POISONED:
		return poisoned_again(p, a);
	case PH_PRESENT:
	case PH_PRESENT | PH_DIRTY:
		return again(p, a);
	default:
		return -EAGAIN; /* in the hands of a discarder, for the time of its call */
	}
}

int ph_resolve(struct pagehint_pager *p, struct ph_ask *a)
{
	int r = RACED;
	a->pages = 0;
	for (uint32_t looks = 0; looks < LOOKS && r == RACED; looks++)
		r = look(p, a);
	if (r == RACED)
		return -EAGAIN;
	/* a write to tracked memory may go on at once; what it is on was installed protected */
	if (r == 0 && (a->range->flags & PAGEHINT_PAGER_TRACK) != 0 && (a->how & UFFD_PAGEFAULT_FLAG_WRITE) != 0 &&
	    (a->how & UFFD_PAGEFAULT_FLAG_WP) == 0)
		(void)written(p, a); /* refused: it faults once more, and says why */
	if (r == 0 && a->demand && p->record != NULL)
		ph_record(p, a->range, a->page, 1);
	return r;
}
