/*
 * A guest that is alive while it is served: it changes what was read, and it floods.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/ring_rig.h"

#define SIZE 4u
#define TABLE 1024u /* an indirect table, in the data */

static struct ring_rig rig;

static void open_ring(uint32_t form)
{
	rig_lay_out(&rig, form, SIZE, 0, 4096);
	rig_open_device(&rig);
}

static void desc(uint32_t i, uint64_t addr, uint32_t len, uint32_t flags, uint16_t next)
{
	rig_desc(rig.place.desc, i, addr, len, (uint16_t)flags, next);
}

static struct ph_chain pop(void)
{
	struct ph_chain chain;
	uint32_t budget = 1000;
	assert_int_equal(ph_ring_device_pop(&rig.device, &budget, &chain), 0);
	return chain;
}

/* it changes the table while it is looked up */

static int meddle(void *ctx, uint64_t addr, uint64_t bytes, int want_write, void **ret_host)
{
	desc(0, UINT64_MAX, UINT32_MAX, 0xffff, 0xffff);
	ph_le16_put(&rig_avail(&rig)->ring[0], 0xffff);
	return rig_host(ctx, addr, bytes, want_write, ret_host);
}

static void test_only_the_copy_counts(void **state)
{
	(void)state;
	open_ring(PH_RING_INDIRECT);
	rig.device.memory.host = meddle;
	rig_desc(rig_at(&rig, rig.data + TABLE), 0, 0x1234, 8, 0, 0);
	desc(0, rig.data + TABLE, 16, PH_DESC_INDIRECT, 0);
	rig_offer(&rig, 0);
	struct ph_chain chain = pop();
	assert_int_equal(chain.head, 0);
	assert_int_equal(chain.n_readable, 1);
	assert_true(chain.segments[0].addr == 0x1234 && chain.segments[0].len == 8);
	memset(rig.guest, 0xff, rig.guest_bytes); /* and later: what was given out stays as it was checked */
	assert_true(chain.segments[0].addr == 0x1234 && chain.segments[0].len == 8);
	assert_int_equal(ph_ring_device_complete(&rig.device, chain.ticket, 0), 0);
	rig_close(&rig);
}

/* A guest that floods gets no more than the budget a kick, and nothing is lost between kicks. */
static void test_flood(void **state)
{
	(void)state;
	struct ph_chain chain;
	uint64_t served = 0;
	open_ring(0);
	for (uint16_t i = 0; i < SIZE; i++)
		desc(i, 0, 1, 0, 0);
	for (uint32_t kick = 0; kick < 100; kick++) {
		uint32_t budget = 10, in_kick = 0;
		for (;;) {
			uint16_t idx = ph_le16_get(&rig_avail(&rig)->idx);
			for (; (uint16_t)(idx - rig.device.used) < SIZE; idx++)
				rig_offer(&rig, idx % SIZE);
			int err = ph_ring_device_pop(&rig.device, &budget, &chain);
			if (err != 0) {
				assert_int_equal(err, -EAGAIN);
				break;
			}
			assert_int_equal(chain.head, served++ % SIZE);
			in_kick++;
			assert_int_equal(ph_ring_device_complete(&rig.device, chain.ticket, 0), 0);
		}
		ph_ring_device_flush(&rig.device);
		assert_int_equal(in_kick, 10);
	}
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_only_the_copy_counts),
		cmocka_unit_test(test_flood),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
