/*
 * zone_looks.h: looks at a zone as a reporter takes them, with what came of each.
 */
#ifndef TEST_SUPPORT_ZONE_LOOKS_H
#define TEST_SUPPORT_ZONE_LOOKS_H

#include "support/zone_rest.h"

#include "alloc/harvest.h"

#define LOOK_RUNS 4096u

struct look {
	struct pagehint_run runs[LOOK_RUNS];
	struct pagehint_harvested got;
};

/* everything that is asked for of [from, to), in one call */
static inline struct pagehint_harvest look_ask(uint64_t from, uint64_t to, uint32_t order, uint32_t flags)
{
	struct pagehint_harvest ask = { .from = from,
					.to = to,
					.max_frames = UINT64_MAX,
					.max_runs = LOOK_RUNS,
					.order = order,
					.flags = flags,
					.max_work = UINT32_MAX };
	return ask;
}

/* What must be true of any harvest, whatever it found. Returns the frames it isolated. */
static inline uint64_t look_at(struct pagehint_zone *zone, const struct pagehint_harvest *ask, struct look *look)
{
	struct pagehint_zone_stats before = { .struct_size = sizeof(before) }, after = before;
	assert_int_equal(pagehint_zone_stats(zone, &before),
			 0); /* looks are many: invariants are walked at their end */
	assert_int_equal(ph_harvest(zone, ask, look->runs, &look->got), 0);
	const struct pagehint_harvested *got = &look->got;
	uint64_t sum = 0, unit = UINT64_C(1) << ask->order;
	assert_true(got->next >= ask->from && got->next <= ask->to);
	assert_true(got->runs <= ask->max_runs);
	for (uint32_t i = 0; i < got->runs; i++) {
		const struct pagehint_run *run = &look->runs[i];
		assert_true(run->frames != 0 && run->frame >= ask->from && run->frame + run->frames <= got->next);
		assert_int_equal(run->frame % unit, 0);
		assert_int_equal(run->frames % unit, 0);
		if (i > 0) /* in address order, and no two that could be one */
			assert_true(run->frame > run[-1].frame + run[-1].frames);
		sum += run->frames;
	}
	assert_int_equal(pagehint_zone_stats(zone, &after), 0);
	assert_int_equal(after.total, after.free + after.cached + after.out + after.isolated + after.in_flight);
	assert_int_equal(after.isolated + after.in_flight, before.isolated + before.in_flight + sum);
	assert_int_equal(after.out, before.out);
	if (ask->flags & PAGEHINT_HARVEST_PEEK) {
		assert_int_equal(got->runs, 0);
		return 0;
	}
	assert_int_equal(got->frames, sum);
	assert_true(sum <= ask->max_frames);
	return sum;
}

/* one look at the whole zone */
static inline uint64_t look_all(struct pagehint_zone *zone, uint32_t order, uint32_t flags, struct look *look)
{
	struct pagehint_harvest ask = look_ask(0, 16 * SECTION, order, flags);
	uint64_t n = look_at(zone, &ask, look);
	assert_int_equal(look->got.next, ask.to);
	zone_at_rest(zone);
	return n;
}

static inline void look_release(struct pagehint_zone *zone, struct look *look, uint32_t how)
{
	for (uint32_t i = 0; i < look->got.runs; i++)
		ph_harvest_release(zone, &look->runs[i], how);
	look->got.runs = 0;
	zone_at_rest(zone);
}

/* hands [frame, frame + n) out and takes it back: it may hold memory now */
static inline void look_use(struct pagehint_zone *zone, uint64_t frame, uint64_t n)
{
	struct pagehint_run run = { frame, n };
	assert_int_equal(pagehint_zone_reserve(zone, frame, n, NULL), 0);
	assert_int_equal(pagehint_zone_free_runs(zone, &run, 1, NULL), 0);
}

#endif
