/*
 * event: what a userfaultfd says, read in batches and resolved.
 *
 * Why this shape: messages are read 64 at a time and kept in a table; sorted, they become runs; what is installed does not
 * wake, and one wake over all of it ends the batch. The table also holds what cannot be resolved yet, each with its own
 * time, so that a page in other hands costs a pause and not a spinning thread.
 * Order: reading gives faults before removals that happened earlier. So nothing is resolved while there is more to read,
 * where removals are events.
 */
#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "pager/fail.h"
#include "pager/install.h"
#include "pager/removed.h"
#include "pager/resolve.h"

#define READS 16u                /* a step: 1024 messages */
#define PAUSE_NS UINT64_C(20000) /* before a fault is tried again, doubled each time */
#define PAUSE_DOUBLINGS 12u      /* up to 82 ms */
#define BROUGHT 64u              /* windows of this batch that are remembered */

struct step {
	struct pagehint_pager *p;
	struct ph_shard *s;
	uint64_t now;
	uint32_t epoch;
	uint32_t again; /* a removal came in between: read on, and try again */
	/* what was brought: a fault in there has been answered already */
	uint32_t brought_n;
	struct {
		struct ph_range *range;
		uint64_t first, end;
	} brought[BROUGHT];
	/* who waits, so far not woken: pages [first, end) of one region */
	struct ph_range *wake;
	uint64_t wake_first, wake_end;
	uint32_t wake_n;
};

/* ---- reading ---- */

static void drop(struct step *t, struct ph_range *g, uint64_t page)
{
	ph_range_wake(t->p, g, page, 1); /* it faults again, and comes back when there is room */
}

static void take_fault(struct step *t, const struct uffd_msg *m)
{
	struct ph_range *g = ph_range_at(t->p, m->arg.pagefault.address);
	PH_PAGER_COUNT(t->p, messages, 1);
	if (g == NULL)
		return; /* registered by somebody else, who may answer it */
	uint64_t page = (m->arg.pagefault.address - g->addr) >> g->page_shift;
	if (t->s->parked_n >= PH_PARKED) {
		drop(t, g, page);
		return;
	}
	t->s->parked[t->s->parked_n++] = (struct ph_parked) {
		.page = page,
		.region = ph_range_index(t->p, g),
		.how = (uint32_t)m->arg.pagefault.flags,
	};
}

static void take_message(struct step *t, const struct uffd_msg *m)
{
	if (m->event == UFFD_EVENT_PAGEFAULT)
		take_fault(t, m);
	else if (m->event == UFFD_EVENT_REMOVE || m->event == UFFD_EVENT_UNMAP)
		ph_removed_event(t->p, m->arg.remove.start, m->arg.remove.end);
	/* no other event is subscribed to */
}

/* Returns 0; *ret_all: there was nothing more at its end. */
static int read_messages(struct step *t, int *ret_all)
{
	int to_the_end = (t->p->flags & PAGEHINT_PAGER_EVENT_REMOVE) != 0;
	*ret_all = 0;
	for (uint32_t i = 0; i < READS && !*ret_all; i++) {
		int64_t r = t->p->sys->read(t->p->sys->ctx, t->s->fd, t->s->messages, sizeof(t->s->messages));
		if (r == -EAGAIN || r == -EINTR) {
			*ret_all = r == -EAGAIN;
			return 0;
		}
		if (r < 0)
			return (int)r;
		PH_PAGER_COUNT(t->p, reads, 1);
		if (atomic_load(&t->s->epoch) != t->epoch)
			return -EBUSY; /* taken meanwhile, and all was raised anew */
		uint64_t n = (uint64_t)r / sizeof(struct uffd_msg);
		for (uint64_t k = 0; k < n && k < PH_MESSAGES; k++)
			take_message(t, &t->s->messages[k]);
		/* fewer than asked for: that was all, a moment ago, which is good enough where only faults come */
		if (n < PH_MESSAGES && !to_the_end)
			*ret_all = 1;
	}
	return 0;
}

/* ---- the table ---- */

static int before(const struct ph_parked *a, const struct ph_parked *b)
{
	return a->region != b->region ? a->region < b->region : a->page < b->page;
}

