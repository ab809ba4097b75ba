/*
 * What userfaultfd does to a handler that does not expect it: each case shows first that a naive handler fails, so that the
 * hazard is there on this kernel, and then that the pager does not. Removals and partial progress; for the rest see
 * pager_perils_test.c.
 */
#include "support/naive.h"

#include <pagehint/host.h>
#include <pagehint/pager_backend.h>

#include "pager/uffd.h"

#define PAGES 64u
#define BYTES (PAGES * PAGE)

static unsigned char *snapshot;

static int group_setup(void **state)
{
	(void)state;
	snapshot = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	snapshot_write(snapshot, PAGES);
	return 0;
}

static struct pagehint_source *source_of_snapshot(void)
{
	struct pagehint_source *source;
	assert_int_equal(pagehint_source_memory_new(snapshot, BYTES, &source), 0);
	return source;
}

/* A region with a map, a madvise backend and the decorator; nobody serves but the test itself. */
struct ours {
	struct served s;
	struct pagehint_source *source;
	struct pagehint_map *map;
	struct pagehint_backend *inner, *backend;
};

static void ours_open(struct ours *o, uint32_t backing, struct pagehint_pager_opts *opts,
		      struct pagehint_source *source, uint64_t bytes)
{
	struct pagehint_region_desc desc = { .struct_size = sizeof(desc), .flags = PAGEHINT_REGION_UFFD_OWN };
	uint64_t id;
	memset(o, 0, sizeof(*o));
	served_memory(&o->s, bytes, backing);
	desc.frames = bytes / PAGE;
	desc.host_addr = (uintptr_t)o->s.memory;
	desc.fd = o->s.fd;
	assert_int_equal(pagehint_map_new(NULL, &o->map), 0);
	assert_int_equal(pagehint_map_add(o->map, &desc, &id), 0);
	opts->map = o->map;
	served_pager(&o->s, opts);
	o->source = source;
	struct pagehint_pager_region r = served_region(&o->s, source, 0);
	assert_int_equal(pagehint_pager_add(o->s.pager, &r), 0);
	assert_int_equal(pagehint_madvise_new(o->map, NULL, NULL, &o->inner), 0);
	if ((opts->flags & PAGEHINT_PAGER_EVENT_REMOVE) == 0)
		assert_int_equal(pagehint_pager_backend_new(o->s.pager, o->inner, NULL, &o->backend), 0);
}

static void ours_close(struct ours *o)
{
	assert_int_equal(pagehint_backend_free(o->backend), 0);
	assert_int_equal(pagehint_backend_free(o->inner), 0);
	served_close(&o->s);
	assert_int_equal(pagehint_map_free(o->map), 0);
	pagehint_source_free(o->source);
}

static void discard(struct ours *o, uint64_t frame, uint64_t frames)
{
	const struct pagehint_run run = { frame, frames };
	struct pagehint_outcome out;
	assert_int_equal(pagehint_backend_discard(o->backend, &run, 1, 0, &out, NULL, NULL), 0);
	assert_int_equal(out.accepted, frames * PAGE);
}

static void step(struct ours *o)
{
	uint64_t deadline;
	assert_int_equal(pagehint_pager_step(o->s.pager, 0, now_ns(), &deadline), 0);
}

static void await_readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	assert_int_equal(poll(&p, 1, 10000), 1);
}

static int fd_of(struct ours *o)
{
	int fd;
	assert_int_equal(pagehint_pager_fd(o->s.pager, 0, &fd), 0);
	return fd;
}

/*
 * Who gives memory away waits until the event is read, and until then nothing can be installed. A thread that both serves
 * and discards never gets past its discard.
 */
