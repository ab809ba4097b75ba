/* the counters and the words: what the reporter has done, and what stands in its way */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/opts.h"
#include "discard/result.h"
#include "report/reporter.h"

#define LINE 256
#define RECENT_LOOKS 3u /* kept memory is aged anew: it is tried again in the second look after */

static uint64_t bytes_of(const struct pagehint_reporter *r, uint64_t frames)
{
	return frames << r->cycle.frame_shift;
}

int pagehint_reporter_stats(const struct pagehint_reporter *reporter, struct pagehint_reporter_stats *stats)
{
	if (reporter == NULL)
		return -EINVAL;
	const struct ph_counts *counts = &reporter->cycle.counts;
	const struct ph_tally *last = &reporter->cycle.last;
	struct pagehint_reporter_stats s = {
		.struct_size = sizeof(s),
		.steps = reporter->steps,
		.looks = counts->looks,
		.batches = counts->batches,
		.runs = counts->runs,
		.isolated = counts->isolated,
		.reported = counts->reported,
		.kept = counts->kept,
		.failed = counts->failed,
		.below_order = bytes_of(reporter, last->below_order),
		.below_least = bytes_of(reporter, last->below_least),
		.held_back = bytes_of(reporter, last->could[PH_GRANT_HELD]),
		.in_flight = bytes_of(reporter, reporter->cycle.queue.frames),
		.refaults_expected = bytes_of(reporter, reporter->cycle.handed_out),
		.backoffs = counts->backoffs,
		.bound_ns = reporter->bound_ns,
		.order = reporter->cycle.order,
		.pressure = reporter->level,
	};
	memcpy(s.kept_by, counts->kept_by, sizeof(s.kept_by));
	return PH_OPTS_OUT(stats, s);
}

static void say(const struct pagehint_sink *sink, const char *what, uint64_t bytes)
{
	char line[LINE];
	if (bytes == 0)
		return;
	snprintf(line, sizeof(line), "%.200s (%" PRIu64 " bytes)", what, bytes);
	sink->line(sink->ctx, line);
}

static void say_backend(const struct pagehint_reporter *r, const struct pagehint_sink *sink)
{
	const struct ph_batch *oldest = ph_queue_oldest(&r->cycle.queue);
	char line[LINE];
	if (oldest != NULL && ph_reporter_silent(r)) {
		snprintf(line, sizeof(line),
			 "backend silent: no answer for %" PRIu64 " ms, %" PRIu64 " bytes in flight, error %d",
			 (r->now_ns - oldest->sent_ns) / 1000000, bytes_of(r, r->cycle.queue.frames),
			 -r->cycle.counts.error);
		sink->line(sink->ctx, line);
	}
	if (r->now_ns < r->pace.pause_until_ns) {
		snprintf(line, sizeof(line),
			 "backing off: %" PRIu64 " ms more after failure %" PRIu32 " in a row, error %d",
			 (r->pace.pause_until_ns - r->now_ns) / 1000000, r->pace.pause_level, -r->cycle.counts.error);
		sink->line(sink->ctx, line);
	}
}

static void say_futile(const struct pagehint_reporter *r, const struct pagehint_sink *sink)
{
	const struct ph_futile *futile = &r->cycle.futile;
	char line[LINE];
	if (futile->rounds == 0 || r->now_ns >= futile->until_ns)
		return;
	snprintf(line, sizeof(line), "kept: %s; in vain %" PRIu32 " times, not tried for %" PRIu64 " ms more",
		 ph_why_text(futile->why), futile->rounds, (futile->until_ns - r->now_ns) / 1000000);
	say(sink, line, bytes_of(r, r->cycle.last.could[PH_GRANT_FUTILE]));
}

/* kept at the edges of what was given back: that is the least of reasons */
static int at_edges(uint32_t why)
{
	return why == PAGEHINT_WHY_ALIGNMENT || why == PAGEHINT_WHY_PAGE_CACHE;
}

/* reasons of the last looks; the gate first, since nothing at all goes through a closed one */
static void say_kept(const struct pagehint_reporter *r, const struct pagehint_sink *sink, int edges)
{
	const struct ph_counts *counts = &r->cycle.counts;
	char line[LINE];
	for (uint32_t why = 0; why < PAGEHINT_WHY_COUNT; why++) {
		uint64_t at = counts->kept_at_look[why];
		if (at_edges(why) != edges)
			continue;
		if (at != 0 && counts->looks + 1 - at < RECENT_LOOKS) {
			snprintf(line, sizeof(line), "kept: %s", ph_why_text(why));
			say(sink, line, counts->kept_by[why]);
		}
	}
}

