/* What is checked of every descriptor, whatever the form of the ring. */
#include "virtio/ring_device_form.h"

int ph_ring_device_break(struct ph_ring_device *ring, uint32_t why)
{
	ring->why = why;
	return -EPROTO;
}

int ph_gather_add(struct ph_ring_device *ring, struct ph_gather *gather, const struct ph_copied *desc)
{
	uint32_t writable = (desc->flags & PH_DESC_WRITE) != 0;
	if (gather->n == ring->size)
		return ph_ring_device_break(ring, PH_RING_BAD_CHAIN); /* a loop ends here, too */
	if (desc->addr > UINT64_MAX - desc->len)
		return ph_ring_device_break(ring, PH_RING_BAD_ADDRESS);
	if (!writable && gather->n_readable != gather->n)
		return ph_ring_device_break(ring, PH_RING_BAD_ORDER);
	if (gather->readable_bytes + gather->writable_bytes + desc->len > PH_RING_BYTES_MAX)
		return ph_ring_device_break(ring, PH_RING_BAD_LENGTH);
	ring->segments[gather->n++] =
		(struct ph_segment) { .addr = desc->addr, .len = desc->len, .writable = writable };
	if (writable) {
		gather->writable_bytes += desc->len;
	} else {
		gather->readable_bytes += desc->len;
		gather->n_readable++;
	}
	return 0;
}

int ph_gather_table(struct ph_ring_device *ring, const struct ph_copied *desc, const unsigned char **ret_table,
		    uint32_t *ret_descs)
{
	void *host = NULL;
	if (!(ring->form & PH_RING_INDIRECT) || (desc->flags & PH_DESC_NEXT) != 0)
		return ph_ring_device_break(ring, PH_RING_BAD_FLAGS);
	if (desc->len == 0 || desc->len % PH_DESC_BYTES != 0 || desc->addr > UINT64_MAX - desc->len)
		return ph_ring_device_break(ring, PH_RING_BAD_TABLE);
	if (ring->memory.host(ring->memory.ctx, desc->addr, desc->len, 0, &host) != 0)
		return ph_ring_device_break(ring, PH_RING_BAD_TABLE);
	*ret_table = host;
	*ret_descs = desc->len / PH_DESC_BYTES;
	return 0;
}

void ph_gather_copy(const unsigned char *table, uint32_t i, struct ph_copied *ret_copied)
{
	struct ph_desc desc;
	memcpy(&desc, table + (size_t)i * PH_DESC_BYTES, sizeof(desc));
	__asm__ volatile("" : : : "memory"); /* the guest may write there now: never read it twice */
	ret_copied->addr = (uint64_t)PH_LE32(desc.addr[1]) << 32 | PH_LE32(desc.addr[0]);
	ret_copied->len = PH_LE32(desc.len);
	ret_copied->flags = PH_LE16(desc.flags);
	ret_copied->next = PH_LE16(desc.next);
}
