/*
 * dispatch: one discard from the gate to the last hook, and the checks on what an implementation answers.
 *
 * What stops a call early: an implementation that deals with fewer runs than it was given (with or without an error). Runs
 * that were dealt with, and failed, do not.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "discard/backend.h"
#include "discard/handle.h"

static uint64_t bytes_of(const struct pagehint_backend *backend, const struct pagehint_run *run)
{
	return run->frames << backend->frame_shift;
}

int ph_backend_check_runs(const struct pagehint_backend *backend, const struct pagehint_run *runs, uint32_t n)
{
	uint64_t top = UINT64_MAX >> backend->frame_shift;
	if (runs == NULL && n > 0)
		return -EINVAL;
	for (uint32_t i = 0; i < n; i++)
		if (runs[i].frames == 0 || runs[i].frame > top || runs[i].frames > top - runs[i].frame)
			return -EINVAL;
	return 0;
}

void ph_backend_keep_all(const struct pagehint_backend *backend, const struct pagehint_run *runs, uint32_t n,
			 uint32_t why, struct pagehint_outcome *outcomes, struct ph_sum *sum)
{
	for (uint32_t i = 0; i < n; i++) {
		struct pagehint_outcome kept = { 0 };
		ph_outcome_kept(&kept, bytes_of(backend, &runs[i]), why);
		if (outcomes != NULL)
			outcomes[i] = kept;
		ph_sum_add(sum, &kept);
	}
}

void ph_backend_fail_all(const struct pagehint_backend *backend, const struct pagehint_run *runs, uint32_t n, int error,
			 struct pagehint_outcome *outcomes, struct ph_sum *sum)
{
	for (uint32_t i = 0; i < n; i++) {
		struct pagehint_outcome failed = { 0 };
		ph_outcome_failed(&failed, bytes_of(backend, &runs[i]), PAGEHINT_WHY_NOT_TRIED, error);
		if (outcomes != NULL)
			outcomes[i] = failed;
		ph_sum_add(sum, &failed);
	}
}

/* A merged run must not cross the end of a region; where no region is known, nothing is merged. */
static uint64_t region_end(void *ctx, uint64_t frame, uint64_t *ret_least)
{
	struct pagehint_backend *backend = ctx;
	uint64_t frames = 0, least = 0;
	if (backend->ops.extent(backend->ctx, frame, &frames, &least) < 0)
		return 0;
	*ret_least = least >> backend->frame_shift > 1 ? least >> backend->frame_shift : 1;
	return frames > UINT64_MAX - frame ? UINT64_MAX : frame + frames;
}

int ph_backend_prepare(struct pagehint_backend *backend, struct ph_merge *merge, const struct pagehint_run *runs,
		       uint32_t n)
{
	memset(merge->part, 0, n * sizeof(*merge->part));
	int r = ph_merge_sort(merge, runs, n);
	if (r < 0)
		return r;
	uint32_t refused = 0;
	for (uint32_t i = 0; i < n; i++) {
		if (ph_hooks_before_discard(&backend->hooks, &runs[i]) == 0)
			continue;
		merge->part[i] = PH_MERGE_LEFT_OUT;
		refused++;
	}
	if (refused != 0 && (r = ph_merge_sort(merge, runs, n)) < 0)
		return r;
	ph_merge_join(merge, runs, backend->ops.extent == NULL ? NULL : region_end, backend);
	return 0;
}

static void note_failure(struct pagehint_backend *backend, const struct pagehint_run *run,
			 const struct pagehint_outcome *outcome)
{
	char text[192];
	backend->last_why = outcome->failed_why;
	backend->last_error = outcome->error;
	backend->last_run = *run;
	snprintf(text, sizeof(text), "%s: frames %" PRIu64 " + %" PRIu64 ": %" PRIu64 " bytes failed: %s (error %d)",
		 backend->ops.name, run->frame, run->frames, outcome->failed, ph_why_text(outcome->failed_why),
		 (int)outcome->error);
	ph_backend_log(backend, PAGEHINT_LOG_WARN, text);
}

