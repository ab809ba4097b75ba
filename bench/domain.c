/*
 * How long it takes to create and destroy a domain of 1 to 1500 GiB, by when it is decided which CPUs must flush: for each
 * frame, for each allocation, or for each batch of 512 extents (S4 in README.md). On a software model of a host (domain/host.h):
 * allocation and filter are real, and their CPU time is what is judged; flushes are only counted.
 *
 * Two situations. Alone: a domain is made where another has been torn down before; this is timed. Beside: it is made while
 * another is torn down extent by extent, so that every extent that it gets was freed a moment ago; here flushes are counted.
 *
 * Not through bench_main: sizes differ by 1500, so not every case can have the same number of rounds.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "domain/figures.h"
#include "domain/host.h"

#define GIB_FRAMES ((uint64_t)PAGEHINT_SECTION_FRAMES)
#define ORDER_4K 0u
#define ORDER_2M 9u
#define BESIDE_GIB 2u
#define MAX_FIGURES 96u
#define LEAST_SECONDS 0.01
#define MOST_REPEATS 300u

/* rounds by size: seven where a round is short */
struct plan {
	uint32_t order;
	enum way way;
	unsigned rounds[6]; /* of each of `sizes`; 0 = not measured */
};
static const uint32_t sizes[6] = { 1, 4, 16, 64, 256, 1500 };

static const struct plan whole[] = {
	{ ORDER_4K, WAY_NONE, { 7, 7, 7, 7, 3, 1 } },     { ORDER_4K, WAY_POPULATE, { 7, 7, 7, 7, 7, 7 } },
	{ ORDER_4K, WAY_BATCH, { 7, 7, 7, 7, 3, 1 } },    { ORDER_4K, WAY_ALLOC, { 7, 7, 7, 3, 1, 0 } },
	{ ORDER_4K, WAY_BLOCK, { 7, 7, 7, 3, 1, 0 } },    { ORDER_2M, WAY_NONE, { 7, 7, 7, 7, 7, 7 } },
	{ ORDER_2M, WAY_POPULATE, { 7, 7, 7, 7, 7, 7 } }, { ORDER_2M, WAY_BATCH, { 7, 7, 7, 7, 7, 7 } },
	{ ORDER_2M, WAY_ALLOC, { 7, 7, 7, 7, 7, 7 } },    { ORDER_2M, WAY_BLOCK, { 7, 7, 7, 3, 1, 1 } },
};
static const struct plan quick[] = {
	{ ORDER_4K, WAY_NONE, { 7, 3, 3 } },     { ORDER_4K, WAY_POPULATE, { 7, 3, 3 } },
	{ ORDER_4K, WAY_BATCH, { 7, 3, 3 } },    { ORDER_4K, WAY_ALLOC, { 7, 3, 3 } },
	{ ORDER_4K, WAY_BLOCK, { 7, 3, 3 } },    { ORDER_2M, WAY_NONE, { 7, 7, 7 } },
	{ ORDER_2M, WAY_POPULATE, { 7, 7, 7 } }, { ORDER_2M, WAY_BATCH, { 7, 7, 7 } },
	{ ORDER_2M, WAY_ALLOC, { 7, 7, 7 } },    { ORDER_2M, WAY_BLOCK, { 7, 3, 3 } },
};

static struct figure figures[MAX_FIGURES];
static size_t n_figures;
static struct host host;
static struct domain domain, other;

static double cpu_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static const char *extent_name(uint32_t order)
{
	return order == ORDER_4K ? "4k" : "2m";
}

static void lay_out(const struct plan *plans, size_t n)
{
	for (size_t p = 0; p < n; p++)
		for (size_t s = 0; s < 6; s++) {
			if (plans[p].rounds[s] == 0)
				continue;
			struct figure *f = &figures[n_figures++];
			f->order = plans[p].order;
			f->way = plans[p].way;
			f->gib = sizes[s];
			f->rounds = plans[p].rounds[s];
			snprintf(f->name, sizeof(f->name), "%s.%s.%u", extent_name(f->order), way_names[f->way],
				 f->gib);
		}
}

