#include "request.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static const struct {
	const char *text;
	enum request_what what; /* REQUEST_KINDS: no command */
} names[] = {
	{ "\"target\"", REQUEST_TARGET },
	{ "\"tune\"", REQUEST_TUNE },
	{ "\"pause\"", REQUEST_PAUSE },
	{ "\"resume\"", REQUEST_RESUME },
	{ "\"stats\"", REQUEST_LOOK },
	{ "\"explain\"", REQUEST_LOOK },
	{ "\"tar\\u0067et\"", REQUEST_TARGET },
	{ "\"tu\\u006ee\"", REQUEST_TUNE },
	{ "\"target\\u0000\"", REQUEST_KINDS },
	{ "\"pause\\u0000d\"", REQUEST_KINDS },
	{ "\"Target\"", REQUEST_KINDS },
	{ "\"paus\"", REQUEST_KINDS },
	{ "\"\"", REQUEST_KINDS },
	{ "true", REQUEST_KINDS },
	{ "[\"pause\"]", REQUEST_KINDS },
};

static const char *const fields[] = { "rate", "order", "hold_back_ms", "stats_interval_s" };
static const uint64_t most[] = { INT64_MAX, BALLOON_ORDER_MAX, BALLOON_HOLD_BACK_MS_MAX, BALLOON_STATS_S_MAX };

/* Writes a value; returns 1 when it is a whole number, which then stands in *ret_n. */
static int make_value(struct input *in, char *to, size_t room, uint64_t *ret_n)
{
	static const char *const odd[] = {
		"-1",
		"1.5",
		"1e2",
		"9223372036854775808",
		"18446744073709551615",
		"18446744073709551616",
		"null",
		"\"1\"",
		"true",
		"[]",
		"{}",
		"007",
		"0x1",
	};
	uint32_t how = (uint32_t)take(in, 1);
	if (how >= 0xc0) {
		snprintf(to, room, "%s", odd[how % COUNT(odd)]);
		return 0;
	}
	*ret_n = take(in, 1 + how % 8) & INT64_MAX;
	snprintf(to, room, "%" PRIu64, *ret_n);
	return 1;
}

/* One more member; 0 = it makes the request a wrong one. */
static int add_member(struct request *request, struct input *in, size_t *at, const char *name, uint32_t place,
		      uint64_t limit)
{
	char value[64];
	uint64_t n = 0;
	int whole = make_value(in, value, sizeof(value), &n);
	*at += (size_t)snprintf(request->line + *at, sizeof(request->line) - *at, ",%s\"%s\" : %s",
				place % 2 ? " " : "", name, value);
	request->has[place] = 1;
	request->value[place] = n;
	return whole && n <= limit;
}

void request_make(struct request *request, struct input *in)
{
	uint32_t name = (uint32_t)take(in, 1) % COUNT(names), which = (uint32_t)take(in, 1);
	size_t at;
	*request = (struct request) { .what = names[name].what };
	request->ok = request->what != REQUEST_KINDS;
	at = (size_t)snprintf(request->line, sizeof(request->line), "{ \"command\":%s", names[name].text);
	if (request->what == REQUEST_TARGET) {
		if (which % 8 == 0)
			request->ok = 0; /* bytes are wanted */
		else
			request->ok = add_member(request, in, &at, "bytes", 0, INT64_MAX);
	}
	for (uint32_t i = 0; request->what == REQUEST_TUNE && i < COUNT(fields); i++)
		if ((which >> i & 1) != 0 && !add_member(request, in, &at, fields[i], i, most[i]))
			request->ok = 0;
	at += (size_t)snprintf(request->line + at, sizeof(request->line) - at, "%s",
			       which == 0xff   ? ""
			       : which == 0xfe ? "} x"
					       : "}");
	if (which >= 0xfe)
		request->ok = 0;
	SURE(at < sizeof(request->line));
}

void request_judge(const struct request *request, const struct balloon_state *before, const struct balloon_state *after)
{
	const int tune = request->what == REQUEST_TUNE;
	SURE(after->target_bytes == (request->what == REQUEST_TARGET ? request->value[0] : before->target_bytes));
	SURE(after->rate_bytes == (tune && request->has[0] ? request->value[0] : before->rate_bytes));
	SURE(after->least_order == (tune && request->has[1] ? request->value[1] : before->least_order));
	SURE(after->hold_back_ms == (tune && request->has[2] ? request->value[2] : before->hold_back_ms));
	SURE(after->stats_ms == (tune && request->has[3] ? request->value[3] * 1000 : before->stats_ms));
	SURE(after->paused == (request->what == REQUEST_PAUSE    ? 1
			       : request->what == REQUEST_RESUME ? 0
								 : before->paused));
}
