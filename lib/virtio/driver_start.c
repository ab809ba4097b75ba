/*
 * driver_start: reset, negotiation, queues; and the way back out of everything.
 *
 * Source: OASIS virtio 1.3, sections 2.1, 3.1.1 and 5.5.3; what a driver does about poison: section 5.5.6.5 and Linux.
 */
#include <errno.h>
#include <string.h>

#include "virtio/driver_queue.h"

/* What a device reads as that is not there any more: no real one sets every bit of its status. */
static int reads_as_gone(uint32_t status)
{
	return status == 0xff || status == UINT32_MAX;
}

static uint32_t get_status(const struct pagehint_driver *d)
{
	return d->virtio->ops.get_status(d->virtio->ctx);
}

/* Adds to the status field, keeping what was set (section 2.1.1). */
static void add_status(const struct pagehint_driver *d, uint32_t bits)
{
	d->virtio->ops.set_status(d->virtio->ctx, get_status(d) | bits);
}

int ph_driver_confirm_reset(struct pagehint_driver *d)
{
	if (d->state != PAGEHINT_DRIVER_RESETTING) {
		for (uint32_t q = 0; q < PAGEHINT_BALLOON_Q_COUNT; q++)
			if (d->queues[q].is_live)
				ph_ring_driver_stop(&d->queues[q].ring);
		d->state = PAGEHINT_DRIVER_RESETTING;
		d->reset_ns = d->now_ns;
		d->virtio->ops.set_status(d->virtio->ctx, 0);
	}
	uint32_t status = get_status(d);
	if (status == 0 || reads_as_gone(status))
		return 0;
	d->trouble = "the device has not confirmed its reset";
	return d->now_ns - d->reset_ns < d->opts.answer_ns ? -EAGAIN : -ENODEV;
}

/* The device holds nothing any more: requests end, frames return, each once. */
static void reclaim(struct pagehint_driver *d)
{
	for (uint32_t q = 0; q < PAGEHINT_BALLOON_Q_COUNT; q++) {
		d->queues[q].is_live = 0;
		d->queues[q].is_touched = 0;
	}
	ph_report_reclaim(d);
	ph_hint_reclaim(d);
	ph_balloon_reclaim(d);
	d->state = PAGEHINT_DRIVER_OFF;
	d->is_silent = 0;
	d->features = 0;
	d->target = 0;
	d->stats_are_out = 0;
	d->stats_are_started = 0;
}

int pagehint_driver_reset(struct pagehint_driver *d, uint64_t now_ns)
{
	ph_driver_clock(d, now_ns);
	if (d->state == PAGEHINT_DRIVER_OFF)
		return 0;
	int r = ph_driver_confirm_reset(d);
	if (r < 0)
		return r;
	reclaim(d);
	d->trouble = "it was reset";
	return 0;
}

/* Of what the device offers, what the embedder allows and has the means for. */
static uint64_t choose(const struct pagehint_driver *d)
{
	uint64_t want = PAGEHINT_BALLOON_F_MUST_TELL_HOST | PAGEHINT_BALLOON_F_PAGE_REPORTING |
			PAGEHINT_VIRTIO_F_INDIRECT_DESC | PAGEHINT_VIRTIO_F_EVENT_IDX | PAGEHINT_VIRTIO_F_RING_PACKED |
			PAGEHINT_VIRTIO_F_IN_ORDER;
	if (d->ops.take != NULL)
		want |= PAGEHINT_BALLOON_F_DEFLATE_ON_OOM | PAGEHINT_BALLOON_F_FREE_PAGE_HINT;
	if (d->ops.get_stats != NULL)
		want |= PAGEHINT_BALLOON_F_STATS_VQ;
	if ((d->opts.flags & PAGEHINT_DRIVER_POISON) != 0)
		want |= PAGEHINT_BALLOON_F_PAGE_POISON;
	uint64_t chosen = d->offered & want & d->opts.features;
	/* a page whose content counts may not come back as zero */
	if ((d->opts.flags & PAGEHINT_DRIVER_POISON) != 0 && (chosen & PAGEHINT_BALLOON_F_PAGE_POISON) == 0)
		chosen &= ~(PAGEHINT_BALLOON_F_PAGE_REPORTING | PAGEHINT_BALLOON_F_FREE_PAGE_HINT);
	return chosen | PAGEHINT_VIRTIO_F_VERSION_1;
}

static int refuse(struct pagehint_driver *d, int error, const char *trouble)
{
	d->trouble = trouble;
	add_status(d, PAGEHINT_VIRTIO_STATUS_FAILED);
	return error;
}

static int negotiate(struct pagehint_driver *d)
{
	add_status(d, PAGEHINT_VIRTIO_STATUS_ACKNOWLEDGE);
	add_status(d, PAGEHINT_VIRTIO_STATUS_DRIVER);
	d->offered = d->virtio->ops.get_features(d->virtio->ctx);
	if ((d->offered & PAGEHINT_VIRTIO_F_VERSION_1) == 0)
		return refuse(d, -EOPNOTSUPP, "the device is legacy: it offers no VERSION_1");
	uint64_t chosen = choose(d);
	d->virtio->ops.set_features(d->virtio->ctx, chosen);
	add_status(d, PAGEHINT_VIRTIO_STATUS_FEATURES_OK);
	if ((get_status(d) & PAGEHINT_VIRTIO_STATUS_FEATURES_OK) == 0)
		return refuse(d, -EOPNOTSUPP,
			      (d->offered & PAGEHINT_VIRTIO_F_ACCESS_PLATFORM) != 0
				      ? "the device wants ACCESS_PLATFORM, which a balloon of guest-physical addresses "
					"cannot have"
				      : "the device does not take the features");
	d->features = chosen;
	return 0;
}

