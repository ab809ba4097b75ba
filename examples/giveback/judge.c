#include "judge.h"

#define SMALL_PAGES (1u << BACKING_ANON | 1u << BACKING_MEMFD | 1u << BACKING_FILE)
#define ANY ((1u << BACKINGS) - 1)
#define ALWAYS 0u

enum { AT_MOST, AT_LEAST };

struct bound {
	const char *key;
	double value; /* above 0: a figure of 0 is a miss, too: nothing was measured */
	int is_least;
	int only_build;
	uint32_t needs; /* the figure must be there if one of these ran */
};

static const struct bound bounds[] = {
	{ "demo.replay.host_over_live.2m", 1.25, AT_MOST, 1, SMALL_PAGES },
	{ "demo.replay.host_over_live.pressed", 1.05, AT_MOST, 1, SMALL_PAGES },
	{ "demo.replay.rereported_bytes", 0, AT_MOST, 0, ANY },
	{ "demo.reporter_vs_raw", 0.90, AT_LEAST, 1, ALWAYS },
	{ "zone.metadata_bits_per_frame.untracked", 1.20, AT_MOST, 0, ALWAYS },
	{ "zone.metadata_bits_per_frame.tracked", 2.30, AT_MOST, 0, ALWAYS },
	{ "demo.replay.zone_violations", 0, AT_MOST, 0, ANY },
};

static unsigned not_taken(const char *key, FILE *to)
{
	fprintf(to, "missed: %s was not taken\n", key);
	return 1;
}

static unsigned judge_bound(const struct results *results, const struct bound *bound, uint32_t ran, FILE *to)
{
	const struct result *item = results_find(results, "%s", bound->key);

	if (!item)
		return bound->needs == ALWAYS || bound->needs & ran ? not_taken(bound->key, to) : 0;
	if (bound->value > 0 && !(item->value > 0)) {
		fprintf(to, "missed: %s is %.4f: nothing was measured\n", bound->key, item->value);
		return 1;
	}
	if (bound->is_least ? item->value >= bound->value : item->value <= bound->value)
		return 0;
	fprintf(to, "missed: %s is %.4f, should be at %s %.2f\n", bound->key, item->value,
		bound->is_least ? "least" : "most", bound->value);
	return 1;
}

/* A figure of a backing that ran; NULL, said and counted, if it is missing. */
static const struct result *find_of(const struct results *results, const char *name, const char *what,
				    unsigned *ret_missed, FILE *to)
{
	const struct result *item = results_find(results, "demo.%s.%s", name, what);

	if (!item) {
		fprintf(to, "missed: demo.%s.%s was not taken\n", name, what);
		(*ret_missed)++;
	}
	return item;
}

/* What the library says it freed, and what left the host, agree within 1%; no page was lost. */
static unsigned judge_backing(const struct results *results, const char *name, int is_own, FILE *to)
{
	unsigned missed = 0;
	const struct result *freed = find_of(results, name, "freed_bytes", &missed, to);
	const struct result *host = find_of(results, name, "host_freed_bytes", &missed, to);
	const struct result *corrupt = find_of(results, name, "corrupt_pages", &missed, to);

	if (freed && !is_own && !(freed->value > 0)) {
		fprintf(to, "missed: demo.%s.freed_bytes is 0, should be above\n", name);
		missed++;
	}
	if (freed && host && (host->value < freed->value * 0.99 || host->value > freed->value * 1.01)) {
		fprintf(to, "missed: demo.%s.host_freed_bytes is %.0f, not within 1%% of freed_bytes %.0f\n", name,
			host->value, freed->value);
		missed++;
	}
	if (corrupt && corrupt->value > 0) {
		fprintf(to, "missed: demo.%s.corrupt_pages is %.0f, should be 0\n", name, corrupt->value);
		missed++;
	}
	return missed;
}

/* Of what could have come back, so much did. */
static unsigned judge_share(const struct results *results, FILE *to)
{
	const char *key = "demo.replay.unreturned_share.2m";
	const struct result *share = results_find(results, "%s", key);
	const struct result *oracle = results_find(results, "demo.replay.oracle_share.2m");

	if (!share || !oracle)
		return not_taken(share ? "demo.replay.oracle_share.2m" : key, to);
	if (!(oracle->value > 0)) {
		fprintf(to, "missed: %s is %.4f: nothing was measured\n", oracle->key, oracle->value);
		return 1;
	}
	if (share->value <= oracle->value * 1.10)
		return 0;
	fprintf(to, "missed: %s is %.4f, should be at most 1.10 times %s %.4f\n", share->key, share->value, oracle->key,
		oracle->value);
	return 1;
}

unsigned judge(const struct results *results, const struct judge_case *about, FILE *to)
{
	unsigned missed = 0;

	for (uint32_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
		if (about->scope == JUDGE_BUILD || !bounds[i].only_build)
			missed += judge_bound(results, &bounds[i], about->ran, to);
	}
	for (uint32_t kind = 0; kind < BACKINGS; kind++) {
		if (about->ran & 1u << kind)
			missed += judge_backing(results, backing_name(kind), about->scope == JUDGE_OWN, to);
	}
	if (about->scope == JUDGE_BUILD && about->ran & SMALL_PAGES)
		missed += judge_share(results, to);
	return missed;
}

void judge_say(unsigned missed, const struct judge_case *about, FILE *to)
{
	const char *comma = ", ";

	if (missed)
		fprintf(to, "demo: %u missed", missed);
	else if (!about->ran)
		fprintf(to, "demo: nothing ran");
	else if (about->scope == JUDGE_OWN)
		fprintf(to, "demo: ran; the bounds are for the build trace");
	else
		fprintf(to, "demo: ok");
	for (uint32_t kind = 0; kind < BACKINGS; kind++) {
		if (!about->absent[kind].text[0])
			continue;
		fprintf(to, "%swithout %s", comma, about->absent[kind].text);
		comma = "; ";
	}
	fputc('\n', to);
}
