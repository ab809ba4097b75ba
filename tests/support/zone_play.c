#include "support/zone_play.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <pagehint/cache.h>

#include "alloc/harvest.h"
#include "support/zone_bytes.h"
#include "support/zone_host.h"
#include "support/zone_steps.h"
#include "support/zone_witness.h"

static struct play_step before[PLAY_STEPS], parts[TURN_THREADS][PLAY_STEPS];
static const struct zone_play *play;
static struct pagehint_zone *zone;
static void *memory;
static struct pagehint_cache *caches[TURN_THREADS];
static int won[TURN_THREADS];                  /* GIVE_TWICE: who was taken at its word */
static struct pagehint_run part[TURN_THREADS]; /* GIVE_FRONT, GIVE_REST: what was not taken back yet */

/* ---- steps ---- */

static void take_block(uint32_t who, const struct play_step *s)
{
	uint64_t frame = UINT64_MAX;
	uint32_t order = (uint32_t)s->n;
	witness_wants(who, order, 0, UINT64_C(1) << order);
	int r = s->what == CACHE_TAKE
			? pagehint_cache_alloc(caches[who], order, &frame)
			: pagehint_scrub_alloc(zone, order, s->what == TAKE_ZERO ? PAGEHINT_ALLOC_ZERO : 0,
					       &bytes_scrubber, &frame);
	if (r == 0 && s->what == TAKE_ZERO)
		bytes_must_be_zero(frame, UINT64_C(1) << order);
	if (r == 0)
		witness_got(who, frame, UINT64_C(1) << order, order);
	witness_ended(who, r);
}

static void take_batch(uint32_t who, const struct play_step *s)
{
	uint64_t frames[64];
	uint32_t n = 0, order = (uint32_t)s->n;
	witness_wants(who, order, 0, s->m << order);
	int r = pagehint_zone_alloc_batch(zone, order, (uint32_t)s->m, frames, &n);
	for (uint32_t i = 0; i < n; i++)
		witness_got(who, frames[i], UINT64_C(1) << order, order);
	witness_ended(who, r);
}

static void take_runs(uint32_t who, const struct play_step *s)
{
	struct pagehint_run runs[8];
	uint32_t n = 0;
	uint64_t sum = 0;
	witness_wants(who, 99, 0, s->m ? 0 : s->n);
	int r = pagehint_zone_alloc_runs(zone, s->n, runs, 8, &n);
	for (uint32_t i = 0; r == 0 && i < n; i++) {
		witness_got(who, runs[i].frame, runs[i].frames, 99);
		sum += runs[i].frames;
	}
	if (r == 0 && sum != s->n)
		turn_fault("runs of %llu frames", (unsigned long long)sum);
	witness_ended(who, r);
}

static void take_range(uint32_t who, const struct play_step *s)
{
	uint64_t frame = s->n, frames = s->what == CONTIG ? s->n : s->m;
	witness_wants(who, 99, s->what == CONTIG ? frames : 0, frames);
	int r = s->what == CONTIG ? pagehint_zone_alloc_contig(zone, frames, 1, &frame)
				  : pagehint_zone_reserve(zone, frame, frames, NULL);
	if (r == 0)
		witness_got(who, frame, frames, 99);
	witness_ended(who, r);
}

static int give_range(uint64_t frame, uint64_t frames)
{
	struct pagehint_run run = { frame, frames };
	int r, tries = 0;
	do
		r = pagehint_zone_free_runs(zone, &run, 1, NULL);
	while (r == -EAGAIN && ++tries < 64);
	return r;
}

static int give_back(const struct witness_held *h)
{
	return h->order > PAGEHINT_ORDER_MAX ? give_range(h->frame, h->frames)
					     : pagehint_zone_free(zone, h->frame, h->order);
}

static void give(uint32_t who, const struct play_step *s)
{
	struct witness_held *h = s->what == GIVE_OLD ? witness_old((uint32_t)s->n) : witness_newest(who, WITNESS_OUT);
	if (h == NULL)
		return; /* it got nothing */
	bytes_write(h->frame, h->frames);
	witness_gives(h);
	witness_gave(h, s->what == CACHE_GIVE ? pagehint_cache_free(caches[who], h->frame, h->order) : give_back(h));
}

static void give_twice(uint32_t who, const struct play_step *s)
{
	struct witness_held *h = witness_old((uint32_t)s->n);
	h->what = WITNESS_GIVING;
	int r = s->m ? pagehint_cache_free(caches[who], h->frame, h->order) : give_back(h);
	if (r != 0 && r != -EALREADY && r != -EINVAL)
		turn_fault("a free of what others free says %d", r);
	won[who] += r == 0;
}

