/*
 * What the states say stays true when something comes in between: a discard between a look and a call, a fault between a
 * registration and its region, a cleaning between a mark and a right, a file that is shorter than it was.
 *
 * What comes in between is done by a system call on its way: no luck is needed.
 */
#include "support/between.h"
#include "support/naive.h"

/* ---- what is said to be removed ---- */

/* What is kept and is to be zero may have lost its mapping: it is wiped without waiting for a fault that nobody could answer. */
static void test_wiped_without_a_mapping(void **state)
{
	(void)state;
	struct served s;
	struct pagehint_outcome o;
	open_between(&s, NULL, PAGEHINT_BACKING_SHARED, PAGEHINT_PAGER_MINOR, 0);
	assert_int_equal(pwrite(s.fd, snapshot, BYTES, 0), BYTES);
	assert_int_equal(pagehint_pager_ensure(s.pager, 0, 8, NULL), 0);
	assert_int_equal(madvise(s.memory, 4 * PAGE, MADV_DONTNEED), 0); /* the file still has them */
	discard(&s, KEEPS, 0, 8, PAGEHINT_DISCARD_ZERO, &o);
	assert_int_equal(o.kept, 8 * PAGE);
	assert_int_equal(o.kept_why, PAGEHINT_WHY_ZEROED);
	for (uint64_t i = 0; i < 8; i++)
		assert_true(page_is(s.memory, i, 0));
	assert_int_equal(what_is(&s, 0), PAGEHINT_PAGE_PRESENT);
	close_all(&s, NULL);
}

static void fill_once(void)
{
	uint64_t deadline = 0;
	for (unsigned i = 0; i < 8 && deadline != UINT64_MAX; i++)
		assert_int_equal(pagehint_pager_fill(b.s->pager, UINT32_MAX, 1, 0, NULL, &deadline), 0);
	assert_int_not_equal(deadline, UINT64_MAX); /* what a discard has in hand may be absent again */
}

/* A fill is not through while a discard has absent pages in hand. */
static void test_filled_beside_a_discard(void **state)
{
	(void)state;
	struct served s;
	struct pagehint_outcome o;
	struct pagehint_source *source = source_of_snapshot();
	open_between(&s, source, PAGEHINT_BACKING_ANON, 0, 0);
	b.within = fill_once;
	discard(&s, KEEPS, 0, 8, 0, &o);
	assert_int_equal(what_is(&s, 0), PAGEHINT_PAGE_ABSENT);
	assert_int_equal(what_is(&s, 8), PAGEHINT_PAGE_PRESENT);
	b.within = NULL;
	close_all(&s, source);
}

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
	b.call = _UFFDIO_ZEROPAGE;
	b.act = discard_six;
	atomic_store(&b.armed, 1);
	assert_int_equal(pagehint_pager_resolve(s.pager, s.memory + 6 * PAGE), 0);
	assert_int_equal(atomic_load(&b.armed), 0);
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
	atomic_store(&b.armed, 1);
	s.memory[2 * PAGE] = 1;
	s.memory[2 * PAGE] = 2;
	served_stop(&s);
	assert_int_equal(atomic_load(&b.armed), 0);
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
	b.call = _UFFDIO_REGISTER;
	b.act = touch_and_step;
	b.after = 1;
	atomic_store(&b.armed, 1);
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
		cmocka_unit_test(test_wiped_without_a_mapping),
		cmocka_unit_test(test_filled_beside_a_discard),
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
	alarm(20); /* who is not woken must not wait for ever */
	return cmocka_run_group_tests(tests, snapshot_setup, NULL);
}
