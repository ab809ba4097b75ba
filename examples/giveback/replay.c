#include "replay.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "content.h"
#include "engine.h"
#include "host.h"
#include "oracle.h"
#include "pattern.h"
#include "progress.h"
#include "tally.h"

#define ROOM_STEP (UINT64_C(64) << 20)
#define STEPS_AT_ONCE 100000 /* a reporter that wants more without time passing is broken */
#define SWEEP_SHARE 16       /* each sample checks one live page in so many */
#define NO_FRAME UINT32_MAX

struct replay {
	struct engine engine;
	struct content content;
	struct tally tally;
	struct oracle oracle;
	struct naive *naive;
	const struct trace *trace;
	const struct backing *backing;
	struct replay_result *result;
	struct why *why;
	uint32_t *frame_of; /* by number of the allocation */
	size_t room_samples;
	uint64_t next_step_ns;
	uint64_t next_sample_ns;
	uint64_t sweep;
	uint64_t hook_ns;      /* real time spent watching, within the reporter's steps */
	uint64_t inside_since; /* real time at which the batch went into the backend; 0: none is inside */
};

static int broken(struct replay *replay, const char *what, int rc)
{
	if (rc)
		snprintf(replay->why->text, sizeof(replay->why->text), "%s: %s: %s",
			 backing_name(replay->backing->kind), what, strerror(-rc));
	return rc;
}

/* Hook: all runs of a batch are announced before the backend does anything; the last one starts the clock. */
static int before_discard(void *ctx, const struct pagehint_run *run)
{
	struct replay *replay = ctx;

	(void)run;
	replay->inside_since = clock_ns();
	return 0;
}

/* Hook: a run was given back, says the backend; the first of a batch stops the clock. */
static void after_discard(void *ctx, const struct pagehint_run *run, const struct pagehint_outcome *outcome)
{
	struct replay *replay = ctx;
	uint64_t started = clock_ns();

	if (replay->inside_since)
		replay->result->inside_ns += started - replay->inside_since;
	replay->inside_since = 0;
	if (outcome->kept + outcome->failed == outcome->asked)
		return; /* nothing happened to it */
	naive_record(replay->naive, &replay->content, run);
	tally_discard(&replay->tally, run);
	content_discard(&replay->content, run, outcome);
	replay->hook_ns += clock_ns() - started;
}

static int measure(struct replay *replay, uint64_t now_ns, struct replay_sample *sample)
{
	oracle_advance(&replay->oracle, now_ns);
	*sample = (struct replay_sample) {
		.now_ns = now_ns,
		.live = replay->content.live << PAGE_SHIFT,
		.never = replay->oracle.never_bytes,
		.oracle = replay->oracle.resident_bytes,
	};
	return broken(replay, "the host's figure", host_bytes(replay->backing, &sample->host));
}

static int take_sample(struct replay *replay, uint64_t now_ns)
{
	struct replay_result *result = replay->result;
	uint64_t slice = replay->content.frames / SWEEP_SHARE + 1;

	if (result->n_samples == replay->room_samples) {
		size_t room = replay->room_samples ? replay->room_samples * 2 : 512;
		struct replay_sample *samples = realloc(result->samples, room * sizeof(*samples));

		if (!samples)
			return broken(replay, "samples", -ENOMEM);
		result->samples = samples;
		replay->room_samples = room;
	}
	content_check(&replay->content, replay->sweep % SWEEP_SHARE * slice, slice);
	replay->sweep++;
	return measure(replay, now_ns, &result->samples[result->n_samples++]);
}

/* Lets the reporter do all it wants to do at this time; the host is asked before and after. */
static int step(struct replay *replay, uint64_t now_ns)
{
	uint64_t before = 0;
	uint64_t after = 0;
	uint64_t deadline = 0;
	uint64_t started;
	int rc = broken(replay, "the host's figure", host_bytes(replay->backing, &before));

	started = clock_ns() - replay->hook_ns;
	for (unsigned i = 0; !rc && deadline <= now_ns; i++) {
		if (i == STEPS_AT_ONCE)
			return broken(replay, "the reporter never rests", -ELOOP);
		rc = broken(replay, "pagehint_reporter_step",
			    pagehint_reporter_step(replay->engine.reporter, now_ns, 0, &deadline));
	}
	replay->result->step_ns += clock_ns() - replay->hook_ns - started;
	rc = rc ? rc : broken(replay, "the host's figure", host_bytes(replay->backing, &after));
	replay->result->host_freed_bytes += (int64_t)before - (int64_t)after;
	replay->next_step_ns = deadline;
	return rc;
}

