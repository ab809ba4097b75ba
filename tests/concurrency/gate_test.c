/*
 * Discards against a gate that opens and closes. A plain word is written only while the gate is closed and drained, and read
 * only inside: if a closer ever hears 0 while somebody is inside, ThreadSanitizer sees it, and so do the counts.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <pagehint/gate.h>

#include "support/meeting.h"

#define ROUNDS 1500

struct test {
	struct pagehint_gate *gate;
	uint64_t word;
	_Atomic uint32_t running, inside;
	_Atomic uint64_t entered, refused, faults;
	pthread_mutex_t one_writer;
};

static void fault_if(struct test *t, int wrong)
{
	if (wrong)
		atomic_fetch_add(&t->faults, 1);
}

static void *close_and_open(void *arg)
{
	struct test *t = arg;
	for (uint32_t round = 0; round < ROUNDS; round++) {
		uint32_t reason = round % PAGEHINT_INHIBIT_COUNT;
		uint64_t inside = 0;
		fault_if(t, pagehint_gate_close(t->gate, reason, &inside) != 0);
		while (inside != 0) {
			sched_yield();
			inside = pagehint_gate_in_flight(t->gate);
		}
		pthread_mutex_lock(&t->one_writer);
		fault_if(t, atomic_load(&t->inside) != 0);
		t->word++;
		pthread_mutex_unlock(&t->one_writer);
		fault_if(t, (pagehint_gate_closed(t->gate) >> reason & 1) == 0);
		fault_if(t, pagehint_gate_open(t->gate, reason) != 0);
		sched_yield();
	}
	atomic_fetch_sub(&t->running, 1);
	return NULL;
}

static void *discard(void *arg)
{
	struct test *t = arg;
	while (atomic_load(&t->running) != 0) {
		uint32_t reason = PAGEHINT_INHIBIT_COUNT;
		int r = pagehint_gate_enter(t->gate, &reason);
		if (r == 0) {
			atomic_fetch_add(&t->inside, 1);
			fault_if(t, t->word > 2 * ROUNDS);
			atomic_fetch_sub(&t->inside, 1);
			pagehint_gate_leave(t->gate);
			atomic_fetch_add(&t->entered, 1);
		} else {
			fault_if(t, r != -EBUSY || reason >= PAGEHINT_INHIBIT_COUNT);
			atomic_fetch_add(&t->refused, 1);
		}
	}
	return NULL;
}

static void test_close_against_enter(void **state)
{
	(void)state;
	struct test t;
	struct pagehint_gate_stats stats = { .struct_size = sizeof(stats) };
	pthread_t threads[4];
	memset(&t, 0, sizeof(t));
	assert_int_equal(pagehint_gate_new(&t.gate), 0);
	assert_int_equal(pthread_mutex_init(&t.one_writer, NULL), 0);
	atomic_store(&t.running, 2);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, i < 2 ? close_and_open : discard, &t), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(t.faults, 0);
	assert_int_equal(t.word, 2 * ROUNDS);
	assert_int_equal(pagehint_gate_closed(t.gate), 0);
	assert_int_equal(pagehint_gate_stats(t.gate, &stats), 0);
	assert_int_equal(stats.refused, t.refused);
	assert_int_equal(pagehint_gate_enter(t.gate, NULL), 0);
	pagehint_gate_leave(t.gate);
	assert_int_equal(pagehint_gate_free(t.gate), 0);
	pthread_mutex_destroy(&t.one_writer);
}

/* Two threads meet at the gate at slightly different distances: never one inside while the other hears that nobody is. */
struct meeting {
	struct pagehint_gate *gate;
	_Atomic uint32_t round, arrived;
	int entered;
	uint64_t both, alone, discards;
};

static void *enter_each_round(void *arg)
{
	struct meeting *m = arg;
	for (uint32_t round = 1; round <= MEETINGS; round++) {
		await(&m->round, round);
		stroll(round % 23);
		m->entered = pagehint_gate_enter(m->gate, NULL) == 0;
		atomic_store(&m->arrived, round);
	}
	return NULL;
}

static void test_meetings(void **state)
{
	(void)state;
	struct meeting m;
	pthread_t thread;
	memset(&m, 0, sizeof(m));
	assert_int_equal(pagehint_gate_new(&m.gate), 0);
	assert_int_equal(pthread_create(&thread, NULL, enter_each_round, &m), 0);
	for (uint32_t round = 1; round <= MEETINGS; round++) {
		uint64_t inside = 1;
		atomic_store(&m.round, round);
		if (round % 4 < 2) /* let the other go first, also where both share a CPU */
			sched_yield();
		stroll(round % 211);
		int r = pagehint_gate_close(m.gate, PAGEHINT_INHIBIT_PINNED, &inside);
		await(&m.arrived, round);
		m.both += r != 0 || (inside == 0 && m.entered);
		m.alone += inside == 0;
		if (m.entered) {
			m.discards++;
			pagehint_gate_leave(m.gate);
		}
		m.both += pagehint_gate_open(m.gate, PAGEHINT_INHIBIT_PINNED) != 0;
	}
	pthread_join(thread, NULL);
	print_message("%llu discards, %llu times alone\n", (unsigned long long)m.discards, (unsigned long long)m.alone);
	assert_int_equal(m.both, 0);
	assert_int_equal(pagehint_gate_free(m.gate), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_close_against_enter),
		cmocka_unit_test(test_meetings),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
