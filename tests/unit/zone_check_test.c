/*
 * The check itself: every invariant is broken by hand, one at a time, and must be told, by its own words.
 */
#include "support/zone_rest.h"

#include "alloc/cache.h"
#include "alloc/level.h"
#include "alloc/track.h"

static char told[8000];

static void collect(void *ctx, const char *text)
{
	(void)ctx;
	if (strlen(told) + strlen(text) + 2 < sizeof(told))
		strcat(strcat(told, text), "\n");
}

/* The value must make the check say `what`; the old one must make it content again. */
static void expect_told(struct pagehint_zone *zone, ph_word *word, uint64_t value, const char *what)
{
	struct pagehint_sink sink = { NULL, collect };
	uint64_t old = atomic_load(word);
	zone_at_rest(zone);
	told[0] = 0;
	atomic_store(word, value);
	uint64_t faults = pagehint_zone_check(zone, &sink);
	if (faults == 0 || strstr(told, what) == NULL)
		print_message("wanted: %s\ntold: %s", what, told);
	assert_true(faults != 0);
	assert_non_null(strstr(told, what));
	assert_int_equal(pagehint_zone_check(zone, NULL), faults); /* the same without anybody to tell */
	atomic_store(word, old);
	zone_at_rest(zone);
}

static void test_every_broken_invariant_is_told(void **state)
{
	(void)state;
	struct pagehint_zone *zone = zone_empty(2, 2, 0, 9);
	struct pagehint_cache *cache;
	uint64_t frame;
	assert_int_equal(pagehint_zone_add(zone, 0, SECTION - 64), 0); /* slot 0; slot 1 is unused */
	assert_int_equal(pagehint_cache_open(zone, &cache), 0);
	assert_int_equal(pagehint_cache_alloc(cache, 0, &frame), 0);
	assert_int_equal(pagehint_zone_reserve(zone, 3, 2, NULL), 0);
	struct ph_section *head = ph_zone_head(zone, 0), *unused = ph_zone_head(zone, 1);
	ph_word *word0 = ph_zone_level_word(zone, 0, 0, 0), *word1 = ph_zone_level_word(zone, 0, 1, 0);
	uint64_t v0 = atomic_load(word0), v1 = atomic_load(word1);
	expect_told(zone, word1, v1 | 1, "free on several levels");
	expect_told(zone, &ph_zone_whole(zone)[0], 1, "free on several levels");
	expect_told(zone, word0, PH_FULL, "full word left unmerged");
	expect_told(zone, word0, v0 | 8, "free and out");
	expect_told(zone, word0, v0 & ~UINT64_C(1), "free counter is wrong");
	expect_told(zone, ph_zone_level_word(zone, 0, 0, 4095), 1, "not present, but free or out");
	expect_told(zone, ph_track_word(zone, 0, 0, 4095), 1, "not present, but free or out");
	expect_told(zone, ph_track_word(zone, 0, 1, 0), 1, "out on several levels");
	expect_told(zone, ph_track_word(zone, 0, 0, 0), 8, "is not total"); /* a frame is nowhere */
	for (uint32_t level = 0; level < PH_WHOLE_LEVEL; level++) {
		int c = ph_level_class(atomic_load(ph_zone_level_word(zone, 0, level, 0)));
		assert_true(c >= 0);
		expect_told(zone, &ph_zone_sum(zone, level, (uint32_t)c)[0], 0, "summary says too little");
	}
	expect_told(zone, &head->top0[ph_level_class(v0)], 0, "summary says too little");
	expect_told(zone, &head->sum1[ph_level_class(v1)], 0, "summary says too little");
	expect_told(zone, &ph_zone_words(zone, 0, zone->at_sum0)[(uint32_t)ph_level_class(v0) * 64], 0,
		    "summary says too little");
	uint32_t silent = 0; /* a class that no word of the slot has */
	while (atomic_load(&head->top0[silent]) != 0)
		silent++;
	expect_told(zone, &ph_zone_words(zone, 0, zone->at_sum0)[silent * 64], 1, "summary ends below its top");
	expect_told(zone, &head->top0[silent], 2, "summary ends below its top");
	expect_told(zone, &head->sum1[silent], 1, "summary ends below its top");
	expect_told(zone, &head->put, atomic_load(&head->put) + 1, "free counter is wrong");
	expect_told(zone, &head->taken, atomic_load(&head->taken) + 1, "free counter is wrong");
	expect_told(zone, &zone->total, atomic_load(&zone->total) + 64, "total is not what is present");
	expect_told(zone, &zone->holding, 1, "still holds frames");
	expect_told(zone, &zone->isolated, 1, "is not total");
	expect_told(zone, &zone->in_flight, 1, "is not total");
	expect_told(zone, &unused->level2, 1, "free frames in an unused slot");
	expect_told(zone, &ph_zone_whole(zone)[0], 2, "free frames in an unused slot");
	ph_word *marks = ph_track_word(zone, 0, 0, ph_zone_offset(frame) / 64);
	expect_told(zone, marks, 1, "lent, but not marked");
	expect_told(zone, &cache->lent, 0, "cached, but free or out");
	assert_int_equal(pagehint_cache_alloc(cache, 0, &frame), 0);
	assert_int_equal(pagehint_cache_free(cache, frame, 0), 0);
	ph_word *freed = &cache->mask[atomic_load(&cache->hot)];
	expect_told(zone, freed, PH_FULL, "cached, but free or out");
	expect_told(zone, freed, 0, "is not total");
	expect_told(zone, &cache->block[1], 1, "is not total");
	expect_told(zone, &cache->block[1], 2, "no block is in a cache");
	expect_told(zone, &cache->block[1], 5, "block cached, but free or out");
	expect_told(zone, &head->splits_begun, atomic_load(&head->splits_begun) + 1, "still being split");
	struct pagehint_sink sink = { NULL, collect };
	uint32_t was = atomic_exchange(&cache->control, PH_CACHE_FREE);
	told[0] = 0;
	assert_true(pagehint_zone_check(zone, &sink) != 0);
	assert_non_null(strstr(told, "frames in a closed cache"));
	atomic_store(&cache->control, was);
	atomic_fetch_add(&head->begun, 64);
	assert_true(pagehint_zone_check(zone, &sink) != 0);
	assert_non_null(strstr(told, "still in transit"));
	atomic_fetch_add(&head->ended, 64);
	zone_at_rest(zone);
	pagehint_zone_destroy(zone);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_broken_invariant_is_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
