/*
 * watch: what does not move: a source that does not answer, a shard that nobody reads.
 *
 * Why from outside: who waits for a source cannot look at the clock, and a thread that died cannot say so. A fetch is revoked
 * by one compare-and-swap, so that its answer, should it come, finds nothing to do. A shard is taken by raising its epoch:
 * who was in it leaves at the next look; what it had read and not resolved is raised anew by waking, which makes the
 * threads fault again.
 */
#include <errno.h>

#include "pager/fail.h"
#include "pager/flight.h"
#include "pager/install.h"

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void revoke(struct pagehint_pager *p, struct ph_flight *f, uint64_t generation, int waiting)
{
	struct ph_range *g = &p->regions[atomic_load(&f->region)];
	uint64_t first = atomic_load(&f->first), pages = atomic_load(&f->pages);
	PH_PAGER_COUNT(p, revoked, 1);
	if ((p->flags & PAGEHINT_PAGER_EVENT_REMOVE) != 0) {
		/* only the thread of the shard may install or poison: it is raised anew there, and asked about then */
		(void)ph_fail_tell(p, g, first, pages, ph_range_shard(p, g, first), -ETIMEDOUT, 0);
		ph_install_release(p, g, first, pages, 0);
	} else {
		(void)ph_fail(p, g, first, pages, -ETIMEDOUT, 0, 0);
	}
	if (waiting)
		(void)ph_flight_turn(f, generation, PH_FLIGHT_REVOKED, PH_FLIGHT_FREE);
}

/* A flight's fields are read before and its word is swapped after: they are that generation's. */
static uint64_t watch_flight(struct pagehint_pager *p, struct ph_flight *f, uint64_t now)
{
	uint64_t use = atomic_load(&f->use), generation = use >> 3;
	uint32_t state = (uint32_t)(use & 7);
	if (state != PH_FLIGHT_FETCHING && state != PH_FLIGHT_WAITING)
		return UINT64_MAX;
	uint64_t since = atomic_load(&f->since);
	if (now < since || now - since < p->timeout_ns)
		return since + p->timeout_ns;
	if (ph_flight_turn(f, generation, state, PH_FLIGHT_REVOKED))
		revoke(p, f, generation, state == PH_FLIGHT_WAITING);
	return UINT64_MAX;
}

/* Whoever was in the shard has not moved: its faults are raised anew, and the next to step begins afresh. */
static void restart(struct pagehint_pager *p, uint32_t shard)
{
	struct ph_shard *s = &p->shards[shard];
	uint32_t n = atomic_load(&p->regions_n);
	PH_PAGER_COUNT(p, restarts, 1);
	(void)ph_fail_tell(p, NULL, 0, 0, shard, -ETIMEDOUT, 0);
	atomic_fetch_add(&s->epoch, 1);
	atomic_store(&s->inside, 0);
	for (uint32_t i = 0; i < n; i++) {
		struct ph_range *g = &p->regions[i];
		for (uint64_t at = 0; at < g->bytes; at += g->stripe)
			if (ph_range_shard(p, g, at >> g->page_shift) == shard)
				ph_range_wake(p, g, at >> g->page_shift,
					      (g->bytes - at < g->stripe ? g->bytes - at : g->stripe) >> g->page_shift);
	}
}

static uint64_t watch_shard(struct pagehint_pager *p, uint32_t shard, uint64_t now)
{
	struct ph_shard *s = &p->shards[shard];
	uint64_t waiting = atomic_load(&s->waiting);
	int stuck = atomic_load(&s->inside) != 0, unread = p->sys->poll_in(p->sys->ctx, s->fd) > 0;
	if (!stuck && !unread) {
		atomic_store(&s->waiting, 0);
		return UINT64_MAX;
	}
	if (waiting == 0 || atomic_load(&s->stepped) > waiting - 1) { /* a new wait, or it was stepped since */
		atomic_store(&s->waiting, now + 1);
		return now + p->timeout_ns;
	}
	if (now - (waiting - 1) < p->timeout_ns)
		return waiting - 1 + p->timeout_ns;
	atomic_store(&s->waiting, now + 1);
	restart(p, shard);
	return now + p->timeout_ns;
}

int pagehint_pager_watch(struct pagehint_pager *pager, uint64_t now_ns, uint64_t *ret_deadline)
{
	uint64_t next = UINT64_MAX;
	if (pager == NULL || ret_deadline == NULL)
		return -EINVAL;
	if (!ph_pager_is_owner(pager))
		return -ENODEV;
	atomic_store(&pager->now, now_ns);
	for (uint32_t i = 0; i < pager->flights_n; i++)
		next = sooner(next, watch_flight(pager, &pager->flights[i], now_ns));
	if ((pager->flags & PAGEHINT_PAGER_SIGBUS) == 0)
		for (uint32_t i = 0; i < pager->shards_n; i++)
			next = sooner(next, watch_shard(pager, i, now_ns));
	/* with nothing under way now, something may begin at any time */
	*ret_deadline = next == UINT64_MAX ? now_ns + pager->timeout_ns : next;
	return 0;
}
