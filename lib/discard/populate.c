/*
 * populate: the way back. Chunks of what the implementation takes in one call, then after_populate for each run of the
 * chunk; the first failure ends it, and what was done is a prefix of the caller's runs.
 */
#include <errno.h>
#include <string.h>

#include "discard/handle.h"

static int populate_chunk(struct pagehint_backend *backend, const struct pagehint_run *runs, uint32_t n,
			  uint32_t *ret_done)
{
	uint32_t done = 0;
	int r = backend->ops.populate(backend->ctx, runs, n, &done);
	if (done > n || r > 0) {
		*ret_done = 0;
		return -EIO;
	}
	for (uint32_t i = 0; i < done; i++) {
		int refused = ph_hooks_after_populate(&backend->hooks, &runs[i]);
		if (refused != 0) {
			*ret_done = i;
			return refused < 0 ? refused : -EIO;
		}
	}
	*ret_done = done;
	return r == 0 && done < n ? -EIO : r; /* to stop early is an error, also when nobody says which */
}

static int populate_inside(struct pagehint_backend *backend, const struct pagehint_run *runs, uint32_t n,
			   uint32_t *ret_done)
{
	struct pagehint_outcome sum = { 0 };
	uint32_t at = 0;
	int r = 0;
	while (r == 0 && at < n) {
		uint32_t part = n - at < backend->max_runs ? n - at : backend->max_runs, done = 0;
		r = populate_chunk(backend, runs + at, part, &done);
		at += done;
	}
	for (uint32_t i = 0; i < n; i++) {
		uint64_t bytes = runs[i].frames << backend->frame_shift;
		if (i < at)
			ph_outcome_accepted(&sum, bytes);
		else
			ph_outcome_failed(&sum, bytes, i == at && r < 0 ? PAGEHINT_WHY_SYSCALL : PAGEHINT_WHY_NOT_TRIED,
					  r);
	}
	PH_COUNT(backend, populated, sum.accepted);
	ph_hooks_trace(&backend->hooks, "populate", n, &sum);
	*ret_done = at;
	return r;
}

int pagehint_backend_populate(struct pagehint_backend *backend, const struct pagehint_run *runs, uint32_t n,
			      uint32_t *ret_done)
{
	uint32_t done = 0;
	int r = ph_backend_check_runs(backend, runs, n);
	if (r == 0 && backend->ops.populate == NULL)
		r = -EOPNOTSUPP;
	if (r == 0)
		r = ph_backend_begin(backend);
	if (r == 0) {
		if (n > 0)
			r = populate_inside(backend, runs, n, &done);
		ph_backend_end(backend);
	}
	if (ret_done != NULL)
		*ret_done = done;
	return r;
}
