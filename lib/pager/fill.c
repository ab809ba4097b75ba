/*
 * fill: brings in the background what nobody has asked for yet.
 *
 * Why 2 MiB at a time: read into a buffer that is one huge page and moved as a whole, anonymous memory comes back about
 * twice as fast as by copying, and as huge pages. Where that cannot be (shared memory, a part is here already, an older
 * kernel) the same 2 MiB are copied.
 * Yields: a fault that is being resolved ends the call after the piece at hand. Zeros stay where they are, which is nowhere.
 */
#include <errno.h>

#include <pagehint/map.h>
#include <pagehint/run.h>

#include "pager/flight.h"
#include "pager/install.h"
#include "pager/resolve.h"

/* here soon, or absent again: fill is not through */
#define ON_ITS_WAY (PH_SET(PH_INFLIGHT) | PH_SET(PH_ABSENT | PH_LEAVING))

struct fill {
	struct pagehint_pager *p;
	uint32_t shard; /* UINT32_MAX = any */
	uint64_t budget;
	uint64_t brought;
	uint64_t spent; /* that, and what will be delivered */
	uint32_t busy;  /* something is in other hands: not everything is here, but nothing is to be done now */
	int stop;
};

static int is_ours(const struct fill *f, const struct ph_range *g, uint64_t page)
{
	return f->shard == UINT32_MAX || ph_range_shard(f->p, g, page) == f->shard;
}

static int should_stop(struct fill *f)
{
	if (f->spent >= f->budget)
		f->stop = 1;
	/* a fill by the thread of a shard is between two steps, and only others can ask */
	if (!f->stop && f->spent != 0 && atomic_load(&f->p->demand) != 0) {
		PH_PAGER_COUNT(f->p, yields, 1);
		f->stop = 1;
	}
	return f->stop;
}

/* Whole, aligned, all absent, private, in our own address space, with a kernel that can: then it is moved. */
static uint32_t can_move(const struct fill *f, const struct ph_range *g, uint64_t page)
{
	uint64_t n = PH_BUFFER_BYTES >> g->page_shift, addr = g->addr + (page << g->page_shift);
	unsigned state;
	return (f->p->flags & PAGEHINT_PAGER_FOREIGN) == 0 && g->backing == PAGEHINT_BACKING_ANON &&
	       (g->flags & PAGEHINT_PAGER_TRACK) == 0 && (g->can & PH_UFFD_CAN_MOVE) != 0 && g->host_bytes == 4096 &&
	       addr % PH_BUFFER_BYTES == 0 && ph_range_pages(g) - page >= n &&
	       f->budget - f->spent >= PH_BUFFER_BYTES && ph_state_run(&g->states, page, n, &state) == n &&
	       state == PH_ABSENT;
}

/* The window that ends a piece at the budget and at the next multiple of its own size. */
static uint32_t window_at(const struct fill *f, const struct ph_range *g, uint64_t page)
{
	uint64_t left = (f->budget - f->spent) >> g->page_shift;
	uint32_t n = PH_WINDOW_MAX;
	while (n > 1 && (n > left || page % n != 0))
		n /= 2;
	return n;
}

/* One piece from `page` on; returns where to go on. */
static uint64_t bring(struct fill *f, struct ph_range *g, uint64_t page, int *ret_error)
{
	struct ph_ask ask = {
		.range = g,
		.page = page,
		.how = PH_HOW_UNKNOWN,
		.window = window_at(f, g, page),
		.moving = can_move(f, g, page),
	};
	int r = ph_resolve(f->p, &ask);
	if (r == -EXDEV || (r < 0 && ask.moving && r != -EAGAIN && r != -EINPROGRESS)) {
		ask.moving = 0;
		ask.window = window_at(f, g, page);
		r = ph_resolve(f->p, &ask);
	}
	f->brought += ask.pages << g->page_shift;
	f->spent += ask.pages << g->page_shift;
	PH_PAGER_COUNT(f->p, filled, ask.pages);
	*ret_error = 0;
	if (r == -EINPROGRESS) { /* asked for, and what was claimed of the window is in flight now */
		f->busy = 1;
		f->spent += (uint64_t)ask.window << g->page_shift;
		return page + 1;
	}
	if (r == -EAGAIN) { /* no flight is free, or the kernel wants a pause */
		f->busy = 1;
		f->stop = 1;
		return page;
	}
	if (r < 0 && r != -EHWPOISON)
		*ret_error = r;
	return ask.pages != 0 ? ask.first + ask.pages : page + 1;
}

static int fill_range(struct fill *f, struct ph_range *g, uint64_t first, uint64_t end)
{
	int r = 0;
	while (r == 0 && !should_stop(f) && (first = ph_state_find(&g->states, first, end, PH_SET(PH_ABSENT))) < end) {
		uint64_t low, high, bytes;
		uint32_t is_zero = 0;
		ph_range_stripe(g, first, &low, &high);
		high = high < end ? high : end;
		if (!is_ours(f, g, first)) {
			first = high;
			continue;
		}
		if (g->source != NULL || (g->flags & PAGEHINT_PAGER_MINOR) == 0)
			ph_source_extent(g->source, g->offset + (first << g->page_shift),
					 (high - first) << g->page_shift, g->page_bytes, &bytes, &is_zero);
		first = is_zero ? first + (bytes >> g->page_shift) : bring(f, g, first, &r);
	}
	return r;
}

