/* A zone as the place where a balloon's frames come from: which go first, and that all come back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <pagehint/cache.h>
#include <pagehint/driver.h>
#include <pagehint/zone.h>

#define FRAMES UINT64_C(131072) /* 256 granules */
#define MAX 64u

static struct pagehint_zone *zone;
static struct pagehint_driver_ops ops;
static struct pagehint_driver_zone from;
static unsigned char touched[FRAMES]; /* written by the guest since it was added */

static void open_zone(uint64_t frames)
{
	struct pagehint_zone_opts opts = { .struct_size = sizeof(opts), .max_sections = 4, .span_sections = 1000 };
	assert_int_equal(pagehint_zone_new(&opts, &zone), 0);
	assert_int_equal(pagehint_zone_add(zone, 0, frames), 0);
	assert_int_equal(pagehint_driver_zone_ops(&ops), 0);
	from = (struct pagehint_driver_zone) { .zone = zone };
	memset(touched, 0, sizeof(touched));
}

static void close_zone(uint64_t free_frames)
{
	struct pagehint_zone_stats stats = { .struct_size = sizeof(stats) };
	assert_int_equal(pagehint_zone_stats(zone, &stats), 0);
	assert_int_equal(stats.free, free_frames);
	assert_int_equal(pagehint_zone_check(zone, NULL), 0);
	pagehint_zone_destroy(zone);
}

static uint64_t use(uint32_t order)
{
	uint64_t frame;
	assert_int_equal(pagehint_zone_alloc(zone, order, &frame), 0);
	memset(touched + frame, 1, (size_t)1 << order);
	return frame;
}

/* What a take gave, noted; frames taken and touched frames among them are counted. */
struct taken {
	struct pagehint_run runs[4096];
	uint32_t n;
	uint64_t frames, gained, whole;
};

static int take_some(struct taken *t, uint32_t what_for, uint64_t frames)
{
	uint32_t n = 0;
	assert_true(t->n + MAX <= 4096);
	int r = ops.take(&from, what_for, frames, &t->runs[t->n], MAX, &n);
	if (r != 0)
		return r;
	assert_in_range(n, 1, MAX);
	uint64_t sum = 0;
	for (uint32_t i = 0; i < n; i++, t->n++) {
		const struct pagehint_run *run = &t->runs[t->n];
		sum += run->frames;
		for (uint64_t f = run->frame; f < run->frame + run->frames; f++)
			t->gained += touched[f];
		if (run->frame % 512 == 0 && run->frames % 512 == 0)
			t->whole += run->frames;
	}
	assert_true(sum <= frames);
	t->frames += sum;
	return 0;
}

static void take_all(struct taken *t, uint64_t frames)
{
	while (t->frames < frames) {
		uint64_t left = frames - t->frames;
		assert_int_equal(take_some(t, PAGEHINT_DRIVER_FOR_BALLOON, left < 1024 ? left : 1024), 0);
	}
}

static void give_all(struct taken *t)
{
	ops.give(&from, PAGEHINT_DRIVER_FOR_BALLOON, t->runs, t->n);
	t->n = 0;
}

static void test_whole_granules_that_hold_memory_go_first(void **state)
{
	(void)state;
	static struct taken t;
	uint64_t blocks[100];
	memset(&t, 0, sizeof(t));
	open_zone(FRAMES);
	for (uint32_t i = 0; i < 100; i++)
		blocks[i] = use(9);
	for (uint32_t i = 0; i < 100; i += 2)
		assert_int_equal(pagehint_zone_free(zone, blocks[i], 9), 0);
	take_all(&t, 50 * 512);
	assert_int_equal(t.gained, t.frames);
	assert_int_equal(t.whole, t.frames);
	/* nothing else is worth anything to the host, but it may have it */
	take_all(&t, 60 * 512);
	assert_int_equal(t.gained, 50 * 512);
	give_all(&t);
	close_zone(FRAMES - 50 * 512);
}

static void test_gained_over_inflated(void **state)
{
	(void)state;
	static struct taken t;
	uint64_t pieces[3000], n = 0;
	memset(&t, 0, sizeof(t));
	open_zone(FRAMES);
	/* a guest that used half of itself in pieces of all sizes, and freed most of them */
	for (uint64_t used = 0; used < FRAMES / 2 && n < 3000; n++) {
		uint32_t order = (uint32_t)(n % 7);
		pieces[n] = use(order) << 8 | order;
		used += UINT64_C(1) << order;
	}
	uint64_t freed = 0;
	for (uint64_t i = 0; i < n; i++) {
		if (i % 10 == 3)
			continue;
		assert_int_equal(pagehint_zone_free(zone, pieces[i] >> 8, (uint32_t)(pieces[i] & 0xff)), 0);
		freed += UINT64_C(1) << (pieces[i] & 0xff);
	}
	take_all(&t, freed * 8 / 10);
	assert_true(t.gained * 10 >= t.frames * 9);
	give_all(&t);
	pagehint_zone_destroy(zone);
}