static void test_discard_blocks_until_read(void **state)
{
	(void)state;
	struct served n;
	struct deed deed;
	int64_t copied;
	served_memory(&n, BYTES, PAGEHINT_BACKING_ANON);
	int fd = naive_register(n.memory, BYTES, UFFD_FEATURE_EVENT_REMOVE, UFFDIO_REGISTER_MODE_MISSING);
	deed_start(&deed, n.memory, 4 * PAGE, MADV_DONTNEED);
	await_readable(fd);
	assert_int_equal(naive_copy(fd, n.memory + 32 * PAGE, snapshot, PAGE, &copied), -EAGAIN);
	assert_int_equal(atomic_load(&deed.done), 0); /* and it will not be before somebody reads */
	/* "copied" is no count: a handler that adds it goes backwards, or round and round */
	assert_true(copied == 0 || copied == -EAGAIN);
	uint64_t done = 1;
	assert_int_equal(ph_uffd_copy(&ph_sys_real, fd, (uintptr_t)n.memory + 32 * PAGE, snapshot, PAGE, 0, &done),
			 -EAGAIN);
	assert_int_equal(done, 0);
	assert_int_equal(naive_read(fd).event, UFFD_EVENT_REMOVE);
	assert_int_equal(deed_end(&deed), 0);
	close(fd);
	munmap(n.memory, BYTES);

	/* ours, in one process: this thread serves, and discards, and comes back */
	struct ours o;
	struct pagehint_pager_opts opts = { .shards = 1 };
	ours_open(&o, PAGEHINT_BACKING_ANON, &opts, source_of_snapshot(), BYTES);
	assert_int_equal(pagehint_pager_ensure(o.s.pager, 0, 8, NULL), 0);
	discard(&o, 0, 4);
	assert_int_equal(pagehint_pager_ensure(o.s.pager, 0, 8, NULL), 0);
	assert_true(page_is(o.s.memory, 0, 0) && page_is(o.s.memory, 5, snapshot_word(5)));
	ours_close(&o);
}

/* The same where removals are events: one thread steps, and by one step the other is let go and the fault is answered. */
static void test_events_before_resolves(void **state)
{
	(void)state;
	struct ours o;
	struct deed remove, touch;
	struct pagehint_pager_opts opts = { .flags = PAGEHINT_PAGER_EVENT_REMOVE };
	ours_open(&o, PAGEHINT_BACKING_ANON, &opts, source_of_snapshot(), BYTES);
	deed_start(&remove, o.s.memory, 4 * PAGE, MADV_DONTNEED);
	await_readable(fd_of(&o));
	deed_start(&touch, o.s.memory + 32 * PAGE, 8, -1);
	while (atomic_load(&touch.done) == 0)
		step(&o);
	assert_int_equal(deed_end(&touch), snapshot_word(32));
	assert_int_equal(deed_end(&remove), 0);
	assert_true(served_stats(&o.s).removed_events >= 4);
	ours_close(&o);
}

/*
 * read() gives a fault before a removal that was queued earlier. Who resolves message by message fetches the old content,
 * is told to come again, reads the removal, tries again, and installs what had been removed.
 */
static int naive_brings_stale(void)
{
	struct served n;
	struct deed remove, touch;
	int64_t copied;
	int stale = 0;
	served_memory(&n, BYTES, PAGEHINT_BACKING_ANON);
	int fd = naive_register(n.memory, BYTES, UFFD_FEATURE_EVENT_REMOVE, UFFDIO_REGISTER_MODE_MISSING);
	deed_start(&remove, n.memory, 4 * PAGE, MADV_DONTNEED);
	await_readable(fd); /* the removal is queued */
	deed_start(&touch, n.memory, 8, -1);
	struct uffd_msg m = naive_read(fd);
	int first = m.event == UFFD_EVENT_PAGEFAULT; /* else the toucher had not come that far */
	if (!first)
		m = naive_read(fd);
	int r = naive_copy(fd, n.memory, snapshot, PAGE, &copied);
	if (first) {
		assert_int_equal(r, -EAGAIN);
		assert_int_equal(naive_read(fd).event, UFFD_EVENT_REMOVE);
		(void)deed_end(&remove);
		assert_int_equal(naive_copy(fd, n.memory, snapshot, PAGE, &copied), 0);
		stale = deed_end(&touch) == snapshot_word(0); /* it had been given away */
	} else {
		while (r == -EAGAIN)
			r = naive_copy(fd, n.memory, snapshot, PAGE, &copied);
		(void)deed_end(&touch);
		(void)deed_end(&remove);
	}
	close(fd);
	munmap(n.memory, BYTES);
	return stale;
}

