/*
 * A lazy restore, with one failure in it: memory that comes from a file when it is touched, a server of faults, pages that are ensured,
 * pages that are discarded and touched again, a fetch that never answers and is revoked, and pages that are given up in the end.
 * Whatever fails: nobody waits for ever, each page is what it was saved as, or zero once it was discarded, an error names its cause,
 * and nothing is left behind.
 */
#include <fcntl.h>
#include <sys/ioctl.h>

#include "support/served.h"

#include <pagehint/host.h>
#include <pagehint/pager_backend.h>

#include "memory/map.h"
#include "pager/pager.h"
#include "pager/source.h"
#include "support/scenario.h"

#define PAGES 32u /* of the file */
#define SLOW 4u   /* pages of a source that does not answer at first */
#define LOST 2u   /* pages that nobody touches: given up */
#define BYTES (PAGES * PAGE)
#define ALL ((PAGES + SLOW + LOST) * PAGE)
#define POISON_REQUEST 0x08u

struct restore {
	struct scenario *s;
	unsigned char *memory;
	int file, stop_fd;
	struct pagehint_map *map;
	struct pagehint_source *source, *slow, *nothing;
	struct pagehint_pager *pager;
	struct pagehint_backend *inner, *backend;
	pthread_t server;
	_Atomic uint64_t now;
	_Atomic int wrong;        /* an error of a step that nothing explains */
	_Atomic uint32_t fetches; /* of the slow source */
	_Atomic uint32_t told;    /* failures */
};

static int file;            /* with the snapshot; made once */
static struct ph_sys older; /* a kernel that cannot poison: what is given up is made inaccessible */
static int is_older;

static int64_t older_ioctl(void *ctx, int fd, unsigned long request, void *arg)
{
	return _IOC_NR(request) == POISON_REQUEST ? -EINVAL : ph_sys_real.ioctl(ctx, fd, request, arg);
}

/* ---- sources and their failures ---- */

static uint32_t try_again(void *ctx, const struct pagehint_pager_failure *failure)
{
	struct restore *r = ctx;
	atomic_fetch_add(&r->told, 1);
	/* nothing but what failed, and the fetch that is revoked, may be told */
	if (failure->error != -ETIMEDOUT && !scenario_explains(r->s, failure->error))
		atomic_store(&r->wrong, failure->error);
	return PAGEHINT_FAIL_RETRY;
}

/* The first fetch is never delivered; whoever asks again gets it at once. */
static int slow_fetch(void *ctx, struct pagehint_fetch *fetch)
{
	struct restore *r = ctx;
	int error = scenario_callback(r->s);
	if (error != 0)
		return error;
	if (atomic_fetch_add(&r->fetches, 1) == 0)
		return -EINPROGRESS;
	for (uint64_t i = 0; i < fetch->bytes / 8; i++)
		((uint64_t *)fetch->buffer)[i] = snapshot_word(PAGES + (fetch->offset + 8 * i) / PAGE);
	fetch->data = fetch->buffer;
	fetch->done = fetch->bytes;
	return 0;
}

/* Time is simulated: it goes on whenever the server has nothing to do. */
static void *serve(void *arg)
{
	struct restore *r = arg;
	uint64_t deadline;
	struct pollfd p[2] = { { .events = POLLIN }, { .fd = r->stop_fd, .events = POLLIN } };
	if (pagehint_pager_fd(r->pager, 0, &p[0].fd) != 0)
		atomic_store(&r->wrong, 1);
	while (poll(p, 2, 1) >= 0 && p[1].revents == 0) {
		uint64_t now = atomic_fetch_add(&r->now, 100000000);
		int e = pagehint_pager_step(r->pager, 0, now, &deadline);
		if (e != 0 && e != -EBUSY && !scenario_explains(r->s, e))
			atomic_store(&r->wrong, e);
	}
	return NULL;
}

/* ---- the process that goes on ---- */

static void open_sources(struct restore *r)
{
	const struct pagehint_source_ops slow = {
		.struct_size = sizeof(slow), .name = "slow", .caps = PAGEHINT_SOURCE_ASYNC, .fetch = slow_fetch
	};
	ATTEMPT(r->s, ph_source_file_new_with(file, 0, BYTES, r->s->sys, &r->source));
	ATTEMPT(r->s, pagehint_source_new(&slow, r, &r->slow));
	ATTEMPT(r->s, pagehint_source_zero_new(&r->nothing));
}

