/*
 * One file, two mappings: the guest's is served by events, the VMM's own by its threads themselves (SIGBUS). They share the
 * states, so that both see the same content, and what was discarded comes back through neither.
 */
#include <sched.h>
#include <signal.h>

#include "support/rounds.h"
#include "support/served.h"

#include <pagehint/host.h>
#include <pagehint/pager_backend.h>

#define PAGES 512u
#define BYTES (PAGES * PAGE)

static unsigned char *snapshot;
static struct pagehint_pager *on_fault;
static _Atomic uint64_t signals;

static void on_sigbus(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	int r = pagehint_pager_resolve(on_fault, info->si_addr);
	atomic_fetch_add(&signals, 1);
	if (r == -EAGAIN)
		sched_yield();
	else if (r != 0)
		_exit(9);
}

static int group_setup(void **state)
{
	(void)state;
	snapshot = snapshot_new(PAGES);
	return 0;
}

struct toucher {
	const unsigned char *memory;
	uint64_t wrong, step;
	pthread_t id;
};

static void *touch_all(void *arg)
{
	struct toucher *t = arg;
	for (uint64_t i = 0; i < PAGES; i++) {
		uint64_t page = i * t->step % PAGES;
		t->wrong += !page_is(t->memory, page, snapshot_word(page));
	}
	return NULL;
}

static void one_round(void)
{
	struct served s;
	struct pagehint_source *source;
	struct pagehint_map *map;
	struct pagehint_backend *inner, *backend;
	struct pagehint_pager *own;
	struct pagehint_outcome out;
	uint64_t id, bytes = pagehint_pager_state_size(BYTES, PAGE);
	assert_int_equal(pagehint_source_memory_new(snapshot, BYTES, &source), 0);
	served_memory(&s, BYTES, PAGEHINT_BACKING_SHARED);
	unsigned char *alias = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, s.fd, 0);
	void *states = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct pagehint_region_desc desc = { .struct_size = sizeof(desc),
					     .frames = PAGES,
					     .host_addr = (uintptr_t)s.memory,
					     .fd = s.fd,
					     .flags = PAGEHINT_REGION_UFFD_OWN };
	assert_int_equal(pagehint_map_new(NULL, &map), 0);
	assert_int_equal(pagehint_map_add(map, &desc, &id), 0);
	struct pagehint_pager_opts opts = { .map = map, .around_min = 4, .around_max = 4 };
	served_pager(&s, &opts);
	struct pagehint_pager_region r = served_region(&s, source, PAGEHINT_PAGER_MINOR | PAGEHINT_PAGER_MISSING);
	r.state = states;
	r.state_bytes = bytes;
	assert_int_equal(pagehint_pager_add(s.pager, &r), 0);
	struct pagehint_pager_opts inline_opts = {
		.struct_size = sizeof(inline_opts), .around_min = 4, .around_max = 4, .flags = PAGEHINT_PAGER_SIGBUS
	};
	assert_int_equal(pagehint_pager_new(&inline_opts, &own), 0);
	r.host_addr = (uintptr_t)alias;
	r.flags |= PAGEHINT_PAGER_SHARE;
	assert_int_equal(pagehint_pager_add(own, &r), 0);
	r.flags = PAGEHINT_PAGER_TRACK;
	assert_int_equal(pagehint_pager_add(own, &r), -EINVAL);
	on_fault = own;
	assert_int_equal(pagehint_madvise_new(map, NULL, NULL, &inner), 0);
	assert_int_equal(pagehint_pager_backend_new(s.pager, inner, NULL, &backend), 0);
	served_start(&s);
	struct toucher t[3] = { { s.memory, 0, 1, 0 }, { alias, 0, 5, 0 }, { alias, 0, 1, 0 } };
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&t[i].id, NULL, touch_all, &t[i]), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(pthread_join(t[i].id, NULL), 0);
		assert_int_equal(t[i].wrong, 0);
	}
	const struct pagehint_run run = { 64, 128 };
	do
		assert_int_equal(pagehint_backend_discard(backend, &run, 1, 0, &out, NULL, NULL), 0);
	while (out.kept != 0 && out.kept_why == PAGEHINT_WHY_IN_FLIGHT);
	assert_int_equal(out.accepted, 128 * PAGE);
	for (uint64_t i = 0; i < PAGES; i++) {
		uint64_t wanted = i >= 64 && i < 192 ? 0 : snapshot_word(i);
		assert_true(page_is(i % 2 == 0 ? alias : s.memory, i, wanted));
		assert_true(page_is(i % 2 == 0 ? s.memory : alias, i, wanted));
	}
	served_stop(&s);
	assert_int_equal(atomic_load(&s.step_error), 0);
	assert_int_equal(pagehint_backend_free(backend), 0);
	assert_int_equal(pagehint_backend_free(inner), 0);
	assert_int_equal(pagehint_pager_free(own), 0);
	munmap(alias, BYTES);
	served_close(&s);
	assert_int_equal(pagehint_map_free(map), 0);
	munmap(states, bytes);
	pagehint_source_free(source);
}

static void test_both(void **state)
{
	(void)state;
	unsigned long rounds = rounds_scaled(40);
	struct sigaction on = { .sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO }, old;
	assert_int_equal(sigaction(SIGBUS, &on, &old), 0); /* here: the framework has its own */
	for (unsigned long i = 0; i < rounds; i++)
		one_round();
	assert_int_equal(sigaction(SIGBUS, &old, NULL), 0);
	assert_true(atomic_load(&signals) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_both),
	};
	if (!may_serve())
		return 77;
	alarm(120);
	return cmocka_run_group_tests(tests, group_setup, NULL);
}
