/*
 * The flush filter call by call: options and memory, stamps on words, the filter, errors.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "support/flush_calls.h"

static void options_are_checked(void **state)
{
	(void)state;
	const struct pagehint_flush_opts wrong[] = {
		opts_of(1, 1, 0),
		opts_of(1, 1, 65537),
		opts_of(16385, 16385, 1),
		opts_of(1, (UINT64_C(1) << 22) + 1, 1),
		opts_of(2, 1, 1),
		{ .struct_size = sizeof(wrong[0]), .cpus = 1, .flags = 1 },
		{ .struct_size = 4, .cpus = 1 },
	};
	uint64_t bytes = 7;
	struct pagehint_flush *f = NULL;
	_Alignas(64) static unsigned char mem[1 << 16];
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		assert_int_equal(pagehint_flush_size(&wrong[i], &bytes), -EINVAL);
		assert_int_equal(pagehint_flush_init(mem, sizeof(mem), &wrong[i], &f), -EINVAL);
		assert_int_equal(pagehint_flush_new(&wrong[i], &f), -EINVAL);
	}
	assert_int_equal(pagehint_flush_size(NULL, &bytes), -EINVAL);
	struct {
		struct pagehint_flush_opts opts;
		uint64_t tail;
	} longer = { opts_of(0, 0, 1), 1 };
	longer.opts.struct_size = sizeof(longer);
	assert_int_equal(pagehint_flush_size(&longer.opts, &bytes), -E2BIG);
	assert_int_equal(pagehint_flush_init(mem, sizeof(mem), &longer.opts, &f), -E2BIG);
	assert_int_equal(pagehint_flush_new(&longer.opts, &f), -E2BIG);
	assert_int_equal(bytes, 7);
	assert_null(f);
	longer.tail = 0;
	assert_int_equal(pagehint_flush_size(&longer.opts, &bytes), 0);
	for (size_t i = 0; i < sizeof(mem); i++)
		assert_int_equal(mem[i], 0);
}

static void the_cost_is_half_a_bit_a_frame(void **state)
{
	(void)state;
	struct pagehint_flush_opts opts = opts_of(1000, 1000, 160);
	uint64_t many, few, wide;
	assert_int_equal(pagehint_flush_size(&opts, &many), 0);
	assert_true(many * 8 < 1000 * SECTION / 2 + 1000 * 64);
	opts = opts_of(4, 4, 160);
	assert_int_equal(pagehint_flush_size(&opts, &few), 0);
	opts.span_sections = UINT64_C(1) << 22;
	assert_int_equal(pagehint_flush_size(&opts, &wide), 0);
	assert_true(wide - few <= 4 * (UINT64_C(1) << 22)); /* a hole costs 4 bytes a section */
}

static void memory_of_the_caller(void **state)
{
	(void)state;
	struct pagehint_flush_opts opts = opts_of(2, 5, CPUS);
	uint64_t bytes;
	assert_int_equal(pagehint_flush_size(&opts, &bytes), 0);
	unsigned char *raw = calloc(2, (size_t)bytes + 64);
	assert_non_null(raw);
	unsigned char *mem = raw + (64 - (uintptr_t)raw % 64) % 64;
	struct pagehint_flush *f = NULL;
	assert_int_equal(pagehint_flush_init(mem + 8, bytes, &opts, &f), -EINVAL);
	assert_int_equal(pagehint_flush_init(mem, bytes - 1, &opts, &f), -EINVAL);
	assert_int_equal(pagehint_flush_init(NULL, bytes, &opts, &f), -EINVAL);
	assert_null(f);
	assert_int_equal(pagehint_flush_init(mem, bytes, &opts, &f), 0);
	assert_ptr_equal(f, mem);
	flush_cpus(f, 0, CPUS);
	freed(f, 2 * SECTION - 1, 2);
	/* no pointer in it: a copy at another address goes on */
	uint64_t step = (bytes + 63) / 64 * 64;
	memcpy(mem + step, mem, (size_t)bytes);
	struct pagehint_flush *copy = (struct pagehint_flush *)(void *)(mem + step);
	memset(mem, 0xff, (size_t)bytes);
	assert_int_equal(count(copy, 2 * SECTION - 1, 1), CPUS);
	assert_int_equal(count(copy, 0, SECTION), 0);
	pagehint_flush_free(copy); /* the caller's memory is left alone */
	free(raw);
	pagehint_flush_free(NULL);
}

