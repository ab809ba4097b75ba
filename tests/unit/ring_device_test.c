/* The device end, split, against descriptors that the test writes; and what both forms have in common. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/ring_rig.h"

static struct ring_rig rig;
static uint32_t budget;

static void open_split(uint32_t form, uint32_t size)
{
	rig_lay_out(&rig, form, size, 0, 4096);
	rig_open_device(&rig);
	budget = 1000;
}

static void desc(uint32_t i, uint64_t at, uint32_t len, uint16_t flags, uint16_t next)
{
	rig_desc(rig.place.desc, i, rig.data + at, len, flags, next);
}

static void require_segment(const struct ph_chain *chain, uint32_t i, uint64_t at, uint32_t len, uint32_t writable)
{
	assert_true(chain->segments[i].addr == rig.data + at);
	assert_int_equal(chain->segments[i].len, len);
	assert_int_equal(chain->segments[i].writable, writable);
}

static struct ph_chain pop(void)
{
	struct ph_chain chain;
	assert_int_equal(ph_ring_device_pop(&rig.device, &budget, &chain), 0);
	return chain;
}

static void require_empty(void)
{
	struct ph_chain chain = { .head = 77 };
	assert_int_equal(ph_ring_device_pop(&rig.device, &budget, &chain), -ENOENT);
	assert_int_equal(chain.head, 77); /* outputs are untouched */
}

static void complete(uint64_t ticket, uint32_t written)
{
	assert_int_equal(ph_ring_device_complete(&rig.device, ticket, written), 0);
}

static void require_used(uint16_t at, uint32_t id, uint32_t len)
{
	assert_int_equal(ph_le32_get(&rig_used(&rig)->ring[at & (rig.size - 1)].id), id);
	assert_int_equal(ph_le32_get(&rig_used(&rig)->ring[at & (rig.size - 1)].len), len);
}

static void test_chain(void **state)
{
	(void)state;
	open_split(0, 8);
	require_empty();
	desc(5, 0, 16, PH_DESC_NEXT, 2);
	desc(2, 100, 0, PH_DESC_NEXT, 7); /* empty buffers exist */
	desc(7, 200, 0xffffffef, PH_DESC_NEXT | PH_DESC_WRITE, 0);
	desc(0, 300, 1, PH_DESC_WRITE, 99);
	rig_offer(&rig, 5);
	struct ph_chain chain = pop();
	require_segment(&chain, 0, 0, 16, 0);
	require_segment(&chain, 1, 100, 0, 0);
	require_segment(&chain, 2, 200, 0xffffffef, 1);
	require_segment(&chain, 3, 300, 1, 1);
	assert_int_equal(chain.n_readable, 2);
	assert_int_equal(chain.n_writable, 2);
	assert_true(chain.readable_bytes == 16 && chain.writable_bytes == 0xfffffff0); /* 2^32 in all, no more */
	assert_int_equal(chain.head, 5);
	assert_int_equal(chain.n_descs, 4);
	assert_int_equal(rig.looked_up, 0); /* addresses of buffers are not the ring's business */
	require_empty();
	rig_close(&rig);
}

static void test_indirect(void **state)
{
	(void)state;
	open_split(PH_RING_INDIRECT, 8);
	void *table = rig_at(&rig, rig.data + 1024 + 8); /* it need not be aligned */
	rig_desc(table, 0, rig.data + 10, 1, PH_DESC_NEXT, 2);
	rig_desc(table, 2, rig.data + 20, 2, PH_DESC_NEXT | PH_DESC_WRITE, 1);
	rig_desc(table, 1, rig.data + 30, 3, PH_DESC_WRITE, 0);
	desc(3, 1024 + 8, 48, PH_DESC_INDIRECT | PH_DESC_WRITE, 0); /* write means nothing beside indirect */
	rig_offer(&rig, 3);
	struct ph_chain chain = pop();
	require_segment(&chain, 0, 10, 1, 0);
	require_segment(&chain, 1, 20, 2, 1);
	require_segment(&chain, 2, 30, 3, 1);
	assert_int_equal(chain.n_descs, 1);
	assert_int_equal(rig.looked_up, 1);
	/* direct ones may stand before it */
	desc(6, 0, 4, PH_DESC_NEXT, 4);
	desc(4, 1024 + 8, 48, PH_DESC_INDIRECT, 0);
	rig_offer(&rig, 6);
	chain = pop();
	require_segment(&chain, 0, 0, 4, 0);
	require_segment(&chain, 1, 10, 1, 0);
	assert_int_equal(chain.n_readable + chain.n_writable, 4);
	assert_int_equal(chain.n_descs, 2);
	rig_close(&rig);
}

