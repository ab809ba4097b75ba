/*
 * Below the granule: a ladder zone gives back the free runs inside granules that are in use, in pieces of the order asked for.
 */
#include "support/zone_looks.h"

#include <errno.h>
#include <stdlib.h>

#define LADDER PAGEHINT_ZONE_LADDER

static struct look look;
static const uint32_t orders[] = { 0, 1, 4, 5, 6, 7, 8 };
#define ORDERS (sizeof(orders) / sizeof(orders[0]))

/* every frame that was handed out once, in whatever granule, and is free */
static void test_pieces_of_used_granules(void **state)
{
	(void)state;
	for (uint32_t granule = 6; granule <= 11; granule++) {
		for (size_t o = 0; o < ORDERS; o++) {
			uint32_t order = orders[o];
			if (order >= granule)
				continue;
			struct pagehint_zone *zone = zone_full(2, LADDER, granule);
			uint64_t size = UINT64_C(1) << granule, piece = UINT64_C(1) << order, keep = 3;
			/* granule 0 was used and one frame of it still is; granule 5 was never used but for one frame; */
			look_use(zone, 0, size);
			assert_int_equal(pagehint_zone_reserve(zone, keep, 1, NULL), 0);
			assert_int_equal(pagehint_zone_reserve(zone, 5 * size + size - 1, 1, NULL), 0);
			/* the last granule was used and is whole */
			look_use(zone, 2 * SECTION - size, size);
			uint64_t expected = size - piece + size;
			assert_int_equal(look_all(zone, order, PAGEHINT_HARVEST_NOW, &look), expected);
			uint64_t first = 0;
			for (uint32_t r = 0; r < look.got.runs; r++) {
				assert_true(keep < look.runs[r].frame ||
					    keep >= look.runs[r].frame + look.runs[r].frames);
				if (look.runs[r].frame < size)
					first += look.runs[r].frames;
			}
			assert_int_equal(first, size - piece);
			look_release(zone, &look, PAGEHINT_RELEASE_REPORTED);
			/* all of it was discarded: nothing comes again, at any order of the ladder */
			for (size_t again = 0; again < ORDERS; again++)
				for (unsigned i = 0; i < 3 && orders[again] <= order; i++)
					look_all(zone, orders[again], i == 2 ? PAGEHINT_HARVEST_NOW : 0, &look);
			assert_int_equal(look_all(zone, granule, PAGEHINT_HARVEST_NOW, &look), 0);
			pagehint_zone_destroy(zone);
		}
	}
}

static void test_a_discarded_piece_never_comes_again_before_it_was_used(void **state)
{
	(void)state;
	uint64_t random = 88172645463325252u;
	uint8_t *dirty = calloc(1, SECTION), *out = calloc(1, SECTION);
	struct pagehint_zone *zone = zone_full(1, LADDER, 9);
	assert_true(dirty != NULL && out != NULL);
	for (unsigned round = 0; round < 4000; round++) {
		uint64_t frame = 0, n;
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		n = (random >> 40) % 8;
		if (n < 4) {
			uint32_t order = (uint32_t)(random >> 50) % 8;
			assert_int_equal(pagehint_zone_alloc(zone, order, &frame), 0);
			memset(dirty + frame, 1, UINT64_C(1) << order);
			memset(out + frame, 1, UINT64_C(1) << order);
		} else if (n < 7) {
			frame = (random >> 20) % 8192;
			struct pagehint_run run = { frame, 1 };
			int r = pagehint_zone_free_runs(zone, &run, 1, NULL);
			assert_int_equal(r, out[frame] ? 0 : -EALREADY);
			out[frame] = 0;
		} else {
			uint32_t order = orders[(random >> 30) % ORDERS];
			struct pagehint_harvest ask = look_ask(0, SECTION, order, (uint32_t)(random >> 33) & 1);
			ask.max_frames = (random >> 34) % 2000 + (UINT64_C(1) << order);
			ask.max_runs = (uint32_t)(random >> 45) % 40 + 1;
			look_at(zone, &ask, &look);
			for (uint32_t r = 0; r < look.got.runs; r++) {
				uint64_t was = 0;
				for (uint64_t f = look.runs[r].frame; f < look.runs[r].frame + look.runs[r].frames;
				     f++) {
					was += dirty[f];
					assert_int_equal(out[f], 0);
					dirty[f] = 0;
				}
				assert_true(was != 0);
			}
			look_release(zone, &look, PAGEHINT_RELEASE_REPORTED);
		}
	}
	zone_at_rest(zone);
	pagehint_zone_destroy(zone);
	free(dirty);
	free(out);
}

/* However little may be taken at once: calls get on, and all of it comes, once. */
static void test_small_bounds_get_everything(void **state)
{
	(void)state;
	for (size_t o = 0; o < ORDERS; o++) {
		const uint32_t order = orders[o];
		const uint64_t piece = UINT64_C(1) << order,
			       most[] = { piece, piece + 1, 3 * piece, 100 * piece, UINT64_MAX };
		for (size_t m = 0; m < 5 * 3; m++) {
			struct pagehint_zone *zone = zone_full(1, LADDER, 9);
			uint64_t pins = 0, taken = 0, calls = 0;
			look_use(zone, 0, 16384);
			for (uint64_t g = 0; g < 16384 / 512;
			     g += 2, pins++) /* one frame of every other granule stays out */
				assert_int_equal(pagehint_zone_reserve(zone, g * 512 + 300, 1, NULL), 0);
			struct pagehint_harvest ask = look_ask(0, SECTION, order, PAGEHINT_HARVEST_NOW);
			ask.max_frames = most[m % 5];
			ask.max_runs = m / 5 == 0 ? 1 : 2000;
			ask.max_work = m / 5 == 2 ? 1 : 0;
			do {
				uint64_t from = ask.from;
				taken += look_at(zone, &ask, &look);
				ask.from = look.got.next;
				assert_true(look.got.next > from || look.got.frames != 0);
				assert_true(++calls < 40000);
			} while (ask.from < ask.to);
			assert_int_equal(taken, 16384 - pins * piece);
			assert_int_equal(zone_at_rest(zone).isolated, taken);
			pagehint_zone_destroy(zone);
		}
	}
}

