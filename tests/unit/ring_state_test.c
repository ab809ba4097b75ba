/* A device end that stops and goes on elsewhere: positions, heads in flight, the used index, another place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/ring_rig.h"

static struct ring_rig rig;
static uint32_t budget;

static struct ph_chain pop(void)
{
	struct ph_chain chain;
	assert_int_equal(ph_ring_device_pop(&rig.device, &budget, &chain), 0);
	return chain;
}

/* both ends, and n requests of one buffer in the ring */
static void open_both(uint32_t form, uint32_t n)
{
	rig_lay_out(&rig, form, 4, 0, 64);
	rig_open_driver(&rig, 0, 0);
	rig_open_device(&rig);
	budget = 1000;
	for (uint32_t i = 0; i < n; i++) {
		const struct ph_ring_buffer buffer = { .addr = rig.data + 8 * i, .len = 8 };
		assert_int_equal(ph_ring_driver_submit(&rig.driver, &buffer, 0, 1, 100 + i), 0);
	}
	ph_ring_driver_publish(&rig.driver);
}

static void require_reaped(uint64_t want, uint32_t want_used)
{
	uint64_t cookie = 0;
	uint32_t used = 0;
	assert_int_equal(ph_ring_driver_reap(&rig.driver, &cookie, &used), 0);
	assert_int_equal(cookie, want);
	assert_int_equal(used, want_used);
}

/* Two are in flight, one is done, one is not popped: a new device end finishes all of them. */
static void hand_over(uint32_t form)
{
	struct ph_ring_position position;
	struct ph_ring_held held[2];
	uint64_t tickets[2];
	open_both(form, 4);
	pop();
	uint64_t done = pop().ticket;
	pop();
	assert_int_equal(ph_ring_device_complete(&rig.device, done, 3), 0);
	ph_ring_device_flush(&rig.device);
	ph_ring_device_position(&rig.device, &position);
	assert_int_equal(rig.device.out, 2);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(ph_ring_device_held(&rig.device, i, &held[i]), 0);
	assert_int_equal(ph_ring_device_held(&rig.device, 2, &held[0]), -ENOENT);
	assert_int_equal(ph_ring_device_restore(&rig.device, &position), -EBUSY);
	void *memory = rig.device_memory;
	rig_open_device(&rig);
	free(memory);
	assert_int_equal(ph_ring_device_restore(&rig.device, &position), 0);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(ph_ring_device_adopt(&rig.device, &held[i], &tickets[i]), 0);
	assert_int_equal(ph_ring_device_unpop(&rig.device, tickets[1]), -EALREADY);
	uint64_t last = pop().ticket;
	assert_int_equal(ph_ring_device_complete(&rig.device, last, 8), 0);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(ph_ring_device_complete(&rig.device, tickets[i], i), 0);
	ph_ring_device_flush(&rig.device);
	require_reaped(101, 3);
	require_reaped(103, 8);
	uint64_t cookies = 0, cookie = 0;
	uint32_t used = 0;
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(ph_ring_driver_reap(&rig.driver, &cookie, &used), 0);
		assert_int_equal(used, i);
		cookies += cookie;
	}
	assert_int_equal(cookies, 100 + 102);
	assert_int_equal(rig.driver.in_flight, 0);
	rig_close(&rig);
}

static void test_hand_over(void **state)
{
	(void)state;
	hand_over(0);
	hand_over(PH_RING_PACKED);
}

static void test_not_while_something_is_on_its_way(void **state)
{
	(void)state;
	struct ph_ring_position position;
	open_both(0, 1);
	struct ph_chain chain = pop();
	ph_ring_device_position(&rig.device, &position);
	assert_int_equal(position.avail, 1);
	assert_int_equal(position.used, 0);
	assert_int_equal(ph_ring_device_restore(&rig.device, &position), -EBUSY);
	assert_int_equal(ph_ring_device_complete(&rig.device, chain.ticket, 0), 0);
	assert_int_equal(ph_ring_device_restore(&rig.device, &position), -EBUSY);
	ph_ring_device_position(&rig.device, &position);
	assert_int_equal(position.used, 0); /* staged, not used */
	ph_ring_device_flush(&rig.device);
	ph_ring_device_position(&rig.device, &position);
	assert_int_equal(position.used, 1);
	assert_int_equal(ph_ring_device_restore(&rig.device, &position), 0);
	rig_close(&rig);
}

static void test_adopt_refuses(void **state)
{
	(void)state;
	uint64_t ticket = 77;
	struct ph_ring_held held = { .head = 2, .n_descs = 3 };
	for (uint32_t form = 0; form < 2; form++) {
		open_both(form, 0);
		held.n_descs = 0;
		assert_int_equal(ph_ring_device_adopt(&rig.device, &held, &ticket), -EINVAL);
		held.n_descs = 5;
		assert_int_equal(ph_ring_device_adopt(&rig.device, &held, &ticket), -EINVAL);
		held.n_descs = 3;
		held.head = 4;
		assert_int_equal(ph_ring_device_adopt(&rig.device, &held, &ticket), form == 0 ? -EINVAL : 0);
		held.head = 2;
		assert_int_equal(ph_ring_device_adopt(&rig.device, &held, &ticket), form == 0 ? 0 : -ENOSPC);
		assert_int_equal(ph_ring_device_adopt(&rig.device, &held, &ticket), form == 0 ? -EALREADY : -ENOSPC);
		held.head = 1;
		assert_int_equal(ph_ring_device_adopt(&rig.device, &held, &ticket), -ENOSPC);
		rig_close(&rig);
		open_both(form, 0); /* all of the ring is not too much */
		held = (struct ph_ring_held) { .head = 0, .n_descs = 4 };
		assert_int_equal(ph_ring_device_adopt(&rig.device, &held, &ticket), 0);
		assert_int_equal(rig.device.out_descs, 4);
		held = (struct ph_ring_held) { .head = 2, .n_descs = 3 };
		rig_close(&rig);
	}
}

