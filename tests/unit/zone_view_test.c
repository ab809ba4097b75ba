/*
 * What a zone tells of itself: the granule bitmap, blocks by order, counters, and the explanation.
 */
#include "support/zone_rest.h"

#include <errno.h>
#include <stdlib.h>

static int bit(const uint64_t *words, uint64_t i)
{
	return (int)(words[i / 64] >> (i % 64) & 1);
}

static void test_granules_of_every_order(void **state)
{
	(void)state;
	for (uint32_t granule = 1; granule <= PAGEHINT_ORDER_MAX; granule++) {
		struct pagehint_zone *zone = zone_empty(3, 4, 0, granule);
		uint64_t size = UINT64_C(1) << granule, n = 4 * SECTION / size, words = n / 64 + 2, taken = 0;
		uint64_t *out = malloc(words * 8);
		assert_non_null(out);
		assert_int_equal(pagehint_zone_granule_order(zone), granule);
		assert_int_equal(pagehint_zone_add(zone, 0, 2 * SECTION), 0);
		assert_int_equal(pagehint_zone_add(zone, 3 * SECTION, SECTION), 0); /* section 2 is absent */
		for (uint64_t g = 0; g < n; g = g * 2 + 1) { /* a frame in some granules, in another place of each */
			if (g * size / SECTION == 2)
				continue;
			assert_int_equal(pagehint_zone_reserve(zone, g * size + g % size, 1, NULL), 0);
			taken++;
		}
		memset(out, 0xee, words * 8);
		assert_int_equal(pagehint_zone_granules(zone, PAGEHINT_GRANULES_WHOLE, 0, n, out, words), 0);
		uint64_t broken = 0, absent = 0;
		for (uint64_t g = 0; g < n; g++) {
			int is_absent = g * size / SECTION == 2;
			absent += is_absent;
			broken += !is_absent && !bit(out, g);
			if (is_absent)
				assert_false(bit(out, g));
		}
		assert_int_equal(broken, taken);
		assert_int_equal(absent, SECTION / size);
		assert_int_equal(out[words - 1],
				 UINT64_C(0xeeeeeeeeeeeeeeee)); /* what is not asked for is not written */
		for (uint64_t g = 0; g < n; g = g * 2 + 1)
			assert_false(bit(out, g));
		/* fresh granules count as reported until they are broken */
		uint64_t first = 0;
		assert_int_equal(pagehint_zone_granules(zone, PAGEHINT_GRANULES_REPORTED, first, n, out, words), 0);
		for (uint64_t g = 0, reported = 0; g <= n; g++) {
			if (g == n)
				assert_int_equal(reported, n - absent - taken);
			else
				reported += (uint64_t)bit(out, g);
		}
		free(out);
		pagehint_zone_destroy(zone);
	}
}

