/*
 * What a harvest may see at all: spans, ranges that make no sense, sections that come and go, and how much is free where.
 */
#include "support/zone_looks.h"

#include <errno.h>

static struct look look;

static void test_bad_asks(void **state)
{
	(void)state;
	struct pagehint_zone *zone = zone_empty(3, 9, PAGEHINT_ZONE_STALE, 9);
	assert_int_equal(pagehint_zone_add(zone, 2 * SECTION, SECTION), 0);
	assert_int_equal(pagehint_zone_add(zone, 8 * SECTION, SECTION - 64), 0);
	struct pagehint_harvest ask = look_ask(1, 0, 9, 0);
	assert_int_equal(ph_harvest(zone, &ask, look.runs, &look.got), -EINVAL);
	ask = look_ask(0, SECTION, 19, 0);
	assert_int_equal(ph_harvest(zone, &ask, look.runs, &look.got), -EINVAL);
	ask = look_ask(0, SECTION, 8, 0); /* no ladder */
	assert_int_equal(ph_harvest(zone, &ask, look.runs, &look.got), -EINVAL);
	ask = look_ask(0, 0, 9, 0);
	assert_int_equal(look_at(zone, &ask, &look), 0);
	ask = look_ask(0, UINT64_MAX, 9, PAGEHINT_HARVEST_NOW); /* far beyond the span */
	assert_int_equal(look_at(zone, &ask, &look), 2 * SECTION - 512);
	assert_true(look.got.next == UINT64_MAX);
	assert_int_equal(look.got.runs, 2);
	look_release(zone, &look, PAGEHINT_RELEASE_KEPT);
	ask = look_ask(UINT64_MAX - 5, UINT64_MAX, 9, PAGEHINT_HARVEST_NOW);
	assert_int_equal(look_at(zone, &ask, &look), 0);
	ask = look_ask(2 * SECTION + 1, 2 * SECTION + 2047, 9, PAGEHINT_HARVEST_NOW); /* only what lies wholly inside */
	assert_int_equal(look_at(zone, &ask, &look), 2 * 512);
	assert_int_equal(look.runs[0].frame, 2 * SECTION + 512);
	look_release(zone, &look, PAGEHINT_RELEASE_REPORTED);
	zone_gone_home(zone);
}

/* A section can go, and its slot be given to another, while it is looked at; made here by hand. */
static void test_a_section_that_went_gives_nothing(void **state)
{
	(void)state;
	const uint32_t flags[] = { PAGEHINT_ZONE_STALE, PAGEHINT_ZONE_STALE | PAGEHINT_ZONE_LADDER };
	const uint32_t orders[] = { 9, 12, 18, 0, 4, 7 };
	for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
		struct pagehint_zone *zone = zone_empty(1, 4, flags[i >= 3], 9);
		assert_int_equal(pagehint_zone_add(zone, 3 * SECTION, SECTION), 0);
		assert_int_equal(pagehint_zone_reserve(zone, 3 * SECTION, i % 3, NULL), i % 3 == 0 ? -EINVAL : 0);
		_Atomic uint32_t *slots = ph_zone_at(zone, zone->off_slots);
		atomic_store(&slots[1], atomic_load(&slots[3]));
		struct pagehint_harvest ask = look_ask(SECTION, 2 * SECTION, orders[i], PAGEHINT_HARVEST_NOW);
		assert_int_equal(look_at(zone, &ask, &look), 0);
		atomic_store(&slots[1], 0);
		assert_int_equal(zone_at_rest(zone).isolated, 0);
		pagehint_zone_destroy(zone);
	}
}

static void test_spans_come_in_order(void **state)
{
	(void)state;
	struct pagehint_zone *zone = zone_empty(3, 1000, 0, 9);
	struct pagehint_run span = { 5, 5 };
	assert_int_equal(ph_harvest_next_span(zone, 0, &span), -ENOENT);
	assert_int_equal(span.frame, 5);
	assert_int_equal(pagehint_zone_add(zone, 900 * SECTION, SECTION), 0); /* the slots are in no order */
	assert_int_equal(pagehint_zone_add(zone, 7 * SECTION + 128, 64), 0);
	assert_int_equal(pagehint_zone_add(zone, 7 * SECTION + 640, 1280), 0);
	const struct {
		uint64_t from, frame, frames;
	} spans[] = {
		{ 0, 7 * SECTION + 128, 64 },
		{ 7 * SECTION + 128, 7 * SECTION + 128, 64 },
		{ 7 * SECTION + 150, 7 * SECTION + 150, 42 }, /* the rest of it */
		{ 7 * SECTION + 192, 7 * SECTION + 640, 1280 },
		{ 7 * SECTION + 1920, 900 * SECTION, SECTION },
		{ 901 * SECTION - 1, 901 * SECTION - 1, 1 },
	};
	for (size_t i = 0; i < sizeof(spans) / sizeof(spans[0]); i++) {
		assert_int_equal(ph_harvest_next_span(zone, spans[i].from, &span), 0);
		assert_int_equal(span.frame, spans[i].frame);
		assert_int_equal(span.frames, spans[i].frames);
	}
	assert_int_equal(ph_harvest_next_span(zone, 901 * SECTION, &span), -ENOENT);
	assert_int_equal(ph_harvest_next_span(zone, UINT64_MAX, &span), -ENOENT);
	zone_gone_home(zone);
}

