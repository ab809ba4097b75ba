/*
 * What the states say stays true when something comes in between: a discard between a look and a call, a fault between a
 * registration and its region, a cleaning between a mark and a right, a file that is shorter than it was.
 *
 * What comes in between is done by a system call on its way: no luck is needed.
 */
#include <pagehint/host.h>
#include <pagehint/pager_backend.h>

#include "support/naive.h"
#include "support/snapshot.h"
#include "support/waiter.h"

#include "pager/pager.h"
#include "pager/uffd.h"

static struct between {
	struct ph_sys sys;
	int armed;
	unsigned call;     /* number of the request that is met */
	void (*act)(void); /* done once */
	int after;         /* 1: after the call, else before */
	struct served *s;
	struct pagehint_backend *backend;
	struct waiter w;
} b;

static int64_t met_ioctl(void *ctx, int fd, unsigned long request, void *argument)
{
	int meets = b.armed && (request & 0xff) == b.call;
	int64_t r = 0;
	if (meets)
		b.armed = 0;
	if (!meets || b.after)
		r = ph_sys_real.ioctl(ctx, fd, request, argument);
	if (meets)
		b.act();
	return meets && !b.after ? ph_sys_real.ioctl(ctx, fd, request, argument) : r;
}

static uint32_t told;

static uint32_t poison(void *ctx, const struct pagehint_pager_failure *failure)
{
	(void)ctx;
	(void)failure;
	told++;
	return PAGEHINT_FAIL_POISON;
}

static void open_between(struct served *s, struct pagehint_source *source, uint32_t backing, uint32_t flags,
			 uint32_t how)
{
	struct pagehint_pager_opts opts = { .struct_size = sizeof(opts),
					    .failed = poison,
					    .flags = how,
					    .timeout_ns = 1000000,
					    .around_min = 1,
					    .around_max = 1 };
	memset(&b, 0, sizeof(b));
	b.sys = ph_sys_real;
	b.sys.ioctl = met_ioctl;
	b.s = s;
	told = 0;
	served_memory(s, BYTES, backing);
	assert_int_equal(ph_pager_new_with(&opts, &b.sys, &s->pager), 0);
	if (source == NULL && flags == 0)
		return;
	struct pagehint_pager_region r = served_region(s, source, flags);
	assert_int_equal(pagehint_pager_add(s->pager, &r), 0);
}

static struct pagehint_source *source_of_snapshot(void)
{
	struct pagehint_source *source;
	assert_int_equal(pagehint_source_memory_new(snapshot, BYTES, &source), 0);
	return source;
}

