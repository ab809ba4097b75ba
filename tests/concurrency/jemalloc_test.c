/*
 * Threads allocate and free in one jemalloc arena, also each other's objects, while a reporter discards what is free: no object is
 * handed out twice, none loses a byte, and every frame is accounted for at the end.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <jemalloc/jemalloc.h>

#include <pagehint/host.h>
#include <pagehint/jemalloc.h>
#include <pagehint/map.h>
#include <pagehint/origin.h>
#include <pagehint/reporter.h>
#include <pagehint/zone.h>

#include "support/region.h"
#include "support/rounds.h"

/* extents decay at once, so that the zone is busy */
extern const char *malloc_conf;
const char *malloc_conf = "retain:false,dirty_decay_ms:0,muzzy_decay_ms:0";

#define BYTES (64 * MIB)
#define THREADS 4u
#define SLOTS 128u
#define ROUNDS 40000u

static _Atomic(uint64_t *) slot[SLOTS]; /* objects that wait for whoever comes */
static atomic_uint wrong, running, made;
static int flags;
static struct pagehint_reporter *reporter;

/* An object says its size and carries its address all over. */
static uint64_t *make(uint64_t words)
{
	uint64_t *object = mallocx(words * sizeof(*object), flags);
	if (object == NULL)
		return NULL;
	atomic_fetch_add_explicit(&made, 1, memory_order_relaxed);
	object[0] = words;
	for (uint64_t i = 1; i < words; i++)
		object[i] = (uintptr_t)object + i;
	return object;
}

static void unmake(uint64_t *object)
{
	if (object == NULL)
		return;
	for (uint64_t i = 1; i < object[0]; i++)
		if (object[i] != (uintptr_t)object + i) {
			atomic_fetch_add(&wrong, 1);
			break;
		}
	dallocx(object, flags);
}

static void *work(void *arg)
{
	uint64_t seed = 88172645463325252u + (uintptr_t)arg * 7919;
	const unsigned long rounds = rounds_scaled(ROUNDS);
	for (unsigned long i = 0; i < rounds; i++) {
		seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
		const uint64_t words = 2 + (seed >> 20) % ((seed & 31) == 0 ? 65536 : 256);
		unmake(atomic_exchange(&slot[(seed >> 40) % SLOTS], make(words)));
	}
	atomic_fetch_sub(&running, 1);
	return NULL;
}

static void *report(void *arg)
{
	uint64_t now = 0, next;
	(void)arg;
	while (atomic_load(&running) > 0) {
		if (pagehint_reporter_step(reporter, now, 0, &next) != 0)
			atomic_fetch_add(&wrong, 1);
		now += UINT64_C(1000000000);
	}
	return NULL;
}

static void objects_stay_whole(void **state)
{
	struct pagehint_map *map;
	struct pagehint_zone *zone;
	struct pagehint_origin *origin;
	struct pagehint_backend *backend, *purger;
	struct pagehint_jemalloc *jem;
	pthread_t thread[THREADS + 1];
	uint64_t id;
	(void)state;
	const int fd = memfd("heap", BYTES, 0);
	void *memory = map_fd(fd, BYTES, MAP_SHARED);
	assert_non_null(memory);
	assert_int_equal(pagehint_map_new(NULL, &map), 0);
	const struct pagehint_region_desc d = describe(0, memory, BYTES, fd);
	assert_int_equal(pagehint_map_add(map, &d, &id), 0);
	const struct pagehint_zone_opts zone_opts = { .struct_size = sizeof(zone_opts) };
	assert_int_equal(pagehint_zone_new(&zone_opts, &zone), 0);
	assert_int_equal(pagehint_zone_add(zone, 0, BYTES >> 12), 0);
	assert_int_equal(pagehint_madvise_new(map, NULL, NULL, &backend), 0);
	assert_int_equal(pagehint_madvise_new(map, NULL, NULL, &purger), 0);
	assert_int_equal(pagehint_zone_origin_new(zone, &origin), 0);
	assert_int_equal(pagehint_reporter_new(origin, backend, NULL, &reporter), 0);
	const struct pagehint_jemalloc_opts opts = {
		.struct_size = sizeof(opts), .zone = zone, .map = map, .backend = purger
	};
	assert_int_equal(pagehint_jemalloc_new(&opts, &jem), 0);
	flags = MALLOCX_ARENA(pagehint_jemalloc_arena(jem)) | MALLOCX_TCACHE_NONE;
	atomic_store(&running, THREADS);
	for (uintptr_t i = 0; i <= THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, i < THREADS ? work : report, (void *)i), 0);
	for (unsigned i = 0; i <= THREADS; i++)
		assert_int_equal(pthread_join(thread[i], NULL), 0);
	for (unsigned i = 0; i < SLOTS; i++)
		unmake(atomic_exchange(&slot[i], NULL));
	assert_int_equal(atomic_load(&wrong), 0);
	assert_int_equal(atomic_load(&made), THREADS * rounds_scaled(ROUNDS)); /* there was room for all */

	struct pagehint_reporter_stats reported = { .struct_size = sizeof(reported) };
	assert_int_equal(pagehint_reporter_stats(reporter, &reported), 0);
	assert_true(reported.reported > 0); /* there was something to race with */
	assert_int_equal(pagehint_jemalloc_free(jem), 0);
	struct pagehint_zone_stats stats = { .struct_size = sizeof(stats) };
	assert_int_equal(pagehint_zone_stats(zone, &stats), 0);
	assert_int_equal(stats.out, 0);
	assert_int_equal(stats.free, BYTES >> 12);
	assert_int_equal(pagehint_zone_check(zone, NULL), 0);
	assert_int_equal(pagehint_reporter_free(reporter), 0);
	pagehint_origin_free(origin);
	assert_int_equal(pagehint_backend_free(backend), 0);
	assert_int_equal(pagehint_backend_free(purger), 0);
	pagehint_zone_destroy(zone);
	assert_int_equal(pagehint_map_free(map), 0);
	munmap(memory, BYTES);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(objects_stay_whole) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
