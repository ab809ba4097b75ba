/* The driver end's face: the table of requests in flight, and the two forms behind it. */
#include "virtio/ring_driver_form.h"

static int packed(const struct ph_ring_driver *ring)
{
	return (ring->form & PH_RING_PACKED) != 0;
}

static int dead(const struct ph_ring_driver *ring)
{
	return ring->why != PH_RING_OK || ring->stopped;
}

static int break_ring(struct ph_ring_driver *ring, uint32_t why)
{
	ring->why = why;
	return -EPROTO;
}

size_t ph_ring_driver_memory(uint32_t size, uint32_t n_tables)
{
	if (size == 0 || size > PH_RING_SIZE_MAX || n_tables > size)
		return 0;
	size_t bytes = size * (sizeof(struct ph_ring_request) + sizeof(uint16_t)) + n_tables * sizeof(uint16_t);
	return (bytes + 7) & ~(size_t)7;
}

static int check_tables(const struct ph_ring_driver_setup *setup)
{
	if (setup->n_tables == 0)
		return setup->tables == NULL ? 0 : -EINVAL;
	if (!(setup->form & PH_RING_INDIRECT) || setup->tables == NULL || setup->n_tables > setup->size)
		return -EINVAL;
	if (setup->table_descs == 0 || setup->table_descs > setup->size)
		return -EINVAL;
	if ((uintptr_t)setup->tables % PH_DESC_BYTES != 0 || setup->tables_addr % PH_DESC_BYTES != 0)
		return -EINVAL;
	uint64_t bytes = (uint64_t)setup->n_tables * setup->table_descs * PH_DESC_BYTES;
	return setup->tables_addr > UINT64_MAX - bytes || bytes > SIZE_MAX ? -EINVAL : 0;
}

static void clear_areas(const struct ph_ring_driver_setup *setup)
{
	memset(setup->place.desc, 0, (size_t)ph_ring_desc_area_bytes(setup->form, setup->size));
	memset(setup->place.driver, 0, (size_t)ph_ring_driver_area_bytes(setup->form, setup->size));
	memset(setup->place.device, 0, (size_t)ph_ring_device_area_bytes(setup->form, setup->size));
}

int ph_ring_driver_init(struct ph_ring_driver *ring, const struct ph_ring_driver_setup *setup, void *memory)
{
	int err = ph_ring_check(setup->form, setup->size, &setup->place);
	if (err == 0)
		err = check_tables(setup);
	if (err != 0)
		return err;
	clear_areas(setup);
	memset(ring, 0, sizeof(*ring));
	ring->place = setup->place;
	ring->form = setup->form;
	ring->size = ring->free_descs = setup->size;
	ring->tables = setup->tables;
	ring->tables_addr = setup->tables_addr;
	ring->n_tables = ring->tables_free = setup->n_tables;
	ring->table_descs = setup->table_descs;
	ring->requests = memory;
	ring->links = (uint16_t *)(void *)(ring->requests + ring->size);
	ring->free_tables = ring->links + ring->size;
	memset(ring->requests, 0, ring->size * sizeof(*ring->requests));
	for (uint32_t i = 0; i < ring->size; i++)
		ring->links[i] = (uint16_t)(i + 1);
	for (uint32_t i = 0; i < ring->n_tables; i++)
		ring->free_tables[i] = (uint16_t)i;
	ring->free_tail = (uint16_t)(ring->size - 1);
	ring->avail = ring->used = ring->shown = packed(ring) ? PH_PACKED_START : 0;
	return 0;
}

/* Sums up the writable ones. Return: 0 or -EINVAL. */
static int check_buffers(const struct ph_ring_buffer *buffers, uint32_t n_readable, uint32_t n, uint64_t *ret_writable)
{
	uint64_t bytes = 0, writable = 0;
	for (uint32_t i = 0; i < n; i++) {
		if (buffers[i].len == 0 || buffers[i].addr > UINT64_MAX - buffers[i].len)
			return -EINVAL;
		bytes += buffers[i].len;
		writable += i < n_readable ? 0 : buffers[i].len;
	}
	*ret_writable = writable;
	return bytes > PH_RING_BYTES_MAX ? -EINVAL : 0;
}

struct ph_ring_buffer ph_driver_table(const struct ph_ring_driver *ring, const struct ph_ring_order *order)
{
	uint64_t offset = (uint64_t)(order->table - 1) * ring->table_descs * PH_DESC_BYTES;
	return (struct ph_ring_buffer) { .addr = ring->tables_addr + offset, .len = order->n * PH_DESC_BYTES };
}

static void enlist(struct ph_ring_driver *ring, uint32_t id)
{
	if (ring->in_flight++ == 0)
		ring->oldest = (uint16_t)id;
	else
		ring->requests[ring->newest].younger = (uint16_t)id;
	ring->newest = (uint16_t)id;
}

int ph_ring_driver_submit(struct ph_ring_driver *ring, const struct ph_ring_buffer *buffers, uint32_t n_readable,
			  uint32_t n_writable, uint64_t cookie)
{
	uint64_t writable = 0;
	if (dead(ring))
		return -ENODEV;
	if (n_readable > ring->size || n_writable > ring->size - n_readable || n_readable + n_writable == 0)
		return -EINVAL;
	struct ph_ring_order order = { .buffers = buffers, .n = n_readable + n_writable, .n_readable = n_readable };
	int err = check_buffers(buffers, n_readable, order.n, &writable);
	if (err != 0)
		return err;
	if (order.n > 1 && order.n <= ring->table_descs && ring->tables_free != 0)
		order.table = ring->free_tables[ring->tables_free - 1] + 1u;
	uint32_t takes = order.table != 0 ? 1 : order.n;
	if (takes > ring->free_descs)
		return -EAGAIN;
	ring->tables_free -= order.table != 0;
	uint32_t id = packed(ring) ? ph_packed_put(ring, &order) : ph_split_put(ring, &order);
	struct ph_ring_request *request = &ring->requests[id];
	request->cookie = cookie;
	request->writable_bytes = writable;
	request->n_descs = (uint16_t)takes;
	request->number = ring->submitted++;
	request->table = (uint16_t)order.table;
	ring->staged += takes;
	enlist(ring, id);
	return 0;
}

