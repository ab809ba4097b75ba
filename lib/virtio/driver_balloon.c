/*
 * driver_balloon: inflate and deflate towards num_pages, and what happens when the guest runs out of memory.
 *
 * The problem: balloons pinned processors by deflating page by page and inflating again at once, woke up for nothing when
 * stuck, and lost pages with the device. Why this shape: frames are in exactly one place: the stack of held runs, or a
 * request; a request is built before the ring is asked, and is undone when the ring says no. A take that found nothing doubles
 * the pause before the next one.
 * Source: OASIS virtio 1.3, sections 5.5.6.1 to 5.5.6.3
 */
#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "virtio/driver_queue.h"

static uint64_t frames_of(const struct pagehint_run *runs, uint32_t n)
{
	uint64_t frames = 0;
	for (uint32_t i = 0; i < n; i++)
		frames += runs[i].frames;
	return frames;
}

static void give(struct pagehint_driver *d, const struct pagehint_run *runs, uint32_t n)
{
	if (n != 0)
		d->ops.give(d->ctx, PAGEHINT_DRIVER_FOR_BALLOON, runs, n);
}

/* ---- the stack of what is held ---- */

static void push(struct ph_held *held, const struct pagehint_run *run)
{
	held->frames += run->frames;
	if (held->n != 0 && held->runs[held->n - 1].frame + held->runs[held->n - 1].frames == run->frame)
		held->runs[held->n - 1].frames += run->frames;
	else
		held->runs[held->n++] = *run;
}

/* Takes at most `frames` from the top into a request; of a larger run its end. */
static void pop(struct ph_held *held, uint64_t frames, struct ph_pfn_request *to)
{
	while (frames != 0 && held->n != 0 && to->n < PH_DRIVER_PFN_RUNS) {
		struct pagehint_run *top = &held->runs[held->n - 1];
		uint64_t part = top->frames < frames ? top->frames : frames;
		top->frames -= part;
		to->runs[to->n++] = (struct pagehint_run) { top->frame + top->frames, part };
		to->frames += part;
		held->frames -= part;
		frames -= part;
		if (top->frames == 0)
			held->n--;
	}
}

/* ---- requests ---- */

static struct ph_pfn_request *free_request(struct ph_pfn_side *side, uint64_t *ret_cookie)
{
	for (uint32_t i = 0; i < PH_DRIVER_PFN_SLOTS; i++)
		if (side->requests[i].n == 0) {
			*ret_cookie = i;
			return &side->requests[i];
		}
	return NULL;
}

/* frames whose pages fill one list */
static uint64_t frames_a_request(const struct pagehint_driver *d)
{
	return PH_DRIVER_PFNS >> ph_driver_page_shift(d);
}

/* Writes the list of pages and puts the request into its queue. 0, or -errno with the request as it was. */
static int send(struct pagehint_driver *d, uint32_t q, struct ph_pfn_side *side, uint64_t cookie)
{
	const struct ph_pfn_request *request = &side->requests[cookie];
	uint64_t at = cookie * PH_DRIVER_PFNS * 4;
	unsigned char *list = side->pages.here + at;
	uint32_t bytes = 0, shift = ph_driver_page_shift(d);
	for (uint32_t i = 0; i < request->n; i++) {
		uint64_t first = request->runs[i].frame << shift, pages = request->runs[i].frames << shift;
		for (uint64_t p = 0; p < pages; p++, bytes += 4) {
			uint32_t pfn = PH_LE32((uint32_t)(first + p));
			memcpy(list + bytes, &pfn, 4);
		}
	}
	struct ph_ring_buffer buffer = { .addr = side->pages.addr + at, .len = bytes };
	return ph_queue_put(d, q, &buffer, 1, 0, cookie);
}

static void clear(struct ph_pfn_request *request)
{
	request->n = 0;
	request->frames = 0;
	request->is_given = 0;
}

/* ---- inflate ---- */

/* What was taken must be what was asked for, and have page numbers of 32 bits. */
static int is_usable(const struct pagehint_driver *d, const struct pagehint_run *runs, uint32_t n, uint64_t asked)
{
	uint64_t end = UINT64_C(1) << (32 - ph_driver_page_shift(d)), sum = 0;
	for (uint32_t i = 0; i < n; i++) {
		if (runs[i].frames == 0 || runs[i].frames > asked - sum || runs[i].frame >= end ||
		    runs[i].frames > end - runs[i].frame)
			return 0;
		sum += runs[i].frames;
	}
	return n != 0;
}