static uint32_t what_is(const struct served *s, uint64_t page)
{
	struct pagehint_page_run run;
	uint32_t n = 0;
	assert_int_equal(pagehint_pager_export(s->pager, page, &run, 1, &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(run.frame, page);
	return run.what;
}

/* ---- discards: an inner backend that frees all, keeps all, or keeps every other page of a run ---- */

enum mood { FREES, KEEPS, HALF };

static int moody_discard(void *ctx, const struct pagehint_run *runs, uint32_t n, uint32_t flags,
			 struct pagehint_outcome *outcomes, uint32_t *ret_done)
{
	enum mood mood = *(enum mood *)ctx;
	(void)flags;
	for (uint32_t i = 0; i < n; i++) {
		struct pagehint_outcome *o = &outcomes[i];
		for (uint64_t k = 0; k < runs[i].frames; k++) {
			int frees = mood == FREES || (mood == HALF && k % 2 == 0);
			unsigned char *at = b.s->memory + (runs[i].frame + k) * PAGE;
			if (frees && b.s->fd < 0)
				assert_int_equal(madvise(at, PAGE, MADV_DONTNEED), 0);
			else if (frees)
				assert_int_equal(madvise(at, PAGE, MADV_REMOVE), 0);
			o->asked += PAGE;
			*(frees ? &o->freed : &o->kept) += PAGE;
		}
		o->kept_why = o->kept != 0 ? PAGEHINT_WHY_CANNOT : PAGEHINT_WHY_NONE;
	}
	*ret_done = n;
	return 0;
}

static void discard(struct served *s, enum mood mood, uint64_t page, uint64_t pages, uint32_t flags,
		    struct pagehint_outcome *ret_sum)
{
	const struct pagehint_backend_ops ops = { .struct_size = sizeof(ops),
						  .name = "moody",
						  .discard = moody_discard };
	struct pagehint_backend *inner, *backend;
	const struct pagehint_run run = { page, pages };
	assert_int_equal(pagehint_backend_new(&ops, &mood, NULL, &inner), 0);
	assert_int_equal(pagehint_pager_backend_new(s->pager, inner, NULL, &backend), 0);
	assert_int_equal(pagehint_backend_discard(backend, &run, 1, flags, NULL, ret_sum, NULL), 0);
	assert_int_equal(pagehint_backend_free(backend), 0);
	assert_int_equal(pagehint_backend_free(inner), 0);
}

/* ---- poison ---- */

static int dies(void *ctx, struct pagehint_fetch *fetch)
{
	(void)fetch;
	if (ctx != NULL)
		((void (*)(void))(uintptr_t)ctx)();
	return -EIO;
}

static struct pagehint_source *dying_source(void (*before)(void))
{
	static const struct pagehint_source_ops ops = { .struct_size = sizeof(ops), .name = "dying", .fetch = dies };
	struct pagehint_source *source;
	assert_int_equal(pagehint_source_new(&ops, (void *)(uintptr_t)before, &source), 0);
	return source;
}

/* A discard that keeps it leaves it poisoned, and nobody touches it to make it zero; one that frees it makes it zero. */
static void test_poison_that_is_kept(void **state)
{
	(void)state;
	struct served s;
	struct pagehint_outcome o;
	struct pagehint_source *source = dying_source(NULL);
	open_between(&s, source, PAGEHINT_BACKING_ANON, 0, 0);
	assert_int_equal(pagehint_pager_ensure(s.pager, 3, 1, NULL), -EHWPOISON);
	discard(&s, KEEPS, 3, 1, 0, &o);
	assert_int_equal(o.kept, PAGE);
	assert_int_equal(what_is(&s, 3), PAGEHINT_PAGE_POISONED);
	discard(&s, KEEPS, 3, 1, PAGEHINT_DISCARD_ZERO, &o);
	assert_int_equal(o.asked, PAGE);
	assert_int_equal(what_is(&s, 3), PAGEHINT_PAGE_POISONED);
	assert_int_equal(o.kept, PAGE);
	assert_int_not_equal(o.kept_why, PAGEHINT_WHY_ZEROED);
	assert_int_equal(pagehint_pager_ensure(s.pager, 3, 1, NULL), -EHWPOISON);
	discard(&s, FREES, 3, 1, 0, &o);
	assert_int_equal(pagehint_pager_ensure(s.pager, 3, 1, NULL), 0);
	assert_true(page_is(s.memory, 3, 0));
	close_all(&s, source);
}

static void discard_in_flight(void)
{
	struct pagehint_outcome o;
	discard(b.s, FREES, 5, 1, 0, &o);
	assert_int_equal(o.kept_why, PAGEHINT_WHY_IN_FLIGHT);
}

/* What was discarded while it was fetched is zero: the source may die, and nobody need be told. */
static void test_discarded_and_not_to_be_had(void **state)
{
	(void)state;
	struct served s;
	struct pagehint_source *source = dying_source(discard_in_flight);
	open_between(&s, source, PAGEHINT_BACKING_ANON, 0, 0);
	int r = pagehint_pager_ensure(s.pager, 5, 1, NULL);
	for (unsigned i = 0; i < 3 && r == -EAGAIN; i++)
		r = pagehint_pager_ensure(s.pager, 5, 1, NULL);
	assert_int_equal(r, 0);
	assert_int_equal(told, 0);
	assert_true(page_is(s.memory, 5, 0));
	close_all(&s, source);
}

/* Poison that somebody took away without a word is put there again: else its thread would fault for ever. */
static void test_poison_that_went(void **state)
{
	(void)state;
	struct served s;
	struct waiter w;
	struct pagehint_source *source = dying_source(NULL);
	open_between(&s, source, PAGEHINT_BACKING_ANON, 0, 0);
	assert_int_equal(pagehint_pager_ensure(s.pager, 3, 1, NULL), -EHWPOISON);
	assert_int_equal(madvise(s.memory + 3 * PAGE, PAGE, MADV_DONTNEED), 0);
	served_start(&s);
	waiter_start(&w, s.memory + 3 * PAGE);
	assert_poisoned(waiter_end(&w));
	served_stop(&s);
	close_all(&s, source);
}

static _Atomic unsigned asked;

static int never(void *ctx, struct pagehint_fetch *fetch)
{
	(void)ctx;
	(void)fetch;
	atomic_fetch_add(&asked, 1);
	return -EINPROGRESS;
}

/* Where removals are events, too, a source that never delivers is given up. */
static void test_never_delivered_with_events(void **state)
{
	(void)state;
	static const struct pagehint_source_ops ops = {
		.struct_size = sizeof(ops), .name = "never", .caps = PAGEHINT_SOURCE_ASYNC, .fetch = never
	};
	struct served s;
	struct pagehint_source *source;
	uint64_t deadline, now = now_ns();
	assert_int_equal(pagehint_source_new(&ops, NULL, &source), 0);
	open_between(&s, source, PAGEHINT_BACKING_ANON, 0, PAGEHINT_PAGER_EVENT_REMOVE);
	atomic_store(&asked, 0);
	served_start(&s);
	waiter_start(&b.w, s.memory);
	while (atomic_load(&asked) == 0)
		poll(NULL, 0, 0);
	for (unsigned i = 1; i <= 3; i++) /* the watch of an embedder, later and later */
		assert_int_equal(pagehint_pager_watch(s.pager, now + i * UINT64_C(1000000000000), &deadline), 0);
	assert_poisoned(waiter_end(&b.w));
	served_stop(&s);
	assert_int_equal(told, 1);
	close_all(&s, source);
}

/* ---- what is said to be removed ---- */

/* Half of it stayed: whatever is written there later must not be called removed. */
static void test_freed_in_part(void **state)
{
	(void)state;
	struct served s;
	struct pagehint_outcome o;
	struct pagehint_source *source = source_of_snapshot();
	open_between(&s, source, PAGEHINT_BACKING_ANON, 0, 0);
	assert_int_equal(pagehint_pager_ensure(s.pager, 0, 8, NULL), 0);
	served_start(&s);
	discard(&s, HALF, 0, 8, 0, &o);
	assert_int_equal(o.freed, 4 * PAGE);
	for (uint64_t i = 0; i < 8; i++)
		*(volatile uint64_t *)(void *)(s.memory + i * PAGE + 8) = 7;
	served_stop(&s);
	for (uint64_t i = 0; i < 8; i++) {
		assert_int_not_equal(what_is(&s, i), PAGEHINT_PAGE_REMOVED);
		assert_int_equal(*(uint64_t *)(void *)(s.memory + i * PAGE), i % 2 == 0 ? 0 : snapshot_word(i));
	}
	close_all(&s, source);
}

static void discard_six(void)
{
	struct pagehint_outcome o;
	discard(b.s, FREES, 6, 1, 0, &o);
	assert_int_equal(o.freed, PAGE);
}

/* Discarded between the look and the call that fills it: it is here, and may be written without a fault. */
static void test_filled_behind_a_discard(void **state)
{
	(void)state;
	struct served s;
	struct pagehint_source *source = source_of_snapshot();
	open_between(&s, source, PAGEHINT_BACKING_ANON, 0, 0);
	assert_int_equal(pagehint_pager_ensure(s.pager, 6, 1, NULL), 0);
	assert_int_equal(madvise(s.memory + 6 * PAGE, PAGE, MADV_DONTNEED), 0); /* without a word */
	b.armed = 1;
	b.call = _UFFDIO_ZEROPAGE;
	b.act = discard_six;
	assert_int_equal(pagehint_pager_resolve(s.pager, s.memory + 6 * PAGE), 0);
	assert_int_equal(b.armed, 0);
	assert_int_equal(in_core(s.memory, 6), 1);
	assert_int_not_equal(what_is(&s, 6), PAGEHINT_PAGE_REMOVED);
	close_all(&s, source);
}

/* Where only what is in the file raises faults, the kernel fills a hole without a word: it is not known to be zero. */
static void test_holes_that_nobody_sees(void **state)
{
	(void)state;
	struct served s;
	struct pagehint_outcome o;
	open_between(&s, NULL, PAGEHINT_BACKING_SHARED, PAGEHINT_PAGER_MINOR, 0);
	assert_int_equal(pwrite(s.fd, snapshot, BYTES, 0), BYTES);
	assert_int_equal(pagehint_pager_ensure(s.pager, 0, 4, NULL), 0);
	discard(&s, FREES, 0, 2, 0, &o);
	served_start(&s);
	*(volatile uint64_t *)(void *)s.memory = 7; /* no fault is seen */
	served_stop(&s);
	assert_int_not_equal(what_is(&s, 0), PAGEHINT_PAGE_REMOVED);
	close_all(&s, NULL);

	/* where writes are tracked all are seen */
	open_between(&s, NULL, PAGEHINT_BACKING_SHARED, PAGEHINT_PAGER_MINOR | PAGEHINT_PAGER_TRACK, 0);
	assert_int_equal(pwrite(s.fd, snapshot, 4 * PAGE, 0), 4 * PAGE);
	served_start(&s);
	*(volatile uint64_t *)(void *)(s.memory + 32 * PAGE) = 7;
	assert_true(page_is(s.memory, 1, snapshot_word(1)));
	served_stop(&s);
	assert_int_equal(what_is(&s, 32), PAGEHINT_PAGE_DIRTY);
	assert_int_equal(what_is(&s, 1), PAGEHINT_PAGE_PRESENT);
	close_all(&s, NULL);
}

/* ---- writes ---- */

static void clean_all(void)
{
	assert_int_equal(pagehint_pager_clean(b.s->pager, 0, PAGES), 0);
}

/* Cleaned between the mark and the right to write: what is written then is seen by the next snapshot. */
static void test_cleaned_in_between(void **state)
{
	(void)state;
	struct served s;
	struct pagehint_source *source = source_of_snapshot();
	open_between(&s, source, PAGEHINT_BACKING_ANON, PAGEHINT_PAGER_TRACK, 0);
	served_start(&s);
	assert_true(page_is(s.memory, 2, snapshot_word(2)));
	b.act = clean_all;
	b.call = _UFFDIO_WRITEPROTECT;
	b.armed = 1;
	s.memory[2 * PAGE] = 1;
	s.memory[2 * PAGE] = 2;
	served_stop(&s);
	assert_int_equal(b.armed, 0);
	assert_int_equal(what_is(&s, 2), PAGEHINT_PAGE_DIRTY);
	close_all(&s, source);
}

/* ---- sources and regions ---- */

/* A file that is shorter than it was: what it had is an error, not zero; its holes are zero. */
static void test_file_cut_short(void **state)
{
	(void)state;
	struct served s;
	struct waiter w;
	struct pagehint_source *source;
	int file = memfd_create("snapshot", MFD_CLOEXEC);
	assert_int_equal(pwrite(file, snapshot, BYTES, 0), BYTES);
	assert_int_equal(pagehint_source_file_new(file, 0, BYTES, &source), 0);
	assert_int_equal(ftruncate(file, 8 * PAGE), 0);
	assert_int_equal(ftruncate(file, 16 * PAGE), 0); /* a hole at its end */
	open_between(&s, source, PAGEHINT_BACKING_ANON, 0, 0);
	assert_int_equal(what_is(&s, 10), PAGEHINT_PAGE_ZERO);
	assert_int_equal(what_is(&s, 40), PAGEHINT_PAGE_ABSENT);
	served_start(&s);
	assert_true(page_is(s.memory, 7, snapshot_word(7)));
	assert_true(page_is(s.memory, 8, 0));
	assert_true(page_is(s.memory, 15, 0));
	for (uint64_t i = 16; i < PAGES; i += 47) {
		waiter_start(&w, s.memory + i * PAGE);
		assert_poisoned(waiter_end(&w));
	}
	served_stop(&s);
	assert_true(told >= 2);
	close_all(&s, source);
	close(file);
}

/* Somebody touches the region as soon as it is registered, and its shard is stepped before it is known. */
static void touch_and_step(void)
{
	int fd;
	uint64_t deadline;
	waiter_start(&b.w, b.s->memory + 9 * PAGE);
	assert_int_equal(pagehint_pager_fd(b.s->pager, 0, &fd), 0);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	assert_int_equal(poll(&p, 1, 10000), 1);
	assert_int_equal(pagehint_pager_step(b.s->pager, 0, now_ns(), &deadline), 0);
}

static void test_touched_while_it_is_added(void **state)
{
	(void)state;
	struct served s;
	struct pagehint_source *source = source_of_snapshot();
	open_between(&s, NULL, PAGEHINT_BACKING_ANON, 0, 0);
	b.armed = 1;
	b.call = _UFFDIO_REGISTER;
	b.act = touch_and_step;
	b.after = 1;
	struct pagehint_pager_region r = served_region(&s, source, 0);
	assert_int_equal(pagehint_pager_add(s.pager, &r), 0);
	served_start(&s);
	assert_int_equal(waiter_end(&b.w), 0);
	assert_int_equal(b.w.word, snapshot_word(9));
	served_stop(&s);
	close_all(&s, source);
}

/* A handler of a signal leaves errno as it was, whatever the kernel said meanwhile. */
static void test_errno_stays(void **state)
{
	(void)state;
	struct served s;
	struct pagehint_source *source = source_of_snapshot();
	open_between(&s, source, PAGEHINT_BACKING_ANON, 0, PAGEHINT_PAGER_SIGBUS);
	assert_int_equal(pagehint_pager_resolve(s.pager, s.memory), 0);
	errno = ENOTTY;
	assert_int_equal(pagehint_pager_resolve(s.pager, s.memory), 0); /* met: EEXIST from the kernel */
	assert_int_equal(errno, ENOTTY);
	close_all(&s, source);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_poison_that_is_kept),
		cmocka_unit_test(test_discarded_and_not_to_be_had),
		cmocka_unit_test(test_poison_that_went),
		cmocka_unit_test(test_never_delivered_with_events),
		cmocka_unit_test(test_freed_in_part),
		cmocka_unit_test(test_filled_behind_a_discard),
		cmocka_unit_test(test_holes_that_nobody_sees),
		cmocka_unit_test(test_cleaned_in_between),
		cmocka_unit_test(test_file_cut_short),
		cmocka_unit_test(test_touched_while_it_is_added),
		cmocka_unit_test(test_errno_stays),
	};
	if (!may_serve())
		return 77;
	alarm(40); /* who is not woken must not wait for ever */
	return cmocka_run_group_tests(tests, snapshot_setup, NULL);
}
