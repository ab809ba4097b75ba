/*
 * driver_report: batches of free runs through the reporting queue.
 *
 * The problem: a notification costs an exit, so a batch should need one; a ring takes fewer buffers than a batch has runs, and
 * a descriptor fewer bytes than a run may have. Why this shape: a batch remembers how far it went into the ring, requests are as
 * large as ring and indirect tables allow, and whatever comes back makes room for the next. Batches go in the order in which
 * they were reported; each ends once.
 * Source: OASIS virtio 1.3, section 5.5.6.6
 */
#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "virtio/driver_queue.h"

#define Q PAGEHINT_BALLOON_Q_REPORT

static struct ph_driver_batch *find(struct pagehint_driver *d, uint32_t state)
{
	struct ph_driver_batch *first = NULL;
	for (uint32_t i = 0; i < d->opts.max_batches; i++) {
		struct ph_driver_batch *batch = &d->batches[i];
		if (batch->state == state && (first == NULL || batch->serial < first->serial))
			first = batch;
	}
	return first;
}

/* The oldest batch of which something is not in the ring yet. */
static struct ph_driver_batch *find_unsent(struct pagehint_driver *d)
{
	struct ph_driver_batch *first = NULL;
	for (uint32_t i = 0; i < d->opts.max_batches; i++) {
		struct ph_driver_batch *batch = &d->batches[i];
		if (batch->state == PH_BATCH_OUT && batch->at < batch->n &&
		    (first == NULL || batch->serial < first->serial))
			first = batch;
	}
	return first;
}

static void end(struct pagehint_driver *d, struct ph_driver_batch *batch, int32_t result)
{
	batch->state = PH_BATCH_ENDED;
	batch->result = result;
	batch->serial = d->serial++;
	for (uint32_t i = 0; result == 0 && i < batch->n; i++)
		d->counts.reported += batch->runs[i].frames;
}

/* Fills buffers from where the batch stands; its place moves on only when they are in the ring. */
static uint32_t fill(const struct pagehint_driver *d, const struct ph_driver_batch *batch, uint32_t most,
		     uint32_t *ret_at, uint64_t *ret_at_frame)
{
	uint32_t n = 0, at = batch->at;
	uint64_t at_frame = batch->at_frame, bytes = 0;
	while (n < most && at < batch->n) {
		const struct pagehint_run *run = &batch->runs[at];
		uint64_t left = (run->frames - at_frame) << d->opts.frame_shift;
		uint64_t part = left < PH_DRIVER_SEGMENT ? left : PH_DRIVER_SEGMENT;
		if (bytes + part > PH_DRIVER_REQUEST)
			break;
		bytes += part;
		d->buffers[n++] = (struct ph_ring_buffer) { .addr = (run->frame + at_frame) << d->opts.frame_shift,
							    .len = (uint32_t)part };
		at_frame += part >> d->opts.frame_shift;
		if (at_frame == run->frames) {
			at++;
			at_frame = 0;
		}
	}
	*ret_at = at;
	*ret_at_frame = at_frame;
	return n;
}

static int send_some(struct pagehint_driver *d, struct ph_driver_batch *batch)
{
	uint32_t at, room = ph_ring_driver_room(&d->queues[Q].ring);
	uint64_t at_frame;
	if (room > d->opts.ring_size)
		room = d->opts.ring_size;
	if (room == 0)
		return -EAGAIN;
	uint32_t n = fill(d, batch, room, &at, &at_frame);
	int r = ph_queue_put(d, Q, d->buffers, 0, n, (uint64_t)(batch - d->batches));
	if (r < 0)
		return r;
	batch->requests++;
	batch->at = at;
	batch->at_frame = at_frame;
	return 0;
}

void ph_report_serve(struct pagehint_driver *d)
{
	struct ph_driver_batch *batch;
	if (d->state != PAGEHINT_DRIVER_RUNNING || !d->queues[Q].is_live)
		return;
	while ((batch = find_unsent(d)) != NULL)
		if (send_some(d, batch) < 0)
			break;
	ph_queue_show(d, Q);
}

void ph_report_answered(struct pagehint_driver *d, uint64_t cookie)
{
	struct ph_driver_batch *batch = &d->batches[cookie];
	batch->requests--;
	if (batch->requests == 0 && batch->at == batch->n)
		end(d, batch, 0);
}

void ph_report_reclaim(struct pagehint_driver *d)
{
	for (uint32_t i = 0; i < d->opts.max_batches; i++)
		if (d->batches[i].state == PH_BATCH_OUT)
			end(d, &d->batches[i], -ENODEV);
}

static int runs_are_valid(const struct pagehint_driver *d, const struct pagehint_run *runs, uint32_t n)
{
	uint64_t most = UINT64_MAX >> d->opts.frame_shift;
	for (uint32_t i = 0; i < n; i++)
		if (runs[i].frames == 0 || runs[i].frame > most || runs[i].frames > most - runs[i].frame)
			return 0;
	return 1;
}

/* A device that must keep reported pages at their poison frees nothing: not worth an exit. */
static int is_in_vain(const struct pagehint_driver *d)
{
	return !d->queues[Q].is_live || (ph_driver_has(d, PAGEHINT_BALLOON_F_PAGE_POISON) && d->opts.poison_val != 0);
}

int pagehint_driver_report(struct pagehint_driver *d, const struct pagehint_run *runs, uint32_t n, uint64_t cookie)
{
	if (runs == NULL || n == 0 || n > d->opts.batch_runs || !runs_are_valid(d, runs, n))
		return -EINVAL;
	int r = ph_driver_is_well(d);
	if (r < 0)
		return r;
	struct ph_driver_batch *batch = find(d, PH_BATCH_FREE);
	if (batch == NULL)
		return -EAGAIN;
	memcpy(batch->runs, runs, n * sizeof(*runs));
	batch->n = n;
	batch->at = 0;
	batch->at_frame = 0;
	batch->requests = 0;
	batch->cookie = cookie;
	batch->serial = d->serial++;
	batch->state = PH_BATCH_OUT;
	d->counts.batches++;
	if (is_in_vain(d))
		end(d, batch, -EOPNOTSUPP);
	else
		ph_report_serve(d);
	return 0;
}

int pagehint_driver_reap(struct pagehint_driver *d, uint64_t *ret_cookie, int32_t *ret_result,
			 const struct pagehint_run **ret_runs, uint32_t *ret_n)
{
	if (ret_cookie == NULL || ret_result == NULL || ret_runs == NULL || ret_n == NULL)
		return -EINVAL;
	struct ph_driver_batch *batch = find(d, PH_BATCH_ENDED);
	if (batch == NULL && ph_queue_take(d, Q) != 0) {
		d->is_silent = 0;
		ph_report_serve(d);
		batch = find(d, PH_BATCH_ENDED);
	}
	if (batch == NULL)
		return -EAGAIN;
	*ret_cookie = batch->cookie;
	*ret_result = batch->result;
	*ret_runs = batch->runs;
	*ret_n = batch->n;
	batch->state = PH_BATCH_FREE;
	return 0;
}
