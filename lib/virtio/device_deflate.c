/*
 * device_deflate: pages that the guest takes back. A larger host page of which one is in use again is not inflated in part any
 * more; and where devices cannot fault, pages are made present before the guest is told.
 */
#include "virtio/device.h"

static void take(struct pagehint_device *device, struct ph_device_queue *q, uint64_t page)
{
	const struct ph_place *place = &device->place;
	struct ph_partial_page larger;
	device->counts.deflate_pages++;
	device->counts.oom_pages += device->progress.target >= device->progress.actual;
	if (place->granule > 1 && place->granule <= PH_PARTIAL_PAGE_MAX && ph_device_larger(place, page, &larger) == 0)
		ph_partial_void(&device->partial, &larger, place->base + (page - place->page) - larger.first);
	if ((device->flags & PAGEHINT_DEVICE_POPULATE) != 0 && place->drop != PAGEHINT_DEVICE_DROP_DEVICE)
		ph_pieces_add(&q->pieces, page, 1, place->id);
}

int ph_device_collect_deflate(struct pagehint_device *device, struct ph_device_queue *q, uint32_t *budget)
{
	return ph_device_walk_pfns(device, q, budget, take);
}
