#include "discard/hooks.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/opts.h"

int ph_hooks_init(struct ph_hooks *hooks, const struct pagehint_hooks *from)
{
	memset(hooks, 0, sizeof(*hooks));
	return PH_OPTS_IN(hooks->table, from);
}

int ph_hooks_before_discard(const struct ph_hooks *hooks, const struct pagehint_run *run)
{
	return hooks->table.before_discard == NULL ? 0 : hooks->table.before_discard(hooks->table.ctx, run);
}

void ph_hooks_after_discard(const struct ph_hooks *hooks, const struct pagehint_run *run,
			    const struct pagehint_outcome *outcome)
{
	if (hooks->table.after_discard != NULL)
		hooks->table.after_discard(hooks->table.ctx, run, outcome);
}

int ph_hooks_after_populate(const struct ph_hooks *hooks, const struct pagehint_run *run)
{
	return hooks->table.after_populate == NULL ? 0 : hooks->table.after_populate(hooks->table.ctx, run);
}

void ph_hooks_trace(const struct ph_hooks *hooks, const char *what, uint32_t runs, const struct pagehint_outcome *sum)
{
	if (hooks->table.trace != NULL)
		hooks->table.trace(hooks->table.ctx, what, runs, sum);
}

/* The line that tells what was dropped is one of the ten. */
static void tell_dropped(struct ph_hooks *hooks)
{
	char text[64];
	snprintf(text, sizeof(text), "%" PRIu64 " lines dropped", hooks->dropped);
	hooks->dropped = 0;
	hooks->window_lines++;
	hooks->table.log(hooks->table.ctx, PAGEHINT_LOG_WARN, text);
}

void ph_hooks_log(struct ph_hooks *hooks, const struct ph_sys *sys, uint32_t level, const char *text)
{
	if (hooks->table.log == NULL)
		return;
	int64_t now = sys->clock_ns(sys->ctx);
	if (now < 0) /* it stands still: a clock that comes and goes must not begin a new second each time */
		now = hooks->window_start;
	if (hooks->window_lines == 0 || now < hooks->window_start || now - hooks->window_start >= PH_LOG_WINDOW_NS) {
		hooks->window_start = now;
		hooks->window_lines = 0;
	}
	if (hooks->window_lines >= PH_LOG_LINES) {
		hooks->dropped++;
		hooks->dropped_total++;
		return;
	}
	if (hooks->dropped != 0)
		tell_dropped(hooks);
	hooks->window_lines++;
	hooks->table.log(hooks->table.ctx, level, text);
}