static void add(struct restore *r, uint64_t first, uint64_t pages, struct pagehint_source *source)
{
	struct pagehint_pager_region region = { .struct_size = sizeof(region),
						.frame = first,
						.frames = pages,
						.host_addr = (uintptr_t)r->memory + first * PAGE,
						.backing = PAGEHINT_BACKING_ANON,
						.source = source };
	ATTEMPT(r->s, pagehint_pager_add(r->pager, &region));
}

static void open_library(struct restore *r)
{
	struct pagehint_region_desc desc = { .struct_size = sizeof(desc),
					     .frames = ALL / PAGE,
					     .fd = -1,
					     .host_addr = (uintptr_t)r->memory,
					     .flags = PAGEHINT_REGION_UFFD_OWN };
	struct pagehint_pager_opts opts = { .struct_size = sizeof(opts),
					    .failed = try_again,
					    .ctx = r,
					    .around_min = 2,
					    .around_max = 4,
					    .flights = 2,
					    .timeout_ns = 1000000000 };
	uint64_t id;
	ATTEMPT(r->s, ph_map_new_with(NULL, r->s->sys, &r->map));
	ATTEMPT(r->s, pagehint_map_add(r->map, &desc, &id));
	ATTEMPT(r->s, pagehint_madvise_new(r->map, NULL, NULL, &r->inner));
	open_sources(r);
	ATTEMPT(r->s, ph_pager_new_with(&opts, r->s->sys, &r->pager));
	add(r, 0, PAGES, r->source);
	add(r, PAGES, SLOW, r->slow);
	add(r, PAGES + SLOW, LOST, r->nothing);
	ATTEMPT(r->s, pagehint_pager_backend_new(r->pager, r->inner, NULL, &r->backend));
}

static void must_be(const struct restore *r, uint64_t first, uint64_t end, int is_zero)
{
	for (uint64_t i = first; i < end; i++)
		if (!page_is(r->memory, i, is_zero ? 0 : snapshot_word(i)))
			fail_msg("page %u is wrong; point %u, %s, error %d", (unsigned)i, (unsigned)r->s->fail_at,
				 faulty_call_name(r->s->call), r->s->error);
}

/* A quarter is touched, a quarter is ensured, and half stays away. */
static void comes_in(struct restore *r)
{
	uint64_t done;
	int e;
	must_be(r, 0, PAGES / 4, 0);
	for (int tries = 0; (e = pagehint_pager_ensure(r->pager, PAGES / 4, PAGES / 4, &done)) != 0; tries++) {
		/* in other hands: the server's, which brings what lies around */
		if (tries >= 1000 || (e != -EAGAIN && !scenario_explains(r->s, e)))
			scenario_unexplained(r->s, "ensure", e);
		sched_yield();
	}
	assert_int_equal(done, PAGES / 4);
	must_be(r, PAGES / 4, PAGES / 2, 0);
}

/* Some that are here and some that never came are not needed any more: zero from now on, whatever the file has. */
static void goes_away(struct restore *r)
{
	const struct pagehint_run run = { PAGES / 2 - 4, 8 };
	struct pagehint_outcome o;
	int e = pagehint_backend_discard(r->backend, &run, 1, 0, &o, NULL, NULL);
	for (int tries = 0; e != 0 || o.kept != 0; tries++) {
		assert_int_equal(o.freed + o.absent + o.accepted + o.kept + o.lazy + o.failed, o.asked);
		if (e != 0 && !scenario_explains(r->s, e))
			scenario_unexplained(r->s, "discard", e);
		if (o.failed != 0)
			assert_true(scenario_explains(r->s, o.error));
		assert_true(tries < 1000); /* kept: in flight */
		e = pagehint_backend_discard(r->backend, &run, 1, 0, &o, NULL, NULL);
	}
	must_be(r, run.frame, run.frame + run.frames, 1);
	must_be(r, 0, run.frame, 0);
	must_be(r, run.frame + run.frames, PAGES, 0);
}

static void *touch_slow(void *arg)
{
	struct restore *r = arg;
	return (void *)(uintptr_t)__atomic_load_n((uint64_t *)(void *)(r->memory + PAGES * PAGE), __ATOMIC_RELAXED);
}

