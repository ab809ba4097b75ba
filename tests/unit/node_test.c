/*
 * A set of nodes: whom it asks, in which order, what it says when nobody has anything, and how a free finds its zone.
 */
#include "support/node_set.h"

#include <errno.h>
#include <stdlib.h>

static void test_bad_options_are_refused(void **state)
{
	(void)state;
	struct node_set s = node_set_make(64, SECTION, 0, NULL);
	struct pagehint_nodes *nodes = NULL;
	struct pagehint_zone *twice[] = { s.zone[0], s.zone[1], s.zone[0] }, *hole[] = { s.zone[0], NULL };
	const struct pagehint_node_opts bad[] = {
		{ .struct_size = sizeof(bad[0]), .zones = s.zone, .nodes = 0 },
		{ .struct_size = sizeof(bad[0]), .zones = s.zone, .nodes = PAGEHINT_NODES_MAX + 1 },
		{ .struct_size = sizeof(bad[0]), .zones = NULL, .nodes = 1 },
		{ .struct_size = sizeof(bad[0]), .zones = twice, .nodes = 3 },
		{ .struct_size = sizeof(bad[0]), .zones = hole, .nodes = 2 },
		{ .struct_size = sizeof(bad[0]), .zones = s.zone, .nodes = 2, .flags = 1 },
		{ .struct_size = 4, .zones = s.zone, .nodes = 2 },
	};
	uint64_t bytes = 77;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(pagehint_node_size(&bad[i], &bytes), -EINVAL);
		assert_int_equal(pagehint_node_new(&bad[i], &nodes), -EINVAL);
	}
	assert_int_equal(pagehint_node_size(NULL, &bytes), -EINVAL);
	assert_int_equal(bytes, 77);
	assert_null(nodes);
	struct {
		struct pagehint_node_opts opts;
		uint64_t tail;
	} longer = { { .struct_size = sizeof(longer), .zones = s.zone, .nodes = 2 }, 1 };
	assert_int_equal(pagehint_node_size(&longer.opts, &bytes), -E2BIG);
	longer.tail = 0;
	assert_int_equal(pagehint_node_size(&longer.opts, &bytes), 0);
	unsigned char *mem = aligned_alloc(64, (size_t)(bytes + 127) / 64 * 64);
	assert_non_null(mem);
	assert_int_equal(pagehint_node_init(mem, bytes - 1, &longer.opts, &nodes), -EINVAL);
	assert_int_equal(pagehint_node_init(mem + 8, bytes, &longer.opts, &nodes), -EINVAL);
	assert_int_equal(pagehint_node_init(NULL, bytes, &longer.opts, &nodes), -EINVAL);
	memset(mem, 0xa5, (size_t)bytes); /* whatever was there */
	assert_int_equal(pagehint_node_init(mem, bytes, &longer.opts, &nodes), 0);
	uint64_t frame;
	assert_int_equal(pagehint_node_alloc(nodes, 1, 0, 0, &frame), 0);
	assert_int_equal(frame, SECTION);
	assert_int_equal(pagehint_node_free(nodes, frame, 0), 0);
	pagehint_node_destroy(nodes); /* ours: it is left alone */
	free(mem);
	pagehint_node_destroy(NULL);
	node_set_gone_home(&s);
}

static void check_order(const struct pagehint_nodes *nodes, uint32_t home, uint32_t a, uint32_t b, uint32_t c)
{
	uint32_t order[NODES];
	assert_int_equal(pagehint_node_fallbacks(nodes, home, order, NODES), 0);
	assert_int_equal(order[0], a);
	assert_int_equal(order[1], b);
	assert_int_equal(order[2], c);
}