/* Replaces what cannot be true and fills in what was not tried, so that got[0..merged_n) can be trusted. */
static int verify(struct pagehint_backend *backend, const struct ph_merge *merge, int result, uint32_t done)
{
	int distrust = done > merge->merged_n || result > 0;
	/* to stop early is an error, also when nobody says which */
	int first = result < 0 ? result : done < merge->merged_n ? -EIO : 0;
	for (uint32_t i = 0; i < merge->merged_n; i++) {
		struct pagehint_outcome *got = &backend->got[i];
		uint64_t asked = bytes_of(backend, &merge->merged[i]);
		if (!distrust && i < done && ph_outcome_is_true(got, asked))
			continue;
		memset(got, 0, sizeof(*got));
		if (!distrust && i >= done) {
			ph_outcome_failed(got, asked, PAGEHINT_WHY_NOT_TRIED, first);
			continue;
		}
		ph_outcome_failed(got, asked, PAGEHINT_WHY_BACKEND_LIED, -EIO);
		first = first == 0 ? -EIO : first;
	}
	for (uint32_t i = 0; i < merge->merged_n; i++)
		if (backend->got[i].failed != 0)
			note_failure(backend, &merge->merged[i], &backend->got[i]);
	return first;
}

int ph_backend_settle(struct pagehint_backend *backend, struct ph_merge *merge, const struct pagehint_run *runs,
		      int result, uint32_t done, struct pagehint_outcome *outcomes)
{
	int r = verify(backend, merge, result, done);
	ph_merge_deal(merge, runs, backend->frame_shift, backend->ops.extent == NULL ? NULL : region_end, backend,
		      backend->got, outcomes);
	for (uint32_t i = 0; i < merge->n; i++) {
		if (merge->part[i] != PH_MERGE_LEFT_OUT) {
			ph_hooks_after_discard(&backend->hooks, &runs[i], &outcomes[i]);
			continue;
		}
		memset(&outcomes[i], 0, sizeof(outcomes[i]));
		ph_outcome_kept(&outcomes[i], bytes_of(backend, &runs[i]), PAGEHINT_WHY_HOOK_REFUSED);
	}
	return r;
}

/* One chunk. *ret_stopped: the implementation did not come to the end of it. */
static int discard_chunk(struct pagehint_backend *backend, const struct pagehint_run *runs, uint32_t n, uint32_t flags,
			 struct pagehint_outcome *outcomes, int *ret_stopped)
{
	struct ph_merge *merge = &backend->merge;
	int r = ph_backend_prepare(backend, merge, runs, n);
	if (r < 0)
		return r;
	uint32_t done = 0;
	if (merge->merged_n > 0) {
		memset(backend->got, 0, merge->merged_n * sizeof(*backend->got));
		PH_COUNT(backend, calls, 1);
		PH_COUNT(backend, runs, merge->merged_n);
		r = backend->ops.discard(backend->ctx, merge->merged, merge->merged_n, flags, backend->got, &done);
	}
	*ret_stopped = done < merge->merged_n;
	return ph_backend_settle(backend, merge, runs, r, done, outcomes);
}

static uint32_t count_tried(const struct pagehint_outcome *outcomes, uint32_t n)
{
	uint32_t tried = 0;
	for (uint32_t i = 0; i < n; i++)
		tried += outcomes[i].failed_why != PAGEHINT_WHY_NOT_TRIED;
	return tried;
}

static int discard_open(struct pagehint_backend *backend, const struct pagehint_run *runs, uint32_t n, uint32_t flags,
			struct pagehint_outcome *outcomes, struct ph_sum *sum, uint32_t *done)
{
	int first = 0;
	for (uint32_t at = 0; at < n;) {
		uint32_t part = n - at < backend->max_runs ? n - at : backend->max_runs;
		struct pagehint_outcome *to = outcomes == NULL ? backend->outcomes : outcomes + at;
		int stopped = 0;
		int r = discard_chunk(backend, runs + at, part, flags, to, &stopped);
		for (uint32_t i = 0; i < part; i++)
			ph_sum_add(sum, &to[i]);
		*done += count_tried(to, part);
		first = first == 0 ? r : first;
		at += part;
		if (stopped) {
			/* hooks are not bothered with what comes after */
			ph_backend_fail_all(backend, runs + at, n - at, r, outcomes == NULL ? NULL : outcomes + at,
					    sum);
			break;
		}
	}
	return first;
}