/* Everything that is due until this time, in order. */
static int run_until(struct replay *replay, uint64_t now_ns)
{
	int rc = 0;

	while (!rc && (replay->next_step_ns <= now_ns || replay->next_sample_ns <= now_ns)) {
		if (replay->next_step_ns <= replay->next_sample_ns) {
			rc = step(replay, replay->next_step_ns);
		} else {
			rc = take_sample(replay, replay->next_sample_ns);
			replay->next_sample_ns += REPLAY_INTERVAL_NS;
		}
	}
	return rc;
}

/* What an embedder does when frames are hidden: it lets its own cache go, and the reporter finish. */
static int allocate(struct replay *replay, uint64_t now_ns, uint32_t order, uint64_t *ret_frame)
{
	int rc = pagehint_cache_alloc(replay->engine.cache, order, ret_frame);

	for (unsigned i = 0; rc == -EAGAIN && i < 8; i++) {
		pagehint_cache_drain(replay->engine.cache);
		if (step(replay, now_ns))
			return -EIO;
		rc = pagehint_cache_alloc(replay->engine.cache, order, ret_frame);
	}
	return broken(replay, "pagehint_cache_alloc", rc);
}

static int play_event(struct replay *replay, const struct trace_event *event)
{
	uint64_t now_ns = event->us * 1000;
	uint64_t frame = 0;
	int rc;

	if (event->kind == TRACE_FREE_FOREIGN) {
		replay->result->foreign++;
		return 0;
	}
	if (event->kind == TRACE_ALLOC) {
		rc = allocate(replay, now_ns, event->order, &frame);
		if (rc)
			return rc;
		content_alloc(&replay->content, frame, event->order, event->id);
		tally_alloc(&replay->tally, frame, event->order);
		oracle_alloc(&replay->oracle, now_ns, frame, event->order);
		replay->frame_of[event->id] = (uint32_t)frame;
		replay->result->allocated_pages += UINT64_C(1) << event->order;
		return 0;
	}
	frame = replay->frame_of[event->id];
	replay->frame_of[event->id] = NO_FRAME;
	content_free(&replay->content, frame, event->order);
	oracle_free(&replay->oracle, now_ns, frame, event->order);
	return broken(replay, "pagehint_cache_free", pagehint_cache_free(replay->engine.cache, frame, event->order));
}

static int play(struct replay *replay, size_t events, uint64_t *ret_end_ns)
{
	int rc = 0;

	for (size_t i = 0; i < events && !rc; i++) {
		const struct trace_event *event = &replay->trace->events[i];

		rc = run_until(replay, event->us * 1000);
		rc = rc ? rc : play_event(replay, event);
		if (i % 16384 == 0)
			progress(backing_name(replay->backing->kind), i, events);
	}
	progress_done();
	*ret_end_ns = replay->trace->events[events - 1].us * 1000;
	return rc;
}

/* Two intervals of quiet, then two under pressure. The replaying thread idles, so it parks its cache. */
static int wind_down(struct replay *replay, uint64_t end_ns)
{
	struct replay_result *result = replay->result;
	uint64_t quiet_ns = end_ns + 2 * REPLAY_INTERVAL_NS;
	uint64_t pressed_ns = quiet_ns + 2 * REPLAY_INTERVAL_NS;
	int rc = broken(replay, "pagehint_cache_park", pagehint_cache_park(replay->engine.cache));

	replay->next_sample_ns = UINT64_MAX;
	rc = rc ? rc : run_until(replay, quiet_ns);
	rc = rc ? rc : measure(replay, quiet_ns, &result->ended);
	if (!rc)
		rc = broken(replay, "pagehint_reporter_pressure",
			    pagehint_reporter_pressure(replay->engine.reporter, PAGEHINT_PRESSURE_FULL, 0));
	rc = rc ? rc : step(replay, quiet_ns);
	rc = rc ? rc : run_until(replay, pressed_ns);
	rc = rc ? rc : measure(replay, pressed_ns, &result->pressed);
	content_check(&replay->content, 0, replay->content.frames);
	return rc;
}

static void read_stats(struct replay *replay)
{
	struct replay_result *result = replay->result;

	result->backend.struct_size = sizeof(result->backend);
	result->calls.struct_size = sizeof(result->calls);
	result->reporter.struct_size = sizeof(result->reporter);
	if (pagehint_backend_stats(replay->engine.backend, &result->backend) ||
	    pagehint_madvise_stats(replay->engine.backend, &result->calls) ||
	    pagehint_reporter_stats(replay->engine.reporter, &result->reporter))
		abort(); /* the sizes are right */
	result->corrupt_pages = replay->content.corrupt;
	result->checked_pages = replay->content.checked;
	result->rereported = replay->tally.rereported;
	result->resent_untouched = replay->tally.resent_untouched;
	result->refault = replay->tally.refault;
}

