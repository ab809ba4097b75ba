/*
 * balloon: a guest whose memory a balloon device gives away: a zone under load, the library's driver over a ring in memory, the
 * zone's reporter over the driver's reporting queue, statistics, hints, out-of-memory, resets; the device (vmm.h) in a thread of
 * its own, with the host's madvise below.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <pagehint/driver.h>

#include "faults.h"
#include "ground.h"
#include "soak.h"
#include "taker.h"
#include "vmm.h"

#define FRAMES UINT64_C(4096) /* 16 MiB */
#define PART "balloon"
#define MILLISECOND UINT64_C(1000000)

static struct {
	struct ground ground;
	struct vmm vmm;
	struct taker taker; /* the guest's reporter; what became of memory is the device's to say */
	struct pagehint_driver_zone from;
	struct pagehint_driver_opts opts;
	void *memory;
	struct pagehint_driver *driver;
	struct pagehint_backend *backend;
	int runs; /* the driver does; else it is being reset or started */
	uint64_t now, resets, ooms;
} b;

static uint32_t get_stats(void *ctx, struct pagehint_driver_stat *stats, uint32_t max)
{
	(void)ctx;
	if (max == 0)
		return 0;
	stats[0] =
		(struct pagehint_driver_stat) { .value = FRAMES * CONTENT_PAGE, .tag = PAGEHINT_BALLOON_STAT_MEMTOT };
	return 1;
}

/* Starts it, or goes on with that: the device may need a while to confirm. */
static void start(void)
{
	int r = pagehint_driver_start(b.driver, b.now);
	b.runs = r == 0;
	if (r != 0 && r != -EAGAIN)
		(void)soak_bad(PART, "the driver does not start: %d", r);
}

/* The guest reboots, as far as its driver goes: what was in the balloon is the zone's again. */
static void reset(void)
{
	int r = pagehint_driver_reset(b.driver, b.now);
	if (r != 0 && r != -EAGAIN)
		(void)soak_bad(PART, "a reset gave %d", r);
	b.runs = 0;
	b.resets++;
}

static void out_of_memory(struct soak_member *m)
{
	uint64_t given;
	int r = pagehint_driver_oom(b.driver, 1 + soak_below(&m->chance, 256), b.now, &given);
	if (r != 0 && r != -EAGAIN)
		(void)soak_bad(PART, "out of memory gave %d", r);
	b.ooms++;
}

static int driver_turn(void *ctx, struct soak_member *m)
{
	uint64_t deadline;
	(void)ctx;
	b.now += MILLISECOND / 4;
	if (!b.runs) {
		start();
		return 1;
	}
	(void)pagehint_driver_interrupt(b.driver, PAGEHINT_VIRTIO_INTERRUPT_QUEUE | PAGEHINT_VIRTIO_INTERRUPT_CONFIG);
	int r = pagehint_driver_step(b.driver, b.now, &deadline);
	if (r != 0)
		(void)soak_bad(PART, "a step of the driver gave %d", r);
	if (soak_below(&m->chance, 4) == 0)
		(void)taker_turn(&b.taker, m);
	if (soak_below(&m->chance, 5000) == 0)
		out_of_memory(m);
	if (soak_below(&m->chance, 20000) == 0)
		reset();
	return 1;
}

static struct pagehint_driver_stats driver_stats(void)
{
	struct pagehint_driver_stats s = { .struct_size = sizeof(s) };
	(void)SOAK_MUST(PART, pagehint_driver_stats(b.driver, &s) == 0);
	return s;
}

static void walk(void *ctx)
{
	struct pagehint_driver_stats s = driver_stats();
	(void)ctx;
	(void)SOAK_MUST(PART, s.breaks == 0);
	ground_walk(&b.ground, 0, s.held + s.inflating + s.deflating + s.hinting);
	vmm_walk(&b.vmm);
	taker_walk(&b.taker, b.ground.zone);
}

static void renew(void *ctx)
{
	(void)ctx;
	vmm_restore(&b.vmm);
}

