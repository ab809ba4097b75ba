/* A ring's areas, the event arithmetic against counting, and positions of a packed ring. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "virtio/ring.h"

static void test_layout(void **state)
{
	(void)state;
	assert_int_equal(sizeof(struct ph_desc), 16);
	assert_int_equal(offsetof(struct ph_desc, flags), 12);
	assert_int_equal(offsetof(struct ph_desc, next), 14);
	assert_int_equal(sizeof(struct ph_packed_desc), 16);
	assert_int_equal(offsetof(struct ph_packed_desc, id), 12);
	assert_int_equal(offsetof(struct ph_packed_desc, flags), 14);
	assert_int_equal(offsetof(struct ph_avail, ring), 4);
	assert_int_equal(offsetof(struct ph_used, ring), 4);
	assert_int_equal(sizeof(struct ph_used_elem), 8);
	assert_int_equal(ph_ring_desc_area_bytes(0, 256), 4096);
	assert_int_equal(ph_ring_driver_area_bytes(0, 256), 6 + 512);
	assert_int_equal(ph_ring_device_area_bytes(0, 256), 6 + 2048);
	assert_int_equal(ph_ring_driver_area_bytes(PH_RING_PACKED, 256), 4);
	assert_int_equal(ph_ring_device_area_bytes(PH_RING_PACKED, 256), 4);
}

/* on the wire everything is little-endian, whatever this machine is */
static void test_bytes(void **state)
{
	(void)state;
	struct ph_desc desc;
	static const unsigned char wire[16] = {
		8, 7, 6, 5, 4, 3, 2, 1, 0x44, 0x33, 0x22, 0x11, 0x02, 0x01, 0x04, 0x03
	};
	ph_addr_put(desc.addr, UINT64_C(0x0102030405060708));
	ph_le32_put(&desc.len, 0x11223344);
	ph_le16_put(&desc.flags, 0x0102);
	ph_le16_put(&desc.next, 0x0304);
	assert_memory_equal(&desc, wire, sizeof(wire));
	assert_true(ph_addr_get(desc.addr) == UINT64_C(0x0102030405060708));
	assert_int_equal(ph_le32_get(&desc.len), 0x11223344);
	assert_int_equal(ph_le16_get(&desc.flags), 0x0102);
	ph_le16_show(&desc.flags, 0x0a0b);
	assert_int_equal(ph_le16_see(&desc.flags), 0x0a0b);
	assert_int_equal(ph_le16_acquire(&desc.flags), 0x0a0b);
}

static void test_check(void **state)
{
	(void)state;
	static uint64_t memory[64] __attribute__((aligned(16)));
	struct ph_ring_place place = { memory, memory + 16, memory + 32, 64, 14, 38 };
	struct ph_ring_place other;
	assert_int_equal(ph_ring_check(0, 4, &place), 0);
	assert_int_equal(ph_ring_check(PH_RING_PACKED, 3, &place), 0);
	assert_int_equal(ph_ring_check(0, 3, &place), -EINVAL);
	assert_int_equal(ph_ring_check(0, 0, &place), -EINVAL);
	assert_int_equal(ph_ring_check(PH_RING_PACKED, 0, &place), -EINVAL);
	assert_int_equal(ph_ring_check(0, 65536, &place), -EINVAL);
	assert_int_equal(ph_ring_check(16, 4, &place), -EINVAL);
	other = (struct ph_ring_place) { memory, memory, memory, 1u << 20, 1u << 20, 1u << 20 };
	assert_int_equal(ph_ring_check(0, PH_RING_SIZE_MAX, &other), 0);
	assert_int_equal(ph_ring_check(PH_RING_PACKED, PH_RING_SIZE_MAX, &other), 0);
	assert_int_equal(ph_ring_check(PH_RING_PACKED, PH_RING_SIZE_MAX + 1, &other), -EINVAL);
	assert_int_equal(ph_ring_check(0, 8, &place), -ERANGE);
	for (int area = 0; area < 3; area++) {
		other = place;
		*(area == 0 ? &other.desc_bytes : area == 1 ? &other.driver_bytes : &other.device_bytes) -= 1;
		assert_int_equal(ph_ring_check(0, 4, &other), -ERANGE);
		other = place;
		*(area == 0 ? &other.desc : area == 1 ? &other.driver : &other.device) = NULL;
		assert_int_equal(ph_ring_check(0, 4, &other), -EINVAL);
	}
	other = place;
	other.desc = (char *)place.desc + 8;
	assert_int_equal(ph_ring_check(0, 2, &other), -EINVAL);
	other = place;
	other.driver = (char *)place.driver + 2; /* enough for an available ring, not for a packed ring's structure */
	assert_int_equal(ph_ring_check(0, 4, &other), 0);
	assert_int_equal(ph_ring_check(PH_RING_PACKED, 4, &other), -EINVAL);
	other = place;
	other.device = (char *)place.device + 2;
	assert_int_equal(ph_ring_check(0, 4, &other), -EINVAL);
}

