/* The device end, packed: chains, laps, staging, event suppression. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/ring_rig.h"

static struct ring_rig rig;
static uint32_t budget;

static void open_packed(uint32_t form, uint32_t size)
{
	rig_lay_out(&rig, form | PH_RING_PACKED, size, 0, 4096);
	rig_open_device(&rig);
	budget = 1000;
}

static struct ph_chain pop(void)
{
	struct ph_chain chain;
	assert_int_equal(ph_ring_device_pop(&rig.device, &budget, &chain), 0);
	return chain;
}

static void require_empty(void)
{
	struct ph_chain chain;
	assert_int_equal(ph_ring_device_pop(&rig.device, &budget, &chain), -ENOENT);
}

static void require_entry(uint32_t i, uint16_t id, uint32_t len, uint32_t flags)
{
	const struct ph_packed_desc *desc = (const struct ph_packed_desc *)rig.place.desc + i;
	assert_int_equal(ph_le16_get(&desc->id), id);
	assert_int_equal(ph_le32_get(&desc->len), len);
	assert_int_equal(ph_le16_get(&desc->flags), flags);
}

static uint16_t flags_at(uint32_t i)
{
	return ph_le16_get(&((const struct ph_packed_desc *)rig.place.desc)[i].flags);
}

/* the id stands in the last entry; a chain may cross the end of a ring of any size */
static void test_chain_over_the_end(void **state)
{
	(void)state;
	open_packed(0, 3);
	require_empty();
	rig_entry(&rig, 0, 0x1000, 8, 40000, RIG_OFFERED(1)); /* ids are the driver's own matter */
	rig_entry(&rig, 1, 0x2000, 8, 1, RIG_OFFERED(1));
	struct ph_chain a = pop(), b = pop();
	assert_int_equal(a.head, 40000);
	assert_int_equal(ph_ring_device_complete(&rig.device, a.ticket, 0), 0);
	assert_int_equal(ph_ring_device_complete(&rig.device, b.ticket, 0), 0);
	ph_ring_device_flush(&rig.device);
	rig_entry(&rig, 0, 0x4000, 5, 7, RIG_OFFERED(0) | PH_DESC_WRITE);
	rig_entry(&rig, 2, 0x3000, 4, 9, RIG_OFFERED(1) | PH_DESC_NEXT);
	struct ph_chain chain = pop();
	assert_int_equal(chain.head, 7);
	assert_int_equal(chain.n_descs, 2);
	assert_true(chain.segments[0].addr == 0x3000 && chain.segments[1].addr == 0x4000);
	assert_int_equal(chain.n_readable, 1);
	assert_true(chain.writable_bytes == 5);
	assert_int_equal(ph_ring_device_unpop(&rig.device, chain.ticket), 0); /* over the end, and back */
	chain = pop();
	require_empty();
	assert_int_equal(ph_ring_device_complete(&rig.device, chain.ticket, 5), 0);
	ph_ring_device_flush(&rig.device);
	require_entry(2, 7, 5, RIG_USED(1) | PH_DESC_WRITE);
	struct ph_ring_position position;
	ph_ring_device_position(&rig.device, &position);
	assert_int_equal(position.avail, 1); /* second lap: wrap counter 0 */
	assert_int_equal(position.used, 1);
	rig_close(&rig);
}

static void test_indirect(void **state)
{
	(void)state;
	open_packed(PH_RING_INDIRECT, 4);
	struct ph_packed_desc *table = rig_at(&rig, rig.data);
	for (uint32_t i = 0; i < 3; i++) {
		rig_desc(table, i, 0x1000 * i, 16 + i, 0, 0);
		/* all flags but write are ignored there */
		ph_le16_put(&table[i].flags, i == 0 ? PH_DESC_NEXT | PH_DESC_INDIRECT | PH_DESC_AVAIL : PH_DESC_WRITE);
	}
	rig_entry(&rig, 0, rig.data, 48, 3, RIG_OFFERED(1) | PH_DESC_INDIRECT | PH_DESC_WRITE);
	struct ph_chain chain = pop();
	assert_int_equal(chain.n_readable, 1);
	assert_int_equal(chain.n_writable, 2);
	assert_true(chain.readable_bytes == 16 && chain.writable_bytes == 35);
	assert_int_equal(chain.n_descs, 1);
	rig_close(&rig);
}

