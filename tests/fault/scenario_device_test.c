/*
 * A session of a balloon device, with one failure in it: our driver over a ring in memory, the device, and the backend that
 * discards: the balloon inflates, free memory is reported, the balloon deflates and its pages are made present, the state is saved and
 * another device goes on with it, the driver is reset. Whatever fails: no frame is lost, the guest's content stays, the host's count
 * agrees with what was said to be gone, an error names its cause, and nothing is left behind.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <pagehint/device_control.h>
#include <pagehint/driver.h>
#include <pagehint/host.h>
#include <pagehint/map.h>
#include <pagehint/zone.h>

#include "memory/map.h"
#include "support/ends_link.h"
#include "support/scenario.h"

#define FRAME UINT64_C(4096)
#define RAM (UINT64_C(4) << 20)
#define FIRST (UINT64_C(1) << 20) /* before it: what both ends share */
#define FRAMES ((RAM - FIRST) / FRAME)
#define KEPT 64u /* frames that the guest goes on using */
#define TARGET (UINT64_C(1) << 20)
#define MILLISECOND UINT64_C(1000000)

struct session {
	struct scenario *s;
	struct ends_link link;
	int fd;
	struct pagehint_map *map;
	struct pagehint_backend *backend;
	struct pagehint_zone *zone;
	struct pagehint_driver_zone from;
	int (*take)(void *, uint32_t, uint64_t, struct pagehint_run *, uint32_t, uint32_t *);
	struct pagehint_driver *driver;
	uint64_t kept; /* first of the frames that stay in use */
	uint64_t told; /* bytes that were said to be gone, by hooks */
};

static struct session *session; /* of the driver's ops, whose ctx is the zone's */
static _Alignas(64) unsigned char driver_memory[1 << 20];
static uint64_t virtio_memory[64];

/* ---- callbacks ---- */

static int before_discard(void *ctx, const struct pagehint_run *run)
{
	(void)run;
	return scenario_callback(((struct session *)ctx)->s);
}

static void after_discard(void *ctx, const struct pagehint_run *run, const struct pagehint_outcome *o)
{
	struct session *e = ctx;
	assert_int_equal(o->asked, run->frames * FRAME);
	assert_int_equal(o->freed + o->absent + o->accepted + o->kept + o->lazy + o->failed, o->asked);
	if (o->failed != 0)
		assert_true(scenario_explains(e->s, o->error));
	e->told += o->freed + o->accepted;
}

static int take(void *ctx, uint32_t what_for, uint64_t frames, struct pagehint_run *runs, uint32_t max, uint32_t *ret_n)
{
	return scenario_callback(session->s) != 0 ? -ENOSPC : session->take(ctx, what_for, frames, runs, max, ret_n);
}