/* Shell's sort: no memory, and a table that is mostly in order costs little. */
static void sort(struct ph_parked *a, uint32_t n)
{
	for (uint32_t gap = n / 2; gap > 0; gap /= 2)
		for (uint32_t i = gap; i < n; i++) {
			struct ph_parked moved = a[i];
			uint32_t at = i;
			for (; at >= gap && before(&moved, &a[at - gap]); at -= gap)
				a[at] = a[at - gap];
			a[at] = moved;
		}
}

/* One entry a page: threads that wait for the same one are answered by the same wake. */
static void merge(struct ph_shard *s)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < s->parked_n; i++) {
		struct ph_parked *last = kept == 0 ? NULL : &s->parked[kept - 1], *next = &s->parked[i];
		if (last == NULL || last->region != next->region || last->page != next->page) {
			s->parked[kept++] = *next;
			continue;
		}
		last->how |= next->how;
		last->tries = last->tries > next->tries ? last->tries : next->tries;
		last->due = last->due > next->due ? last->due : next->due;
	}
	s->parked_n = kept;
}

/* ---- waking ---- */

static void wake_now(struct step *t)
{
	if (t->wake_n != 0)
		ph_range_wake(t->p, t->wake, t->wake_first, t->wake_end - t->wake_first);
	t->wake_n = 0;
}

/* One stretch a region and stripe: a wake too many costs its thread a second fault, a call too many costs everybody. */
static void wake_later(struct step *t, struct ph_range *g, uint64_t page)
{
	uint64_t first, end;
	ph_range_stripe(g, page, &first, &end);
	if (t->wake_n != 0 && (t->wake != g || t->wake_first < first || page >= end || t->wake_end > end))
		wake_now(t);
	if (t->wake_n++ == 0) {
		t->wake = g;
		t->wake_first = page;
		t->wake_end = page + 1;
		return;
	}
	t->wake_first = page < t->wake_first ? page : t->wake_first;
	t->wake_end = page >= t->wake_end ? page + 1 : t->wake_end;
}

/* ---- windows ---- */

/* Faults that follow each other get twice the window of the one before, up to the most. */
static struct ph_stream *stream_of(struct step *t, const struct ph_parked *f)
{
	struct ph_shard *s = t->s;
	for (uint32_t i = 0; i < PH_STREAMS; i++) {
		struct ph_stream *m = &s->streams[i];
		if (m->window == 0 || m->region != f->region || f->page < m->next || f->page - m->next > m->window / 4)
			continue;
		m->window = m->window * 2 < t->p->around_max ? m->window * 2 : t->p->around_max;
		return m;
	}
	struct ph_stream *m = &s->streams[s->stream_at++ % PH_STREAMS];
	*m = (struct ph_stream) { .region = f->region, .window = t->p->around_min };
	return m;
}

static int was_brought(const struct step *t, const struct ph_range *g, uint64_t page)
{
	for (uint32_t i = 0; i < t->brought_n; i++)
		if (t->brought[i].range == g && page >= t->brought[i].first && page < t->brought[i].end)
			return 1;
	return 0;
}

static void note_brought(struct step *t, const struct ph_ask *a)
{
	if (a->pages == 0 || t->brought_n == BROUGHT)
		return;
	t->brought[t->brought_n].range = a->range;
	t->brought[t->brought_n].first = a->first;
	t->brought[t->brought_n++].end = a->first + a->pages;
}

/* ---- resolving ---- */

static int resolve_one(struct step *t, struct ph_parked *f)
{
	struct ph_range *g = &t->p->regions[f->region];
	int tracked = (g->flags & PAGEHINT_PAGER_TRACK) != 0;
	if (!tracked && was_brought(t, g, f->page))
		return 0;
	struct ph_stream *stream = stream_of(t, f);
	struct ph_ask ask = {
		.range = g,
		.page = f->page,
		.how = f->how,
		.window = stream->window,
		.mode = PH_UFFD_DONTWAKE, /* also a single one: who wakes finds its page committed, and may give it away */
		.quiet = 1,
		.demand = 1,
		.tries = f->tries,
	};
	int r = ph_resolve(t->p, &ask);
	if (atomic_load(&t->s->epoch) != t->epoch)
		return -EBUSY; /* the shard was taken: not even the table is ours */
	if (ask.pages != 0) {
		stream->next = ask.first + ask.pages;
		atomic_store_explicit(&t->p->counters[offsetof(struct pagehint_pager_stats, around) / sizeof(uint64_t)],
				      stream->window, memory_order_relaxed);
	}
	note_brought(t, &ask);
	return r;
}