static void give_part(uint32_t who, const struct play_step *s)
{
	struct witness_held *h = witness_old((uint32_t)s->n);
	h->what = WITNESS_GIVING;
	part[who] = s->what == GIVE_FRONT ? (struct pagehint_run) { h->frame, s->m }
					  : (struct pagehint_run) { h->frame + s->m, h->frames - s->m };
	int r = give_range(part[who].frame, part[who].frames);
	if (r == 0)
		part[who].frames = 0;
	else if (r != -EAGAIN) /* the other one stands still in the middle of splitting what is out */
		turn_fault("a part is not taken back: %d", r);
}

static void harvest(uint32_t who, const struct play_step *s)
{
	struct pagehint_run runs[16];
	struct pagehint_harvested got;
	struct pagehint_harvest ask = { .to = (uint64_t)play->zone.span * PAGEHINT_SECTION_FRAMES,
					.max_frames = UINT64_MAX,
					.max_runs = 16,
					.order = s->what == HARVEST && s->m != 0 ? (uint32_t)s->m - 1
										 : play->zone.granule,
					.flags = s->n ? PAGEHINT_HARVEST_NOW : 0,
					.max_work = UINT32_MAX };
	if (ph_harvest(zone, &ask, runs, &got) != 0)
		turn_fault("no harvest");
	for (uint32_t i = 0; i < got.runs; i++)
		witness_isolated(who, runs[i].frame, runs[i].frames, !s->n && ask.order >= play->zone.granule);
	witness_looked();
}

static void scrub(void)
{
	uint64_t cursor = 0, frames;
	do
		if (pagehint_scrub_step(zone, &bytes_scrubber, 64, &cursor, &frames) != 0)
			turn_fault("no scrubbing");
	while (cursor != 0);
}

static void release(uint32_t who, uint32_t how)
{
	struct witness_held *h;
	while ((h = witness_newest(who, WITNESS_ISOLATED)) != NULL) {
		struct pagehint_run run = { h->frame, h->frames };
		if (how == PAGEHINT_RELEASE_REPORTED)
			witness_reports(h->frame, h->frames);
		h->what = WITNESS_GIVING;
		ph_harvest_release(zone, &run, how);
		witness_gave(h, 0);
	}
}

static void plug(const struct play_step *s)
{
	int r;
	if (s->what == ADD) {
		witness_adds(s->n, s->m);
		r = pagehint_zone_add(zone, s->n, s->m);
		witness_added(s->n, s->m, r);
		if (r != 0 && r != -ENOSPC)
			turn_fault("add says %d", r);
		return;
	}
	witness_removes(s->n, s->m);
	r = pagehint_zone_remove(zone, s->n, s->m, NULL);
	witness_removed(s->n, s->m, r);
	if (r != 0 && r != -EBUSY && r != -ERANGE)
		turn_fault("remove says %d", r);
}

static void mind_cache(uint32_t who, const struct play_step *s)
{
	int r = 0, tries = 0;
	if (s->what == DRAIN)
		pagehint_cache_drain(caches[who]);
	else if (s->what == PARK)
		r = pagehint_cache_park(caches[who]);
	else
		do
			r = pagehint_cache_unpark(caches[who]);
		while (r == -EAGAIN && ++tries < 3);
	/* whoever drains it may stand still in the middle of it: then the play ends with a cache that is parked */
	if (r != 0 && r != -EAGAIN)
		turn_fault("a cache says %d", r);
}

static void step(uint32_t who, const struct play_step *s)
{
	switch (s->what) {
	case TAKE:
	case TAKE_ZERO:
	case CACHE_TAKE:
		take_block(who, s);
		break;
	case BATCH:
		take_batch(who, s);
		break;
	case RUNS:
		take_runs(who, s);
		break;
	case CONTIG:
	case RESERVE:
		take_range(who, s);
		break;
	case GIVE:
	case GIVE_OLD:
	case CACHE_GIVE:
		give(who, s);
		break;
	case GIVE_TWICE:
		give_twice(who, s);
		break;
	case GIVE_FRONT:
	case GIVE_REST:
		give_part(who, s);
		break;
	case ADD:
	case REMOVE:
		plug(s);
		break;
	case HARVEST:
		harvest(who, s);
		break;
	case SCRUB:
		scrub();
		break;
	case REPORTED:
		release(who, PAGEHINT_RELEASE_REPORTED);
		break;
	case KEPT:
		release(who, PAGEHINT_RELEASE_KEPT);
		break;
	case RECLAIM:
	case HOLD:
		host_takes(who, (uint32_t)s->n, s->what == HOLD);
		break;
	case RESTORE:
		host_restores();
		break;
	case INSTALL:
		host_is_asked(witness_newest(who, WITNESS_OUT));
		break;
	default:
		mind_cache(who, s);
	}
}

/* ---- the play ---- */

static void begin(void)
{
	witness_rewind();
	bytes_rewind();
	host_rewind();
	memset(won, 0, sizeof(won));
	memset(part, 0, sizeof(part));
}

static void body(uint32_t thread)
{
	for (const struct play_step *s = parts[thread]; s->what != END; s++)
		step(thread, s);
}

