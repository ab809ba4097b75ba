/*
 * A guest that lies to the device end: each lie breaks the ring with its name, nothing is given out, nothing is written, and
 * what was in flight stays dead. And what looks odd but is allowed goes through.
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
static uint64_t lookups; /* that the broken ring had made */

static void open_ring(uint32_t form)
{
	rig_lay_out(&rig, form, SIZE, 0, 4096);
	rig_open_device(&rig);
}

static void desc(uint32_t i, uint64_t addr, uint32_t len, uint32_t flags, uint16_t next)
{
	rig_desc(rig.place.desc, i, addr, len, (uint16_t)flags, next);
}

static void table(uint32_t i, uint64_t addr, uint32_t len, uint32_t flags, uint16_t next)
{
	rig_desc(rig_at(&rig, rig.data + TABLE), i, addr, len, (uint16_t)flags, next);
}

static void entry(uint32_t i, uint64_t addr, uint32_t len, uint32_t flags)
{
	rig_entry(&rig, i, addr, len, (uint16_t)i, flags | RIG_OFFERED(1));
}

/* The next pop finds it; everything after says that the ring is dead. Nothing in guest memory changes. */
static void require_broken(uint32_t why)
{
	struct ph_chain chain = { .head = 77 };
	struct ph_ring_held held = { .head = 1, .n_descs = 1 };
	uint32_t budget = 1000, out = rig.device.out;
	uint64_t ticket = 0;
	unsigned char *before = malloc(rig.guest_bytes);
	memcpy(before, rig.guest, rig.guest_bytes);
	int err = ph_ring_device_pop(&rig.device, &budget, &chain);
	assert_int_equal(err, -EPROTO);
	assert_string_equal(ph_ring_why_name(rig.device.why), ph_ring_why_name(why));
	assert_int_equal(chain.head, 77);
	assert_int_equal(rig.device.out, out);
	assert_int_equal(ph_ring_device_pop(&rig.device, &budget, &chain), -ENODEV);
	assert_int_equal(ph_ring_device_complete(&rig.device, 1u << 16, 0), -ENODEV);
	assert_int_equal(ph_ring_device_unpop(&rig.device, 1u << 16), -ENODEV);
	assert_int_equal(ph_ring_device_flush(&rig.device), -ENODEV);
	assert_int_equal(ph_ring_device_arm(&rig.device), -ENODEV);
	assert_int_equal(ph_ring_device_adopt(&rig.device, &held, &ticket), -ENODEV);
	assert_int_equal(ph_ring_device_reread(&rig.device, 3, &chain),
			 rig.form & PH_RING_PACKED ? -EOPNOTSUPP : -ENODEV);
	ph_ring_device_disarm(&rig.device);
	assert_memory_equal(before, rig.guest, rig.guest_bytes);
	lookups = rig.looked_up;
	free(before);
	rig_close(&rig);
}

static struct ph_chain pop(void)
{
	struct ph_chain chain;
	uint32_t budget = 1000;
	assert_int_equal(ph_ring_device_pop(&rig.device, &budget, &chain), 0);
	return chain;
}

static void test_index(void **state)
{
	(void)state;
	static const uint16_t idx[] = { SIZE + 1, 1000, 32768, 65535 };
	for (size_t i = 0; i < sizeof(idx) / sizeof(idx[0]); i++) {
		open_ring(0);
		ph_le16_put(&rig_avail(&rig)->idx, idx[i]);
		require_broken(PH_RING_BAD_INDEX);
		open_ring(0); /* arming looks at it, too */
		ph_le16_put(&rig_avail(&rig)->idx, idx[i]);
		assert_int_equal(ph_ring_device_arm(&rig.device), -EPROTO);
		assert_int_equal(ph_ring_device_arm(&rig.device), -ENODEV);
		rig_close(&rig);
	}
	open_ring(0); /* it goes back */
	desc(0, 0, 1, 0, 0);
	rig_offer(&rig, 0);
	pop();
	ph_le16_put(&rig_avail(&rig)->idx, 0);
	require_broken(PH_RING_BAD_INDEX);
}

