#include "virtio/driver_queue.h"

#include <errno.h>

void ph_driver_break(struct pagehint_driver *d, const char *trouble)
{
	if (d->state != PAGEHINT_DRIVER_RUNNING)
		return;
	d->state = PAGEHINT_DRIVER_BROKEN;
	d->trouble = trouble;
	d->counts.breaks++;
}

int ph_driver_is_well(const struct pagehint_driver *d)
{
	return d->state == PAGEHINT_DRIVER_RUNNING && !d->is_silent ? 0 : -ENODEV;
}

int ph_queue_put(struct pagehint_driver *d, uint32_t q, const struct ph_ring_buffer *buffers, uint32_t n_readable,
		 uint32_t n_writable, uint64_t cookie)
{
	struct ph_driver_queue *queue = &d->queues[q];
	if (d->state != PAGEHINT_DRIVER_RUNNING || !queue->is_live)
		return -ENODEV;
	if (queue->ring.in_flight == 0)
		queue->since_ns = d->now_ns;
	int r = ph_ring_driver_submit(&queue->ring, buffers, n_readable, n_writable, cookie);
	if (r < 0)
		return r == -EAGAIN ? r : -ENODEV;
	queue->is_touched = 1;
	d->counts.requests++;
	return 0;
}

void ph_queue_show(struct pagehint_driver *d, uint32_t q)
{
	struct ph_driver_queue *queue = &d->queues[q];
	if (!queue->is_touched || d->state != PAGEHINT_DRIVER_RUNNING)
		return;
	queue->is_touched = 0;
	if (ph_ring_driver_publish(&queue->ring) == 1) {
		d->virtio->ops.notify(d->virtio->ctx, queue->index);
		d->counts.kicks++;
	}
}

static void answered(struct pagehint_driver *d, uint32_t q, uint64_t cookie)
{
	switch (q) {
	case PAGEHINT_BALLOON_Q_INFLATE:
	case PAGEHINT_BALLOON_Q_DEFLATE:
		ph_balloon_answered(d, q, cookie);
		break;
	case PAGEHINT_BALLOON_Q_STATS:
		ph_statistics_answered(d);
		break;
	case PAGEHINT_BALLOON_Q_HINT:
		ph_hint_answered(d, cookie);
		break;
	default:
		ph_report_answered(d, cookie);
		break;
	}
}

uint32_t ph_queue_take(struct pagehint_driver *d, uint32_t q)
{
	struct ph_driver_queue *queue = &d->queues[q];
	uint64_t cookie;
	uint32_t used, n = 0;
	if (!queue->is_live)
		return 0;
	/* what was in flight, for a duty puts nothing in while it is told; and one more, which would be a lie */
	for (uint32_t most = queue->ring.in_flight; n <= most; n++) {
		if (d->state != PAGEHINT_DRIVER_RUNNING)
			break;
		int r = ph_ring_driver_reap(&queue->ring, &cookie, &used);
		if (r == -EAGAIN)
			break;
		if (r < 0) {
			ph_driver_break(d, ph_ring_why_name(queue->ring.why));
			break;
		}
		queue->since_ns = d->now_ns;
		answered(d, q, cookie);
	}
	return n;
}

int ph_queue_arm(struct pagehint_driver *d, uint32_t q)
{
	struct ph_driver_queue *queue = &d->queues[q];
	if (!queue->is_live || d->state != PAGEHINT_DRIVER_RUNNING)
		return 0;
	int r = ph_ring_driver_arm(&queue->ring);
	if (r < 0)
		ph_driver_break(d, ph_ring_why_name(queue->ring.why));
	return r == 1;
}

uint64_t ph_queue_deadline(const struct pagehint_driver *d, uint32_t q)
{
	const struct ph_driver_queue *queue = &d->queues[q];
	/* the device keeps the buffer of statistics until it wants some */
	if (!queue->is_live || q == PAGEHINT_BALLOON_Q_STATS || queue->ring.in_flight == 0)
		return UINT64_MAX;
	return queue->since_ns > UINT64_MAX - d->opts.answer_ns ? UINT64_MAX : queue->since_ns + d->opts.answer_ns;
}
