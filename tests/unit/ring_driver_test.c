/* The driver end: what it writes, what it takes back, when it notifies, and what it is given back by force. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/ring_rig.h"

static struct ring_rig rig;
static const struct ph_ring_buffer three[3] = { { 0x1000, 10, 0 }, { 0x2000, 20, 0 }, { 0x3000, 30, 0 } };

static void open_driver(uint32_t form, uint32_t size, uint32_t n_tables)
{
	rig_lay_out(&rig, form, size, 3, 64);
	rig_open_driver(&rig, n_tables, n_tables != 0 ? 3 : 0);
}

static void submit(uint32_t n_readable, uint32_t n_writable, uint64_t cookie)
{
	assert_int_equal(ph_ring_driver_submit(&rig.driver, three, n_readable, n_writable, cookie), 0);
}

static void require_reaped(uint64_t want, uint32_t want_used)
{
	uint64_t cookie = 0;
	uint32_t used = 0;
	assert_int_equal(ph_ring_driver_reap(&rig.driver, &cookie, &used), 0);
	assert_int_equal(cookie, want);
	assert_int_equal(used, want_used);
}

static void require_none(void)
{
	uint64_t cookie = 55;
	uint32_t used = 66;
	assert_int_equal(ph_ring_driver_reap(&rig.driver, &cookie, &used), -EAGAIN);
	assert_int_equal(cookie, 55);
	assert_int_equal(used, 66);
}

static void require_desc(const void *table, uint32_t i, uint64_t addr, uint32_t len, uint32_t a, uint32_t b)
{
	const struct ph_desc *desc = (const struct ph_desc *)table + i;
	assert_true(ph_addr_get(desc->addr) == addr);
	assert_int_equal(ph_le32_get(&desc->len), len);
	assert_int_equal(ph_le16_get(&desc->flags), a);
	assert_int_equal(ph_le16_get(&desc->next), b);
}

static void test_split_entries(void **state)
{
	(void)state;
	open_driver(PH_RING_INDIRECT, 8, 1);
	submit(1, 2, 70); /* through the only table */
	submit(2, 1, 71);
	submit(1, 0, 72);
	assert_int_equal(ph_le16_get(&rig_avail(&rig)->idx), 0); /* nothing is shown yet */
	assert_int_equal(ph_ring_driver_publish(&rig.driver), 1);
	assert_int_equal(ph_ring_driver_publish(&rig.driver), 0);
	assert_int_equal(ph_le16_get(&rig_avail(&rig)->idx), 3);
	require_desc(rig.place.desc, 0, rig.tables, 48, PH_DESC_INDIRECT, 0);
	const void *table = rig_at(&rig, rig.tables);
	require_desc(table, 0, 0x1000, 10, PH_DESC_NEXT, 1);
	require_desc(table, 1, 0x2000, 20, PH_DESC_NEXT | PH_DESC_WRITE, 2);
	require_desc(table, 2, 0x3000, 30, PH_DESC_WRITE, 0);
	require_desc(rig.place.desc, 1, 0x1000, 10, PH_DESC_NEXT, 2);
	require_desc(rig.place.desc, 2, 0x2000, 20, PH_DESC_NEXT, 3);
	require_desc(rig.place.desc, 3, 0x3000, 30, PH_DESC_WRITE, 0);
	require_desc(rig.place.desc, 4, 0x1000, 10, 0, 0);
	assert_int_equal(ph_le16_get(&rig_avail(&rig)->ring[1]), 1);
	assert_int_equal(ph_le16_get(&rig_avail(&rig)->ring[2]), 4);
	require_none();
	rig_use(&rig, 4, 0);
	rig_use(&rig, 0, 50);
	require_reaped(72, 0);
	require_reaped(70, 50);
	require_none();
	assert_int_equal(rig.driver.tables_free, 1);
	assert_int_equal(rig.driver.free_descs, 5);
	rig_close(&rig);
}

