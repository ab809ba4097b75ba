/* What each hook of a jemalloc arena does, and refuses. */
#include "support/heap.h"

/* as an embedder does it */
extern const char *malloc_conf;
const char *malloc_conf = "retain:false";

/* Frames that do not go with addresses: alignment is by address all the same. */
static void alignment_is_of_addresses(void **state)
{
	struct heap h;
	void *block[16];
	(void)state;
	open_heap(&h, 1, 64);
	for (unsigned i = 0; i < 16; i++) {
		block[i] = mallocx(HUGE / 2 * (i % 3 + 1), h.flags | MALLOCX_ALIGN(HUGE << (i % 2)));
		assert_non_null(block[i]);
		assert_int_equal((uintptr_t)block[i] % (HUGE << (i % 2)), 0);
	}
	assert_int_equal(held(&h), out(&h));
	for (unsigned i = 0; i < 16; i++)
		dallocx(block[i], h.flags);
	close_heap(&h);
}

/* Two regions whose addresses touch: no extent lies across, and none is merged across. */
static void regions_are_kept_apart(void **state)
{
	struct heap h;
	unsigned char *a, *b;
	(void)state;
	open_heap(&h, 2, 0);
	const size_t half = BYTES / 2, want = half - 16 * MIB;
	a = mallocx(want, h.flags);
	b = mallocx(want, h.flags);
	assert_non_null(a);
	assert_non_null(b);
	assert_int_not_equal(a < h.memory + half, b < h.memory + half);
	assert_true((a < h.memory + half) == (a + want <= h.memory + half));
	assert_true((b < h.memory + half) == (b + want <= h.memory + half));
	dallocx(a, h.flags);
	dallocx(b, h.flags);
	extent_hooks_t *hooks;
	assert_int_equal(ctl(&h, "arena.%u.extent_hooks", &hooks, NULL, sizeof(hooks)), 0);
	assert_true(hooks->merge(hooks, h.memory + half - HUGE, HUGE, h.memory + half, HUGE, true, 0));
	assert_false(hooks->merge(hooks, h.memory + half, HUGE, h.memory + half + HUGE, HUGE, true, 0));
	assert_true(hooks->merge(hooks, h.memory - HUGE, HUGE, h.memory, HUGE, true, 0));
	assert_false(hooks->split(hooks, h.memory, HUGE, 4096, HUGE - 4096, true, 0));
	purge(&h);
	close_heap(&h);
}

/* What jemalloc keeps is discarded on the spot; what cannot be is refused, and has its content. */
static void purge_reads_zero_or_is_refused(void **state)
{
	struct heap h;
	struct pagehint_jemalloc_stats stats = { .struct_size = sizeof(stats) };
	extent_hooks_t *hooks;
	bool zero = false, commit = false;
	(void)state;
	open_heap(&h, 1, 0);
	assert_int_equal(ctl(&h, "arena.%u.extent_hooks", &hooks, NULL, sizeof(hooks)), 0);
	unsigned char *p = hooks->alloc(hooks, NULL, HUGE, HUGE, &zero, &commit, 0);
	assert_non_null(p);
	assert_true(commit);
	memset(p, 7, HUGE);
	const uint64_t before = host_holds(&h);
	assert_true(hooks->purge_lazy(hooks, p, HUGE, 0, HUGE, 0));
	assert_true(hooks->decommit(hooks, p, HUGE, 0, HUGE, 0));
	assert_false(hooks->commit(hooks, p, HUGE, 0, HUGE, 0));
	assert_int_equal(p[8192], 7);
	assert_false(hooks->purge_forced(hooks, p, HUGE, 8192, 65536, 0));
	assert_int_equal(before - host_holds(&h), 65536);
	assert_int_equal(p[8191], 7);
	assert_int_equal(p[8192 + 65536], 7);
	for (size_t i = 8192; i < 8192 + 65536; i++)
		assert_int_equal(p[i], 0);
	struct pagehint_region_info info = { .struct_size = sizeof(info) };
	assert_int_equal(pagehint_map_lookup(h.map, 0, &info), 0);
	assert_int_equal(pagehint_map_pin(h.map, info.id, NULL), 0);
	assert_true(hooks->purge_forced(hooks, p, HUGE, HUGE / 2, 65536, 0));
	assert_int_equal(p[HUGE / 2], 7);
	assert_int_equal(pagehint_map_unpin(h.map, info.id), 0);
	assert_int_equal(pagehint_jemalloc_stats(h.jem, &stats), 0);
	assert_int_equal(stats.purged, 65536);
	assert_int_equal(stats.purges_refused, 1);
	assert_null(hooks->alloc(hooks, p, HUGE, HUGE, &zero, &commit, 0));
	zero = true;
	unsigned char *q = hooks->alloc(hooks, NULL, HUGE, 4096, &zero, &commit, 0);
	assert_non_null(q);
	for (size_t i = 0; i < HUGE; i++)
		assert_int_equal(q[i], 0);
	assert_false(hooks->dalloc(hooks, p, HUGE, true, 0));
	assert_true(hooks->dalloc(hooks, p, HUGE, true, 0)); /* not out any more */
	assert_true(hooks->dalloc(hooks, h.memory + BYTES, HUGE, true, 0));
	hooks->destroy(hooks, q, HUGE, true, 0);
	assert_int_equal(held(&h), out(&h));
	close_heap(&h);
}

