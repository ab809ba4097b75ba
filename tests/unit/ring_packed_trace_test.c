/* The packed device end does to a ring what another device was seen to do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/packed_trace.h"
#include "support/ring_rig.h"

static struct ph_packed_desc tables[2][3];

static int trace_host(void *ctx, uint64_t addr, uint64_t bytes, int want_write, void **ret_host)
{
	(void)ctx;
	assert_false(want_write);
	if (addr == TRACE_TABLE && bytes == 48)
		*ret_host = tables[0];
	else if (addr == TRACE_TABLE_W && bytes == 32)
		*ret_host = tables[1];
	else
		return -ERANGE;
	return 0;
}

static void open_ring(struct ring_rig *rig)
{
	rig_lay_out(rig, PH_RING_PACKED | PH_RING_EVENT_IDX | PH_RING_INDIRECT, TRACE_SIZE, 0, 0);
	rig_open_device(rig);
	rig->device.memory.host = trace_host;
	for (uint32_t i = 0; i < 3; i++)
		rig_desc(tables[0], i, TRACE_DATA + 4 * i, 4, 0, 0);
	for (uint32_t i = 0; i < 2; i++)
		rig_desc(tables[1], i, 0x400000 + 0x1000 * i, 0x1000, 0, PH_DESC_WRITE);
}

static void write_as_driver(const struct ring_rig *rig, const struct trace_step *step)
{
	ph_le32_show(rig->place.driver, step->event);
	for (uint32_t i = step->n; i-- > 0;) {
		const struct trace_write *w = &step->writes[i];
		rig_entry(rig, w->at, w->addr, w->len, w->id, w->flags);
	}
}

/* one by one, as that device does it: use, then look whether an interrupt is wanted */
static int serve(struct ring_rig *rig)
{
	struct ph_chain chain;
	uint32_t budget = 100;
	int interrupt = 0, err;
	while ((err = ph_ring_device_pop(&rig->device, &budget, &chain)) == 0) {
		assert_int_equal(ph_ring_device_complete(&rig->device, chain.ticket, 0), 0);
		interrupt |= ph_ring_device_flush(&rig->device);
	}
	assert_int_equal(err, -ENOENT);
	return interrupt;
}

static void require_ring(const struct ring_rig *rig, const struct trace_step *step)
{
	const struct ph_packed_desc *descs = rig->place.desc;
	for (uint32_t i = 0; i < TRACE_SIZE; i++) {
		assert_int_equal(ph_addr_get(descs[i].addr), step->ring[i].addr);
		assert_int_equal(ph_le32_get(&descs[i].len), step->ring[i].len);
		assert_int_equal(ph_le16_get(&descs[i].id), step->ring[i].id);
		assert_int_equal(ph_le16_get(&descs[i].flags), step->ring[i].flags);
	}
}

static void follow(const struct trace_step *steps, size_t n)
{
	struct ring_rig rig;
	open_ring(&rig);
	for (size_t i = 0; i < n; i++) {
		write_as_driver(&rig, &steps[i]);
		assert_int_equal(serve(&rig), steps[i].interrupt - steps[i].extra);
		require_ring(&rig, &steps[i]);
	}
	rig_close(&rig);
}

#define FOLLOW(steps) follow(steps, sizeof(steps) / sizeof((steps)[0]))

static void test_readable(void **state)
{
	(void)state;
	FOLLOW(trace_readable);
}

static void test_event(void **state)
{
	(void)state;
	FOLLOW(trace_event);
}

static void test_writable(void **state)
{
	(void)state;
	FOLLOW(trace_writable);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_readable),
		cmocka_unit_test(test_event),
		cmocka_unit_test(test_writable),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
