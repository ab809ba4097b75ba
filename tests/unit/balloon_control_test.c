/* What may be asked of pagehint-balloon: every line gets one answer, and changes what it says, or nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>
#include <json-c/json.h>

#include <pagehint/balloon.h>

#include "support/chance.h"
#include "support/rounds.h"

#include "clients.h"
#include "control.h"
#include "report.h"

static struct {
	uint64_t seed;
	unsigned round;
} m;

static int set_up(void **context)
{
	struct engine *engine = calloc(1, sizeof(*engine));
	const struct balloon_options options = { .features = PAGEHINT_BALLOON_F_ALL,
						 .numbering = PAGEHINT_BALLOON_NUMBERING_NEGOTIATED };
	struct balloon_state *kept = state_new(&options);
	*context = engine;
	return engine == NULL || kept == NULL || engine_open(engine, &options, kept) != 0;
}

static int tear_down(void **context)
{
	struct engine *engine = *context;
	engine_close(engine);
	munmap(engine->state, sizeof(*engine->state));
	free(engine);
	return 0;
}

/* The answer, as an object; ends with a newline, and has no other. */
static struct json_object *ask(struct engine *engine, const char *line)
{
	char *text = control_answer(engine, line);
	assert_non_null(text);
	assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
	struct json_object *answer = json_tokener_parse(text);
	assert_non_null(answer);
	free(text);
	return answer;
}

static int is_ok(struct engine *engine, const char *line)
{
	struct json_object *answer = ask(engine, line), *ok, *error;
	assert_true(json_object_object_get_ex(answer, "ok", &ok));
	int r = json_object_get_boolean(ok);
	assert_int_equal(json_object_object_get_ex(answer, "error", &error), !r);
	json_object_put(answer);
	return r;
}

static void test_wrong_lines(void **context)
{
	static const char *const lines[] = {
		"",
		" ",
		"{",
		"}",
		"[]",
		"1",
		"null",
		"\"target\"",
		"{}",
		"{\"command\": 1}",
		"{\"command\": \"\"}",
		"{\"command\": \"targe\"}",
		"{\"command\": \"target\"}",
		"{\"command\": \"target\", \"bytes\": \"1\"}",
		"{\"command\": \"target\", \"bytes\": -1}",
		"{\"command\": \"target\", \"bytes\": 1.5}",
		"{\"command\": \"target\", \"bytes\": null}",
		"{\"command\": \"target\", \"bytes\": 9223372036854775808}",
		"{\"command\": \"target\", \"bytes\": 18446744073709551616}",
		"{\"command\": \"tune\", \"rate\": 18446744073709551615}",
		"{\"command\": \"pause\\u0000\"}",
		"{\"command\": \"pause\\u0000d\"}",
		"{\"command\": \"hint\", \"action\": \"stop\\u0000\"}",
		"{\"command\": \"stats\"} {",
		"{\"command\": \"stats\"} {\"command\": \"stats\"}",
		"{\"command\": \"tune\", \"order\": 19}",
		"{\"command\": \"tune\", \"rate\": -1}",
		"{\"command\": \"tune\", \"hold_back_ms\": 3600001}",
		"{\"command\": \"tune\", \"stats_interval_s\": \"x\"}",
		"{\"command\": \"hint\"}",
		"{\"command\": \"hint\", \"action\": \"begin\"}",
		"{\"command\": \"hint\", \"action\": \"start\"}", /* nobody is there */
		"{\"command\": \"stats\", \"refresh\": true}",
		"{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":1}}}}}}}}}}",
	};
	struct engine *engine = *context;
	unsigned char before[offsetof(struct balloon_state, slots)]; /* the slots are megabytes */
	memcpy(before, engine->state, sizeof(before));
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		if (is_ok(engine, lines[i]))
			fail_msg("taken: %s", lines[i]);
		assert_memory_equal(before, engine->state, sizeof(before));
	}
}