static void test_the_nearest_is_asked_first(void **state)
{
	(void)state;
	uint32_t order[NODES] = { 9, 9, 9 };
	struct node_set s = node_set_make(64, SECTION, 0, node_distances);
	check_order(s.nodes, 0, 0, 1, 2);
	check_order(s.nodes, 1, 1, 2, 0); /* as far: on in the circle */
	check_order(s.nodes, 2, 2, 1, 0);
	assert_int_equal(pagehint_node_fallbacks(s.nodes, 3, order, NODES), -ERANGE);
	assert_int_equal(pagehint_node_fallbacks(s.nodes, 0, order, NODES - 1), -EINVAL);
	assert_int_equal(order[0], 9);
	node_set_gone_home(&s);
	s = node_set_make(64, SECTION, 0, NULL);
	check_order(s.nodes, 0, 0, 1, 2);
	check_order(s.nodes, 1, 1, 2, 0);
	check_order(s.nodes, 2, 2, 0, 1);
	node_set_gone_home(&s);
	/* firmware that says of a node that another one is nearer to it than itself */
	const uint8_t odd[] = { 40, 20, 10, 10, 10, 10, 10, 10, 10 };
	s = node_set_make(64, SECTION, 0, odd);
	check_order(s.nodes, 0, 0, 2, 1);
	node_set_gone_home(&s);
}

static void test_what_the_home_has_not_comes_from_the_next(void **state)
{
	(void)state;
	struct node_set s = node_set_make(64, SECTION, 0, node_distances);
	uint64_t frames[3 * 64], frame = 5;
	for (uint32_t i = 0; i < 3 * 64; i++) {
		assert_int_equal(pagehint_node_alloc(s.nodes, 2, 0, 0, &frames[i]), 0);
		assert_int_equal(frames[i] / SECTION, 2 - i / 64);
	}
	assert_int_equal(pagehint_node_alloc(s.nodes, 2, 0, 0, &frame), -ENOSPC);
	assert_int_equal(pagehint_node_alloc(s.nodes, 0, 0, 0, &frame), -ENOSPC);
	assert_int_equal(frame, 5);
	struct pagehint_node_stats two = node_stats_of(&s, 2), one = node_stats_of(&s, 1), none = node_stats_of(&s, 0);
	assert_int_equal(two.local, 64);
	assert_int_equal(two.fallback, 128);
	assert_int_equal(two.failed, 1);
	assert_int_equal(one.foreign, 64);
	assert_int_equal(none.foreign, 64);
	assert_int_equal(none.failed, 1);
	assert_int_equal(one.local + one.fallback + two.foreign + none.local + none.fallback + one.failed, 0);
	uint32_t done = 0;
	assert_int_equal(pagehint_node_free_batch(s.nodes, 0, 3 * 64, frames, &done), 0);
	assert_int_equal(done, 3 * 64);
	node_set_gone_home(&s);
}

static void test_strict_is_from_home_or_not_at_all(void **state)
{
	(void)state;
	struct node_set s = node_set_make(64, SECTION, 0, node_distances);
	uint64_t frame, frames[128];
	struct pagehint_run runs[4];
	uint32_t n = 0;
	assert_int_equal(pagehint_node_alloc(s.nodes, 1, 6, PAGEHINT_NODE_STRICT, &frame), 0);
	assert_int_equal(frame, SECTION);
	assert_int_equal(pagehint_node_alloc(s.nodes, 1, 0, PAGEHINT_NODE_STRICT, &frames[0]), -ENOSPC);
	assert_int_equal(pagehint_node_alloc_runs(s.nodes, 1, 2, PAGEHINT_NODE_STRICT, runs, 4, &n), -ENOSPC);
	assert_int_equal(pagehint_node_alloc_batch(s.nodes, 1, 0, PAGEHINT_NODE_STRICT, 4, frames, &n), -ENOSPC);
	assert_int_equal(n, 0);
	assert_int_equal(pagehint_node_free(s.nodes, frame, 6), 0);
	assert_int_equal(pagehint_node_alloc_batch(s.nodes, 1, 0, PAGEHINT_NODE_STRICT, 128, frames, &n), -ENOSPC);
	assert_int_equal(n, 64);
	assert_int_equal(pagehint_node_free_batch(s.nodes, 0, n, frames, NULL), 0);
	assert_int_equal(pagehint_node_alloc(s.nodes, 1, 0, 2, &frame), -EINVAL);
	assert_int_equal(pagehint_node_alloc(s.nodes, 1, PAGEHINT_ORDER_MAX + 1, 0, &frame), -EINVAL);
	assert_int_equal(pagehint_node_alloc_batch(s.nodes, 1, PAGEHINT_ORDER_MAX + 1, 0, 1, frames, &n), -EINVAL);
	assert_int_equal(pagehint_node_alloc(s.nodes, NODES, 0, 0, &frame), -ERANGE);
	assert_int_equal(pagehint_node_alloc_runs(s.nodes, 1, 0, 0, runs, 4, &n), -EINVAL);
	assert_int_equal(pagehint_node_alloc_runs(s.nodes, 1, 1, 0, runs, 0, &n), -EINVAL);
	assert_int_equal(n, 64);
	node_set_gone_home(&s);
}