int ph_backend_discard_inside(struct pagehint_backend *backend, const struct pagehint_run *runs, uint32_t n,
			      uint32_t flags, struct pagehint_outcome *outcomes, struct pagehint_outcome *ret_sum,
			      uint32_t *ret_done)
{
	struct ph_sum sum;
	int r = 0;
	memset(&sum, 0, sizeof(sum));
	*ret_done = 0;
	if (backend->gate != NULL && pagehint_gate_enter(backend->gate, NULL) < 0) {
		ph_backend_keep_all(backend, runs, n, PAGEHINT_WHY_INHIBITED, outcomes, &sum);
		*ret_done = n;
	} else {
		r = discard_open(backend, runs, n, flags, outcomes, &sum, ret_done);
		if (backend->gate != NULL)
			pagehint_gate_leave(backend->gate);
	}
	ph_backend_count_sum(backend, &sum);
	*ret_sum = ph_sum_total(&sum);
	ph_hooks_trace(&backend->hooks, "discard", n, ret_sum);
	return r;
}

/* Overlaps are looked for before anything is done, in each part that would become one call below. */
static int check_overlaps(struct pagehint_backend *backend, const struct pagehint_run *runs, uint32_t n)
{
	for (uint32_t at = 0; at < n; at += backend->max_runs) {
		uint32_t part = n - at < backend->max_runs ? n - at : backend->max_runs;
		memset(backend->merge.part, 0, part * sizeof(*backend->merge.part));
		int r = ph_merge_sort(&backend->merge, runs + at, part);
		if (r < 0)
			return r;
		if (n - at <= backend->max_runs)
			break;
	}
	return 0;
}

/* The handle could not be entered: every run is accounted for, and nothing of the handle is touched. */
static void refuse(const struct pagehint_backend *backend, const struct pagehint_run *runs, uint32_t n, int error,
		   struct pagehint_outcome *outcomes, struct pagehint_outcome *ret_sum)
{
	struct ph_sum sum;
	memset(&sum, 0, sizeof(sum));
	if (error == -EBUSY)
		ph_backend_fail_all(backend, runs, n, error, outcomes, &sum);
	else
		ph_backend_keep_all(backend, runs, n, error == -ENODEV ? PAGEHINT_WHY_FORKED : PAGEHINT_WHY_REENTRY,
				    outcomes, &sum);
	*ret_sum = ph_sum_total(&sum);
}

int pagehint_backend_discard(struct pagehint_backend *backend, const struct pagehint_run *runs, uint32_t n,
			     uint32_t flags, struct pagehint_outcome *outcomes, struct pagehint_outcome *ret_sum,
			     uint32_t *ret_done)
{
	struct pagehint_outcome sum = { 0 };
	uint32_t done = 0;
	int r = 0;
	if ((flags & ~(PAGEHINT_DISCARD_PROBE | PAGEHINT_DISCARD_ZERO)) != 0)
		r = -EINVAL;
	else if ((r = ph_backend_check_runs(backend, runs, n)) == 0 &&
		 (backend->ops.caps & PAGEHINT_BACKEND_ASYNC) != 0)
		r = -EOPNOTSUPP;
	if (r == 0) {
		r = ph_backend_begin(backend);
		if (r < 0) {
			refuse(backend, runs, n, r, outcomes, &sum);
		} else {
			r = check_overlaps(backend, runs, n);
			if (r == 0 && n > 0)
				r = ph_backend_discard_inside(backend, runs, n, flags, outcomes, &sum, &done);
			ph_backend_end(backend);
		}
	}
	if (ret_sum != NULL)
		*ret_sum = sum;
	if (ret_done != NULL)
		*ret_done = done;
	return r;
}