/* Somebody waits for a source that never answers: the watch revokes, and it is asked again. */
static void is_revoked(struct restore *r)
{
	pthread_t waiter;
	void *seen;
	uint64_t deadline;
	assert_int_equal(pthread_create(&waiter, NULL, touch_slow, r), 0);
	for (int i = 0; i < 20000 && pthread_tryjoin_np(waiter, &seen) != 0; i++) {
		ATTEMPT(r->s, pagehint_pager_watch(r->pager, atomic_fetch_add(&r->now, 500000000), &deadline));
		(void)poll(NULL, 0, 1);
		if (i == 19999)
			fail_msg("it waits for ever; point %u, %s, error %d", (unsigned)r->s->fail_at,
				 faulty_call_name(r->s->call), r->s->error);
	}
	assert_int_equal((uint64_t)(uintptr_t)seen, snapshot_word(PAGES));
	must_be(r, PAGES, PAGES + SLOW, 0);
	assert_true(atomic_load(&r->fetches) >= 2 && atomic_load(&r->told) != 0);
}

/* Reading through the kernel: 1 when that says EFAULT, which is what became of a page that was given up. */
static int is_lost(const struct restore *r, uint64_t page)
{
	int pipes[2];
	assert_int_equal(pipe(pipes), 0);
	int lost = write(pipes[1], r->memory + page * PAGE, 8) < 0 && errno == EFAULT;
	close(pipes[0]);
	close(pipes[1]);
	return lost;
}

static void close_all(struct restore *r)
{
	uint64_t one = 1;
	int e;
	assert_int_equal(write(r->stop_fd, &one, 8), 8);
	assert_int_equal(pthread_join(r->server, NULL), 0);
	assert_int_equal(atomic_load(&r->wrong), 0);
	ATTEMPT(r->s, pagehint_backend_free(r->backend));
	ATTEMPT(r->s, pagehint_backend_free(r->inner));
	while ((e = pagehint_pager_abandon(r->pager, 0)) != 0)
		if (e != -EAGAIN && !scenario_explains(r->s, e))
			scenario_unexplained(r->s, "abandon", e);
	for (uint64_t i = PAGES + SLOW; i < PAGES + SLOW + LOST; i++)
		assert_true(is_lost(r, i));
	ATTEMPT(r->s, pagehint_pager_free(r->pager));
	pagehint_source_free(r->source);
	pagehint_source_free(r->slow);
	pagehint_source_free(r->nothing);
	ATTEMPT(r->s, pagehint_map_free(r->map));
	close(r->stop_fd);
	munmap(r->memory, ALL);
}

static void restore(struct scenario *s)
{
	static struct restore r;
	memset(&r, 0, sizeof(r));
	r.s = s;
	s->faulty.below = is_older ? &older : &ph_sys_real;
	r.now = 1;
	r.stop_fd = eventfd(0, EFD_CLOEXEC);
	r.memory = mmap(NULL, ALL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(r.stop_fd >= 0 && r.memory != MAP_FAILED);
	(void)madvise(r.memory, ALL, MADV_NOHUGEPAGE);
	open_library(&r);
	assert_int_equal(pthread_create(&r.server, NULL, serve, &r), 0);
	comes_in(&r);
	goes_away(&r);
	is_revoked(&r);
	close_all(&r);
}

static void test_every_point_of_a_restore_fails(void **state)
{
	(void)state;
	static const int errors[] = { -EXDEV, -ENOMEM, -EAGAIN };
	static const enum faulty_call reached[] = { FAULTY_GETPID, FAULTY_OPEN,        FAULTY_READ,   FAULTY_PREAD,
						    FAULTY_LSEEK,  FAULTY_USERFAULTFD, FAULTY_IOCTL,  FAULTY_POLL_IN,
						    FAULTY_CLOSE,  FAULTY_MAP_MEMORY,  FAULTY_MADVISE };
	static struct scenario s;
	(void)scenario_sweep(&s, restore, errors, 3, reached, sizeof(reached) / sizeof(reached[0]));
	assert_true(s.allocations >= 3 * 10 && s.callbacks >= 3);
}

static void test_on_an_older_kernel(void **state)
{
	(void)state;
	static const int errors[] = { -EXDEV };
	static const enum faulty_call reached[] = { FAULTY_MPROTECT_NONE };
	static struct scenario s;
	older = ph_sys_real;
	older.ioctl = older_ioctl;
	is_older = 1;
	(void)scenario_sweep(&s, restore, errors, 1, reached, 1);
	is_older = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_point_of_a_restore_fails),
		cmocka_unit_test(test_on_an_older_kernel),
	};
	if (!may_serve())
		return 77;
	alarm(110); /* a thread that waits for ever must not */
	file = memfd_create("snapshot", MFD_CLOEXEC);
	unsigned char *content = snapshot_new(PAGES);
	if (file < 0 || write(file, content, BYTES) != (ssize_t)BYTES)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