/* a worker that was killed: the used index stands in the ring, the heads in flight are known, their buffers are read anew */
static void test_reread(void **state)
{
	(void)state;
	struct ph_chain chain;
	open_both(0, 3);
	uint64_t done = pop().ticket;
	uint16_t lost[2] = { pop().head, pop().head };
	assert_int_equal(ph_ring_device_complete(&rig.device, done, 0), 0);
	ph_ring_device_flush(&rig.device);
	void *memory = rig.device_memory;
	rig_open_device(&rig);
	free(memory);
	uint16_t used = ph_ring_device_used_seen(&rig.device);
	assert_int_equal(used, 1);
	const struct ph_ring_position position = { .avail = (uint16_t)(used + 2), .used = used };
	assert_int_equal(ph_ring_device_restore(&rig.device, &position), 0);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(ph_ring_device_reread(&rig.device, lost[i], &chain), 0);
		assert_true(chain.segments[0].addr == rig.data + 8 * (i + 1) && chain.writable_bytes == 8);
		assert_int_equal(ph_ring_device_reread(&rig.device, lost[i], &chain), -EALREADY);
		assert_int_equal(ph_ring_device_complete(&rig.device, chain.ticket, 2), 0);
	}
	assert_int_equal(ph_ring_device_reread(&rig.device, 4, &chain), -EINVAL);
	ph_ring_device_flush(&rig.device);
	require_reaped(100, 0);
	require_reaped(101, 2);
	require_reaped(102, 2);
	rig_close(&rig);
	open_both(PH_RING_PACKED, 1);
	assert_int_equal(ph_ring_device_reread(&rig.device, 0, &chain), -EOPNOTSUPP);
	rig_close(&rig);
}

static void require_position(uint32_t avail, uint32_t used, int want)
{
	const struct ph_ring_position position = { .avail = (uint16_t)avail, .used = (uint16_t)used };
	struct ph_ring_position now;
	assert_int_equal(ph_ring_device_restore(&rig.device, &position), want);
	ph_ring_device_position(&rig.device, &now);
	assert_int_equal(now.avail == avail && now.used == used, want == 0);
}

static void test_positions(void **state)
{
	(void)state;
	open_both(0, 0); /* size 4 */
	require_position(10, 10, 0);
	require_position(10, 6, 0);
	require_position(2, 65534, 0);
	require_position(10, 5, -EINVAL);
	require_position(10, 11, -EINVAL);
	rig_close(&rig);
	open_both(PH_RING_PACKED, 0);
	require_position(0x8003, 0x8001, 0);
	require_position(0x0001, 0x8003, 0);
	require_position(0x0001, 0x8001, 0); /* all of the ring in flight */
	require_position(0x8001, 0x0001, 0);
	require_position(0x0002, 0x8001, -EINVAL);
	require_position(0x8001, 0x8002, -EINVAL);
	require_position(0x8004, 0x8002, -EINVAL);
	require_position(0x0003, 0x0004, -EINVAL);
	require_position(0x0001, 0x8004, -EINVAL);
	require_position(0x8001, 0x8001, 0);
	rig_close(&rig);
}

/* free-running indices pass 65535 */
static void test_index_wraps(void **state)
{
	(void)state;
	const struct ph_ring_position position = { .avail = 65535, .used = 65535 };
	open_both(0, 0);
	assert_int_equal(ph_ring_device_restore(&rig.device, &position), 0);
	ph_le16_put(&rig_avail(&rig)->idx, 65535);
	rig_desc(rig.place.desc, 3, rig.data, 1, 0, 0);
	for (uint32_t i = 0; i < 3; i++) {
		rig_offer(&rig, 3);
		assert_int_equal(ph_ring_device_complete(&rig.device, pop().ticket, 0), 0);
		ph_ring_device_flush(&rig.device);
		assert_int_equal(ph_le16_get(&rig_used(&rig)->idx), (uint16_t)(65536 + i));
	}
	rig_close(&rig);
}

static void test_move(void **state)
{
	(void)state;
	open_both(0, 1);
	struct ph_ring_place there = rig.place, bad = rig.place;
	unsigned char *copy = aligned_alloc(64, 1024);
	memcpy(copy, rig.place.desc, 64);
	memcpy(copy + 128, rig.place.driver, 14);
	memset(copy + 256, 0, 64);
	memset(rig.guest, 0xff, 256); /* the old place is gone */
	there.desc = copy;
	there.driver = copy + 128;
	there.device = copy + 256;
	bad.desc_bytes = 63;
	assert_int_equal(ph_ring_device_move(&rig.device, &bad), -ERANGE);
	assert_int_equal(ph_ring_device_move(&rig.device, &there), 0);
	assert_int_equal(ph_ring_device_complete(&rig.device, pop().ticket, 0), 0);
	ph_ring_device_flush(&rig.device);
	assert_int_equal(ph_ring_device_used_seen(&rig.device), 1);
	free(copy);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hand_over),     cmocka_unit_test(test_not_while_something_is_on_its_way),
		cmocka_unit_test(test_adopt_refuses), cmocka_unit_test(test_reread),
		cmocka_unit_test(test_positions),     cmocka_unit_test(test_index_wraps),
		cmocka_unit_test(test_move),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
