#include "figures.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const way_names[WAYS] = { "none", "block", "alloc", "batch", "populate" };

static struct {
	char key[64];
	double value;
	char unit[16];
} published[128];
static size_t n_published;

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

double figures_median(const double *v, unsigned n)
{
	double sorted[MAX_ROUNDS];
	memcpy(sorted, v, n * sizeof(*v));
	qsort(sorted, n, sizeof(*v), by_value);
	return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

double figures_min(const double *v, unsigned n)
{
	double least = v[0];
	for (unsigned i = 1; i < n; i++)
		least = v[i] < least ? v[i] : least;
	return least;
}

double figures_max(const double *v, unsigned n)
{
	double most = v[0];
	for (unsigned i = 1; i < n; i++)
		most = v[i] > most ? v[i] : most;
	return most;
}

void figures_table(const struct figure *f, size_t n)
{
	printf("%-18s %6s %12s %12s %8s %10s %12s %8s %8s\n", "case (GiB last)", "rounds", "create min", "median [s]",
	       "spread", "ns/extent", "destroy [s]", "spread", "flushes");
	for (size_t i = 0; i < n; i++) {
		double create = figures_median(f[i].create, f[i].n), destroy = figures_median(f[i].destroy, f[i].n);
		double extents = (double)f[i].gib * PAGEHINT_SECTION_FRAMES / (double)(1u << f[i].order);
		printf("%-18s %6u %12.6f %12.6f %7.1f%% %10.1f %12.6f %7.1f%% %8" PRIu64 "\n", f[i].name, f[i].n,
		       figures_min(f[i].create, f[i].n), create,
		       (figures_max(f[i].create, f[i].n) - figures_min(f[i].create, f[i].n)) / create * 100,
		       create / extents * 1e9, destroy,
		       (figures_max(f[i].destroy, f[i].n) - figures_min(f[i].destroy, f[i].n)) / destroy * 100,
		       f[i].flushes);
	}
}

void figures_publish(const char *key, double value, const char *unit)
{
	printf("RESULT %s %.6g %s\n", key, value, unit);
	if (n_published == sizeof(published) / sizeof(*published))
		abort();
	snprintf(published[n_published].key, sizeof(published[0].key), "%s", key);
	snprintf(published[n_published].unit, sizeof(published[0].unit), "%s", unit);
	published[n_published++].value = value;
}

static void write_series(FILE *to, const char *name, const double *v, unsigned n)
{
	fprintf(to, ", \"%s\": [", name);
	for (unsigned i = 0; i < n; i++)
		fprintf(to, "%s%.6g", i ? ", " : "", v[i]);
	fputc(']', to);
}

int figures_json(const char *path, const struct figure *f, size_t n, unsigned long seed)
{
	FILE *to = fopen(path, "w");
	if (to == NULL)
		return -errno;
	fprintf(to,
		"{\n  \"bench\": \"domain\", \"seed\": %lu, \"model\": \"software: %u CPUs, %u GiB of frames, metadata "
		"only; CPU seconds\",\n  \"cases\": [",
		seed, HOST_CPUS, HOST_GIB);
	for (size_t i = 0; i < n; i++) {
		fprintf(to, "%s\n    {\"name\": \"%s\", \"way\": \"%s\", \"gib\": %u, \"flushes\": %" PRIu64,
			i ? "," : "", f[i].name, way_names[f[i].way], f[i].gib, f[i].flushes);
		write_series(to, "create_s", f[i].create, f[i].n);
		write_series(to, "destroy_s", f[i].destroy, f[i].n);
		fputc('}', to);
	}
	fprintf(to, "\n  ],\n  \"results\": {");
	for (size_t i = 0; i < n_published; i++)
		fprintf(to, "%s\n    \"%s\": {\"value\": %.6g, \"unit\": \"%s\"}", i ? "," : "", published[i].key,
			published[i].value, published[i].unit);
	fprintf(to, "\n  }\n}\n");
	int bad = ferror(to);
	return fclose(to) != 0 || bad ? -EIO : 0;
}
