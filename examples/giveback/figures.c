#include <string.h>

#include "report.h"

static double over(uint64_t host, uint64_t live)
{
	return live ? (double)host / (double)live : 0;
}

/* The host gives small pages: what it holds can follow what is live. */
static int has_small_pages(const struct run *run)
{
	return run->is_done && run->kind != BACKING_THP && run->kind != BACKING_HUGETLB;
}

static void add_backing(const struct run *run, struct results *results)
{
	const struct replay_result *replay = &run->replay;
	const char *b = backing_name(run->kind);
	int64_t host = replay->host_freed_bytes;

	results_count(results, replay->backend.asked, "bytes", "demo.%s.asked_bytes", b);
	results_count(results, replay->backend.freed + replay->backend.accepted, "bytes", "demo.%s.freed_bytes", b);
	results_count(results, host > 0 ? (uint64_t)host : 0, "bytes", "demo.%s.host_freed_bytes", b);
	results_count(results, replay->corrupt_pages, "pages", "demo.%s.corrupt_pages", b);
	results_count(results, replay->checked_pages, "pages", "demo.%s.checked_pages", b);
	results_count(results, run->naive.host_freed_bytes, "bytes", "demo.%s.naive_host_freed_bytes", b);
	results_count(results, run->naive.wrong_pages, "pages", "demo.%s.naive_wrong_pages", b);
	results_ratio(results, replay_unreturned_share(replay), "ratio", "demo.replay.unreturned_share.2m.%s", b);
	results_ratio(results, replay_oracle_share(replay), "ratio", "demo.replay.oracle_share.2m.%s", b);
	results_ratio(results, over(replay->ended.host, replay->ended.live), "ratio",
		      "demo.replay.host_over_live.2m.%s", b);
	results_ratio(results, over(replay->ended.oracle, replay->ended.live), "ratio",
		      "demo.replay.oracle_over_live.2m.%s", b);
	if (has_small_pages(run))
		results_ratio(results, over(replay->pressed.host, replay->pressed.live), "ratio",
			      "demo.replay.host_over_live.pressed.%s", b);
	results_count(results, replay->rereported, "bytes", "demo.replay.rereported_bytes.%s", b);
}

/* Which run returned least, measured against what could have been returned there. */
static const struct run *worst_share(const struct run *runs, uint32_t n)
{
	const struct run *worst = NULL;
	double worst_ratio = -1;

	for (uint32_t i = 0; i < n; i++) {
		double oracle = has_small_pages(&runs[i]) ? replay_oracle_share(&runs[i].replay) : 0;
		double ratio = oracle > 0 ? replay_unreturned_share(&runs[i].replay) / oracle : 0;

		if (has_small_pages(&runs[i]) && ratio > worst_ratio) {
			worst = &runs[i];
			worst_ratio = ratio;
		}
	}
	return worst;
}

#define WORST(field)                                                         \
	static uint64_t worst_##field(const struct run *runs, uint32_t n)    \
	{                                                                    \
		uint64_t worst = 0;                                          \
                                                                             \
		for (uint32_t i = 0; i < n; i++) {                           \
			if (runs[i].is_done && runs[i].replay.field > worst) \
				worst = runs[i].replay.field;                \
		}                                                            \
		return worst;                                                \
	}

WORST(rereported)
WORST(resent_untouched)
WORST(refault)
WORST(violations)

static void add_shares(const struct run *runs, uint32_t n, struct results *results)
{
	const struct run *worst = worst_share(runs, n);
	double ended = 0;
	double pressed = 0;
	double never = 0;

	if (!worst)
		return;
	for (uint32_t i = 0; i < n; i++) {
		const struct replay_result *replay = &runs[i].replay;

		if (!has_small_pages(&runs[i]))
			continue;
		if (over(replay->ended.host, replay->ended.live) > ended)
			ended = over(replay->ended.host, replay->ended.live);
		if (over(replay->pressed.host, replay->pressed.live) > pressed)
			pressed = over(replay->pressed.host, replay->pressed.live);
		never = over(replay->ended.never, replay->ended.live);
	}
	results_ratio(results, replay_unreturned_share(&worst->replay), "ratio", "demo.replay.unreturned_share.2m");
	results_ratio(results, replay_oracle_share(&worst->replay), "ratio", "demo.replay.oracle_share.2m");
	results_ratio(results, ended, "ratio", "demo.replay.host_over_live.2m");
	results_ratio(results, pressed, "ratio", "demo.replay.host_over_live.pressed");
	results_ratio(results, never, "ratio", "demo.replay.unmodified_over_live");
}

void report_figures(const struct run *runs, uint32_t n, struct results *results)
{
	uint32_t done = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (runs[i].is_done)
			add_backing(&runs[i], results);
		done += runs[i].is_done != 0;
	}
	if (!done)
		return;
	add_shares(runs, n, results);
	results_count(results, worst_rereported(runs, n), "bytes", "demo.replay.rereported_bytes");
	results_count(results, worst_resent_untouched(runs, n), "bytes", "demo.replay.resent_untouched_bytes");
	results_count(results, worst_refault(runs, n), "bytes", "demo.replay.refault_bytes");
	results_count(results, worst_violations(runs, n), "count", "demo.replay.zone_violations");
}
