/*
 * One thread discards without a pause; the others pin the region, close the gate, and read figures.
 *
 * The promise under test: once a pin or a closed gate is drained, not one byte changes until it is undone.
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
#include <sys/mman.h>

#include <cmocka.h>

#include <pagehint/backend.h>
#include <pagehint/gate.h>
#include <pagehint/host.h>
#include <pagehint/map.h>

#define BYTES ((size_t)1 << 18)
#define ROUNDS 300u

static struct pagehint_map *map;
static struct pagehint_gate *gate;
static struct pagehint_backend *backend;
static _Atomic unsigned char *memory;
static uint64_t region;
static atomic_int stop, wrong;
static pthread_mutex_t holder = PTHREAD_MUTEX_INITIALIZER; /* one holder of the memory at a time */

static void *discard_on_and_on(void *arg)
{
	struct pagehint_run runs[8];
	(void)arg;
	for (unsigned i = 0; i < 8; i++)
		runs[i] = (struct pagehint_run) { 8 * i, 7 };
	while (!atomic_load(&stop))
		if (pagehint_backend_discard(backend, runs, 8, 0, NULL, NULL, NULL) < 0)
			atomic_fetch_add(&wrong, 1);
	return NULL;
}

/* Nobody else may change what is written here. */
static void use_memory(unsigned char value)
{
	for (size_t i = 0; i < BYTES; i += 512)
		atomic_store_explicit(&memory[i], value, memory_order_relaxed);
	sched_yield();
	for (size_t i = 0; i < BYTES; i += 512)
		if (atomic_load_explicit(&memory[i], memory_order_relaxed) != value)
			atomic_fetch_add(&wrong, 1);
}

static uint64_t in_flight_of_region(void)
{
	struct pagehint_region_info info = { .struct_size = sizeof(info) };
	return pagehint_map_lookup(map, 0, &info) < 0 ? 1 : info.in_flight;
}

static void *pin_and_use(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t in_flight = 0;
		pthread_mutex_lock(&holder);
		if (pagehint_map_pin(map, region, &in_flight) < 0)
			atomic_fetch_add(&wrong, 1);
		while (in_flight != 0)
			in_flight = in_flight_of_region();
		use_memory((unsigned char)(i | 1));
		if (pagehint_map_unpin(map, region) < 0)
			atomic_fetch_add(&wrong, 1);
		pthread_mutex_unlock(&holder);
	}
	return NULL;
}

static void *close_and_use(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t in_flight = 0;
		pthread_mutex_lock(&holder);
		if (pagehint_gate_close(gate, PAGEHINT_INHIBIT_SNAPSHOT, &in_flight) < 0)
			atomic_fetch_add(&wrong, 1);
		while (in_flight != 0)
			in_flight = pagehint_gate_in_flight(gate);
		use_memory((unsigned char)(i | 128));
		if (pagehint_gate_open(gate, PAGEHINT_INHIBIT_SNAPSHOT) < 0)
			atomic_fetch_add(&wrong, 1);
		pthread_mutex_unlock(&holder);
	}
	return NULL;
}

static void run(void *(*second)(void *), void *(*third)(void *))
{
	struct pagehint_region_desc desc = { .struct_size = sizeof(desc), .frames = BYTES >> 12, .fd = -1 };
	struct pagehint_backend_opts opts = { .struct_size = sizeof(opts) };
	pthread_t threads[3];
	void *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	memory = p;
	desc.host_addr = (uintptr_t)p;
	assert_int_equal(pagehint_gate_new(&gate), 0);
	opts.gate = gate;
	assert_int_equal(pagehint_map_new(NULL, &map), 0);
	assert_int_equal(pagehint_map_add(map, &desc, &region), 0);
	assert_int_equal(pagehint_madvise_new(map, NULL, &opts, &backend), 0);
	atomic_store(&stop, 0);
	atomic_store(&wrong, 0);
	assert_int_equal(pthread_create(&threads[0], NULL, discard_on_and_on, NULL), 0);
	assert_int_equal(pthread_create(&threads[1], NULL, second, NULL), 0);
	assert_int_equal(pthread_create(&threads[2], NULL, third, NULL), 0);
	assert_int_equal(pthread_join(threads[1], NULL), 0);
	assert_int_equal(pthread_join(threads[2], NULL), 0);
	atomic_store(&stop, 1);
	assert_int_equal(pthread_join(threads[0], NULL), 0);
	assert_int_equal(atomic_load(&wrong), 0);
	assert_int_equal(in_flight_of_region(), 0);
	assert_int_equal(pagehint_gate_in_flight(gate), 0);
	struct pagehint_backend_stats stats = { .struct_size = sizeof(stats) };
	assert_int_equal(pagehint_backend_stats(backend, &stats), 0);
	assert_int_equal(stats.asked, stats.accepted + stats.kept);
	assert_int_equal(pagehint_backend_free(backend), 0);
	assert_int_equal(pagehint_map_free(map), 0);
	assert_int_equal(pagehint_gate_free(gate), 0);
	munmap(p, BYTES);
}

static void test_drained_means_drained(void **state)
{
	(void)state;
	run(pin_and_use, close_and_use);
}

static void *look(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct pagehint_backend_stats stats = { .struct_size = sizeof(stats) };
		struct pagehint_madvise_stats calls = { .struct_size = sizeof(calls) };
		uint64_t frames = 0, least = 0;
		if (pagehint_backend_stats(backend, &stats) < 0 || pagehint_madvise_stats(backend, &calls) < 0 ||
		    pagehint_backend_extent(backend, 1, &frames, &least) < 0)
			atomic_fetch_add(&wrong, 1);
		sched_yield();
	}
	return NULL;
}

static void test_figures_from_another_thread(void **state)
{
	(void)state;
	run(look, look);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_drained_means_drained),
		cmocka_unit_test(test_figures_from_another_thread),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