static void pause_taking(struct pagehint_driver *d)
{
	d->counts.take_failures++;
	d->retry_at = ph_driver_later(d->now_ns, d->retry_gap);
	d->retry_gap = d->retry_gap * 2 > PH_DRIVER_RETRY_MAX_NS ? PH_DRIVER_RETRY_MAX_NS : d->retry_gap * 2;
}

/* One request more. Returns how many frames went out; 0 = no more now. */
static uint64_t inflate_some(struct pagehint_driver *d, uint64_t want)
{
	uint64_t cookie, most = frames_a_request(d);
	struct ph_pfn_request *request = free_request(&d->inflate, &cookie);
	if (request == NULL)
		return 0;
	/* every run in a request may need a place of its own on the stack */
	uint32_t reserved = 0, n = 0;
	for (uint32_t i = 0; i < PH_DRIVER_PFN_SLOTS; i++)
		reserved += d->inflate.requests[i].n + d->deflate.requests[i].n;
	if (d->held.n + reserved + PH_DRIVER_PFN_RUNS > d->held.room) {
		pause_taking(d);
		return 0;
	}
	want = want < most ? want : most;
	int r = d->ops.take(d->ctx, PAGEHINT_DRIVER_FOR_BALLOON, want, request->runs, PH_DRIVER_PFN_RUNS, &n);
	if (r != 0 || n > PH_DRIVER_PFN_RUNS) {
		pause_taking(d);
		return 0;
	}
	if (!is_usable(d, request->runs, n, want)) {
		give(d, request->runs, n);
		pause_taking(d);
		return 0;
	}
	request->n = n;
	request->frames = frames_of(request->runs, n);
	if (send(d, PAGEHINT_BALLOON_Q_INFLATE, &d->inflate, cookie) < 0) {
		give(d, request->runs, n);
		clear(request);
		return 0;
	}
	d->inflate.frames += request->frames;
	d->retry_gap = PH_DRIVER_RETRY_NS;
	return request->frames;
}

static uint64_t inflate(struct pagehint_driver *d, uint64_t missing)
{
	uint64_t wait_for = d->quiet_until > d->retry_at ? d->quiet_until : d->retry_at;
	if (d->ops.take == NULL)
		return UINT64_MAX;
	if (d->now_ns < wait_for)
		return wait_for;
	if (!d->is_growing) {
		d->is_growing = 1;
		if (d->ops.before_inflate != NULL)
			d->ops.before_inflate(d->ctx, missing);
	}
	while (missing != 0) {
		uint64_t got = inflate_some(d, missing);
		if (got == 0)
			break;
		missing -= got;
	}
	ph_queue_show(d, PAGEHINT_BALLOON_Q_INFLATE);
	return d->retry_at > d->now_ns ? d->retry_at : UINT64_MAX;
}

/* ---- deflate ---- */

uint64_t ph_balloon_shrink(struct pagehint_driver *d, uint64_t frames, uint32_t is_given)
{
	uint64_t done = 0, most = frames_a_request(d), cookie;
	while (done < frames && d->held.frames != 0) {
		struct ph_pfn_request *request = free_request(&d->deflate, &cookie);
		if (request == NULL)
			break;
		pop(&d->held, frames - done < most ? frames - done : most, request);
		request->is_given = is_given;
		if (send(d, PAGEHINT_BALLOON_Q_DEFLATE, &d->deflate, cookie) < 0) {
			/* backwards, so that what was one run becomes one again */
			for (uint32_t i = request->n; i-- > 0;)
				push(&d->held, &request->runs[i]);
			clear(request);
			break;
		}
		done += request->frames;
		if (is_given) {
			give(d, request->runs, request->n);
			d->counts.deflated += request->frames;
		} else {
			d->deflate.frames += request->frames;
		}
	}
	ph_queue_show(d, PAGEHINT_BALLOON_Q_DEFLATE);
	return done;
}

/* ---- both ---- */

