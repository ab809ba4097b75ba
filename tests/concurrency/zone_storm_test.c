/*
 * Threads do everything there is to do with one zone, at random: no frame is ever in two hands, and none is lost.
 */
#include "support/zone_crowd.h"

#include "alloc/harvest.h"

#define WORKERS 3u
#define HELD 24u
#define MAIL 16u
#define RUNS 32u
#define PLUGS 2u /* sections that come and go; there is one slot too few for them */

/* something that a worker holds: a block, or runs when order is above the largest */
struct thing {
	uint64_t frame, frames;
	uint32_t order;
};

struct worker {
	struct member *m;
	struct pagehint_cache *cache;
	struct thing held[HELD];
	unsigned n;
};

static struct crowd crowd;
static _Atomic uint64_t mail[MAIL]; /* frame << 8 | order + 1: blocks that another thread frees */
static uint32_t flags, granule, sections;

static void keep(struct worker *w, uint64_t frame, uint64_t frames, uint32_t order)
{
	own(w->m, frame, frames);
	w->held[w->n++] = (struct thing) { frame, frames, order };
}

static int came(struct worker *w, int r)
{
	must(w->m, r == 0 || r == -ENOSPC || r == -EAGAIN);
	return r == 0;
}

static void give_back(struct worker *w, struct thing t)
{
	struct pagehint_zone *zone = crowd.zone;
	int r;
	disown(w->m, t.frame, t.frames);
	if (t.order > PAGEHINT_ORDER_MAX || draw(w->m, 6) == 0) {
		uint64_t cut = draw(w->m, t.frames);
		struct pagehint_run parts[] = { { t.frame + cut, t.frames - cut }, { t.frame, cut } };
		do
			r = pagehint_zone_free_runs(zone, parts, 1, NULL);
		while (r == -EAGAIN);
		must(w->m, r == 0);
		if (cut == 0)
			return;
		do
			r = pagehint_zone_free_runs(zone, &parts[1], 1, NULL);
		while (r == -EAGAIN);
	} else if (draw(w->m, 3)) {
		r = pagehint_cache_free(w->cache, t.frame, t.order);
	} else {
		r = pagehint_zone_free(zone, t.frame, t.order);
	}
	must(w->m, r == 0);
}

static void drop(struct worker *w)
{
	if (w->n == 0)
		return;
	unsigned i = (unsigned)draw(w->m, w->n);
	struct thing t = w->held[i];
	w->held[i] = w->held[--w->n];
	if (t.order <= PAGEHINT_ORDER_MAX && draw(w->m, 4) == 0) {
		/* somebody else frees it, and we free what somebody else had */
		uint64_t letter = atomic_exchange(&mail[draw(w->m, MAIL)], t.frame << 8 | (t.order + 1));
		if (letter == 0)
			return;
		t.order = (uint32_t)(letter & 0xff) - 1;
		t = (struct thing) { letter >> 8, UINT64_C(1) << t.order, t.order };
	}
	give_back(w, t);
}

static void take_block(struct worker *w)
{
	uint32_t order =
		draw(w->m, 40) == 0 ? (uint32_t)draw(w->m, 19) : (uint32_t)draw(w->m, 10) * (uint32_t)draw(w->m, 2);
	uint64_t frame;
	int r = draw(w->m, 4) ? pagehint_cache_alloc(w->cache, order, &frame)
			      : pagehint_zone_alloc(crowd.zone, order, &frame);
	if (came(w, r))
		keep(w, frame, UINT64_C(1) << order, order);
}

static void take_many(struct worker *w)
{
	struct pagehint_run runs[4];
	uint64_t frames[8], frame, n = draw(w->m, 900) + 1;
	uint32_t got = 0, order = (uint32_t)draw(w->m, 9);
	switch (draw(w->m, 3)) {
	case 0:
		came(w, pagehint_zone_alloc_batch(crowd.zone, order, 8, frames, &got));
		for (uint32_t i = 0; i < got; i++)
			own(w->m, frames[i], UINT64_C(1) << order);
		for (uint32_t i = 0; i < got; i++)
			disown(w->m, frames[i], UINT64_C(1) << order);
		must(w->m, pagehint_zone_free_batch(crowd.zone, order, got, frames, NULL) == 0);
		break;
	case 1:
		if (came(w, pagehint_zone_alloc_runs(crowd.zone, n, runs, 4, &got)))
			for (uint32_t i = 0; i < got; i++)
				keep(w, runs[i].frame, runs[i].frames, 99);
		break;
	default:
		if (came(w, pagehint_zone_alloc_contig(crowd.zone, n, UINT64_C(1) << draw(w->m, 10), &frame)))
			keep(w, frame, n, 99);
	}
}

static void mind_cache(struct worker *w)
{
	int r;
	switch (draw(w->m, 4)) {
	case 0:
		pagehint_cache_drain(w->cache);
		break;
	case 1:
		pagehint_cache_close(w->cache);
		must(w->m, pagehint_cache_open(crowd.zone, &w->cache) == 0);
		break;
	default:
		must(w->m, pagehint_cache_park(w->cache) == 0);
		if (draw(w->m, 8) == 0) { /* close it while others may be draining it */
			pagehint_cache_close(w->cache);
			must(w->m, pagehint_cache_open(crowd.zone, &w->cache) == 0);
			break;
		}
		do
			r = pagehint_cache_unpark(w->cache);
		while (r == -EAGAIN);
		must(w->m, r == 0);
	}
}

