/* a look passes every frame once, and finds the regions behind holes, whatever size the frames have */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "report/look.h"

#define MIB (UINT64_C(1) << 20)
#define REGIONS 4u

/* in frames */
struct world {
	uint64_t span; /* [0, span) is present */
	struct pagehint_run regions[REGIONS];
	unsigned n;
};

static int next_span(void *ctx, uint64_t from, struct pagehint_run *ret_span)
{
	const struct world *w = ctx;
	if (from >= w->span)
		return -ENOENT;
	*ret_span = (struct pagehint_run) { 0, w->span };
	return 0;
}

static int harvest(void *ctx, const struct pagehint_harvest *ask, struct pagehint_run *runs,
		   struct pagehint_harvested *ret)
{
	(void)ctx;
	(void)ask;
	(void)runs;
	(void)ret;
	return -EIO;
}

static void release(void *ctx, const struct pagehint_run *run, uint32_t how)
{
	(void)ctx;
	(void)run;
	(void)how;
}

static int extent(void *ctx, uint64_t frame, uint64_t *ret_frames, uint64_t *ret_least)
{
	const struct world *w = ctx;
	for (unsigned i = 0; i < w->n; i++) {
		const struct pagehint_run *r = &w->regions[i];
		if (frame < r->frame || frame - r->frame >= r->frames)
			continue;
		*ret_frames = r->frames - (frame - r->frame);
		*ret_least = 0;
		return 0;
	}
	return -ERANGE;
}

static int discard(void *ctx, const struct pagehint_run *runs, uint32_t n, uint32_t flags,
		   struct pagehint_outcome *outcomes, uint32_t *ret_done)
{
	(void)ctx;
	(void)runs;
	(void)n;
	(void)flags;
	(void)outcomes;
	(void)ret_done;
	return -EIO;
}

/* One look: every region is met exactly, in order, each in one window; the rest is counted as without region. */
static void expect_all(struct world *w, uint32_t shift)
{
	struct pagehint_origin_ops from = { .struct_size = sizeof(from),
					    .frame_shift = shift,
					    .next_span = next_span,
					    .harvest = harvest,
					    .release = release };
	struct pagehint_backend_ops to = { .struct_size = sizeof(to), .extent = extent, .discard = discard };
	struct pagehint_backend_opts opts = { .struct_size = sizeof(opts), .frame_shift = shift };
	struct pagehint_origin *origin;
	struct pagehint_backend *backend;
	struct ph_window window = { 0, 0, 0 };
	struct ph_look look;
	uint32_t work = 65536;
	uint64_t covered = 0;
	assert_int_equal(pagehint_origin_new(&from, w, &origin), 0);
	assert_int_equal(pagehint_backend_new(&to, w, &opts, &backend), 0);
	ph_look_begin(&look);
	for (unsigned i = 0; i < w->n; i++) {
		assert_int_equal(ph_look_window(&look, origin, backend, &work, &window), 0);
		assert_int_equal(window.from, w->regions[i].frame);
		assert_int_equal(window.to, w->regions[i].frame + w->regions[i].frames);
		covered += window.to - window.from;
		ph_look_advance(&look, window.to);
	}
	assert_int_equal(ph_look_window(&look, origin, backend, &work, &window), -ENOENT);
	assert_int_equal(look.tally.no_region, w->span - covered);
	assert_int_equal(pagehint_backend_free(backend), 0);
	pagehint_origin_free(origin);
}

static uint64_t frames_of(uint64_t bytes, uint32_t shift)
{
	uint64_t frames = bytes >> shift;
	return frames == 0 ? 1 : frames;
}

/* 2 MiB, or one frame where that is more, wherever it lies */
static void test_the_smallest_that_is_promised(void **state)
{
	(void)state;
	for (uint32_t shift = 12; shift <= 30; shift++) {
		uint64_t size = frames_of(2 * MIB, shift);
		for (uint64_t at = 0; at < 3 * size; at += size / 16 + 1) {
			struct world w = { .span = 12 * size, .n = 2 };
			w.regions[0] = (struct pagehint_run) { at, size };
			w.regions[1] = (struct pagehint_run) { at + 2 * size + 1, size };
			expect_all(&w, shift);
		}
	}
}

/* the sizes between 2 MiB and what 512 frames are */
static void test_regions_smaller_than_many_large_frames(void **state)
{
	(void)state;
	for (uint32_t shift = 12; shift <= 30; shift++) {
		struct world w = { .span = 1024, .n = 1 };
		for (uint64_t frames = frames_of(2 * MIB, shift); frames <= 512; frames *= 2) {
			w.regions[0] = (struct pagehint_run) { 64, frames };
			expect_all(&w, shift);
		}
	}
}

/* A small region directly below a larger one, and a chain of them. */
static void test_a_small_region_that_touches_the_next(void **state)
{
	(void)state;
	for (uint32_t shift = 12; shift <= 20; shift++) {
		uint64_t size = frames_of(2 * MIB, shift);
		for (uint64_t small = 1; small < size; small += size / 8 + 1) {
			struct world w = { .span = 8 * size, .n = 3 };
			uint64_t at = size + size / 2;
			w.regions[0] = (struct pagehint_run) { at - small, small };
			w.regions[1] = (struct pagehint_run) { at, 1 };
			w.regions[2] = (struct pagehint_run) { at + 1, 2 * size };
			expect_all(&w, shift);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_smallest_that_is_promised),
		cmocka_unit_test(test_regions_smaller_than_many_large_frames),
		cmocka_unit_test(test_a_small_region_that_touches_the_next),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
