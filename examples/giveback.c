/*
 * giveback: the main job of libpagehint on real input, with the host as witness.
 *
 * Replays a recorded trace of page allocations against a zone, over real memory of every kind in turn; a reporter gives back
 * what stays free. Every page is written and checked, the host is asked what it got, and a plain MADV_DONTNEED is tried on the
 * same runs. How the library is put together is in giveback/engine.c.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "giveback/density.h"
#include "giveback/hugepool.h"
#include "giveback/judge.h"
#include "giveback/options.h"
#include "giveback/progress.h"
#include "giveback/report.h"
#include "giveback/versus.h"
#include "trace.h"

#define QUICK_SHARE 8u /* --quick plays one event in so many, from the start */
#define VERSUS_BYTES (UINT64_C(512) << 20)

/* The memory of a run, huge pages reserved if that was asked. 0; -ENODEV this machine has none; or another -errno. */
static int open_backing(const struct options *options, const struct run *run, struct backing *backing, struct why *why)
{
	int rc = 0;

	if (run->kind == BACKING_HUGETLB && options->reserves_hugetlb)
		rc = hugepool_reserve(run->bytes / GRANULE_BYTES, why);
	if (hugepool_added())
		printf("hugetlb: %llu huge pages reserved, given back at the end\n",
		       (unsigned long long)hugepool_added());
	return rc ? rc : backing_open(backing, run->kind, run->bytes, why);
}

/* 0; -errno: something is broken, *why. */
static int play_opened(const struct trace *trace, size_t events, struct backing *backing, struct run *run,
		       struct why *why)
{
	struct naive naive = { 0 };
	int rc = replay_run(trace, events, backing, &naive, &run->replay, why);

	rc = rc ? rc : naive_play(&naive, backing, &run->naive, why);
	naive_close(&naive);
	run->is_done = rc == 0;
	return rc;
}

/* 0, also when this machine has no such memory (said, and *absent filled); -errno: something is broken (said). */
static int play_backing(const struct trace *trace, size_t events, const struct options *options, struct run *run,
			struct why *absent)
{
	const char *name = backing_name(run->kind);
	struct backing backing = { .fd = -1 };
	struct why why = { "" };
	int is_absent;
	int rc;

	progress_begin(name);
	run->bytes = replay_bytes(trace, events);
	rc = open_backing(options, run, &backing, &why);
	is_absent = rc == -ENODEV;
	if (!rc) {
		rc = play_opened(trace, events, &backing, run, &why);
		backing_close(&backing);
	}
	hugepool_release();
	progress_end(name, rc == 0 ? "done" : is_absent ? "not to be had here" : "failed");
	if (is_absent) {
		printf("not applicable: %s\n", why.text);
		*absent = why;
		return 0;
	}
	if (rc)
		fprintf(stderr, "giveback: %s\n", why.text);
	return rc;
}

static void show_side(const char *what, const struct versus_side *side)
{
	printf("%s median %.2f (%.2f to %.2f)", what, side->median, side->least, side->most);
}

/* The plain figure is the worse of the two. */
static int compare_speeds(struct results *results)
{
	static const char part[] = "reporter against raw calls";
	static const uint32_t kinds[] = { BACKING_ANON, BACKING_MEMFD };
	double worst = 0;

	progress_begin(part);
	for (unsigned i = 0; i < 2; i++) {
		struct versus versus;
		struct why why = { "" };

		if (versus_run(kinds[i], VERSUS_BYTES, &versus, &why)) {
			progress_end(part, "failed");
			fprintf(stderr, "giveback: %s\n", why.text);
			return -EIO;
		}
		printf("%-6s GiB/s of CPU time in %u rounds: ", backing_name(kinds[i]), VERSUS_ROUNDS);
		show_side("reporter", &versus.reporter);
		show_side(", raw calls", &versus.raw);
		printf("; ratio of the medians %.3f\n", versus.ratio);
		results_ratio(results, versus.ratio, "ratio", "demo.reporter_vs_raw.%s", backing_name(kinds[i]));
		if (i == 0 || versus.ratio < worst)
			worst = versus.ratio;
	}
	progress_end(part, "done");
	results_ratio(results, worst, "ratio", "demo.reporter_vs_raw");
	return 0;
}