static void test_heads(void **state)
{
	(void)state;
	open_ring(0);
	rig_offer(&rig, SIZE);
	require_broken(PH_RING_BAD_HEAD);
	open_ring(0);
	rig_offer(&rig, 65535);
	require_broken(PH_RING_BAD_HEAD);
	open_ring(0); /* in flight already */
	desc(2, 0, 1, 0, 0);
	rig_offer(&rig, 2);
	rig_offer(&rig, 2);
	pop();
	require_broken(PH_RING_BAD_HEAD);
	open_ring(0);
	desc(0, 0, 1, PH_DESC_NEXT, SIZE);
	rig_offer(&rig, 0);
	require_broken(PH_RING_BAD_HEAD);
	open_ring(PH_RING_INDIRECT);
	table(0, 0, 1, PH_DESC_NEXT, 2);
	desc(0, rig.data + TABLE, 32, PH_DESC_INDIRECT, 0);
	rig_offer(&rig, 0);
	require_broken(PH_RING_BAD_HEAD);
}

static void test_loops(void **state)
{
	(void)state;
	open_ring(0);
	desc(0, 0, 0, PH_DESC_NEXT, 0); /* of length 0, so that no sum ends it */
	rig_offer(&rig, 0);
	require_broken(PH_RING_BAD_CHAIN);
	open_ring(0);
	for (uint16_t i = 0; i < SIZE; i++)
		desc(i, 0, 1, PH_DESC_NEXT, (uint16_t)((i + 1) % SIZE));
	rig_offer(&rig, 1);
	require_broken(PH_RING_BAD_CHAIN);
	open_ring(PH_RING_INDIRECT);
	table(0, 0, 0, PH_DESC_NEXT, 1);
	table(1, 0, 0, PH_DESC_NEXT, 0);
	desc(0, rig.data + TABLE, 32, PH_DESC_INDIRECT, 0);
	rig_offer(&rig, 0);
	require_broken(PH_RING_BAD_CHAIN);
	open_ring(PH_RING_INDIRECT); /* no loop, but one more than the ring has */
	for (uint16_t i = 0; i <= SIZE; i++)
		table(i, 0, 1, i < SIZE ? PH_DESC_NEXT : 0, (uint16_t)(i + 1));
	desc(0, rig.data + TABLE, 16 * (SIZE + 1), PH_DESC_INDIRECT, 0);
	rig_offer(&rig, 0);
	require_broken(PH_RING_BAD_CHAIN);
	open_ring(PH_RING_PACKED | PH_RING_INDIRECT);
	entry(0, rig.data + TABLE, 16 * (SIZE + 1), PH_DESC_INDIRECT);
	require_broken(PH_RING_BAD_CHAIN);
	open_ring(PH_RING_PACKED); /* round the ring: the fifth would be of the next lap, and is not there */
	for (uint32_t i = 0; i < SIZE; i++)
		entry(i, 0, 0, PH_DESC_NEXT);
	require_broken(PH_RING_BAD_FLAGS);
}

/* the longest that is allowed */
static void test_as_long_as_the_ring(void **state)
{
	(void)state;
	open_ring(0);
	for (uint16_t i = 0; i < SIZE; i++)
		desc(i, 0, 1, i + 1u < SIZE ? PH_DESC_NEXT : 0, (uint16_t)(i + 1));
	rig_offer(&rig, 0);
	assert_int_equal(pop().n_readable, SIZE);
	rig_close(&rig);
	open_ring(PH_RING_PACKED);
	for (uint32_t i = 0; i < SIZE; i++)
		entry(i, 0, 1, i + 1 < SIZE ? PH_DESC_NEXT : 0);
	assert_int_equal(pop().n_descs, SIZE);
	rig_close(&rig);
}