static void test_the_rest_of_a_target(void **state)
{
	(void)state;
	static struct taken t;
	open_zone(FRAMES);
	for (uint64_t frames = 1; frames < 1500; frames += 13) {
		memset(&t, 0, sizeof(t));
		take_all(&t, frames);
		assert_int_equal(t.frames, frames);
		give_all(&t);
	}
	close_zone(FRAMES);
}

static void test_hints_are_of_whole_granules_that_hold_memory(void **state)
{
	(void)state;
	static struct taken t;
	uint64_t blocks[8];
	memset(&t, 0, sizeof(t));
	open_zone(FRAMES);
	for (uint32_t i = 0; i < 8; i++)
		blocks[i] = use(9);
	uint64_t small = use(0);
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(pagehint_zone_free(zone, blocks[i], 9), 0);
	assert_int_equal(take_some(&t, PAGEHINT_DRIVER_FOR_HINT, FRAMES), 0);
	assert_int_equal(t.frames, 8 * 512);
	assert_int_equal(t.gained, t.frames);
	assert_int_equal(take_some(&t, PAGEHINT_DRIVER_FOR_HINT, FRAMES), -ENOSPC);
	ops.give(&from, PAGEHINT_DRIVER_FOR_HINT, t.runs, t.n);
	assert_int_equal(pagehint_zone_free(zone, small, 0), 0);
	close_zone(FRAMES);
}

static void test_what_is_to_be_kept_stays(void **state)
{
	(void)state;
	static struct taken t;
	memset(&t, 0, sizeof(t));
	open_zone(FRAMES);
	from.keep = FRAMES - 1000;
	take_all(&t, 1000);
	assert_int_equal(take_some(&t, PAGEHINT_DRIVER_FOR_BALLOON, 1), -ENOSPC);
	from.keep = 0;
	take_all(&t, FRAMES);
	assert_int_equal(take_some(&t, PAGEHINT_DRIVER_FOR_BALLOON, 1), -ENOSPC);
	give_all(&t);
	close_zone(FRAMES);
}

static void test_pieces_that_turn_up_later(void **state)
{
	(void)state;
	static struct taken t;
	memset(&t, 0, sizeof(t));
	open_zone(FRAMES);
	uint64_t piece = use(3), rest = use(9);
	take_all(&t, FRAMES - 1024); /* nothing lies about but what is left of the piece's granule */
	take_all(&t, FRAMES - 512 - 8);
	from.pause = 64;
	assert_int_equal(pagehint_zone_free(zone, piece, 3), 0);
	take_all(&t, FRAMES - 512); /* found at once: there is nothing else */
	assert_int_equal(from.pause, 63);
	assert_int_equal(take_some(&t, PAGEHINT_DRIVER_FOR_BALLOON, 1), -ENOSPC);
	give_all(&t);
	assert_int_equal(pagehint_zone_free(zone, rest, 9), 0);
	close_zone(FRAMES);
}

static void test_a_zone_with_holes(void **state)
{
	(void)state;
	static struct taken t;
	const uint64_t far = UINT64_C(999) << 18;
	memset(&t, 0, sizeof(t));
	open_zone(1024);
	assert_int_equal(pagehint_zone_add(zone, far, 2048), 0);
	while (t.frames < 3072) {
		uint32_t n = 0;
		assert_int_equal(ops.take(&from, PAGEHINT_DRIVER_FOR_BALLOON, 512, &t.runs[t.n], MAX, &n), 0);
		for (; n != 0; n--)
			t.frames += t.runs[t.n++].frames;
	}
	give_all(&t);
	close_zone(3072);
}

static void test_frames_that_are_elsewhere_may_come_back(void **state)
{
	(void)state;
	struct pagehint_cache *cache;
	static struct taken t;
	uint64_t frame;
	memset(&t, 0, sizeof(t));
	open_zone(64);
	assert_int_equal(pagehint_cache_open(zone, &cache), 0);
	assert_int_equal(pagehint_cache_alloc(cache, 0, &frame), 0); /* the cache has taken them all */
	assert_int_equal(take_some(&t, PAGEHINT_DRIVER_FOR_BALLOON, 1), -EAGAIN);
	assert_int_equal(pagehint_cache_free(cache, frame, 0), 0);
	pagehint_cache_close(cache);
	take_all(&t, 64);
	assert_int_equal(take_some(&t, PAGEHINT_DRIVER_FOR_BALLOON, 1), -ENOSPC);
	give_all(&t);
	assert_int_equal(pagehint_driver_zone_ops(NULL), -EINVAL);
	close_zone(64);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole_granules_that_hold_memory_go_first),
		cmocka_unit_test(test_gained_over_inflated),
		cmocka_unit_test(test_the_rest_of_a_target),
		cmocka_unit_test(test_hints_are_of_whole_granules_that_hold_memory),
		cmocka_unit_test(test_what_is_to_be_kept_stays),
		cmocka_unit_test(test_pieces_that_turn_up_later),
		cmocka_unit_test(test_a_zone_with_holes),
		cmocka_unit_test(test_frames_that_are_elsewhere_may_come_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
