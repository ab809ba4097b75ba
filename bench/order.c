/*
 * Small orders, ageing and delay (S3 in README.md): what reporting costs and what it brings, for each least order, with and without
 * ageing, for three delays, beside a model of the Linux driver. Played on the recorded build, and on a churn of mixed orders.
 * All in the source's own time, so it counts and does not measure, but for the cost on the path of allocations.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "order/play.h"

#define N(a) (sizeof(a) / sizeof(*(a)))
#define SEED 20190213u
#define PATH_ROUNDS 3

static const uint32_t orders[] = { 0, 4, 9, 10 };
static const struct {
	uint64_t ns;
	const char *name;
} delays[] = { { 1000000, "0s" },
	       { 100000000, "0.1s" },
	       { 2000000000, "2s" } }; /* the least interval stands for none */
static const char *const ways[] = { "aged", "unaged", "kernel" };

/* [source][order][way][delay] */
static struct figures all[2][4][3][3];
static struct figures bare[2]; /* nobody reports */

/* the headline: a reporter that nobody has told anything, against the driver as it is, on the build and on other churns, too */
static const struct setting ours_by_default = { WAY_AGED, 9, 0 };
static const struct setting kernel_by_default = { WAY_KERNEL, 9, 2000000000 };
static const uint64_t churn_seeds[] = { SEED, 1, 77, 123456, 987654321 };
struct pair {
	struct figures ours, kernel;
};
static struct pair build, churns[N(churn_seeds)];

static struct {
	char key[80];
	double value;
} published[512];
static size_t n_published;

static void publish(const char *key, double value, const char *unit)
{
	if (n_published < N(published)) {
		snprintf(published[n_published].key, sizeof(published[0].key), "%s", key);
		published[n_published++].value = value;
	}
	printf("RESULT %s %.3f %s\n", key, value, unit);
}

static double per_gib(const struct figures *f)
{
	return f->returned == 0 ? 0 : (double)f->requests / ((double)f->returned / (double)(1u << 30));
}

/* The least and the most time of so many; the counts are the same each time. */
static int play_often(const struct source *source, const struct setting *setting, int rounds, struct figures *f)
{
	double least = 0, most = 0;
	for (int i = 0; i < rounds; i++) {
		if (play(source, setting, f) != 0)
			return 1;
		least = i == 0 || f->path_ns < least ? f->path_ns : least;
		most = f->path_ns > most ? f->path_ns : most;
	}
	f->path_ns = least;
	f->path_most_ns = most;
	return 0;
}

static int play_source(const struct source *source, size_t s, int rounds)
{
	struct setting setting = { .way = WAY_NONE, .order = 9, .delay_ns = 1 };
	if (play_often(source, &setting, rounds, &bare[s]) != 0)
		return 1;
	printf("\n%s: %zu allocations and frees, %" PRIu64 " MiB, %.1f s\n", source->name, source->n,
	       source->frames >> 8, (double)source->events[source->n - 1].ns / 1e9);
	printf("%5s %-7s %5s %9s %8s %10s %8s %7s %11s %8s\n", "order", "way", "delay", "requests", "GiB", "req./GiB",
	       "refault", "to 95%", "rereported", "unret.");
	printf("%5s %-7s %5s %9s %8s %10s %8s %7s %11s %8s\n", "", "", "", "", "", "", "MiB", "s", "MiB", "%");
	for (size_t o = 0; o < N(orders); o++)
		for (size_t w = 0; w < N(ways); w++)
			for (size_t d = 0; d < N(delays); d++) {
				struct figures *f = &all[s][o][w][d];
				setting = (struct setting) { (enum way)w, orders[o], delays[d].ns };
				if (play_often(source, &setting, delays[d].ns >= 1000000000 ? rounds : 1, f) != 0)
					return 1;
				printf("%5" PRIu32 " %-7s %5s %9" PRIu64 " %8.2f %10.1f %8.0f %7.2f %11.1f %8.1f\n",
				       orders[o], ways[w], delays[d].name, f->requests,
				       (double)f->returned / (1u << 30), per_gib(f), (double)f->refaults / (1 << 20),
				       f->to_95_s, (double)f->rereported / (1 << 20), 100 * f->unreturned);
			}
	return 0;
}

