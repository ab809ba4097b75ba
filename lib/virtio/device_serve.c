/*
 * device_serve: takes requests from a ring, lets the queue's handler walk them, and hands them back in order.
 *
 * What a request may wait for while it is walked: the budget of this call, the rate or the hold-back, room at the backend. In
 * each case the queue says why, and the next step goes on exactly there.
 */
#include <errno.h>

#include "virtio/device.h"

/* one row a queue: who walks its requests, and whether it gives memory back */
static const struct {
	int (*collect)(struct pagehint_device *device, struct ph_device_queue *q, uint32_t *budget);
	int discards;
} handlers[PAGEHINT_BALLOON_Q_COUNT] = {
	[PAGEHINT_BALLOON_Q_INFLATE] = { ph_device_collect_inflate, 1 },
	[PAGEHINT_BALLOON_Q_DEFLATE] = { ph_device_collect_deflate, 0 },
	[PAGEHINT_BALLOON_Q_STATS] = { ph_device_collect_stats, 0 },
	[PAGEHINT_BALLOON_Q_HINT] = { ph_device_collect_hint, 0 },
	[PAGEHINT_BALLOON_Q_REPORT] = { ph_device_collect_report, 1 },
};

int ph_device_may_serve(const struct pagehint_device *device, const struct ph_device_queue *q)
{
	if (!q->running || q->stopping || device->broken || device->resetting)
		return 0;
	return device->status == 0 || (device->status & PAGEHINT_VIRTIO_STATUS_DRIVER_OK) != 0;
}

void ph_device_break(struct pagehint_device *device, uint32_t role, const char *why)
{
	static const char *const names[PAGEHINT_BALLOON_Q_COUNT] = { "inflate", "deflate", "statistics", "hint",
								     "report" };
	if (device->broken)
		return;
	device->broken = 1;
	device->status |= PAGEHINT_VIRTIO_STATUS_NEEDS_RESET;
	device->events |= PAGEHINT_DEVICE_EVENT_NEEDS_RESET | PAGEHINT_DEVICE_EVENT_CONFIG;
	device->counts.broken++;
	ph_device_log(device, PAGEHINT_LOG_ERROR, "the guest broke the %s queue: %s; it needs a reset", names[role],
		      why);
}

/* ---- back to the guest ---- */

static uint32_t used_length(const struct pagehint_device *device, uint32_t role, const struct ph_request *request)
{
	if (role != PAGEHINT_BALLOON_Q_REPORT || !ph_device_has(device, PAGEHINT_BALLOON_F_DEVICE_INIT_REPORTED))
		return 0;
	int zero = (pagehint_backend_caps(device->backend) & PAGEHINT_BACKEND_READS_ZERO) != 0;
	return zero && request->gone == request->bytes && request->bytes <= UINT32_MAX ? (uint32_t)request->bytes : 0;
}

/*
 * Does a discard go on, or wait for room, that may be about pages which were acknowledged before? Those the guest may take back
 * at any time, and use once that is acknowledged. (The pages of a request itself are not acknowledged yet.)
 */
static int is_completing(const struct pagehint_device *device)
{
	const struct ph_device_queue *q = &device->queue[PAGEHINT_BALLOON_Q_INFLATE];
	for (uint32_t i = 0; i < q->n; i++) {
		const struct ph_request *request = &q->request[(q->first + i) % PH_DEVICE_REQUESTS];
		if (request->completes && (request->batches != 0 || (i + 1 == q->n && q->sent < q->n_runs)))
			return 1;
	}
	return 0;
}

static int is_done(const struct pagehint_device *device, uint32_t role, const struct ph_device_queue *q)
{
	const struct ph_request *request = &q->request[q->first];
	if (q->n == 0 || !request->finished || request->batches != 0)
		return 0;
	if (role == PAGEHINT_BALLOON_Q_DEFLATE && is_completing(device))
		return 0;
	return !(role == PAGEHINT_BALLOON_Q_STATS && q->n == 1 && device->stats_held);
}

void ph_device_acknowledge(struct pagehint_device *device, uint32_t role)
{
	struct ph_device_queue *q = &device->queue[role];
	uint32_t any = 0;
	if (device->broken || device->resetting || !q->running)
		return;
	while (is_done(device, role, q)) {
		const struct ph_request *request = &q->request[q->first];
		(void)ph_ring_device_complete(&q->ring, request->ticket, used_length(device, role, request));
		q->first = (q->first + 1) % PH_DEVICE_REQUESTS;
		q->n--;
		device->counts.completed++;
		any = 1;
	}
	if (any && ph_ring_device_flush(&q->ring) == 1) {
		device->interrupts |= UINT32_C(1) << q->index;
		device->counts.interrupts++;
	}
}

