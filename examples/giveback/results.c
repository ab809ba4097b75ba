#include "results.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static void add(struct results *results, double value, const char *unit, int is_whole, const char *key, va_list args)
{
	struct result *item = &results->items[results->n];

	if (results->n == RESULTS_MAX)
		abort(); /* the number of figures is known when this is written */
	results->n++;
	vsnprintf(item->key, sizeof(item->key), key, args);
	snprintf(item->unit, sizeof(item->unit), "%s", unit);
	item->value = value;
	item->is_whole = is_whole;
}

void results_count(struct results *results, uint64_t value, const char *unit, const char *key, ...)
{
	va_list args;

	va_start(args, key);
	add(results, (double)value, unit, 1, key, args);
	va_end(args);
}

void results_ratio(struct results *results, double value, const char *unit, const char *key, ...)
{
	va_list args;

	va_start(args, key);
	add(results, value, unit, 0, key, args);
	va_end(args);
}

const struct result *results_find(const struct results *results, const char *key, ...)
{
	char wanted[sizeof(results->items[0].key)];
	va_list args;

	va_start(args, key);
	vsnprintf(wanted, sizeof(wanted), key, args);
	va_end(args);
	for (uint32_t i = 0; i < results->n; i++) {
		if (strcmp(results->items[i].key, wanted) == 0)
			return &results->items[i];
	}
	return NULL;
}

static void print_value(const struct result *item, FILE *to)
{
	if (item->is_whole)
		fprintf(to, "%" PRIu64, (uint64_t)item->value);
	else
		fprintf(to, "%.4f", item->value);
}

void results_print(const struct results *results, FILE *to)
{
	for (uint32_t i = 0; i < results->n; i++) {
		fprintf(to, "RESULT %s ", results->items[i].key);
		print_value(&results->items[i], to);
		fprintf(to, " %s\n", results->items[i].unit);
	}
}

void results_print_json(const struct results *results, FILE *to)
{
	for (uint32_t i = 0; i < results->n; i++) {
		fprintf(to, "%s    \"%s\": {\"value\": ", i ? ",\n" : "", results->items[i].key);
		print_value(&results->items[i], to);
		fprintf(to, ", \"unit\": \"%s\"}", results->items[i].unit);
	}
}