static void test_form(void **state)
{
	(void)state;
	assert_int_equal(ph_ring_form(0), 0);
	assert_int_equal(ph_ring_form(UINT64_C(1) << 28), PH_RING_INDIRECT);
	assert_int_equal(ph_ring_form(UINT64_C(1) << 29), PH_RING_EVENT_IDX);
	assert_int_equal(ph_ring_form(UINT64_C(1) << 34), PH_RING_PACKED);
	assert_int_equal(ph_ring_form(UINT64_C(1) << 35), PH_RING_IN_ORDER);
	assert_int_equal(ph_ring_form(UINT64_MAX), PH_RING_FORM_ALL);
	for (uint32_t why = 0; why < PH_RING_WHY_COUNT; why++)
		assert_string_not_equal(ph_ring_why_name(why), "?");
	assert_string_equal(ph_ring_why_name(PH_RING_WHY_COUNT), "?");
}

/* The event is wanted exactly if one of the entries from .. to-1 is the one asked for. */
static void test_split_events(void **state)
{
	(void)state;
	for (uint32_t from = 65530; from < 65530 + 12; from++)
		for (uint32_t n = 0; n < 12; n++)
			for (uint32_t event = 65525; event < 65525 + 30; event++) {
				int wanted = event - from < n;
				assert_int_equal(
					ph_ring_event_passed((uint16_t)event, (uint16_t)(from + n), (uint16_t)from),
					wanted);
			}
}

/* The same, with laps: position p of lap l is the entry number l * size + p. */
static void test_packed_events(void **state)
{
	(void)state;
	const uint32_t size = 5;
	for (uint32_t from = 0; from < 2 * size; from++)
		for (uint32_t n = 1; n <= size; n++)
			for (uint32_t event = from; event < from + 2 * size; event++) {
				uint16_t at = ph_packed_ahead(PH_PACKED_START, from % size, size),
					 place = PH_PACKED_START;
				at = from >= size ? (uint16_t)(at ^ PH_EVENT_WRAP) : at;
				for (uint32_t i = 0; i < event; i++)
					place = ph_packed_ahead(place, 1, size);
				uint16_t to = ph_packed_ahead(at, n, size);
				int wanted = ph_packed_wanted((uint32_t)PH_EVENT_DESC << 16 | place, PH_RING_EVENT_IDX,
							      to, n, size);
				assert_int_equal(wanted, event < from + n);
				assert_int_equal(ph_packed_back(to, n, size), at);
			}
	/* what is reserved or was not negotiated: always; never only if that was said */
	assert_int_equal(ph_packed_wanted(2u << 16, 0, 0, 1, size), 1);
	assert_int_equal(ph_packed_wanted(3u << 16, PH_RING_EVENT_IDX, 0, 1, size), 1);
	assert_int_equal(ph_packed_wanted(0, PH_RING_EVENT_IDX, 0, 1, size), 1);
	assert_int_equal(ph_packed_wanted(1u << 16, PH_RING_EVENT_IDX, 0, 1, size), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_layout),       cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_check),        cmocka_unit_test(test_form),
		cmocka_unit_test(test_split_events), cmocka_unit_test(test_packed_events),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