static void show_picture(const struct options *options, const struct run *runs)
{
	int rc = -ENODATA;

	for (uint32_t kind = 0; kind < BACKINGS && rc == -ENODATA; kind++) {
		if (runs[kind].is_done)
			rc = report_picture(options->picture, &runs[kind]);
	}
	if (rc == 0)
		printf("picture: %s\n", options->picture);
	else if (rc == -ENOENT)
		printf("no picture: gnuplot is not installed\n");
	else
		printf("no picture: %s cannot be drawn\n", options->picture);
}

static int show(const struct options *options, const struct run *runs, struct results *results)
{
	const char *trace = options->trace ? options->trace : "build";
	int rc;

	report_table(runs, BACKINGS, stdout);
	report_figures(runs, BACKINGS, results);
	show_picture(options, runs);
	rc = report_json(options->json, trace, runs, BACKINGS, results);
	if (rc)
		fprintf(stderr, "giveback: %s: %s\n", options->json, strerror(-rc));
	else
		printf("figures: %s\n", options->json);
	results_print(results, stdout);
	return rc;
}

/* 0 or -errno; what is broken was said. */
static int play_all(const struct trace *trace, const struct options *options, struct run *runs,
		    struct judge_case *about)
{
	size_t events = options->is_quick && trace->n >= QUICK_SHARE ? trace->n / QUICK_SHARE : trace->n;
	struct trace part = *trace;

	part.n = events;
	printf("%zu events in %.1f s, at most %llu MiB live; ", events, (double)trace->events[events - 1].us / 1e6,
	       (unsigned long long)(trace_peak_live(&part) >> 20));
	printf("frees of pages from before the recording are passed over\n");
	fflush(stdout);
	for (uint32_t kind = 0; kind < BACKINGS; kind++) {
		int rc;

		runs[kind].kind = kind;
		if (!(options->backings & 1u << kind))
			continue;
		rc = play_backing(trace, events, options, &runs[kind], &about->absent[kind]);
		fflush(stdout);
		if (rc)
			return rc;
		if (runs[kind].is_done)
			about->ran |= 1u << kind;
	}
	return 0;
}

static enum judge_scope scope_of(const struct options *options)
{
	if (options->trace)
		return JUDGE_OWN;
	return options->is_quick ? JUDGE_PART : JUDGE_BUILD;
}

static int run_demo(const struct trace *trace, const struct options *options)
{
	static struct run runs[BACKINGS];
	static struct results results;
	struct judge_case about = { .scope = scope_of(options) };
	struct why why = { "" };
	unsigned missed;
	int rc = play_all(trace, options, runs, &about);

	if (!rc && density_measure(&results, &why)) {
		fprintf(stderr, "giveback: %s\n", why.text);
		rc = -EIO;
	}
	if (!rc && !options->is_quick)
		rc = compare_speeds(&results);
	rc = rc ? rc : show(options, runs, &results);
	for (uint32_t kind = 0; kind < BACKINGS; kind++)
		replay_result_free(&runs[kind].replay);
	if (rc)
		return 1;
	missed = judge(&results, &about, stdout);
	judge_say(missed, &about, stdout);
	return missed ? 1 : 0;
}

int main(int argc, char **argv)
{
	struct trace_error error = { "" };
	struct options options;
	struct trace trace;
	int rc = options_parse(argc, argv, &options);

	if (rc)
		return rc > 0 ? 0 : 2;
	if (trace_load(options.trace ? options.trace : GIVEBACK_TRACE, &trace, &error)) {
		fprintf(stderr, "giveback: %s\n", error.text);
		return 1;
	}
	rc = run_demo(&trace, &options);
	trace_free(&trace);
	return rc;
}