static void test_commands(void **context)
{
	struct engine *engine = *context;
	assert_true(is_ok(engine, "{\"command\": \"target\", \"bytes\": 1048576}"));
	assert_int_equal(engine->state->target_bytes, 1048576); /* kept for a guest that comes later */
	assert_true(is_ok(engine, "{\"command\": \"pause\"}"));
	assert_true(is_ok(engine, "{\"command\": \"pause\"}"));
	assert_int_equal(pagehint_gate_closed(engine->gate), 1u << PAGEHINT_INHIBIT_EMBEDDER);
	assert_true(is_ok(engine, "{\"command\": \"resume\"}"));
	assert_true(is_ok(engine, "{\"command\": \"resume\"}"));
	assert_int_equal(pagehint_gate_closed(engine->gate), 0);
	assert_true(is_ok(engine, "{\"command\": \"tune\", \"rate\": 1000000, \"order\": 9}"));
	assert_int_equal(engine->state->rate_bytes, 1000000);
	assert_int_equal(engine->state->least_order, 9);
	assert_true(is_ok(engine, "{\"command\": \"tune\", \"hold_back_ms\": 5, \"stats_interval_s\": 60}"));
	assert_int_equal(engine->state->rate_bytes, 1000000); /* what is not said stays */
	assert_int_equal(engine->state->stats_ms, 60000);
	assert_true(is_ok(engine, "  {\"command\": \"stats\"}  "));
}

static void test_explain(void **context)
{
	struct json_object *answer = ask(*context, "{\"command\": \"explain\"}"), *lines;
	assert_true(json_object_object_get_ex(answer, "lines", &lines));
	assert_true(json_object_array_length(lines) > 0);
	assert_string_equal(json_object_get_string(json_object_array_get_idx(lines, 0)), "no frontend is connected");
	json_object_put(answer);
}

/* The same numbers in both forms; a name occurs once; what is not known is not there. */
static void test_reports(void **context)
{
	struct json_object *answer = ask(*context, "{\"command\": \"stats\"}"), *group, *value;
	char *metrics = report_metrics(*context), *line, *rest = metrics;
	size_t samples = 0;
	assert_non_null(metrics);
	assert_int_equal(strncmp(metrics, "HTTP/1.0 200 OK\r\n", 17), 0);
	assert_false(json_object_object_get_ex(answer, "guest", &group)); /* no statistics came */
	assert_true(json_object_object_get_ex(answer, "vhost", &group));
	assert_true(json_object_object_get_ex(group, "connected", &value));
	/* what was asked of the backend is accounted for */
	assert_true(json_object_object_get_ex(answer, "device", &group));
	static const char *const became[] = { "asked", "freed", "absent", "accepted", "kept", "lazy", "failed" };
	for (size_t i = 0; i < sizeof(became) / sizeof(became[0]); i++)
		assert_true(json_object_object_get_ex(group, became[i], &value));
	while ((line = strsep(&rest, "\n")) != NULL)
		samples += strncmp(line, "pagehint_", 9) == 0;
	json_object_object_foreach(answer, name, numbers)
	{
		(void)name;
		if (json_object_is_type(numbers, json_type_object))
			samples -= (size_t)json_object_object_length(numbers);
	}
	assert_int_equal(samples, 0);
	free(metrics);
	json_object_put(answer);
}

/* Lines made of pieces of right ones. */
static void test_any_lines(void **context)
{
	static const char *const pieces[] = {
		"{",         "}",    "\"command\"", ":",        "\"target\"", ",",
		"\"bytes\"", "1",    "-1",          "[",        "]",          "\"",
		"\\u0000",   "\\",   "1e999",       "\"tune\"", "\"order\"",  "99999999999999999999",
		" ",         "null", "true",        "\"hint\"", "\xff"
	};
	struct engine *engine = *context;
	m.seed = state = UINT64_C(0x2545f4914f6cdd1d);
	for (m.round = 0; m.round < rounds_scaled(20000); m.round++) {
		char line[512] = "";
		for (uint64_t n = rnd(12); n > 0; n--)
			strcat(line, pieces[rnd(sizeof(pieces) / sizeof(pieces[0]))]);
		char *answer = control_answer(engine, line);
		REQUIRE(answer != NULL && answer[strlen(answer) - 1] == '\n');
		free(answer);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_wrong_lines, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_commands, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_explain, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_reports, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_any_lines, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
