#include <errno.h>
#include <inttypes.h>

#include "report.h"

static void print_text(const char *text, FILE *to)
{
	fputc('"', to);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			fprintf(to, "\\%c", c);
		else if (c < 0x20)
			fprintf(to, "\\u%04x", c);
		else
			fputc(c, to);
	}
	fputc('"', to);
}

static void print_sample(const struct replay_sample *sample, FILE *to)
{
	fprintf(to, "[%" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64 "]", sample->now_ns / 1000000,
		sample->live, sample->host, sample->never, sample->oracle);
}

static void print_run(const struct run *run, FILE *to)
{
	const struct replay_result *replay = &run->replay;

	fprintf(to, "    \"%s\": {\n      \"columns\": [\"ms\", \"live\", \"host\", \"never_returned\", \"oracle\"],\n",
		backing_name(run->kind));
	fprintf(to, "      \"events\": %" PRIu64 ", \"foreign_frees\": %" PRIu64 ", \"region_bytes\": %" PRIu64 ",\n",
		replay->events, replay->foreign, run->bytes);
	fprintf(to,
		"      \"kept_bytes\": %" PRIu64 ", \"failed_bytes\": %" PRIu64 ", \"absent_bytes\": %" PRIu64 ",\n",
		replay->backend.kept, replay->backend.failed, replay->backend.absent);
	fprintf(to, "      \"ended\": ");
	print_sample(&replay->ended, to);
	fprintf(to, ", \"pressed\": ");
	print_sample(&replay->pressed, to);
	fprintf(to, ",\n      \"samples\": [");
	for (size_t i = 0; i < replay->n_samples; i++) {
		fprintf(to, "%s", i ? ", " : "");
		print_sample(&replay->samples[i], to);
	}
	fprintf(to, "]\n    }");
}

int report_json(const char *path, const char *trace, const struct run *runs, uint32_t n, const struct results *results)
{
	FILE *file = fopen(path, "we");
	const char *comma = "";
	int is_bad;

	if (!file)
		return -errno;
	fprintf(file, "{\n  \"trace\": ");
	print_text(trace, file);
	fprintf(file, ",\n  \"results\": {\n");
	results_print_json(results, file);
	fprintf(file, "\n  },\n  \"runs\": {\n");
	for (uint32_t i = 0; i < n; i++) {
		if (!runs[i].is_done)
			continue;
		fprintf(file, "%s", comma);
		print_run(&runs[i], file);
		comma = ",\n";
	}
	fprintf(file, "\n  }\n}\n");
	is_bad = ferror(file);
	is_bad |= fclose(file);
	return is_bad ? -EIO : 0;
}
