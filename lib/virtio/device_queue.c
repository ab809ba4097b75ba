/* device_queue: a ring comes and goes, and the two calls that do work: a kick and a step */
#include <errno.h>

#include "base/opts.h"
#include "virtio/device.h"
#include "virtio/numbering.h"

struct ph_device_queue *ph_device_queue_at(struct pagehint_device *device, uint32_t index, uint32_t *ret_role)
{
	int role = device->features_set ? pagehint_device_queue_role(device, index) : -ENOENT;
	if (role < 0)
		return NULL;
	*ret_role = (uint32_t)role;
	return &device->queue[role];
}

void ph_device_queue_halt(struct ph_device_queue *q)
{
	q->running = 0;
	q->stopping = 0;
	q->walking = 0;
	q->first = 0;
	q->n = 0;
	q->n_runs = 0;
	q->sent = 0;
	q->wait = PH_WAIT_NONE;
	ph_pieces_clear(&q->pieces);
}

/* ---- start ---- */

static int place_of(const struct pagehint_device_queue *queue, uint32_t form, struct ph_ring_place *place)
{
	*place = (struct ph_ring_place) {
		.desc = queue->desc,
		.driver = queue->driver,
		.device = queue->device,
		.desc_bytes = ph_ring_desc_area_bytes(form, queue->size),
		.driver_bytes = ph_ring_driver_area_bytes(form, queue->size),
		.device_bytes = ph_ring_device_area_bytes(form, queue->size),
	};
	return ph_ring_check(form, queue->size, place) < 0 ? -EINVAL : 0;
}

static int position_of(const struct ph_device_queue *q, const struct pagehint_device_queue *queue, uint32_t form,
		       struct ph_ring_position *position)
{
	if ((queue->flags & PAGEHINT_DEVICE_QUEUE_RESUME) != 0) {
		*position = q->resume;
		return q->has_resume ? 0 : -ENOENT;
	}
	if ((form & PH_RING_PACKED) != 0) {
		*position = (struct ph_ring_position) { (uint16_t)queue->base, (uint16_t)(queue->base >> 16) };
		return (queue->flags & PAGEHINT_DEVICE_QUEUE_FROM_USED) != 0 ? -EINVAL : 0;
	}
	position->used = ph_ring_device_used_seen(&q->ring);
	position->avail =
		(queue->flags & PAGEHINT_DEVICE_QUEUE_FROM_USED) != 0 ? position->used : (uint16_t)queue->base;
	return queue->base > UINT16_MAX ? -EINVAL : 0;
}

static int start(struct pagehint_device *device, struct ph_device_queue *q, uint32_t role, uint32_t index,
		 const struct pagehint_device_queue *queue)
{
	struct ph_ring_setup setup = { .memory = device->memory, .size = queue->size };
	struct ph_ring_position position;
	uint32_t both = PAGEHINT_DEVICE_QUEUE_FROM_USED | PAGEHINT_DEVICE_QUEUE_RESUME;
	if ((queue->flags & ~both) != 0 || queue->flags == both || queue->reserved != 0 ||
	    queue->size > device->queue_size)
		return -EINVAL;
	/* completions are in order whether the driver wants it or not */
	setup.form = ph_ring_form(device->negotiated) & ~PH_RING_IN_ORDER;
	int r = place_of(queue, setup.form, &setup.place);
	if (r == 0)
		r = ph_ring_device_init(&q->ring, &setup, q->memory);
	if (r == 0)
		r = position_of(q, queue, setup.form, &position);
	if (r == 0)
		r = ph_ring_device_restore(&q->ring, &position);
	if (r < 0)
		return r == -ENOENT ? r : -EINVAL;
	ph_device_queue_halt(q);
	q->index = index;
	q->running = 1;
	q->has_resume = 0;
	q->wait = PH_WAIT_BUDGET; /* the guest may have kicked before */
	if (role == PAGEHINT_BALLOON_Q_STATS && (queue->flags & PAGEHINT_DEVICE_QUEUE_FROM_USED) != 0)
		device->stats_repeat = 1;
	return 0;
}

int pagehint_device_queue_start(struct pagehint_device *device, uint32_t index,
				const struct pagehint_device_queue *queue)
{
	struct pagehint_device_queue copy;
	uint32_t role = 0;
	int r = queue == NULL ? -EINVAL : PH_OPTS_IN(copy, queue);
	if (r == 0)
		r = ph_device_begin(device);
	if (r < 0)
		return r;
	struct ph_device_queue *q = ph_device_queue_at(device, index, &role);
	if (device->broken || device->resetting)
		r = -EBUSY;
	else if (q == NULL)
		r = -ENOENT;
	else if (q->running)
		r = -EALREADY;
	else
		r = start(device, q, role, index, &copy);
	ph_device_end(device);
	return r;
}

/* ---- stop ---- */

static int has_in_flight(const struct ph_device_queue *q)
{
	for (uint32_t i = 0; i < q->n; i++)
		if (q->request[(q->first + i) % PH_DEVICE_REQUESTS].batches != 0)
			return 1;
	return 0;
}

