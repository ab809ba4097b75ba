/*
 * The allocator beside two models and jemalloc, on the same work, interleaved. Names of cases:
 *   <work>[.<size>][.2t].<subject>      8 GiB and one thread unless said
 * Subjects: zone (tracked), untracked, list, linux (the baseline of all), jemalloc. What the work is: alloc/workload.h and
 * alloc/own.h; what the figures must be: alloc/bounds.c.
 *
 * usage: bench-alloc [arguments of every bench]
 *        bench-alloc --selfcheck [NAME]   every case (that begins so) once on little memory, for its check, not for its time
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "alloc/bounds.h"
#include "alloc/own.h"
#include "alloc/selfcheck.h"
#include "alloc/workload.h"

#define MOST_CASES 128u
#define SMALL_FRAMES (GIB_FRAMES / 4)
#define LIVE_PASSES 10u
#define MODEL_ENUM_BYTES (UINT64_C(5) << 30) /* the list walk at 1.5 TiB touches a page a 2 MiB block */

/* passes a round: few where one is long, many where it is a matter of microseconds */
static const struct workload bulk0 = { "bulk0.alloc", WORK_ALLOC, 0, 2, 0, 0 };
static const struct workload free_order = { "free_order", WORK_FREE, 0, 2, 0, 0 };
static const struct workload free_random = { "free_random", WORK_FREE, 0, 2, 1, 0 };
static const struct workload rand0 = { "rand0", WORK_PAIRS, 0, 2, 0, 0 };
static const struct workload xrand0 = { "xrand0", WORK_PAIRS, 0, 2, 0, 1 };
static const struct workload churn0 = { "churn0", WORK_CHURN, 0, 2, 0, 0 };
static const struct workload mixed = { "mixed", WORK_MIX, 0, 8, 0, 0 };
static const struct workload bulk9 = { "bulk9.alloc", WORK_ALLOC, HUGE_ORDER, 64, 0, 0 };
static const struct workload bulk9_free = { "bulk9.free_random", WORK_FREE, HUGE_ORDER, 64, 1, 0 };
static const struct workload rand9 = { "rand9", WORK_PAIRS, HUGE_ORDER, 64, 0, 0 };
static const struct workload *const works[] = { &bulk0,  &free_order, &free_random, &rand0,      &xrand0,
						&churn0, &mixed,      &bulk9,       &bulk9_free, &rand9 };
#define WORKS (sizeof(works) / sizeof(works[0]))

/* The table as it grows. */
static struct {
	struct bench_case cases[MOST_CASES];
	char names[MOST_CASES][48];
	struct plan plans[MOST_CASES];
	struct own_plan own_plans[MOST_CASES];
	struct outcome outcomes[MOST_CASES];
	size_t n;
	int small; /* every size becomes SMALL_FRAMES */
} table;

static uint64_t overlaps_found;

static struct bench_case *entry(const char *work, const char *size, const char *who, const char *baseline)
{
	struct bench_case *c = &table.cases[table.n];
	snprintf(table.names[table.n], sizeof(table.names[0]), "%s%s.%s", work, size, who);
	c->name = table.names[table.n];
	c->baseline = baseline;
	return c;
}

static void add(const struct workload *w, const struct subject *who, unsigned threads, uint64_t frames,
		const char *size, const char *baseline)
{
	if (who->loops == NULL) /* not there in this build; main says so */
		return;
	struct bench_case *c = entry(w->name, size, who->name, baseline);
	struct plan *p = &table.plans[table.n];
	*p = (struct plan) { w, who, &table.outcomes[table.n], table.small ? SMALL_FRAMES : frames, threads };
	c->n = workload_ops(p);
	c->batches = frames > 8 * GIB_FRAMES ? 1 : w->batches;
	c->open = workload_open;
	c->arg = p;
	c->prepare = workload_prepare;
	c->timed = workload_timed;
	c->check = workload_check;
	c->teardown = workload_close;
	table.n++;
}

/* `per` operations a frame; 0 = one operation in all */
static void add_own(const struct own_work *w, const struct subject *who, uint64_t frames, double per, const char *size,
		    const char *baseline)
{
	struct bench_case *c = entry(w->name, size, who->name, baseline);
	struct own_plan *p = &table.own_plans[table.n];
	*p = (struct own_plan) { who, table.small ? SMALL_FRAMES : frames };
	c->n = per == 0 ? 1 : (uint64_t)((double)p->frames * per);
	c->batches = 4;
	c->open = w->open;
	c->arg = p;
	c->prepare = w->prepare;
	c->timed = w->timed;
	c->check = w->check;
	c->teardown = w->close;
	table.n++;
}

static const char *last_name(void)
{
	return table.names[table.n - 1];
}

