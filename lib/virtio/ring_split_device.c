/* The device end of a split ring: section 2.7. */
#include "virtio/ring_device_form.h"

static const struct ph_avail *avail_of(const struct ph_ring_device *ring)
{
	return ring->place.driver;
}

static struct ph_used *used_of(const struct ph_ring_device *ring)
{
	return ring->place.device;
}

/* after the last entry of the available ring */
static const uint16_t *used_event(const struct ph_ring_device *ring)
{
	return &avail_of(ring)->ring[ring->size];
}

static uint16_t *avail_event(const struct ph_ring_device *ring)
{
	unsigned char *end = ring->place.device;
	return (uint16_t *)(void *)(end + offsetof(struct ph_used, ring) +
				    (size_t)ring->size * sizeof(struct ph_used_elem));
}

static void copy(const struct ph_ring_device *ring, uint32_t i, struct ph_copied *ret_copied)
{
	const struct ph_desc *desc = (const struct ph_desc *)ring->place.desc + i;
	ret_copied->addr = ph_addr_get(desc->addr);
	ret_copied->len = ph_le32_get(&desc->len);
	ret_copied->flags = ph_le16_get(&desc->flags);
	ret_copied->next = ph_le16_get(&desc->next);
}

/* The rest of a chain stands in an indirect table. */
static int walk_table(struct ph_ring_device *ring, const struct ph_copied *desc, struct ph_gather *gather)
{
	const unsigned char *table = NULL;
	struct ph_copied copied;
	uint32_t descs = 0, i = 0;
	int err = ph_gather_table(ring, desc, &table, &descs);
	while (err == 0) {
		ph_gather_copy(table, i, &copied);
		if (copied.flags & PH_DESC_INDIRECT)
			return ph_ring_device_break(ring, PH_RING_BAD_FLAGS);
		err = ph_gather_add(ring, gather, &copied);
		if (err != 0 || !(copied.flags & PH_DESC_NEXT))
			return err;
		i = copied.next;
		if (i >= descs)
			return ph_ring_device_break(ring, PH_RING_BAD_HEAD);
	}
	return err;
}

/* Bounded: every step adds a segment, and there are at most `size`. */
int ph_split_walk(struct ph_ring_device *ring, uint32_t head, struct ph_gather *gather)
{
	struct ph_copied copied;
	uint32_t i = head;
	gather->head = head;
	for (;;) {
		if (i >= ring->size)
			return ph_ring_device_break(ring, PH_RING_BAD_HEAD);
		copy(ring, i, &copied);
		gather->n_descs++;
		if (copied.flags & PH_DESC_INDIRECT)
			return walk_table(ring, &copied, gather);
		int err = ph_gather_add(ring, gather, &copied);
		if (err != 0 || !(copied.flags & PH_DESC_NEXT))
			return err;
		i = copied.next;
	}
}

int ph_split_next(struct ph_ring_device *ring, struct ph_gather *gather)
{
	const struct ph_avail *avail = avail_of(ring);
	uint16_t ahead = (uint16_t)(ph_le16_acquire(&avail->idx) - ring->avail);
	if (ahead == 0)
		return -ENOENT;
	if (ahead > ring->size)
		return ph_ring_device_break(ring, PH_RING_BAD_INDEX);
	uint32_t head = ph_le16_get(&avail->ring[ring->avail & (ring->size - 1)]);
	if (head >= ring->size || ring->slots[head].ticket != 0)
		return ph_ring_device_break(ring, PH_RING_BAD_HEAD);
	return ph_split_walk(ring, head, gather);
}

void ph_split_use(struct ph_ring_device *ring, const struct ph_ring_slot *slot, uint32_t written)
{
	struct ph_used_elem *elem = &used_of(ring)->ring[ring->used & (ring->size - 1)];
	ph_le32_put(&elem->id, slot->head);
	ph_le32_put(&elem->len, written);
	ring->used++;
}

int ph_split_show(struct ph_ring_device *ring)
{
	uint16_t from = ring->shown;
	ph_le16_show(&used_of(ring)->idx, ring->used);
	if (ring->form & PH_RING_EVENT_IDX)
		return ph_ring_event_passed(ph_le16_see(used_event(ring)), ring->used, from);
	return !(ph_le16_see(&avail_of(ring)->flags) & PH_AVAIL_NO_INTERRUPT);
}

int ph_split_arm(struct ph_ring_device *ring)
{
	if (ring->form & PH_RING_EVENT_IDX)
		ph_le16_show(avail_event(ring), ring->avail);
	else
		ph_le16_show(&used_of(ring)->flags, 0);
	uint16_t ahead = (uint16_t)(ph_le16_see(&avail_of(ring)->idx) - ring->avail);
	if (ahead > ring->size)
		return ph_ring_device_break(ring, PH_RING_BAD_INDEX);
	return ahead != 0;
}

/* With event indices nothing is to be done: the index that was asked for is behind. */
void ph_split_disarm(struct ph_ring_device *ring)
{
	if (!(ring->form & PH_RING_EVENT_IDX))
		ph_le16_put(&used_of(ring)->flags, PH_USED_NO_NOTIFY);
}
