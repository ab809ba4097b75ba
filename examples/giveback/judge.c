#include "judge.h"

#include "backing.h"

enum { AT_MOST, AT_LEAST };

struct bound {
	const char *key;
	double value;
	int is_least;
	int only_build;
};

static const struct bound bounds[] = {
	{ "demo.replay.host_over_live.2m", 1.25, AT_MOST, 1 },
	{ "demo.replay.host_over_live.pressed", 1.05, AT_MOST, 1 },
	{ "demo.replay.rereported_bytes", 0, AT_MOST, 0 },
	{ "demo.reporter_vs_raw", 0.90, AT_LEAST, 1 },
	{ "zone.metadata_bits_per_frame.untracked", 1.20, AT_MOST, 0 },
	{ "zone.metadata_bits_per_frame.tracked", 2.30, AT_MOST, 0 },
	{ "demo.replay.zone_violations", 0, AT_MOST, 0 },
};

static unsigned judge_bound(const struct results *results, const struct bound *bound, FILE *to)
{
	const struct result *item = results_find(results, "%s", bound->key);

	if (!item || (bound->is_least ? item->value >= bound->value : item->value <= bound->value))
		return 0;
	fprintf(to, "missed: %s is %.4f, should be at %s %.2f\n", bound->key, item->value,
		bound->is_least ? "least" : "most", bound->value);
	return 1;
}

/* What the library says it freed, and what left the host, agree within 1%; no page was lost. */
static unsigned judge_backing(const struct results *results, const char *name, FILE *to)
{
	const struct result *freed = results_find(results, "demo.%s.freed_bytes", name);
	const struct result *host = results_find(results, "demo.%s.host_freed_bytes", name);
	const struct result *corrupt = results_find(results, "demo.%s.corrupt_pages", name);
	unsigned missed = 0;

	if (!freed || !host || !corrupt)
		return 0;
	if (host->value < freed->value * 0.99 || host->value > freed->value * 1.01) {
		fprintf(to, "missed: demo.%s.host_freed_bytes is %.0f, not within 1%% of freed_bytes %.0f\n", name,
			host->value, freed->value);
		missed++;
	}
	if (corrupt->value > 0) {
		fprintf(to, "missed: demo.%s.corrupt_pages is %.0f, should be 0\n", name, corrupt->value);
		missed++;
	}
	return missed;
}

static unsigned judge_share(const struct results *results, const char *suffix, FILE *to)
{
	const struct result *share = results_find(results, "demo.replay.unreturned_share.2m%s", suffix);
	const struct result *oracle = results_find(results, "demo.replay.oracle_share.2m%s", suffix);

	if (!share || !oracle || share->value <= oracle->value * 1.10)
		return 0;
	fprintf(to, "missed: %s is %.4f, should be at most 1.10 times %s %.4f\n", share->key, share->value, oracle->key,
		oracle->value);
	return 1;
}

unsigned judge(const struct results *results, int is_build, FILE *to)
{
	unsigned missed = 0;

	for (uint32_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
		if (is_build || !bounds[i].only_build)
			missed += judge_bound(results, &bounds[i], to);
	}
	for (uint32_t kind = 0; kind < BACKINGS; kind++)
		missed += judge_backing(results, backing_name(kind), to);
	if (is_build)
		missed += judge_share(results, "", to);
	return missed;
}