static void test_packed_entries(void **state)
{
	(void)state;
	open_driver(PH_RING_PACKED | PH_RING_INDIRECT, 5, 1);
	submit(1, 2, 70);
	submit(2, 1, 71);
	assert_int_equal(ph_le16_get(&((struct ph_packed_desc *)rig.place.desc)->flags),
			 0); /* the first one is shown last */
	assert_int_equal(ph_ring_driver_publish(&rig.driver), 1);
	require_desc(rig.place.desc, 0, rig.tables, 48, 0, RIG_OFFERED(1) | PH_DESC_INDIRECT);
	const void *table = rig_at(&rig, rig.tables);
	require_desc(table, 0, 0x1000, 10, 0, 0);
	require_desc(table, 2, 0x3000, 30, 0, PH_DESC_WRITE);
	require_desc(rig.place.desc, 1, 0x1000, 10, 1, RIG_OFFERED(1) | PH_DESC_NEXT);
	require_desc(rig.place.desc, 3, 0x3000, 30, 1, RIG_OFFERED(1) | PH_DESC_WRITE);
	rig_entry(&rig, 0, 0, 30, 1, RIG_USED(1) | PH_DESC_WRITE); /* the chain of three first */
	require_reaped(71, 30);
	require_none();
	rig_entry(&rig, 3, 0, 12345, 0, RIG_USED(1)); /* without the write flag the length means nothing */
	require_reaped(70, 0);
	submit(0, 2, 73); /* the last entry of the lap, the first of the next */
	submit(1, 0, 74);
	ph_ring_driver_publish(&rig.driver);
	require_desc(rig.place.desc, 4, rig.tables, 32, 0, RIG_OFFERED(1) | PH_DESC_INDIRECT);
	require_desc(rig.place.desc, 0, 0x1000, 10, 1, RIG_OFFERED(0));
	rig_close(&rig);
}

static void test_refusals(void **state)
{
	(void)state;
	const struct ph_ring_buffer small[5] = { { 0, 1, 0 }, { 0, 1, 0 }, { 0, 1, 0 }, { 0, 1, 0 }, { 0, 1, 0 } };
	struct ph_ring_buffer bad[4] = {
		{ 0x1000, 0xffffffff, 0 }, { 0x1000, 1, 0 }, { 0x1000, 1, 0 }, { 0x1000, 1, 0 }
	};
	for (uint32_t form = 0; form < 2; form++) {
		open_driver(form, 4, 0);
		struct ph_ring_driver *ring = &rig.driver;
		assert_int_equal(ph_ring_driver_submit(ring, small, 0, 0, 1), -EINVAL);
		assert_int_equal(ph_ring_driver_submit(ring, small, UINT32_MAX, 2, 1), -EINVAL);
		assert_int_equal(ph_ring_driver_submit(ring, small, 5, 0, 1), -EINVAL);
		assert_int_equal(ph_ring_driver_submit(ring, small, 0, 5, 1), -EINVAL);
		assert_int_equal(ph_ring_driver_submit(ring, small, 2, 3, 1), -EINVAL);
		assert_int_equal(ph_ring_driver_submit(ring, bad, 1, 2, 1), -EINVAL); /* 2^32 + 1 bytes */
		assert_int_equal(ph_ring_driver_submit(ring, bad, 1, 1, 1), 0);       /* 2^32 */
		bad[1].len = 0;
		assert_int_equal(ph_ring_driver_submit(ring, bad + 1, 1, 0, 1), -EINVAL);
		bad[1].len = 2;
		bad[1].addr = UINT64_MAX - 1;
		assert_int_equal(ph_ring_driver_submit(ring, bad + 1, 1, 0, 1), -EINVAL);
		bad[1] = bad[2];
		assert_int_equal(ph_ring_driver_room(ring), 2);
		assert_int_equal(ph_ring_driver_submit(ring, bad + 1, 1, 2, 1), -EAGAIN);
		assert_int_equal(ph_ring_driver_submit(ring, bad + 1, 1, 1, 1), 0);
		assert_int_equal(ph_ring_driver_submit(ring, bad + 1, 1, 0, 1), -EAGAIN);
		assert_int_equal(ph_ring_driver_room(ring), 0);
		assert_int_equal(ring->in_flight, 2);
		rig_close(&rig);
	}
}

