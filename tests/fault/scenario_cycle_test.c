/*
 * The cycle of the demo, with one failure in it: a map, a zone whose guest allocates, writes and frees, its reporter, and the madvise
 * backend on a memfd; then memory is made present again. Whatever fails, and wherever: what the guest has stays, what is free has
 * left the host in the end, an error names its cause, and nothing is left behind.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <pagehint/host.h>
#include <pagehint/map.h>
#include <pagehint/zone.h>

#include "memory/map.h"
#include "report/reporter.h"
#include "support/scenario.h"

#define BLOCK (UINT64_C(256) << 10)
#define BLOCKS 8u
#define USED 5u /* blocks that the guest writes to; of these it keeps two */
#define BYTES (BLOCKS * BLOCK)
#define ORDER 6u
#define SECOND UINT64_C(1000000000)

struct cycle {
	struct scenario *s;
	int fd, psi;
	unsigned char *memory;
	struct pagehint_map *map;
	struct pagehint_backend *backend;
	struct pagehint_zone *zone;
	struct pagehint_origin *origin;
	struct pagehint_reporter *reporter;
	uint64_t blocks[USED];
	uint64_t now;
	struct pagehint_outcome told; /* by hooks, summed */
};

/* ---- memory, whose calls are the test's own ---- */

static void open_memory(struct cycle *c)
{
	c->fd = memfd_create("cycle", MFD_CLOEXEC);
	c->psi = eventfd(0, EFD_CLOEXEC);
	assert_true(c->fd >= 0 && c->psi >= 0 && ftruncate(c->fd, (off_t)BYTES) == 0);
	c->memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, c->fd, 0);
	assert_ptr_not_equal(c->memory, MAP_FAILED);
}

