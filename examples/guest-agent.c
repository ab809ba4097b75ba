/*
 * guest-agent: the memory side of a small guest: an allocator, a balloon's driver and a reporter in one event loop.
 *
 * This is the part to read when you write a unikernel, a small guest kernel, or a driver in user space. What a guest has of
 * its own is: memory, a way to the device, a clock, and a hook for "the host is in want" and "we are out of memory". Here the
 * device is in the same process (agent/balloon.h) and guest memory is a memfd, so that what leaves can be seen; a real guest
 * calls pagehint_virtio_init_pci or _mmio where this calls balloon_open, and passes addresses of its own.
 *
 * usage: guest-agent            plays a short day of a guest, and fails when memory does not go and come as it should
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <pagehint/driver.h>
#include <pagehint/origin.h>
#include <pagehint/reporter.h>
#include <pagehint/zone.h>

#include "agent/balloon.h"

#define MIB (UINT64_C(1) << 20)
#define SECOND UINT64_C(1000000000)
#define FRAME UINT64_C(4096)
#define RAM_BYTES (256 * MIB)
#define DMA_BYTES (2 * MIB) /* the first of it are shared with the device */

struct agent {
	unsigned char *ram;
	int ram_fd;
	struct balloon balloon; /* the device: a real guest has a transport instead */
	struct pagehint_driver *driver;
	struct pagehint_zone *zone;
	struct pagehint_driver_zone balloon_takes;
	struct pagehint_origin *origin;
	struct pagehint_backend *backend;
	struct pagehint_reporter *reporter;
	void *driver_memory;
	uint64_t now_ns;
};

/* ---- the host, as the in-process device plays it ---- */

static void host_discards(void *ctx, uint64_t addr, uint64_t bytes, int is_back)
{
	struct agent *a = ctx;
	if (!is_back &&
	    fallocate(a->ram_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)addr, (off_t)bytes) != 0)
		perror("fallocate");
}