/* ---- from the guest ---- */

static void wait_for(struct ph_device_queue *q, uint32_t wait, uint64_t when_ns)
{
	q->wait = wait;
	q->when_ns = when_ns;
}

/* When a batch may begin. */
static uint64_t begin_when(struct pagehint_device *device, uint32_t role)
{
	uint64_t when = ph_device_rate_when(&device->rate, device->now_ns);
	if (role == PAGEHINT_BALLOON_Q_REPORT && device->report_ns > when)
		when = device->report_ns;
	return when;
}

static void finish(struct pagehint_device *device, uint32_t role, struct ph_device_queue *q)
{
	q->request[(q->first + q->n - 1) % PH_DEVICE_REQUESTS].finished = 1;
	q->walking = 0;
	if (role == PAGEHINT_BALLOON_Q_REPORT && device->knobs.holdback_ns != 0)
		device->report_ns = ph_device_later(device->now_ns, device->knobs.holdback_ns);
}

/* Goes on with the request being walked. Returns 1 it is finished; 0 it has to wait, or the device broke. */
static int advance(struct pagehint_device *device, uint32_t role, struct ph_device_queue *q, uint32_t *budget)
{
	for (;;) {
		if (ph_device_send(device, role) < 0) {
			wait_for(q, PH_WAIT_BACKEND, 0);
			return 0;
		}
		if (q->collected) {
			finish(device, role, q);
			return 1;
		}
		uint64_t when = device->now_ns;
		if (handlers[role].discards && q->pieces.n == 0)
			when = begin_when(device, role);
		if (when > device->now_ns) {
			device->counts.rate_waits += q->wait != PH_WAIT_TIME;
			wait_for(q, PH_WAIT_TIME, when);
			return 0;
		}
		q->wait = PH_WAIT_NONE;
		int r = handlers[role].collect(device, q, budget);
		if (r == -ERANGE) {
			PH_DROP(device, ADDRESS, 1);
			ph_device_break(device, role, "a buffer is not in its memory");
			return 0;
		}
		int full = q->pieces.n != 0 && ph_pieces_full(&q->pieces);
		if (r == -EAGAIN && *budget == 0 && !full) {
			wait_for(q, PH_WAIT_BUDGET, 0); /* what was collected is kept, to be merged with the rest */
			return 0;
		}
		if (q->pieces.n != 0)
			ph_device_settle(device, role);
	}
}

/* Returns 0 it is taken; else as ph_ring_device_pop. */
static int take(struct pagehint_device *device, struct ph_device_queue *q, uint32_t *budget)
{
	struct ph_request *request = &q->request[(q->first + q->n) % PH_DEVICE_REQUESTS];
	struct ph_ring_position before;
	ph_ring_device_position(&q->ring, &before);
	int r = ph_ring_device_pop(&q->ring, budget, &q->chain);
	if (r < 0)
		return r;
	*request =
		(struct ph_request) { .ticket = q->chain.ticket, .bytes = q->chain.writable_bytes, .before = before };
	q->n++;
	q->walking = 1;
	q->segment = 0;
	q->offset = 0;
	q->checked = 0;
	q->collected = 0;
	q->inhibited = 0;
	device->counts.popped++;
	return 0;
}

/* Everything that is there now. Returns 1 when it came to the end. */
static int drain(struct pagehint_device *device, uint32_t role, struct ph_device_queue *q, uint32_t *budget)
{
	for (;;) {
		if (q->walking && !advance(device, role, q, budget))
			return 0;
		if (device->broken)
			return 0;
		if (q->n == PH_DEVICE_REQUESTS)
			ph_device_acknowledge(device, role);
		if (q->n == PH_DEVICE_REQUESTS) {
			wait_for(q, PH_WAIT_REQUESTS, 0);
			return 0;
		}
		int r = take(device, q, budget);
		if (r == -ENOENT)
			return 1;
		if (r == -EAGAIN) {
			wait_for(q, PH_WAIT_BUDGET, 0);
			return 0;
		}
		if (r < 0) {
			PH_DROP(device, RING, 1);
			ph_device_break(device, role, ph_ring_why_name(q->ring.why));
			return 0;
		}
	}
}

void ph_device_serve(struct pagehint_device *device, uint32_t role)
{
	struct ph_device_queue *q = &device->queue[role];
	uint32_t budget = device->budget;
	if (!ph_device_may_serve(device, q))
		return;
	ph_ring_device_disarm(&q->ring);
	do {
		if (!drain(device, role, q, &budget))
			break;
		ph_device_acknowledge(device, role);
		q->wait = PH_WAIT_NONE;
	} while (ph_ring_device_arm(&q->ring) != 0); /* broken: the next pop says so */
	ph_device_acknowledge(device, role);
}