/* What was recorded comes first, and in that order. */
static int fill_prefetch(struct fill *f)
{
	struct pagehint_pager *p = f->p;
	int r = 0;
	/* one cursor for all; where shards fill for themselves each goes through all of it, which costs a look a run */
	uint64_t at = f->shard == UINT32_MAX ? p->prefetch_at : 0;
	for (; r == 0 && at < p->prefetch_n && !should_stop(f); at++) {
		struct ph_range *g = ph_range_of_frame(p, p->prefetch[at].frame);
		uint64_t first, end;
		ph_range_span(p, g, p->prefetch[at].frame, p->prefetch[at].frames, &first, &end);
		r = fill_range(f, g, first, end);
		if (f->stop)
			break;
	}
	if (f->shard == UINT32_MAX)
		p->prefetch_at = at;
	return r;
}

static int fill_all(struct fill *f)
{
	struct pagehint_pager *p = f->p;
	uint32_t n = atomic_load(&p->regions_n);
	int r = fill_prefetch(f);
	for (uint32_t i = 0; i < n && r == 0 && !f->stop; i++)
		r = fill_range(f, &p->regions[i], 0, ph_range_pages(&p->regions[i]));
	for (uint32_t i = 0; i < n && r == 0 && !f->stop; i++) {
		const struct ph_range *g = &p->regions[i];
		f->busy |= ph_state_find(&g->states, 0, ph_range_pages(g), ON_ITS_WAY) < ph_range_pages(g);
	}
	return r;
}

static uint64_t next_time(struct pagehint_pager *p, const struct fill *f, uint64_t now, int r)
{
	uint64_t next = now;
	if (p->fill_rate != 0 && f->brought != 0) {
		next = now + (f->brought / p->fill_rate) * UINT64_C(1000000000) +
		       (f->brought % p->fill_rate) * UINT64_C(1000000000) / p->fill_rate;
		p->fill_next = next;
	}
	if (r < 0)
		return now + 1000000 > next ? now + 1000000 : next;
	if (f->stop && f->busy)
		return now + 100000 > next ? now + 100000 : next;
	if (!f->stop && f->spent == 0)
		return f->busy ? now + 1000000 : UINT64_MAX;
	return next;
}

int pagehint_pager_fill(struct pagehint_pager *pager, uint32_t shard, uint64_t now_ns, uint64_t budget,
			uint64_t *ret_bytes, uint64_t *ret_deadline)
{
	int by_shard = pager != NULL && (pager->flags & PAGEHINT_PAGER_EVENT_REMOVE) != 0;
	struct fill f = { .p = pager, .shard = shard, .budget = budget == 0 ? PH_BUFFER_BYTES : budget };
	uint32_t nobody = 0;
	int r = 0;
	if (ret_bytes != NULL)
		*ret_bytes = 0;
	if (pager == NULL || ret_deadline == NULL || (shard == UINT32_MAX ? by_shard : shard >= pager->shards_n))
		return -EINVAL;
	if (!ph_pager_is_owner(pager))
		return -ENODEV;
	if (!atomic_compare_exchange_strong(&pager->filling, &nobody, 1))
		return -EBUSY;
	atomic_store_explicit(&pager->now, now_ns, memory_order_relaxed);
	if (now_ns < pager->fill_next)
		*ret_deadline = pager->fill_next;
	else {
		r = fill_all(&f);
		*ret_deadline = next_time(pager, &f, now_ns, r);
	}
	atomic_store(&pager->filling, 0);
	if (ret_bytes != NULL)
		*ret_bytes = f.brought;
	return r;
}

/* ---- answers that come later ---- */

int pagehint_pager_deliver(struct pagehint_pager *pager, uint64_t cookie, const void *data, uint64_t bytes, int error)
{
	uint64_t generation;
	if (pager == NULL || error > 0)
		return -EINVAL;
	if (!ph_pager_is_owner(pager))
		return -ENODEV;
	struct ph_flight *f = ph_flight_of(pager, cookie, &generation);
	if (f == NULL)
		return -EALREADY;
	uint64_t first = atomic_load(&f->first), pages = atomic_load(&f->pages);
	struct ph_range *g = &pager->regions[atomic_load(&f->region)];
	/* checked before the turn, with fields that are this flight's if the turn succeeds */
	if (error == 0 && (bytes < g->page_bytes || bytes > pages << g->page_shift))
		return ph_flight_is(f, generation) ? -EINVAL : -EALREADY;
	if (!ph_flight_turn(f, generation, PH_FLIGHT_WAITING, PH_FLIGHT_INSTALLING) &&
	    !ph_flight_turn(f, generation, PH_FLIGHT_FETCHING, PH_FLIGHT_INSTALLING))
		return -EALREADY;
	(void)ph_resolve_answer(pager, g, first, pages, data, bytes, error);
	ph_flight_end(f, generation);
	return 0;
}
