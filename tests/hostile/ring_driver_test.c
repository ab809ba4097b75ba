/*
 * A device that lies to the driver end: each lie is -EPROTO once, with its name; after that the ring is dead, and every
 * cookie that did not come back is given back exactly once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/ring_rig.h"

#define SIZE 8u

static struct ring_rig rig;
static uint32_t back[16]; /* how often each cookie came back */

static void submit(uint32_t n_readable, uint32_t n_writable, uint64_t cookie)
{
	static const struct ph_ring_buffer buffers[2] = { { 0x1000, 10, 0 }, { 0x2000, 20, 0 } };
	assert_int_equal(ph_ring_driver_submit(&rig.driver, buffers, n_readable, n_writable, cookie), 0);
}

/* Requests 0 (head or id 0; 10 bytes writable), 1 (head 1 or id 1; nothing writable) with the device, 2 not shown to it. */
static void open_ring(uint32_t form)
{
	rig_lay_out(&rig, form, SIZE, 0, 64);
	rig_open_driver(&rig, 0, 0);
	memset(back, 0, sizeof(back));
	submit(0, 1, 0);
	submit(1, 0, 1);
	ph_ring_driver_publish(&rig.driver);
	submit(1, 1, 2);
}

static void reap(void)
{
	uint64_t cookie = 0;
	uint32_t used = 0;
	assert_int_equal(ph_ring_driver_reap(&rig.driver, &cookie, &used), 0);
	back[cookie]++;
}

static void require_broken(uint32_t why)
{
	uint64_t cookie = 77;
	uint32_t used = 78;
	const struct ph_ring_buffer buffer = { 0x1000, 1, 0 };
	unsigned char *before = malloc(rig.guest_bytes);
	memcpy(before, rig.guest, rig.guest_bytes);
	assert_int_equal(ph_ring_driver_reap(&rig.driver, &cookie, &used), -EPROTO);
	assert_string_equal(ph_ring_why_name(rig.driver.why), ph_ring_why_name(why));
	assert_int_equal(cookie, 77);
	assert_int_equal(used, 78);
	assert_int_equal(ph_ring_driver_reap(&rig.driver, &cookie, &used), -ENODEV);
	assert_int_equal(ph_ring_driver_submit(&rig.driver, &buffer, 1, 0, 9), -ENODEV);
	assert_int_equal(ph_ring_driver_publish(&rig.driver), -ENODEV);
	assert_int_equal(ph_ring_driver_arm(&rig.driver), -ENODEV);
	ph_ring_driver_disarm(&rig.driver);
	assert_memory_equal(before, rig.guest, rig.guest_bytes);
	while (ph_ring_driver_take_back(&rig.driver, &cookie) == 0)
		back[cookie]++;
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(back[i], 1);
	assert_int_equal(rig.driver.in_flight, 0);
	free(before);
	rig_close(&rig);
}

static void test_used_index_jumps(void **state)
{
	(void)state;
	static const uint16_t idx[] = { 3, SIZE, SIZE + 1, 1000, 32768, 65535 };
	for (size_t i = 0; i < sizeof(idx) / sizeof(idx[0]); i++) {
		open_ring(0);
		ph_le16_put(&rig_used(&rig)->idx, idx[i]);
		require_broken(PH_RING_BAD_INDEX);
		open_ring(0);
		ph_le16_put(&rig_used(&rig)->idx, idx[i]);
		assert_int_equal(ph_ring_driver_arm(&rig.driver), -EPROTO);
		assert_int_equal(ph_ring_driver_arm(&rig.driver), -ENODEV);
		rig_close(&rig);
	}
	open_ring(0); /* it goes back */
	rig_use(&rig, 0, 0);
	reap();
	ph_le16_put(&rig_used(&rig)->idx, 0);
	require_broken(PH_RING_BAD_INDEX);
}

