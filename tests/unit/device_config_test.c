/* Config space, target and progress: what the guest may write, what saturates, and when slow is failed. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "fakes/guest.h"
#include "virtio/device_progress.h"

#define MEMORY ((GUEST_LOW + GUEST_HIGH + GUEST_ROM) * 4096)

/* ---- config space ---- */

static uint32_t config32(struct guest *g, uint32_t offset)
{
	unsigned char b[4];
	assert_int_equal(pagehint_device_config_read(g->device, offset, b, 4), 0);
	return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static void config_space_is_little_endian_and_guarded(void **state)
{
	(void)state;
	struct guest_how how = { .bare = 1 };
	struct guest *g = guest_open(&how);
	unsigned char all[16], byte;
	uint64_t got = 0;
	guest_boot(g, 0);
	assert_int_equal(pagehint_device_set_target(g->device, g->now, 0x123 * 4096 + 4095, &got), 0);
	assert_int_equal(got, 0x123 * 4096);
	assert_int_equal(pagehint_device_config_read(g->device, 0, all, 16), 0);
	assert_memory_equal(all, "\x23\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);
	assert_int_equal(pagehint_device_config_read(g->device, 1, &byte, 1), 0);
	assert_int_equal(byte, 1);
	assert_int_equal(pagehint_device_config_read(g->device, 16, all, 0), 0);
	assert_int_equal(pagehint_device_config_read(g->device, 16, all, 1), -EINVAL);
	assert_int_equal(pagehint_device_config_read(g->device, 1, all, 16), -EINVAL);
	assert_int_equal(pagehint_device_config_read(g->device, UINT32_MAX, all, 2), -EINVAL);
	assert_int_equal(pagehint_device_config_read(g->device, 2, all, UINT32_MAX), -EINVAL);
	assert_int_equal(pagehint_device_config_write(g->device, g->now, 12, all, 5), -EINVAL);
	assert_int_equal(pagehint_device_config_write(g->device, g->now, UINT32_MAX, all, 4), -EINVAL);
	/* the target and the hint id are not the guest's to write */
	memset(all, 0xff, sizeof(all));
	assert_int_equal(pagehint_device_config_write(g->device, g->now, 0, all, 4), 0);
	assert_int_equal(pagehint_device_config_write(g->device, g->now, 8, all, 4), 0);
	assert_int_equal(guest_dropped(g, PAGEHINT_DEVICE_DROP_CONFIG), 2);
	assert_int_equal(config32(g, 0), 0x123);
	assert_int_equal(config32(g, 8), 0);
	/* `actual`, byte by byte */
	for (uint32_t i = 0; i < 4; i++) {
		byte = (unsigned char)(0x00000456 >> 8 * i);
		assert_int_equal(pagehint_device_config_write(g->device, g->now, 4 + i, &byte, 1), 0);
	}
	assert_int_equal(config32(g, 4), 0x456);
	guest_close(g);
}

static void late_poison_is_taken_and_counted(void **state)
{
	(void)state;
	struct guest_how how = { .bare = 1 };
	struct guest *g = guest_open(&how);
	unsigned char poison[4] = { 1, 2, 3, 4 };
	assert_int_equal(pagehint_device_set_features(g->device, pagehint_device_features(g->device)), 0);
	assert_int_equal(pagehint_device_set_status(g->device, 11), 0);
	assert_int_equal(pagehint_device_config_write(g->device, g->now, 12, poison, 4), 0);
	assert_int_equal(pagehint_device_set_status(g->device, 15), 0);
	assert_int_equal(pagehint_device_config_write(g->device, g->now, 12, poison, 4), 0);
	assert_int_equal(guest_dropped(g, PAGEHINT_DEVICE_DROP_LATE_POISON), 0);
	poison[0] = 9;
	assert_int_equal(pagehint_device_config_write(g->device, g->now, 12, poison, 4), 0);
	assert_int_equal(guest_dropped(g, PAGEHINT_DEVICE_DROP_LATE_POISON), 1);
	assert_int_equal(config32(g, 12), 0x04030209);
	guest_close(g);
}

/* ---- target and progress ---- */

static struct pagehint_device_progress progress(struct guest *g)
{
	struct pagehint_device_progress p = { .struct_size = sizeof(p) };
	assert_int_equal(pagehint_device_progress(g->device, g->now, &p), 0);
	return p;
}

static void write_actual(struct guest *g, uint32_t pages)
{
	unsigned char b[4] = { (unsigned char)pages, (unsigned char)(pages >> 8), (unsigned char)(pages >> 16),
			       (unsigned char)(pages >> 24) };
	assert_int_equal(pagehint_device_config_write(g->device, g->now, 4, b, 4), 0);
}

static void a_target_is_clamped_to_the_memory_there_is(void **state)
{
	(void)state;
	struct guest_how how = { .bare = 1 };
	struct guest *g = guest_open(&how);
	uint64_t got;
	guest_boot(g, 0);
	assert_int_equal(pagehint_device_set_target(g->device, g->now, UINT64_MAX, &got), 0);
	assert_int_equal(got, MEMORY);
	assert_int_equal(guest_step(g), 0);
	assert_int_equal(g->work.events, PAGEHINT_DEVICE_EVENT_CONFIG);
	/* the same again is no news */
	assert_int_equal(pagehint_device_set_target(g->device, g->now, UINT64_MAX, NULL), 0);
	assert_int_equal(guest_step(g), 0);
	assert_int_equal(g->work.events, 0);
	/* a region goes: what is read follows */
	assert_int_equal(pagehint_map_remove(g->map, g->high), 0);
	assert_int_equal(config32(g, 0), MEMORY / 4096 - GUEST_HIGH);
	assert_int_equal(progress(g).memory_pages, MEMORY / 4096 - GUEST_HIGH);
	/* the guest's word saturates */
	write_actual(g, UINT32_MAX);
	assert_int_equal(progress(g).actual_pages, MEMORY / 4096 - GUEST_HIGH);
	assert_int_equal(config32(g, 4), UINT32_MAX);
	guest_close(g);
}

static void slow_is_not_failed_and_still_is(void **state)
{
	(void)state;
	struct guest_how how = { .bare = 1, .opts.stall_ns = 1000 };
	struct guest *g = guest_open(&how);
	assert_int_equal(progress(g).state, PAGEHINT_DEVICE_PROGRESS_NO_DRIVER);
	guest_boot(g, 0);
	assert_int_equal(progress(g).state, PAGEHINT_DEVICE_PROGRESS_REACHED);
	assert_int_equal(pagehint_device_set_target(g->device, g->now, 100 * 4096, NULL), 0);
	assert_int_equal(progress(g).eta_ns, UINT64_MAX);
	for (uint32_t i = 1; i <= 50; i++) {
		g->now += 999; /* always in time, always one page only */
		assert_int_equal(progress(g).state, PAGEHINT_DEVICE_PROGRESS_MOVING);
		write_actual(g, i);
	}
	struct pagehint_device_progress p = progress(g);
	assert_int_equal(p.moved_pages, 50);
	assert_int_equal(p.left_pages, 50);
	assert_int_equal(p.since_ns, 50 * 999);
	assert_int_equal(p.eta_ns, 50 * 999);
	g->now += 999;
	write_actual(g, 40); /* back is no progress */
	g->now += 1;
	p = progress(g);
	assert_int_equal(p.state, PAGEHINT_DEVICE_PROGRESS_STALLED);
	assert_int_equal(p.still_ns, 1000);
	write_actual(g, 50); /* as near as it was before: neither */
	assert_int_equal(progress(g).state, PAGEHINT_DEVICE_PROGRESS_STALLED);
	write_actual(g, 51);
	assert_int_equal(progress(g).state, PAGEHINT_DEVICE_PROGRESS_MOVING);
	write_actual(g, 100);
	assert_int_equal(progress(g).state, PAGEHINT_DEVICE_PROGRESS_REACHED);
	assert_int_equal(progress(g).eta_ns, 0);
	/* a reset gives the guest everything back, and the target stays */
	assert_int_equal(pagehint_device_reset(g->device), 0);
	assert_int_equal(progress(g).actual_pages, 0);
	assert_int_equal(progress(g).target_pages, 100);
	assert_int_equal(progress(g).state, PAGEHINT_DEVICE_PROGRESS_NO_DRIVER);
	guest_close(g);
}

static void arithmetic_of_an_eta_saturates(void **state)
{
	(void)state;
	struct ph_progress p = { .stall_ns = 1 };
	struct pagehint_device_progress read = { .struct_size = sizeof(read) };
	assert_int_equal(ph_progress_target(&p, 0, UINT64_MAX, UINT64_MAX), 1);
	assert_int_equal(p.target, UINT32_MAX);
	ph_progress_actual(&p, 5, 1, UINT64_MAX);
	ph_progress_read(&p, UINT64_MAX, &read);
	assert_true(read.eta_ns == UINT64_MAX);
	ph_progress_read(&p, 0, &read); /* time goes back: standing still */
	assert_int_equal(read.still_ns, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(config_space_is_little_endian_and_guarded),
		cmocka_unit_test(late_poison_is_taken_and_counted),
		cmocka_unit_test(a_target_is_clamped_to_the_memory_there_is),
		cmocka_unit_test(slow_is_not_failed_and_still_is),
		cmocka_unit_test(arithmetic_of_an_eta_saturates),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
