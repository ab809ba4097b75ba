/*
 * Every call that the device makes on its backend fails once, at its k-th time, for k = 1, 2, ... until nothing is left to fail:
 * each request comes back exactly once and in order, nothing is discarded that was not given, the sums are right, and what comes
 * after works. And its one allocation fails.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include <pagehint/gate.h>

#include "fakes/guest.h"

#define F GUEST_FREE
#define REQUESTS 3u

void *__real_calloc(size_t n, size_t size);
void *__real_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_malloc(size_t size);

static unsigned fail_alloc; /* this one fails; 0 = none */

static int alloc_fails(void)
{
	return fail_alloc != 0 && --fail_alloc == 0;
}

void *__wrap_calloc(size_t n, size_t size)
{
	return alloc_fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_malloc(size_t size)
{
	return alloc_fails() ? NULL : __real_malloc(size);
}

static void send(struct guest *g, uint32_t role, uint32_t i)
{
	struct ph_ring_buffer buffers[6];
	uint32_t pfns[6];
	for (uint32_t b = 0; b < 6; b++) { /* six runs that do not touch */
		uint64_t page = F + 64 * i + 2 * b + (role == PAGEHINT_BALLOON_Q_REPORT ? 1024 : 0);
		pfns[b] = (uint32_t)page;
		buffers[b] = (struct ph_ring_buffer) { .addr = page * 4096, .len = 4096 };
		guest_give(g, page, 1);
	}
	if (role == PAGEHINT_BALLOON_Q_REPORT) {
		guest_put(g, role, buffers, 0, 6, i);
		return;
	}
	buffers[0] = (struct ph_ring_buffer) { .addr = guest_pfns(g, pfns, 6), .len = 24 };
	guest_put(g, role, buffers, 1, 0, i);
}

static void run_out(struct guest *g)
{
	for (int i = 0; i < 1000; i++) {
		guest_answer(g, 1);
		assert_int_equal(guest_step(g), 0);
		if (g->work.more == 0 && g->work.deadline_ns == UINT64_MAX)
			return;
		g->now = g->work.deadline_ns > g->now ? g->work.deadline_ns : g->now;
	}
	fail_msg("it never comes to an end");
}

/* Returns 0 when there were fewer than k calls. */
static int one(uint32_t async, uint32_t k, int error)
{
	const uint32_t roles[] = { PAGEHINT_BALLOON_Q_INFLATE, PAGEHINT_BALLOON_Q_REPORT, PAGEHINT_BALLOON_Q_DEFLATE };
	struct guest_how how = { .async = async, .max_runs = 4, .opts.flags = PAGEHINT_DEVICE_POPULATE };
	struct guest *g = guest_open(&how);
	guest_boot(g, 0);
	g->fail_at = k;
	g->fail_with = error;
	for (uint32_t i = 0; i < REQUESTS; i++)
		for (uint32_t r = 0; r < 3; r++) {
			send(g, roles[r], i);
			assert_int_equal(guest_kick(g, roles[r]), 0);
		}
	run_out(g);
	for (uint32_t r = 0; r < 3; r++) {
		for (uint32_t i = 0; i < REQUESTS; i++)
			assert_int_equal(guest_got(g, roles[r]), i);
		assert_int_equal(guest_got(g, roles[r]), -1);
	}
	int happened = g->calls >= k;
	struct pagehint_device_stats stats = guest_stats(g);
	assert_int_equal(stats.popped, 3 * REQUESTS);
	assert_int_equal(stats.completed, 3 * REQUESTS);
	assert_int_equal(stats.in_flight, 0);
	assert_int_equal(stats.broken, 0);
	uint64_t all = UINT64_C(2) * REQUESTS * 6 * 4096, lost = all - stats.freed;
	if (!happened || (async && error == -EAGAIN && stats.populate_errors == 0))
		assert_int_equal(lost, 0); /* asked again */
	else
		assert_true(lost <= 6 * 4096); /* of one batch at the most */
	if (happened && lost != 0)
		assert_true(stats.failed + stats.submit_errors != 0);
	if (happened && lost == 0)
		assert_true(stats.populate_errors == 1 || error == -EAGAIN);
	guest_check(g);
	assert_int_equal(pagehint_gate_in_flight(g->gate), 0);
	/* the failure is over */
	g->fail_at = 0;
	guest_refill(g);
	send(g, PAGEHINT_BALLOON_Q_REPORT, 0);
	assert_int_equal(guest_kick(g, PAGEHINT_BALLOON_Q_REPORT), 0);
	run_out(g);
	assert_int_equal(guest_got(g, PAGEHINT_BALLOON_Q_REPORT), 0);
	assert_int_equal(g->n_runs, 6);
	guest_close(g);
	return happened;
}

static void every_call_of_the_backend_fails_once(void **state)
{
	(void)state;
	const int errors[] = { -EIO, -EAGAIN };
	for (uint32_t async = 0; async < 2; async++)
		for (uint32_t e = 0; e < 2; e++) {
			uint32_t k = 1;
			while (one(async, k, errors[e]))
				k++;
			assert_true(k > 3 * REQUESTS);
		}
}

static void its_one_allocation_fails(void **state)
{
	(void)state;
	struct guest_how how = { .bare = 1 };
	struct guest *g = guest_open(&how);
	struct pagehint_device *device = NULL;
	fail_alloc = 1;
	assert_int_equal(pagehint_device_new(g->map, g->backend, g->gate, NULL, &device), -ENOMEM);
	assert_null(device);
	fail_alloc = 2; /* there is no second */
	assert_int_equal(pagehint_device_new(g->map, g->backend, g->gate, NULL, &device), 0);
	assert_int_equal(fail_alloc, 1);
	fail_alloc = 0;
	assert_int_equal(pagehint_device_free(device), 0);
	guest_close(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_call_of_the_backend_fails_once),
		cmocka_unit_test(its_one_allocation_fails),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