int ph_ring_driver_publish(struct ph_ring_driver *ring)
{
	if (dead(ring))
		return -ENODEV;
	if (ring->staged == 0)
		return 0;
	int wanted = packed(ring) ? ph_packed_publish(ring) : ph_split_publish(ring);
	ring->staged = 0;
	ring->published = ring->in_flight;
	ring->shown_number = ring->submitted;
	return wanted;
}

static int look(struct ph_ring_driver *ring, uint32_t *ret_id, uint32_t *ret_len)
{
	int err = packed(ring) ? ph_packed_look(ring, ret_id, ret_len) : ph_split_look(ring, ret_id, ret_len);
	if (err == -EPROTO || (err == 0 && ring->published == 0))
		return break_ring(ring, PH_RING_BAD_INDEX);
	return err;
}

/* Does the device have this request? */
static int has(const struct ph_ring_driver *ring, uint32_t id)
{
	if (id >= ring->size || ring->requests[id].n_descs == 0)
		return 0;
	uint16_t after_shown = (uint16_t)(ring->requests[id].number - ring->shown_number);
	return after_shown >= (uint16_t)(ring->submitted - ring->shown_number);
}

/* A device that works in order may say only which one was the last: all before it are done, and used whole (2.7.9, 2.8.9). */
static void next_of_batch(struct ph_ring_driver *ring, uint32_t *ret_id, uint32_t *ret_len)
{
	uint64_t writable = ring->requests[ring->oldest].writable_bytes;
	*ret_id = ring->oldest;
	if (ring->oldest == ring->batch_id) {
		ring->in_batch = 0;
		*ret_len = ring->batch_len;
	} else {
		*ret_len = writable > UINT32_MAX ? UINT32_MAX : (uint32_t)writable;
	}
}

/* What was used next, checked. */
static int next_used(struct ph_ring_driver *ring, uint32_t *ret_id, uint32_t *ret_len)
{
	int err = look(ring, ret_id, ret_len);
	if (err != 0)
		return err;
	if (!has(ring, *ret_id))
		return break_ring(ring, PH_RING_BAD_ID);
	if (*ret_len > ring->requests[*ret_id].writable_bytes)
		return break_ring(ring, PH_RING_BAD_LENGTH);
	return 0;
}

int ph_ring_driver_reap(struct ph_ring_driver *ring, uint64_t *ret_cookie, uint32_t *ret_used_bytes)
{
	uint32_t id = 0, len = 0;
	if (dead(ring))
		return -ENODEV;
	if (!ring->in_batch) {
		int err = next_used(ring, &id, &len);
		if (err != 0)
			return err;
		if ((ring->form & PH_RING_IN_ORDER) && id != ring->oldest) {
			ring->in_batch = 1;
			ring->batch_id = (uint16_t)id;
			ring->batch_len = len;
		}
	}
	if (ring->in_batch)
		next_of_batch(ring, &id, &len);
	struct ph_ring_request *request = &ring->requests[id];
	if (packed(ring))
		ph_packed_put_back(ring, id);
	else
		ph_split_put_back(ring, id);
	if (request->table != 0)
		ring->free_tables[ring->tables_free++] = (uint16_t)(request->table - 1);
	request->n_descs = 0;
	ring->oldest = request->younger; /* only looked at when the device works in order */
	ring->in_flight--;
	ring->published--;
	*ret_cookie = request->cookie;
	*ret_used_bytes = len;
	return 0;
}

int ph_ring_driver_arm(struct ph_ring_driver *ring)
{
	uint32_t id = 0, len = 0;
	if (dead(ring))
		return -ENODEV;
	if (ring->in_batch)
		return 1;
	if (packed(ring))
		ph_packed_ask(ring);
	else
		ph_split_ask(ring);
	int err = look(ring, &id, &len);
	return err == 0 ? 1 : err == -EAGAIN ? 0 : err;
}

void ph_ring_driver_disarm(struct ph_ring_driver *ring)
{
	if (dead(ring))
		return;
	if (packed(ring))
		ph_packed_hush(ring);
	else
		ph_split_hush(ring);
}

void ph_ring_driver_stop(struct ph_ring_driver *ring)
{
	ring->stopped = 1;
}

int ph_ring_driver_take_back(struct ph_ring_driver *ring, uint64_t *ret_cookie)
{
	if (!dead(ring))
		return -EBUSY;
	for (; ring->cursor < ring->size; ring->cursor++) {
		struct ph_ring_request *request = &ring->requests[ring->cursor];
		if (request->n_descs == 0)
			continue;
		request->n_descs = 0;
		ring->in_flight--;
		*ret_cookie = request->cookie;
		return 0;
	}
	return -ENOENT;
}

uint32_t ph_ring_driver_room(const struct ph_ring_driver *ring)
{
	if (dead(ring) || ring->free_descs == 0)
		return 0;
	uint32_t by_table = ring->tables_free != 0 ? ring->table_descs : 0;
	return ring->free_descs > by_table ? ring->free_descs : by_table;
}
