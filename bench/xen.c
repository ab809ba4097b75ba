/*
 * What batches and large extents gain when a domain is built: on a real Xen, beside the software model of bench `domain`.
 *
 * The real figures are measured where Xen is: in Domain-0 of an emulated machine (`./dev peers xen measure` fetches and boots
 * it, tests/peers/xen/measure.c is what is timed there). This program has it done, repeats its RESULT lines, and puts
 * the model's ratios of the same names beside them. An emulator makes every entry into the hypervisor dear, and the model has
 * no memory behind its frames: only ratios are published, and neither is the other's confirmation.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "domain/host.h"

#define ROUNDS 7u
#define GIB 16u
#define FIGURES 32u
#define PEER "cd '" BENCH_DIR "/..' && ./dev peers xen measure"

static struct figure {
	char key[80];
	char unit[16];
	double value;
} figures[FIGURES];
static size_t n_figures;

static void publish(const char *key, double value, const char *unit)
{
	if (n_figures == FIGURES)
		return;
	struct figure *f = &figures[n_figures++];
	snprintf(f->key, sizeof(f->key), "%s", key);
	snprintf(f->unit, sizeof(f->unit), "%s", unit);
	f->value = value;
	printf("RESULT %s %.4g %s\n", f->key, f->value, f->unit);
}

/* 0 = every case that was asked for passed, and there were figures */
static int measure_real(void)
{
	char line[512];
	FILE *peer = popen(PEER, "r");
	if (peer == NULL)
		return -1;
	while (fgets(line, sizeof(line), peer) != NULL) {
		char key[80], unit[16];
		double value;
		if (sscanf(line, "RESULT %79s %lf %15s", key, &value, unit) == 3)
			publish(key, value, unit);
		else
			fputs(line, stdout);
	}
	return pclose(peer) == 0 && n_figures != 0 ? 0 : -1;
}

static double cpu_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;
	return (*x > *y) - (*x < *y);
}

/* One domain of GIB GiB comes and goes; its creation is timed. */
static int create(struct host *host, struct domain *domain, enum way way, uint32_t order, double *ret_seconds)
{
	const uint64_t frames = GIB * (uint64_t)PAGEHINT_SECTION_FRAMES;
	double start = cpu_seconds();
	host_create(host, domain, way, order, frames >> order, NULL);
	*ret_seconds = cpu_seconds() - start;
	if (host->failed || host_out(host) != frames)
		return -1;
	host_destroy(host, domain, order);
	return host->failed ? -1 : 0;
}

static int measure_model(void)
{
	static struct host host;
	static struct domain domain;
	static const struct {
		enum way way;
		uint32_t order;
	} ways[] = { { WAY_BLOCK, 0 }, { WAY_POPULATE, 0 }, { WAY_POPULATE, 9 } };
	double seconds[3][ROUNDS];
	int r = host_open(&host, 1);
	if (r < 0)
		return r;
	for (unsigned round = 0; round < ROUNDS; round++)
		for (unsigned w = 0; w < 3 && r == 0; w++)
			r = create(&host, &domain, ways[w].way, ways[w].order, &seconds[w][round]);
	for (unsigned w = 0; w < 3; w++)
		qsort(seconds[w], ROUNDS, sizeof(seconds[w][0]), by_value);
	if (r == 0) {
		publish("xen.model.populate_4k.batch_vs_single", seconds[0][ROUNDS / 2] / seconds[1][ROUNDS / 2], "x");
		publish("xen.model.populate_2m_vs_4k_batch", seconds[1][ROUNDS / 2] / seconds[2][ROUNDS / 2], "x");
	}
	free(domain.runs);
	host_close(&host);
	return r;
}

static int write_json(const char *path)
{
	FILE *out = fopen(path, "w");
	if (out == NULL)
		return -1;
	fprintf(out, "{\"bench\": \"xen\", \"results\": {");
	for (size_t i = 0; i < n_figures; i++)
		fprintf(out, "%s\n  \"%s\": {\"value\": %.9g, \"unit\": \"%s\"}", i == 0 ? "" : ",", figures[i].key,
			figures[i].value, figures[i].unit);
	fprintf(out, "\n}}\n");
	return fclose(out);
}

int main(int argc, char **argv)
{
	const char *json = NULL;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--json") == 0 && i + 1 < argc) {
			json = argv[++i];
		} else if (strcmp(argv[i], "--quick") != 0) {
			fprintf(stderr, "usage: %s [--quick] [--json FILE]      (--quick changes nothing)\n", argv[0]);
			return 2;
		}
	}
	printf("Xen is booted in an emulator, whatever this machine is, and measured there: ratios mean something, "
	       "times do not\n");
	fflush(stdout);
	if (measure_real() < 0) {
		fprintf(stderr, "xen: the peer did not come to an end: nothing is published of it\n");
		return 1;
	}
	if (measure_model() < 0) {
		fprintf(stderr, "xen: check failed: the model's domain is not what it should be\n");
		return 1;
	}
	return json == NULL || write_json(json) == 0 ? 0 : 1;
}