struct wanting {
	struct heap *heap;
	uint64_t reserved; /* frames that the callback gives */
	unsigned calls;
	int error;
};

static int on_wanted(void *ctx, uint64_t bytes, int error)
{
	struct wanting *w = ctx;
	(void)bytes;
	w->calls++;
	w->error = error;
	if (w->reserved == 0)
		return 1;
	const struct pagehint_run run = { .frame = 0, .frames = w->reserved };
	w->reserved = 0;
	assert_int_equal(pagehint_zone_free_runs(w->heap->zone, &run, 1, NULL), 0);
	return 0;
}

/* A full zone is out of memory for the heap, once the embedder had its chance; and works again afterwards. */
static void a_full_zone_asks_first(void **state)
{
	struct heap h;
	struct wanting w = { .heap = &h, .reserved = 32 * MIB >> 12 };
	void *block[32];
	unsigned n = 0;
	(void)state;
	memset(&h, 0, sizeof(h));
	open_memory(&h, 1, 0);
	assert_int_equal(pagehint_zone_reserve(h.zone, 0, w.reserved, NULL), 0);
	struct pagehint_jemalloc_opts opts = {
		.struct_size = sizeof(opts), .zone = h.zone, .map = h.map, .wanted = on_wanted, .ctx = &w
	};
	assert_int_equal(pagehint_jemalloc_new(&opts, &h.jem), 0);
	h.flags = MALLOCX_ARENA(pagehint_jemalloc_arena(h.jem)) | MALLOCX_TCACHE_NONE;
	while (n < 32 && (block[n] = mallocx(8 * MIB, h.flags)) != NULL)
		n++;
	assert_in_range(n, 8, 15); /* an extent is a size class larger than its block, and the arena has one, too */
	assert_true(w.calls >= 2);
	assert_int_equal(w.error, -ENOSPC);
	struct pagehint_jemalloc_stats stats = { .struct_size = sizeof(stats) };
	assert_int_equal(pagehint_jemalloc_stats(h.jem, &stats), 0);
	assert_true(stats.refused >= 1);
	dallocx(block[--n], h.flags);
	block[n] = mallocx(8 * MIB, h.flags);
	assert_non_null(block[n++]);
	while (n > 0)
		dallocx(block[--n], h.flags);
	close_heap(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(alignment_is_of_addresses),
		cmocka_unit_test(regions_are_kept_apart),
		cmocka_unit_test(purge_reads_zero_or_is_refused),
		cmocka_unit_test(a_full_zone_asks_first),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
