/*
 * ensure: a range is made present before the caller's own access, which could not fault: a system call, a device, another
 * mapping of the same file.
 */
#include <errno.h>

#include "pager/resolve.h"

#define HERE (PH_SET(PH_PRESENT) | PH_SET(PH_PRESENT | PH_DIRTY))

/* The largest window that holds the page and no page beyond what was asked for, since all of that is wanted, and no more. */
static uint32_t window_for(uint64_t page, uint64_t end)
{
	uint32_t n = PH_WINDOW_MAX;
	while (n > 1 && (n > end - page || page % n != 0))
		n /= 2;
	return n;
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
		r = ph_resolve_inline(pager, g, at, window_for(at, end));
		if (r != 0)
			break;
	}
	if (r != 0 && at > first)
		done = ph_range_frame(pager, g, at) - frame;
	if (ret_done != NULL)
		*ret_done = r == 0 ? frames : done;
	return r;
}