static void test_indirect_flags(void **state)
{
	(void)state;
	for (uint32_t form = 0; form < 2; form++) { /* not negotiated */
		open_ring(form);
		desc(0, rig.data + TABLE, 16, PH_DESC_INDIRECT, 0);
		rig_offer(&rig, 0);
		if (form & PH_RING_PACKED)
			entry(0, rig.data + TABLE, 16, PH_DESC_INDIRECT);
		require_broken(PH_RING_BAD_FLAGS);
	}
	open_ring(PH_RING_INDIRECT); /* in a table */
	table(0, rig.data + TABLE, 16, PH_DESC_INDIRECT, 0);
	desc(0, rig.data + TABLE, 16, PH_DESC_INDIRECT, 0);
	rig_offer(&rig, 0);
	require_broken(PH_RING_BAD_FLAGS);
	open_ring(PH_RING_INDIRECT); /* with a next */
	desc(0, rig.data + TABLE, 16, PH_DESC_INDIRECT | PH_DESC_NEXT, 1);
	rig_offer(&rig, 0);
	require_broken(PH_RING_BAD_FLAGS);
	open_ring(PH_RING_PACKED | PH_RING_INDIRECT);
	entry(0, rig.data + TABLE, 16, PH_DESC_INDIRECT | PH_DESC_NEXT);
	require_broken(PH_RING_BAD_FLAGS);
	open_ring(PH_RING_PACKED | PH_RING_INDIRECT); /* packed: not even at the end of a list */
	entry(0, 0, 1, PH_DESC_NEXT);
	entry(1, rig.data + TABLE, 16, PH_DESC_INDIRECT);
	require_broken(PH_RING_BAD_FLAGS);
	open_ring(PH_RING_PACKED); /* a list whose rest was not made available */
	rig_entry(&rig, 0, 0, 1, 0, RIG_OFFERED(1) | PH_DESC_NEXT);
	require_broken(PH_RING_BAD_FLAGS);
}

static void test_tables(void **state)
{
	(void)state;
	const uint64_t end = RIG_BASE + 0x100000;
	const struct {
		uint64_t addr;
		uint32_t len;
	} bad[] = {
		{ RIG_BASE, 0 },
		{ RIG_BASE, 15 },
		{ RIG_BASE, 17 },
		{ RIG_BASE, 0xfffffff0 },
		{ 0, 16 },
		{ end, 16 },
		{ RIG_BASE - 8, 16 },
		{ UINT64_MAX - 15, 16 },
		{ UINT64_MAX - 7, 16 },
		{ UINT64_MAX, 16 },
		{ RIG_BASE, 0x80000000 },
	};
	for (uint32_t form = 0; form < 2; form++)
		for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
			open_ring(form | PH_RING_INDIRECT);
			if (form & PH_RING_PACKED) {
				entry(0, bad[i].addr, bad[i].len, PH_DESC_INDIRECT);
			} else {
				desc(0, bad[i].addr, bad[i].len, PH_DESC_INDIRECT, 0);
				rig_offer(&rig, 0);
			}
			require_broken(PH_RING_BAD_TABLE);
			int askable = bad[i].len != 0 && bad[i].len % 16 == 0 && bad[i].addr <= UINT64_MAX - bad[i].len;
			assert_int_equal(lookups, askable); /* what is wrong in itself is not even looked up */
		}
	for (uint32_t form = 0; form < 2; form++) { /* a bad one in it, then good ones */
		open_ring(form | PH_RING_INDIRECT);
		table(0, UINT64_MAX, 1, form ? 0 : PH_DESC_NEXT, form ? 0 : 1);
		table(1, 0, 1, 0, 0);
		desc(0, rig.data + TABLE, 32, PH_DESC_INDIRECT, 0);
		rig_offer(&rig, 0);
		if (form & PH_RING_PACKED)
			entry(0, rig.data + TABLE, 32, PH_DESC_INDIRECT);
		require_broken(PH_RING_BAD_ADDRESS);
	}
	open_ring(PH_RING_INDIRECT); /* across the end of guest memory */
	desc(0, RIG_BASE + rig.guest_bytes - 16, 32, PH_DESC_INDIRECT, 0);
	rig_offer(&rig, 0);
	require_broken(PH_RING_BAD_TABLE);
}