static void test_fault_is_read_before_removal(void **state)
{
	(void)state;
	struct deed remove, touch;
	int stale = 0;
	for (int tries = 0; tries < 1000 && !stale; tries++)
		stale = naive_brings_stale();
	assert_true(stale);

	struct ours o;
	struct pagehint_pager_opts opts = { .flags = PAGEHINT_PAGER_EVENT_REMOVE };
	ours_open(&o, PAGEHINT_BACKING_ANON, &opts, source_of_snapshot(), BYTES);
	deed_start(&remove, o.s.memory, 4 * PAGE, MADV_DONTNEED);
	await_readable(fd_of(&o));
	deed_start(&touch, o.s.memory, 8, -1);
	while (atomic_load(&touch.done) == 0)
		step(&o);
	assert_int_equal(deed_end(&touch), 0);
	assert_int_equal(deed_end(&remove), 0);
	ours_close(&o);
}

/* A copy that meets a page which is there: a part and EAGAIN in the middle, EEXIST at the start. */
static void test_present_in_the_middle(void **state)
{
	(void)state;
	struct served n;
	int64_t copied;
	served_memory(&n, BYTES, PAGEHINT_BACKING_ANON);
	int fd = naive_register(n.memory, BYTES, 0, UFFDIO_REGISTER_MODE_MISSING);
	assert_int_equal(naive_copy(fd, n.memory + 4 * PAGE, snapshot + 4 * PAGE, PAGE, &copied), 0);
	assert_int_equal(naive_copy(fd, n.memory, snapshot, 8 * PAGE, &copied), -EAGAIN);
	assert_int_equal(copied, 4 * PAGE);
	assert_int_equal(naive_copy(fd, n.memory + 4 * PAGE, snapshot + 4 * PAGE, 4 * PAGE, &copied), -EEXIST);
	assert_int_equal(in_core(n.memory, 5), 0); /* who gives up at either never brings these */
	close(fd);
	munmap(n.memory, BYTES);

	struct ours o;
	struct pagehint_pager_opts opts = { .around_min = 16, .around_max = 16 };
	ours_open(&o, PAGEHINT_BACKING_ANON, &opts, source_of_snapshot(), BYTES);
	/* somebody with the descriptor was there before */
	assert_int_equal(naive_copy(fd_of(&o), o.s.memory + 4 * PAGE, snapshot + 4 * PAGE, PAGE, &copied), 0);
	assert_int_equal(naive_copy(fd_of(&o), o.s.memory + 16 * PAGE, snapshot + 16 * PAGE, PAGE, &copied), 0);
	assert_int_equal(pagehint_pager_resolve(o.s.pager, o.s.memory + 2 * PAGE), 0);
	assert_int_equal(pagehint_pager_resolve(o.s.pager, o.s.memory + 18 * PAGE), 0);
	for (uint64_t i = 0; i < 32; i++)
		assert_true(in_core(o.s.memory, i) && page_is(o.s.memory, i, snapshot_word(i)));
	assert_int_equal(served_stats(&o.s).met, 2);
	assert_int_equal(served_stats(&o.s).installed, 30);
	ours_close(&o);
}

/* A window that reaches beyond what is registered installs nothing at all. */
static void test_across_the_end(void **state)
{
	(void)state;
	struct served n;
	int64_t copied;
	served_memory(&n, BYTES, PAGEHINT_BACKING_ANON);
	int fd = naive_register(n.memory, BYTES / 2, 0, UFFDIO_REGISTER_MODE_MISSING);
	assert_int_equal(naive_copy(fd, n.memory + (PAGES / 2 - 2) * PAGE, snapshot, 4 * PAGE, &copied), -ENOENT);
	assert_int_equal(in_core(n.memory, PAGES / 2 - 2), 0);
	close(fd);
	munmap(n.memory, BYTES);

	struct ours o;
	struct pagehint_pager_opts opts = { .around_min = 512, .around_max = 512 };
	ours_open(&o, PAGEHINT_BACKING_ANON, &opts, source_of_snapshot(), BYTES);
	assert_int_equal(pagehint_pager_resolve(o.s.pager, o.s.memory + BYTES - 1), 0);
	for (uint64_t i = 0; i < PAGES; i++)
		assert_true(in_core(o.s.memory, i) && page_is(o.s.memory, i, snapshot_word(i)));
	ours_close(&o);
}

