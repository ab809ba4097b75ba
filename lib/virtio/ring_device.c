/* The device end's face: tickets, what is in flight, and the two forms behind it. */
#include "virtio/ring_device_form.h"

#define SLOT_BITS 16u /* of a ticket; a serial number stands above */

static int packed(const struct ph_ring_device *ring)
{
	return (ring->form & PH_RING_PACKED) != 0;
}

size_t ph_ring_device_memory(uint32_t size)
{
	if (size == 0 || size > PH_RING_SIZE_MAX)
		return 0;
	return size * (sizeof(struct ph_segment) + sizeof(struct ph_ring_slot));
}

int ph_ring_device_init(struct ph_ring_device *ring, const struct ph_ring_setup *setup, void *memory)
{
	int err = ph_ring_check(setup->form, setup->size, &setup->place);
	if (err != 0)
		return err;
	if ((setup->form & PH_RING_IN_ORDER) != 0 || setup->memory.host == NULL)
		return -EINVAL;
	memset(ring, 0, sizeof(*ring));
	ring->place = setup->place;
	ring->memory = setup->memory;
	ring->form = setup->form;
	ring->size = setup->size;
	ring->segments = memory;
	ring->slots = (struct ph_ring_slot *)(void *)(ring->segments + ring->size);
	memset(ring->slots, 0, ring->size * sizeof(*ring->slots));
	for (uint32_t i = 0; i < ring->size; i++)
		ring->slots[i].next_free = (uint16_t)(i + 1);
	ring->avail = ring->used = ring->shown = packed(ring) ? PH_PACKED_START : 0;
	return 0;
}

int ph_ring_device_move(struct ph_ring_device *ring, const struct ph_ring_place *place)
{
	int err = ph_ring_check(ring->form, ring->size, place);
	if (err == 0)
		ring->place = *place;
	return err;
}

/* A head is in flight from now on. Room is the caller's care. */
static uint64_t take_slot(struct ph_ring_device *ring, uint32_t head, uint32_t n_descs)
{
	uint32_t i = packed(ring) ? ring->first_free : head;
	struct ph_ring_slot *slot = &ring->slots[i];
	ring->first_free = slot->next_free;
	slot->ticket = ++ring->serial << SLOT_BITS | i;
	slot->head = (uint16_t)head;
	slot->n_descs = (uint16_t)n_descs;
	ring->out++;
	ring->out_descs += n_descs;
	return slot->ticket;
}

static void put_slot(struct ph_ring_device *ring, struct ph_ring_slot *slot)
{
	ring->out--;
	ring->out_descs -= slot->n_descs;
	slot->ticket = 0;
	slot->next_free = ring->first_free;
	ring->first_free = (uint16_t)(slot - ring->slots);
}

/* NULL = not in flight */
static struct ph_ring_slot *find_slot(const struct ph_ring_device *ring, uint64_t ticket)
{
	uint32_t i = (uint32_t)(ticket & ((1u << SLOT_BITS) - 1));
	if (ticket == 0 || i >= ring->size || ring->slots[i].ticket != ticket)
		return NULL;
	return &ring->slots[i];
}

static void give_out(struct ph_ring_device *ring, const struct ph_gather *gather, struct ph_chain *ret_chain)
{
	*ret_chain = (struct ph_chain) {
		.segments = ring->segments,
		.readable_bytes = gather->readable_bytes,
		.writable_bytes = gather->writable_bytes,
		.ticket = take_slot(ring, gather->head, gather->n_descs),
		.n_readable = gather->n_readable,
		.n_writable = gather->n - gather->n_readable,
		.head = (uint16_t)gather->head,
		.n_descs = (uint16_t)gather->n_descs,
	};
}

int ph_ring_device_pop(struct ph_ring_device *ring, uint32_t *budget, struct ph_chain *ret_chain)
{
	struct ph_gather gather = { 0 };
	if (ring->why != PH_RING_OK)
		return -ENODEV;
	if (*budget == 0)
		return -EAGAIN;
	int err = packed(ring) ? ph_packed_next(ring, &gather) : ph_split_next(ring, &gather);
	if (err != 0)
		return err;
	give_out(ring, &gather, ret_chain);
	ring->last_ticket = ret_chain->ticket;
	ring->avail =
		packed(ring) ? ph_packed_ahead(ring->avail, gather.n_descs, ring->size) : (uint16_t)(ring->avail + 1);
	*budget -= gather.n < *budget ? gather.n : *budget;
	return 0;
}

