/*
 * ensure: a range is made present before the caller's own access, which could not fault: a system call, a device, another
 * mapping of the same file.
 */
#include <errno.h>

#include "pager/resolve.h"

#define HERE (PH_SET(PH_PRESENT) | PH_SET(PH_PRESENT | PH_DIRTY))

/* Missing runs are brought with the largest window, since all of the range is wanted. */
static int ensure_page(struct pagehint_pager *p, struct ph_range *g, uint64_t page)
{
	unsigned state = ph_state_get(&g->states, page);
	/* a window may not reach beyond what was asked for by much: it is aligned, and clipped to what is absent */
	int r = ph_resolve_inline(p, g, page, state == PH_REMOVED ? 1 : PH_WINDOW_MAX);
	return r;
}

int pagehint_pager_ensure(struct pagehint_pager *pager, uint64_t frame, uint64_t frames, uint64_t *ret_done)
{
	uint64_t first, end, at, done = 0;
	int r = 0;
	if (ret_done != NULL)
		*ret_done = 0;
	if (pager == NULL || frames == 0 || frame > UINT64_MAX - frames)
		return -EINVAL;
	struct ph_range *g = ph_range_of_frame(pager, frame);
	if (g == NULL || frames > (g->bytes >> pager->frame_shift) - (frame - g->frame))
		return -ERANGE;
	if (!ph_pager_is_owner(pager))
		return -ENODEV;
	ph_range_span(pager, g, frame, frames, &first, &end);
	for (at = first; (at = ph_state_find(&g->states, at, end, ~HERE)) < end; at++) {
		r = ensure_page(pager, g, at);
		if (r != 0)
			break;
	}
	if (r != 0 && at > first)
		done = ph_range_frame(pager, g, at) - frame;
	if (ret_done != NULL)
		*ret_done = r == 0 ? frames : done;
	return r;
}