static uint64_t host_holds(const struct cycle *c)
{
	struct stat st;
	assert_int_equal(fstat(c->fd, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

static int block_is(const struct cycle *c, uint64_t frame, unsigned char value)
{
	const unsigned char *p = c->memory + (frame << 12);
	return p[0] == value && memcmp(p, p + 1, BLOCK - 1) == 0;
}

/* ---- hooks ---- */

static int before_discard(void *ctx, const struct pagehint_run *run)
{
	(void)run;
	return scenario_callback(((struct cycle *)ctx)->s);
}

static void after_discard(void *ctx, const struct pagehint_run *run, const struct pagehint_outcome *o)
{
	struct cycle *c = ctx;
	assert_int_equal(o->asked, run->frames << 12);
	assert_int_equal(o->freed + o->absent + o->accepted + o->kept + o->lazy + o->failed, o->asked);
	if (o->failed != 0)
		assert_true(scenario_explains(c->s, o->error));
	c->told.failed += o->failed;
}

static int after_populate(void *ctx, const struct pagehint_run *run)
{
	(void)run;
	return scenario_callback(((struct cycle *)ctx)->s);
}

/* ---- the library ---- */

static void open_library(struct cycle *c)
{
	struct pagehint_region_desc desc = {
		.struct_size = sizeof(desc), .frames = BYTES >> 12, .fd = c->fd, .host_addr = (uintptr_t)c->memory
	};
	struct pagehint_hooks hooks = { .struct_size = sizeof(hooks),
					.ctx = c,
					.before_discard = before_discard,
					.after_discard = after_discard,
					.after_populate = after_populate };
	struct pagehint_backend_opts how = { .struct_size = sizeof(how), .hooks = &hooks };
	struct pagehint_zone_opts zone = { .struct_size = sizeof(zone),
					   .flags = PAGEHINT_ZONE_STALE,
					   .granule_order = ORDER };
	struct pagehint_reporter_opts opts = { .struct_size = sizeof(opts),
					       .interval_ns = SECOND,
					       .flags = PAGEHINT_REPORTER_PSI | PAGEHINT_REPORTER_PROBE,
					       .psi_fd = c->psi };
	uint64_t id;
	ATTEMPT(c->s, ph_map_new_with(NULL, c->s->sys, &c->map));
	ATTEMPT(c->s, pagehint_map_add(c->map, &desc, &id));
	ATTEMPT(c->s, pagehint_madvise_new(c->map, NULL, &how, &c->backend));
	ATTEMPT(c->s, pagehint_zone_new(&zone, &c->zone));
	ATTEMPT(c->s, pagehint_zone_add(c->zone, 0, BYTES >> 12));
	ATTEMPT(c->s, pagehint_zone_origin_new(c->zone, &c->origin));
	ATTEMPT(c->s, ph_reporter_new_with(c->origin, c->backend, &opts, c->s->sys, &c->reporter));
}

static void guest_works(struct cycle *c)
{
	for (unsigned i = 0; i < USED; i++) {
		assert_int_equal(pagehint_zone_alloc(c->zone, ORDER, &c->blocks[i]), 0);
		memset(c->memory + (c->blocks[i] << 12), (int)i + 1, BLOCK);
	}
	assert_int_equal(host_holds(c), USED * BLOCK);
	for (unsigned i = 2; i < USED; i++)
		assert_int_equal(pagehint_zone_free(c->zone, c->blocks[i], ORDER), 0);
}

static void explain(void *handle, const struct pagehint_sink *sink)
{
	pagehint_reporter_explain(handle, sink);
}

/* Twenty looks. The step that met a failure says so. */
static void reports(struct cycle *c)
{
	const uint64_t end = c->now + 20 * SECOND;
	struct pagehint_reporter_stats stats = { .struct_size = sizeof(stats) };
	uint64_t deadline, failed = 0;
	char text[32];
	snprintf(text, sizeof(text), "error %d", -c->s->error);
	while (c->now < end) {
		int struck = c->s->kind != SCENARIO_NOTHING;
		ATTEMPT(c->s, pagehint_reporter_step(c->reporter, c->now, 0, &deadline));
		assert_int_equal(pagehint_reporter_stats(c->reporter, &stats), 0);
		if (stats.failed != failed && c->s->kind == SCENARIO_CALL && c->s->call != FAULTY_GETPID)
			assert_true(scenario_said(explain, c->reporter, text));
		if (!struck && c->s->kind == SCENARIO_CALL && c->s->call == FAULTY_POLL_PRI)
			assert_true(scenario_said(explain, c->reporter, text));
		failed = stats.failed;
		c->now = deadline > c->now ? deadline : c->now + 1;
	}
	assert_int_equal(pagehint_reporter_stats(c->reporter, &stats), 0);
	assert_int_equal(stats.in_flight, 0);
	assert_int_equal(stats.isolated, stats.reported + stats.kept);
}

static void judge(struct cycle *c)
{
	struct pagehint_zone_stats z = { .struct_size = sizeof(z) };
	struct pagehint_backend_stats b = { .struct_size = sizeof(b) };
	assert_int_equal(pagehint_zone_check(c->zone, NULL), 0);
	assert_int_equal(pagehint_zone_stats(c->zone, &z), 0);
	assert_int_equal(z.free + z.out, BYTES >> 12);
	assert_int_equal(z.out, 2 * BLOCK >> 12);
	assert_int_equal(pagehint_backend_stats(c->backend, &b), 0);
	assert_int_equal(b.asked, b.freed + b.absent + b.accepted + b.kept + b.lazy + b.failed);
	assert_int_equal(b.failed, c->told.failed);
	if (c->s->kind == SCENARIO_CALLBACK)
		assert_int_equal(b.kept, b.kept_by[PAGEHINT_WHY_HOOK_REFUSED]);
	/* by the host's own count all that is free has left, and nothing else */
	assert_int_equal(host_holds(c), 2 * BLOCK);
	for (unsigned i = 0; i < USED; i++)
		assert_true(block_is(c, c->blocks[i], i < 2 ? (unsigned char)(i + 1) : 0));
}

/* What was given away is wanted again, and is there before it is touched. */
static void comes_back(struct cycle *c)
{
	struct pagehint_run run = { 0, BLOCK >> 12 };
	uint32_t done = 9;
	uint64_t before = 0;
	assert_int_equal(pagehint_zone_alloc(c->zone, ORDER, &run.frame), 0);
	assert_int_equal(madvise(c->memory + (run.frame << 12), BLOCK, MADV_REMOVE), 0); /* the look has brought it */
	before = host_holds(c);
	ATTEMPT(c->s, pagehint_backend_populate(c->backend, &run, 1, &done));
	assert_int_equal(done, 1);
	assert_int_equal(host_holds(c), before + BLOCK);
	assert_true(block_is(c, run.frame, 0));
	assert_int_equal(pagehint_zone_free(c->zone, run.frame, ORDER), 0);
}

static void close_all(struct cycle *c)
{
	uint64_t deadline;
	ATTEMPT(c->s, pagehint_reporter_stop(c->reporter, c->now, &deadline));
	ATTEMPT(c->s, pagehint_reporter_free(c->reporter));
	pagehint_origin_free(c->origin);
	ATTEMPT(c->s, pagehint_backend_free(c->backend));
	pagehint_zone_destroy(c->zone);
	ATTEMPT(c->s, pagehint_map_free(c->map));
	munmap(c->memory, BYTES);
	close(c->fd);
	close(c->psi);
}

static void cycle(struct scenario *s)
{
	struct cycle c = { .s = s, .now = SECOND };
	open_memory(&c);
	open_library(&c);
	guest_works(&c);
	reports(&c);
	judge(&c);
	comes_back(&c);
	close_all(&c);
}

static void test_every_point_of_the_cycle_fails(void **state)
{
	(void)state;
	static const int errors[] = { -EXDEV, -ENOMEM, -EAGAIN, -EPERM };
	static const enum faulty_call reached[] = { FAULTY_GETPID,  FAULTY_PAGE_SIZE, FAULTY_OPEN,
						    FAULTY_READ,    FAULTY_CLOSE,     FAULTY_FSTAT,
						    FAULTY_FSTATFS, FAULTY_FALLOCATE, FAULTY_POLL_PRI,
						    FAULTY_LSEEK,   FAULTY_PIDFD_OPEN };
	static struct scenario s;
	(void)scenario_sweep(&s, cycle, errors, 4, reached, sizeof(reached) / sizeof(reached[0]));
	assert_true(s.allocations >= 4 * 5 && s.callbacks >= 4 * 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_point_of_the_cycle_fails),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
