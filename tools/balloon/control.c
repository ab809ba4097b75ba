#include "control.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "report.h"

#define WORDS(number) WORDS_OF(number)
#define WORDS_OF(number) #number
#define DEPTH 8 /* of nested values; ours are flat */

static int fail(struct json_object *answer, const char *why)
{
	json_object_object_add(answer, "error", json_object_new_string(why));
	return -EINVAL;
}

static int fail_with(struct json_object *answer, int r)
{
	return r == 0 ? 0
		      : fail(answer, r == -EOPNOTSUPP ? "not negotiated with the guest"
				     : r == -ENODEV   ? "no driver is there"
				     : r == -EBUSY    ? "busy"
				     : r == -EALREADY ? "it is so already"
				     : r == -EAGAIN   ? "not now: the guest owes an answer"
						      : strerror(-r));
}

/* A whole number of 0 .. most under this name. Return: 0; -ENOENT there is none; -EINVAL it is something else. */
static int number(struct json_object *request, const char *name, uint64_t most, uint64_t *ret_n)
{
	struct json_object *value;
	if (!json_object_object_get_ex(request, name, &value))
		return -ENOENT;
	if (!json_object_is_type(value, json_type_int))
		return -EINVAL;
	if (json_object_get_int64(value) < 0 || json_object_get_uint64(value) > most)
		return -EINVAL;
	*ret_n = json_object_get_uint64(value);
	return 0;
}

/* A word; what holds a zero byte (\u0000) is none, however it begins. */
static const char *text(struct json_object *request, const char *name)
{
	struct json_object *value;
	if (!json_object_object_get_ex(request, name, &value) || !json_object_is_type(value, json_type_string))
		return "";
	const char *word = json_object_get_string(value);
	return strlen(word) == (size_t)json_object_get_string_len(value) ? word : "";
}

static int do_target(struct engine *engine, struct json_object *request, struct json_object *answer)
{
	uint64_t bytes, taken = 0;
	if (number(request, "bytes", INT64_MAX, &bytes) != 0)
		return fail(answer, "bytes: a whole number is wanted");
	struct pagehint_device *device = pagehint_vhost_device(engine->vhost);
	int r = pagehint_device_set_target(device, engine->now_ns, bytes, &taken);
	if (r != 0)
		return fail_with(answer, r);
	engine->state->target_bytes = bytes; /* as asked: there may be more memory later */
	json_object_object_add(answer, "target_bytes", json_object_new_uint64(taken));
	return 0;
}

static int do_stats(struct engine *engine, struct json_object *request, struct json_object *answer)
{
	struct json_object *refresh;
	int r = 0;
	if (json_object_object_get_ex(request, "refresh", &refresh) && json_object_get_boolean(refresh))
		r = pagehint_device_stats_request(pagehint_vhost_device(engine->vhost));
	report_json(engine, answer);
	return r == -EAGAIN ? 0 : fail_with(answer, r); /* one is on its way */
}

/* Takes a knob if it is there. Return: 1 it cannot have this value. */
static int knob(struct json_object *request, const char *name, uint64_t most, uint64_t *value)
{
	return number(request, name, most, value) == -EINVAL;
}

static int do_tune(struct engine *engine, struct json_object *request, struct json_object *answer)
{
	struct balloon_state *state = engine->state;
	uint64_t rate = state->rate_bytes, order = state->least_order, hold_back = state->hold_back_ms,
		 stats = state->stats_ms / 1000;
	if (knob(request, "rate", INT64_MAX, &rate))
		return fail(answer, "rate: bytes a second");
	if (knob(request, "order", BALLOON_ORDER_MAX, &order))
		return fail(answer, "order: 0 to " WORDS(BALLOON_ORDER_MAX));
	if (knob(request, "hold_back_ms", BALLOON_HOLD_BACK_MS_MAX, &hold_back))
		return fail(answer, "hold_back_ms: 0 to " WORDS(BALLOON_HOLD_BACK_MS_MAX));
	if (knob(request, "stats_interval_s", BALLOON_STATS_S_MAX, &stats))
		return fail(answer, "stats_interval_s: 0 to " WORDS(BALLOON_STATS_S_MAX));
	state->rate_bytes = rate;
	state->least_order = (uint32_t)order;
	state->hold_back_ms = (uint32_t)hold_back;
	state->stats_ms = (uint32_t)stats * 1000;
	return fail_with(answer, engine_apply(engine));
}

