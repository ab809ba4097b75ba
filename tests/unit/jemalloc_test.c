/* A jemalloc arena on frames: its life, what the zone sees of it, and that memory leaves the host by the reporter. */
#include "support/heap.h"

/* as an embedder does it */
extern const char *malloc_conf;
const char *malloc_conf = "retain:false";

static void bad_options_are_refused(void **state)
{
	struct heap h;
	struct pagehint_jemalloc *jem = NULL;
	struct pagehint_map *coarse;
	struct pagehint_map_opts map_opts = { .struct_size = sizeof(map_opts), .frame_shift = 16 };
	(void)state;
	memset(&h, 0, sizeof(h));
	open_memory(&h, 1, 0);
	assert_int_equal(pagehint_map_new(&map_opts, &coarse), 0);
	struct pagehint_jemalloc_opts good = { .struct_size = sizeof(good), .zone = h.zone, .map = h.map }, bad = good;
	assert_int_equal(pagehint_jemalloc_new(NULL, &jem), -EINVAL);
	assert_int_equal(pagehint_jemalloc_new(&good, NULL), -EINVAL);
	bad.zone = NULL;
	assert_int_equal(pagehint_jemalloc_new(&bad, &jem), -EINVAL);
	bad = good, bad.map = NULL;
	assert_int_equal(pagehint_jemalloc_new(&bad, &jem), -EINVAL);
	bad = good, bad.map = coarse;
	assert_int_equal(pagehint_jemalloc_new(&bad, &jem), -EINVAL);
	bad = good, bad.flags = 2;
	assert_int_equal(pagehint_jemalloc_new(&bad, &jem), -EINVAL);
	struct {
		struct pagehint_jemalloc_opts opts;
		uint64_t tail;
	} later = { .opts = good, .tail = 1 };
	later.opts.struct_size = sizeof(later);
	assert_int_equal(pagehint_jemalloc_new(&later.opts, &jem), -E2BIG);
	assert_null(jem);
	assert_int_equal(pagehint_jemalloc_free(NULL), 0);
	struct pagehint_jemalloc_stats stats = { .struct_size = 4 };
	assert_int_equal(pagehint_jemalloc_new(&good, &h.jem), 0);
	assert_int_equal(pagehint_jemalloc_stats(h.jem, &stats), -EINVAL);
	assert_int_equal(pagehint_map_free(coarse), 0);
	close_heap(&h);
}

/* A zone too small for the arena's own metadata. */
static void no_room_for_the_arena(void **state)
{
	struct heap h;
	uint64_t frame;
	(void)state;
	memset(&h, 0, sizeof(h));
	open_memory(&h, 1, 0);
	assert_int_equal(pagehint_zone_reserve(h.zone, 0, BYTES >> 12, NULL), 0);
	struct pagehint_jemalloc_opts opts = { .struct_size = sizeof(opts), .zone = h.zone, .map = h.map };
	assert_int_equal(pagehint_jemalloc_new(&opts, &h.jem), -ENOMEM);
	assert_int_equal(pagehint_zone_alloc(h.zone, 0, &frame), -ENOSPC);
	const struct pagehint_run all = { .frame = 0, .frames = BYTES >> 12 };
	assert_int_equal(pagehint_zone_free_runs(h.zone, &all, 1, NULL), 0);
	close_memory(&h);
}

static size_t size_of(size_t i)
{
	return 16 + i * 37 % 4000;
}

/* Many small objects: inside the region, whole, and what jemalloc says it has is what the zone says is out. */
static void objects_lie_in_the_zone(void **state)
{
	enum { N = 16384 };
	static unsigned char *object[N];
	struct heap h;
	size_t mapped, retained;
	uint64_t epoch = 1;
	(void)state;
	open_heap(&h, 1, 0);
	for (size_t i = 0; i < N; i++) {
		object[i] = mallocx(size_of(i), h.flags);
		assert_non_null(object[i]);
		assert_true(object[i] >= h.memory && object[i] + size_of(i) <= h.memory + BYTES);
		memset(object[i], (int)(i & 0xff), size_of(i));
	}
	assert_int_equal(held(&h), out(&h));
	assert_int_equal(ctl(&h, "epoch", NULL, &epoch, sizeof(epoch)), 0);
	assert_int_equal(ctl(&h, "stats.arenas.%u.mapped", &mapped, NULL, sizeof(mapped)), 0);
	assert_int_equal(ctl(&h, "stats.arenas.%u.retained", &retained, NULL, sizeof(retained)), 0);
	assert_int_equal(mapped + retained, held(&h));
	for (size_t i = 0; i < N; i++) {
		for (size_t j = 0; j < size_of(i); j++)
			if (object[i][j] != (i & 0xff))
				fail_msg("object %zu, byte %zu", i, j);
		dallocx(object[i], h.flags);
	}
	purge(&h);
	assert_true(held(&h) <= 8 * MIB);
	assert_int_equal(held(&h), out(&h));
	close_heap(&h);
}