/* A table is for two and more, as many as it takes; the rest goes directly. */
static void test_which_take_a_table(void **state)
{
	(void)state;
	const struct ph_ring_buffer small[4] = { { 0, 1, 0 }, { 0, 1, 0 }, { 0, 1, 0 }, { 0, 1, 0 } };
	for (uint32_t form = 0; form < 2; form++) {
		open_driver(form | PH_RING_INDIRECT, 8, 8);
		const uint32_t takes[5] = { 0, 1, 1, 1, 4 }, tables[5] = { 0, 0, 1, 1, 0 };
		for (uint32_t n = 1, free_descs = 8, free_tables = 8; n <= 4; n++) {
			assert_int_equal(ph_ring_driver_room(&rig.driver), free_descs > 3 ? free_descs : 3);
			assert_int_equal(ph_ring_driver_submit(&rig.driver, small, n, 0, n), 0);
			free_descs -= takes[n];
			free_tables -= tables[n];
			assert_int_equal(rig.driver.free_descs, free_descs);
			assert_int_equal(rig.driver.tables_free, free_tables);
		}
		assert_int_equal(ph_ring_driver_room(&rig.driver), 3); /* one entry is left, and a table for it */
		assert_int_equal(ph_ring_driver_submit(&rig.driver, small, 1, 0, 9), 0);
		assert_int_equal(ph_ring_driver_room(&rig.driver), 0);
		rig_close(&rig);
	}
}

static void test_tables_are_checked(void **state)
{
	(void)state;
	open_driver(PH_RING_INDIRECT, 4, 4); /* one for every entry */
	rig_close(&rig);
	open_driver(PH_RING_INDIRECT, 4, 1);
	struct ph_ring_driver ring;
	struct ph_ring_driver_setup good = { .place = rig.place,
					     .tables = rig_at(&rig, rig.tables),
					     .tables_addr = rig.tables,
					     .n_tables = 1,
					     .table_descs = 3,
					     .form = PH_RING_INDIRECT,
					     .size = 4 },
				    bad = good;
	assert_int_equal(ph_ring_driver_init(&ring, &good, rig.driver_memory), 0);
	bad.form = 0;
	assert_int_equal(ph_ring_driver_init(&ring, &bad, rig.driver_memory), -EINVAL);
	bad = good;
	bad.tables = NULL;
	assert_int_equal(ph_ring_driver_init(&ring, &bad, rig.driver_memory), -EINVAL);
	bad = good;
	bad.table_descs = 5;
	assert_int_equal(ph_ring_driver_init(&ring, &bad, rig.driver_memory), -EINVAL);
	bad.table_descs = 0;
	assert_int_equal(ph_ring_driver_init(&ring, &bad, rig.driver_memory), -EINVAL);
	bad = good;
	bad.n_tables = 5;
	assert_int_equal(ph_ring_driver_init(&ring, &bad, rig.driver_memory), -EINVAL);
	bad = good;
	bad.tables = (char *)good.tables + 8;
	assert_int_equal(ph_ring_driver_init(&ring, &bad, rig.driver_memory), -EINVAL);
	bad = good;
	bad.tables_addr += 8;
	assert_int_equal(ph_ring_driver_init(&ring, &bad, rig.driver_memory), -EINVAL);
	bad.tables_addr = UINT64_MAX - 15;
	assert_int_equal(ph_ring_driver_init(&ring, &bad, rig.driver_memory), -EINVAL);
	bad.tables_addr = UINT64_MAX - 63; /* three descriptors just fit */
	assert_int_equal(ph_ring_driver_init(&ring, &bad, rig.driver_memory), 0);
	assert_int_equal(ph_ring_driver_memory(0, 0), 0);
	assert_int_equal(ph_ring_driver_memory(4, 5), 0);
	assert_int_equal(ph_ring_driver_memory(PH_RING_SIZE_MAX + 1, 0), 0);
	assert_true(ph_ring_driver_memory(PH_RING_SIZE_MAX, 0) >= PH_RING_SIZE_MAX * sizeof(struct ph_ring_request));
	assert_true(ph_ring_driver_memory(4, 4) > ph_ring_driver_memory(4, 0));
	rig_close(&rig);
}