/*
 * A hole that is punched into shared memory raises no event: who waits for one serves the snapshot again. And MADV_DONTNEED
 * on it raises one, but frees nothing: who believes it loses what is still there.
 */
static void test_punch_and_dontneed(void **state)
{
	(void)state;
	struct served n;
	struct deed deed;
	int64_t copied;
	served_memory(&n, BYTES, PAGEHINT_BACKING_SHARED);
	int fd = naive_register(n.memory, BYTES, UFFD_FEATURE_EVENT_REMOVE, UFFDIO_REGISTER_MODE_MISSING);
	assert_int_equal(naive_copy(fd, n.memory, snapshot, 8 * PAGE, &copied), 0);
	assert_int_equal(fallocate(n.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4 * PAGE), 0);
	assert_int_equal(naive_readable(fd), 0); /* nobody was told */
	deed_start(&deed, n.memory, 8, -1);
	assert_int_equal(naive_read(fd).event, UFFD_EVENT_PAGEFAULT);
	assert_int_equal(naive_copy(fd, n.memory, snapshot, PAGE, &copied), 0);
	assert_int_equal(deed_end(&deed), snapshot_word(0)); /* so it comes back */
	deed_start(&deed, n.memory + PAGE, PAGE, MADV_REMOVE);
	assert_int_equal(naive_read(fd).event, UFFD_EVENT_REMOVE);
	assert_int_equal(deed_end(&deed), 0);
	deed_start(&deed, n.memory + 4 * PAGE, PAGE, MADV_DONTNEED);
	assert_int_equal(naive_read(fd).event, UFFD_EVENT_REMOVE); /* "removed" */
	assert_int_equal(deed_end(&deed), 0);
	assert_true(page_is(n.memory, 4, snapshot_word(4))); /* and still there */
	close(fd);
	munmap(n.memory, BYTES);
	close(n.fd);

	struct ours o;
	struct pagehint_pager_opts opts = { .around_min = 8, .around_max = 8 };
	ours_open(&o, PAGEHINT_BACKING_SHARED, &opts, source_of_snapshot(), BYTES);
	assert_int_equal(pagehint_pager_ensure(o.s.pager, 0, 8, NULL), 0);
	discard(&o, 0, 4);
	assert_int_equal(pagehint_pager_ensure(o.s.pager, 0, 8, NULL), 0);
	for (uint64_t i = 0; i < 8; i++)
		assert_true(page_is(o.s.memory, i, i < 4 ? 0 : snapshot_word(i)));
	ours_close(&o);
}

/* ... and what an event says of shared memory is no reason to leave it out of a snapshot. */
static void test_dontneed_of_shared_is_exported(void **state)
{
	(void)state;
	struct ours o;
	struct deed deed;
	struct pagehint_page_run run;
	uint32_t n = 0;
	struct pagehint_pager_opts opts = { .flags = PAGEHINT_PAGER_EVENT_REMOVE, .around_min = 8, .around_max = 8 };
	ours_open(&o, PAGEHINT_BACKING_SHARED, &opts, source_of_snapshot(), BYTES);
	deed_start(&deed, o.s.memory, 8, -1);
	while (atomic_load(&deed.done) == 0)
		step(&o);
	assert_int_equal(deed_end(&deed), snapshot_word(0));
	deed_start(&deed, o.s.memory, 4 * PAGE, MADV_DONTNEED);
	while (atomic_load(&deed.done) == 0)
		step(&o);
	assert_int_equal(deed_end(&deed), 0);
	assert_int_equal(pagehint_pager_export(o.s.pager, 0, &run, 1, &n), 0);
	assert_int_equal(run.what, PAGEHINT_PAGE_PRESENT);
	assert_int_equal(run.frames, 8);
	assert_true(page_is(o.s.memory, 2, snapshot_word(2)));
	ours_close(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_discard_blocks_until_read),
		cmocka_unit_test(test_events_before_resolves),
		cmocka_unit_test(test_fault_is_read_before_removal),
		cmocka_unit_test(test_present_in_the_middle),
		cmocka_unit_test(test_across_the_end),
		cmocka_unit_test(test_punch_and_dontneed),
		cmocka_unit_test(test_dontneed_of_shared_is_exported),
	};
	if (!may_serve())
		return 77;
	return cmocka_run_group_tests(tests, group_setup, NULL);
}