static int do_pause(struct engine *engine, struct json_object *request, struct json_object *answer)
{
	(void)request;
	engine->state->paused = 1;
	return fail_with(answer, engine_apply(engine));
}

static int do_resume(struct engine *engine, struct json_object *request, struct json_object *answer)
{
	(void)request;
	engine->state->paused = 0;
	return fail_with(answer, engine_apply(engine));
}

static int do_hint(struct engine *engine, struct json_object *request, struct json_object *answer)
{
	struct pagehint_device *device = pagehint_vhost_device(engine->vhost);
	const char *action = text(request, "action");
	uint32_t id = 0;
	int r;
	if (strcmp(action, "start") == 0) {
		r = pagehint_device_hint_start(device, &id);
		if (r == 0) {
			engine->hinted_bytes = engine->hinted_ranges = 0;
			json_object_object_add(answer, "id", json_object_new_int64(id));
		}
	} else if (strcmp(action, "stop") == 0) {
		r = pagehint_device_hint_stop(device);
	} else if (strcmp(action, "done") == 0) {
		r = pagehint_device_hint_done(device);
	} else {
		return fail(answer, "action: start, stop or done");
	}
	return fail_with(answer, r);
}

static void add_line(void *ctx, const char *line)
{
	json_object_array_add(ctx, json_object_new_string(line));
}

static int do_explain(struct engine *engine, struct json_object *request, struct json_object *answer)
{
	struct json_object *lines = json_object_new_array();
	const struct pagehint_sink sink = { lines, add_line };
	(void)request;
	pagehint_vhost_explain(engine->vhost, &sink);
	json_object_object_add(answer, "lines", lines);
	return 0;
}

static const struct {
	const char *name;
	int (*run)(struct engine *engine, struct json_object *request, struct json_object *answer);
} commands[] = {
	{ "target", do_target }, { "stats", do_stats }, { "tune", do_tune },       { "pause", do_pause },
	{ "resume", do_resume }, { "hint", do_hint },   { "explain", do_explain },
};

static int run(struct engine *engine, struct json_object *request, struct json_object *answer)
{
	if (!json_object_is_type(request, json_type_object))
		return fail(answer, "one JSON object a line is wanted");
	const char *name = text(request, "command");
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (strcmp(name, commands[i].name) == 0)
			return commands[i].run(engine, request, answer);
	return fail(answer, "command: target, stats, tune, pause, resume, hint or explain");
}

/* The whole line, and nothing behind it; NULL: it is no JSON. */
static struct json_object *parse(const char *line)
{
	struct json_tokener *tokener = json_tokener_new_ex(DEPTH);
	if (tokener == NULL)
		return NULL;
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
	struct json_object *request = json_tokener_parse_ex(tokener, line, (int)strlen(line) + 1);
	if (json_tokener_get_error(tokener) != json_tokener_success) {
		json_object_put(request);
		request = NULL;
	}
	json_tokener_free(tokener);
	return request;
}

char *control_answer(struct engine *engine, const char *line)
{
	struct json_object *answer = json_object_new_object(), *request = parse(line);
	if (answer == NULL)
		return NULL;
	int r = run(engine, request, answer);
	json_object_object_add(answer, "ok", json_object_new_boolean(r == 0));
	const char *json = json_object_to_json_string_ext(answer, JSON_C_TO_STRING_PLAIN);
	char *out;
	if (asprintf(&out, "%s\n", json) < 0)
		out = NULL;
	json_object_put(request);
	json_object_put(answer);
	return out;
}
