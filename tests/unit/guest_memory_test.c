/* Guest memory over the map: what is given lies in one region; every edge of it. */
#include <errno.h>
#include <setjmp.h>
#include <stdlib.h>

#include "support/region.h"

#include <cmocka.h>

#include "virtio/guest_memory.h"

static struct ph_guest_memory memory;

static int look(uint64_t addr, uint64_t bytes, void **ret_host)
{
	return memory.host(memory.ctx, addr, bytes, 1, ret_host);
}

static void require_host(uint64_t addr, uint64_t bytes, const void *want)
{
	void *host = NULL;
	assert_int_equal(look(addr, bytes, &host), 0);
	assert_ptr_equal(host, want);
}

static void require_outside(uint64_t addr, uint64_t bytes)
{
	void *host = &memory;
	assert_int_equal(look(addr, bytes, &host), -ERANGE);
	assert_ptr_equal(host, &memory);
}

/* regions at frames 256..511 and 512..767, adjacent here and there; a hole from 768 on */
static void test_ranges(void **state)
{
	(void)state;
	unsigned char *bytes = anon(2 * MIB);
	struct pagehint_map *map = NULL;
	uint64_t id = 0;
	struct pagehint_region_desc low = describe(256, bytes, MIB, -1), high = describe(512, bytes + MIB, MIB, -1);
	assert_int_equal(pagehint_map_new(NULL, &map), 0);
	assert_int_equal(pagehint_map_add(map, &low, &id), 0);
	assert_int_equal(pagehint_map_add(map, &high, &id), 0);
	memory = ph_guest_memory_of_map(map);
	const uint64_t base = MIB;
	require_host(base, 1, bytes);
	require_host(base + 5, 4096, bytes + 5);
	require_host(base, MIB, bytes);
	require_host(base + MIB - 1, 1, bytes + MIB - 1);
	require_host(base + MIB, MIB, bytes + MIB);
	require_outside(base, 0);
	require_outside(base - 1, 1);
	require_outside(base - 1, 2);
	require_outside(base, MIB + 1);
	require_outside(base + MIB - 1, 2); /* both are there, but it is not one region */
	require_outside(base + 2 * MIB - 1, 2);
	require_outside(base + 2 * MIB, 1);
	require_outside(base, UINT64_MAX);
	require_outside(UINT64_MAX, 1);
	require_outside(UINT64_MAX, UINT64_MAX);
	require_outside(UINT64_MAX - 4095, 4096);
	assert_int_equal(pagehint_map_free(map), 0);
	munmap(bytes, 2 * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranges),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
