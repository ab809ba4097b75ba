/*
 * ring_rig: a piece of guest memory with a ring in it, and both of its ends; or one end, and the bytes for a test to write.
 *
 * Guest addresses begin at RIG_BASE; anything outside is not in guest memory. The page before the end may not be written.
 */
#ifndef TESTS_SUPPORT_RING_RIG_H
#define TESTS_SUPPORT_RING_RIG_H

#include <stdlib.h>
#include <string.h>

#include "virtio/ring_device.h"
#include "virtio/ring_driver.h"

#define RIG_BASE UINT64_C(0x40000000)
#define RIG_READ_ONLY 4096u

struct ring_rig {
	struct ph_ring_driver driver;
	struct ph_ring_device device;
	struct ph_ring_place place;
	unsigned char *guest;
	uint64_t guest_bytes;
	uint64_t tables; /* guest address of the indirect tables */
	uint64_t data;   /* guest address of what is free for buffers */
	void *driver_memory;
	void *device_memory;
	uint32_t form, size;
	uint64_t looked_up; /* calls of the translate callback */
};

static inline int rig_host(void *ctx, uint64_t addr, uint64_t bytes, int want_write, void **ret_host)
{
	struct ring_rig *rig = ctx;
	rig->looked_up++;
	if (addr < RIG_BASE || bytes == 0 || addr - RIG_BASE > rig->guest_bytes ||
	    bytes > rig->guest_bytes - (addr - RIG_BASE))
		return -ERANGE;
	if (want_write && addr - RIG_BASE + bytes > rig->guest_bytes - RIG_READ_ONLY)
		return -ERANGE;
	*ret_host = rig->guest + (addr - RIG_BASE);
	return 0;
}

static inline void *rig_at(const struct ring_rig *rig, uint64_t addr)
{
	return rig->guest + (addr - RIG_BASE);
}

static inline void *rig_take(const struct ring_rig *rig, uint64_t *at, uint64_t bytes)
{
	void *area = rig->guest + *at;
	*at = (*at + bytes + 63) & ~UINT64_C(63);
	return area;
}

/* Memory with `data_bytes` for buffers and indirect tables of `table_descs` for every entry; no end is set up yet. */
static inline void rig_lay_out(struct ring_rig *rig, uint32_t form, uint32_t size, uint32_t table_descs,
			       uint64_t data_bytes)
{
	uint64_t at = 0, desc = ph_ring_desc_area_bytes(form, size), driver = ph_ring_driver_area_bytes(form, size),
		 device = ph_ring_device_area_bytes(form, size), tables = (uint64_t)size * table_descs * 16;
	memset(rig, 0, sizeof(*rig));
	rig->form = form;
	rig->size = size;
	rig->guest_bytes = desc + driver + device + tables + data_bytes + 1024 + RIG_READ_ONLY;
	rig->guest_bytes = (rig->guest_bytes + 63) & ~UINT64_C(63);
	rig->guest = aligned_alloc(64, rig->guest_bytes);
	if (rig->guest == NULL)
		abort();
	memset(rig->guest, 0, rig->guest_bytes);
	rig->place = (struct ph_ring_place) { .desc_bytes = desc, .driver_bytes = driver, .device_bytes = device };
	rig->place.desc = rig_take(rig, &at, desc);
	rig->place.driver = rig_take(rig, &at, driver);
	rig->place.device = rig_take(rig, &at, device);
	rig->tables = RIG_BASE + at;
	rig_take(rig, &at, tables);
	rig->data = RIG_BASE + at;
}

static inline void rig_open_device(struct ring_rig *rig)
{
	struct ph_ring_setup setup = { .place = rig->place, .form = rig->form, .size = rig->size };
	setup.memory = (struct ph_guest_memory) { .ctx = rig, .host = rig_host };
	rig->device_memory = malloc(ph_ring_device_memory(rig->size));
	if (rig->device_memory == NULL || ph_ring_device_init(&rig->device, &setup, rig->device_memory) != 0)
		abort();
}

static inline void rig_open_driver(struct ring_rig *rig, uint32_t n_tables, uint32_t table_descs)
{
	struct ph_ring_driver_setup setup = { .place = rig->place, .form = rig->form, .size = rig->size };
	if (n_tables != 0) {
		setup.tables = rig_at(rig, rig->tables);
		setup.tables_addr = rig->tables;
		setup.n_tables = n_tables;
		setup.table_descs = table_descs;
	}
	rig->driver_memory = malloc(ph_ring_driver_memory(rig->size, n_tables));
	if (rig->driver_memory == NULL || ph_ring_driver_init(&rig->driver, &setup, rig->driver_memory) != 0)
		abort();
}

static inline void rig_close(struct ring_rig *rig)
{
	free(rig->guest);
	free(rig->driver_memory);
	free(rig->device_memory);
	memset(rig, 0, sizeof(*rig));
}

/* ---- what the other side would write, in a split ring ---- */

static inline struct ph_avail *rig_avail(const struct ring_rig *rig)
{
	return rig->place.driver;
}

static inline struct ph_used *rig_used(const struct ring_rig *rig)
{
	return rig->place.device;
}

static inline uint16_t *rig_used_event(const struct ring_rig *rig)
{
	return &rig_avail(rig)->ring[rig->size];
}

static inline uint16_t *rig_avail_event(const struct ring_rig *rig)
{
	return (uint16_t *)(void *)&rig_used(rig)->ring[rig->size];
}

static inline void rig_desc(void *table, uint32_t i, uint64_t addr, uint32_t len, uint16_t flags, uint16_t next)
{
	struct ph_desc *desc = (struct ph_desc *)table + i;
	ph_addr_put(desc->addr, addr);
	ph_le32_put(&desc->len, len);
	ph_le16_put(&desc->next, next);
	ph_le16_release(&desc->flags, flags);
}

/* makes a head available */
static inline void rig_offer(const struct ring_rig *rig, uint16_t head)
{
	uint16_t idx = ph_le16_get(&rig_avail(rig)->idx);
	ph_le16_put(&rig_avail(rig)->ring[idx & (rig->size - 1)], head);
	ph_le16_release(&rig_avail(rig)->idx, (uint16_t)(idx + 1));
}

/* uses a head, as a device would */
static inline void rig_use(const struct ring_rig *rig, uint32_t head, uint32_t len)
{
	uint16_t idx = ph_le16_get(&rig_used(rig)->idx);
	ph_le32_put(&rig_used(rig)->ring[idx & (rig->size - 1)].id, head);
	ph_le32_put(&rig_used(rig)->ring[idx & (rig->size - 1)].len, len);
	ph_le16_release(&rig_used(rig)->idx, (uint16_t)(idx + 1));
}

/* ---- the same in a packed one: an entry with these flags beside the two of its lap ---- */

#define RIG_OFFERED(wrap) ((wrap) ? PH_DESC_AVAIL : PH_DESC_USED)
#define RIG_USED(wrap) ((wrap) ? PH_DESC_AVAIL | PH_DESC_USED : 0u)

static inline void rig_entry(const struct ring_rig *rig, uint32_t i, uint64_t addr, uint32_t len, uint16_t id,
			     uint32_t flags)
{
	rig_desc(rig->place.desc, i, addr, len, 0, id);
	struct ph_packed_desc *desc = (struct ph_packed_desc *)rig->place.desc + i;
	ph_le16_put(&desc->id, id);
	ph_le16_release(&desc->flags, (uint16_t)flags);
}

#endif