static uint64_t host_pays(const struct agent *a)
{
	struct stat st;
	return fstat(a->ram_fd, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

/* ---- the guest ---- */

static int open_ram(struct agent *a)
{
	a->ram_fd = memfd_create("guest", MFD_CLOEXEC);
	if (a->ram_fd < 0 || ftruncate(a->ram_fd, (off_t)RAM_BYTES) != 0)
		return -errno;
	void *ram = mmap(NULL, RAM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, a->ram_fd, 0);
	if (ram == MAP_FAILED)
		return -errno;
	a->ram = ram;
	return 0;
}

/* Drops caches, compacts: whatever makes whole blocks free before the balloon takes some. A guest without either has no hook. */
static void make_room(void *ctx, uint64_t frames)
{
	(void)ctx;
	printf("guest: the balloon is about to grow by %llu MiB\n", (unsigned long long)(frames * FRAME / MIB));
}

static int open_driver(struct agent *a)
{
	struct pagehint_driver_opts opts = { .struct_size = sizeof(opts) };
	struct pagehint_driver_ops ops;
	struct balloon_ask ask = { .ctx = a, .discard = host_discards, .dma = a->ram, .dma_address = 0 };
	uint64_t bytes;
	int rc = pagehint_driver_size(&opts, &bytes, &opts.dma_bytes);
	if (rc == 0 && opts.dma_bytes > DMA_BYTES)
		rc = -ENOMEM;
	if (rc == 0)
		rc = balloon_open(&a->balloon, &ask);
	if (rc == 0)
		rc = pagehint_driver_zone_ops(&ops);
	if (rc != 0)
		return rc;
	a->balloon_takes.zone = a->zone;
	ops.before_inflate = make_room;
	a->driver_memory = aligned_alloc(64, (size_t)((bytes + 63) / 64 * 64));
	if (a->driver_memory == NULL)
		return -ENOMEM;
	rc = pagehint_driver_init(a->driver_memory, bytes, a->ram, a->balloon.virtio, &ops, &a->balloon_takes, &opts,
				  &a->driver);
	/* a real device may take its time to reset: call again while it says -EAGAIN */
	return rc != 0 ? rc : pagehint_driver_start(a->driver, a->now_ns);
}

static int open_agent(struct agent *a)
{
	struct pagehint_zone_opts zone = { .struct_size = sizeof(zone), .flags = PAGEHINT_ZONE_LADDER };
	struct pagehint_reporter_opts reporter = { .struct_size = sizeof(reporter), .interval_ns = SECOND / 2 };
	int rc = open_ram(a);
	if (rc == 0)
		rc = pagehint_zone_new(&zone, &a->zone);
	if (rc == 0)
		rc = pagehint_zone_add(a->zone, DMA_BYTES / FRAME, (RAM_BYTES - DMA_BYTES) / FRAME);
	if (rc == 0)
		rc = open_driver(a);
	if (rc == 0)
		rc = pagehint_zone_origin_new(a->zone, &a->origin);
	if (rc == 0)
		rc = pagehint_driver_backend_new(a->driver, NULL, &a->backend);
	if (rc == 0)
		rc = pagehint_reporter_new(a->origin, a->backend, &reporter, &a->reporter);
	return rc;
}

/* One turn of the event loop. *ret_deadline: when the next is due, unless the device interrupts before. */
static int turn(struct agent *a, uint64_t *ret_deadline)
{
	uint64_t driver_deadline = UINT64_MAX, reporter_deadline = UINT64_MAX;
	/* where interrupts arrive, their handler calls this; `both` is for a device that only has one vector */
	(void)pagehint_driver_interrupt(a->driver, PAGEHINT_VIRTIO_INTERRUPT_QUEUE | PAGEHINT_VIRTIO_INTERRUPT_CONFIG);
	int rc = pagehint_reporter_step(a->reporter, a->now_ns, 0, &reporter_deadline);
	if (rc != 0)
		return rc;
	/* after the reporter, so that the deadline knows of what was just reported */
	rc = pagehint_driver_step(a->driver, a->now_ns, &driver_deadline);
	if (rc == -ENODEV) {
		/* it lied, or died: take everything back, and begin anew */
		rc = pagehint_driver_reset(a->driver, a->now_ns);
		if (rc == 0)
			rc = pagehint_driver_start(a->driver, a->now_ns);
		driver_deadline = a->now_ns; /* there is something to do at once */
		if (rc == -EAGAIN) {
			rc = 0;
			driver_deadline += SECOND / 1000; /* it takes its time to reset */
		}
	}
	*ret_deadline = driver_deadline < reporter_deadline ? driver_deadline : reporter_deadline;
	return rc;
}

/* Lets so much time pass; a guest would sleep until the deadline or an interrupt. */
static int pass(struct agent *a, uint64_t ns)
{
	uint64_t end_ns = a->now_ns + ns, deadline = 0;
	int rc = 0;
	for (unsigned turns = 0; rc == 0 && turns < 100000; turns++) {
		rc = turn(a, &deadline);
		if (deadline > end_ns)
			break;
		a->now_ns = deadline > a->now_ns ? deadline : a->now_ns;
	}
	a->now_ns = end_ns;
	return rc;
}

/* The hook for pressure: the host, or an operator, says how badly memory is wanted. */
static int on_pressure(struct agent *a, uint32_t level)
{
	return pagehint_reporter_pressure(a->reporter, level, 10 * SECOND);
}

/* The allocator's slow path: nothing is free, so the balloon has to give. */
static int allocate(struct agent *a, uint32_t order, uint64_t *ret_frame)
{
	uint64_t given;
	int rc = pagehint_zone_alloc(a->zone, order, ret_frame);
	for (unsigned i = 0; (rc == -ENOSPC || rc == -EAGAIN) && i < 16; i++) {
		rc = pagehint_driver_oom(a->driver, UINT64_C(1) << order, a->now_ns, &given);
		if (rc != 0 && rc != -EAGAIN)
			return rc;
		rc = pass(a, SECOND / 100);
		rc = rc != 0 ? rc : pagehint_zone_alloc(a->zone, order, ret_frame);
	}
	if (rc == 0)
		memset(a->ram + *ret_frame * FRAME, 0x5a, (size_t)(FRAME << order));
	return rc;
}

/* ---- a day ---- */

static uint64_t blocks[RAM_BYTES / MIB];

static int use(struct agent *a, size_t from, size_t to, uint32_t order)
{
	int rc = 0;
	for (size_t i = from; i < to && rc == 0; i++)
		rc = allocate(a, order, &blocks[i]);
	return rc;
}

static int drop(struct agent *a, size_t from, size_t to, uint32_t order)
{
	int rc = 0;
	for (size_t i = from; i < to && rc == 0; i++)
		rc = pagehint_zone_free(a->zone, blocks[i], order);
	return rc;
}

static int expect(const struct agent *a, const char *what, uint64_t least_mib, uint64_t most_mib)
{
	uint64_t mib = host_pays(a) / MIB;
	printf("host: pays %llu MiB %s\n", (unsigned long long)mib, what);
	if (mib >= least_mib && mib <= most_mib)
		return 0;
	printf("that should be %llu to %llu\n", (unsigned long long)least_mib, (unsigned long long)most_mib);
	return -ERANGE;
}

static uint64_t in_balloon(const struct agent *a)
{
	struct pagehint_driver_stats stats = { .struct_size = sizeof(stats) };
	return pagehint_driver_stats(a->driver, &stats) < 0 ? 0 : stats.held * FRAME;
}

static uint64_t breaks(const struct agent *a)
{
	struct pagehint_driver_stats stats = { .struct_size = sizeof(stats) };
	return pagehint_driver_stats(a->driver, &stats) < 0 ? 0 : stats.breaks;
}

static int play(struct agent *a)
{
	int rc = use(a, 0, 80, 9);
	rc = rc ? rc : expect(a, "while 160 MiB are in use", 160, 164);
	rc = rc ? rc : drop(a, 10, 80, 9);
	rc = rc ? rc : pass(a, 3 * SECOND);
	rc = rc ? rc : expect(a, "after 140 MiB were freed, and stayed so", 20, 24);
	/* the host wants a balloon of 192 MiB */
	balloon_want(&a->balloon, (uint32_t)(192 * MIB / FRAME));
	rc = rc ? rc : pass(a, SECOND);
	printf("guest: %llu MiB are in the balloon\n", (unsigned long long)(in_balloon(a) / MIB));
	if (rc == 0 && in_balloon(a) != 192 * MIB)
		rc = -ERANGE;
	/* the device breaks: all of it comes back to the guest, once, and goes into the balloon again */
	a->balloon.status |= PAGEHINT_VIRTIO_STATUS_NEEDS_RESET;
	rc = rc ? rc : pass(a, SECOND);
	printf("guest: %llu MiB are in the balloon of the device's second life\n",
	       (unsigned long long)(in_balloon(a) / MIB));
	if (rc == 0 && (in_balloon(a) != 192 * MIB || breaks(a) != 1))
		rc = -ERANGE;
	/* more is needed than is left: the balloon gives way, and does not come back at once */
	rc = rc ? rc : use(a, 10, 60, 9);
	rc = rc ? rc : expect(a, "while 120 MiB are in use", 120, 124);
	rc = rc ? rc : drop(a, 0, 60, 9);
	rc = rc ? rc : pass(a, 30 * SECOND);
	printf("guest: %llu MiB are in the balloon\n", (unsigned long long)(in_balloon(a) / MIB));
	balloon_want(&a->balloon, 0);
	rc = rc ? rc : pass(a, SECOND);
	/* small pieces do not go back by themselves; when the host is in want they do */
	rc = rc ? rc : use(a, 0, 200, 4);
	rc = rc ? rc : drop(a, 0, 199, 4);
	rc = rc ? rc : on_pressure(a, PAGEHINT_PRESSURE_FULL);
	rc = rc ? rc : pass(a, 3 * SECOND);
	rc = rc ? rc : expect(a, "while the host wants everything", 0, 3);
	return rc ? rc : drop(a, 199, 200, 4);
}

static int close_agent(struct agent *a)
{
	uint64_t deadline;
	int rc = pagehint_reporter_stop(a->reporter, a->now_ns, &deadline);
	rc = rc ? rc : pagehint_reporter_free(a->reporter);
	rc = rc ? rc : pagehint_backend_free(a->backend);
	pagehint_origin_free(a->origin);
	rc = rc ? rc : pagehint_driver_reset(a->driver, a->now_ns);
	if (rc == 0 && pagehint_zone_check(a->zone, NULL) != 0)
		rc = -EUCLEAN;
	pagehint_zone_destroy(a->zone);
	free(a->driver_memory);
	munmap(a->ram, RAM_BYTES);
	close(a->ram_fd);
	return rc;
}

int main(void)
{
	static struct agent agent;
	int rc = open_agent(&agent);
	rc = rc ? rc : play(&agent);
	rc = rc ? rc : close_agent(&agent);
	if (rc != 0)
		printf("guest-agent: %s\n", strerror(-rc));
	return rc != 0;
}
