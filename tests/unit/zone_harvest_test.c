/*
 * Taking what has stayed free, at the granule and above: age by two looks, maximal runs, bounds, and how runs return.
 */
#include "support/zone_looks.h"

#include <errno.h>

static struct look look;

static void test_a_fresh_zone_has_nothing_a_stale_one_everything(void **state)
{
	(void)state;
	for (uint32_t granule = 1; granule <= PAGEHINT_ORDER_MAX; granule++) {
		struct pagehint_zone *fresh = zone_full(3, 0, granule);
		for (unsigned i = 0; i < 4; i++)
			assert_int_equal(look_all(fresh, granule, i < 3 ? 0 : PAGEHINT_HARVEST_NOW, &look), 0);
		assert_int_equal(look.got.young, 0);
		zone_gone_home(fresh);
		for (unsigned now = 0; now < 2; now++) {
			struct pagehint_zone *zone = zone_full(3, PAGEHINT_ZONE_STALE, granule);
			if (!now) {
				assert_int_equal(look_all(zone, granule, 0, &look), 0);
				assert_int_equal(look.got.young, 3 * SECTION);
			}
			assert_int_equal(look_all(zone, granule, now ? PAGEHINT_HARVEST_NOW : 0, &look), 3 * SECTION);
			assert_int_equal(look.got.runs, 1); /* one run over words and sections */
			assert_int_equal(look.got.young, 0);
			uint64_t frame = 5;
			assert_int_equal(pagehint_zone_alloc(zone, 0, &frame), -EAGAIN); /* it is at the reporter */
			assert_int_equal(pagehint_zone_hidden(zone), 3 * SECTION);
			assert_int_equal(pagehint_zone_free(zone, 0, 0), -EALREADY);
			assert_int_equal(pagehint_zone_remove(zone, 0, SECTION, NULL), -EBUSY);
			look_release(zone, &look, PAGEHINT_RELEASE_REPORTED);
			for (unsigned i = 0; i < 3; i++)
				assert_int_equal(look_all(zone, granule, i < 2 ? 0 : PAGEHINT_HARVEST_NOW, &look), 0);
			zone_gone_home(zone);
		}
	}
}

static void test_two_looks_and_no_touch_between(void **state)
{
	(void)state;
	for (uint32_t granule = 1; granule <= PAGEHINT_ORDER_MAX; granule++) {
		struct pagehint_zone *zone = zone_full(2, 0, granule);
		uint64_t size = UINT64_C(1) << granule, frame;
		for (uint32_t order = 0; order <= PAGEHINT_ORDER_MAX; order++) {
			uint64_t used = order > granule ? UINT64_C(1) << order : size;
			assert_int_equal(pagehint_zone_alloc(zone, order, &frame), 0);
			assert_int_equal(frame, 0);
			assert_int_equal(look_all(zone, granule, 0, &look), 0);
			assert_int_equal(look.got.young, 0); /* it is not free */
			assert_int_equal(pagehint_zone_free(zone, frame, order), 0);
			assert_int_equal(look_all(zone, granule, 0, &look), 0); /* the first look that sees it free */
			assert_int_equal(look.got.young, used);
			assert_int_equal(pagehint_zone_alloc(zone, order, &frame), 0);
			assert_int_equal(pagehint_zone_free(zone, frame, order), 0);
			assert_int_equal(look_all(zone, granule, 0, &look), 0); /* touched between: young again */
			assert_int_equal(look.got.young, used);
			assert_int_equal(look_all(zone, granule, 0, &look), used); /* untouched between */
			assert_int_equal(look.got.runs, 1);
			assert_int_equal(look.runs[0].frame, 0);
			look_release(zone, &look, PAGEHINT_RELEASE_REPORTED);
			assert_int_equal(look_all(zone, granule, PAGEHINT_HARVEST_NOW, &look), 0);
		}
		zone_gone_home(zone);
	}
}

/* a cached frame keeps its granule; what a cache never handed out is not dirty */
static void test_caches_keep_granules_back(void **state)
{
	(void)state;
	for (uint32_t granule = 1; granule <= PAGEHINT_ORDER_MAX; granule++) {
		struct pagehint_zone *zone = zone_full(1, 0, granule);
		struct pagehint_cache *cache;
		uint64_t size = UINT64_C(1) << granule, frame;
		assert_int_equal(pagehint_cache_open(zone, &cache), 0);
		assert_int_equal(pagehint_cache_alloc(cache, 0, &frame), 0);
		assert_int_equal(pagehint_cache_free(cache, frame, 0), 0);
		for (unsigned i = 0; i < 3; i++)
			assert_int_equal(look_all(zone, granule, PAGEHINT_HARVEST_NOW, &look), 0);
		pagehint_cache_drain(cache);
		assert_int_equal(look_all(zone, granule, 0, &look), 0);
		assert_int_equal(look_all(zone, granule, 0, &look),
				 size); /* only the granule of the frame that was out */
		look_release(zone, &look, PAGEHINT_RELEASE_REPORTED);
		pagehint_cache_close(cache);
		zone_gone_home(zone);
	}
}