static void test_bad_granule_ranges(void **state)
{
	(void)state;
	struct pagehint_zone *zone = zone_full(1, 0, 9);
	uint64_t out[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	assert_int_equal(pagehint_zone_granules(zone, 2, 0, 64, out, 8), -EINVAL);
	assert_int_equal(pagehint_zone_granules(zone, UINT32_MAX, 0, 64, out, 8), -EINVAL);
	assert_int_equal(pagehint_zone_granules(zone, 0, 1, 64, out, 8), -EINVAL);
	assert_int_equal(pagehint_zone_granules(zone, 0, 63, 64, out, 8), -EINVAL);
	assert_int_equal(pagehint_zone_granules(zone, 0, 0, 64, out, 0), -EINVAL);
	assert_int_equal(pagehint_zone_granules(zone, 0, 0, 65, out, 1), -EINVAL);
	assert_int_equal(pagehint_zone_granules(zone, 0, 0, 513, out, 8), -EINVAL);
	for (uint64_t less = 0; less < 70; less++) /* counts whose round-up wraps */
		assert_int_equal(pagehint_zone_granules(zone, 0, 0, UINT64_MAX - less, out, 8), -EINVAL);
	assert_int_equal(pagehint_zone_granules(zone, 0, UINT64_MAX - 63, 128, out, 8), -EINVAL);
	for (uint64_t i = 0; i < 8; i++)
		assert_int_equal(out[i], i + 1);
	assert_int_equal(pagehint_zone_granules(zone, 0, 0, 0, NULL, 0), 0);
	assert_int_equal(pagehint_zone_granules(zone, 0, 448, 64, out, 1), 0);
	assert_true(out[0] == UINT64_MAX);
	assert_int_equal(pagehint_zone_granules(zone, 0, 512, 64, out, 1), 0); /* beyond the span */
	assert_int_equal(out[0], 0);
	assert_int_equal(pagehint_zone_granules(zone, 0, UINT64_MAX - 63, 63, out, 1), 0);
	assert_int_equal(out[0], 0);
	zone_gone_home(zone);
}

static void test_blocks_by_order(void **state)
{
	(void)state;
	uint64_t blocks[PAGEHINT_ORDER_MAX + 1], frame;
	for (uint32_t order = 0; order <= PAGEHINT_ORDER_MAX; order++) {
		struct pagehint_zone *zone = zone_full(2, 0, 9);
		assert_int_equal(pagehint_zone_alloc(zone, order, &frame), 0);
		pagehint_zone_free_orders(zone, blocks);
		/* a buddy tree with one block missing: one of each order from it on */
		for (uint32_t o = 0; o < PAGEHINT_ORDER_MAX; o++)
			assert_int_equal(blocks[o], o >= order);
		assert_int_equal(blocks[PAGEHINT_ORDER_MAX], 1);
		assert_int_equal(pagehint_zone_free(zone, frame, order), 0);
		pagehint_zone_free_orders(zone, blocks);
		assert_int_equal(blocks[PAGEHINT_ORDER_MAX], 2);
		zone_gone_home(zone);
	}
}

static void test_counters_of_every_size(void **state)
{
	(void)state;
	struct pagehint_zone *zone = zone_full(2, 0, 9);
	uint64_t frame;
	assert_int_equal(pagehint_zone_alloc(zone, 3, &frame), 0);
	struct {
		struct pagehint_zone_stats s;
		unsigned char tail[24];
	} big;
	memset(&big, 0xee, sizeof(big));
	for (uint64_t size = 0; size < 8; size++) {
		big.s.struct_size = size;
		assert_int_equal(pagehint_zone_stats(zone, &big.s), -EINVAL);
	}
	assert_int_equal(pagehint_zone_stats(zone, NULL), -EINVAL);
	big.s.struct_size = offsetof(struct pagehint_zone_stats, free);
	assert_int_equal(pagehint_zone_stats(zone, &big.s), 0);
	assert_int_equal(big.s.total, 2 * SECTION);
	assert_true(big.s.free == UINT64_C(0xeeeeeeeeeeeeeeee));
	big.s.struct_size = sizeof(big);
	assert_int_equal(pagehint_zone_stats(zone, &big.s), 0);
	assert_int_equal(big.s.free, 2 * SECTION - 8);
	assert_int_equal(big.s.out, 8);
	assert_int_equal(big.s.sections, 2);
	for (size_t i = 0; i < sizeof(big.tail); i++)
		assert_int_equal(big.tail[i], 0);
	assert_int_equal(pagehint_zone_free(zone, frame, 3), 0);
	zone_gone_home(zone);
}

struct page {
	unsigned lines;
	char text[2000];
};

static void collect(void *ctx, const char *text)
{
	struct page *page = ctx;
	page->lines++;
	assert_true(strlen(page->text) + strlen(text) + 2 < sizeof(page->text));
	strcat(page->text, text);
	strcat(page->text, "\n");
}

static void test_the_explanation_names_what_is_in_the_way(void **state)
{
	(void)state;
	struct pagehint_zone *zone = zone_full(1, 0, 9);
	struct pagehint_cache *cache;
	struct page page = { 0, "" };
	struct pagehint_sink sink = { &page, collect };
	uint64_t frame;
	pagehint_zone_explain(zone, NULL);
	pagehint_zone_explain(zone, &sink);
	assert_non_null(strstr(page.text, "free and reported or fresh: 262144 of 262144"));
	assert_null(strstr(page.text, "cache"));
	assert_null(strstr(page.text, "waiting"));
	assert_int_equal(pagehint_cache_open(zone, &cache), 0);
	assert_int_equal(pagehint_cache_alloc(cache, 0, &frame), 0);
	page.text[0] = 0;
	pagehint_zone_explain(zone, &sink);
	assert_non_null(strstr(page.text, "hidden in caches, whose granules cannot be reported: 63 of 262144"));
	assert_non_null(strstr(page.text, "in pieces smaller than a granule: 448 of 262080"));
	assert_int_equal(pagehint_cache_free(cache, frame, 0), 0);
	pagehint_cache_close(cache);
	page.text[0] = 0;
	pagehint_zone_explain(zone, &sink);
	assert_non_null(strstr(page.text, "waiting to be reported: 512 of 262144"));
	zone_gone_home(zone);
}

static void test_nobody_listens(void **state)
{
	(void)state;
	struct pagehint_sink deaf = { NULL, NULL };
	struct pagehint_zone *zone = zone_full(1, 0, 9);
	pagehint_zone_explain(zone, NULL);
	pagehint_zone_explain(zone, &deaf);
	zone_gone_home(zone);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nobody_listens),
		cmocka_unit_test(test_granules_of_every_order),
		cmocka_unit_test(test_bad_granule_ranges),
		cmocka_unit_test(test_blocks_by_order),
		cmocka_unit_test(test_counters_of_every_size),
		cmocka_unit_test(test_the_explanation_names_what_is_in_the_way),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
