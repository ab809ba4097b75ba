/*
 * flush_calls.h: a flush filter to test with: what needs a flush, and flushes.
 */
#ifndef TEST_SUPPORT_FLUSH_CALLS_H
#define TEST_SUPPORT_FLUSH_CALLS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pagehint/flush.h>

#include "alloc/flush.h"

#define SECTION ((uint64_t)PAGEHINT_SECTION_FRAMES)
#define CPUS 70u /* more than one word of them */
#define WORDS 2u

static inline struct pagehint_flush_opts opts_of(uint64_t max_sections, uint64_t span, uint32_t cpus)
{
	struct pagehint_flush_opts opts = {
		.struct_size = sizeof(opts), .max_sections = max_sections, .span_sections = span, .cpus = cpus
	};
	return opts;
}

static inline struct pagehint_flush *make(uint64_t max_sections, uint64_t span)
{
	struct pagehint_flush_opts opts = opts_of(max_sections, span, CPUS);
	struct pagehint_flush *f = NULL;
	assert_int_equal(pagehint_flush_new(&opts, &f), 0);
	return f;
}

static inline void freed(struct pagehint_flush *f, uint64_t frame, uint64_t frames)
{
	struct pagehint_run run = { frame, frames };
	assert_int_equal(pagehint_flush_freed(f, &run, 1), 0);
}

/* CPUs that need a flush for these frames; the bits of both words are checked to be as many */
static inline uint32_t need(const struct pagehint_flush *f, uint64_t frame, uint64_t frames, uint64_t *cpus)
{
	struct pagehint_run run = { frame, frames };
	struct pagehint_flush_filter filter;
	uint32_t n = 999;
	pagehint_flush_begin(&filter);
	assert_int_equal(pagehint_flush_add(f, &filter, &run, 1), 0);
	assert_int_equal(pagehint_flush_need(f, &filter, NULL, WORDS, cpus, &n), 0);
	assert_int_equal(n, __builtin_popcountll(cpus[0]) + __builtin_popcountll(cpus[1]));
	return n;
}

static inline uint32_t count(const struct pagehint_flush *f, uint64_t frame, uint64_t frames)
{
	uint64_t cpus[WORDS];
	return need(f, frame, frames, cpus);
}

static inline void flush_cpus(struct pagehint_flush *f, uint32_t first, uint32_t n)
{
	uint64_t tick = pagehint_flush_tick(f);
	for (uint32_t i = first; i < first + n; i++)
		assert_int_equal(pagehint_flush_done(f, i, tick), 0);
}

/* Pretends that many flushes have been. */
static inline void clock_to(struct pagehint_flush *f, uint64_t time)
{
	atomic_store(&f->clock, time);
}

#endif
