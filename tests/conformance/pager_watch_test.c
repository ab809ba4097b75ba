/*
 * What does not move is noticed, and whoever waits is woken: a source that dies, one that never delivers, a thread that dies in
 * the middle. Time is simulated; that a thread waits is known because the
 * source was asked.
 *
 * Who waits does so inside write(2): poisoned memory makes it fail, where a plain access would be a signal.
 */
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#include "support/snapshot.h"
#include "support/waiter.h"

#define TIMEOUT UINT64_C(1000000)

/* A source that answers as it is told to. */
struct moody {
	_Atomic int asked;
	_Atomic int answers; /* 0: does not return until this is set */
	_Atomic int later;   /* -EINPROGRESS */
	_Atomic int dies;    /* the thread that asks ends */
	_Atomic uint64_t cookie, offset;
};

static int moody_fetch(void *ctx, struct pagehint_fetch *fetch)
{
	struct moody *m = ctx;
	atomic_store(&m->cookie, fetch->cookie);
	atomic_store(&m->offset, fetch->offset);
	fetch->data = snapshot + fetch->offset;
	fetch->done = fetch->bytes;
	int later = atomic_load(&m->later), dies = atomic_load(&m->dies);
	atomic_fetch_add(&m->asked, 1);
	if (dies)
		pthread_exit(NULL);
	if (later)
		return -EINPROGRESS;
	while (!atomic_load(&m->answers))
		sched_yield();
	return 0;
}

static struct moody moody;
static _Atomic uint32_t verdict; /* of the embedder */
static _Atomic uint32_t told;
static _Atomic int last_error;
static _Atomic uint64_t last_frames;

static uint32_t judge(void *ctx, const struct pagehint_pager_failure *failure)
{
	(void)ctx;
	atomic_fetch_add(&told, 1);
	atomic_store(&last_error, failure->error);
	atomic_store(&last_frames, failure->frames);
	return atomic_load(&verdict);
}

static struct pagehint_source *open_moody(struct served *s, uint32_t what)
{
	static const struct pagehint_source_ops ops = {
		.struct_size = sizeof(ops), .name = "moody", .caps = PAGEHINT_SOURCE_ASYNC, .fetch = moody_fetch
	};
	struct pagehint_pager_opts opts = { .failed = judge, .timeout_ns = TIMEOUT, .around_min = 4, .around_max = 4 };
	struct pagehint_source *source;
	memset(&moody, 0, sizeof(moody));
	atomic_store(&verdict, what);
	atomic_store(&told, 0);
	assert_int_equal(pagehint_source_new(&ops, &moody, &source), 0);
	served_memory(s, BYTES, PAGEHINT_BACKING_ANON);
	served_pager(s, &opts);
	struct pagehint_pager_region r = served_region(s, source, 0);
	assert_int_equal(pagehint_pager_add(s->pager, &r), 0);
	return source;
}

static void await_asked(int times)
{
	while (atomic_load(&moody.asked) < times)
		sched_yield();
}

/* A shard is served, and a thread waits for a page: the source has been asked for it. */
static void serve_until_asked(struct served *s, struct waiter *w, const void *at)
{
	served_start(s);
	waiter_start(w, at);
	await_asked(1);
}

/* Time goes on, and nothing else. */
static void patience_ends(struct served *s)
{
	uint64_t deadline, now = now_ns() + 2 * TIMEOUT;
	assert_int_equal(pagehint_pager_watch(s->pager, now, &deadline), 0);
	assert_int_equal(pagehint_pager_watch(s->pager, now + TIMEOUT + 1, &deadline), 0);
}

/* Its fetch never returns: the pages are poisoned, and the answer, when it comes after all, is not used. */
static void test_source_hangs(void **state)
{
	(void)state;
	struct served s;
	struct waiter w;
	struct pagehint_source *source = open_moody(&s, PAGEHINT_FAIL_POISON);
	serve_until_asked(&s, &w, s.memory + 8 * PAGE);
	patience_ends(&s);
	assert_poisoned(waiter_end(&w)); /* woken although nobody answered */
	assert_true(atomic_load(&told) >= 1);
	assert_int_equal(atomic_load(&last_error), -ETIMEDOUT);
	atomic_store(&moody.answers, 1);
	served_stop(&s);
	struct pagehint_pager_stats stats = served_stats(&s);
	assert_int_equal(stats.revoked, 1);
	assert_int_equal(stats.poisoned, 4);
	assert_int_equal(stats.installed, 0);
	assert_int_equal(pagehint_pager_resolve(s.pager, s.memory + 8 * PAGE), -EHWPOISON);
	/* the rest is served as ever */
	assert_int_equal(pagehint_pager_ensure(s.pager, 0, 8, NULL), 0);
	assert_true(page_is(s.memory, 7, snapshot_word(7)));
	close_all(&s, source);
}

/* It says "later", and does not come: what is delivered after the deadline belongs to nobody. */
static void test_never_delivered(void **state)
{
	(void)state;
	struct served s;
	struct waiter w;
	struct pagehint_source *source = open_moody(&s, PAGEHINT_FAIL_POISON);
	atomic_store(&moody.later, 1);
	serve_until_asked(&s, &w, s.memory);
	patience_ends(&s);
	assert_poisoned(waiter_end(&w));
	assert_int_equal(pagehint_pager_deliver(s.pager, atomic_load(&moody.cookie), snapshot, 4 * PAGE, 0), -EALREADY);
	served_stop(&s);
	assert_int_equal(served_stats(&s).poisoned, 4);
	close_all(&s, source);
}

