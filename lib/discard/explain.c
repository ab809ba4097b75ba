/*
 * explain: what stands between a discard and freed memory, first things first: the gate, the hooks, what the outcomes
 * said, the last failure; then the implementation's own lines.
 */
#include <inttypes.h>

#include "base/say.h"
#include "discard/backend.h"
#include "discard/handle.h"

static void explain_reasons(const struct pagehint_sink *sink, const char *what, const uint64_t *by)
{
	for (uint32_t why = 0; why < PAGEHINT_WHY_COUNT; why++)
		if (by[why] != 0)
			ph_say(sink, "%s: %" PRIu64 " bytes: %s", what, by[why], ph_why_text(why));
}

static void explain_inside(struct pagehint_backend *backend, const struct pagehint_sink *sink)
{
	struct pagehint_backend_stats stats = { .struct_size = sizeof(stats) };
	if (backend->gate != NULL && pagehint_gate_closed(backend->gate) != 0)
		pagehint_gate_explain(backend->gate, sink);
	if (pagehint_backend_stats(backend, &stats) < 0)
		return;
	if (stats.asked == 0)
		ph_say(sink, "%s: nothing has been asked of it yet", backend->ops.name);
	explain_reasons(sink, "kept", stats.kept_by);
	explain_reasons(sink, "failed", stats.failed_by);
	if (stats.lazy != 0)
		ph_say(sink, "lazy: %" PRIu64 " bytes: still counted as used until the layer below wants memory",
		       stats.lazy);
	if (stats.in_flight != 0)
		ph_say(sink, "in flight: %" PRIu64 " runs submitted and not reaped", stats.in_flight);
	if (backend->last_why != PAGEHINT_WHY_NONE)
		ph_say(sink, "last failure: frames %" PRIu64 " + %" PRIu64 ": %s (error %d)", backend->last_run.frame,
		       backend->last_run.frames, ph_why_text(backend->last_why), (int)backend->last_error);
	if (backend->ops.explain != NULL)
		backend->ops.explain(backend->ctx, sink);
}

void pagehint_backend_explain(struct pagehint_backend *backend, const struct pagehint_sink *sink)
{
	if (sink == NULL || sink->line == NULL)
		return;
	int r = ph_backend_begin(backend);
	if (r < 0) {
		ph_say(sink, "%s: cannot be asked now (error %d)", backend->ops.name, r);
		return;
	}
	explain_inside(backend, sink);
	ph_backend_end(backend);
}