/* Is the domain what it should be, and were flushes asked for as promised? 0 = yes. */
static int wrong(const struct figure *f, uint64_t frames, uint64_t flushes, uint64_t batches)
{
	uint64_t has = 0;
	for (size_t i = 0; i < domain.n; i++)
		has += domain.runs[i].frames;
	if (has != frames || host_out(&host) != frames)
		return 1;
	if (f->way == WAY_NONE)
		return flushes != 0;
	return (f->way == WAY_BATCH || f->way == WAY_POPULATE) && flushes > batches;
}

/* One domain comes and goes; adds the times. */
static int once(struct figure *f, double *create, double *destroy)
{
	uint64_t frames = f->gib * GIB_FRAMES, flushes = host.flushes, batches = host.batches;
	double start = cpu_seconds();
	host_create(&host, &domain, f->way, f->order, frames >> f->order, NULL);
	*create += cpu_seconds() - start;
	if (host.failed || wrong(f, frames, host.flushes - flushes, host.batches - batches)) {
		fprintf(stderr, "domain.%s: check failed: the domain is not what it should be\n", f->name);
		return 1;
	}
	start = cpu_seconds();
	host_destroy(&host, &domain, f->order);
	*destroy += cpu_seconds() - start;
	f->flushes = host.flushes - flushes;
	if (host.failed || host_out(&host) != 0) {
		fprintf(stderr, "domain.%s: check failed: frames are left over\n", f->name);
		return 1;
	}
	return 0;
}

/* Small domains come and go several times in a round, so that it is long enough to be timed; the round's figure is the mean. */
static int one_round(struct figure *f)
{
	double create = 0, destroy = 0;
	unsigned n = 0;
	do {
		if (once(f, &create, &destroy) != 0)
			return 1;
		n++;
	} while (create < LEAST_SECONDS && n < MOST_REPEATS);
	f->destroy[f->n] = destroy / n;
	f->create[f->n++] = create / n;
	return 0;
}

static int run_rounds(unsigned long seed)
{
	size_t order[MAX_FIGURES];
	srand((unsigned)seed);
	for (unsigned round = 0;; round++) {
		size_t n = 0;
		for (size_t i = 0; i < n_figures; i++)
			if (figures[i].rounds > round)
				order[n++] = i;
		if (n == 0)
			return 0;
		for (size_t i = n; i > 1; i--) {
			size_t k = (size_t)rand() % i, kept = order[i - 1];
			order[i - 1] = order[k];
			order[k] = kept;
		}
		for (size_t i = 0; i < n; i++)
			if (one_round(&figures[order[i]]) != 0)
				return 1;
		if (isatty(2))
			fprintf(stderr, "\rdomain: round %u ", round + 1);
	}
}

/* A domain takes the place of another that is torn down meanwhile: how many flushes a TiB. */
static int beside(uint32_t order, enum way way)
{
	uint64_t extents = BESIDE_GIB * GIB_FRAMES >> order;
	char key[64];
	host_create(&host, &other, WAY_BATCH, order, extents, NULL);
	host.flushes = host.batches = 0;
	host_create(&host, &domain, way, order, extents, &other);
	uint64_t flushes = host.flushes;
	struct figure as = { .way = way };
	if (host.failed || wrong(&as, BESIDE_GIB * GIB_FRAMES, flushes, host.batches)) {
		fprintf(stderr, "domain.%s: check failed\n", way_names[way]);
		return 1;
	}
	host_destroy(&host, &domain, order);
	snprintf(key, sizeof(key), "domain.%s.flushes_per_tib.%s", extent_name(order), way_names[way]);
	figures_publish(key, (double)flushes * 1024 / BESIDE_GIB, "flushes");
	return 0;
}

static const struct figure *find(uint32_t order, enum way way, uint32_t gib)
{
	for (size_t i = 0; i < n_figures; i++)
		if (figures[i].order == order && figures[i].way == way && figures[i].gib == gib)
			return &figures[i];
	return NULL;
}

/* ratio of medians of two cases, when both were measured */
static void publish_ratio(const char *key, const struct figure *a, const struct figure *b)
{
	if (a != NULL && b != NULL)
		figures_publish(key, figures_median(a->create, a->n) / figures_median(b->create, b->n), "x");
}