static void only_what_lingers_needs_a_flush(void **state)
{
	(void)state;
	struct pagehint_flush *f = make(1, 1);
	uint64_t cpus[WORDS];
	assert_int_equal(count(f, 0, SECTION), 0); /* nothing was freed with a stamp */
	freed(f, 64, 1);
	assert_int_equal(need(f, 64, 1, cpus), CPUS); /* nobody has flushed ever */
	assert_true(cpus[0] == UINT64_MAX && cpus[1] == 0x3f);
	assert_int_equal(count(f, 127, 1), CPUS); /* its word */
	assert_int_equal(count(f, 0, 64), 0);     /* its neighbours */
	assert_int_equal(count(f, 128, 64), 0);
	flush_cpus(f, 3, 2);
	flush_cpus(f, 64, 1);
	assert_int_equal(need(f, 64, 64, cpus), CPUS - 3);
	assert_true(cpus[0] == ~UINT64_C(0x18) && cpus[1] == 0x3e);
	flush_cpus(f, 0, CPUS);
	assert_int_equal(count(f, 0, SECTION), 0);
	freed(f, 64, 1); /* after the flush: all over again */
	assert_int_equal(count(f, 0, SECTION), CPUS);
	pagehint_flush_free(f);
}

static void a_flush_that_began_before_the_free_does_not_count(void **state)
{
	(void)state;
	struct pagehint_flush *f = make(1, 1);
	uint64_t early = pagehint_flush_tick(f);
	freed(f, 0, 1);
	uint64_t late = pagehint_flush_tick(f);
	assert_int_equal(pagehint_flush_done(f, 0, early), 0);
	assert_int_equal(count(f, 0, 1), CPUS);
	assert_int_equal(pagehint_flush_done(f, 0, late), 0);
	assert_int_equal(count(f, 0, 1), CPUS - 1);
	assert_int_equal(pagehint_flush_done(f, 0, early), 0); /* comes late, and takes nothing back */
	assert_int_equal(count(f, 0, 1), CPUS - 1);
	pagehint_flush_free(f);
}

static void the_filter_keeps_the_newest(void **state)
{
	(void)state;
	struct pagehint_flush *f = make(3, 3);
	struct pagehint_flush_filter filter;
	struct pagehint_run runs[] = { { 0, 1 }, { 640, 64 }, { SECTION - 1, 2 } };
	uint64_t cpus[WORDS];
	uint32_t n;
	freed(f, 0, 1);
	flush_cpus(f, 0, 10);
	freed(f, 650, 1);
	flush_cpus(f, 10, 10);
	freed(f, SECTION, 1);
	flush_cpus(f, 20, 10);
	assert_int_equal(count(f, 0, 1), CPUS - 30);
	assert_int_equal(count(f, 640, 1), CPUS - 20);
	assert_int_equal(count(f, SECTION, 1), CPUS - 10);
	pagehint_flush_begin(&filter);
	assert_int_equal(pagehint_flush_add(f, &filter, runs, 3), 0);
	assert_int_equal(filter.words, 4);
	assert_int_equal(pagehint_flush_need(f, &filter, NULL, WORDS, cpus, &n), 0);
	assert_int_equal(n, CPUS - 10);
	assert_int_equal(pagehint_flush_add(f, &filter, runs, 1), 0); /* an older one changes nothing */
	assert_int_equal(pagehint_flush_add(f, &filter, NULL, 0), 0);
	assert_int_equal(pagehint_flush_need(f, &filter, NULL, WORDS, cpus, NULL), 0);
	assert_true(cpus[0] == ~(UINT64_C(0x3ff) << 20) && cpus[1] == 0x3f);
	pagehint_flush_free(f);
}

static void blocks_are_runs(void **state)
{
	(void)state;
	struct pagehint_flush *f = make(3, 3);
	const uint64_t frames[] = { 0, 2, 66, 4, 128 }, big[] = { SECTION, 0 };
	struct pagehint_flush_filter filter;
	assert_int_equal(pagehint_flush_freed_blocks(f, 1, 3, frames), 0);
	assert_int_equal(count(f, 0, 64), CPUS);
	assert_int_equal(count(f, 64, 64), CPUS);
	assert_int_equal(count(f, 128, SECTION), 0);
	assert_int_equal(pagehint_flush_freed_blocks(f, PAGEHINT_ORDER_MAX, 1, big), 0);
	assert_int_equal(count(f, SECTION, 1), CPUS);
	assert_int_equal(count(f, 2 * SECTION - 1, 1), CPUS);
	assert_int_equal(count(f, 2 * SECTION, SECTION), 0);

	pagehint_flush_begin(&filter);
	assert_int_equal(pagehint_flush_add_blocks(f, &filter, 1, 5, frames), 0);
	assert_int_equal(filter.words, 4); /* 0 and 2 share a word; 4 comes after another */
	assert_int_equal(pagehint_flush_add_blocks(f, &filter, 9, 2, big), 0);
	assert_int_equal(filter.words, 4 + 2 * 8);
	assert_int_equal(pagehint_flush_add_blocks(f, &filter, 0, 0, NULL), 0);
	assert_int_equal(filter.newest, 1);
	pagehint_flush_free(f);
}

