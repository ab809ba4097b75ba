/*
 * The demo as a user runs it, on a part of its trace: what it says must be there, add up, and hold its bounds.
 *
 * usage: integration-demo GIVEBACK TRACE-ENCODE
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define SAMPLE TRACE_DATA "/perf-script.txt"

static const char *giveback;
static const char *trace_encode;
static char directory[] = "/tmp/giveback-test-XXXXXX";

struct output {
	char text[1u << 16];
	int code;
};

static struct output output;

/* Runs a command line, both of its streams together. */
static int run(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int run(const char *format, ...)
{
	char command[2048];
	va_list args;
	size_t length = 0;
	FILE *pipe;
	int status;

	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	while (length < sizeof(output.text) - 1) {
		size_t got = fread(output.text + length, 1, sizeof(output.text) - 1 - length, pipe);

		if (got == 0)
			break;
		length += got;
	}
	output.text[length] = 0;
	status = pclose(pipe);
	assert_true(WIFEXITED(status));
	output.code = WEXITSTATUS(status);
	return output.code;
}

static int run_demo(const char *options)
{
	return run("'%s' --json %s/demo.json --picture %s/demo.svg %s 2>&1", giveback, directory, directory, options);
}

/* A figure that the demo must have printed, with its unit. */
static double figure(const char *key, const char *unit)
{
	const char *line = output.text;
	size_t length = strlen(key);
	char *end;
	double value;

	for (; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, "RESULT ", 7) == 0 && strncmp(line + 7, key, length) == 0 && line[7 + length] == ' ')
			break;
	}
	if (!line)
		fail_msg("no figure %s in:\n%s", key, output.text);
	value = strtod(line + 7 + length, &end);
	assert_int_equal(*end, ' ');
	assert_memory_equal(end + 1, unit, strlen(unit));
	return value;
}

static double figure_of(const char *backing, const char *what, const char *unit)
{
	char key[80];

	snprintf(key, sizeof(key), "demo.%s.%s", backing, what);
	return figure(key, unit);
}

static void pass_on_not_applicable(void)
{
	for (const char *line = output.text; (line = strstr(line, "not applicable:")); line++)
		printf("%.*s\n", (int)strcspn(line, "\n"), line);
}

/* Bounds that hold on any part of the trace. 0: this machine has no such memory. */
static int check_backing(const char *backing)
{
	char options[80];
	char line[80];
	double freed;
	double host;

	snprintf(options, sizeof(options), "--quick --reserve-hugetlb --backing %s", backing);
	if (run_demo(options) != 0)
		fail_msg("exit code %d:\n%s", output.code, output.text);
	pass_on_not_applicable();
	snprintf(line, sizeof(line), "%s: begins\n", backing);
	assert_non_null(strstr(output.text, line));
	if (strstr(output.text, "not applicable:")) {
		snprintf(line, sizeof(line), "\ndemo: nothing ran, without %s: ", backing);
		assert_non_null(strstr(output.text, line));
		return 0;
	}
	assert_non_null(strstr(output.text, "\ndemo: ok\n"));
	snprintf(line, sizeof(line), "%s: done\n", backing);
	assert_non_null(strstr(output.text, line));
	assert_null(strchr(output.text, '\r'));
	freed = figure_of(backing, "freed_bytes", "bytes");
	host = figure_of(backing, "host_freed_bytes", "bytes");
	assert_true(freed >= 4096);
	assert_true(host > freed * 0.99 && host < freed * 1.01);
	assert_true(figure_of(backing, "asked_bytes", "bytes") >= freed);
	assert_true(figure_of(backing, "corrupt_pages", "pages") == 0);
	assert_true(figure_of(backing, "checked_pages", "pages") > 100000);
	assert_true(figure("demo.replay.rereported_bytes", "bytes") == 0);
	assert_true(figure("demo.replay.zone_violations", "count") == 0);
	assert_true(figure("zone.metadata_bits_per_frame.untracked", "bits") > 1);
	assert_true(figure("zone.metadata_bits_per_frame.tracked", "bits") > 2);
	assert_true(figure("zone.metadata_bits_per_frame.ladder", "bits") >=
		    figure("zone.metadata_bits_per_frame.tracked", "bits") + 1);
	assert_true(figure("zone.metadata_bits_per_frame.strict", "bits") >=
		    figure("zone.metadata_bits_per_frame.tracked", "bits") + 1);
	return 1;
}

static void anon(void **state)
{
	(void)state;
	assert_int_equal(check_backing("anon"), 1);
	assert_true(figure_of("anon", "naive_host_freed_bytes", "bytes") > 0);
	assert_true(figure_of("anon", "naive_wrong_pages", "pages") == 0);
	assert_true(figure("demo.replay.unreturned_share.2m", "ratio") <= 1);
	assert_true(figure("demo.replay.oracle_share.2m", "ratio") <= 1);
	assert_true(figure("demo.replay.host_over_live.pressed", "ratio") >= 1);
	assert_true(figure("demo.replay.host_over_live.pressed", "ratio") <=
		    figure("demo.replay.host_over_live.2m", "ratio"));
	assert_true(figure("demo.replay.host_over_live.2m", "ratio") <=
		    figure("demo.replay.unmodified_over_live", "ratio"));
}

static void thp(void **state)
{
	(void)state;
	if (check_backing("thp"))
		assert_true(figure_of("thp", "naive_wrong_pages", "pages") == 0);
}

