/*
 * Demand paging, S2's measure: pages a second, for each thread and in total, with 1 to 16 threads, when each page of 4 KiB is
 * touched for the first time. Pages that are in a shared file and only have to be mapped (minor), and pages of a snapshot
 * that have to be copied (missing). The kernel's own fault is the bound, the plain handler the baseline.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "paging/guest.h"
#include "paging/place.h"
#include "paging/plot.h"
#include "shim/shim.h"

#define COUNTS 5u
static const unsigned counts[COUNTS] = { 1, 2, 4, 8, 16 };

/* A row of the table: one way, for each number of threads. */
struct row {
	const char *name;
	enum memory memory;
	enum access access;
	unsigned overlap, around, sigbus;
	unsigned readers; /* of the plain handler; THREADS_MAX = as many as threads */
	const struct way *way;
	unsigned kvm; /* vCPUs touch */
};

static const struct row rows[] = {
	{ "minor.kernel", MINOR, WRITES, 0, 0, 0, 0, &way_kernel, 0 },
	{ "minor.kernel_around", MINOR, READS, 0, 0, 0, 0, &way_kernel, 0 },
	{ "minor.populate", MINOR, POPULATES, 0, 0, 0, 0, &way_kernel, 0 },
	{ "minor.single", MINOR, WRITES, 0, 0, 0, 1, &way_plain, 0 },
	{ "minor.single_readers", MINOR, WRITES, 0, 0, 0, THREADS_MAX, &way_plain, 0 },
	{ "minor.event", MINOR, WRITES, 0, 1, 0, 0, &way_ours, 0 },
	{ "minor.event16", MINOR, WRITES, 0, 16, 0, 0, &way_ours, 0 },
	{ "minor.event512", MINOR, WRITES, 0, 512, 0, 0, &way_ours, 0 },
	{ "minor.inline", MINOR, WRITES, 0, 1, 1, 0, &way_ours, 0 },
	{ "minor.inline16", MINOR, WRITES, 0, 16, 1, 0, &way_ours, 0 },
	{ "minor.inline512", MINOR, WRITES, 0, 512, 1, 0, &way_ours, 0 },
	{ "minor.overlap.kernel", MINOR, WRITES, 1, 0, 0, 0, &way_kernel, 0 },
	{ "minor.overlap.single", MINOR, WRITES, 1, 0, 0, 1, &way_plain, 0 },
	{ "minor.overlap.event", MINOR, WRITES, 1, 1, 0, 0, &way_ours, 0 },
	{ "minor.overlap.event16", MINOR, WRITES, 1, 16, 0, 0, &way_ours, 0 },
	{ "minor.overlap.inline", MINOR, WRITES, 1, 1, 1, 0, &way_ours, 0 },
	{ "missing.kernel", MISSING, WRITES, 0, 0, 0, 0, &way_kernel, 0 },
	{ "missing.populate", MISSING, POPULATES, 0, 0, 0, 0, &way_kernel, 0 },
	{ "missing.single", MISSING, WRITES, 0, 0, 0, 1, &way_plain, 0 },
	{ "missing.single_readers", MISSING, WRITES, 0, 0, 0, THREADS_MAX, &way_plain, 0 },
	{ "missing.event", MISSING, WRITES, 0, 1, 0, 0, &way_ours, 0 },
	{ "missing.event16", MISSING, WRITES, 0, 16, 0, 0, &way_ours, 0 },
	{ "missing.inline", MISSING, WRITES, 0, 1, 1, 0, &way_ours, 0 },
	{ "missing.inline16", MISSING, WRITES, 0, 16, 1, 0, &way_ours, 0 },
	{ "missing.inline512", MISSING, WRITES, 0, 512, 1, 0, &way_ours, 0 },
	{ "missing.overlap.single", MISSING, WRITES, 1, 0, 0, 1, &way_plain, 0 },
	{ "missing.overlap.event16", MISSING, WRITES, 1, 16, 0, 0, &way_ours, 0 },
	{ "missing.overlap.inline16", MISSING, WRITES, 1, 16, 1, 0, &way_ours, 0 },
	{ "kvm.minor.kernel", MINOR, WRITES, 0, 0, 0, 0, &way_kernel, 1 },
	{ "kvm.minor.single", MINOR, WRITES, 0, 0, 0, 1, &way_plain, 1 },
	{ "kvm.minor.event", MINOR, WRITES, 0, 1, 0, 0, &way_ours, 1 },
	{ "kvm.minor.event16", MINOR, WRITES, 0, 16, 0, 0, &way_ours, 1 },
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

/* the same at one thread, with a clock around each fault */
static const char *const timed_rows[] = { "minor.kernel", "minor.single", "minor.event", "minor.inline" };
#define TIMED (sizeof(timed_rows) / sizeof(timed_rows[0]))
static struct latency latencies[TIMED];

static struct bench_case cases[ROWS * COUNTS + TIMED];
static struct shape shapes[ROWS * COUNTS + TIMED];
static char names[ROWS * COUNTS + TIMED][64];

static const char *kind_of(const struct row *r)
{
	return r->kvm ? "kvm.minor" : r->memory == MINOR ? "minor" : "missing";
}

static const char *baseline_of(const struct row *r, unsigned n)
{
	static char text[ROWS * COUNTS][64];
	static unsigned used;
	const char *kind = kind_of(r), *over = r->overlap ? ".overlap" : "";
	if (r->way == &way_plain && r->readers == 1)
		return NULL;
	snprintf(text[used], sizeof(text[0]), "%s%s.single.n%u", kind, over, n);
	return text[used++];
}

static struct shape shape_of(const struct row *r, unsigned n)
{
	return (struct shape) {
		.memory = r->memory,
		.access = r->access,
		.threads = n,
		.overlap = r->overlap,
		.around = r->around,
		.sigbus = r->sigbus,
		.readers = r->readers == THREADS_MAX ? n : r->readers,
		.kvm = r->kvm,
		.way = r->way,
	};
}

static void add_case(size_t i, const char *baseline)
{
	cases[i] = (struct bench_case) {
		.name = names[i],
		.baseline = baseline,
		.n = PLACE_PAGES,
		.open = place_open,
		.arg = &shapes[i],
		.timed = place_timed,
		.check = place_check,
		.teardown = place_close,
	};
}

/* Returns how many: those with a guest are left out where none can run. */
static size_t make_cases(void)
{
	size_t at = 0;
	int kvm = guest_possible();
	if (!kvm)
		printf("paging: no /dev/kvm here: kvm.* is left out\n");
	for (size_t r = 0; r < ROWS; r++)
		for (unsigned c = 0; c < COUNTS && (kvm || !rows[r].kvm); c++, at++) {
			snprintf(names[at], sizeof(names[0]), "%s.n%u", rows[r].name, counts[c]);
			shapes[at] = shape_of(&rows[r], counts[c]);
			add_case(at, baseline_of(&rows[r], counts[c]));
		}
	for (size_t t = 0; t < TIMED; t++, at++)
		for (size_t r = 0; r < ROWS; r++)
			if (strcmp(rows[r].name, timed_rows[t]) == 0) {
				snprintf(names[at], sizeof(names[0]), "latency.%s", rows[r].name);
				shapes[at] = shape_of(&rows[r], 1);
				shapes[at].latency = &latencies[t];
				add_case(at, NULL);
			}
	return at;
}

/* ---- figures ---- */

static double median_of(const struct bench_result *results, size_t n, const char *row, unsigned threads)
{
	char name[96];
	snprintf(name, sizeof(name), "%s.n%u", row, threads);
	for (size_t i = 0; i < n; i++)
		if (strcmp(results[i].name, name) == 0)
			return results[i].median;
	return 0;
}

static void publish_ratio(const struct bench_result *results, size_t n, const char *row, const char *over,
			  const char *label, unsigned threads)
{
	char key[96];
	double own = median_of(results, n, row, threads), other = median_of(results, n, over, threads);
	if (own <= 0 || other <= 0)
		return;
	snprintf(key, sizeof(key), "paging.%s.%s.n%u", row, label, threads);
	bench_publish(key, other / own, "x");
}

static void publish_rates(const struct bench_result *results, size_t n)
{
	for (size_t r = 0; r < ROWS; r++)
		for (unsigned c = 0; c < COUNTS; c++) {
			double ns = median_of(results, n, rows[r].name, counts[c]);
			char key[96];
			if (ns <= 0)
				continue;
			snprintf(key, sizeof(key), "paging.%s.kpages_total.n%u", rows[r].name, counts[c]);
			bench_publish(key, 1e6 / ns, "K/s");
			snprintf(key, sizeof(key), "paging.%s.kpages_thread.n%u", rows[r].name, counts[c]);
			bench_publish(key, 1e6 / ns / counts[c], "K/s");
		}
}

static void publish_ratios(const struct bench_result *results, size_t n)
{
	for (size_t r = 0; r < ROWS; r++) {
		const char *kind = kind_of(&rows[r]);
		char single[48], kernel[48];
		if (rows[r].way != &way_ours)
			continue;
		snprintf(single, sizeof(single), "%s%s.single", kind, rows[r].overlap ? ".overlap" : "");
		snprintf(kernel, sizeof(kernel), "%s.kernel", kind);
		for (unsigned c = 0; c < COUNTS; c++) {
			publish_ratio(results, n, rows[r].name, single, "vs_single", counts[c]);
			if (!rows[r].overlap)
				publish_ratio(results, n, rows[r].name, kernel, "vs_kernel", counts[c]);
		}
		double four = median_of(results, n, rows[r].name, 4), sixteen = median_of(results, n, rows[r].name, 16);
		char key[96];
		snprintf(key, sizeof(key), "paging.%s.total_n16_over_n4", rows[r].name);
		if (four > 0 && sixteen > 0)
			bench_publish(key, four / sixteen, "x");
	}
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return x < y ? -1 : x > y;
}

static void publish_latency(size_t t)
{
	struct latency *l = &latencies[t];
	char key[96];
	if (l->n == 0)
		return;
	qsort(l->ns, l->n, sizeof(l->ns[0]), by_value);
	snprintf(key, sizeof(key), "paging.%s.p50_us", timed_rows[t]);
	bench_publish(key, l->ns[l->n / 2] / 1e3, "us");
	snprintf(key, sizeof(key), "paging.%s.p99_us", timed_rows[t]);
	bench_publish(key, l->ns[(uint64_t)l->n * 99 / 100] / 1e3, "us");
}

static void draw(const struct bench_result *results, size_t n)
{
	static const char *const drawn[] = { "minor.kernel", "minor.single",  "minor.event",
					     "minor.inline", "minor.event16", "minor.inline512" };
	struct plot_line lines[sizeof(drawn) / sizeof(drawn[0])];
	for (size_t i = 0; i < sizeof(drawn) / sizeof(drawn[0]); i++) {
		lines[i].title = drawn[i];
		for (unsigned c = 0; c < COUNTS; c++) {
			double ns = median_of(results, n, drawn[i], counts[c]);
			lines[i].kpages[c] = ns > 0 ? 1e6 / ns : 0;
		}
		if (lines[i].kpages[0] <= 0)
			return; /* not all of them were run */
	}
	if (plot_totals("build/bench-paging.svg", BENCH_DIR "/paging/published.csv", lines,
			sizeof(drawn) / sizeof(drawn[0])) == 0)
		printf("plot: build/bench-paging.svg\n");
	else
		printf("plot: none (no gnuplot, or no build/)\n");
}

static void summary(const struct bench_result *results, size_t n)
{
	publish_rates(results, n);
	publish_ratios(results, n);
	for (size_t t = 0; t < TIMED; t++)
		publish_latency(t);
	draw(results, n);
}

/* As many rounds as the discussion had runs, unless told otherwise. */
int main(int argc, char **argv)
{
	static char *with_rounds[64];
	int has = 0;
	size_t n = make_cases();
	for (int i = 0; i < argc && i < 60; i++) {
		with_rounds[i] = argv[i];
		has |= strcmp(argv[i], "--rounds") == 0 || strcmp(argv[i], "--quick") == 0;
	}
	if (has || argc > 60)
		return bench_main(argc, argv, "paging", cases, n, summary);
	static char rounds[] = "--rounds", twenty[] = "20";
	with_rounds[argc] = rounds;
	with_rounds[argc + 1] = twenty;
	return bench_main(argc + 2, with_rounds, "paging", cases, n, summary);
}
