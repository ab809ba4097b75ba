/* the counters and the words: what the reporter has done, and what stands in its way */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/opts.h"
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

static const char *why_text(uint32_t why)
{
	static const char *const text[PAGEHINT_WHY_COUNT] = {
		[PAGEHINT_WHY_NONE] = "no reason given",
		[PAGEHINT_WHY_INHIBITED] = "inhibited: the gate is closed",
		[PAGEHINT_WHY_PINNED] = "pinned: a device may hold these pages",
		[PAGEHINT_WHY_ALIGNMENT] = "alignment: less than a whole host page at the ends",
		[PAGEHINT_WHY_PAGE_CACHE] = "page cache: clean pages of a file are not ours to free",
		[PAGEHINT_WHY_BUDGET] = "mapping budget: it is spent",
		[PAGEHINT_WHY_CANNOT] = "cannot: this backing has no way to give memory back",
		[PAGEHINT_WHY_NO_REGION] = "no region: not wholly inside one",
		[PAGEHINT_WHY_SYSCALL] = "refused: the call failed",
		[PAGEHINT_WHY_BACKEND_LIED] = "untrue: the backend's figures do not add up",
		[PAGEHINT_WHY_HOOK_REFUSED] = "hook: before_discard said no",
		[PAGEHINT_WHY_MADV_FREE] = "lazy: freed under pressure only",
		[PAGEHINT_WHY_ZEROED] = "zeroed: still paid for",
		[PAGEHINT_WHY_NOT_TRIED] = "not tried: the backend did not come to it",
		[PAGEHINT_WHY_UFFD] = "userfaultfd: the needed call would break its registration",
		[PAGEHINT_WHY_FORKED] = "forked: the backend belongs to the parent process",
		[PAGEHINT_WHY_GONE] = "gone: the other side does not exist any more",
		[PAGEHINT_WHY_REENTRY] = "re-entry: called from inside the backend's own callback",
	};
	return why < PAGEHINT_WHY_COUNT && text[why] != NULL ? text[why] : "unknown reason";
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
			 "backend silent: no answer for %" PRIu64 " ms, %" PRIu64 " bytes in flight",
			 (r->now_ns - oldest->sent_ns) / 1000000, bytes_of(r, r->cycle.queue.frames));
		sink->line(sink->ctx, line);
	}
	if (r->now_ns < r->pace.pause_until_ns) {
		snprintf(line, sizeof(line),
			 "backing off: %" PRIu64 " ms more after failure %" PRIu32 " in a row, error %d",
			 (r->pace.pause_until_ns - r->now_ns) / 1000000, r->pace.pause_level, -r->cycle.counts.error);
		sink->line(sink->ctx, line);
	}
}

/* reasons of the last looks; the gate first, since nothing at all goes through a closed one */
static void say_kept(const struct pagehint_reporter *r, const struct pagehint_sink *sink)
{
	const struct ph_counts *counts = &r->cycle.counts;
	for (uint32_t why = 0; why < PAGEHINT_WHY_COUNT; why++) {
		uint64_t at = counts->kept_at_look[why];
		if (at != 0 && counts->looks + 1 - at < RECENT_LOOKS)
			say(sink, why_text(why), counts->kept_by[why]);
	}
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
	if (r->cycle.look.active && r->stop == PH_STOP_RATE)
		sink->line(sink->ctx, "rate: waiting for the rate limit");
	if (r->cycle.look.active && r->stop == PH_STOP_ROOM)
		sink->line(sink->ctx, "room: waiting for the backend to answer");
	if (r->psi_error != 0) {
		snprintf(line, sizeof(line), "pressure: the PSI fd cannot be polled, error %d", -r->psi_error);
		sink->line(sink->ctx, line);
	}
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
	if (atomic_load(&r->on) == 0) {
		char line[LINE];
		snprintf(line, sizeof(line), "disabled: nothing new is taken (%" PRIu64 " bytes could be)",
			 bytes_of(r, r->cycle.last.could[PH_GRANT_DISABLED]));
		sink->line(sink->ctx, line);
	}
	if (r->cycle.counts.looks == 0)
		sink->line(sink->ctx, "no look yet: the first pass over the origin is not over");
	say_backend(r, sink);
	say_kept(r, sink);
	say_left(r, sink);
	/* theirs are calls on the outside; from inside one of their own callbacks they are not asked */
	if (atomic_load(&r->inside) != 0)
		return;
	if (r->cycle.origin->ops.explain != NULL)
		r->cycle.origin->ops.explain(r->cycle.origin->ctx, sink);
	pagehint_backend_explain(r->cycle.backend, sink);
}