static void put_off(struct step *t, struct ph_parked *f, int r)
{
	uint32_t doublings = f->tries < PAUSE_DOUBLINGS ? f->tries : PAUSE_DOUBLINGS;
	PH_PAGER_COUNT(t->p, parked, 1);
	f->tries++;
	f->due = t->now + (PAUSE_NS << doublings);
	if (r == -EAGAIN && (t->p->flags & PAGEHINT_PAGER_EVENT_REMOVE) != 0 && f->tries < 4) {
		f->due = t->now; /* most likely a removal is to be read first */
		t->again = 1;
	}
}

/* 0 it is answered; 1 it stays in the table; else the step ends with it. */
static int settle(struct step *t, struct ph_parked *f, int r)
{
	struct ph_range *g = &t->p->regions[f->region];
	switch (r) {
	case 0:
		PH_PAGER_COUNT(t->p, faults, 1);
		wake_later(t, g, f->page);
		return 0;
	case -EINPROGRESS:
		if (g->own != NULL)
			return 0; /* whoever has it in hand wakes */
		put_off(t, f, r); /* unless it is a pager of another mapping, which wakes there */
		return 1;
	case -EHWPOISON:
	case -ENOENT: /* no mapping any more: what the thread meets now is the kernel's to say */
		wake_later(t, g, f->page);
		return 0;
	case -EBUSY:
	case -ESRCH:
	case -EBADF:
		return r;
	default:
		put_off(t, f, r);
		return 1;
	}
}

static int resolve_due(struct step *t)
{
	struct ph_shard *s = t->s;
	uint32_t n = s->parked_n, kept = 0;
	int r = 0;
	sort(s->parked, n);
	merge(s);
	n = s->parked_n;
	for (uint32_t i = 0; i < n; i++) {
		struct ph_parked f = s->parked[i];
		int stays = 1;
		if (r >= 0 && f.due <= t->now) {
			stays = settle(t, &f, resolve_one(t, &f));
			if (stays == -EBUSY)
				return -EBUSY;
			r = stays < 0 ? stays : r;
		}
		if (stays != 0)
			s->parked[kept++] = f;
	}
	s->parked_n = kept;
	wake_now(t);
	return r;
}

static uint64_t deadline_of(const struct step *t)
{
	uint64_t next = UINT64_MAX;
	for (uint32_t i = 0; i < t->s->parked_n; i++)
		next = t->s->parked[i].due < next ? t->s->parked[i].due : next;
	return next;
}

static int step_inside(struct step *t, uint64_t *ret_deadline)
{
	int all = 0, r;
	for (uint32_t round = 0; round < 4; round++) {
		t->again = 0;
		r = read_messages(t, &all);
		if (r == -EBUSY)
			break;
		if (r == 0 && !all && (t->p->flags & PAGEHINT_PAGER_EVENT_REMOVE) != 0) {
			*ret_deadline = t->now; /* there is more to read first */
			return 0;
		}
		if (t->s->parked_n != 0) {
			int e = resolve_due(t);
			r = r < 0 ? r : e;
		}
		if (r < 0 || !t->again)
			break;
	}
	*ret_deadline = r == -EBUSY ? t->now : all ? deadline_of(t) : t->now;
	return r;
}

int pagehint_pager_step(struct pagehint_pager *pager, uint32_t shard, uint64_t now_ns, uint64_t *ret_deadline)
{
	if (pager == NULL || ret_deadline == NULL || shard >= pager->shards_n)
		return -EINVAL;
	if (!ph_pager_is_owner(pager))
		return -ENODEV;
	struct ph_shard *s = &pager->shards[shard];
	struct step t = { .p = pager, .s = s, .now = now_ns };
	uint32_t epoch = atomic_load(&s->epoch), nobody = 0;
	if (!atomic_compare_exchange_strong(&s->inside, &nobody, epoch + 1))
		return -EBUSY;
	t.epoch = epoch;
	atomic_store_explicit(&pager->now, now_ns, memory_order_relaxed);
	atomic_fetch_add(&pager->demand, 1);
	int r = step_inside(&t, ret_deadline);
	atomic_fetch_sub(&pager->demand, 1);
	if (atomic_load(&s->epoch) == epoch) {
		atomic_store(&s->stepped, now_ns);
		uint32_t mine = epoch + 1;
		(void)atomic_compare_exchange_strong(&s->inside, &mine, 0);
	}
	return r;
}