static void test_addresses_and_lengths(void **state)
{
	(void)state;
	for (uint32_t form = 0; form < 2; form++) {
		open_ring(form);
		desc(0, UINT64_MAX, 1, 0, 0);
		rig_offer(&rig, 0);
		if (form & PH_RING_PACKED)
			entry(0, UINT64_MAX, 1, 0);
		require_broken(PH_RING_BAD_ADDRESS);
		open_ring(form); /* what follows does not mend it */
		desc(0, UINT64_MAX, 1, PH_DESC_NEXT, 1);
		desc(1, 0, 1, 0, 0);
		rig_offer(&rig, 0);
		if (form & PH_RING_PACKED) {
			entry(0, UINT64_MAX, 1, PH_DESC_NEXT);
			entry(1, 0, 1, 0);
		}
		require_broken(PH_RING_BAD_ADDRESS);
		open_ring(form); /* the last one that does not wrap */
		desc(0, UINT64_MAX - 1, 1, 0, 0);
		rig_offer(&rig, 0);
		if (form & PH_RING_PACKED)
			entry(0, UINT64_MAX - 1, 1, 0);
		assert_true(pop().segments[0].addr == UINT64_MAX - 1);
		rig_close(&rig);
		open_ring(form); /* 2^32 - 1 + 2 */
		desc(0, 0, UINT32_MAX, PH_DESC_NEXT, 1);
		desc(1, 0, 2, 0, 0);
		rig_offer(&rig, 0);
		if (form & PH_RING_PACKED) {
			entry(0, 0, UINT32_MAX, PH_DESC_NEXT);
			entry(1, 0, 2, 0);
		}
		require_broken(PH_RING_BAD_LENGTH);
		open_ring(form); /* readable after writable */
		desc(0, 0, 1, PH_DESC_NEXT | PH_DESC_WRITE, 1);
		desc(1, 0, 1, 0, 0);
		rig_offer(&rig, 0);
		if (form & PH_RING_PACKED) {
			entry(0, 0, 1, PH_DESC_NEXT | PH_DESC_WRITE);
			entry(1, 0, 1, 0);
		}
		require_broken(PH_RING_BAD_ORDER);
	}
}

/* Buffers that are not in guest memory are found when they are touched; none of the bytes before is lost or doubled. */
static void test_bytes_outside(void **state)
{
	(void)state;
	unsigned char bytes[64] = { 0 };
	size_t n = 99;
	open_ring(0);
	const uint64_t end = RIG_BASE + rig.guest_bytes;
	desc(0, end - 4, 8, PH_DESC_NEXT, 1);                  /* straddles the end */
	desc(1, end - RIG_READ_ONLY - 2, 4, PH_DESC_WRITE, 0); /* runs into what may not be written */
	rig_offer(&rig, 0);
	struct ph_chain chain = pop();
	assert_int_equal(ph_chain_read(&rig.device, &chain, 0, bytes, 64, &n), -ERANGE);
	assert_int_equal(n, 0);
	assert_int_equal(ph_chain_write(&rig.device, &chain, 0, bytes, 64, &n), -ERANGE);
	assert_int_equal(n, 0);
	assert_int_equal(ph_chain_write(&rig.device, &chain, 0, bytes, 2, &n), 0);
	assert_int_equal(n, 2);
	rig_close(&rig);
}

/* A packed driver that goes on writing over what the device has not used. */
static void test_overrun(void **state)
{
	(void)state;
	open_ring(PH_RING_PACKED);
	for (uint32_t i = 0; i < SIZE; i++)
		entry(i, 0, 1, 0);
	for (uint32_t i = 0; i < SIZE; i++)
		pop();
	rig_entry(&rig, 0, 0, 1, 9, RIG_OFFERED(0));
	require_broken(PH_RING_BAD_INDEX);
	open_ring(PH_RING_PACKED); /* used, but the driver was not shown that */
	for (uint32_t i = 0; i < SIZE; i++)
		entry(i, 0, 1, 0);
	for (uint32_t i = 0; i < SIZE; i++)
		assert_int_equal(ph_ring_device_complete(&rig.device, pop().ticket, 0), 0);
	rig_entry(&rig, 0, 0, 1, 9, RIG_OFFERED(0) | PH_DESC_NEXT);
	rig_entry(&rig, 1, 0, 1, 9, RIG_OFFERED(0));
	require_broken(PH_RING_BAD_INDEX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_index),
		cmocka_unit_test(test_heads),
		cmocka_unit_test(test_loops),
		cmocka_unit_test(test_as_long_as_the_ring),
		cmocka_unit_test(test_indirect_flags),
		cmocka_unit_test(test_tables),
		cmocka_unit_test(test_addresses_and_lengths),
		cmocka_unit_test(test_bytes_outside),
		cmocka_unit_test(test_overrun),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