static void test_runs_are_maximal_around_what_is_used(void **state)
{
	(void)state;
	for (uint32_t granule = 1; granule <= 12; granule++) {
		struct pagehint_zone *zone = zone_full(3, PAGEHINT_ZONE_STALE, granule);
		uint64_t size = UINT64_C(1) << granule, n = 3 * SECTION / size, pins = 0, last = 0;
		for (uint64_t g = 5; g < n - 1; g = g * 3 + 1, pins++) {
			assert_int_equal(pagehint_zone_reserve(zone, g * size + size / 3, 1, NULL), 0);
			last = g;
		}
		look_all(zone, granule, 0, &look);
		assert_int_equal(look_all(zone, granule, 0, &look), (n - pins) * size);
		assert_int_equal(look.got.runs, pins + 1);
		assert_int_equal(look.runs[0].frames, 5 * size);
		assert_int_equal(look.runs[pins].frame, (last + 1) * size);
		look_release(zone, &look, PAGEHINT_RELEASE_REPORTED);
		assert_int_equal(zone_at_rest(zone).out, pins);
		pagehint_zone_destroy(zone);
	}
}

/* One whole pass with these bounds, however many calls it takes. */
static uint64_t pass(struct pagehint_zone *zone, struct pagehint_harvest ask, uint64_t *ret_young)
{
	uint64_t taken = 0, calls = 0;
	*ret_young = 0;
	do {
		uint64_t from = ask.from;
		taken += look_at(zone, &ask, &look);
		*ret_young += look.got.young;
		assert_true(look.got.next > from || look.got.frames != 0); /* every call gets on */
		ask.from = look.got.next;
		assert_true(++calls < 100000);
	} while (ask.from < ask.to);
	return taken;
}

static void test_cut_anywhere_and_go_on(void **state)
{
	(void)state;
	const uint32_t granules[] = { 7, 9, 12, 15 };
	for (size_t i = 0; i < sizeof(granules) / sizeof(granules[0]); i++) {
		uint32_t granule = granules[i];
		uint64_t size = UINT64_C(1) << granule, young;
		const struct {
			uint64_t max_frames;
			uint32_t max_runs, max_work;
		} bounds[] = {
			{ size, 1000, 0 },       { 3 * size + 1, 1000, 0 }, { 70 * size, 1000, 0 },
			{ UINT64_MAX, 1, 0 },    { UINT64_MAX, 2, 0 },      { UINT64_MAX, 1000, 1 },
			{ UINT64_MAX, 1000, 3 }, { UINT64_MAX, 1000, 200 }, { 5 * size, 1, 2 },
			{ 2 * size, 2, 1 },
		};
		for (size_t b = 0; b < sizeof(bounds) / sizeof(bounds[0]); b++) {
			struct pagehint_zone *zone = zone_full(2, PAGEHINT_ZONE_STALE, granule);
			uint64_t n = 2 * SECTION / size, pins = 0, touched = 0;
			for (uint64_t g = 3; g < n; g = g * 2 + 1, pins++)
				assert_int_equal(pagehint_zone_reserve(zone, g * size + 1, 1, NULL), 0);
			struct pagehint_harvest ask = look_ask(0, 2 * SECTION, granule, 0);
			ask.max_frames = bounds[b].max_frames;
			ask.max_runs = bounds[b].max_runs;
			ask.max_work = bounds[b].max_work;
			/* the first pass ages and takes nothing, however often it was cut */
			assert_int_equal(pass(zone, ask, &young), 0);
			assert_int_equal(young, (n - pins) * size);
			for (uint64_t g = 4; g < n; g = g * 2 + 1, touched++) /* beside each pin */
				look_use(zone, g * size, 1);
			/* the second takes all that was not touched, once; what was touched does not age twice in it */
			assert_int_equal(pass(zone, ask, &young), (n - pins - touched) * size);
			assert_int_equal(young, touched * size);
			assert_int_equal(pass(zone, ask, &young), touched * size);
			assert_int_equal(young, 0);
			assert_int_equal(zone_at_rest(zone).isolated, (n - pins) * size);
			pagehint_zone_destroy(zone);
		}
	}
}

static void test_peek_looks_and_takes_nothing(void **state)
{
	(void)state;
	struct pagehint_zone *zone = zone_full(2, PAGEHINT_ZONE_STALE, 9);
	assert_int_equal(look_all(zone, 9, PAGEHINT_HARVEST_PEEK, &look), 0);
	assert_int_equal(look.got.frames, 0);
	assert_int_equal(look.got.young, 2 * SECTION);
	assert_int_equal(look_all(zone, 9, PAGEHINT_HARVEST_PEEK, &look), 0); /* a peek is a look */
	assert_int_equal(look.got.frames, 2 * SECTION);
	look_use(zone, 0, 1);
	look_use(zone, SECTION, 1);
	assert_int_equal(look_all(zone, 9, PAGEHINT_HARVEST_PEEK | PAGEHINT_HARVEST_NOW, &look), 0);
	assert_int_equal(look.got.frames, 2 * SECTION);
	assert_int_equal(look_all(zone, 9, 0, &look), 2 * SECTION);
	look_release(zone, &look, PAGEHINT_RELEASE_REPORTED);
	zone_gone_home(zone);
}