static void test_batches_spill_and_runs_stay_together(void **state)
{
	(void)state;
	struct node_set s = node_set_make(64, SECTION, 0, node_distances);
	uint64_t frames[200];
	struct pagehint_run runs[4];
	uint32_t n = 0, done;
	assert_int_equal(pagehint_node_alloc_batch(s.nodes, 1, 0, 0, 100, frames, &n), 0);
	assert_int_equal(n, 100);
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(frames[i] / SECTION, i < 64 ? 1 : 2);
	assert_int_equal(node_stats_of(&s, 1).local, 64);
	assert_int_equal(node_stats_of(&s, 1).fallback, 36);
	assert_int_equal(node_stats_of(&s, 2).foreign, 36);
	/* node 2 has 28 left: 30 of them are only on node 0 */
	assert_int_equal(pagehint_node_alloc_runs(s.nodes, 1, 30, 0, runs, 4, &n), 0);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(runs[i].frame / SECTION, 0);
	assert_int_equal(node_stats_of(&s, 0).foreign, 1);
	uint32_t more = 9;
	assert_int_equal(pagehint_node_alloc_runs(s.nodes, 1, 40, 0, runs + 2, 2, &more), -ENOSPC);
	assert_int_equal(more, 9);
	assert_int_equal(pagehint_node_free_runs(s.nodes, runs, n, &done), 0);
	assert_int_equal(done, n);
	assert_int_equal(pagehint_node_alloc_batch(s.nodes, 0, 0, 0, 100, frames + 100, &n), -ENOSPC);
	assert_int_equal(n, 92);
	assert_int_equal(pagehint_node_free_batch(s.nodes, 0, 192, frames, &done), 0);
	node_set_gone_home(&s);
}