/* The call that everybody makes frees nothing here, and leaves the old data. */
static void memfd(void **state)
{
	(void)state;
	assert_int_equal(check_backing("memfd"), 1);
	assert_true(figure_of("memfd", "naive_host_freed_bytes", "bytes") == 0);
	assert_true(figure_of("memfd", "naive_wrong_pages", "pages") > 0);
}

static int pool_size(void)
{
	run("cat /proc/sys/vm/nr_hugepages 2>&1");
	return atoi(output.text);
}

static void hugetlb(void **state)
{
	int before = pool_size();

	(void)state;
	if (check_backing("hugetlb")) {
		/* a machine may have had enough; what was added is told */
		if (before == 0)
			assert_non_null(strstr(output.text, " huge pages reserved, given back at the end\n"));
		assert_true(figure_of("hugetlb", "naive_host_freed_bytes", "bytes") == 0);
		assert_true(figure_of("hugetlb", "naive_wrong_pages", "pages") > 0);
	}
	assert_int_equal(pool_size(), before);
}

/* The call frees here, and brings back what the file holds. */
static void file(void **state)
{
	(void)state;
	assert_int_equal(check_backing("file"), 1);
	assert_true(figure_of("file", "naive_host_freed_bytes", "bytes") > 0);
	assert_true(figure_of("file", "naive_wrong_pages", "pages") > 0);
}

/* The JSON file is whole, and has the figures that were printed. */
static void json_has_the_same_figures(void **state)
{
	char line[120];
	double freed;

	(void)state;
	assert_int_equal(run_demo("--quick --backing memfd"), 0);
	freed = figure_of("memfd", "freed_bytes", "bytes");
	assert_int_equal(run("cat %s/demo.json", directory), 0);
	snprintf(line, sizeof(line), "\"demo.memfd.freed_bytes\": {\"value\": %.0f, \"unit\": \"bytes\"}", freed);
	assert_non_null(strstr(output.text, line));
	assert_non_null(strstr(output.text, "\"samples\": [[50, "));
	assert_int_equal(
		run("python3 -m json.tool %s/demo.json 2>&1 >%s/json || ! command -v python3", directory, directory),
		0);
}

static void a_users_own_trace(void **state)
{
	(void)state;
	assert_int_equal(run_demo("--backing anon --quick --trace " SAMPLE), 0);
	assert_non_null(strstr(output.text, "\ndemo: ran; the bounds are for the build trace\n"));
	assert_null(strstr(output.text, "demo: ok"));
	assert_true(figure_of("anon", "corrupt_pages", "pages") == 0);
	assert_int_equal(run("'%s' %s %s/packed 2>&1", trace_encode, SAMPLE, directory), 0);
	assert_non_null(strstr(output.text, "200 events"));
	assert_int_equal(
		run("'%s' --quick --backing anon --json %s/demo.json --picture %s/demo.svg --trace %s/packed 2>&1",
		    giveback, directory, directory, directory),
		0);
	assert_non_null(strstr(output.text, "\ndemo: ran; the bounds are for the build trace\n"));
}

static void bad_traces_stop_it_with_their_place(void **state)
{
	(void)state;
	assert_int_equal(
		run("head -c 2000 '%s' >%s/cut; '%s' --trace %s/cut 2>&1", SAMPLE, directory, giveback, directory), 1);
	assert_non_null(strstr(output.text, "/cut:21: "));
	assert_int_equal(run("{ head -3 '%s'; echo garbage; } >%s/bad; '%s' --trace %s/bad 2>&1", SAMPLE, directory,
			     giveback, directory),
			 1);
	assert_non_null(strstr(output.text, "/bad:4: "));
	assert_null(strstr(output.text, "RESULT"));
	assert_int_equal(run("head -c 1000 '%s/build.trace.zst' >%s/cut; '%s' --trace %s/cut 2>&1", TRACE_DATA,
			     directory, giveback, directory),
			 1);
	assert_non_null(strstr(output.text, "/cut: byte 1000: the packed trace is cut off"));
	assert_int_equal(run("'%s' --trace %s/none 2>&1", giveback, directory), 1);
	assert_non_null(strstr(output.text, "/none: No such file"));
	assert_int_equal(run("'%s' %s/bad %s/out 2>&1", trace_encode, directory, directory), 1);
	assert_non_null(strstr(output.text, "/bad:4: "));
	assert_int_equal(run("test -e %s/out", directory), 1);
}

static void bad_options_are_named(void **state)
{
	(void)state;
	assert_int_equal(run_demo("--backing anon,paper"), 2);
	assert_non_null(strstr(output.text, "'paper' is no backing"));
	assert_int_equal(run_demo("--backing ''"), 2);
	assert_int_equal(run_demo("--nonsense"), 2);
	assert_int_equal(run_demo("extra"), 2);
	assert_non_null(strstr(output.text, "'extra'"));
	assert_int_equal(run_demo("--help"), 0);
	assert_non_null(strstr(output.text, "perf script -F time,event,trace"));
}

static int make_directory(void **state)
{
	(void)state;
	return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
	(void)state;
	return run("rm -r %s", directory);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(anon),
		cmocka_unit_test(thp),
		cmocka_unit_test(memfd),
		cmocka_unit_test(hugetlb),
		cmocka_unit_test(file),
		cmocka_unit_test(json_has_the_same_figures),
		cmocka_unit_test(a_users_own_trace),
		cmocka_unit_test(bad_traces_stop_it_with_their_place),
		cmocka_unit_test(bad_options_are_named),
	};

	if (argc != 3) {
		fprintf(stderr, "usage: integration-demo GIVEBACK TRACE-ENCODE\n");
		return 2;
	}
	giveback = argv[1];
	trace_encode = argv[2];
	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
