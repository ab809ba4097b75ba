/*
 * Our driver on our device, in one process: what one end takes the other gives, on split and packed rings, over real memory.
 * The guest's memory is a memfd; the device gives it back by the madvise backend, and st_blocks say that it went.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <endian.h>
#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <pagehint/device.h>
#include <pagehint/device_control.h>
#include <pagehint/driver.h>
#include <pagehint/host.h>
#include <pagehint/map.h>
#include <pagehint/zone.h>

#include "support/ends_link.h"

#define MIB (UINT64_C(1) << 20)
#define FRAME UINT64_C(4096)
#define RAM (256 * MIB)
#define DMA MIB          /* what both ends share lies at 1 MiB */
#define FIRST (16 * MIB) /* from here on the zone's */
#define FEATURES (PAGEHINT_DEVICE_FEATURES_DEFAULT & ~(uint64_t)(PAGEHINT_BALLOON_F_PAGE_POISON))

struct ends {
	int fd;
	struct pagehint_map *map;
	struct pagehint_backend *backend;
	struct ends_link link; /* the device is there */
	void *virtio_memory, *memory;
	struct pagehint_virtio *virtio;
	struct pagehint_driver *driver;
	struct pagehint_zone *zone;
	struct pagehint_driver_zone from;
	uint64_t hinted; /* frames, as the device heard */
};

/* ---- both ends ---- */

static void hinted(void *ctx, uint32_t id, const struct pagehint_run *runs, uint32_t n)
{
	struct ends *e = ctx;
	assert_true(id >= 2);
	for (uint32_t i = 0; i < n; i++)
		e->hinted += runs[i].frames;
}

static uint32_t get_stats(void *ctx, struct pagehint_driver_stat *stats, uint32_t max)
{
	(void)ctx;
	assert_true(max >= 1);
	stats[0] = (struct pagehint_driver_stat) { .tag = PAGEHINT_BALLOON_STAT_MEMFREE, .value = 12345 * FRAME };
	return 1;
}

static void open_device(struct ends *e, uint64_t features)
{
	struct pagehint_region_desc region = { .struct_size = sizeof(region), .frames = RAM / FRAME };
	struct pagehint_device_hooks hooks = { .struct_size = sizeof(hooks), .ctx = e, .hinted = hinted };
	struct pagehint_device_opts opts = { .struct_size = sizeof(opts),
					     .features = features,
					     .hooks = &hooks,
					     .numbering = PAGEHINT_BALLOON_NUMBERING_QEMU };
	uint64_t id;
	e->fd = memfd_create("guest", MFD_CLOEXEC);
	assert_true(e->fd >= 0 && ftruncate(e->fd, (off_t)RAM) == 0);
	e->link.ram = mmap(NULL, RAM, PROT_READ | PROT_WRITE, MAP_SHARED, e->fd, 0);
	assert_ptr_not_equal(e->link.ram, MAP_FAILED);
	region.fd = e->fd;
	region.host_addr = (uintptr_t)e->link.ram;
	assert_int_equal(pagehint_map_new(NULL, &e->map), 0);
	assert_int_equal(pagehint_map_add(e->map, &region, &id), 0);
	assert_int_equal(pagehint_madvise_new(e->map, NULL, NULL, &e->backend), 0);
	assert_int_equal(pagehint_device_new(e->map, e->backend, NULL, &opts, &e->link.device), 0);
}

static void open_driver(struct ends *e)
{
	struct pagehint_zone_opts zone = { .struct_size = sizeof(zone) };
	struct pagehint_driver_opts opts = { .struct_size = sizeof(opts), .dma_address = DMA };
	struct pagehint_driver_ops frames;
	uint64_t bytes;
	assert_int_equal(pagehint_zone_new(&zone, &e->zone), 0);
	assert_int_equal(pagehint_zone_add(e->zone, FIRST / FRAME, (RAM - FIRST) / FRAME), 0);
	e->from.zone = e->zone;
	assert_int_equal(pagehint_driver_zone_ops(&frames), 0);
	frames.get_stats = get_stats;
	assert_int_equal(pagehint_driver_size(&opts, &bytes, &opts.dma_bytes), 0);
	assert_true(opts.dma_bytes <= FIRST - DMA);
	memset(e->link.ram + DMA, 0, (size_t)opts.dma_bytes);
	e->memory = aligned_alloc(64, (size_t)((bytes + 63) / 64 * 64));
	e->virtio_memory = malloc((size_t)pagehint_virtio_size());
	assert_int_equal(
		pagehint_virtio_init(e->virtio_memory, pagehint_virtio_size(), &link_ops, &e->link, &e->virtio), 0);
	assert_int_equal(pagehint_driver_init(e->memory, bytes, e->link.ram + DMA, e->virtio, &frames, &e->from, &opts,
					      &e->driver),
			 0);
	assert_int_equal(pagehint_driver_start(e->driver, e->link.now), 0);
}