static void test_completed_once_in_any_order(void **state)
{
	(void)state;
	open_split(0, 4);
	for (uint16_t i = 0; i < 3; i++) {
		desc(i, 0, 8, PH_DESC_WRITE, 0);
		rig_offer(&rig, i);
	}
	struct ph_chain a = pop(), b = pop(), c = pop();
	assert_int_equal(rig.device.out, 3);
	complete(c.ticket, 3);
	complete(a.ticket, 1);
	assert_int_equal(ph_ring_device_complete(&rig.device, a.ticket, 1), -EALREADY);
	assert_int_equal(ph_ring_device_complete(&rig.device, 0, 1), -EALREADY);
	assert_int_equal(ph_ring_device_complete(&rig.device, UINT64_MAX, 1), -EALREADY);
	assert_int_equal(ph_ring_device_complete(&rig.device, 1u << 16 | 4u, 1), -EALREADY); /* no such slot */
	assert_int_equal(ph_le16_get(&rig_used(&rig)->idx), 0); /* nothing is shown before the flush */
	assert_int_equal(ph_ring_device_flush(&rig.device), 1);
	assert_int_equal(ph_le16_get(&rig_used(&rig)->idx), 2);
	require_used(0, 2, 3);
	require_used(1, 0, 1);
	assert_int_equal(ph_ring_device_flush(&rig.device), 0);
	/* the same head again has another ticket; the old one stays dead */
	rig_offer(&rig, 0);
	struct ph_chain again = pop();
	assert_int_equal(again.head, 0);
	assert_int_equal(ph_ring_device_complete(&rig.device, a.ticket, 0), -EALREADY);
	complete(again.ticket, 0);
	complete(b.ticket, 0);
	assert_int_equal(rig.device.out, 0);
	rig_close(&rig);
}

static void test_unpop(void **state)
{
	(void)state;
	open_split(0, 4);
	desc(1, 0, 8, 0, 0);
	desc(2, 0, 9, 0, 0);
	rig_offer(&rig, 1);
	rig_offer(&rig, 2);
	struct ph_chain a = pop(), b = pop();
	assert_int_equal(ph_ring_device_unpop(&rig.device, a.ticket), -EALREADY);
	assert_int_equal(ph_ring_device_unpop(&rig.device, b.ticket), 0);
	assert_int_equal(ph_ring_device_unpop(&rig.device, b.ticket), -EALREADY);
	assert_int_equal(ph_ring_device_complete(&rig.device, b.ticket, 0), -EALREADY);
	b = pop();
	assert_int_equal(b.head, 2);
	complete(b.ticket, 0);
	assert_int_equal(ph_ring_device_unpop(&rig.device, b.ticket), -EALREADY);
	require_empty();
	rig_close(&rig);
}

static void test_budget(void **state)
{
	(void)state;
	open_split(0, 8);
	for (uint16_t i = 0; i < 8; i += 2) {
		desc(i, 0, 1, PH_DESC_NEXT, (uint16_t)(i + 1));
		desc(i + 1u, 0, 1, 0, 0);
		rig_offer(&rig, i);
	}
	struct ph_chain chain;
	budget = 3;
	assert_int_equal(ph_ring_device_pop(&rig.device, &budget, &chain), 0);
	assert_int_equal(budget, 1);
	assert_int_equal(ph_ring_device_pop(&rig.device, &budget, &chain), 0); /* it is not cut short */
	assert_int_equal(budget, 0);
	assert_int_equal(ph_ring_device_pop(&rig.device, &budget, &chain), -EAGAIN);
	budget = 100;
	pop();
	chain = pop();
	assert_int_equal(chain.head, 6);
	assert_int_equal(budget, 96);
	require_empty();
	assert_int_equal(budget, 96);
	rig_close(&rig);
}

static void use_one(uint16_t head)
{
	rig_offer(&rig, head);
	complete(pop().ticket, 0);
}

static void test_interrupts(void **state)
{
	(void)state;
	open_split(0, 4);
	desc(0, 0, 1, 0, 0);
	use_one(0);
	assert_int_equal(ph_ring_device_flush(&rig.device), 1);
	ph_le16_put(&rig_avail(&rig)->flags, PH_AVAIL_NO_INTERRUPT);
	use_one(0);
	assert_int_equal(ph_ring_device_flush(&rig.device), 0);
	rig_close(&rig);
	open_split(PH_RING_EVENT_IDX, 4);
	ph_le16_put(&rig_avail(&rig)->flags, PH_AVAIL_NO_INTERRUPT); /* means nothing now */
	desc(0, 0, 1, 0, 0);
	ph_le16_put(rig_used_event(&rig), 2);
	for (uint32_t i = 0; i < 6; i++) {
		use_one(0);
		assert_int_equal(ph_ring_device_flush(&rig.device), i == 2);
	}
	ph_le16_put(rig_used_event(&rig), 7);
	use_one(0);
	use_one(0);
	use_one(0);
	assert_int_equal(ph_ring_device_flush(&rig.device), 1); /* in the middle of a batch */
	rig_close(&rig);
}

