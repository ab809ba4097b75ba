/*
 * driver_hint: free pages told to a host that migrates, so that it need not send them.
 *
 * The host names a run by an id of 2 or more; the driver answers with that id, then with free runs, one a request, then with
 * STOP. It keeps the frames until the host says DONE: as long as they are with us nobody writes to them, so what the host
 * skipped needs no sending. A new id begins the next round of the same migration: what is still kept is as it was, only what
 * is free beyond it is told.
 * Invariant: the list is appended to, and cut at its end; an entry is given back only after the device has used it.
 * Source: OASIS virtio 1.3, section 5.5.6.7
 */
#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "virtio/driver_queue.h"

#define Q PAGEHINT_BALLOON_Q_HINT
#define COOKIE_ID UINT64_C(0x100000000) /* a buffer of an id; below: an entry of the list */
#define TAKE_RUNS 16u

static int send_id(struct pagehint_driver *d, uint32_t id)
{
	struct ph_driver_hints *h = &d->hints;
	uint32_t value = PH_LE32(id), slot = 0;
	while (slot < PH_DRIVER_HINT_IDS && (h->ids_used >> slot & 1) != 0)
		slot++;
	if (slot == PH_DRIVER_HINT_IDS)
		return -EAGAIN;
	memcpy(h->ids.here + slot * 4, &value, 4);
	struct ph_ring_buffer buffer = { .addr = h->ids.addr + slot * 4, .len = 4 };
	int r = ph_queue_put(d, Q, &buffer, 1, 0, COOKIE_ID | slot);
	if (r == 0)
		h->ids_used |= 1u << slot;
	return r;
}

static void give(struct pagehint_driver *d, const struct pagehint_run *run)
{
	d->hints.frames -= run->frames;
	d->ops.give(d->ctx, PAGEHINT_DRIVER_FOR_HINT, run, 1);
}

/* Entries at the end that the device has done with go back, up to so many frames. */
static uint64_t cut(struct pagehint_driver *d, uint64_t frames)
{
	struct ph_driver_hints *h = &d->hints;
	uint64_t done = 0;
	while (h->n != 0 && !h->list[h->n - 1].is_out && done < frames) {
		struct pagehint_run run = h->list[--h->n].run;
		done += run.frames;
		give(d, &run);
	}
	return done;
}

uint64_t ph_hint_shrink(struct pagehint_driver *d, uint64_t frames)
{
	if (d->hints.phase == PH_HINT_SENDING)
		d->hints.phase = PH_HINT_STOPPING; /* what we have is wanted elsewhere */
	return cut(d, frames);
}

/* Puts one entry into the ring that is in the list already. */
static int send_entry(struct pagehint_driver *d, uint32_t i)
{
	struct ph_hint *hint = &d->hints.list[i];
	struct ph_ring_buffer buffer = {
		.addr = hint->run.frame << d->opts.frame_shift,
		.len = (uint32_t)(hint->run.frames << d->opts.frame_shift),
	};
	int r = ph_queue_put(d, Q, &buffer, 0, 1, i);
	hint->is_out = r == 0;
	return r;
}

static int is_addressable(const struct pagehint_driver *d, const struct pagehint_run *run)
{
	uint64_t most = UINT64_MAX >> d->opts.frame_shift;
	return run->frames != 0 && run->frame <= most && run->frames <= most - run->frame;
}

/* Takes a few runs and sends them. Returns 0, or -errno: there is nothing to take, or no room in ring or list. */
static int send_some(struct pagehint_driver *d)
{
	struct ph_driver_hints *h = &d->hints;
	struct pagehint_run runs[TAKE_RUNS];
	uint32_t room = ph_ring_driver_room(&d->queues[Q].ring), n = 0;
	room = room < h->room - h->n ? room : h->room - h->n;
	room = room < TAKE_RUNS ? room : TAKE_RUNS;
	if (room == 0)
		return h->n == h->room ? -ENOSPC : -EAGAIN;
	/* no run is longer than one descriptor may be */
	uint64_t most = PH_DRIVER_SEGMENT >> d->opts.frame_shift;
	int r = d->ops.take(d->ctx, PAGEHINT_DRIVER_FOR_HINT, most, runs, room, &n);
	if (r != 0 || n == 0 || n > room)
		return -ENOSPC;
	for (uint32_t i = 0; i < n; i++) {
		h->frames += runs[i].frames;
		if (r == 0 && (!is_addressable(d, &runs[i]) || runs[i].frames > most))
			r = -ENOSPC; /* not what was asked for; asking again would bring no better */
		if (r < 0) {
			give(d, &runs[i]);
			continue;
		}
		h->list[h->n] = (struct ph_hint) { .run = runs[i] };
		r = send_entry(d, h->n);
		if (r < 0) {
			give(d, &runs[i]);
			continue;
		}
		h->n++;
		d->counts.hinted += runs[i].frames;
	}
	return r;
}

static void go_on(struct pagehint_driver *d)
{
	struct ph_driver_hints *h = &d->hints;
	int r = 0;
	if (h->phase == PH_HINT_SENDING) {
		while (r == 0)
			r = send_some(d);
		if (r == -ENOSPC)
			h->phase = PH_HINT_STOPPING;
	}
	if (h->phase == PH_HINT_STOPPING && send_id(d, PAGEHINT_BALLOON_HINT_STOP) == 0)
		h->phase = PH_HINT_STOPPED;
	ph_queue_show(d, Q);
}

uint64_t ph_hint_serve(struct pagehint_driver *d)
{
	struct ph_driver_hints *h = &d->hints;
	if (ph_driver_is_well(d) < 0 || !d->queues[Q].is_live)
		return UINT64_MAX;
	/* the host went on: this round is over, whatever was still to be told */
	if (h->phase == PH_HINT_SENDING && h->wanted != h->sent)
		h->phase = PH_HINT_STOPPING;
	go_on(d);
	int is_over = h->phase == PH_HINT_IDLE || h->phase == PH_HINT_STOPPED;
	if (is_over && h->wanted == PAGEHINT_BALLOON_HINT_DONE) {
		(void)cut(d, UINT64_MAX);
		h->phase = h->n == 0 ? PH_HINT_IDLE : h->phase;
		h->sent = PAGEHINT_BALLOON_HINT_STOP; /* from now on the host may use the id again */
	} else if (is_over && h->wanted > PAGEHINT_BALLOON_HINT_DONE && h->wanted != h->sent &&
		   send_id(d, h->wanted) == 0) {
		h->sent = h->wanted;
		h->latest = h->wanted;
		h->phase = PH_HINT_SENDING;
		go_on(d);
	}
	return UINT64_MAX;
}

void ph_hint_answered(struct pagehint_driver *d, uint64_t cookie)
{
	if ((cookie & COOKIE_ID) != 0)
		d->hints.ids_used &= ~(1u << (cookie & 31));
	else
		d->hints.list[cookie].is_out = 0;
}

void ph_hint_reclaim(struct pagehint_driver *d)
{
	struct ph_driver_hints *h = &d->hints;
	for (uint32_t i = 0; i < h->n; i++)
		h->list[i].is_out = 0;
	(void)cut(d, UINT64_MAX);
	h->ids_used = 0;
	h->phase = PH_HINT_IDLE;
	h->wanted = PAGEHINT_BALLOON_HINT_STOP;
	h->sent = PAGEHINT_BALLOON_HINT_STOP;
}
