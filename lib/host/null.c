/*
 * null: a backend that takes every run and does nothing with it; its figures are those of the handle around it.
 *
 * What it takes is `accepted`: nothing is known of residency. It does not promise that anything reads as zero.
 */
#include <errno.h>

#include <pagehint/host.h>

#include "base/opts.h"
#include "discard/backend.h"
#include "discard/result.h"

static int null_discard(void *ctx, const struct pagehint_run *runs, uint32_t n, uint32_t flags,
			struct pagehint_outcome *outcomes, uint32_t *ret_done)
{
	unsigned frame_shift = (unsigned)(uintptr_t)ctx;
	(void)flags;
	for (uint32_t i = 0; i < n; i++)
		ph_outcome_accepted(&outcomes[i], runs[i].frames << frame_shift);
	*ret_done = n;
	return 0;
}

static int null_populate(void *ctx, const struct pagehint_run *runs, uint32_t n, uint32_t *ret_done)
{
	(void)ctx;
	(void)runs;
	*ret_done = n;
	return 0;
}

static void null_explain(void *ctx, const struct pagehint_sink *sink)
{
	(void)ctx;
	sink->line(sink->ctx, "null: this backend frees nothing");
}

int pagehint_null_new(const struct pagehint_backend_opts *opts, struct pagehint_backend **ret_backend)
{
	static const struct pagehint_backend_ops ops = {
		.struct_size = sizeof(ops),
		.name = "null",
		.discard = null_discard,
		.populate = null_populate,
		.explain = null_explain,
	};
	struct pagehint_backend_opts how;
	int r = PH_OPTS_IN(how, opts);
	if (r < 0)
		return r;
	if (how.frame_shift == 0)
		how.frame_shift = 12;
	how.struct_size = sizeof(how);
	/* all it needs to know fits into the pointer */
	return pagehint_backend_new(&ops, (void *)(uintptr_t)how.frame_shift, &how, ret_backend);
}