static void open_ends(struct ends *e, uint64_t features)
{
	memset(e, 0, sizeof(*e));
	e->link.now = 1;
	open_device(e, features);
	open_driver(e);
}

static void close_ends(struct ends *e)
{
	assert_int_equal(pagehint_driver_reset(e->driver, e->link.now), 0);
	assert_int_equal(pagehint_zone_check(e->zone, NULL), 0);
	struct pagehint_zone_stats stats = { .struct_size = sizeof(stats) };
	assert_int_equal(pagehint_zone_stats(e->zone, &stats), 0);
	assert_int_equal(stats.free, stats.total);
	assert_int_equal(pagehint_device_free(e->link.device), 0);
	assert_int_equal(pagehint_backend_free(e->backend), 0);
	pagehint_map_free(e->map);
	pagehint_zone_destroy(e->zone);
	munmap(e->link.ram, RAM);
	close(e->fd);
	free(e->memory);
	free(e->virtio_memory);
}

/* Both take turns until neither has anything left. */
static void settle(struct ends *e)
{
	struct pagehint_device_work work = { .struct_size = sizeof(work) };
	uint64_t deadline;
	for (uint32_t turn = 0; turn < 10000; turn++) {
		assert_int_equal(pagehint_device_step(e->link.device, e->link.now, &work), 0);
		link_told(&e->link, &work);
		(void)pagehint_driver_interrupt(e->driver,
						PAGEHINT_VIRTIO_INTERRUPT_QUEUE | PAGEHINT_VIRTIO_INTERRUPT_CONFIG);
		assert_int_equal(pagehint_driver_step(e->driver, e->link.now, &deadline), 0);
		if (e->link.kicked == 0)
			return;
		for (uint32_t q = 0; q < PAGEHINT_BALLOON_Q_COUNT; q++) {
			if ((e->link.kicked >> q & 1) == 0)
				continue;
			e->link.kicked &= ~(1u << q);
			assert_int_equal(pagehint_device_queue_kick(e->link.device, q, e->link.now, &work), 0);
			link_told(&e->link, &work);
		}
	}
	fail_msg("the two never rest");
}

