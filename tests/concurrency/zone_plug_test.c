/*
 * Sections come and go under the load of two threads: offline takes what is free or nothing, says what is in its way, and
 * leaves no trace when it gives up. Nobody ever holds a frame of a section that is gone.
 *
 * A round is one arrival and one departure. There are more sections than slots, so a slot serves one section after another
 * while threads still look at what it was. Every so often everybody stops, and the invariants are walked.
 */
#include "support/zone_crowd.h"

#include "alloc/harvest.h"

#define WORKERS 2u
#define HELD 16u
#define PLUGS 3u   /* sections that come and go ... */
#define SLOTS 2u   /* ... in so many slots */
#define STAY 1024u /* frames that stay: too few for what the workers want */
#define WALK 250u  /* rounds from one walk to the next */
#define ROUNDS 10000u
#define TRIES 100000u /* to remove a section whose frames everybody gives back: then some are lost */

struct thing {
	uint64_t frame, frames;
	uint64_t generation; /* of its section when we got it */
};

struct worker {
	struct member *m;
	struct pagehint_cache *cache;
	struct thing held[HELD];
	unsigned n;
};

static struct crowd crowd;
static _Atomic uint64_t generation[1 + PLUGS]; /* odd = present */
static _Atomic uint32_t leaving[1 + PLUGS];    /* whoever holds something there gives it back */
static _Atomic uint32_t stop;
static _Atomic uint64_t used;       /* allocations in sections that come and go */
static _Atomic uint64_t out_frames; /* what the workers hold while everybody stands still */
static pthread_barrier_t still, on;

static uint64_t section_of(uint64_t frame)
{
	return frame / SECTION;
}

static void keep(struct worker *w, uint64_t frame, uint64_t frames)
{
	uint64_t g = atomic_load(&generation[section_of(frame)]);
	must(w->m, g & 1 && section_of(frame) == section_of(frame + frames - 1));
	own(w->m, frame, frames);
	w->held[w->n++] = (struct thing) { frame, frames, g };
	if (frame >= SECTION)
		atomic_fetch_add(&used, 1);
}

static void give_back(struct worker *w, unsigned i)
{
	struct thing t = w->held[i];
	struct pagehint_run run = { t.frame, t.frames };
	w->held[i] = w->held[--w->n];
	disown(w->m, t.frame, t.frames);
	/* what is out keeps its section: it cannot have gone, and come back, in between */
	must(w->m, atomic_load(&generation[section_of(t.frame)]) == t.generation);
	if (t.frames == 1 && draw(w->m, 2))
		must(w->m, pagehint_cache_free(w->cache, t.frame, 0) == 0);
	else
		must(w->m, pagehint_zone_free_runs(crowd.zone, &run, 1, NULL) == 0);
}

static void take(struct worker *w)
{
	uint64_t frame, frames = 1;
	uint32_t order = 0;
	int r;
	switch (draw(w->m, 8)) {
	case 0:
		frames = draw(w->m, 700) + 1;
		r = pagehint_zone_alloc_contig(crowd.zone, frames, 1, &frame);
		if (r == 0 && section_of(frame) != section_of(frame + frames - 1)) {
			/* over a border of sections: both are there. Given back at once */
			struct pagehint_run run = { frame, frames };
			must(w->m, pagehint_zone_free_runs(crowd.zone, &run, 1, NULL) == 0);
			return;
		}
		break;
	case 1:
		order = draw(w->m, 16) == 0 ? 18 : (uint32_t)draw(w->m, 13);
		frames = UINT64_C(1) << order;
		r = pagehint_zone_alloc(crowd.zone, order, &frame);
		break;
	case 2:
		order = (uint32_t)draw(w->m, 6);
		frames = UINT64_C(1) << order;
		r = pagehint_zone_alloc(crowd.zone, order, &frame);
		break;
	default:
		r = pagehint_cache_alloc(w->cache, 0, &frame);
	}
	must(w->m, r == 0 || r == -ENOSPC || r == -EAGAIN);
	if (r == 0 && order == 18) { /* a quarter of a million owners are too many to write down */
		must(w->m, atomic_load(&generation[section_of(frame)]) & 1);
		must(w->m, pagehint_zone_free(crowd.zone, frame, order) == 0);
	} else if (r == 0) {
		keep(w, frame, frames);
	}
}