struct ph_ring_position ph_device_queue_stand(const struct ph_device_queue *q)
{
	struct ph_ring_position position;
	ph_ring_device_position(&q->ring, &position);
	if (q->n > 0)
		position.avail = q->request[q->first].before.avail;
	return position;
}

int pagehint_device_queue_stop(struct pagehint_device *device, uint32_t index, uint32_t *ret_base)
{
	uint32_t role = 0;
	int r = ph_device_begin(device);
	if (r < 0)
		return r;
	struct ph_device_queue *q = ph_device_queue_at(device, index, &role);
	ph_device_reap(device);
	if (q == NULL || !q->running) {
		r = -ENOENT;
	} else {
		ph_device_acknowledge(device, role);
		q->stopping = 1;
		r = has_in_flight(q) ? -EAGAIN : 0;
	}
	if (r == 0) {
		int packed = (q->ring.form & PH_RING_PACKED) != 0;
		q->resume = ph_device_queue_stand(q);
		if (ret_base != NULL)
			*ret_base = q->resume.avail | (packed ? (uint32_t)q->resume.used << 16 : 0);
		if (role == PAGEHINT_BALLOON_Q_STATS) {
			device->stats_repeat |= device->stats_held;
			device->stats_held = 0;
		}
		ph_device_queue_halt(q);
		q->has_resume = 1;
	}
	ph_device_end(device);
	return r;
}

/* ---- work ---- */

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t deadline(const struct pagehint_device *device)
{
	uint64_t when = device->batches != 0 ? device->poll_ns : UINT64_MAX;
	for (uint32_t role = 0; role < PAGEHINT_BALLOON_Q_COUNT; role++) {
		const struct ph_device_queue *q = &device->queue[role];
		if (!ph_device_may_serve(device, q))
			continue;
		if (q->wait == PH_WAIT_BUDGET)
			when = earlier(when, device->now_ns);
		else if (q->wait == PH_WAIT_TIME)
			when = earlier(when, q->when_ns);
		else if (q->wait == PH_WAIT_BACKEND)
			when = earlier(when, device->poll_ns);
	}
	if (device->knobs.stats_interval_ns != 0 &&
	    ph_device_may_serve(device, &device->queue[PAGEHINT_BALLOON_Q_STATS]))
		when = earlier(when, device->ask_ns);
	return when;
}

static int tell(struct pagehint_device *device, struct pagehint_device_work *work)
{
	struct pagehint_device_work w = {
		.struct_size = sizeof(w),
		.deadline_ns = deadline(device),
		.interrupt = device->interrupts,
		.events = device->events,
	};
	for (uint32_t role = 0; role < PAGEHINT_BALLOON_Q_COUNT; role++) {
		const struct ph_device_queue *q = &device->queue[role];
		if (ph_device_may_serve(device, q) && q->wait == PH_WAIT_BUDGET)
			w.more |= UINT32_C(1) << q->index;
	}
	device->interrupts = 0;
	device->events = 0;
	return PH_OPTS_OUT(work, w);
}

static int enter(struct pagehint_device *device, uint64_t now_ns, const struct pagehint_device_work *work)
{
	if (work == NULL || work->struct_size < sizeof(work->struct_size) || work->struct_size > SIZE_MAX)
		return -EINVAL;
	int r = ph_device_begin(device);
	if (r < 0)
		return r;
	ph_device_clock(device, now_ns);
	device->place.pages = 0; /* regions come and go between calls */
	if (device->batches != 0)
		ph_device_reap(device);
	return 0;
}

int pagehint_device_queue_kick(struct pagehint_device *device, uint32_t index, uint64_t now_ns,
			       struct pagehint_device_work *work)
{
	uint32_t role = 0;
	int r = enter(device, now_ns, work);
	if (r < 0)
		return r;
	struct ph_device_queue *q = ph_device_queue_at(device, index, &role);
	device->counts.kicks++;
	if (q == NULL || !q->running) {
		PH_DROP(device, NOT_READY, 1);
		r = -ENOENT;
	} else {
		ph_device_serve(device, role);
		r = tell(device, work);
	}
	ph_device_end(device);
	return r;
}

static void poll_statistics(struct pagehint_device *device)
{
	uint64_t interval = device->knobs.stats_interval_ns;
	if (interval == 0 || device->now_ns < device->ask_ns)
		return;
	(void)ph_device_ask(device);
	device->ask_ns = ph_device_later(device->now_ns, interval);
}

int pagehint_device_step(struct pagehint_device *device, uint64_t now_ns, struct pagehint_device_work *work)
{
	int r = enter(device, now_ns, work);
	if (r < 0)
		return r;
	if (device->resetting && device->batches == 0) {
		device->events |= PAGEHINT_DEVICE_EVENT_RESET_DONE;
		ph_device_forget(device);
	}
	poll_statistics(device);
	for (uint32_t role = 0; role < PAGEHINT_BALLOON_Q_COUNT; role++) {
		struct ph_device_queue *q = &device->queue[role];
		if (q->running && q->n != 0)
			ph_device_acknowledge(device, role);
		if (q->wait != PH_WAIT_NONE)
			ph_device_serve(device, role);
	}
	r = tell(device, work);
	ph_device_end(device);
	return r;
}