/* Frames that come new are fresh, whatever lay in the slot before them. */
static void test_what_comes_again_is_fresh(void **state)
{
	(void)state;
	for (unsigned stale = 0; stale < 2; stale++) {
		struct pagehint_zone *zone = zone_empty(1, 3, stale ? PAGEHINT_ZONE_STALE : 0, 9);
		assert_int_equal(pagehint_zone_add(zone, 0, SECTION), 0);
		look_use(zone, 0, SECTION);
		if (stale)
			look_all(zone, 9, 0, &look); /* moves `touched` on */
		assert_int_equal(pagehint_zone_remove(zone, 0, SECTION, NULL), 0);
		assert_int_equal(pagehint_zone_add(zone, 2 * SECTION, SECTION), 0);
		assert_int_equal(look_all(zone, 9, 0, &look), 0); /* no age comes with the slot */
		assert_int_equal(look_all(zone, 9, PAGEHINT_HARVEST_NOW, &look), stale ? SECTION : 0);
		look_release(zone, &look, PAGEHINT_RELEASE_REPORTED);
		look_use(zone, 2 * SECTION, SECTION);
		for (uint64_t f = 0; f < SECTION; f += 64) /* goes in pieces smaller than a granule */
			assert_int_equal(pagehint_zone_remove(zone, 2 * SECTION + f, 64, NULL), 0);
		assert_int_equal(pagehint_zone_add(zone, 0, SECTION), 0);
		assert_int_equal(look_all(zone, 9, PAGEHINT_HARVEST_NOW, &look), stale ? SECTION : 0);
		look_release(zone, &look, PAGEHINT_RELEASE_REPORTED);
		zone_gone_home(zone);
	}
}

static void test_how_much_is_free_where(void **state)
{
	(void)state;
	struct pagehint_zone *zone = zone_full(2, 0, 9);
	struct pagehint_cache *cache;
	struct pagehint_origin_free f = { .struct_size = sizeof(f) };
	uint64_t frame, keep;
	ph_harvest_free(zone, pagehint_zone_granule_order(zone), &f);
	assert_int_equal(f.struct_size, sizeof(f));
	assert_int_equal(f.free, 2 * SECTION);
	assert_int_equal(f.reported, 2 * SECTION);
	assert_int_equal(f.below + f.hidden + f.handed_out, 0);
	assert_int_equal(pagehint_zone_alloc(zone, 0, &keep), 0);
	assert_int_equal(pagehint_zone_alloc(zone, 9, &frame), 0);
	assert_int_equal(pagehint_zone_free(zone, frame, 9), 0);
	assert_int_equal(pagehint_cache_open(zone, &cache), 0);
	assert_int_equal(pagehint_cache_alloc(cache, 0, &frame), 0); /* from the granule that is broken already */
	ph_harvest_free(zone, pagehint_zone_granule_order(zone), &f);
	assert_int_equal(f.hidden, pagehint_cache_held(cache));
	assert_int_equal(f.free, 2 * SECTION - 2 - f.hidden);
	assert_int_equal(f.below, 510 - f.hidden);
	assert_int_equal(f.reported, 2 * SECTION - 1024);
	assert_int_equal(f.handed_out, 1024); /* two fresh granules were broken */
	assert_int_equal(pagehint_cache_free(cache, frame, 0), 0);
	pagehint_cache_close(cache);
	assert_int_equal(pagehint_zone_free(zone, keep, 0), 0);
	assert_int_equal(look_all(zone, 9, PAGEHINT_HARVEST_NOW, &look), 1024);
	look_release(zone, &look, PAGEHINT_RELEASE_REPORTED);
	ph_harvest_free(zone, pagehint_zone_granule_order(zone), &f);
	assert_int_equal(f.reported, 2 * SECTION);
	zone_gone_home(zone);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bad_asks),
		cmocka_unit_test(test_a_section_that_went_gives_nothing),
		cmocka_unit_test(test_spans_come_in_order),
		cmocka_unit_test(test_what_comes_again_is_fresh),
		cmocka_unit_test(test_how_much_is_free_where),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
