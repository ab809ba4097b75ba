#include "pager/fail.h"

#include <errno.h>

#include "pager/install.h"

uint32_t ph_fail_tell(struct pagehint_pager *p, const struct ph_range *g, uint64_t first, uint64_t pages,
		      uint32_t shard, int error, uint32_t tries)
{
	struct pagehint_pager_failure told = {
		.struct_size = sizeof(told),
		.shard = shard,
		.tries = tries,
		.error = error,
	};
	if (g != NULL) {
		told.frame = ph_range_frame(p, g, first);
		told.frames = pages << g->page_shift >> p->frame_shift;
	}
	PH_PAGER_COUNT(p, failures, 1);
	return p->failed == NULL ? PAGEHINT_FAIL_POISON : p->failed(p->ctx, &told);
}

/* Without UFFDIO_POISON the memory becomes inaccessible, which gives a signal, too; of another process that cannot be done. */
static int forbid(struct pagehint_pager *p, const struct ph_range *g, uint64_t first, uint64_t pages)
{
	if ((p->flags & PAGEHINT_PAGER_FOREIGN) != 0)
		return -EOPNOTSUPP;
	return p->sys->mprotect_none(p->sys->ctx, (void *)(uintptr_t)(g->addr + (first << g->page_shift)),
				     (size_t)(pages << g->page_shift));
}

static int poison_some(struct pagehint_pager *p, struct ph_range *g, uint64_t first, uint64_t pages, uint64_t *ret_done)
{
	int r;
	if ((g->can & PH_UFFD_CAN_POISON) == 0) {
		r = forbid(p, g, first, pages);
		*ret_done = r == 0 ? pages << g->page_shift : 0;
		return r;
	}
	r = ph_uffd_poison(p->sys, ph_range_fd(p, g, first), g->addr + (first << g->page_shift), pages << g->page_shift,
			   PH_UFFD_DONTWAKE, ret_done);
	if (r == -EINVAL || r == -EOPNOTSUPP || r == -ENOTTY) {
		r = forbid(p, g, first, pages);
		*ret_done = r == 0 ? pages << g->page_shift : 0;
	}
	return r;
}

int ph_poison(struct pagehint_pager *p, struct ph_range *g, uint64_t first, uint64_t pages)
{
	uint64_t at = 0;
	uint32_t stalls = 0;
	int r = 0;
	while (at < pages) {
		uint64_t done = 0;
		r = poison_some(p, g, first + at, pages - at, &done);
		done >>= g->page_shift;
		PH_PAGER_COUNT(p, poisoned, done);
		(void)ph_state_change(&g->states, first + at, done, &ph_change_poisoned);
		at += done;
		stalls = done != 0 ? 0 : stalls + 1;
		if (r == 0 || (r == -EAGAIN && stalls < 64))
			continue;
		if (r != -EEXIST || at == pages)
			break;
		(void)ph_state_change(&g->states, first + at, 1, &ph_change_present);
		at++;
	}
	r = at == pages ? 0 : r;
	if (at > 0)
		ph_range_wake(p, g, first, at);
	return r;
}

static int give_zeros(struct pagehint_pager *p, struct ph_range *g, uint64_t first, uint64_t pages)
{
	struct ph_install i = { .range = g, .first = first, .pages = pages, .how = PH_INSTALL_ZERO };
	uint64_t settled;
	return ph_install_claimed(p, &i, &settled) == 0 ? 0 : -EAGAIN;
}

static int fail_alike(struct pagehint_pager *p, struct ph_range *g, uint64_t first, uint64_t pages, int error,
		      uint32_t tries, uint32_t quiet)
{
	uint32_t what = ph_fail_tell(p, g, first, pages, ph_range_shard(p, g, first), error, tries);
	if (what == PAGEHINT_FAIL_ZERO)
		return give_zeros(p, g, first, pages);
	if (what != PAGEHINT_FAIL_RETRY && ph_poison(p, g, first, pages) == 0)
		return -EHWPOISON;
	/* what could not be poisoned stays claimed no longer: it is asked for again, and the embedder, too */
	ph_install_release(p, g, first, pages, quiet);
	return -EAGAIN;
}

/* What was discarded while it was on its way needs no source: it is zero, and nobody is asked about it. */
int ph_fail(struct pagehint_pager *p, struct ph_range *g, uint64_t first, uint64_t pages, int error, uint32_t tries,
	    uint32_t quiet)
{
	int worst = 0;
	for (uint64_t at = 0, n; at < pages; at += n) {
		unsigned state;
		int r = 0;
		n = ph_state_run(&g->states, first + at, pages - at, &state);
		if (state == PH_INFLIGHT)
			r = fail_alike(p, g, first + at, n, error, tries, quiet);
		else if (state == PH_CLEARING)
			r = give_zeros(p, g, first + at, n);
		worst = worst == 0 ? r : worst;
	}
	return worst;
}

/* ---- giving up ---- */

static int abandon_range(struct pagehint_pager *p, struct ph_range *g)
{
	uint64_t pages = ph_range_pages(g), at = 0;
	while ((at = ph_state_find(&g->states, at, pages, PH_SET(PH_ABSENT))) < pages) {
		uint64_t first, end;
		ph_range_stripe(g, at, &first, &end);
		uint64_t n = ph_state_take(&g->states, at, end - at, &ph_change_claim);
		int r = n == 0 ? 0 : ph_poison(p, g, at, n);
		if (r < 0) {
			ph_install_release(p, g, at, n, 1);
			return r;
		}
		at += n == 0 ? 1 : n;
	}
	uint32_t moving = PH_SET(PH_INFLIGHT) | PH_SET(PH_CLEARING) | PH_SET(PH_ABSENT | PH_LEAVING);
	return ph_state_find(&g->states, 0, pages, moving) == pages ? 0 : -EAGAIN;
}

/* States that are handed over are the successor's business, whatever they say: they count as settled here. */
static void hand_over(struct ph_range *g)
{
	g->flags |= PAGEHINT_PAGER_SHARE;
}

int pagehint_pager_abandon(struct pagehint_pager *pager, uint32_t hand_over_too)
{
	if (pager == NULL || !ph_pager_is_owner(pager))
		return pager == NULL ? -EINVAL : -ENODEV;
	uint32_t n = atomic_load(&pager->regions_n);
	for (uint32_t i = 0; i < n; i++) {
		struct ph_range *g = &pager->regions[i];
		int r = 0;
		if (hand_over_too != 0)
			hand_over(g);
		else if ((g->flags & PAGEHINT_PAGER_SHARE) == 0)
			r = abandon_range(pager, g);
		if (r < 0)
			return r;
	}
	return 0;
}