/* Frees what is live; then everything must be there again. */
static int take_down(struct replay *replay, size_t events)
{
	struct engine *engine = &replay->engine;
	int rc = pagehint_cache_unpark(engine->cache);

	for (size_t i = 0; i < events && !rc; i++) {
		const struct trace_event *event = &replay->trace->events[i];
		uint32_t frame = event->kind == TRACE_ALLOC ? replay->frame_of[event->id] : NO_FRAME;

		if (frame == NO_FRAME)
			continue;
		content_free(&replay->content, frame, event->order);
		rc = pagehint_cache_free(engine->cache, frame, event->order);
	}
	pagehint_cache_drain(engine->cache);
	rc = broken(replay, "freeing what is left", rc);
	if (!rc) {
		struct pagehint_zone_stats stats = { .struct_size = sizeof(stats) };

		replay->result->violations = pagehint_zone_check(engine->zone, NULL);
		rc = pagehint_zone_stats(engine->zone, &stats);
		rc = rc ? rc : stats.free + stats.isolated + stats.in_flight != stats.total ? -EUCLEAN : 0;
		broken(replay, "frames are missing from the zone", rc);
	}
	read_stats(replay);
	return rc;
}

static int open_all(struct replay *replay, uint64_t interval_ns)
{
	struct pagehint_hooks hooks = {
		.struct_size = sizeof(hooks),
		.ctx = replay,
		.before_discard = before_discard,
		.after_discard = after_discard,
	};
	struct engine_ask ask = {
		.backing = replay->backing,
		.hooks = &hooks,
		.interval_ns = interval_ns,
		.zone_flags = PAGEHINT_ZONE_LADDER,
		.reporter_flags = PAGEHINT_REPORTER_PROBE,
	};
	uint64_t frames = replay->backing->bytes >> PAGE_SHIFT;
	int rc;

	replay->frame_of = malloc(((size_t)replay->trace->allocs + 1) * sizeof(*replay->frame_of));
	if (!replay->frame_of || content_open(&replay->content, replay->backing) ||
	    tally_open(&replay->tally, frames) ||
	    oracle_open(&replay->oracle, frames, replay->backing->unit_bytes, interval_ns))
		return broken(replay, "records", -ENOMEM);
	memset(replay->frame_of, 0xff, ((size_t)replay->trace->allocs + 1) * sizeof(*replay->frame_of));
	rc = engine_open(&replay->engine, &ask, replay->why);
	return rc;
}

int replay_run(const struct trace *trace, size_t events, const struct backing *backing, struct naive *naive,
	       struct replay_result *result, struct why *why)
{
	struct replay replay = {
		.trace = trace,
		.backing = backing,
		.naive = naive,
		.result = result,
		.why = why,
		.next_sample_ns = REPLAY_INTERVAL_NS / 2,
	};
	uint64_t end_ns = 0;
	struct why ignored;
	int rc;

	*result = (struct replay_result) { .events = events };
	rc = open_all(&replay, REPLAY_INTERVAL_NS);
	if (replay.engine.reporter) {
		rc = play(&replay, events, &end_ns);
		rc = rc ? rc : wind_down(&replay, end_ns);
		rc = rc ? rc : take_down(&replay, events);
		end_ns += 4 * REPLAY_INTERVAL_NS;
		if (engine_close(&replay.engine, end_ns, rc ? &ignored : why) && !rc)
			rc = -EBUSY;
	}
	content_close(&replay.content);
	tally_close(&replay.tally);
	oracle_close(&replay.oracle);
	free(replay.frame_of);
	return rc;
}

void replay_result_free(struct replay_result *result)
{
	free(result->samples);
	result->samples = NULL;
	result->n_samples = 0;
}

uint64_t replay_bytes(const struct trace *trace, size_t events)
{
	struct trace part = *trace;
	uint64_t bytes;

	part.n = events;
	bytes = trace_peak_live(&part) / 2 * 3 + ROOM_STEP / 2;
	return (bytes + ROOM_STEP - 1) / ROOM_STEP * ROOM_STEP;
}

static double share(const struct replay_result *result, int of_oracle)
{
	double above = 0;
	double whole = 0;

	for (size_t i = 0; i < result->n_samples; i++) {
		const struct replay_sample *sample = &result->samples[i];

		above += (double)(of_oracle ? sample->oracle : sample->host) - (double)sample->live;
		whole += (double)sample->never - (double)sample->live;
	}
	return whole > 0 ? above / whole : 0;
}

double replay_unreturned_share(const struct replay_result *result)
{
	return share(result, 0);
}

double replay_oracle_share(const struct replay_result *result)
{
	return share(result, 1);
}