/* Of a batch the first entry is shown last. A buffer completed late takes the place of an earlier one. */
static void test_staged(void **state)
{
	(void)state;
	open_packed(0, 4);
	rig_entry(&rig, 0, 0, 1, 0, RIG_OFFERED(1) | PH_DESC_NEXT);
	rig_entry(&rig, 1, 0, 1, 10, RIG_OFFERED(1));
	rig_entry(&rig, 2, 0, 1, 11, RIG_OFFERED(1));
	rig_entry(&rig, 3, 0, 1, 12, RIG_OFFERED(1));
	struct ph_chain a = pop(), b = pop(), c = pop();
	assert_int_equal(ph_ring_device_complete(&rig.device, c.ticket, 0), 0); /* entry 0, takes 1 */
	assert_int_equal(ph_ring_device_complete(&rig.device, a.ticket, 0), 0); /* entry 1, takes 2 */
	assert_int_equal(flags_at(0), RIG_OFFERED(1) | PH_DESC_NEXT);
	require_entry(1, 10, 0, RIG_USED(1));
	assert_int_equal(ph_ring_device_flush(&rig.device), 1);
	require_entry(0, 12, 0, RIG_USED(1));
	assert_int_equal(ph_ring_device_complete(&rig.device, b.ticket, 9), 0);
	assert_int_equal(flags_at(3), RIG_OFFERED(1));
	ph_ring_device_flush(&rig.device);
	require_entry(3, 11, 9, RIG_USED(1) | PH_DESC_WRITE);
	assert_int_equal(rig.device.out_descs, 0);
	rig_close(&rig);
}

static void test_kicks(void **state)
{
	(void)state;
	open_packed(0, 2);
	ph_ring_device_disarm(&rig.device);
	assert_int_equal(ph_le32_get(rig.place.device), (uint32_t)PH_EVENT_DISABLE << 16);
	assert_int_equal(ph_ring_device_arm(&rig.device), 0);
	assert_int_equal(ph_le32_get(rig.place.device), 0);
	rig_entry(&rig, 0, 0, 1, 0, RIG_OFFERED(1));
	assert_int_equal(ph_ring_device_arm(&rig.device), 1);
	rig_close(&rig);
	open_packed(PH_RING_EVENT_IDX, 2);
	assert_int_equal(ph_ring_device_arm(&rig.device), 0);
	assert_int_equal(ph_le32_get(rig.place.device), (uint32_t)PH_EVENT_DESC << 16 | 0x8000u);
	rig_entry(&rig, 0, 0, 1, 0, RIG_OFFERED(1));
	rig_entry(&rig, 1, 0, 1, 1, RIG_OFFERED(1));
	pop();
	pop();
	assert_int_equal(ph_ring_device_arm(&rig.device), 0); /* all of the lap is out, nothing of the next is there */
	assert_int_equal(ph_le32_get(rig.place.device), (uint32_t)PH_EVENT_DESC << 16);
	rig_close(&rig);
}

static void test_interrupts(void **state)
{
	(void)state;
	open_packed(0, 1);
	for (uint32_t i = 0; i < 4; i++) {
		ph_le32_show(rig.place.driver, (uint32_t)(i & 1 ? PH_EVENT_DISABLE : PH_EVENT_ENABLE) << 16);
		rig_entry(&rig, 0, 0, 1, 0, RIG_OFFERED(i % 2 == 0));
		assert_int_equal(ph_ring_device_complete(&rig.device, pop().ticket, 0), 0);
		assert_int_equal(ph_ring_device_flush(&rig.device), !(i & 1));
		require_entry(0, 0, 0, RIG_USED(i % 2 == 0));
	}
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chain_over_the_end),
		cmocka_unit_test(test_indirect),
		cmocka_unit_test(test_staged),
		cmocka_unit_test(test_kicks),
		cmocka_unit_test(test_interrupts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
