/*
 * Both ends of a ring against each other: every form, with and without event indices, every size, random batches, out of
 * order; no request is lost, doubled or changed, and no side sleeps while the other has told it of something.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#include "support/ring_traffic.h"
#include "support/rounds.h"

#define REQUESTS 10000000ul /* over all forms */
#define FORMS 8u

static uint64_t seed;

static void require_traffic(const struct traffic *t)
{
	if (t->driver_fault == 0 && t->device_fault == 0)
		return;
	printf("form %" PRIu32 ", size %" PRIu32 ", seed %" PRIu64 ": line %d or %d of ring_traffic.h\n", t->rig.form,
	       t->rig.size, seed, t->driver_fault, t->device_fault);
	fail();
}

static void run(uint32_t form, uint32_t size, uint64_t total)
{
	struct traffic t;
	int driver_awake = 1, device_awake = 0, told = 0;
	traffic_open(&t, form, size, total, ++seed);
	while (t.reaped < total) {
		int driver_turn = driver_awake && (!device_awake || traffic_draw(&t.driver_random, 2) != 0);
		if (!driver_turn && !device_awake) {
			printf("both asleep: form %" PRIu32 ", size %" PRIu32 ", seed %" PRIu64 "\n", form, size, seed);
			fail();
		}
		if (driver_turn) {
			driver_awake = traffic_drive(&t, &told);
			device_awake |= told;
		} else {
			device_awake = traffic_serve(&t, &told);
			driver_awake |= told;
		}
		require_traffic(&t);
	}
	assert_int_equal(t.submitted, total);
	assert_int_equal(t.served, total);
	assert_int_equal(t.rig.driver.in_flight, 0);
	assert_int_equal(t.rig.driver.free_descs, size);
	assert_int_equal(t.rig.driver.tables_free, t.rig.driver.n_tables);
	assert_int_equal(t.rig.device.out, 0);
	assert_int_equal(t.rig.device.out_descs, 0);
	assert_true(t.kicks <= total && t.interrupts <= total);
	traffic_close(&t);
}

/* Bits of a number name the form: packed, event indices, indirect. */
static void test_every_form(void **state)
{
	(void)state;
	static const uint32_t split_sizes[] = { 256, 64, 8, 2, 1 }, packed_sizes[] = { 256, 100, 7, 3, 1 };
	uint64_t total = rounds_scaled(REQUESTS), requests = 0;
	seed = (uint64_t)time(NULL);
	for (uint32_t form = 0; form < FORMS; form++) {
		const uint32_t *sizes = form & PH_RING_PACKED ? packed_sizes : split_sizes;
		for (uint32_t i = 0; i < 5; i++) {
			/* most of them on the sizes that are used */
			uint64_t part = total / FORMS * (i < 2 ? 45 : i == 2 ? 8 : 1) / 100;
			run(form, sizes[i], part + 1);
			requests += part + 1;
		}
	}
	printf("%" PRIu64 " requests\n", requests);
	assert_true(requests >= total);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_form),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