static void test_how_runs_return(void **state)
{
	(void)state;
	for (uint32_t granule = 1; granule <= 12; granule++) {
		struct pagehint_zone *zone = zone_full(2, PAGEHINT_ZONE_STALE, granule);
		uint64_t size = UINT64_C(1) << granule, all = 2 * SECTION, frame;
		assert_int_equal(look_all(zone, granule, PAGEHINT_HARVEST_NOW, &look), all);
		/* one part reported, the middle kept, a last part reported; the middle starts inside a granule */
		struct pagehint_run a = { 0, 10 * size }, b = { 10 * size, 5 * size + size / 2 },
				    c = { 15 * size + size / 2, all - 15 * size - size / 2 };
		ph_harvest_depart(zone, all);
		assert_int_equal(zone_at_rest(zone).in_flight, all);
		ph_harvest_release(zone, &a, PAGEHINT_RELEASE_REPORTED);
		assert_int_equal(zone_at_rest(zone).in_flight, all - a.frames);
		ph_harvest_release(zone, &b, PAGEHINT_RELEASE_KEPT);
		ph_harvest_release(zone, &c, PAGEHINT_RELEASE_REPORTED);
		struct pagehint_zone_stats s = zone_at_rest(zone);
		assert_int_equal(s.in_flight + s.isolated, 0);
		assert_int_equal(s.free, all);
		/* kept granules, and the one that was reported in part, age anew; nothing else is ever taken again */
		assert_int_equal(look_all(zone, granule, 0, &look), 0);
		assert_int_equal(look.got.young, 6 * size);
		assert_int_equal(look_all(zone, granule, 0, &look), 6 * size);
		assert_int_equal(look.runs[0].frame, 10 * size);
		look_release(zone, &look, PAGEHINT_RELEASE_REPORTED);
		assert_int_equal(look_all(zone, granule, PAGEHINT_HARVEST_NOW, &look), 0);
		/* a frame handed out, and only that granule comes again */
		assert_int_equal(pagehint_zone_alloc(zone, 0, &frame), 0);
		assert_int_equal(pagehint_zone_free(zone, frame, 0), 0);
		assert_int_equal(look_all(zone, granule, PAGEHINT_HARVEST_NOW, &look), size);
		look_release(zone, &look, PAGEHINT_RELEASE_REPORTED);
		zone_gone_home(zone);
	}
}

static void test_orders_above_the_granule(void **state)
{
	(void)state;
	const uint32_t granules[] = { 1, 3, 6, 9, 12, 15 };
	for (size_t i = 0; i < sizeof(granules) / sizeof(granules[0]); i++) {
		for (uint32_t order = granules[i] + 1; order <= PAGEHINT_ORDER_MAX; order++) {
			struct pagehint_zone *zone = zone_full(2, PAGEHINT_ZONE_STALE, granules[i]);
			uint64_t size = UINT64_C(1) << order, n = 2 * SECTION / size, young;
			/* every third block has one frame out: its other granules are free, but too small */
			for (uint64_t b = 0; b < n; b += 3)
				assert_int_equal(pagehint_zone_reserve(zone, b * size + size / 2, 1, NULL), 0);
			uint64_t blocks = n - (n + 2) / 3;
			struct pagehint_harvest ask = look_ask(0, 2 * SECTION, order, 0);
			assert_int_equal(pass(zone, ask, &young), 0);
			ask.flags = PAGEHINT_HARVEST_PEEK;
			look_at(zone, &ask, &look);
			assert_int_equal(look.got.frames, blocks * size);
			ask.flags = 0;
			ask.max_frames = 5 * size;
			ask.max_work = 1;
			assert_int_equal(pass(zone, ask, &young), blocks * size);
			assert_int_equal(zone_at_rest(zone).isolated, blocks * size);
			pagehint_zone_destroy(zone);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_fresh_zone_has_nothing_a_stale_one_everything),
		cmocka_unit_test(test_two_looks_and_no_touch_between),
		cmocka_unit_test(test_caches_keep_granules_back),
		cmocka_unit_test(test_runs_are_maximal_around_what_is_used),
		cmocka_unit_test(test_cut_anywhere_and_go_on),
		cmocka_unit_test(test_peek_looks_and_takes_nothing),
		cmocka_unit_test(test_how_runs_return),
		cmocka_unit_test(test_orders_above_the_granule),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