/* A look that waits: what is still young then is so because the look has not come to it again. */
static void say_stopped(const struct pagehint_reporter *r, const struct pagehint_sink *sink)
{
	if (r->cycle.look.active && r->stop == PH_STOP_RATE)
		sink->line(sink->ctx, "rate: waiting for the rate limit");
	if (r->cycle.look.active && r->stop == PH_STOP_ROOM)
		sink->line(sink->ctx, "room: waiting for the backend to answer");
}

static void say_left(const struct pagehint_reporter *r, const struct pagehint_sink *sink)
{
	const struct ph_tally *last = &r->cycle.last;
	char line[LINE];
	say(sink, "no region: the backend knows no memory there", bytes_of(r, last->no_region));
	if (last->origin_errors != 0) {
		snprintf(line, sizeof(line), "origin: %" PRIu32 " calls failed in the last look, error %d",
			 last->origin_errors, -last->origin_error);
		sink->line(sink->ctx, line);
	}
	say(sink, "held back: watermark or recent re-use", bytes_of(r, last->could[PH_GRANT_HELD]));
	say(sink, "budget: below one block of the order in force", bytes_of(r, last->could[PH_GRANT_BUDGET]));
	snprintf(line, sizeof(line), "below order: in blocks smaller than order %" PRIu32, r->cycle.order);
	say(sink, line, bytes_of(r, last->below_order));
	say(sink, "below least: smaller than what frees anything on its backing", bytes_of(r, last->below_least));
	say(sink, "hidden: free, but in caches", bytes_of(r, last->hidden));
	say(sink, "young: not free for a whole interval yet", bytes_of(r, last->young));
	if (r->cycle.queue.frames != 0 && !ph_reporter_silent(r)) {
		snprintf(line, sizeof(line), "in flight: %" PRIu64 " bytes", bytes_of(r, r->cycle.queue.frames));
		sink->line(sink->ctx, line);
	}
	if (r->psi_error != 0) {
		snprintf(line, sizeof(line), "pressure: the PSI fd cannot be polled, error %d", -r->psi_error);
		sink->line(sink->ctx, line);
	}
}

/* counts the lines that pass */
struct counter {
	const struct pagehint_sink *to;
	uint64_t lines;
};

static void count_line(void *ctx, const char *text)
{
	struct counter *counter = ctx;
	counter->lines++;
	counter->to->line(counter->to->ctx, text);
}

static void say_all(const struct pagehint_reporter *r, const struct pagehint_sink *sink)
{
	struct counter counter = { sink, 0 };
	struct pagehint_sink own = { &counter, count_line };
	if (atomic_load(&r->on) == 0) {
		char line[LINE];
		snprintf(line, sizeof(line), "disabled: nothing new is taken (%" PRIu64 " bytes could be)",
			 bytes_of(r, r->cycle.last.could[PH_GRANT_DISABLED]));
		own.line(own.ctx, line);
	}
	if (r->cycle.counts.looks == 0)
		own.line(own.ctx, "no look yet: the first pass over the origin is not over");
	say_backend(r, &own);
	say_kept(r, &own, 0);
	say_stopped(r, &own);
	say_futile(r, &own);
	say_kept(r, &own, 1);
	say_left(r, &own);
	if (counter.lines == 0)
		own.line(own.ctx, "nothing stands in the way");
}

void pagehint_reporter_explain(struct pagehint_reporter *reporter, const struct pagehint_sink *sink)
{
	struct pagehint_reporter *r = reporter;
	if (r == NULL || sink == NULL || sink->line == NULL)
		return;
	if (r->sys->getpid(r->sys->ctx) != r->owner) {
		sink->line(sink->ctx, "forked: this reporter belongs to the parent process");
		return;
	}
	say_all(r, sink);
	/* theirs are calls on the outside; from inside one of their own callbacks they are not asked */
	if (atomic_load(&r->inside) != 0)
		return;
	if (r->cycle.origin->ops.explain != NULL)
		r->cycle.origin->ops.explain(r->cycle.origin->ctx, sink);
	pagehint_backend_explain(r->cycle.backend, sink);
}