int ph_ring_device_unpop(struct ph_ring_device *ring, uint64_t ticket)
{
	struct ph_ring_slot *slot = find_slot(ring, ticket);
	if (ring->why != PH_RING_OK)
		return -ENODEV;
	if (slot == NULL || ticket != ring->last_ticket)
		return -EALREADY;
	ring->avail =
		packed(ring) ? ph_packed_back(ring->avail, slot->n_descs, ring->size) : (uint16_t)(ring->avail - 1);
	put_slot(ring, slot);
	return 0;
}

int ph_ring_device_complete(struct ph_ring_device *ring, uint64_t ticket, uint32_t written)
{
	struct ph_ring_slot *slot = find_slot(ring, ticket);
	if (ring->why != PH_RING_OK)
		return -ENODEV;
	if (slot == NULL)
		return -EALREADY;
	if (packed(ring))
		ph_packed_use(ring, slot, written);
	else
		ph_split_use(ring, slot, written);
	ring->staged += packed(ring) ? slot->n_descs : 1;
	put_slot(ring, slot);
	return 0;
}

int ph_ring_device_flush(struct ph_ring_device *ring)
{
	if (ring->why != PH_RING_OK)
		return -ENODEV;
	if (ring->staged == 0)
		return 0;
	int wanted = packed(ring) ? ph_packed_show(ring) : ph_split_show(ring);
	ring->staged = 0;
	ring->shown = ring->used;
	return wanted;
}

int ph_ring_device_arm(struct ph_ring_device *ring)
{
	if (ring->why != PH_RING_OK)
		return -ENODEV;
	return packed(ring) ? ph_packed_arm(ring) : ph_split_arm(ring);
}

void ph_ring_device_disarm(struct ph_ring_device *ring)
{
	if (ring->why != PH_RING_OK)
		return;
	if (packed(ring))
		ph_packed_disarm(ring);
	else
		ph_split_disarm(ring);
}

void ph_ring_device_position(const struct ph_ring_device *ring, struct ph_ring_position *ret_position)
{
	*ret_position = (struct ph_ring_position) { .avail = ring->avail, .used = ring->shown };
}

/* 0 <= avail - used <= size */
static int plausible(const struct ph_ring_device *ring, const struct ph_ring_position *position)
{
	uint32_t avail = PH_OFFSET(position->avail), used = PH_OFFSET(position->used);
	if (!packed(ring))
		return (uint16_t)(position->avail - position->used) <= ring->size;
	if (avail >= ring->size || used >= ring->size)
		return 0;
	return (position->avail ^ position->used) & PH_EVENT_WRAP ? avail <= used : avail >= used;
}

int ph_ring_device_restore(struct ph_ring_device *ring, const struct ph_ring_position *position)
{
	if (ring->out != 0 || ring->staged != 0)
		return -EBUSY;
	if (!plausible(ring, position))
		return -EINVAL;
	ring->avail = position->avail;
	ring->used = ring->shown = position->used;
	return 0;
}

uint16_t ph_ring_device_used_seen(const struct ph_ring_device *ring)
{
	const struct ph_used *used = ring->place.device;
	return packed(ring) ? ring->shown : ph_le16_acquire(&used->idx);
}

int ph_ring_device_held(const struct ph_ring_device *ring, uint32_t i, struct ph_ring_held *ret_held)
{
	for (uint32_t slot = 0; i < ring->out && slot < ring->size; slot++) {
		const struct ph_ring_slot *found = &ring->slots[slot];
		if (found->ticket == 0 || i-- != 0)
			continue;
		*ret_held = (struct ph_ring_held) { .ticket = found->ticket,
						    .head = found->head,
						    .n_descs = found->n_descs };
		return 0;
	}
	return -ENOENT;
}

int ph_ring_device_adopt(struct ph_ring_device *ring, const struct ph_ring_held *held, uint64_t *ret_ticket)
{
	if (ring->why != PH_RING_OK)
		return -ENODEV;
	if (held->n_descs == 0 || held->n_descs > ring->size || (!packed(ring) && held->head >= ring->size))
		return -EINVAL;
	if (!packed(ring) && ring->slots[held->head].ticket != 0)
		return -EALREADY;
	if (ring->out_descs + held->n_descs > ring->size)
		return -ENOSPC;
	*ret_ticket = take_slot(ring, held->head, held->n_descs);
	return 0;
}

int ph_ring_device_reread(struct ph_ring_device *ring, uint16_t head, struct ph_chain *ret_chain)
{
	struct ph_gather gather = { 0 };
	if (packed(ring))
		return -EOPNOTSUPP;
	if (ring->why != PH_RING_OK)
		return -ENODEV;
	if (head >= ring->size)
		return -EINVAL;
	if (ring->slots[head].ticket != 0)
		return -EALREADY;
	int err = ph_split_walk(ring, head, &gather);
	if (err == 0)
		give_out(ring, &gather, ret_chain);
	return err;
}
