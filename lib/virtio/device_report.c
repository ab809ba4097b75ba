/*
 * device_report: ranges that are free in the guest and stay so until they are acknowledged. They are discarded whole or not at
 * all: what is not whole host pages, too small, poisoned, pinned or not in one region is acknowledged and kept.
 */
#include <errno.h>

#include "virtio/device.h"

/* Why this buffer is kept; PAGEHINT_DEVICE_DROP_COUNT: it is not. Lies in device->place. */
static uint32_t why_kept(const struct pagehint_device *device, const struct ph_segment *segment)
{
	const struct ph_place *place = &device->place;
	uint64_t host_bytes = place->host << PAGEHINT_BALLOON_PAGE_SHIFT;
	if (ph_device_has(device, PAGEHINT_BALLOON_F_PAGE_POISON) && device->poison != 0)
		return PAGEHINT_DEVICE_DROP_POISON;
	if (place->drop != PAGEHINT_DEVICE_DROP_COUNT)
		return place->drop;
	if (((segment->addr | segment->len) & (host_bytes - 1)) != 0)
		return PAGEHINT_DEVICE_DROP_UNALIGNED;
	return segment->len < device->knobs.min_report_bytes ? PAGEHINT_DEVICE_DROP_SMALL : PAGEHINT_DEVICE_DROP_COUNT;
}

static int collect_one(struct pagehint_device *device, struct ph_device_queue *q, const struct ph_segment *segment,
		       uint32_t *budget)
{
	if (segment->len == 0) {
		PH_DROP(device, EMPTY, 1);
		return 0;
	}
	int r = ph_device_range(device, segment, budget);
	if (r < 0)
		return r;
	if (!segment->writable) {
		PH_DROP(device, READABLE, 1);
		return 0;
	}
	device->counts.report_ranges++;
	device->counts.report_bytes += segment->len;
	uint32_t why = r == 1 ? PAGEHINT_DEVICE_DROP_STRADDLE : why_kept(device, segment);
	if (why != PAGEHINT_DEVICE_DROP_COUNT)
		device->counts.dropped[why]++;
	else
		ph_pieces_add(&q->pieces, segment->addr >> PAGEHINT_BALLOON_PAGE_SHIFT,
			      segment->len >> PAGEHINT_BALLOON_PAGE_SHIFT, device->place.id);
	return 0;
}

int ph_device_collect_report(struct pagehint_device *device, struct ph_device_queue *q, uint32_t *budget)
{
	uint32_t n = q->chain.n_readable + q->chain.n_writable;
	for (; q->segment < n; q->segment++) {
		if (*budget == 0 || ph_pieces_full(&q->pieces))
			return -EAGAIN;
		--*budget;
		int r = collect_one(device, q, &q->chain.segments[q->segment], budget);
		if (r < 0)
			return r;
	}
	q->collected = 1;
	return 0;
}
