/* The driver end of a split ring: section 2.7. */
#include "virtio/ring_driver_form.h"

static struct ph_avail *avail_of(const struct ph_ring_driver *ring)
{
	return ring->place.driver;
}

static const struct ph_used *used_of(const struct ph_ring_driver *ring)
{
	return ring->place.device;
}

static uint16_t *used_event(const struct ph_ring_driver *ring)
{
	return &avail_of(ring)->ring[ring->size];
}

/* after the last entry of the used ring */
static const uint16_t *avail_event(const struct ph_ring_driver *ring)
{
	const unsigned char *end = ring->place.device;
	return (const uint16_t *)(const void *)(end + offsetof(struct ph_used, ring) +
						(size_t)ring->size * sizeof(struct ph_used_elem));
}

static void write_desc(struct ph_desc *desc, const struct ph_ring_buffer *buffer, uint16_t flags, uint16_t next)
{
	ph_addr_put(desc->addr, buffer->addr);
	ph_le32_put(&desc->len, buffer->len);
	ph_le16_put(&desc->flags, flags);
	ph_le16_put(&desc->next, next);
}

static uint16_t flags_of(const struct ph_ring_order *order, uint32_t i)
{
	return (uint16_t)((i < order->n_readable ? 0 : PH_DESC_WRITE) | (i + 1 < order->n ? PH_DESC_NEXT : 0));
}

static void fill_table(struct ph_ring_driver *ring, const struct ph_ring_order *order)
{
	void *table = ring->tables + (size_t)(order->table - 1) * ring->table_descs * PH_DESC_BYTES;
	struct ph_desc *descs = table;
	for (uint32_t i = 0; i < order->n; i++)
		write_desc(&descs[i], &order->buffers[i], flags_of(order, i), (uint16_t)(i + 1 < order->n ? i + 1 : 0));
}

/* Free descriptors leave in the order in which they came back: with a device that works in order this is the order of the
 * table, as 2.7.5.2 wants it then. The links are our own copy; the device cannot bend them. */
uint32_t ph_split_put(struct ph_ring_driver *ring, const struct ph_ring_order *order)
{
	struct ph_desc *descs = ring->place.desc;
	struct ph_avail *avail = avail_of(ring);
	uint32_t head = ring->free_head, at = head, taken = order->table != 0 ? 1 : order->n;
	if (order->table != 0) {
		struct ph_ring_buffer table = ph_driver_table(ring, order);
		fill_table(ring, order);
		write_desc(&descs[head], &table, PH_DESC_INDIRECT, 0);
	} else {
		for (uint32_t i = 0; i < order->n; i++) {
			uint16_t next = i + 1 < order->n ? ring->links[at] : 0;
			write_desc(&descs[at], &order->buffers[i], flags_of(order, i), next);
			at = i + 1 < order->n ? next : at;
		}
	}
	ring->requests[head].last = (uint16_t)at;
	ring->free_head = ring->links[at];
	ring->free_descs -= taken;
	ph_le16_put(&avail->ring[ring->avail & (ring->size - 1)], (uint16_t)head);
	ring->avail++;
	return head;
}

int ph_split_publish(struct ph_ring_driver *ring)
{
	uint16_t from = ring->shown;
	ph_le16_show(&avail_of(ring)->idx, ring->avail);
	ring->shown = ring->avail;
	if (ring->form & PH_RING_EVENT_IDX)
		return ph_ring_event_passed(ph_le16_see(avail_event(ring)), ring->avail, from);
	return !(ph_le16_see(&used_of(ring)->flags) & PH_USED_NO_NOTIFY);
}

int ph_split_look(struct ph_ring_driver *ring, uint32_t *ret_id, uint32_t *ret_len)
{
	const struct ph_used *used = used_of(ring);
	const struct ph_used_elem *elem = &used->ring[ring->used & (ring->size - 1)];
	uint16_t ahead = (uint16_t)(ph_le16_see(&used->idx) - ring->used);
	if (ahead == 0)
		return -EAGAIN;
	if (ahead > ring->published)
		return -EPROTO;
	*ret_id = ph_le32_get(&elem->id);
	*ret_len = ph_le32_get(&elem->len);
	return 0;
}

void ph_split_put_back(struct ph_ring_driver *ring, uint32_t id)
{
	const struct ph_ring_request *request = &ring->requests[id];
	if (ring->free_descs == 0)
		ring->free_head = (uint16_t)id;
	else
		ring->links[ring->free_tail] = (uint16_t)id;
	ring->free_tail = request->last;
	ring->free_descs += request->n_descs;
	ring->used++;
}

void ph_split_ask(struct ph_ring_driver *ring)
{
	if (ring->form & PH_RING_EVENT_IDX)
		ph_le16_show(used_event(ring), ring->used);
	else
		ph_le16_show(&avail_of(ring)->flags, 0);
}

/* With event indices nothing is to be done: the index that was asked for is behind. */
void ph_split_hush(struct ph_ring_driver *ring)
{
	if (!(ring->form & PH_RING_EVENT_IDX))
		ph_le16_put(&avail_of(ring)->flags, PH_AVAIL_NO_INTERRUPT);
}
