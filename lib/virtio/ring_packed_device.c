/* The device end of a packed ring: section 2.8. */
#include "virtio/ring_device_form.h"

#define BITS (PH_DESC_AVAIL | PH_DESC_USED)

static struct ph_packed_desc *desc_at(const struct ph_ring_device *ring, uint16_t at)
{
	return (struct ph_packed_desc *)ring->place.desc + PH_OFFSET(at);
}

static void copy(const struct ph_packed_desc *desc, struct ph_copied *ret_copied)
{
	ret_copied->addr = ph_addr_get(desc->addr);
	ret_copied->len = ph_le32_get(&desc->len);
	ret_copied->next = ph_le16_get(&desc->id);
}

/* In a table only the write flag means anything; the others, a nested indirect one among them, are ignored (2.8.7). */
static int walk_table(struct ph_ring_device *ring, const struct ph_copied *desc, struct ph_gather *gather)
{
	const unsigned char *table = NULL;
	struct ph_copied copied;
	uint32_t descs = 0;
	int err = ph_gather_table(ring, desc, &table, &descs);
	for (uint32_t i = 0; err == 0 && i < descs; i++) {
		ph_gather_copy(table, i, &copied);
		copied.flags = copied.next; /* they stand where a split descriptor has its next */
		err = ph_gather_add(ring, gather, &copied);
	}
	return err;
}

/* Bounded: every step adds a segment, and there are at most `size`. */
int ph_packed_next(struct ph_ring_device *ring, struct ph_gather *gather)
{
	uint32_t taken = ring->out_descs + ring->staged; /* entries that the driver does not have back */
	uint16_t at = ring->avail;
	struct ph_copied copied;
	copied.flags = ph_le16_acquire(&desc_at(ring, at)->flags);
	if ((copied.flags & BITS) != ph_packed_avail_bits(at))
		return -ENOENT;
	for (;;) {
		if (taken + gather->n_descs >= ring->size) /* over what is not used yet, or longer than the ring */
			return ph_ring_device_break(ring, taken != 0 ? PH_RING_BAD_INDEX : PH_RING_BAD_CHAIN);
		copy(desc_at(ring, at), &copied);
		gather->n_descs++;
		gather->head = copied.next;
		if (copied.flags & PH_DESC_INDIRECT) {
			if (gather->n_descs != 1)
				return ph_ring_device_break(ring, PH_RING_BAD_FLAGS);
			return walk_table(ring, &copied, gather);
		}
		int err = ph_gather_add(ring, gather, &copied);
		if (err != 0 || !(copied.flags & PH_DESC_NEXT))
			return err;
		at = ph_packed_ahead(at, 1, ring->size);
		copied.flags = ph_le16_get(&desc_at(ring, at)->flags);
		if ((copied.flags & BITS) !=
		    ph_packed_avail_bits(at)) /* the first is shown last, so all must be there */
			return ph_ring_device_break(ring, PH_RING_BAD_FLAGS);
	}
}

/* The driver looks at one entry only, the first that it does not know to be used: so that one's flags are written by show. */
void ph_packed_use(struct ph_ring_device *ring, const struct ph_ring_slot *slot, uint32_t written)
{
	struct ph_packed_desc *desc = desc_at(ring, ring->used);
	uint16_t flags = (uint16_t)(ph_packed_used_bits(ring->used) | (written != 0 ? PH_DESC_WRITE : 0));
	ph_le32_put(&desc->len, written);
	ph_le16_put(&desc->id, slot->head);
	if (ring->staged == 0)
		ring->first_flags = flags;
	else
		ph_le16_release(&desc->flags, flags);
	ring->used = ph_packed_ahead(ring->used, slot->n_descs, ring->size);
}

int ph_packed_show(struct ph_ring_device *ring)
{
	ph_le16_show(&desc_at(ring, ring->shown)->flags, ring->first_flags);
	return ph_packed_wanted(ph_le32_see(ring->place.driver), ring->form, ring->used, ring->staged, ring->size);
}

int ph_packed_arm(struct ph_ring_device *ring)
{
	if (ring->form & PH_RING_EVENT_IDX)
		ph_le32_show(ring->place.device, (uint32_t)PH_EVENT_DESC << 16 | ring->avail);
	else
		ph_le32_show(ring->place.device, (uint32_t)PH_EVENT_ENABLE << 16);
	return (ph_le16_see(&desc_at(ring, ring->avail)->flags) & BITS) == ph_packed_avail_bits(ring->avail);
}

void ph_packed_disarm(struct ph_ring_device *ring)
{
	ph_le32_put(ring->place.device, (uint32_t)PH_EVENT_DISABLE << 16);
}
