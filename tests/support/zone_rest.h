/*
 * zone_rest.h: a zone to test with, and what must be true of it after every call: no invariant is broken and no frame is lost.
 */
#ifndef TEST_SUPPORT_ZONE_REST_H
#define TEST_SUPPORT_ZONE_REST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <pagehint/cache.h>
#include <pagehint/zone.h>

#define SECTION ((uint64_t)PAGEHINT_SECTION_FRAMES)

/* every kind of bookkeeping that a zone can have */
static const uint32_t zone_kinds[] = {
	0,
	PAGEHINT_ZONE_STRICT,
	PAGEHINT_ZONE_UNTRACKED,
	PAGEHINT_ZONE_LADDER,
	PAGEHINT_ZONE_STRICT | PAGEHINT_ZONE_LADDER | PAGEHINT_ZONE_STALE,
};
#define ZONE_KINDS (sizeof(zone_kinds) / sizeof(zone_kinds[0]))

static inline void zone_fault_line(void *ctx, const char *text)
{
	(void)ctx;
	print_message("check: %s\n", text);
}

/* No invariant is broken, and the one equation holds. Returns the counters. */
static inline struct pagehint_zone_stats zone_at_rest(const struct pagehint_zone *zone)
{
	struct pagehint_sink sink = { NULL, zone_fault_line };
	struct pagehint_zone_stats s = { .struct_size = sizeof(s) };
	assert_int_equal(pagehint_zone_check(zone, &sink), 0);
	assert_int_equal(pagehint_zone_stats(zone, &s), 0);
	assert_int_equal(s.free + s.cached + s.out + s.isolated + s.in_flight + s.transit, s.total);
	assert_int_equal(s.transit, 0);
	return s;
}

static inline struct pagehint_zone *zone_empty(uint64_t sections, uint64_t span, uint32_t flags, uint32_t granule)
{
	struct pagehint_zone *zone = NULL;
	struct pagehint_zone_opts opts = { .struct_size = sizeof(opts),
					   .max_sections = sections,
					   .span_sections = span,
					   .flags = flags,
					   .granule_order = granule };
	assert_int_equal(pagehint_zone_new(&opts, &zone), 0);
	return zone;
}

/* all its sections are present */
static inline struct pagehint_zone *zone_full(uint64_t sections, uint32_t flags, uint32_t granule)
{
	struct pagehint_zone *zone = zone_empty(sections, sections, flags, granule);
	assert_int_equal(pagehint_zone_add(zone, 0, sections * SECTION), 0);
	return zone;
}

/* everything was given back: all that is present is free again, merged as far as it goes */
static inline void zone_gone_home(struct pagehint_zone *zone)
{
	struct pagehint_zone_stats s = zone_at_rest(zone);
	assert_int_equal(s.free, s.total);
	pagehint_zone_destroy(zone);
}

#endif
