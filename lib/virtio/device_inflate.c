/*
 * device_inflate: pages that the guest gives to the balloon. They may be discarded whatever the poison value is, and in whole
 * host pages only; the rest waits in the table of partial pages.
 */
#include "virtio/device.h"

static void take(struct pagehint_device *device, struct ph_device_queue *q, uint64_t page)
{
	const struct ph_place *place = &device->place;
	device->counts.inflate_pages++;
	if (place->drop != PAGEHINT_DEVICE_DROP_COUNT)
		device->counts.dropped[place->drop]++;
	else
		ph_pieces_add(&q->pieces, page, 1, place->id);
}

int ph_device_collect_inflate(struct pagehint_device *device, struct ph_device_queue *q, uint32_t *budget)
{
	return ph_device_walk_pfns(device, q, budget, take);
}