uint64_t ph_balloon_serve(struct pagehint_driver *d)
{
	uint64_t have = d->held.frames + d->inflate.frames;
	if (ph_driver_is_well(d) < 0)
		return UINT64_MAX;
	if (have >= d->target)
		d->is_growing = 0;
	if (have < d->target)
		return inflate(d, d->target - have);
	if (d->held.frames > d->target)
		(void)ph_balloon_shrink(d, d->held.frames - d->target, 0);
	return UINT64_MAX;
}

void ph_balloon_answered(struct pagehint_driver *d, uint32_t q, uint64_t cookie)
{
	struct ph_pfn_side *side = q == PAGEHINT_BALLOON_Q_INFLATE ? &d->inflate : &d->deflate;
	struct ph_pfn_request *request = &side->requests[cookie];
	if (q == PAGEHINT_BALLOON_Q_INFLATE) {
		for (uint32_t i = 0; i < request->n; i++)
			push(&d->held, &request->runs[i]);
		d->counts.inflated += request->frames;
		side->frames -= request->frames;
	} else if (!request->is_given) {
		give(d, request->runs, request->n);
		d->counts.deflated += request->frames;
		side->frames -= request->frames;
	}
	clear(request);
}

void ph_balloon_tell_actual(struct pagehint_driver *d)
{
	uint64_t pages = (d->held.frames + d->deflate.frames) << ph_driver_page_shift(d);
	uint32_t actual = pages > UINT32_MAX ? UINT32_MAX : (uint32_t)pages;
	if (actual == d->actual_told || d->state != PAGEHINT_DRIVER_RUNNING)
		return;
	d->actual_told = actual;
	d->virtio->ops.config_write(d->virtio->ctx, PAGEHINT_BALLOON_CONFIG_ACTUAL, actual);
}

static void reclaim_side(struct pagehint_driver *d, struct ph_pfn_side *side)
{
	for (uint32_t i = 0; i < PH_DRIVER_PFN_SLOTS; i++) {
		if (!side->requests[i].is_given)
			give(d, side->requests[i].runs, side->requests[i].n);
		clear(&side->requests[i]);
	}
	side->frames = 0;
}

void ph_balloon_reclaim(struct pagehint_driver *d)
{
	reclaim_side(d, &d->inflate);
	reclaim_side(d, &d->deflate);
	give(d, d->held.runs, d->held.n);
	d->held.n = 0;
	d->held.frames = 0;
	d->is_growing = 0;
}

/* ---- out of memory ---- */

/* how many frames this call is to give: more each time it is called again soon */
static uint64_t oom_batch(struct pagehint_driver *d, uint64_t frames)
{
	if (d->now_ns >= d->quiet_until)
		d->oom_frames = d->opts.oom_frames;
	uint64_t batch = d->oom_frames;
	d->oom_frames = batch * 2 > PH_DRIVER_OOM_MAX ? PH_DRIVER_OOM_MAX : batch * 2;
	return batch > frames ? batch : frames;
}

int pagehint_driver_oom(struct pagehint_driver *d, uint64_t frames, uint64_t now_ns, uint64_t *ret_frames)
{
	if (frames == 0 || ret_frames == NULL)
		return -EINVAL;
	ph_driver_clock(d, now_ns);
	int r = ph_driver_is_well(d);
	if (r < 0)
		return r;
	uint64_t want = oom_batch(d, frames), given = ph_hint_shrink(d, want);
	int may_deflate = ph_driver_has(d, PAGEHINT_BALLOON_F_DEFLATE_ON_OOM);
	int must_tell = ph_driver_has(d, PAGEHINT_BALLOON_F_MUST_TELL_HOST);
	d->counts.ooms++;
	d->quiet_until = ph_driver_later(d->now_ns, d->opts.quiet_ns);
	if (given < want && may_deflate) {
		uint64_t shrunk = ph_balloon_shrink(d, want - given, !must_tell);
		given += must_tell ? 0 : shrunk;
	}
	ph_balloon_tell_actual(d);
	if (given == 0 && !may_deflate && d->held.frames != 0)
		return -EOPNOTSUPP;
	int more = d->deflate.frames != 0 || (may_deflate && d->held.frames != 0);
	*ret_frames = given;
	return given < frames && more ? -EAGAIN : 0;
}