static void test_delivered(void **state)
{
	(void)state;
	struct served s;
	struct waiter w;
	struct pagehint_source *source = open_moody(&s, PAGEHINT_FAIL_POISON);
	atomic_store(&moody.later, 1);
	serve_until_asked(&s, &w, s.memory + 5 * PAGE);
	uint64_t cookie = atomic_load(&moody.cookie);
	assert_int_equal(atomic_load(&moody.offset), 4 * PAGE);
	assert_int_equal(pagehint_pager_deliver(s.pager, cookie, snapshot, 5 * PAGE, 0), -EINVAL);
	/* a part: the page that is waited for is in it, the others are asked for again when they are touched */
	assert_int_equal(pagehint_pager_deliver(s.pager, cookie, snapshot + 4 * PAGE, 2 * PAGE, 0), 0);
	assert_int_equal(waiter_end(&w), 0);
	assert_int_equal(w.word, snapshot_word(5));
	assert_int_equal(pagehint_pager_deliver(s.pager, cookie, snapshot, 2 * PAGE, 0), -EALREADY);
	assert_int_equal(pagehint_pager_deliver(s.pager, cookie + (1 << 8), snapshot, 2 * PAGE, 0), -EALREADY);
	waiter_start(&w, s.memory + 6 * PAGE);
	await_asked(2);
	assert_int_equal(pagehint_pager_deliver(s.pager, atomic_load(&moody.cookie), NULL, 0, -EIO), 0);
	assert_poisoned(waiter_end(&w));
	served_stop(&s);
	close_all(&s, source);
}

static void test_tried_again(void **state)
{
	(void)state;
	struct served s;
	struct waiter w;
	struct pagehint_source *source = open_moody(&s, PAGEHINT_FAIL_RETRY);
	atomic_store(&moody.later, 1);
	serve_until_asked(&s, &w, s.memory);
	atomic_store(&moody.answers, 1);
	atomic_store(&moody.later, 0); /* it has recovered */
	patience_ends(&s);
	assert_int_equal(waiter_end(&w), 0);
	assert_int_equal(w.word, snapshot_word(0));
	served_stop(&s);
	assert_int_equal(served_stats(&s).poisoned, 0);
	close_all(&s, source);
}

/* Zero only because the embedder says so. */
static void test_zero_by_order(void **state)
{
	(void)state;
	struct served s;
	struct waiter w;
	struct pagehint_source *source = open_moody(&s, PAGEHINT_FAIL_ZERO);
	atomic_store(&moody.later, 1);
	serve_until_asked(&s, &w, s.memory);
	patience_ends(&s);
	assert_int_equal(waiter_end(&w), 0);
	assert_int_equal(w.word, 0);
	served_stop(&s);
	assert_int_equal(served_stats(&s).zeroed, 4);
	close_all(&s, source);
}

/* The thread of a shard dies in the middle of a step: the shard is given to whoever comes next. */
static void test_thread_dies(void **state)
{
	(void)state;
	struct served s;
	struct waiter w, other;
	uint64_t deadline;
	struct pagehint_source *source = open_moody(&s, PAGEHINT_FAIL_RETRY);
	atomic_store(&moody.dies, 1);
	serve_until_asked(&s, &w, s.memory);
	served_stop(&s);
	atomic_store(&moody.dies, 0);
	atomic_store(&moody.answers, 1);
	assert_int_equal(pagehint_pager_step(s.pager, 0, now_ns(), &deadline),
			 -EBUSY); /* it looks as if he were inside */
	waiter_start(&other, s.memory + 32 * PAGE);
	patience_ends(&s);
	served_start(&s);
	assert_int_equal(waiter_end(&w), 0);
	assert_int_equal(w.word, snapshot_word(0));
	assert_int_equal(waiter_end(&other), 0);
	assert_int_equal(other.word, snapshot_word(32));
	served_stop(&s);
	assert_int_equal(atomic_load(&s.step_error), 0);
	assert_true(served_stats(&s).restarts >= 1);
	close_all(&s, source);
}

/* A shard that nobody steps is told to the embedder. */
static void test_nobody_steps(void **state)
{
	(void)state;
	struct served s;
	struct waiter w;
	int fd;
	struct pagehint_source *source = open_moody(&s, PAGEHINT_FAIL_POISON);
	atomic_store(&moody.answers, 1);
	waiter_start(&w, s.memory);
	assert_int_equal(pagehint_pager_fd(s.pager, 0, &fd), 0);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	assert_int_equal(poll(&p, 1, 10000), 1);
	patience_ends(&s);
	assert_int_equal(atomic_load(&told), 1);
	assert_int_equal(atomic_load(&last_frames), 0);
	assert_int_equal(atomic_load(&last_error), -ETIMEDOUT);
	served_start(&s);
	assert_int_equal(waiter_end(&w), 0);
	served_stop(&s);
	close_all(&s, source);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_source_hangs),  cmocka_unit_test(test_never_delivered),
		cmocka_unit_test(test_delivered),     cmocka_unit_test(test_tried_again),
		cmocka_unit_test(test_zero_by_order), cmocka_unit_test(test_thread_dies),
		cmocka_unit_test(test_nobody_steps),
	};
	if (!may_serve())
		return 77;
	alarm(20); /* who is not woken must not wait for ever */
	return cmocka_run_group_tests(tests, snapshot_setup, NULL);
}