static int play_pair(const struct source *source, struct pair *pair)
{
	return play(source, &ours_by_default, &pair->ours) != 0 || play(source, &kernel_by_default, &pair->kernel) != 0;
}

static int play_defaults(void)
{
	struct source source;
	if (source_trace(&source, BENCH_TRACE) != 0)
		return 1;
	int r = play_pair(&source, &build);
	source_free(&source);
	for (size_t i = 0; r == 0 && i < N(churn_seeds); i++) {
		if (source_churn(&source, churn_seeds[i]) != 0)
			return 1;
		r = play_pair(&source, &churns[i]);
		source_free(&source);
	}
	return r;
}

/* SOURCE is in the key for the churn; the trace has none. */
static void key_of(char *key, size_t s, uint32_t order, const char *what)
{
	snprintf(key, sizeof(published[0].key), "order.%s%" PRIu32 ".%s", s == 0 ? "" : "churn.", order, what);
}

static void publish_order(size_t s, size_t o, size_t w, size_t d)
{
	const struct figures *f = &all[s][o][w][d];
	char key[80], what[64];
	const char *suffix = d == 2 ? "" : delays[d].name, *dot = d == 2 ? "" : ".";
	const struct {
		const char *name, *unit;
		double value;
	} figures[] = {
		{ "requests_per_gib", "requests", per_gib(f) },
		{ "refaults_mib", "MiB", (double)f->refaults / (1 << 20) },
		{ "seconds_to_95pct", "s", f->to_95_s },
		{ "unreturned_pct", "%", 100 * f->unreturned },
		{ "unreturned_gib_s", "GiBs", f->unreturned_gibs },
	};
	for (size_t i = 0; i < N(figures); i++) {
		snprintf(what, sizeof(what), "%s.%s%s%s", figures[i].name, ways[w], dot, suffix);
		key_of(key, s, orders[o], what);
		publish(key, figures[i].value, figures[i].unit);
	}
}

/* Requests for each GiB, or memory that was not back, of ours over the driver's: the build and a churn together. */
static double requests_ratio(const struct pair *a, const struct pair *b)
{
	struct figures ours = { .requests = a->ours.requests + b->ours.requests,
				.returned = a->ours.returned + b->ours.returned };
	struct figures kernel = { .requests = a->kernel.requests + b->kernel.requests,
				  .returned = a->kernel.returned + b->kernel.returned };
	return per_gib(&ours) / per_gib(&kernel);
}