/* The main road: what is freed decays into the zone, and the reporter gives it to the host. */
static void freed_memory_leaves_the_host(void **state)
{
	enum { N = 1500 };
	static void *object[N];
	struct heap h;
	struct pagehint_origin *origin;
	struct pagehint_reporter *reporter;
	struct pagehint_backend *backend; /* of its own: a backend has one user */
	uint64_t now = 0, next = 0;
	(void)state;
	open_heap(&h, 1, 0);
	for (size_t i = 0; i < N; i++) {
		object[i] = mallocx(65536, h.flags);
		assert_non_null(object[i]);
		memset(object[i], 1, 65536);
	}
	const uint64_t full = host_holds(&h);
	assert_true(full >= (uint64_t)N * 65536);
	for (size_t i = 0; i < N; i++)
		dallocx(object[i], h.flags);
	purge(&h);
	assert_int_equal(pagehint_madvise_new(h.map, NULL, NULL, &backend), 0);
	assert_int_equal(pagehint_zone_origin_new(h.zone, &origin), 0);
	assert_int_equal(pagehint_reporter_new(origin, backend, NULL, &reporter), 0);
	for (unsigned i = 0; i < 100; i++) {
		assert_int_equal(pagehint_reporter_step(reporter, now, 0, &next), 0);
		now = next > now && next != UINT64_MAX ? next : now + UINT64_C(1000000000);
	}
	assert_true(host_holds(&h) <= held(&h) + 2 * HUGE);
	assert_int_equal(pagehint_reporter_free(reporter), 0);
	pagehint_origin_free(origin);
	assert_int_equal(pagehint_backend_free(backend), 0);
	close_heap(&h);
}

static void reset_and_destroy_give_everything_back(void **state)
{
	struct heap h;
	(void)state;
	open_heap(&h, 1, 0);
	const struct pagehint_jemalloc_opts opts = { .struct_size = sizeof(opts), .zone = h.zone, .map = h.map };
	struct pagehint_jemalloc *second, *first = h.jem;
	assert_int_equal(pagehint_jemalloc_new(&opts, &second), 0);
	assert_int_not_equal(pagehint_jemalloc_arena(first), pagehint_jemalloc_arena(second));
	for (unsigned i = 0; i < 200; i++) {
		assert_non_null(mallocx(3000 * (i + 1), h.flags));
		assert_non_null(mallocx(5000, MALLOCX_ARENA(pagehint_jemalloc_arena(second)) | MALLOCX_TCACHE_NONE));
	}
	const uint64_t mine = held(&h);
	h.jem = second;
	assert_int_equal(mine + held(&h), out(&h));
	assert_int_equal(pagehint_jemalloc_free(second), 0);
	h.jem = first;
	assert_int_equal(held(&h), out(&h));
	assert_int_equal(ctl(&h, "arena.%u.reset", NULL, NULL, 0), 0);
	purge(&h);
	assert_true(held(&h) < mine);
	void *p = mallocx(100, h.flags);
	assert_non_null(p);
	memset(p, 1, 100);
	close_heap(&h); /* with an object alive */
}

static void a_bound_thread_keeps_the_arena(void **state)
{
	struct heap h;
	unsigned before, mine;
	size_t bytes = sizeof(before);
	(void)state;
	open_heap(&h, 1, 0);
	mine = pagehint_jemalloc_arena(h.jem);
	assert_int_equal(mallctl("thread.arena", &before, &bytes, &mine, sizeof(mine)), 0);
	assert_int_equal(pagehint_jemalloc_free(h.jem), -EBUSY);
	assert_int_equal(mallctl("thread.arena", NULL, NULL, &before, sizeof(before)), 0);
	close_heap(&h);
}

/* Private memory: the child has a heap of its own; it does not discard. */
static void a_forked_child_has_its_own(void **state)
{
	struct heap h;
	extent_hooks_t *hooks;
	uint64_t id;
	int status;
	(void)state;
	memset(&h, 0, sizeof(h));
	open_memory(&h, 1, 0);
	unsigned char *own = anon_aligned(16 * MIB, HUGE);
	assert_non_null(own);
	struct pagehint_region_desc d = describe(BYTES >> 12, own, 16 * MIB, -1);
	assert_int_equal(pagehint_map_add(h.map, &d, &id), 0);
	assert_int_equal(pagehint_zone_reserve(h.zone, 0, BYTES >> 12, NULL), 0);
	assert_int_equal(pagehint_zone_add(h.zone, BYTES >> 12, 16 * MIB >> 12), 0);
	struct pagehint_jemalloc_opts opts = {
		.struct_size = sizeof(opts), .zone = h.zone, .map = h.map, .backend = h.backend
	};
	assert_int_equal(pagehint_jemalloc_new(&opts, &h.jem), 0);
	h.flags = MALLOCX_ARENA(pagehint_jemalloc_arena(h.jem)) | MALLOCX_TCACHE_NONE;
	unsigned char *p = mallocx(100000, h.flags);
	assert_non_null(p);
	memset(p, 5, 100000);
	assert_int_equal(ctl(&h, "arena.%u.extent_hooks", &hooks, NULL, sizeof(hooks)), 0);
	const pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		int wrong = !hooks->purge_forced(hooks, p, 4096, 0, 4096, 0) || p[0] != 5;
		dallocx(p, h.flags);
		unsigned char *q = mallocx(200000, h.flags);
		if (q != NULL)
			memset(q, 6, 200000);
		_exit(q == NULL || wrong);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	for (size_t i = 0; i < 100000; i++)
		assert_int_equal(p[i], 5);
	dallocx(p, h.flags);
	assert_int_equal(pagehint_jemalloc_free(h.jem), 0);
	const struct pagehint_run all = { .frame = 0, .frames = BYTES >> 12 };
	assert_int_equal(pagehint_zone_free_runs(h.zone, &all, 1, NULL), 0);
	close_memory(&h);
	munmap(own, 16 * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_options_are_refused),
		cmocka_unit_test(no_room_for_the_arena),
		cmocka_unit_test(objects_lie_in_the_zone),
		cmocka_unit_test(freed_memory_leaves_the_host),
		cmocka_unit_test(reset_and_destroy_give_everything_back),
		cmocka_unit_test(a_bound_thread_keeps_the_arena),
		cmocka_unit_test(a_forked_child_has_its_own),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
