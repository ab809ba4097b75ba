/*
 * trace-encode: packs a recorded trace into the small form that the demo keeps beside its source.
 *
 *     perf record -e kmem:mm_page_alloc -e kmem:mm_page_free -a -- WORKLOAD
 *     perf script -F time,event,trace | trace-encode - workload.trace.zst
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace-pack.h"
#include "trace.h"

static int write_file(const char *path, const void *data, size_t bytes)
{
	FILE *file = fopen(path, "wb");
	int is_whole;

	if (!file)
		return -1;
	is_whole = fwrite(data, 1, bytes, file) == bytes;
	is_whole &= fclose(file) == 0;
	if (!is_whole)
		remove(path);
	return is_whole ? 0 : -1;
}

int main(int argc, char **argv)
{
	struct trace_error error = { "" };
	struct trace trace;
	void *data = NULL;
	size_t bytes = 0;
	int rc = 0;

	if (argc != 3 || strcmp(argv[1], "--help") == 0) {
		fprintf(argc == 2 ? stdout : stderr,
			"usage: trace-encode FROM TO\n"
			"FROM: perf script -F time,event,trace | us,op,pfn,order,migratetype | a packed trace; - reads "
			"standard input\n"
			"TO:   the packed trace\n");
		return argc == 2 && strcmp(argv[1], "--help") == 0 ? 0 : 2;
	}
	if (trace_load(argv[1], &trace, &error)) {
		fprintf(stderr, "trace-encode: %s\n", error.text);
		return 1;
	}
	if (trace_pack(&trace, &data, &bytes)) {
		fprintf(stderr, "trace-encode: %s: cannot be packed: out of memory\n", argv[1]);
		rc = 1;
	} else if (write_file(argv[2], data, bytes)) {
		fprintf(stderr, "trace-encode: %s: cannot be written\n", argv[2]);
		rc = 1;
	} else {
		printf("%zu events, %u allocations, %llu frees from before, %llu frees missed, %llu lines skipped: %zu "
		       "bytes\n",
		       trace.n, trace.allocs, (unsigned long long)trace.foreign, (unsigned long long)trace.lost,
		       (unsigned long long)trace.skipped, bytes);
	}
	free(data);
	trace_free(&trace);
	return rc;
}