static void test_kicks(void **state)
{
	(void)state;
	open_split(0, 4);
	desc(0, 0, 1, 0, 0);
	ph_ring_device_disarm(&rig.device);
	assert_int_equal(ph_le16_get(&rig_used(&rig)->flags), PH_USED_NO_NOTIFY);
	assert_int_equal(ph_ring_device_arm(&rig.device), 0);
	assert_int_equal(ph_le16_get(&rig_used(&rig)->flags), 0);
	rig_offer(&rig, 0);
	assert_int_equal(ph_ring_device_arm(&rig.device), 1); /* it came before we asked */
	for (uint16_t i = 1; i < 4; i++)
		rig_offer(&rig, i);
	assert_int_equal(ph_ring_device_arm(&rig.device), 1); /* all of the ring is not too much */
	rig_close(&rig);
	open_split(PH_RING_EVENT_IDX, 4);
	desc(0, 0, 1, 0, 0);
	use_one(0);
	ph_ring_device_disarm(&rig.device);
	assert_int_equal(ph_le16_get(&rig_used(&rig)->flags), 0);
	assert_int_equal(ph_ring_device_arm(&rig.device), 0);
	assert_int_equal(ph_le16_get(rig_avail_event(&rig)), 1);
	rig_offer(&rig, 0);
	assert_int_equal(ph_ring_device_arm(&rig.device), 1);
	rig_close(&rig);
}

static void test_init(void **state)
{
	(void)state;
	open_split(0, 4);
	struct ph_ring_device ring;
	struct ph_ring_setup setup = { .place = rig.place, .form = 0, .size = 4, .memory = { &rig, rig_host } };
	assert_int_equal(ph_ring_device_memory(0), 0);
	assert_int_equal(ph_ring_device_memory(PH_RING_SIZE_MAX + 1), 0);
	assert_true(ph_ring_device_memory(PH_RING_SIZE_MAX) >= PH_RING_SIZE_MAX * sizeof(struct ph_segment));
	setup.form = PH_RING_IN_ORDER;
	assert_int_equal(ph_ring_device_init(&ring, &setup, rig.device_memory), -EINVAL);
	setup.form = 0;
	setup.memory.host = NULL;
	assert_int_equal(ph_ring_device_init(&ring, &setup, rig.device_memory), -EINVAL);
	setup.memory.host = rig_host;
	setup.size = 8;
	assert_int_equal(ph_ring_device_init(&ring, &setup, rig.device_memory), -ERANGE);
	rig_close(&rig);
}

/* bytes in and out of chains, over the ends of buffers */
static void test_chain_bytes(void **state)
{
	(void)state;
	unsigned char bytes[32];
	size_t n = 99;
	open_split(0, 8);
	desc(0, 0, 3, PH_DESC_NEXT, 1);
	desc(1, 50, 0, PH_DESC_NEXT, 2);
	desc(2, 10, 5, PH_DESC_NEXT, 3);
	desc(3, 20, 2, PH_DESC_NEXT | PH_DESC_WRITE, 4);
	desc(4, 30, 4, PH_DESC_NEXT | PH_DESC_WRITE, 5);
	rig_desc(rig.place.desc, 5, 16, 8, PH_DESC_WRITE, 0); /* not in guest memory */
	rig_offer(&rig, 0);
	struct ph_chain chain = pop();
	memcpy(rig_at(&rig, rig.data), "abc", 3);
	memcpy(rig_at(&rig, rig.data + 10), "defgh", 5);
	assert_int_equal(ph_chain_read(&rig.device, &chain, 0, bytes, sizeof(bytes), &n), 0);
	assert_int_equal(n, 8);
	assert_memory_equal(bytes, "abcdefgh", 8);
	assert_int_equal(ph_chain_read(&rig.device, &chain, 2, bytes, 4, &n), 0);
	assert_int_equal(n, 4);
	assert_memory_equal(bytes, "cdef", 4);
	assert_int_equal(ph_chain_read(&rig.device, &chain, 8, bytes, 4, &n), 0);
	assert_int_equal(n, 0);
	assert_int_equal(ph_chain_write(&rig.device, &chain, 1, "wxyz", 4, &n), 0);
	assert_int_equal(n, 4);
	assert_memory_equal(rig_at(&rig, rig.data + 20), "\0w\0", 3);
	assert_memory_equal(rig_at(&rig, rig.data + 30), "xyz\0", 4);
	assert_int_equal(ph_chain_write(&rig.device, &chain, 4, "12345", 5, &n), -ERANGE);
	assert_int_equal(n, 2);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chain),
		cmocka_unit_test(test_indirect),
		cmocka_unit_test(test_completed_once_in_any_order),
		cmocka_unit_test(test_unpop),
		cmocka_unit_test(test_budget),
		cmocka_unit_test(test_interrupts),
		cmocka_unit_test(test_kicks),
		cmocka_unit_test(test_init),
		cmocka_unit_test(test_chain_bytes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