static uint32_t power_below(uint32_t n)
{
	while ((n & (n - 1)) != 0)
		n &= n - 1;
	return n;
}

static int set_up_queue(struct pagehint_driver *d, uint32_t q, uint32_t index)
{
	struct ph_driver_queue *queue = &d->queues[q];
	uint32_t size = d->virtio->ops.queue_max(d->virtio->ctx, index);
	if (size > queue->most)
		size = queue->most;
	size = power_below(size);
	if (size < 2)
		return -ENODEV;
	struct ph_ring_driver_setup setup = { .form = ph_ring_form(d->features), .size = size };
	setup.place.desc = queue->desc.here;
	setup.place.driver = queue->driver.here;
	setup.place.device = queue->device.here;
	setup.place.desc_bytes = ph_ring_desc_area_bytes(setup.form, size);
	setup.place.driver_bytes = ph_ring_driver_area_bytes(setup.form, size);
	setup.place.device_bytes = ph_ring_device_area_bytes(setup.form, size);
	if (q == PAGEHINT_BALLOON_Q_REPORT && (setup.form & PH_RING_INDIRECT) != 0) {
		setup.tables = d->tables.here;
		setup.tables_addr = d->tables.addr;
		setup.table_descs = size < PH_DRIVER_TABLE_DESCS ? size : PH_DRIVER_TABLE_DESCS;
		setup.n_tables = PH_DRIVER_TABLES_DESCS / setup.table_descs;
		if (setup.n_tables > size)
			setup.n_tables = size;
	}
	if (ph_ring_driver_init(&queue->ring, &setup, queue->memory) < 0)
		return -ENODEV;
	if (d->opts.poll_ns != 0)
		ph_ring_driver_disarm(&queue->ring);
	struct pagehint_virtio_queue place = {
		.desc = queue->desc.addr,
		.driver = queue->driver.addr,
		.device = queue->device.addr,
		.index = index,
		.size = size,
	};
	if (d->virtio->ops.queue_setup(d->virtio->ctx, &place) != 0)
		return -ENODEV;
	queue->index = index;
	queue->is_live = 1;
	queue->is_touched = 0;
	queue->since_ns = d->now_ns;
	return 0;
}

static int is_wanted(const struct pagehint_driver *d, uint32_t q)
{
	switch (q) {
	case PAGEHINT_BALLOON_Q_STATS:
		return ph_driver_has(d, PAGEHINT_BALLOON_F_STATS_VQ);
	case PAGEHINT_BALLOON_Q_HINT:
		return ph_driver_has(d, PAGEHINT_BALLOON_F_FREE_PAGE_HINT);
	case PAGEHINT_BALLOON_Q_REPORT:
		return ph_driver_has(d, PAGEHINT_BALLOON_F_PAGE_REPORTING);
	default:
		return 1;
	}
}

static int set_up_queues(struct pagehint_driver *d)
{
	uint32_t index[PAGEHINT_BALLOON_Q_COUNT];
	d->numbering = (d->opts.flags & PAGEHINT_DRIVER_NUMBERED) != 0
			       ? d->opts.numbering
			       : ph_driver_find_numbering(d->virtio, d->offered);
	ph_driver_number(d->numbering, d->offered, d->features, index);
	for (uint32_t q = 0; q < PAGEHINT_BALLOON_Q_COUNT; q++)
		if (is_wanted(d, q) && set_up_queue(d, q, index[q]) < 0)
			return -ENODEV;
	return 0;
}

static void begin(struct pagehint_driver *d)
{
	d->state = PAGEHINT_DRIVER_RUNNING;
	d->trouble = NULL;
	d->is_growing = 0;
	d->retry_at = 0;
	d->retry_gap = PH_DRIVER_RETRY_NS;
	d->quiet_until = 0;
	d->poll_at = 0;
	d->config_at = UINT64_MAX;
	d->actual_told = UINT32_MAX; /* whatever the device remembers of the time before */
	atomic_store(&d->queue_event, 1);
	atomic_store(&d->config_event, 1);
	ph_balloon_tell_actual(d);
}

int pagehint_driver_start(struct pagehint_driver *d, uint64_t now_ns)
{
	ph_driver_clock(d, now_ns);
	if (d->state == PAGEHINT_DRIVER_RUNNING)
		return -EALREADY;
	int r = ph_driver_confirm_reset(d);
	if (r < 0)
		return r;
	reclaim(d);
	if (reads_as_gone(get_status(d))) {
		d->trouble = "there is no device any more";
		return -ENODEV;
	}
	r = negotiate(d);
	if (r < 0)
		return r;
	if (set_up_queues(d) < 0) {
		for (uint32_t q = 0; q < PAGEHINT_BALLOON_Q_COUNT; q++)
			d->queues[q].is_live = 0;
		return refuse(d, -ENODEV, "what the device says of its queues cannot be true");
	}
	if (ph_driver_has(d, PAGEHINT_BALLOON_F_PAGE_POISON))
		d->virtio->ops.config_write(d->virtio->ctx, PAGEHINT_BALLOON_CONFIG_POISON_VAL, d->opts.poison_val);
	add_status(d, PAGEHINT_VIRTIO_STATUS_DRIVER_OK);
	begin(d);
	return 0;
}