/* Threads have ended: both ends take turns here until nothing is under way. */
static void settle(void)
{
	struct soak_member m = { .chance = 1 };
	uint64_t deadline;
	int r = -EAGAIN;
	for (uint32_t i = 0; i < 10000 && r == -EAGAIN; i++) {
		(void)vmm_turn(&b.vmm, &m);
		b.now += MILLISECOND;
		b.taker.now += MILLISECOND;
		if (b.runs)
			(void)!pagehint_driver_step(b.driver, b.now, &deadline);
		else
			start();
		r = pagehint_reporter_stop(b.taker.reporter, b.taker.now, &deadline);
	}
	(void)SOAK_MUST(PART, r == 0);
	r = -EAGAIN;
	for (uint32_t i = 0; i < 10000 && r == -EAGAIN; i++) {
		(void)vmm_turn(&b.vmm, &m);
		r = pagehint_driver_reset(b.driver, b.now += MILLISECOND);
	}
	(void)SOAK_MUST(PART, r == 0);
}

static void close_balloon(void *ctx)
{
	struct pagehint_driver_stats s = driver_stats();
	ground_go_home(&b.ground);
	settle();
	walk(ctx);
	if (soak_violations(NULL) == 0) { /* else it was ended early */
		(void)SOAK_MUST(PART, s.inflated != 0);
		(void)SOAK_MUST(PART, s.reported != 0);
		(void)SOAK_MUST(PART, b.ground.content.gone != 0);
	}
	taker_close(&b.taker);
	(void)SOAK_MUST(PART, pagehint_backend_free(b.backend) == 0);
	vmm_close(&b.vmm);
	pagehint_zone_destroy(b.ground.zone);
	content_close(&b.ground.content);
	free(b.memory);
}

static int open_driver(void)
{
	struct pagehint_driver_ops ops;
	uint64_t bytes, dma_bytes;
	b.opts = (struct pagehint_driver_opts) { .struct_size = sizeof(b.opts),
						 .ring_size = 64,
						 .max_held = 4096,
						 .answer_ns = UINT64_C(3600000000000),
						 .quiet_ns = 100 * MILLISECOND };
	int r = pagehint_driver_size(&b.opts, &bytes, &dma_bytes);
	if (r == 0)
		r = vmm_open(&b.vmm, PART, &b.ground.content, dma_bytes);
	if (r != 0)
		return r;
	b.opts.dma_address = b.vmm.dma_frame * CONTENT_PAGE;
	b.opts.dma_bytes = dma_bytes;
	b.memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
	b.from = (struct pagehint_driver_zone) { .zone = b.ground.zone, .keep = FRAMES / 4 };
	r = b.memory == NULL ? -ENOMEM : pagehint_driver_zone_ops(&ops);
	ops.get_stats = get_stats;
	if (r == 0)
		r = pagehint_driver_init(b.memory, bytes, b.vmm.dma, b.vmm.virtio, &ops, &b.from, &b.opts, &b.driver);
	return r == 0 ? pagehint_driver_backend_new(b.driver, NULL, &b.backend) : r;
}

int soak_balloon_open(struct soak_part *ret)
{
	memset(&b, 0, sizeof(b));
	b.now = MILLISECOND;
	int r = content_open(&b.ground.content, PART, 1, FRAMES, 0);
	if (r == 0)
		r = ground_open(&b.ground, PART, PAGEHINT_ZONE_LADDER | PAGEHINT_ZONE_STALE, 6);
	if (r == 0)
		r = open_driver();
	if (r == 0) {
		(void)taker_hooks(&b.taker, PART, &b.ground.content);
		r = taker_open(&b.taker, b.ground.zone, b.backend);
	}
	if (r == 0)
		r = ground_populate(&b.ground, GROUND_WORKERS);
	if (r == 0 && (soak_member_add("driver", SOAK_WORKER, driver_turn, NULL) == NULL ||
		       soak_member_add("device", SOAK_SERVANT, vmm_turn, &b.vmm) == NULL))
		r = -ENOSPC;
	*ret = (struct soak_part) {
		.name = PART, .walk = walk, .renew = renew, .close = close_balloon, .gone = &b.ground.content.gone
	};
	return r;
}