static void *work(void *arg)
{
	struct worker w = { .m = arg };
	must(w.m, pagehint_cache_open(crowd.zone, &w.cache) == 0);
	for (unsigned long i = 0; i < crowd.rounds; i++) {
		uint64_t what = draw(w.m, 100);
		if (what < 45 && w.n < HELD)
			take_block(&w);
		else if (what < 50 && w.n + 4 <= HELD)
			take_many(&w);
		else if (what < 97)
			drop(&w);
		else
			mind_cache(&w);
	}
	while (w.n != 0)
		drop(&w);
	pagehint_cache_close(w.cache);
	atomic_fetch_add(&crowd.done, 1);
	return NULL;
}

/* the reporter: takes what is free, has it for a while, and gives it back */
static void *harvest(void *arg)
{
	struct member *m = arg;
	struct pagehint_run runs[RUNS];
	struct pagehint_harvested got;
	uint64_t from = 0, end = sections * SECTION;
	while (atomic_load(&crowd.done) < WORKERS) {
		int fine = (flags & PAGEHINT_ZONE_LADDER) && draw(m, 2);
		struct pagehint_harvest ask = { .from = from,
						.to = end,
						.max_frames = draw(m, 8000) + (UINT64_C(1) << granule),
						.max_runs = (uint32_t)draw(m, RUNS) + 1,
						.order = fine ? (uint32_t)draw(m, granule) : granule,
						.flags = (uint32_t)draw(m, 2),
						.max_work = (uint32_t)draw(m, 400) + 1 };
		must(m, ph_harvest(crowd.zone, &ask, runs, &got) == 0);
		for (uint32_t i = 0; i < got.runs; i++) {
			must(m, runs[i].frame >= from && runs[i].frame + runs[i].frames <= got.next);
			own(m, runs[i].frame, runs[i].frames);
		}
		if (draw(m, 2))
			ph_harvest_depart(crowd.zone, got.frames);
		for (uint32_t i = 0; i < got.runs; i++) {
			disown(m, runs[i].frame, runs[i].frames);
			ph_harvest_release(crowd.zone, &runs[i], (uint32_t)draw(m, 2));
		}
		from = got.next >= end ? 0 : got.next;
	}
	return NULL;
}

/* hotplug: the last sections of the span come and go, whole and in pieces, in slots that they share */
static void *plug(void *arg)
{
	struct member *m = arg;
	uint64_t first = (sections - PLUGS) * SECTION, busy;
	while (atomic_load(&crowd.done) < WORKERS) {
		uint64_t frame = first + draw(m, PLUGS) * SECTION, frames = SECTION;
		if (draw(m, 4)) {
			frame += draw(m, SECTION / 64) * 64;
			frames = draw(m, 32) * 64 + 64;
		}
		if (frame + frames > sections * SECTION)
			continue;
		if (draw(m, 2)) {
			int r = pagehint_zone_add(crowd.zone, frame, frames);
			must(m, r == 0 || r == -EEXIST || r == -ENOSPC);
			continue;
		}
		int r = pagehint_zone_remove(crowd.zone, frame, frames, &busy);
		must(m, r == 0 || r == -ERANGE || r == -EBUSY);
		for (uint64_t f = frame; r == 0 && f < frame + frames; f++)
			must(m, atomic_load(&crowd.owner[f]) == 0); /* nobody had them */
	}
	return NULL;
}

static void storm(uint32_t with_flags, uint32_t with_granule, unsigned long rounds, uint64_t seed)
{
	void *(*const bodies[])(void *) = { work, work, work, harvest, plug };
	flags = with_flags;
	granule = with_granule;
	sections = 1 + PLUGS;
	struct pagehint_zone *zone = zone_empty(sections - 1, sections, flags, granule);
	/* little memory that stays: threads meet, and run out of it */
	assert_int_equal(pagehint_zone_add(zone, 0, 20480), 0);
	crowd_gather(&crowd, zone, sections * SECTION, rounds);
	for (unsigned i = 0; i < MAIL; i++)
		atomic_store(&mail[i], 0);
	crowd_run(&crowd, bodies, 5, seed);
	struct pagehint_zone_stats s = zone_at_rest(zone);
	uint64_t posted = 0;
	for (unsigned i = 0; i < MAIL; i++) {
		uint64_t letter = atomic_load(&mail[i]);
		uint32_t order = (uint32_t)(letter & 0xff) - 1;
		if (letter == 0)
			continue;
		posted += UINT64_C(1) << order;
		assert_int_equal(pagehint_zone_free(zone, letter >> 8, order), 0);
	}
	if (!(flags & PAGEHINT_ZONE_UNTRACKED))
		assert_int_equal(s.out, posted);
	assert_int_equal(s.caches + s.cached + s.isolated + s.in_flight, 0);
	crowd_leave(&crowd);
	zone_gone_home(zone);
}

static void test_a_storm_on_every_kind_of_zone(void **state)
{
	(void)state;
	const struct {
		uint32_t flags, granule;
	} kinds[] = {
		{ 0, 9 },
		{ PAGEHINT_ZONE_STRICT | PAGEHINT_ZONE_STALE, 9 },
		{ PAGEHINT_ZONE_UNTRACKED | PAGEHINT_ZONE_STALE, 4 },
		{ PAGEHINT_ZONE_LADDER | PAGEHINT_ZONE_STALE, 8 },
		{ PAGEHINT_ZONE_STALE, 1 },
		{ PAGEHINT_ZONE_STALE, 13 },
	};
	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		storm(kinds[i].flags, kinds[i].granule, 30000, 20261130 + i);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_storm_on_every_kind_of_zone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