static uint64_t host_bytes(const struct ends *e)
{
	struct stat st;
	assert_int_equal(fstat(e->fd, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

static struct pagehint_driver_stats driver_stats(const struct ends *e)
{
	struct pagehint_driver_stats stats = { .struct_size = sizeof(stats) };
	assert_int_equal(pagehint_driver_stats(e->driver, &stats), 0);
	return stats;
}

static void fill(struct ends *e, uint64_t frame, uint64_t frames)
{
	memset(e->link.ram + frame * FRAME, 0x5a, (size_t)(frames * FRAME));
}

static const uint64_t forms[] = { 0, PAGEHINT_VIRTIO_F_RING_PACKED };

static void test_reports(void **state)
{
	static struct ends e;
	(void)state;
	for (uint32_t form = 0; form < 2; form++) {
		struct pagehint_run runs[300];
		const struct pagehint_run *back;
		uint64_t cookie = 0, first = FIRST / FRAME;
		int32_t result = 1;
		uint32_t n;
		open_ends(&e, FEATURES | forms[form]);
		fill(&e, first, 300 * 64);
		uint64_t before = host_bytes(&e);
		for (uint32_t i = 0; i < 300; i++)
			runs[i] = (struct pagehint_run) { first + i * 64, 32 };
		assert_int_equal(pagehint_driver_report(e.driver, runs, 300, 9), 0);
		settle(&e);
		assert_int_equal(pagehint_driver_reap(e.driver, &cookie, &result, &back, &n), 0);
		assert_int_equal(result, 0);
		assert_int_equal(before - host_bytes(&e), 300 * 32 * FRAME);
		for (uint32_t i = 0; i < 300; i++)
			assert_int_equal(e.link.ram[(first + i * 64 + 32) * FRAME], 0x5a);
		close_ends(&e);
	}
}

static void test_the_balloon(void **state)
{
	static struct ends e;
	static const uint64_t targets[] = { 100, 20, 180, 3, 0, 64 };
	(void)state;
	for (uint32_t form = 0; form < 2; form++) {
		open_ends(&e, FEATURES | forms[form]);
		fill(&e, FIRST / FRAME, (RAM - FIRST) / FRAME);
		uint64_t all = host_bytes(&e);
		for (uint32_t i = 0; i < 6; i++) {
			struct pagehint_device_progress progress = { .struct_size = sizeof(progress) };
			assert_int_equal(pagehint_device_set_target(e.link.device, e.link.now, targets[i] * MIB, NULL),
					 0);
			settle(&e);
			assert_int_equal(driver_stats(&e).held, targets[i] * MIB / FRAME);
			assert_int_equal(link_config_read(&e.link, PAGEHINT_BALLOON_CONFIG_ACTUAL),
					 targets[i] * MIB / FRAME);
			assert_int_equal(pagehint_device_progress(e.link.device, e.link.now, &progress), 0);
			assert_int_equal(progress.state, PAGEHINT_DEVICE_PROGRESS_REACHED);
			if (i == 0)
				assert_int_equal(all - host_bytes(&e), 100 * MIB);
			e.link.now += 1000000000;
		}
		close_ends(&e);
	}
}

static void test_hints_and_statistics(void **state)
{
	static struct ends e;
	(void)state;
	for (uint32_t form = 0; form < 2; form++) {
		uint64_t frames[32];
		struct pagehint_device_sample sample = { .struct_size = sizeof(sample) };
		open_ends(&e, FEATURES | forms[form]);
		for (uint32_t i = 0; i < 32; i++) {
			assert_int_equal(pagehint_zone_alloc(e.zone, 9, &frames[i]), 0);
			fill(&e, frames[i], 512);
		}
		for (uint32_t i = 0; i < 32; i++)
			assert_int_equal(pagehint_zone_free(e.zone, frames[i], 9), 0);
		settle(&e);
		uint64_t before = host_bytes(&e);
		assert_int_equal(pagehint_device_hint_start(e.link.device, NULL), 0);
		settle(&e);
		assert_int_equal(e.hinted, 32 * 512);
		assert_int_equal(driver_stats(&e).hinting, 32 * 512);
		assert_int_equal(host_bytes(&e), before); /* a hint discards nothing */
		assert_int_equal(pagehint_device_hint_done(e.link.device), 0);
		settle(&e);
		assert_int_equal(driver_stats(&e).hinting, 0);
		assert_int_equal(pagehint_device_stats_request(e.link.device), 0);
		settle(&e);
		assert_int_equal(pagehint_device_sample(e.link.device, e.link.now, &sample), 0);
		assert_true((sample.known >> PAGEHINT_BALLOON_STAT_MEMFREE & 1) != 0);
		assert_int_equal(sample.value[PAGEHINT_BALLOON_STAT_MEMFREE], 12345 * FRAME);
		close_ends(&e);
	}
}

static void test_reset_and_again(void **state)
{
	static struct ends e;
	(void)state;
	for (uint32_t form = 0; form < 2; form++) {
		open_ends(&e, FEATURES | forms[form]);
		for (uint32_t round = 0; round < 5; round++) {
			uint64_t given = 0;
			assert_int_equal(
				pagehint_device_set_target(e.link.device, e.link.now, (10 + round) * MIB, NULL), 0);
			settle(&e);
			assert_int_equal(driver_stats(&e).held, (10 + round) * MIB / FRAME);
			int r = pagehint_driver_oom(e.driver, 512, e.link.now, &given);
			assert_true(r == 0 || r == -EAGAIN);
			settle(&e);
			assert_int_equal(driver_stats(&e).held, (10 + round) * MIB / FRAME - 512);
			assert_int_equal(pagehint_driver_reset(e.driver, e.link.now), 0);
			assert_int_equal(driver_stats(&e).held, 0);
			e.link.kicked = 0;
			assert_int_equal(pagehint_driver_start(e.driver, e.link.now), 0);
		}
		close_ends(&e);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reports),
		cmocka_unit_test(test_the_balloon),
		cmocka_unit_test(test_hints_and_statistics),
		cmocka_unit_test(test_reset_and_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
