#include "bounds.h"

#include <stdio.h>
#include <string.h>

#define MAX_BOUNDS 32u

struct bound {
	const char *key;
	const char *over;  /* a case's minimum, in units of `scale` */
	const char *under; /* over another's; NULL = over nothing */
	double scale;
	const char *unit;
	double most;
};

static const struct bound bounds[] = {
	{ "alloc.bulk0.vs_linux", "bulk0.alloc.zone", "bulk0.alloc.linux", 1, "x", 0.40 },
	{ "alloc.bulk0.untracked.vs_linux", "bulk0.alloc.untracked", "bulk0.alloc.linux", 1, "x", 0.30 },
	{ "alloc.free_random.vs_linux", "free_random.zone", "free_random.linux", 1, "x", 0.14 },
	{ "alloc.rand0.vs_linux", "rand0.zone", "rand0.linux", 1, "x", 0.25 },
	{ "alloc.churn0.vs_linux", "churn0.zone", "churn0.linux", 1, "x", 0.40 },
	{ "alloc.mixed.vs_linux", "mixed.zone", "mixed.linux", 1, "x", 0.70 },
	{ "alloc.bulk9.vs_linux", "bulk9.alloc.zone", "bulk9.alloc.linux", 1, "x", 0.80 },
	{ "alloc.rand9.vs_linux", "rand9.zone", "rand9.linux", 1, "x", 1.2 },
	{ "alloc.batch.vs_bulk0", "batch.alloc.zone", "bulk0.alloc.zone", 1, "x", 0.5 },
	{ "alloc.rand0.64g_over_8g", "rand0.64g.zone", "rand0.zone", 1, "x", 1.6 },
	{ "alloc.enum_1536g_us", "enum.1536g.zone", NULL, 1e-3, "us", 400 },
	{ "alloc.init_1536g_ms", "init.1536g.zone", NULL, 1e-6, "ms", 2 },
	{ "alloc.bulk0.2t_over_1t", "bulk0.alloc.2t.zone", "bulk0.alloc.zone", 1, "x", 1.3 },
	{ "alloc.xrand0.2t.vs_linux", "xrand0.2t.zone", "xrand0.2t.linux", 1, "x", 1.0 },
};

struct judgement {
	char lines[MAX_BOUNDS][120];
	unsigned n;
	unsigned held;
};

static const struct bench_result *find(const struct bench_result *results, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(results[i].name, name) == 0)
			return &results[i];
	return NULL;
}

static void judge(struct judgement *j, const char *key, double value, const char *unit, const char *how, double bound,
		  int holds)
{
	bench_publish(key, value, unit);
	snprintf(j->lines[j->n++], sizeof(j->lines[0]), "  %-34s %10.4g %-4s %s %-6g %s", key, value, unit, how, bound,
		 holds ? "holds" : "MISSED");
	j->held += (unsigned)holds;
}

void bounds_judge(const struct bench_result *results, size_t n, const struct found *found)
{
	struct judgement j = { .n = 0 };
	for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
		const struct bound *b = &bounds[i];
		const struct bench_result *over = find(results, n, b->over);
		const struct bench_result *under = b->under == NULL ? NULL : find(results, n, b->under);
		if (over == NULL || (b->under != NULL && under == NULL))
			continue;
		double value = over->min * b->scale / (under == NULL ? 1 : under->min);
		judge(&j, b->key, value, b->unit, "at most", b->most, value <= b->most);
	}
	if (found->has_huge_free)
		judge(&j, "alloc.mixed.hugefree_pct", found->huge_free_pct, "%", "at least", 95,
		      found->huge_free_pct >= 95);
	if (found->has_overlaps) {
		bench_publish("alloc.overlaps.ops", (double)found->ops, "operations");
		judge(&j, "alloc.overlaps", (double)found->overlaps, "", "at most", 0, found->overlaps == 0);
	}
	printf("\nbounds (of minima):\n");
	for (unsigned i = 0; i < j.n; i++)
		printf("%s\n", j.lines[i]);
	printf("%u of %u bounds hold\n\n", j.held, j.n);
}