static uint64_t host_holds(const struct session *e)
{
	struct stat st;
	assert_int_equal(fstat(e->fd, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

/* ---- both ends ---- */

static void new_device(struct session *e)
{
	struct pagehint_device_opts opts = { .struct_size = sizeof(opts),
					     .features = PAGEHINT_DEVICE_FEATURES_DEFAULT &
							 ~(uint64_t)PAGEHINT_BALLOON_F_PAGE_POISON,
					     .flags = PAGEHINT_DEVICE_PROBE | PAGEHINT_DEVICE_POPULATE };
	ATTEMPT(e->s, pagehint_device_new(e->map, e->backend, NULL, &opts, &e->link.device));
}

static void open_device(struct session *e)
{
	struct pagehint_region_desc desc = { .struct_size = sizeof(desc), .frames = RAM / FRAME };
	struct pagehint_hooks hooks = {
		.struct_size = sizeof(hooks), .ctx = e, .before_discard = before_discard, .after_discard = after_discard
	};
	struct pagehint_backend_opts how = { .struct_size = sizeof(how), .hooks = &hooks };
	uint64_t id;
	e->fd = memfd_create("session", MFD_CLOEXEC);
	assert_true(e->fd >= 0 && ftruncate(e->fd, (off_t)RAM) == 0);
	e->link.ram = mmap(NULL, RAM, PROT_READ | PROT_WRITE, MAP_SHARED, e->fd, 0);
	assert_ptr_not_equal(e->link.ram, MAP_FAILED);
	memset(e->link.ram, 0, FIRST);
	desc.fd = e->fd;
	desc.host_addr = (uintptr_t)e->link.ram;
	ATTEMPT(e->s, ph_map_new_with(NULL, e->s->sys, &e->map));
	ATTEMPT(e->s, pagehint_map_add(e->map, &desc, &id));
	ATTEMPT(e->s, pagehint_madvise_new(e->map, NULL, &how, &e->backend));
	new_device(e);
}

static void open_driver(struct session *e)
{
	struct pagehint_zone_opts zone = { .struct_size = sizeof(zone),
					   .flags = PAGEHINT_ZONE_STALE,
					   .granule_order = 6 };
	struct pagehint_driver_opts opts = { .struct_size = sizeof(opts), .ring_size = 16, .max_held = 1024 };
	struct pagehint_driver_ops ops;
	uint64_t bytes;
	assert_int_equal(pagehint_zone_new(&zone, &e->zone), 0);
	assert_int_equal(pagehint_zone_add(e->zone, FIRST / FRAME, FRAMES), 0);
	e->from.zone = e->zone;
	assert_int_equal(pagehint_driver_zone_ops(&ops), 0);
	e->take = ops.take;
	ops.take = take;
	assert_int_equal(pagehint_driver_size(&opts, &bytes, &opts.dma_bytes), 0);
	assert_true(bytes <= sizeof(driver_memory) && opts.dma_bytes <= FIRST);
	struct pagehint_virtio *virtio;
	assert_int_equal(pagehint_virtio_init(virtio_memory, sizeof(virtio_memory), &link_ops, &e->link, &virtio), 0);
	assert_int_equal(
		pagehint_driver_init(driver_memory, bytes, e->link.ram, virtio, &ops, &e->from, &opts, &e->driver), 0);
	assert_int_equal(pagehint_driver_start(e->driver, e->link.now), 0);
}

/* Both take turns until neither has anything left, and the balloon has as much as is wanted. */
static void settle(struct session *e, uint64_t held)
{
	struct pagehint_device_work work = { .struct_size = sizeof(work) };
	struct pagehint_driver_stats stats = { .struct_size = sizeof(stats) };
	uint64_t deadline;
	for (uint32_t turn = 0; turn < 1000; turn++) {
		e->link.now += MILLISECOND * 10;
		ATTEMPT(e->s, pagehint_device_step(e->link.device, e->link.now, &work));
		link_told(&e->link, &work);
		(void)pagehint_driver_interrupt(e->driver,
						PAGEHINT_VIRTIO_INTERRUPT_QUEUE | PAGEHINT_VIRTIO_INTERRUPT_CONFIG);
		assert_int_equal(pagehint_driver_step(e->driver, e->link.now, &deadline), 0);
		assert_int_equal(pagehint_driver_stats(e->driver, &stats), 0);
		if (e->link.kicked == 0 && stats.held == held)
			return;
		for (uint32_t q = 0; q < PAGEHINT_BALLOON_Q_COUNT; q++) {
			if ((e->link.kicked >> q & 1) == 0)
				continue;
			e->link.kicked &= ~(1u << q);
			ATTEMPT(e->s, pagehint_device_queue_kick(e->link.device, q, e->link.now, &work));
			link_told(&e->link, &work);
		}
	}
	fail_msg("the two never rest");
}

/* ---- the session ---- */

static void guest_works(struct session *e)
{
	assert_int_equal(pagehint_zone_alloc(e->zone, 6, &e->kept), 0);
	memset(e->link.ram + FIRST, 0x5a, RAM - FIRST);
	assert_int_equal(host_holds(e), RAM);
}

static void judge(struct session *e, uint64_t out)
{
	struct pagehint_zone_stats z = { .struct_size = sizeof(z) };
	struct pagehint_device_stats d = { .struct_size = sizeof(d) };
	const unsigned char *kept = e->link.ram + e->kept * FRAME;
	assert_int_equal(pagehint_zone_check(e->zone, NULL), 0);
	assert_int_equal(pagehint_zone_stats(e->zone, &z), 0);
	assert_int_equal(z.total, FRAMES);
	assert_int_equal(z.out, KEPT + out);
	assert_int_equal(pagehint_device_stats(e->link.device, &d), 0);
	assert_int_equal(d.asked, d.freed + d.absent + d.accepted + d.kept + d.lazy + d.failed);
	assert_int_equal(d.popped, d.completed);
	assert_int_equal(d.in_flight + d.broken, 0);
	for (uint64_t i = 0; i < KEPT * FRAME; i++)
		assert_int_equal(kept[i], 0x5a);
}

static void inflate(struct session *e)
{
	ATTEMPT(e->s, pagehint_device_set_target(e->link.device, e->link.now, TARGET, NULL));
	settle(e, TARGET / FRAME);
	judge(e, TARGET / FRAME);
	/* by the host's own count exactly that has left which was said to be gone */
	assert_int_equal(host_holds(e), RAM - e->told);
	if (e->s->kind == SCENARIO_NOTHING)
		assert_int_equal(e->told, TARGET);
}

/* A block of the guest's that it reports. Only the device's outcome can tell whether it went; the request comes back anyway. */
static void report(struct session *e)
{
	struct pagehint_run run = { 0, 64 };
	const struct pagehint_run *back;
	uint64_t cookie = 0, before, told = e->told;
	int32_t result = 1;
	uint32_t n;
	assert_int_equal(pagehint_zone_alloc(e->zone, 6, &run.frame), 0);
	memset(e->link.ram + run.frame * FRAME, 0x77, 64 * FRAME);
	before = host_holds(e);
	assert_int_equal(pagehint_driver_report(e->driver, &run, 1, 9), 0);
	settle(e, TARGET / FRAME);
	assert_int_equal(pagehint_driver_reap(e->driver, &cookie, &result, &back, &n), 0);
	assert_int_equal(cookie, 9);
	assert_int_equal(result, 0);
	assert_int_equal(before - host_holds(e), e->told - told);
	assert_int_equal(pagehint_zone_free(e->zone, run.frame, 6), 0);
	judge(e, TARGET / FRAME);
}

/* Another device, maybe of another process, goes on where this one was. */
static void moves(struct session *e)
{
	static unsigned char blob[16384];
	uint64_t length = 0;
	ATTEMPT(e->s, pagehint_device_save(e->link.device, e->link.now, blob, sizeof(blob), &length));
	ATTEMPT(e->s, pagehint_device_free(e->link.device));
	new_device(e);
	ATTEMPT(e->s, pagehint_device_load(e->link.device, e->link.now, blob, length));
	for (uint32_t q = 0; q < PAGEHINT_BALLOON_Q_COUNT; q++) {
		struct pagehint_device_queue queue = link_queue(&e->link, q);
		queue.flags = PAGEHINT_DEVICE_QUEUE_RESUME;
		if (e->link.at[q].size != 0)
			ATTEMPT(e->s, pagehint_device_queue_start(e->link.device, q, &queue));
	}
}

static void deflate(struct session *e)
{
	struct pagehint_device_stats d = { .struct_size = sizeof(d) };
	uint64_t before = host_holds(e);
	ATTEMPT(e->s, pagehint_device_set_target(e->link.device, e->link.now, 0, NULL));
	settle(e, 0);
	judge(e, 0);
	assert_int_equal(pagehint_device_stats(e->link.device, &d), 0);
	/* what could not be made present comes with a fault, and is counted */
	if (d.populate_errors == 0)
		assert_int_equal(d.populated, TARGET);
	else
		assert_int_not_equal(e->s->kind, SCENARIO_NOTHING);
	assert_true(host_holds(e) - before <= TARGET);
}

static void close_all(struct session *e)
{
	struct pagehint_zone_stats z = { .struct_size = sizeof(z) };
	assert_int_equal(pagehint_driver_reset(e->driver, e->link.now), 0);
	assert_int_equal(pagehint_zone_free(e->zone, e->kept, 6), 0);
	assert_int_equal(pagehint_zone_stats(e->zone, &z), 0);
	assert_int_equal(z.free, FRAMES);
	ATTEMPT(e->s, pagehint_device_free(e->link.device));
	ATTEMPT(e->s, pagehint_backend_free(e->backend));
	ATTEMPT(e->s, pagehint_map_free(e->map));
	pagehint_zone_destroy(e->zone);
	munmap(e->link.ram, RAM);
	close(e->fd);
}

static void run_session(struct scenario *s)
{
	struct session e = { .s = s, .link = { .now = MILLISECOND, .twice = 1 } };
	session = &e;
	open_device(&e);
	open_driver(&e);
	guest_works(&e);
	inflate(&e);
	report(&e);
	moves(&e);
	report(&e);
	deflate(&e);
	/* reset with a full balloon: everything comes back, once */
	ATTEMPT(s, pagehint_device_set_target(e.link.device, e.link.now, TARGET / 2, NULL));
	settle(&e, TARGET / 2 / FRAME);
	close_all(&e);
}

static void test_every_point_of_a_session_fails(void **state)
{
	(void)state;
	static const int errors[] = { -EXDEV, -ENOMEM, -EAGAIN, -EIO };
	static const enum faulty_call reached[] = { FAULTY_GETPID, FAULTY_OPEN,      FAULTY_READ,
						    FAULTY_FSTAT,  FAULTY_FALLOCATE, FAULTY_MADVISE };
	static struct scenario s;
	(void)scenario_sweep(&s, run_session, errors, 4, reached, sizeof(reached) / sizeof(reached[0]));
	assert_true(s.allocations >= 4 * 5 && s.callbacks >= 4 * 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_point_of_a_session_fails),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