/* whatever was in the memory before */
static void test_starts_clean(void **state)
{
	(void)state;
	for (uint32_t form = 0; form < 2; form++) {
		open_driver(form, 4, 0);
		const struct ph_ring_driver_setup setup = { .place = rig.place, .form = form, .size = 4 };
		unsigned char zeros[64] = { 0 };
		memset(&rig.driver, 0xa5, sizeof(rig.driver));
		memset(rig.driver_memory, 0xa5, ph_ring_driver_memory(4, 0));
		memset(rig.guest, 0xa5, 512);
		assert_int_equal(ph_ring_driver_init(&rig.driver, &setup, rig.driver_memory), 0);
		assert_memory_equal(rig.place.desc, zeros, rig.place.desc_bytes);
		assert_memory_equal(rig.place.driver, zeros, rig.place.driver_bytes);
		assert_memory_equal(rig.place.device, zeros, rig.place.device_bytes);
		require_none();
		assert_int_equal(ph_ring_driver_room(&rig.driver), 4);
		assert_int_equal(ph_ring_driver_publish(&rig.driver), 0);
		for (uint64_t i = 0; i < 4; i++)
			submit(1, 0, i);
		assert_int_equal(rig.driver.in_flight, 4);
		rig_close(&rig);
	}
}

static void test_notifications(void **state)
{
	(void)state;
	open_driver(0, 4, 0);
	submit(1, 0, 1);
	assert_int_equal(ph_ring_driver_publish(&rig.driver), 1);
	ph_le16_put(&rig_used(&rig)->flags, PH_USED_NO_NOTIFY);
	submit(1, 0, 2);
	assert_int_equal(ph_ring_driver_publish(&rig.driver), 0);
	ph_ring_driver_disarm(&rig.driver);
	assert_int_equal(ph_le16_get(&rig_avail(&rig)->flags), PH_AVAIL_NO_INTERRUPT);
	assert_int_equal(ph_ring_driver_arm(&rig.driver), 0);
	assert_int_equal(ph_le16_get(&rig_avail(&rig)->flags), 0);
	rig_use(&rig, 0, 0);
	assert_int_equal(ph_ring_driver_arm(&rig.driver), 1);
	rig_close(&rig);
	open_driver(PH_RING_EVENT_IDX, 8, 0);
	ph_le16_put(rig_avail_event(&rig), 2);
	for (uint64_t i = 0; i < 5; i++) {
		submit(1, 0, i);
		assert_int_equal(ph_ring_driver_publish(&rig.driver), i == 2);
	}
	rig_use(&rig, 0, 0);
	require_reaped(0, 0);
	assert_int_equal(ph_ring_driver_arm(&rig.driver), 0);
	assert_int_equal(ph_le16_get(rig_used_event(&rig)), 1);
	rig_close(&rig);
	open_driver(PH_RING_PACKED, 4, 0);
	ph_ring_driver_disarm(&rig.driver);
	assert_int_equal(ph_ring_driver_arm(&rig.driver), 0);
	assert_int_equal(ph_le32_get(rig.place.driver), (uint32_t)PH_EVENT_ENABLE << 16);
	rig_close(&rig);
	open_driver(PH_RING_PACKED | PH_RING_EVENT_IDX, 4, 0);
	ph_le32_show(rig.place.device, (uint32_t)PH_EVENT_DESC << 16 | 0x8001u);
	for (uint64_t i = 0; i < 4; i++) {
		submit(1, 0, i);
		assert_int_equal(ph_ring_driver_publish(&rig.driver), i == 1);
	}
	ph_ring_driver_disarm(&rig.driver);
	assert_int_equal(ph_le32_get(rig.place.driver), (uint32_t)PH_EVENT_DISABLE << 16);
	rig_entry(&rig, 0, 0, 0, 0, RIG_USED(1));
	require_reaped(0, 0);
	assert_int_equal(ph_ring_driver_arm(&rig.driver), 0);
	assert_int_equal(ph_le32_get(rig.place.driver), (uint32_t)PH_EVENT_DESC << 16 | 0x8001u);
	rig_close(&rig);
}

