/*
 * device_walk: from what a chain says to pages of the map: its bytes, its ranges, and lists of page numbers.
 *
 * Every address is looked up before it is believed. Only the device-readable part of lists is ever read, and the ranges of
 * reports and hints are never touched.
 */
#include <errno.h>
#include <string.h>

#include "virtio/device.h"
#include "virtio/device_blob.h"

static uint64_t pages_of(uint64_t bytes)
{
	return bytes >> PAGEHINT_BALLOON_PAGE_SHIFT;
}

static uint32_t drop_of(const struct pagehint_device *device, const struct ph_region *region)
{
	uint64_t pins, in_flight;
	ph_map_counts(device->map, region->id, &pins, &in_flight);
	if (region->backing == PAGEHINT_BACKING_DEVICE)
		return PAGEHINT_DEVICE_DROP_DEVICE;
	return pins != 0 ? PAGEHINT_DEVICE_DROP_PINNED : PAGEHINT_DEVICE_DROP_COUNT;
}

/* Larger pages align by file offset where a file is what gets the hole, else by address: as the backends have it. */
static uint64_t base_of(const struct ph_region *region)
{
	int by_file = region->fd >= 0 && region->backing != PAGEHINT_BACKING_ANON &&
		      region->backing != PAGEHINT_BACKING_FILE_PRIVATE;
	return pages_of(by_file ? region->fd_offset : region->host_addr);
}

static uint64_t whole_unit(uint64_t bytes, uint64_t frame_pages)
{
	uint64_t unit = frame_pages;
	while (unit < pages_of(bytes))
		unit *= 2;
	return unit;
}

int ph_device_find(struct pagehint_device *device, uint64_t page)
{
	struct ph_place *place = &device->place;
	struct ph_region region;
	if (page - place->page < place->pages)
		return 0;
	if (ph_map_find(device->map, page >> device->frame_pages_shift, &region) < 0)
		return -ERANGE;
	uint64_t frame_pages = UINT64_C(1) << device->frame_pages_shift;
	*place = (struct ph_place) {
		.id = region.id,
		.page = region.frame << device->frame_pages_shift,
		.pages = region.frames << device->frame_pages_shift,
		.base = base_of(&region),
		.granule = whole_unit(region.least_bytes, frame_pages),
		.host = whole_unit(region.host_page_bytes, frame_pages),
		.drop = drop_of(device, &region),
	};
	return 0;
}

int ph_device_larger(const struct ph_place *place, uint64_t page, struct ph_partial_page *ret_larger)
{
	uint64_t at = place->base + (page - place->page), first = at & ~(place->granule - 1);
	*ret_larger = (struct ph_partial_page) { place->id, first, place->granule, place->base - place->page };
	return first >= place->base && first - place->base <= place->pages - place->granule &&
			       place->granule <= place->pages
		       ? 0
		       : -1;
}

int ph_device_range(struct pagehint_device *device, const struct ph_segment *segment, uint32_t *budget)
{
	uint64_t page = segment->addr >> PAGEHINT_BALLOON_PAGE_SHIFT;
	uint64_t last = (segment->addr + (segment->len - 1)) >> PAGEHINT_BALLOON_PAGE_SHIFT;
	const struct ph_place *place = &device->place;
	if (ph_device_find(device, page) < 0)
		return -ERANGE;
	if (last - place->page < place->pages)
		return 0;
	/* memory all the same? */
	while (last - place->page >= place->pages) {
		*budget -= *budget != 0;
		if (ph_device_find(device, place->page + place->pages) < 0)
			return -ERANGE;
	}
	return 1;
}

/* ---- bytes ---- */

/* Skips what was read, and what is empty. */
static const struct ph_segment *here(struct ph_device_queue *q)
{
	while (q->segment < q->chain.n_readable) {
		const struct ph_segment *segment = &q->chain.segments[q->segment];
		if (q->offset < segment->len)
			return segment;
		q->segment++;
		q->offset = 0;
	}
	return NULL;
}

/* As many bytes of this buffer as lie in one region; a buffer may go on into the next one. */
static int one_part(struct pagehint_device *device, uint64_t addr, uint32_t *bytes, void **ret_host)
{
	int r = device->memory.host(device->memory.ctx, addr, *bytes, 0, ret_host);
	if (r == 0)
		return 0;
	uint32_t to_page_end = 4096u - (uint32_t)(addr & 4095);
	*bytes = *bytes < to_page_end ? *bytes : to_page_end;
	return device->memory.host(device->memory.ctx, addr, *bytes, 0, ret_host) < 0 ? -ERANGE : 0;
}

int ph_device_read(struct pagehint_device *device, struct ph_device_queue *q, void *to, uint32_t bytes,
		   uint32_t *ret_got)
{
	uint8_t *out = to;
	const struct ph_segment *segment;
	void *host = NULL;
	*ret_got = 0;
	while (*ret_got < bytes && (segment = here(q)) != NULL) {
		uint64_t left = segment->len - q->offset;
		uint32_t part = left < bytes - *ret_got ? (uint32_t)left : bytes - *ret_got;
		if (one_part(device, segment->addr + q->offset, &part, &host) < 0)
			return -ERANGE;
		memcpy(out + *ret_got, host, part);
		*ret_got += part;
		q->offset += part;
	}
	return 0;
}

int ph_device_check_list(struct pagehint_device *device, const struct ph_chain *chain, uint32_t unit, uint32_t *budget)
{
	PH_DROP(device, WRITABLE, chain->n_writable);
	PH_DROP(device, BAD_LENGTH, chain->readable_bytes % unit != 0);
	for (uint32_t i = 0; i < chain->n_readable + chain->n_writable; i++)
		if (chain->segments[i].len != 0 && ph_device_range(device, &chain->segments[i], budget) < 0)
			return -ERANGE;
	return 0;
}

/* ---- page numbers ---- */

static uint32_t how_many(const struct ph_device_queue *q, uint32_t budget)
{
	uint32_t n = PH_DEVICE_PFNS, room = q->pieces.max - q->pieces.n;
	n = n < budget ? n : budget;
	return n < room ? n : room;
}

int ph_device_walk_pfns(struct pagehint_device *device, struct ph_device_queue *q, uint32_t *budget,
			void (*take)(struct pagehint_device *device, struct ph_device_queue *q, uint64_t page))
{
	if (!q->checked && ph_device_check_list(device, &q->chain, 4, budget) < 0)
		return -ERANGE;
	q->checked = 1;
	for (;;) {
		uint32_t want = how_many(q, *budget), got = 0;
		if (want == 0 || q->pieces.pages >= PH_DEVICE_BATCH_PAGES)
			return -EAGAIN;
		if (ph_device_read(device, q, device->scratch, 4 * want, &got) < 0)
			return -ERANGE;
		for (uint32_t i = 0; i < got / 4; i++) {
			uint64_t page =
				ph_bytes_le32(device->scratch + 4 * (size_t)i); /* 64 bits before anything is shifted */
			if (ph_device_find(device, page) < 0)
				PH_DROP(device, BAD_PFN, 1);
			else
				take(device, q, page);
		}
		*budget -= got / 4;
		if (got < 4 * want || here(q) == NULL) {
			q->collected = 1;
			return 0;
		}
	}
}