static void test_the_edges_of_a_range_are_kept(void **state)
{
	(void)state;
	for (size_t o = 0; o < ORDERS; o++) {
		struct pagehint_zone *zone = zone_full(1, LADDER, 9);
		uint64_t piece = UINT64_C(1) << orders[o];
		look_use(zone, 0, 4096);
		assert_int_equal(pagehint_zone_reserve(zone, 1000, 1, NULL), 0);
		for (uint64_t from = 0; from < 1024; from = from * 2 + 37) {
			for (uint64_t to = from; to < 2048; to = to * 2 + 11) {
				struct pagehint_harvest ask = look_ask(from, to, orders[o], PAGEHINT_HARVEST_NOW);
				uint64_t expected = 0;
				for (uint64_t f = 0; f + piece <= to; f += piece)
					expected += f >= from && (1000 < f || 1000 >= f + piece) ? piece : 0;
				assert_int_equal(look_at(zone, &ask, &look), expected);
				look_release(zone, &look, PAGEHINT_RELEASE_KEPT);
			}
		}
		pagehint_zone_destroy(zone);
	}
}

/* What a cache held and never handed out is clean. */
static void test_cached_frames_that_were_not_used_are_clean(void **state)
{
	(void)state;
	struct pagehint_zone *zone = zone_full(1, LADDER, 9);
	struct pagehint_cache *cache;
	uint64_t frame, other;
	assert_int_equal(pagehint_cache_open(zone, &cache), 0);
	assert_int_equal(pagehint_cache_alloc(cache, 0, &frame), 0);
	assert_int_equal(pagehint_cache_alloc(cache, 0, &other), 0);
	assert_int_equal(pagehint_cache_free(cache, frame, 0), 0);
	assert_int_equal(look_all(zone, 0, PAGEHINT_HARVEST_NOW, &look), 0); /* 62 clean, one dirty, all hidden */
	pagehint_cache_drain(cache);
	assert_int_equal(look_all(zone, 0, PAGEHINT_HARVEST_NOW, &look), 1);
	assert_int_equal(look.runs[0].frame, frame);
	look_release(zone, &look, PAGEHINT_RELEASE_REPORTED);
	assert_int_equal(pagehint_cache_free(cache, other, 0), 0);
	pagehint_cache_close(cache);
	assert_int_equal(look_all(zone, 4, PAGEHINT_HARVEST_NOW, &look), 512); /* whole and not clean: it goes as one */
	look_release(zone, &look, PAGEHINT_RELEASE_REPORTED);
	assert_int_equal(look_all(zone, 0, PAGEHINT_HARVEST_NOW, &look), 0);
	zone_gone_home(zone);
}

static void test_a_granule_discarded_in_pieces_is_not_taken_whole(void **state)
{
	(void)state;
	for (size_t o = 0; o < ORDERS; o++) {
		struct pagehint_zone *zone = zone_full(1, LADDER, 9);
		uint64_t frame;
		assert_int_equal(pagehint_zone_alloc(zone, 9, &frame), 0);
		struct pagehint_run rest = { 256, 256 }, first = { 0, 256 };
		assert_int_equal(pagehint_zone_free_runs(zone, &rest, 1, NULL), 0);
		assert_int_equal(look_all(zone, orders[o], PAGEHINT_HARVEST_NOW, &look), 256);
		look_release(zone, &look, PAGEHINT_RELEASE_REPORTED);
		assert_int_equal(pagehint_zone_free_runs(zone, &first, 1, NULL), 0);
		struct pagehint_harvest half = look_ask(0, 256, orders[o], PAGEHINT_HARVEST_NOW);
		assert_int_equal(look_at(zone, &half, &look), 256);
		look_release(zone, &look, PAGEHINT_RELEASE_REPORTED);
		for (unsigned i = 0; i < 4; i++)
			assert_int_equal(look_all(zone, 9, i & 1, &look), 0);
		assert_int_equal(pagehint_zone_alloc(zone, orders[o], &frame), 0);
		assert_int_equal(pagehint_zone_free(zone, frame, orders[o]), 0);
		assert_int_equal(look_all(zone, 9, PAGEHINT_HARVEST_NOW, &look), 512);
		look_release(zone, &look, PAGEHINT_RELEASE_KEPT);
		zone_gone_home(zone);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pieces_of_used_granules),
		cmocka_unit_test(test_a_discarded_piece_never_comes_again_before_it_was_used),
		cmocka_unit_test(test_small_bounds_get_everything),
		cmocka_unit_test(test_the_edges_of_a_range_are_kept),
		cmocka_unit_test(test_cached_frames_that_were_not_used_are_clean),
		cmocka_unit_test(test_a_granule_discarded_in_pieces_is_not_taken_whole),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
