/*
 * export: what each page is, for a snapshot that holds what is needed and no more; and forgetting what was written.
 */
#include <errno.h>

#include <pagehint/map.h>

#include "pager/pager.h"

static uint32_t class_of(const struct pagehint_pager *p, const struct ph_range *g, unsigned state)
{
	if (state == PH_POISONED || state == PH_POISONED_LEAVING)
		return PAGEHINT_PAGE_POISONED;
	switch (state & ~(unsigned)PH_LEAVING) {
	case PH_ABSENT:
		return PAGEHINT_PAGE_ABSENT;
	case PH_PRESENT:
		return PAGEHINT_PAGE_PRESENT;
	case PH_PRESENT | PH_DIRTY:
		return PAGEHINT_PAGE_DIRTY;
	case PH_REMOVED:
		/* The page itself knows better: of shared memory an event says "removed" also when only a mapping went; and
		 * without MISSING the kernel fills what was removed when it is touched, and tells nobody. */
		if ((g->flags & PAGEHINT_PAGER_MISSING) == 0 ||
		    ((p->flags & PAGEHINT_PAGER_EVENT_REMOVE) != 0 && g->backing == PAGEHINT_BACKING_SHARED))
			return PAGEHINT_PAGE_PRESENT;
		return PAGEHINT_PAGE_REMOVED;
	default:
		return PAGEHINT_PAGE_INFLIGHT;
	}
}

/* From `page` on: how many are alike, and what they are. */
static uint64_t alike(const struct pagehint_pager *p, const struct ph_range *g, uint64_t page, uint32_t *ret_what)
{
	unsigned state;
	uint64_t n = ph_state_run(&g->states, page, ph_range_pages(g) - page, &state), bytes;
	uint32_t is_zero;
	*ret_what = class_of(p, g, state);
	if (*ret_what != PAGEHINT_PAGE_ABSENT || (g->source == NULL && (g->flags & PAGEHINT_PAGER_MINOR) != 0))
		return n;
	ph_source_extent(g->source, g->offset + (page << g->page_shift), n << g->page_shift, g->page_bytes, &bytes,
			 &is_zero);
	if (is_zero)
		*ret_what = PAGEHINT_PAGE_ZERO;
	return bytes >> g->page_shift;
}

/* The region with the lowest frame that ends after `frame`. */
static struct ph_range *next_range(struct pagehint_pager *p, uint64_t frame)
{
	uint32_t n = atomic_load(&p->regions_n);
	struct ph_range *best = NULL;
	for (uint32_t i = 0; i < n; i++) {
		struct ph_range *g = &p->regions[i];
		if (g->frame + (g->bytes >> p->frame_shift) > frame && (best == NULL || g->frame < best->frame))
			best = g;
	}
	return best;
}

/* Adds a run, or makes the last one longer; 0: there is no room. */
static int add(struct pagehint_page_run *runs, uint32_t max, uint32_t *n, uint64_t frame, uint64_t frames,
	       uint32_t what)
{
	struct pagehint_page_run *last = *n == 0 ? NULL : &runs[*n - 1];
	if (last != NULL && last->what == what && last->frame + last->frames == frame) {
		last->frames += frames;
		return 1;
	}
	if (*n == max)
		return 0;
	runs[(*n)++] = (struct pagehint_page_run) { frame, frames, what, 0 };
	return 1;
}

int pagehint_pager_export(struct pagehint_pager *pager, uint64_t frame, struct pagehint_page_run *runs, uint32_t max,
			  uint32_t *ret_n)
{
	uint32_t n = 0;
	struct ph_range *g;
	if (pager == NULL || runs == NULL || max == 0 || ret_n == NULL)
		return -EINVAL;
	if (!ph_pager_is_owner(pager))
		return -ENODEV;
	while ((g = next_range(pager, frame)) != NULL) {
		uint64_t page = frame <= g->frame ? 0 : (frame - g->frame) << pager->frame_shift >> g->page_shift;
		uint32_t what;
		uint64_t first = ph_range_frame(pager, g, page);
		uint64_t end = first + (alike(pager, g, page, &what) << g->page_shift >> pager->frame_shift);
		first = frame > first ? frame : first;
		if (!add(runs, max, &n, first, end - first, what))
			break;
		frame = end;
	}
	*ret_n = n;
	return 0;
}

/* The mark goes first: a write in between is in the copy that the embedder makes afterwards. */
static int clean_run(struct pagehint_pager *p, struct ph_range *g, uint64_t page, uint64_t n)
{
	uint64_t first, end;
	ph_range_stripe(g, page, &first, &end);
	n = n < end - page ? n : end - page;
	(void)ph_state_change(&g->states, page, n, &ph_change_clean);
	int r = -EAGAIN;
	for (uint32_t tries = 0; tries < 64 && r == -EAGAIN; tries++)
		r = ph_uffd_protect(p->sys, ph_range_fd(p, g, page), g->addr + (page << g->page_shift),
				    n << g->page_shift, 1);
	if (r < 0)
		(void)ph_state_change(&g->states, page, n, &ph_change_dirty);
	return r;
}

int pagehint_pager_clean(struct pagehint_pager *pager, uint64_t frame, uint64_t frames)
{
	uint64_t at, end;
	int r = 0;
	if (pager == NULL || frames == 0 || frame > UINT64_MAX - frames)
		return -EINVAL;
	struct ph_range *g = ph_range_of_frame(pager, frame);
	if (g == NULL || frames > (g->bytes >> pager->frame_shift) - (frame - g->frame))
		return -ERANGE;
	if (!ph_pager_is_owner(pager))
		return -ENODEV;
	if ((g->flags & PAGEHINT_PAGER_TRACK) == 0)
		return -EOPNOTSUPP;
	ph_range_span(pager, g, frame, frames, &at, &end);
	while (r == 0 && (at = ph_state_find(&g->states, at, end, PH_SET(PH_PRESENT | PH_DIRTY))) < end) {
		unsigned state;
		uint64_t n = ph_state_run(&g->states, at, end - at, &state);
		r = clean_run(pager, g, at, n);
	}
	return r;
}
