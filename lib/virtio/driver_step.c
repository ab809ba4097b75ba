/*
 * driver_step: one bounded piece of work: answers first, then what they made possible, then when to come again.
 */
#include <errno.h>

#include "base/opts.h"
#include "virtio/driver_queue.h"

#define GENERATION_TRIES 4

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Both members as they were at one moment (section 2.5.1); a device that changes them all the time is asked again a
 * little later, not at once: else it could keep the guest awake without doing anything. */
static void read_config(struct pagehint_driver *d)
{
	const struct pagehint_virtio_ops *ops = &d->virtio->ops;
	void *ctx = d->virtio->ctx;
	d->config_at = UINT64_MAX;
	for (int i = 0; i < GENERATION_TRIES; i++) {
		uint32_t before = ops->config_generation(ctx);
		uint32_t pages = ops->config_read(ctx, PAGEHINT_BALLOON_CONFIG_NUM_PAGES), id = 0;
		if (ph_driver_has(d, PAGEHINT_BALLOON_F_FREE_PAGE_HINT))
			id = ops->config_read(ctx, PAGEHINT_BALLOON_CONFIG_HINT_CMD_ID);
		if (ops->config_generation(ctx) != before)
			continue;
		d->target = pages >> ph_driver_page_shift(d);
		d->hints.wanted = id;
		return;
	}
	d->config_at = ph_driver_later(d->now_ns, PH_DRIVER_CONFIG_NS);
}

/* What the device says of itself: a reset that it wants, or that it has gone. */
static void check_status(struct pagehint_driver *d)
{
	uint32_t status = d->virtio->ops.get_status(d->virtio->ctx);
	if (status == 0xff || status == UINT32_MAX)
		ph_driver_break(d, "there is no device any more");
	else if ((status & PAGEHINT_VIRTIO_STATUS_NEEDS_RESET) != 0)
		ph_driver_break(d, "the device says that it needs a reset");
	else if ((status & PAGEHINT_VIRTIO_STATUS_DRIVER_OK) == 0)
		ph_driver_break(d, "the device was reset by somebody else");
}

/* Answers of every queue. Something is owed for too long: silent; something came: not silent any more. */
static void take_answers(struct pagehint_driver *d)
{
	uint64_t owed = UINT64_MAX;
	for (uint32_t q = 0; q < PAGEHINT_BALLOON_Q_COUNT; q++)
		(void)ph_queue_take(d, q);
	for (uint32_t q = 0; q < PAGEHINT_BALLOON_Q_COUNT; q++)
		owed = sooner(owed, ph_queue_deadline(d, q));
	uint32_t was_silent = d->is_silent;
	d->is_silent = d->state == PAGEHINT_DRIVER_RUNNING && owed <= d->now_ns;
	if (d->is_silent && !was_silent)
		check_status(d); /* dead, or only slow? */
}

static uint64_t serve(struct pagehint_driver *d)
{
	uint64_t again = ph_balloon_serve(d);
	again = sooner(again, ph_hint_serve(d));
	ph_report_serve(d);
	ph_statistics_serve(d);
	ph_balloon_tell_actual(d);
	return again;
}

static uint64_t next_deadline(struct pagehint_driver *d, uint64_t again)
{
	int is_waiting = 0;
	for (uint32_t q = 0; q < PAGEHINT_BALLOON_Q_COUNT; q++) {
		uint64_t owed = ph_queue_deadline(d, q);
		/* what is late already cannot be waited for by its deadline */
		again = sooner(again, owed > d->now_ns ? owed : ph_driver_later(d->now_ns, d->opts.answer_ns));
		if (d->opts.poll_ns == 0)
			is_waiting |= ph_queue_arm(d, q);
	}
	again = sooner(again, d->config_at);
	if (d->opts.poll_ns != 0)
		again = sooner(again, d->poll_at);
	if (atomic_load(&d->queue_event) != 0 || atomic_load(&d->config_event) != 0)
		is_waiting = 1;
	return is_waiting ? d->now_ns : again;
}

/* Clears what was seen, and nothing else, before the device is looked at: what comes later is seen by the next step. */
static uint32_t take_event(_Atomic uint32_t *event)
{
	if (atomic_load(event) == 0)
		return 0;
	atomic_store(event, 0);
	return 1;
}

int pagehint_driver_step(struct pagehint_driver *d, uint64_t now_ns, uint64_t *ret_deadline)
{
	uint64_t nowhere = 0, *deadline = ret_deadline == NULL ? &nowhere : ret_deadline;
	*deadline = UINT64_MAX;
	ph_driver_clock(d, now_ns);
	if (d->state != PAGEHINT_DRIVER_RUNNING)
		return -ENODEV;
	uint32_t is_config = take_event(&d->config_event);
	(void)take_event(&d->queue_event); /* queues are looked at anyway */
	if (d->opts.poll_ns != 0 && d->now_ns >= d->poll_at) {
		is_config = 1;
		d->poll_at = ph_driver_later(d->now_ns, d->opts.poll_ns);
	}
	if (d->now_ns >= d->config_at)
		is_config = 1;
	if (is_config)
		check_status(d);
	take_answers(d);
	if (d->state == PAGEHINT_DRIVER_RUNNING && is_config)
		read_config(d);
	uint64_t again = serve(d);
	if (d->state != PAGEHINT_DRIVER_RUNNING)
		return -ENODEV;
	*deadline = next_deadline(d, again);
	if (d->state != PAGEHINT_DRIVER_RUNNING)
		return -ENODEV;
	return d->is_silent ? -ENODEV : 0;
}

int pagehint_driver_interrupt(struct pagehint_driver *d, uint32_t why)
{
	if (why == 0 && d->virtio->ops.interrupt_status != NULL)
		why = d->virtio->ops.interrupt_status(d->virtio->ctx);
	else if (why == 0)
		why = PAGEHINT_VIRTIO_INTERRUPT_QUEUE | PAGEHINT_VIRTIO_INTERRUPT_CONFIG;
	why &= PAGEHINT_VIRTIO_INTERRUPT_QUEUE | PAGEHINT_VIRTIO_INTERRUPT_CONFIG;
	if ((why & PAGEHINT_VIRTIO_INTERRUPT_QUEUE) != 0)
		atomic_store(&d->queue_event, 1);
	if ((why & PAGEHINT_VIRTIO_INTERRUPT_CONFIG) != 0)
		atomic_store(&d->config_event, 1);
	return why != 0;
}

static uint32_t state_of(const struct pagehint_driver *d)
{
	return d->state == PAGEHINT_DRIVER_RUNNING && d->is_silent ? PAGEHINT_DRIVER_SILENT : d->state;
}

int pagehint_driver_stats(const struct pagehint_driver *d, struct pagehint_driver_stats *stats)
{
	struct pagehint_driver_stats now = d->counts;
	now.features = d->features;
	now.target = d->target;
	now.held = d->held.frames;
	now.inflating = d->inflate.frames;
	now.deflating = d->deflate.frames;
	now.hinting = d->hints.frames;
	now.state = state_of(d);
	now.numbering = d->numbering;
	now.hint_id = d->hints.latest;
	now.report_ring =
		d->queues[PAGEHINT_BALLOON_Q_REPORT].is_live ? d->queues[PAGEHINT_BALLOON_Q_REPORT].ring.size : 0;
	now.batches_in_flight = 0;
	for (uint32_t i = 0; i < d->opts.max_batches; i++)
		now.batches_in_flight += d->batches[i].state == PH_BATCH_OUT;
	return PH_OPTS_OUT(stats, now);
}