/* everything in sections that are about to go, and what the cache hides of them */
static void make_way(struct worker *w)
{
	for (unsigned i = w->n; i-- > 0;)
		if (atomic_load(&leaving[section_of(w->held[i].frame)]))
			give_back(w, i);
}

static void stand_still(struct worker *w)
{
	uint64_t frames = 0;
	for (unsigned i = 0; i < w->n; i++)
		frames += w->held[i].frames;
	atomic_fetch_add(&out_frames, frames);
	pthread_barrier_wait(&still);
	pthread_barrier_wait(&on);
}

static void *work(void *arg)
{
	struct worker w = { .m = arg };
	must(w.m, pagehint_cache_open(crowd.zone, &w.cache) == 0);
	for (uint32_t state; (state = atomic_load(&stop)) != 2;) {
		if (state == 1)
			stand_still(&w);
		make_way(&w);
		if (w.n < HELD && draw(w.m, 2))
			take(&w);
		else if (w.n != 0)
			give_back(&w, (unsigned)draw(w.m, w.n));
	}
	while (w.n != 0)
		give_back(&w, 0);
	pagehint_cache_close(w.cache);
	return NULL;
}

/* Everybody stands still: walks the invariants. */
static void walk(struct member *m)
{
	struct pagehint_sink sink = { NULL, zone_fault_line };
	struct pagehint_zone_stats s = { .struct_size = sizeof(s) };
	atomic_store(&out_frames, 0);
	atomic_store(&stop, 1);
	pthread_barrier_wait(&still);
	must(m, pagehint_zone_check(crowd.zone, &sink) == 0);
	must(m, pagehint_zone_stats(crowd.zone, &s) == 0);
	must(m, s.free + s.cached + s.out == s.total && s.transit == 0);
	if (!(crowd.zone->flags & PAGEHINT_ZONE_UNTRACKED))
		must(m, s.out == atomic_load(&out_frames));
	atomic_store(&stop, 0);
	pthread_barrier_wait(&on);
}

/* The reporter has a bit of the section for a moment. */
static void harvest(struct member *m, uint64_t from, uint64_t frames)
{
	struct pagehint_run runs[8];
	struct pagehint_harvested got;
	struct pagehint_harvest ask = { .from = from,
					.to = from + frames,
					.max_frames = 2048,
					.max_runs = 8,
					.order = pagehint_zone_granule_order(crowd.zone),
					.flags = PAGEHINT_HARVEST_NOW,
					.max_work = 64 };
	must(m, ph_harvest(crowd.zone, &ask, runs, &got) == 0);
	if (got.runs != 0 && draw(m, 2)) { /* what the reporter has is not free: nothing goes */
		uint64_t busy = 0;
		must(m, pagehint_zone_remove(crowd.zone, from, frames, &busy) == -EBUSY && busy >= got.frames);
	}
	for (uint32_t i = 0; i < got.runs; i++)
		ph_harvest_release(crowd.zone, &runs[i], (uint32_t)draw(m, 2));
}

struct plugged {
	uint64_t frame, frames; /* 0 = it is not there */
};

static uint64_t refusals, no_room;

static void arrive(struct member *m, struct plugged *p, uint64_t section)
{
	*p = (struct plugged) { section * SECTION, SECTION };
	if (draw(m, 4) == 0) { /* a part of it */
		p->frame += draw(m, 1024) * 64;
		p->frames = (draw(m, 3000) + 1) * 64;
	}
	atomic_fetch_add(&generation[section], 1);
	int r = pagehint_zone_add(crowd.zone, p->frame, p->frames);
	if (r == 0)
		return;
	must(m, r == -ENOSPC); /* every slot serves another section: nobody can have seen a frame of it */
	atomic_fetch_add(&generation[section], 1);
	no_room++;
	p->frames = 0;
}