/* A device that works in order may tell of several at once by the last of them. */
static void in_order(uint32_t form)
{
	open_driver(form | PH_RING_IN_ORDER, 8, 0);
	submit(0, 1, 1);
	submit(1, 1, 2);
	submit(0, 2, 3);
	submit(1, 0, 4);
	ph_ring_driver_publish(&rig.driver);
	if (form & PH_RING_PACKED) {
		rig_entry(&rig, 0, 0, 7, 2, RIG_USED(1) | PH_DESC_WRITE);
	} else {
		rig_use(&rig, 3, 7); /* the third request's head; the index says three */
		ph_le16_release(&rig_used(&rig)->idx, 3);
	}
	require_reaped(1, 10); /* what is skipped was used whole */
	assert_int_equal(ph_ring_driver_arm(&rig.driver), 1);
	require_reaped(2, 20);
	require_reaped(3, 7);
	require_none();
	if (form & PH_RING_PACKED)
		rig_entry(&rig, 5, 0, 0, 3, RIG_USED(1));
	else
		rig_use(&rig, 5, 0);
	require_reaped(4, 0);
	assert_int_equal(rig.driver.in_flight, 0);
	/* descriptors are used in ring order */
	submit(2, 1, 5);
	if (!(form & PH_RING_PACKED)) {
		require_desc(rig.place.desc, 6, 0x1000, 10, PH_DESC_NEXT, 7);
		require_desc(rig.place.desc, 7, 0x2000, 20, PH_DESC_NEXT, 0);
	}
	submit(0, 1, 6);
	ph_ring_driver_publish(&rig.driver);
	if (form & PH_RING_PACKED)
		rig_entry(&rig, 6, 0, 1, rig.driver.newest, RIG_USED(1) | PH_DESC_WRITE);
	else {
		rig_use(&rig, rig.driver.newest, 1);
		ph_le32_put(&rig_used(&rig)->ring[4].id, rig.driver.newest);
		ph_le16_release(&rig_used(&rig)->idx, 6);
	}
	require_reaped(5, 30);
	require_reaped(6, 1);
	require_none();
	rig_close(&rig);
}

static void test_in_order(void **state)
{
	(void)state;
	in_order(0);
	in_order(PH_RING_PACKED);
}

static void test_take_back(void **state)
{
	(void)state;
	for (uint32_t form = 0; form < 2; form++) {
		uint64_t cookie = 0, sum = 0;
		uint32_t used = 0, n = 0;
		open_driver(form, 8, 0);
		submit(1, 0, 1);
		submit(1, 1, 10);
		ph_ring_driver_publish(&rig.driver);
		submit(1, 0, 100); /* never shown */
		assert_int_equal(ph_ring_driver_take_back(&rig.driver, &cookie), -EBUSY);
		ph_ring_driver_stop(&rig.driver);
		assert_int_equal(ph_ring_driver_submit(&rig.driver, three, 1, 0, 5), -ENODEV);
		assert_int_equal(ph_ring_driver_publish(&rig.driver), -ENODEV);
		assert_int_equal(ph_ring_driver_reap(&rig.driver, &cookie, &used), -ENODEV);
		assert_int_equal(ph_ring_driver_arm(&rig.driver), -ENODEV);
		assert_int_equal(ph_ring_driver_room(&rig.driver), 0);
		for (; ph_ring_driver_take_back(&rig.driver, &cookie) == 0; n++)
			sum += cookie;
		assert_int_equal(n, 3);
		assert_int_equal(sum, 111);
		assert_int_equal(rig.driver.in_flight, 0);
		assert_int_equal(ph_ring_driver_take_back(&rig.driver, &cookie), -ENOENT);
		rig_close(&rig);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_split_entries),      cmocka_unit_test(test_packed_entries),
		cmocka_unit_test(test_refusals),           cmocka_unit_test(test_which_take_a_table),
		cmocka_unit_test(test_tables_are_checked), cmocka_unit_test(test_starts_clean),
		cmocka_unit_test(test_notifications),      cmocka_unit_test(test_in_order),
		cmocka_unit_test(test_take_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