/* The model of Linux first: it is the baseline of the others. */
static void add_row(const struct workload *w, unsigned threads, uint64_t frames, const char *size, int all)
{
	add(w, &subject_linux, threads, frames, size, NULL);
	const char *baseline = last_name();
	add(w, &subject_zone, threads, frames, size, baseline);
	if (!all)
		return;
	add(w, &subject_untracked, threads, frames, size, baseline);
	if (threads <= subject_list.threads)
		add(w, &subject_list, threads, frames, size, baseline);
	if (w->order == 0 && w->kind != WORK_MIX && (threads == 1 || w->cross))
		add(w, &subject_jemalloc, threads, frames, size, baseline);
}

static void add_own_rows(void)
{
	const uint64_t frames = 8 * GIB_FRAMES, all = 1536 * GIB_FRAMES;
	const struct subject *zones[] = { &subject_zone, &subject_untracked };
	for (unsigned i = 0; i < 2; i++) {
		add_own(&own_batch_alloc, zones[i], frames, 1, "", "bulk0.alloc.linux");
		add_own(&own_batch_free, zones[i], frames, 1, "", "free_order.linux");
	}
	const struct own_work *runs[] = { &own_runs_alloc, &own_runs_free };
	for (unsigned i = 0; i < 2; i++) {
		add_own(runs[i], &subject_linux, frames, 0.5, "", NULL);
		const char *baseline = last_name();
		for (unsigned k = 0; k < 2; k++)
			add_own(runs[i], zones[k], frames, 0.5, "", baseline);
	}
	const char *baseline = NULL;
	if (table.small || (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) > MODEL_ENUM_BYTES) {
		add_own(&own_enum, &subject_linux, all, 0, ".1536g", NULL);
		baseline = last_name();
	} else {
		printf("not applicable: enum.1536g.linux (its lists need 5 GiB of memory)\n");
	}
	add_own(&own_enum, &subject_zone, all, 0, ".1536g", baseline);
	add_own(&own_init, &subject_zone, all, 0, ".1536g", NULL);
}

static void add_all(unsigned cpus)
{
	const uint64_t frames = 8 * GIB_FRAMES;
	for (size_t i = 0; i < WORKS; i++)
		if (!works[i]->cross)
			add_row(works[i], 1, frames, "", 1);
	for (size_t i = 0; i < WORKS && cpus > 1; i++)
		add_row(works[i], 2, frames, ".2t", 1);
	if (cpus < 2)
		printf("not applicable: cases of two threads (one CPU)\n");
	if (subject_jemalloc.loops == NULL)
		printf("not applicable: cases of jemalloc (built without)\n");
	add_row(&rand0, 1, 64 * GIB_FRAMES, ".64g", 0);
	add_own_rows();
}

/* Two threads on each other's frames, every moment of it watched. */
static void look_for_overlaps(struct found *found)
{
	const struct subject *who[] = { &subject_zone, &subject_untracked, &subject_linux };
	for (unsigned i = 0; i < sizeof(who) / sizeof(who[0]); i++) {
		struct outcome outcome = { 0 };
		struct plan p = { &xrand0, who[i], &outcome, 8 * GIB_FRAMES, 2 };
		uint64_t ops = 0;
		found->overlaps += workload_live(&p, LIVE_PASSES, &ops);
		found->ops += ops;
	}
	found->has_overlaps = 1;
	overlaps_found = found->overlaps;
}

static void summary(const struct bench_result *results, size_t n)
{
	struct found found = { 0 };
	for (size_t i = 0; i < table.n; i++) {
		const struct outcome *o = &table.outcomes[i];
		char key[64];
		if (o->rounds == 0)
			continue;
		found.has_huge_free |= strcmp(table.names[i], "mixed.zone") == 0;
		if (strcmp(table.names[i], "mixed.zone") == 0)
			found.huge_free_pct = o->least_huge_free_pct;
		snprintf(key, sizeof(key), "alloc.%s.hugefree_pct", table.names[i]);
		bench_publish(key, o->least_huge_free_pct, "%");
	}
	for (size_t i = 0; i < n && !found.has_overlaps; i++)
		if (strcmp(results[i].name, "xrand0.2t.zone") == 0)
			look_for_overlaps(&found);
	bounds_judge(results, n, &found);
}

int main(int argc, char **argv)
{
	unsigned cpus = crew_start();
	table.small = argc > 1 && strcmp(argv[1], "--selfcheck") == 0;
	add_all(cpus);
	if (table.small)
		return selfcheck(table.cases, table.n, argc > 2 ? argv[2] : "");
	int r = bench_main(argc, argv, "alloc", table.cases, table.n, summary);
	return r == 0 && overlaps_found != 0 ? 1 : r;
}