static void depart(struct member *m, struct plugged *p)
{
	uint64_t section = section_of(p->frame), busy = 0;
	if (draw(m, 8) == 0)
		harvest(m, p->frame, p->frames);
	for (uint32_t tries = 0;; tries++) {
		int r = pagehint_zone_remove(crowd.zone, p->frame, p->frames, &busy);
		if (r == 0)
			break;
		must(m, r == -EBUSY && busy != 0 && busy <= p->frames);
		refusals++;
		if (tries == TRIES) {
			must(m, 0);
			break;
		}
		atomic_store(&leaving[section], 1);
		if (tries % 8 == 7)
			sched_yield();
	}
	atomic_store(&leaving[section], 0);
	atomic_fetch_add(&generation[section], 1);
	/* nobody has any of it: a few are looked at each time */
	for (unsigned i = 0; i < 64; i++)
		must(m, atomic_load(&crowd.owner[p->frame + draw(m, p->frames)]) == 0);
	p->frames = 0;
}

static void *plug(void *arg)
{
	struct member *m = arg;
	struct plugged plugs[PLUGS] = { 0 };
	for (unsigned long round = 0; round < crowd.rounds && atomic_load(&crowd.refused) == 0;) {
		uint64_t i = draw(m, PLUGS);
		if (plugs[i].frames == 0) {
			arrive(m, &plugs[i], 1 + i);
		} else {
			depart(m, &plugs[i]);
			if (++round % WALK == 0)
				walk(m);
		}
	}
	for (unsigned i = 0; i < PLUGS; i++)
		if (plugs[i].frames != 0 && atomic_load(&crowd.refused) == 0)
			depart(m, &plugs[i]);
	walk(m);
	atomic_store(&stop, 2);
	return NULL;
}

static void come_and_go(uint32_t flags, uint32_t granule, unsigned long rounds, uint64_t seed)
{
	void *(*const bodies[])(void *) = { work, work, plug };
	struct pagehint_zone *zone = zone_empty(1 + SLOTS, 1 + PLUGS, flags, granule);
	assert_int_equal(pagehint_zone_add(zone, 0, STAY), 0);
	crowd_gather(&crowd, zone, (1 + PLUGS) * SECTION, rounds);
	atomic_store(&stop, 0);
	atomic_store(&used, 0);
	refusals = no_room = 0;
	for (unsigned i = 0; i <= PLUGS; i++) {
		atomic_store(&generation[i], i == 0);
		atomic_store(&leaving[i], 0);
	}
	assert_int_equal(pthread_barrier_init(&still, NULL, WORKERS + 1), 0);
	assert_int_equal(pthread_barrier_init(&on, NULL, WORKERS + 1), 0);
	crowd_run(&crowd, bodies, WORKERS + 1, seed);
	pthread_barrier_destroy(&still);
	pthread_barrier_destroy(&on);
	print_message("%lu rounds: %llu refused for what was in the way, %llu without room, %llu allocations there\n",
		      crowd.rounds, (unsigned long long)refusals, (unsigned long long)no_room,
		      (unsigned long long)atomic_load(&used));
	/* the load was there, and sections were wanted while slots were not */
	assert_true(crowd.rounds < 100 || (no_room > 0 && atomic_load(&used) > 0));
	crowd_leave(&crowd);
	struct pagehint_zone_stats s = zone_at_rest(zone);
	assert_int_equal(s.total, STAY);
	assert_int_equal(s.sections, 1);
	assert_int_equal(s.out + s.caches, 0);
	zone_gone_home(zone);
}

static void test_sections_come_and_go_under_load(void **state)
{
	(void)state;
	come_and_go(0, 9, ROUNDS, 20261130);
}

static void test_in_every_kind_of_zone(void **state)
{
	(void)state;
	come_and_go(PAGEHINT_ZONE_STRICT | PAGEHINT_ZONE_STALE, 9, ROUNDS / 8, 20261131);
	come_and_go(PAGEHINT_ZONE_LADDER | PAGEHINT_ZONE_STALE, 8, ROUNDS / 8, 20261132);
	come_and_go(PAGEHINT_ZONE_UNTRACKED | PAGEHINT_ZONE_STALE, 4, ROUNDS / 8, 20261133);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sections_come_and_go_under_load),
		cmocka_unit_test(test_in_every_kind_of_zone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
