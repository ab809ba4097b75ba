/* The driver end of a packed ring: section 2.8. */
#include "virtio/ring_driver_form.h"

#define BITS (PH_DESC_AVAIL | PH_DESC_USED)

static struct ph_packed_desc *desc_at(const struct ph_ring_driver *ring, uint16_t at)
{
	return (struct ph_packed_desc *)ring->place.desc + PH_OFFSET(at);
}

static void write_desc(struct ph_packed_desc *desc, const struct ph_ring_buffer *buffer, uint32_t id)
{
	ph_addr_put(desc->addr, buffer->addr);
	ph_le32_put(&desc->len, buffer->len);
	ph_le16_put(&desc->id, (uint16_t)id);
}

static void fill_table(struct ph_ring_driver *ring, const struct ph_ring_order *order)
{
	void *table = ring->tables + (size_t)(order->table - 1) * ring->table_descs * PH_DESC_BYTES;
	struct ph_packed_desc *descs = table;
	for (uint32_t i = 0; i < order->n; i++) {
		write_desc(&descs[i], &order->buffers[i], 0);
		ph_le16_put(&descs[i].flags, i < order->n_readable ? 0 : PH_DESC_WRITE);
	}
}

/* The device looks at one entry only, the first that it does not know: that one's flags are written by publish. */
static void put_entry(struct ph_ring_driver *ring, const struct ph_ring_buffer *buffer, uint32_t id, uint16_t flags)
{
	struct ph_packed_desc *desc = desc_at(ring, ring->avail);
	flags |= ph_packed_avail_bits(ring->avail);
	write_desc(desc, buffer, id);
	if (ring->avail == ring->shown)
		ring->first_flags = flags;
	else
		ph_le16_put(&desc->flags, flags);
	ring->avail = ph_packed_ahead(ring->avail, 1, ring->size);
	ring->free_descs--;
}

uint32_t ph_packed_put(struct ph_ring_driver *ring, const struct ph_ring_order *order)
{
	uint32_t id = ring->free_head;
	ring->free_head = ring->links[id];
	if (order->table != 0) {
		struct ph_ring_buffer table = ph_driver_table(ring, order);
		fill_table(ring, order);
		put_entry(ring, &table, id, PH_DESC_INDIRECT);
		return id;
	}
	for (uint32_t i = 0; i < order->n; i++)
		put_entry(ring, &order->buffers[i], id,
			  (uint16_t)((i < order->n_readable ? 0 : PH_DESC_WRITE) |
				     (i + 1 < order->n ? PH_DESC_NEXT : 0)));
	return id;
}

int ph_packed_publish(struct ph_ring_driver *ring)
{
	ph_le16_show(&desc_at(ring, ring->shown)->flags, ring->first_flags);
	ring->shown = ring->avail;
	return ph_packed_wanted(ph_le32_see(ring->place.device), ring->form, ring->avail, ring->staged, ring->size);
}

/* The length of an entry without the write flag is reserved (2.8.4): nothing was written. */
int ph_packed_look(struct ph_ring_driver *ring, uint32_t *ret_id, uint32_t *ret_len)
{
	const struct ph_packed_desc *desc = desc_at(ring, ring->used);
	uint16_t flags = ph_le16_see(&desc->flags);
	if ((flags & BITS) != ph_packed_used_bits(ring->used))
		return -EAGAIN;
	*ret_id = ph_le16_get(&desc->id);
	*ret_len = flags & PH_DESC_WRITE ? ph_le32_get(&desc->len) : 0;
	return 0;
}

void ph_packed_put_back(struct ph_ring_driver *ring, uint32_t id)
{
	ring->links[id] = ring->free_head;
	ring->free_head = (uint16_t)id;
	ring->free_descs += ring->requests[id].n_descs;
	ring->used = ph_packed_ahead(ring->used, ring->requests[id].n_descs, ring->size);
}

void ph_packed_ask(struct ph_ring_driver *ring)
{
	if (ring->form & PH_RING_EVENT_IDX)
		ph_le32_show(ring->place.driver, (uint32_t)PH_EVENT_DESC << 16 | ring->used);
	else
		ph_le32_show(ring->place.driver, (uint32_t)PH_EVENT_ENABLE << 16);
}

void ph_packed_hush(struct ph_ring_driver *ring)
{
	ph_le32_put(ring->place.driver, (uint32_t)PH_EVENT_DISABLE << 16);
}