static double unreturned_ratio(const struct pair *a, const struct pair *b)
{
	return (a->ours.unreturned_gibs + b->ours.unreturned_gibs) /
	       (a->kernel.unreturned_gibs + b->kernel.unreturned_gibs);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Order 9 and nothing said: the driver with its 2 s, the reporter with its own interval. Median over the churns. */
static void publish_headline(void)
{
	double requests[N(churn_seeds)], unreturned[N(churn_seeds)];
	for (size_t i = 0; i < N(churn_seeds); i++) {
		const struct pair *c = &churns[i];
		requests[i] = requests_ratio(&build, c);
		unreturned[i] = unreturned_ratio(&build, c);
		printf("order 9, defaults, the build and churn %" PRIu64 ": %" PRIu64 " and %" PRIu64
		       " requests, %.2f and %.2f GiB; the driver's %" PRIu64 " and %" PRIu64 ", %.2f and %.2f\n",
		       churn_seeds[i], build.ours.requests, c->ours.requests, (double)build.ours.returned / (1u << 30),
		       (double)c->ours.returned / (1u << 30), build.kernel.requests, c->kernel.requests,
		       (double)build.kernel.returned / (1u << 30), (double)c->kernel.returned / (1u << 30));
	}
	qsort(requests, N(requests), sizeof(*requests), by_value);
	qsort(unreturned, N(unreturned), sizeof(*unreturned), by_value);
	publish("order.9.aged.vs_kernel_policy", requests[N(requests) / 2], "ratio");
	publish("order.9.aged.vs_kernel_policy.worst", requests[N(requests) - 1], "ratio");
	publish("order.9.aged.unreturned_vs_kernel_policy", unreturned[N(unreturned) / 2], "ratio");
	publish("order.9.aged.unreturned_vs_kernel_policy.worst", unreturned[N(unreturned) - 1], "ratio");
}

/* Against the kernel's way, order for order, at a delay of 2 s for both. */
static void publish_versus(size_t s, size_t o)
{
	const struct figures *ours = &all[s][o][WAY_AGED][2], *kernel = &all[s][o][WAY_KERNEL][2];
	char key[80];
	if (kernel->requests == 0 || kernel->unreturned_gibs <= 0)
		return;
	key_of(key, s, orders[o], "aged.vs_kernel_policy.2s");
	publish(key, per_gib(ours) / per_gib(kernel), "ratio");
	key_of(key, s, orders[o], "aged.unreturned_vs_kernel_policy.2s");
	publish(key, ours->unreturned_gibs / kernel->unreturned_gibs, "ratio");
	printf("order %" PRIu32 ", %s: ns an allocation or free, least and most: %.1f and %.1f; bare: %.1f and %.1f\n",
	       orders[o], s == 0 ? "trace" : "churn", ours->path_ns, ours->path_most_ns, bare[s].path_ns,
	       bare[s].path_most_ns);
	key_of(key, s, orders[o], "aged.path_vs_bare");
	publish(key, ours->path_ns / bare[s].path_ns, "ratio");
}

static void publish_all(void)
{
	uint64_t ours = 0, kernel = 0, resent[2] = { 0 };
	for (size_t s = 0; s < 2; s++)
		for (size_t o = 0; o < N(orders); o++) {
			for (size_t w = 0; w < N(ways); w++)
				for (size_t d = 0; d < N(delays); d++) {
					publish_order(s, o, w, d);
					resent[w == WAY_KERNEL] += all[s][o][w][d].resent;
					if (w == WAY_KERNEL)
						kernel += all[s][o][w][d].rereported;
					else
						ours += all[s][o][w][d].rereported;
				}
			publish_versus(s, o);
		}
	publish_headline();
	publish("order.rereported_bytes", (double)ours, "bytes");
	publish("order.rereported_bytes.kernel", (double)kernel, "bytes");
	publish("order.resent_bytes", (double)resent[0], "bytes");
	publish("order.resent_bytes.kernel", (double)resent[1], "bytes");
	double nine = per_gib(&all[0][2][WAY_AGED][2]), ten = per_gib(&all[0][3][WAY_AT_ONCE][2]);
	printf("order 9 aged / order 10 unaged: %.2f (bound 1.1)\n", ten > 0 ? nine / ten : 0);
}

static int write_json(const char *path)
{
	FILE *to = fopen(path, "w");
	if (to == NULL)
		return fprintf(stderr, "order: cannot write the JSON\n"), 1;
	fprintf(to, "{\n");
	for (size_t i = 0; i < n_published; i++)
		fprintf(to, "  \"%s\": %.6f%s\n", published[i].key, published[i].value, i + 1 < n_published ? "," : "");
	fprintf(to, "}\n");
	return fclose(to) != 0;
}

int main(int argc, char **argv)
{
	const char *json = NULL;
	struct source source;
	int rounds = PATH_ROUNDS;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--json") == 0 && i + 1 < argc)
			json = argv[++i];
		else if (strcmp(argv[i], "--quick") == 0)
			rounds = 1;
		else
			return fprintf(stderr, "usage: %s [--quick] [--json FILE]\n", argv[0]), 2;
	}
	for (size_t s = 0; s < 2; s++) {
		if ((s == 0 ? source_trace(&source, BENCH_TRACE) : source_churn(&source, SEED)) != 0)
			return 1;
		int r = play_source(&source, s, rounds);
		source_free(&source);
		if (r != 0)
			return 1;
	}
	if (play_defaults() != 0)
		return 1;
	publish_all();
	return json != NULL ? write_json(json) : 0;
}