static uint64_t mark(void)
{
	uint64_t sum = witness_mark() + bytes_mark() + host_mark();
	for (uint32_t i = 0; i < TURN_THREADS; i++)
		sum = sum * 3 + (uint64_t)won[i] + part[i].frames;
	return sum;
}

static void line(void *ctx, const char *text)
{
	(void)ctx;
	turn_fault("check: %s", text);
}

static void check_rest(void)
{
	const struct pagehint_sink sink = { NULL, line };
	if (pagehint_zone_check(zone, &sink) != 0)
		turn_fault("check"); /* the line came first */
}

static void settle_shared(void)
{
	int twice = 0, some = 0;
	for (uint32_t i = 0; i < PLAY_STEPS * TURN_THREADS; i++) {
		uint32_t what = parts[i / PLAY_STEPS][i % PLAY_STEPS].what;
		twice |= what == GIVE_TWICE;
		some |= what == GIVE_REST || what == GIVE_FRONT;
	}
	for (uint32_t i = 0; i < TURN_THREADS; i++)
		if (part[i].frames != 0 && give_range(part[i].frame, part[i].frames) != 0)
			turn_fault("a part is not taken back at the end");
	for (uint32_t i = 0; (twice || some) && i < witness_n; i++)
		if (witness_held[i].what == WITNESS_GIVING)
			witness_held[i].what = WITNESS_GONE;
	if (twice && won[0] + won[1] + won[2] != 1)
		turn_fault("%d threads freed the same", won[0] + won[1] + won[2]);
}

/* Everything goes back, and can be had again. */
static void give_everything(void)
{
	for (uint32_t i = 0; i < witness_n; i++) {
		struct pagehint_run run = { witness_held[i].frame, witness_held[i].frames };
		if (witness_held[i].what == WITNESS_ISOLATED)
			ph_harvest_release(zone, &run, PAGEHINT_RELEASE_KEPT);
		else if (witness_held[i].what == WITNESS_OUT && give_back(&witness_held[i]) != 0)
			turn_fault("frame %llu is not taken back", (unsigned long long)run.frame);
		witness_held[i].what = WITNESS_GONE;
	}
	for (uint32_t i = 0; i < play->caches; i++)
		pagehint_cache_close(caches[i]);
	check_rest();
	struct pagehint_zone_stats s = { .struct_size = sizeof(s) };
	if (pagehint_zone_stats(zone, &s) != 0 || s.free != s.total || s.total != witness_unheld())
		turn_fault("%llu of %llu frames are free, and %llu should be", (unsigned long long)s.free,
			   (unsigned long long)s.total, (unsigned long long)witness_unheld());
	uint64_t frame, n = 0;
	while (n <= s.total && pagehint_zone_alloc(zone, 0, &frame) == 0)
		n++;
	if (n != s.total)
		turn_fault("%llu of %llu frames can be had", (unsigned long long)n, (unsigned long long)s.total);
}

static void judge(void)
{
	check_rest();
	witness_check_sets();
	host_restores();
	settle_shared();
	give_everything();
}

static void set_the_stage(void)
{
	const struct pagehint_zone_opts opts = { .struct_size = sizeof(opts),
						 .max_sections = play->zone.sections,
						 .span_sections = play->zone.span,
						 .flags = play->zone.flags,
						 .granule_order = play->zone.granule,
						 .max_caches = TURN_THREADS };
	uint64_t bytes;
	if (pagehint_zone_size(&opts, &bytes) != 0)
		abort();
	bytes = (bytes + 63) / 64 * 64;
	memory = aligned_alloc(64, bytes);
	if (memory == NULL)
		abort();
	memset(memory, 0, bytes);
	turns_on(memory, bytes);
	if (pagehint_zone_init(memory, bytes, &opts, &zone) != 0)
		abort();
	witness_open(zone);
	host_open(zone);
	bytes_open((play->zone.flags & PAGEHINT_ZONE_STALE) != 0);
	for (uint32_t i = 0; i < play->caches; i++)
		if (pagehint_cache_open(zone, &caches[i]) != 0)
			abort();
	for (const struct play_step *s = before; s->what != END; s++)
		step(WITNESS_NOBODY, s);
	witness_mark_start();
	bytes_mark_start();
	host_mark_start();
}

struct turn_result zone_play_perform(const struct zone_play *of, uint32_t preemptions, const struct turn_mutant *mutant)
{
	struct turn_play turns = { 0, preemptions, begin, body, mark, judge };
	play = of;
	play_read_steps(of->before, before);
	for (uint32_t i = 0; i < TURN_THREADS; i++) {
		play_read_steps(of->parts[i], parts[i]);
		turns.threads += of->parts[i] != NULL;
	}
	set_the_stage();
	struct turn_result r = turns_explore(&turns, mutant);
	free(memory);
	return r;
}