static void publish_times(uint32_t order)
{
	const char *extent = extent_name(order);
	char key[64];
	for (int way = WAY_BLOCK; way < WAYS; way++) {
		snprintf(key, sizeof(key), "domain.%s.%s.create_16", extent, way_names[way]);
		const struct figure *f = find(order, (enum way)way, 16);
		figures_publish(key, figures_median(f->create, f->n), "s");
		snprintf(key, sizeof(key), "domain.%s.%s.vs_block", extent, way_names[way]);
		if (way != WAY_BLOCK)
			publish_ratio(key, f, find(order, WAY_BLOCK, 16));
	}
	snprintf(key, sizeof(key), "domain.%s.filter_cost", extent); /* a whole populate / one without a filter */
	publish_ratio(key, find(order, WAY_POPULATE, 16), find(order, WAY_NONE, 16));
	snprintf(key, sizeof(key), "domain.%s.1500_over_1", extent); /* what an embedder would write */
	publish_ratio(key, find(order, WAY_POPULATE, 1500), find(order, WAY_POPULATE, 1));
	snprintf(key, sizeof(key), "domain.%s.batch.1500_over_1", extent); /* extents allocated one by one */
	publish_ratio(key, find(order, WAY_BATCH, 1500), find(order, WAY_BATCH, 1));
}

static int publish(void)
{
	for (uint32_t order = ORDER_4K; order <= ORDER_2M; order += ORDER_2M) {
		for (int way = WAY_BLOCK; way < WAYS; way++)
			if (beside(order, (enum way)way) != 0)
				return 1;
		publish_times(order);
	}
	uint64_t bytes;
	struct pagehint_flush_opts opts = { .struct_size = sizeof(opts), .max_sections = HOST_GIB, .cpus = HOST_CPUS };
	if (pagehint_flush_size(&opts, &bytes) != 0)
		return 1;
	figures_publish("domain.stamp_bits_per_frame", (double)bytes * 8 / (HOST_GIB * (double)GIB_FRAMES), "bits");
	return 0;
}

static int picture(const char *json)
{
	char path[4096];
	size_t length = strlen(json);
	if (length < 5 || strcmp(json + length - 5, ".json") != 0 || length >= sizeof(path))
		return 0;
	snprintf(path, sizeof(path), "%.*s.svg", (int)(length - 5), json);
	int r = figures_plot(path, BENCH_DIR "/domain/published.csv", figures, n_figures);
	if (r == 0)
		printf("picture: %s\n", path);
	else
		fprintf(stderr, "no picture: no gnuplot, or %s cannot be written\n", path);
	return r;
}

int main(int argc, char **argv)
{
	const char *json = NULL;
	unsigned long seed = 1;
	int is_quick = 0;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--quick") == 0)
			is_quick = 1;
		else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
			seed = strtoul(argv[++i], NULL, 0);
		else if (strcmp(argv[i], "--json") == 0 && i + 1 < argc)
			json = argv[++i];
		else {
			fprintf(stderr, "usage: %s [--quick] [--seed N] [--json FILE (and a .svg beside it)]\n",
				argv[0]);
			return 2;
		}
	}
	lay_out(is_quick ? quick : whole, is_quick ? sizeof(quick) / sizeof(*quick) : sizeof(whole) / sizeof(*whole));
	int r = host_open(&host, seed + 1);
	if (r < 0) {
		fprintf(stderr, "domain: %s\n", strerror(-r));
		return 1;
	}
	printf("domain: a software model of %u CPUs and %u GiB of frames, without memory behind; times are CPU time "
	       "of\n"
	       "allocation and filter, flushes are counted and cost next to nothing here; order drawn with seed %lu\n",
	       HOST_CPUS, HOST_GIB, seed);
	/* once unmeasured: metadata is touched, and everything has a stamp */
	struct figure warm = { .name = "warm", .order = ORDER_4K, .way = WAY_POPULATE, .gib = is_quick ? 16 : 1500 };
	if (one_round(&warm) != 0 || run_rounds(seed) != 0)
		return 1;
	figures_table(figures, n_figures);
	if (publish() != 0)
		return 1;
	r = json == NULL ? 0 : figures_json(json, figures, n_figures, seed);
	if (r < 0)
		fprintf(stderr, "%s: %s\n", json, strerror(-r));
	if (r == 0 && json != NULL)
		r = picture(json);
	free(domain.runs);
	free(other.runs);
	host_close(&host);
	return r == 0 ? 0 : 1;
}
