/*
 * device_hints: the hint queue: ids of runs, and pages that a migration may skip. Nothing here is ever discarded: the guest may
 * use a hinted page again before it is acknowledged.
 */
#include <errno.h>

#include "virtio/device.h"
#include "virtio/device_blob.h"

#define BATCH 32u

struct batch {
	struct pagehint_run runs[BATCH];
	uint32_t n;
};

static void hand_over(struct pagehint_device *device, struct batch *batch)
{
	if (batch->n != 0 && device->hooks.hinted != NULL)
		device->hooks.hinted(device->hooks.ctx, device->hint.id, batch->runs, batch->n);
	batch->n = 0;
}

static int command(struct pagehint_device *device, struct ph_device_queue *q, uint32_t *budget)
{
	uint8_t bytes[4];
	uint32_t got = 0;
	int auto_done = (device->flags & PAGEHINT_DEVICE_HINT_AUTO_DONE) != 0;
	for (uint32_t i = 0; i < q->chain.n_readable; i++)
		if (q->chain.segments[i].len != 0 && ph_device_range(device, &q->chain.segments[i], budget) < 0)
			return -ERANGE;
	if (ph_device_read(device, q, bytes, 4, &got) < 0)
		return -ERANGE;
	if (got < 4) {
		PH_DROP(device, BAD_LENGTH, 1);
		return 0;
	}
	int r = ph_hint_command(&device->hint, ph_bytes_le32(bytes), auto_done);
	if (r < 0)
		PH_DROP(device, BAD_ID, 1);
	if (r > 0)
		device->events |= PAGEHINT_DEVICE_EVENT_HINT;
	if (r > 0 && device->hint.state != PAGEHINT_DEVICE_HINT_STARTED)
		device->events |= PAGEHINT_DEVICE_EVENT_CONFIG;
	return 0;
}

static int may_skip(struct pagehint_device *device)
{
	if (device->hint.state != PAGEHINT_DEVICE_HINT_STARTED) {
		PH_DROP(device, STALE_HINT, 1);
		return 0;
	}
	if (device->gate != NULL && (pagehint_gate_closed(device->gate) >> PAGEHINT_INHIBIT_POSTCOPY & 1) != 0) {
		PH_DROP(device, INHIBITED, 1);
		return 0;
	}
	return 1;
}

static int hint_one(struct pagehint_device *device, const struct ph_segment *segment, uint32_t *budget,
		    struct batch *batch)
{
	if (segment->len == 0) {
		PH_DROP(device, EMPTY, 1);
		return 0;
	}
	int r = ph_device_range(device, segment, budget);
	if (r < 0 || !may_skip(device))
		return r < 0 ? r : 0;
	uint64_t page = (segment->addr >> PAGEHINT_BALLOON_PAGE_SHIFT) + ((segment->addr & 4095) != 0);
	uint64_t end = (segment->addr + segment->len) >> PAGEHINT_BALLOON_PAGE_SHIFT;
	if (r == 1) {
		PH_DROP(device, STRADDLE, 1);
	} else if (page >= end) {
		PH_DROP(device, UNALIGNED, 1);
	} else {
		device->counts.hint_ranges++;
		device->counts.hint_bytes += (end - page) << PAGEHINT_BALLOON_PAGE_SHIFT;
		batch->runs[batch->n++] = (struct pagehint_run) { page, end - page };
		if (batch->n == BATCH)
			hand_over(device, batch);
	}
	return 0;
}

int ph_device_collect_hint(struct pagehint_device *device, struct ph_device_queue *q, uint32_t *budget)
{
	struct batch batch = { .n = 0 };
	uint32_t n = q->chain.n_readable + q->chain.n_writable;
	int r = 0;
	if (q->segment == 0 && q->offset == 0 && q->chain.n_readable != 0)
		r = command(device, q, budget);
	if (q->segment < q->chain.n_readable)
		q->segment = q->chain.n_readable; /* beyond the id there is nothing to read */
	for (; r == 0 && q->segment < n; q->segment++) {
		if (*budget == 0) {
			r = -EAGAIN;
			break;
		}
		--*budget;
		r = hint_one(device, &q->chain.segments[q->segment], budget, &batch);
	}
	hand_over(device, &batch);
	q->collected = r == 0;
	return r;
}