static void wrong_frames_change_nothing(void **state)
{
	(void)state;
	struct pagehint_flush *f = make(2, 2);
	const struct {
		struct pagehint_run run;
		int error;
	} wrong[] = {
		{ { 5, 0 }, -EINVAL },
		{ { UINT64_MAX, 2 }, -EINVAL },
		{ { 2 * SECTION - 1, 2 }, -ERANGE },
		{ { 2 * SECTION, 1 }, -ERANGE },
	};
	struct pagehint_flush_filter filter = { 0, 0 };
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct pagehint_run runs[] = { { 0, 64 }, wrong[i].run };
		assert_int_equal(pagehint_flush_freed(f, runs, 2), wrong[i].error);
		assert_int_equal(pagehint_flush_add(f, &filter, runs, 2), wrong[i].error);
	}
	const struct {
		uint64_t frame;
		uint32_t order;
		int error;
	} blocks[] = {
		{ 0, PAGEHINT_ORDER_MAX + 1, -EINVAL },       { 0, UINT32_MAX, -EINVAL },  { 1, 1, -EINVAL },
		{ SECTION / 2, PAGEHINT_ORDER_MAX, -EINVAL }, { 2 * SECTION, 0, -ERANGE }, { UINT64_MAX, 0, -ERANGE },
	};
	for (size_t i = 0; i < sizeof(blocks) / sizeof(*blocks); i++) {
		uint64_t frames[] = { 0, blocks[i].frame };
		assert_int_equal(pagehint_flush_freed_blocks(f, blocks[i].order, 2, frames), blocks[i].error);
		assert_int_equal(pagehint_flush_add_blocks(f, &filter, blocks[i].order, 2, frames), blocks[i].error);
	}
	assert_true(filter.newest == 0 && filter.words == 0);
	assert_int_equal(count(f, 0, 2 * SECTION), 0);
	assert_int_equal(atomic_load(&f->rest), 0);
	pagehint_flush_free(f);
}

static void need_filters_the_cpus_it_is_given(void **state)
{
	(void)state;
	struct pagehint_flush *f = make(1, 1);
	struct pagehint_flush_filter filter;
	struct pagehint_run run = { 7, 1 };
	uint64_t among[3] = { 0xf0, UINT64_MAX, 1 }, cpus[3] = { 9, 9, 9 };
	uint32_t n = 5;
	freed(f, 7, 1);
	pagehint_flush_begin(&filter);
	assert_int_equal(pagehint_flush_add(f, &filter, &run, 1), 0);
	assert_int_equal(pagehint_flush_need(f, &filter, among, 1, cpus, &n), -EINVAL);
	assert_true(cpus[0] == 9 && n == 5);
	assert_int_equal(pagehint_flush_need(f, &filter, among, 3, cpus, &n), 0);
	assert_true(cpus[0] == 0xf0 && cpus[1] == 0x3f && cpus[2] == 0);
	assert_int_equal(n, 4 + 6);
	pagehint_flush_begin(&filter); /* empty: nothing, though no CPU has flushed */
	assert_int_equal(pagehint_flush_need(f, &filter, among, 3, cpus, &n), 0);
	assert_true((cpus[0] | cpus[1] | cpus[2]) == 0 && n == 0);
	pagehint_flush_free(f);
}

static void done_believes_no_nonsense(void **state)
{
	(void)state;
	struct pagehint_flush *f = make(1, 1);
	freed(f, 0, 1);
	uint64_t tick = pagehint_flush_tick(f);
	assert_int_equal(tick, pagehint_flush_clock(f));
	assert_int_equal(pagehint_flush_done(f, 0, 0), -EINVAL);
	assert_int_equal(pagehint_flush_done(f, 0, tick + 1), -EINVAL);
	assert_int_equal(pagehint_flush_done(f, CPUS, tick), -ERANGE);
	assert_int_equal(count(f, 0, 1), CPUS);
	pagehint_flush_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options_are_checked),
		cmocka_unit_test(the_cost_is_half_a_bit_a_frame),
		cmocka_unit_test(memory_of_the_caller),
		cmocka_unit_test(only_what_lingers_needs_a_flush),
		cmocka_unit_test(a_flush_that_began_before_the_free_does_not_count),
		cmocka_unit_test(the_filter_keeps_the_newest),
		cmocka_unit_test(blocks_are_runs),
		cmocka_unit_test(wrong_frames_change_nothing),
		cmocka_unit_test(need_filters_the_cpus_it_is_given),
		cmocka_unit_test(done_believes_no_nonsense),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
