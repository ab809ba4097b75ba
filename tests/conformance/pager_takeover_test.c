/*
 * A handler's process is killed in the middle of a fetch, and another goes on with its descriptors and its states: who waited
 * is served, what was removed stays so, and nothing is zero that should not be.
 */
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#include "support/snapshot.h"
#include "support/waiter.h"

/* A source that answers as it is told to. */
struct moody {
	_Atomic int asked;
	_Atomic int answers; /* 0: does not return until this is set */
	_Atomic int ready;   /* the first handler serves */
};

static int moody_fetch(void *ctx, struct pagehint_fetch *fetch)
{
	struct moody *m = ctx;
	fetch->data = snapshot + fetch->offset;
	fetch->done = fetch->bytes;
	atomic_fetch_add(&m->asked, 1);
	while (!atomic_load(&m->answers))
		sched_yield();
	return 0;
}

/* The first handler: serves until it is killed, in the middle of a fetch. */
static void first_handler(struct served *s, int *fds, void *state, uint64_t bytes, struct moody *shared)
{
	static const struct pagehint_source_ops ops = { .struct_size = sizeof(ops),
							.name = "moody",
							.fetch = moody_fetch };
	struct pagehint_pager_opts opts = { .struct_size = sizeof(opts),
					    .fds = fds,
					    .around_min = 1,
					    .around_max = 1,
					    .flags = PAGEHINT_PAGER_FOREIGN | PAGEHINT_PAGER_EVENT_REMOVE };
	struct pagehint_source *source;
	if (pagehint_source_new(&ops, shared, &source) != 0 || pagehint_pager_new(&opts, &s->pager) != 0)
		_exit(1);
	struct pagehint_pager_region r = served_region(s, source, 0);
	r.state = state;
	r.state_bytes = bytes;
	if (pagehint_pager_add(s->pager, &r) != 0)
		_exit(2);
	s->shards = 1;
	served_start(s);
	atomic_store(&shared->ready, 1);
	pause();
	_exit(3);
}

static void test_takeover(void **state)
{
	(void)state;
	struct served s;
	struct waiter w;
	int status;
	uint64_t bytes = pagehint_pager_state_size(BYTES, PAGE);
	served_memory(&s, BYTES, PAGEHINT_BACKING_ANON);
	/* all that the two handlers share: the states, the snapshot, and the source's mood */
	void *states = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct moody *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct pagehint_pager_opts plain = { .struct_size = sizeof(plain), .flags = PAGEHINT_PAGER_EVENT_REMOVE };
	struct pagehint_pager *maker;
	int fd, fds[1];
	/* a pager that makes the descriptor and serves nothing: this process keeps it, so that nothing is zero when he dies */
	assert_int_equal(pagehint_pager_new(&plain, &maker), 0);
	assert_int_equal(pagehint_pager_fd(maker, 0, &fd), 0);
	fds[0] = dup(fd);
	pid_t pid = fork();
	assert_true(pid >= 0);
	atomic_store(&shared->answers, 1);
	if (pid == 0)
		first_handler(&s, fds, states, bytes, shared);
	while (atomic_load(&shared->ready) == 0)
		sched_yield();
	assert_true(page_is(s.memory, 7, snapshot_word(7)));
	assert_int_equal(madvise(s.memory + 7 * PAGE, PAGE, MADV_DONTNEED), 0); /* removed while the first was there */
	int asked = atomic_load(&shared->asked);
	atomic_store(&shared->answers, 0);
	waiter_start(&w, s.memory + 40 * PAGE);
	while (atomic_load(&shared->asked) == asked)
		sched_yield();
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);

	/* the successor: here it is the process itself */
	struct pagehint_source *source;
	assert_int_equal(pagehint_source_memory_new(snapshot, BYTES, &source), 0);
	struct pagehint_pager_opts opts = {
		.fds = fds, .around_min = 1, .around_max = 1, .flags = PAGEHINT_PAGER_EVENT_REMOVE
	};
	served_pager(&s, &opts);
	struct pagehint_pager_region r = served_region(&s, source, PAGEHINT_PAGER_ATTACH);
	r.state = states;
	r.state_bytes = bytes - 1;
	assert_int_equal(pagehint_pager_add(s.pager, &r), -EINVAL);
	r.state_bytes = bytes;
	assert_int_equal(pagehint_pager_add(s.pager, &r), 0);
	served_start(&s);
	assert_int_equal(waiter_end(&w), 0); /* who waited for the dead one */
	assert_int_equal(w.word, snapshot_word(40));
	assert_true(page_is(s.memory, 7, 0)); /* what was removed stays so */
	assert_true(page_is(s.memory, 9, snapshot_word(9)));
	served_stop(&s);
	assert_int_equal(atomic_load(&s.step_error), 0);
	/* all descriptors first: where removals are events, unmapping waits for a reader as long as one is open */
	assert_int_equal(pagehint_pager_free(maker), 0);
	close_all(&s, source);
	munmap(states, bytes);
	munmap(shared, 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_takeover),
	};
	if (!may_serve())
		return 77;
	alarm(20); /* who is not woken must not wait for ever */
	return cmocka_run_group_tests(tests, snapshot_setup, NULL);
}
