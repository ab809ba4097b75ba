/*
 * Poison stays where it belongs: not on what was discarded, not gone because a discard looked at it, and not missing where a
 * source never answers.
 */
#include "support/between.h"

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

static void look_for_poison(void *ctx, const char *text)
{
	if (strstr(text, "cannot poison") != NULL)
		++*(unsigned *)ctx;
}

static unsigned says_that_it_cannot(const struct pagehint_pager *pager)
{
	unsigned n = 0;
	const struct pagehint_sink sink = { .line = look_for_poison, .ctx = &n };
	pagehint_pager_explain(pager, &sink);
	return n;
}

/* A pager with descriptors of another says of the kernel what the other says. */
static void test_explained_with_passed_descriptors(void **state)
{
	(void)state;
	struct served s, other;
	int fd;
	struct pagehint_source *source = serve(&other, PAGEHINT_BACKING_ANON, NULL, 0), *more = source_of_snapshot();
	assert_int_equal(pagehint_pager_fd(other.pager, 0, &fd), 0);
	int fds[1] = { dup(fd) };
	struct pagehint_pager_opts opts = { .fds = fds };
	served_memory(&s, BYTES, PAGEHINT_BACKING_ANON);
	served_pager(&s, &opts);
	struct pagehint_pager_region r = served_region(&s, more, 0);
	assert_int_equal(pagehint_pager_add(s.pager, &r), 0);
	assert_int_equal(says_that_it_cannot(s.pager), says_that_it_cannot(other.pager));
	close_all(&s, more);
	close_all(&other, source);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_poison_that_is_kept),
		cmocka_unit_test(test_discarded_and_not_to_be_had),
		cmocka_unit_test(test_poison_that_went),
		cmocka_unit_test(test_never_delivered_with_events),
		cmocka_unit_test(test_explained_with_passed_descriptors),
	};
	if (!may_serve())
		return 77;
	alarm(20); /* who is not woken must not wait for ever */
	return cmocka_run_group_tests(tests, snapshot_setup, NULL);
}
