/*
 * driver_explain: what stands in the way, the first missing link first. Writes its lines itself: there is no printf where this
 * runs.
 */
#include "virtio/driver.h"

#define LINE_BYTES 160u

struct line {
	char text[LINE_BYTES];
	uint32_t n;
};

static void add_text(struct line *line, const char *text)
{
	while (*text != '\0' && line->n < LINE_BYTES - 1)
		line->text[line->n++] = *text++;
	line->text[line->n] = '\0';
}

static void add_number(struct line *line, uint64_t value)
{
	char digits[24];
	uint32_t at = sizeof(digits) - 1;
	digits[at] = '\0';
	do {
		digits[--at] = (char)('0' + value % 10);
		value /= 10;
	} while (value != 0);
	add_text(line, &digits[at]);
}

static void say(const struct pagehint_sink *sink, const char *before, uint64_t value, const char *after)
{
	struct line line = { .n = 0 };
	add_text(&line, "virtio: ");
	add_text(&line, before);
	if (after != NULL) {
		add_number(&line, value);
		add_text(&line, after);
	}
	sink->line(sink->ctx, line.text);
}

static void explain_reporting(const struct pagehint_driver *d, const struct pagehint_sink *sink)
{
	int poison = (d->opts.flags & PAGEHINT_DRIVER_POISON) != 0;
	if (ph_driver_has(d, PAGEHINT_BALLOON_F_PAGE_REPORTING)) {
		if (ph_driver_has(d, PAGEHINT_BALLOON_F_PAGE_POISON) && d->opts.poison_val != 0)
			say(sink, "poison: free pages must keep their value, so reports free nothing", 0, NULL);
	} else if ((d->offered & PAGEHINT_BALLOON_F_PAGE_REPORTING) == 0) {
		say(sink, "the device does not offer page reporting", 0, NULL);
	} else if (poison && !ph_driver_has(d, PAGEHINT_BALLOON_F_PAGE_POISON)) {
		say(sink, "poison: the device cannot be told, so page reporting is not accepted", 0, NULL);
	} else {
		say(sink, "page reporting is offered, but not accepted: opts.features leaves it out", 0, NULL);
	}
}

static void explain_balloon(const struct pagehint_driver *d, const struct pagehint_sink *sink)
{
	uint64_t have = d->held.frames + d->inflate.frames;
	if (have >= d->target)
		return;
	if (d->ops.take == NULL)
		say(sink, "the host wants a balloon, but there is nothing to take frames from", 0, NULL);
	else if (d->now_ns < d->quiet_until)
		say(sink, "no inflating for a while: the guest was out of memory; missing: ", d->target - have,
		    " frames");
	else if (d->now_ns < d->retry_at)
		say(sink, "the balloon is stuck: no frames were to be had, or it holds too many runs; missing: ",
		    d->target - have, " frames");
	else
		say(sink, "the balloon is growing; missing: ", d->target - have, " frames");
}

void pagehint_driver_explain(const struct pagehint_driver *d, const struct pagehint_sink *sink)
{
	if (sink == NULL || sink->line == NULL)
		return;
	if (d->state != PAGEHINT_DRIVER_RUNNING) {
		struct line line = { .n = 0 };
		add_text(&line, d->state == PAGEHINT_DRIVER_BROKEN ? "virtio: the device broke: "
								   : "virtio: the driver is off: ");
		add_text(&line, d->trouble == NULL ? "no reason is known" : d->trouble);
		sink->line(sink->ctx, line.text);
		if (d->held.frames + d->inflate.frames + d->deflate.frames + d->hints.frames != 0)
			say(sink, "frames that wait for a reset: ",
			    d->held.frames + d->inflate.frames + d->deflate.frames + d->hints.frames, "");
		return;
	}
	if (d->is_silent)
		say(sink, "the device does not answer", 0, NULL);
	explain_reporting(d, sink);
	explain_balloon(d, sink);
	if (d->hints.frames != 0)
		say(sink, "kept still for a migration: ", d->hints.frames, " frames");
}