static void test_a_free_finds_its_zone(void **state)
{
	(void)state;
	/* the nodes share a section: their borders lie inside it */
	struct node_set s = node_set_make(1024, 1024, 0, NULL);
	uint32_t node = 9, done = 9;
	for (uint32_t i = 0; i < NODES; i++) {
		uint64_t first, last;
		assert_int_equal(pagehint_node_of(s.nodes, i * 1024, &node), 0);
		assert_int_equal(node, i);
		assert_int_equal(pagehint_node_of(s.nodes, i * 1024 + 1023, &node), 0);
		assert_int_equal(node, i);
		assert_int_equal(pagehint_node_alloc(s.nodes, i, 10, PAGEHINT_NODE_STRICT, &first), 0);
		assert_int_equal(first, i * 1024);
		last = first + 512;
		assert_int_equal(pagehint_node_free(s.nodes, last, 9), 0);
		assert_int_equal(pagehint_node_free(s.nodes, last, 9), -EALREADY);
		assert_int_equal(pagehint_node_free(s.nodes, first, 9), 0);
	}
	assert_int_equal(pagehint_node_of(s.nodes, 3072, &node), -ERANGE);
	assert_int_equal(pagehint_node_of(s.nodes, UINT64_MAX, &node), -ERANGE);
	assert_int_equal(node, NODES - 1);
	assert_int_equal(pagehint_node_free(s.nodes, 3072, 0), -ERANGE);
	/* frees stop at the first that is refused, over the borders of nodes */
	uint64_t frames[4];
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(pagehint_node_alloc(s.nodes, i, 0, 0, &frames[i]), 0);
	frames[3] = frames[0];
	assert_int_equal(pagehint_node_free_batch(s.nodes, 0, 4, frames, &done), -EALREADY);
	assert_int_equal(done, 3);
	frames[0] = UINT64_MAX;
	assert_int_equal(pagehint_node_free_batch(s.nodes, 0, 4, frames, &done), -ERANGE);
	assert_int_equal(done, 0);
	const struct pagehint_run over = { 1000, 100 }, empty = { 1000, 0 };
	assert_int_equal(pagehint_zone_reserve(s.zone[0], 1000, 24, NULL), 0);
	assert_int_equal(pagehint_zone_reserve(s.zone[1], 1024, 76, NULL), 0);
	assert_int_equal(pagehint_node_free_runs(s.nodes, &over, 1, &done), -ERANGE); /* of two nodes */
	assert_int_equal(pagehint_node_free_runs(s.nodes, &empty, 1, &done), -EINVAL);
	const struct pagehint_run parts[] = { { 1024, 76 }, { 1000, 24 }, { 1000, 24 } };
	assert_int_equal(pagehint_node_free_runs(s.nodes, parts, 3, &done), -EALREADY);
	assert_int_equal(done, 2);
	node_set_gone_home(&s);
}

static void test_what_may_come_is_not_refused(void **state)
{
	(void)state;
	struct node_set s = node_set_make(64, SECTION, 0, NULL);
	struct pagehint_cache *cache;
	uint64_t frame, block;
	assert_int_equal(pagehint_cache_open(s.zone[2], &cache), 0);
	assert_int_equal(pagehint_cache_alloc(cache, 0, &frame), 0); /* it hides the other 63 */
	assert_int_equal(pagehint_node_alloc(s.nodes, 0, 6, 0, &block), 0);
	assert_int_equal(pagehint_node_alloc(s.nodes, 0, 6, PAGEHINT_NODE_STRICT, &block), -ENOSPC);
	assert_int_equal(pagehint_node_alloc(s.nodes, 0, 6, 0, &block), 0);
	assert_int_equal(block, SECTION);
	assert_int_equal(pagehint_node_alloc(s.nodes, 0, 6, 0, &block), -EAGAIN); /* node 2 may have one yet */
	assert_int_equal(pagehint_cache_free(cache, frame, 0), 0);
	pagehint_cache_close(cache);
	assert_int_equal(pagehint_node_alloc(s.nodes, 0, 6, 0, &block), 0);
	assert_int_equal(block, 2 * SECTION);
	assert_int_equal(node_stats_of(&s, 0).failed, 2);
	for (uint64_t i = 0; i < NODES; i++)
		assert_int_equal(pagehint_node_free(s.nodes, i * SECTION, 6), 0);
	struct {
		struct pagehint_node_stats stats;
		uint64_t tail;
	} longer = { { .struct_size = sizeof(longer) }, 7 };
	assert_int_equal(pagehint_node_stats(s.nodes, 0, &longer.stats), 0);
	assert_int_equal(longer.tail, 0);
	longer.stats.struct_size = 4;
	assert_int_equal(pagehint_node_stats(s.nodes, 0, &longer.stats), -EINVAL);
	assert_int_equal(pagehint_node_stats(s.nodes, NODES, &longer.stats), -ERANGE);
	node_set_gone_home(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bad_options_are_refused),
		cmocka_unit_test(test_the_nearest_is_asked_first),
		cmocka_unit_test(test_what_the_home_has_not_comes_from_the_next),
		cmocka_unit_test(test_strict_is_from_home_or_not_at_all),
		cmocka_unit_test(test_batches_spill_and_runs_stay_together),
		cmocka_unit_test(test_a_free_finds_its_zone),
		cmocka_unit_test(test_what_may_come_is_not_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