static void test_ids(void **state)
{
	(void)state;
	/* outside; not a head; free; submitted but not shown (head 2) */
	static const uint32_t ids[] = { SIZE, 0x10000, UINT32_MAX, 3, 5, 2 };
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		open_ring(0);
		rig_use(&rig, ids[i], 0);
		require_broken(PH_RING_BAD_ID);
		open_ring(PH_RING_IN_ORDER);
		rig_use(&rig, ids[i], 0);
		require_broken(PH_RING_BAD_ID);
	}
	static const uint16_t packed_ids[] = { SIZE, 65535, 5, 2 };
	for (size_t i = 0; i < sizeof(packed_ids) / sizeof(packed_ids[0]); i++) {
		open_ring(PH_RING_PACKED);
		rig_entry(&rig, 0, 0, 0, packed_ids[i], RIG_USED(1));
		require_broken(PH_RING_BAD_ID);
		open_ring(PH_RING_PACKED | PH_RING_IN_ORDER);
		rig_entry(&rig, 0, 0, 0, packed_ids[i], RIG_USED(1));
		require_broken(PH_RING_BAD_ID);
	}
}

static void test_completed_twice(void **state)
{
	(void)state;
	open_ring(0);
	rig_use(&rig, 1, 0);
	rig_use(&rig, 1, 0);
	reap();
	require_broken(PH_RING_BAD_ID);
	open_ring(PH_RING_PACKED);
	rig_entry(&rig, 0, 0, 0, 1, RIG_USED(1));
	rig_entry(&rig, 1, 0, 0, 1, RIG_USED(1));
	reap();
	require_broken(PH_RING_BAD_ID);
}

/* more entries used than were ever shown */
static void test_used_too_many(void **state)
{
	(void)state;
	open_ring(PH_RING_PACKED);
	for (uint16_t i = 0; i < 3; i++)
		rig_entry(&rig, i, 0, 0, i, RIG_USED(1));
	reap();
	reap();
	require_broken(PH_RING_BAD_INDEX);
	open_ring(0);
	for (uint16_t i = 0; i < 2; i++)
		rig_use(&rig, i, 0);
	reap();
	reap();
	rig_use(&rig, 2, 0);
	require_broken(PH_RING_BAD_INDEX);
}

static void test_lengths(void **state)
{
	(void)state;
	static const uint32_t lens[] = { 11, UINT32_MAX };
	for (size_t i = 0; i < 2; i++) {
		open_ring(0);
		rig_use(&rig, 0, lens[i]);
		require_broken(PH_RING_BAD_LENGTH);
		open_ring(0);
		rig_use(&rig, 1, lens[i] - 10); /* nothing was writable */
		require_broken(PH_RING_BAD_LENGTH);
		open_ring(PH_RING_PACKED);
		rig_entry(&rig, 0, 0, lens[i], 0, RIG_USED(1) | PH_DESC_WRITE);
		require_broken(PH_RING_BAD_LENGTH);
	}
	open_ring(0);
	rig_use(&rig, 0, 10); /* all of it is fine */
	reap();
	rig_close(&rig);
}

/* The device has the whole ring to scribble on; the driver goes by its own table. */
static void test_scribbled_ring(void **state)
{
	(void)state;
	for (uint32_t form = 0; form < 2; form++) {
		open_ring(form);
		memset(rig.place.desc, 0x5a, rig.place.desc_bytes);
		if (form & PH_RING_PACKED) {
			rig_entry(&rig, 0, 0, 0, 0, RIG_USED(1));
			rig_entry(&rig, 1, 0, 0, 1, RIG_USED(1));
		} else {
			memset(rig.place.driver, 0x5a, rig.place.driver_bytes);
			rig_use(&rig, 0, 0);
			rig_use(&rig, 1, 0);
		}
		reap();
		reap();
		assert_int_equal(back[0] + back[1], 2);
		for (uint64_t cookie = 3; cookie < 9; cookie++) /* its free list is whole: 8 - 2 entries are free */
			submit(1, 0, cookie);
		assert_int_equal(ph_ring_driver_room(&rig.driver), 0);
		assert_int_equal(rig.driver.in_flight, 7);
		rig_close(&rig);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_used_index_jumps), cmocka_unit_test(test_ids),
		cmocka_unit_test(test_completed_twice),  cmocka_unit_test(test_used_too_many),
		cmocka_unit_test(test_lengths),          cmocka_unit_test(test_scribbled_ring),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
