/*
 * Threads that together hold little of a zone are never told that there is nothing: -ENOSPC is the truth, or it is a fault.
 * -EAGAIN (look again) is allowed, and must end.
 *
 * Why there is always room: a thing that is held, or is being taken or given back, lies in one block of the largest order that
 * is asked for (two, if it is adjacent frames), and there are more of those blocks than such things.
 */
#include "support/zone_crowd.h"

#include <sched.h>

#define WORKERS 3u
#define HELD 3u
#define TRIES 10000u

static struct crowd crowd;
static uint32_t largest; /* order */

struct thing {
	uint64_t frame, frames;
};

/* what an allocation said; -EAGAIN means another try, not without end */
static int came(struct member *m, int r, unsigned *tries)
{
	must(m, r == 0 || (r == -EAGAIN && ++*tries < TRIES));
	if (r == -EAGAIN) {
		atomic_fetch_add(&crowd.again, 1);
		sched_yield(); /* whoever has the block between two levels may have lost its CPU */
	}
	return r != -EAGAIN || *tries >= TRIES;
}

static void take(struct member *m, struct thing *t)
{
	uint32_t order = draw(m, 4) ? (uint32_t)draw(m, largest + 1) : largest;
	struct pagehint_run run;
	uint64_t frame = 0, frames = UINT64_C(1) << order;
	uint32_t n = 0, what = (uint32_t)draw(m, 4);
	unsigned tries = 0;
	int r;
	do {
		switch (what) {
		case 0:
			r = pagehint_zone_alloc_contig(crowd.zone, frames, 0, &frame);
			break;
		case 1:
			r = pagehint_zone_alloc_batch(crowd.zone, order, 1, &frame, &n);
			break;
		case 2: /* one run: there is a block of that size */
			r = pagehint_zone_alloc_runs(crowd.zone, 1, &run, 1, &n);
			frame = run.frame;
			frames = 1;
			break;
		default:
			r = pagehint_zone_alloc(crowd.zone, order, &frame);
		}
	} while (!came(m, r, &tries));
	if (r != 0)
		return;
	own(m, frame, frames);
	*t = (struct thing) { frame, frames };
}

static void give(struct member *m, struct thing *t)
{
	struct pagehint_run run = { t->frame, t->frames };
	if (t->frames == 0)
		return;
	disown(m, t->frame, t->frames);
	int r;
	do
		r = pagehint_zone_free_runs(crowd.zone, &run, 1, NULL);
	while (r == -EAGAIN);
	must(m, r == 0);
	t->frames = 0;
}

static void *work(void *arg)
{
	struct member *m = arg;
	struct thing held[HELD] = { { 0, 0 } };
	for (unsigned long i = 0; i < crowd.rounds; i++) {
		struct thing *t = &held[draw(m, HELD)];
		give(m, t);
		take(m, t);
	}
	for (unsigned i = 0; i < HELD; i++)
		give(m, &held[i]);
	atomic_fetch_add(&crowd.done, 1);
	return NULL;
}

static void test_little_held_is_never_too_much(void **state)
{
	(void)state;
	const struct {
		uint64_t frames;
		uint32_t largest;
	} zones[] = {
		{ 64, 1 },                        /* one word of level 0 */
		{ 128, 2 },      { 4096, 7 },     /* one word of level 1 */
		{ 8192, 8 },     { SECTION, 12 }, /* one word of level 2 */
		{ SECTION, 13 }, { 2 * SECTION, 13 },
	};
	void *(*const bodies[])(void *) = { work, work, work };
	for (unsigned i = 0; i < sizeof(zones) / sizeof(zones[0]); i++) {
		/* 3 threads with 3 things each, one of them in the making: 24 blocks of the largest order at the most */
		assert_true(zones[i].frames >> zones[i].largest > WORKERS * HELD * 2);
		largest = zones[i].largest;
		struct pagehint_zone *zone = zone_empty(2, 2, 0, 9);
		assert_int_equal(pagehint_zone_add(zone, 0, zones[i].frames), 0);
		crowd_gather(&crowd, zone, 2 * SECTION, 1000);
		crowd_run(&crowd, bodies, WORKERS, 11 + i);
		assert_int_equal(zone_at_rest(zone).out, 0);
		crowd_leave(&crowd);
		zone_gone_home(zone);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_little_held_is_never_too_much),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
