#include "pager/install.h"

#include <errno.h>

#define STALLS 64u /* EAGAIN without progress: tries before it is put off */

/* Zeros where the kernel's own zero page will do; a page that is to be protected, or huge, has to be copied. */
static int install_zero(struct pagehint_pager *p, const struct ph_range *g, int fd, uint64_t addr, uint64_t bytes,
			uint32_t mode, uint64_t *ret_done)
{
	if ((g->can & PH_UFFD_CAN_ZERO) != 0 && (mode & PH_UFFD_PROTECT) == 0)
		return ph_uffd_zero(p->sys, fd, addr, bytes, mode, ret_done);
	if (bytes > PH_BUFFER_BYTES)
		bytes = PH_BUFFER_BYTES;
	return ph_uffd_copy(p->sys, fd, addr, p->zeros, bytes, mode, ret_done);
}

static int install_once(struct pagehint_pager *p, const struct ph_install *i, uint64_t at, uint64_t *ret_done)
{
	const struct ph_range *g = i->range;
	uint64_t addr = g->addr + (i->first << g->page_shift) + at, bytes = (i->pages << g->page_shift) - at;
	const unsigned char *data = i->data;
	uint32_t mode = i->mode | ((g->flags & PAGEHINT_PAGER_TRACK) != 0 ? PH_UFFD_PROTECT : 0);
	int fd = ph_range_fd(p, g, i->first);
	PH_PAGER_COUNT(p, ioctls, 1);
	switch (i->how) {
	case PH_INSTALL_ZERO:
		return install_zero(p, g, fd, addr, bytes, mode, ret_done);
	case PH_INSTALL_CONTINUE:
		return ph_uffd_continue(p->sys, fd, addr, bytes, mode, ret_done);
	case PH_INSTALL_MOVE: /* the source of a move is writable by nature */
		return ph_uffd_move(p->sys, fd, addr, (void *)(uintptr_t)(data + at), bytes, mode, ret_done);
	default:
		return ph_uffd_copy(p->sys, fd, addr, data + at, bytes, mode, ret_done);
	}
}

/* Removals that are events must be read before anything is installed: nothing is tried again here then. */
static uint32_t patience(const struct pagehint_pager *p)
{
	return (p->flags & PAGEHINT_PAGER_EVENT_REMOVE) != 0 ? 1 : STALLS;
}

uint64_t ph_install(struct pagehint_pager *p, struct ph_install *i, int *ret_error)
{
	const struct ph_range *g = i->range;
	uint64_t bytes = i->pages << g->page_shift, at = 0, fresh = 0;
	uint32_t stalls = 0;
	*ret_error = 0;
	i->met = 0;
	while (at < bytes) {
		uint64_t done = 0;
		int r = install_once(p, i, at, &done);
		at += done;
		fresh += done;
		stalls = done != 0 ? 0 : stalls + 1;
		if (r == 0 || (r == -EAGAIN && stalls < patience(p)))
			continue;
		if (r == -EEXIST && at < bytes) { /* somebody was first: their content stays */
			at += g->host_bytes;
			stalls = 0;
			i->met++;
			continue;
		}
		*ret_error = r;
		break;
	}
	if (i->how == PH_INSTALL_ZERO)
		PH_PAGER_COUNT(p, zeroed, fresh >> g->page_shift);
	else
		PH_PAGER_COUNT(p, installed, fresh >> g->page_shift);
	PH_PAGER_COUNT(p, met, i->met);
	return at >> g->page_shift;
}

void ph_install_release(struct pagehint_pager *p, struct ph_range *g, uint64_t first, uint64_t pages, uint32_t quiet)
{
	if (pages == 0)
		return;
	(void)ph_state_change(&g->states, first, pages, &ph_change_release);
	if (!quiet)
		ph_range_wake(p, g, first, pages);
}

/* On tracked memory what was removed and is read stays "removed" until it is written. */
static void commit(struct ph_range *g, uint64_t first, uint64_t pages, unsigned state)
{
	int keep = (g->flags & PAGEHINT_PAGER_TRACK) != 0 && state == PH_CLEARING;
	(void)ph_state_change(&g->states, first, pages, keep ? &ph_change_release : &ph_change_present);
}

int ph_install_claimed(struct pagehint_pager *p, struct ph_install *i, uint64_t *ret_settled)
{
	struct ph_range *g = i->range;
	uint64_t at = 0;
	int r = 0;
	i->met = 0;
	while (at < i->pages && r == 0) {
		unsigned state;
		struct ph_install part = *i;
		part.first = i->first + at;
		part.pages = ph_state_run(&g->states, part.first, i->pages - at, &state);
		if (state != PH_INFLIGHT && state != PH_CLEARING) {
			PH_PAGER_COUNT(p, stale_refused, part.pages);
			at += part.pages;
			continue;
		}
		if (state == PH_CLEARING)
			part.how = PH_INSTALL_ZERO;
		else if (i->data != NULL)
			part.data = (const unsigned char *)i->data + (at << g->page_shift);
		uint64_t settled = ph_install(p, &part, &r);
		commit(g, part.first, settled, state);
		i->met += part.met;
		at += settled;
	}
	*ret_settled = at;
	ph_install_release(p, g, i->first + at, i->pages - at, i->quiet);
	return r;
}
