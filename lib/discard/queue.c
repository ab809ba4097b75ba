/*
 * queue: submit and reap, the same for synchronous and asynchronous implementations.
 *
 * Why this shape: a batch that has finished is moved into the one held place before the caller's room is looked at, so a
 * reap with too little room loses nothing. A synchronous implementation goes there at once. A batch of which nothing
 * reached the implementation (gate, hooks) waits in its slot with no merged runs, and is found there.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "discard/backend.h"
#include "discard/handle.h"

static void hold(struct pagehint_backend *backend, uint64_t cookie, uint32_t n)
{
	backend->held.used = 1;
	backend->held.cookie = cookie;
	backend->held.n = n;
}

static void count_in_flight(struct pagehint_backend *backend, uint32_t n, int leaves)
{
	PH_COUNT(backend, in_flight, leaves ? UINT64_C(0) - n : n);
}

static int submit_sync(struct pagehint_backend *backend, const struct pagehint_run *runs, uint32_t n, uint32_t flags,
		       uint64_t cookie)
{
	struct pagehint_outcome sum;
	uint32_t done;
	if (backend->held.used)
		return -EAGAIN;
	memset(backend->merge.part, 0, n * sizeof(*backend->merge.part));
	int r = ph_merge_sort(&backend->merge, runs, n);
	if (r < 0)
		return r;
	/* an error is in the outcomes: the batch was taken */
	(void)ph_backend_discard_inside(backend, runs, n, flags, backend->held.outcomes, &sum, &done);
	hold(backend, cookie, n);
	count_in_flight(backend, n, 0);
	return 0;
}

static uint64_t identity(const struct pagehint_backend *backend, const struct ph_slot *slot)
{
	return (uint64_t)slot->generation << 32 | (uint32_t)(slot - backend->slots);
}

static struct ph_slot *find_slot(struct pagehint_backend *backend)
{
	for (uint32_t i = 0; i < backend->slots_n; i++)
		if (!backend->slots[i].used)
			return &backend->slots[i];
	return NULL;
}

/* The implementation did not take the batch: what the hooks unmapped is handed back to them. */
static void undo(struct pagehint_backend *backend, const struct ph_slot *slot, uint32_t n, int error)
{
	for (uint32_t i = 0; i < n; i++) {
		struct pagehint_outcome outcome = { 0 };
		if (slot->merge.part[i] == PH_MERGE_LEFT_OUT)
			continue;
		ph_outcome_failed(&outcome, slot->runs[i].frames << backend->frame_shift, PAGEHINT_WHY_NOT_TRIED,
				  error);
		ph_hooks_after_discard(&backend->hooks, &slot->runs[i], &outcome);
	}
}

static int start(struct pagehint_backend *backend, struct ph_slot *slot, uint32_t n, uint32_t flags)
{
	int r = ph_backend_prepare(backend, &slot->merge, slot->runs, n);
	if (r < 0 || slot->merge.merged_n == 0)
		return r;
	r = backend->ops.submit(backend->ctx, slot->merge.merged, slot->merge.merged_n, flags, identity(backend, slot));
	if (r > 0)
		r = -EIO;
	if (r < 0) {
		undo(backend, slot, n, r);
		return r;
	}
	PH_COUNT(backend, calls, 1);
	PH_COUNT(backend, runs, slot->merge.merged_n);
	return 0;
}

static int submit_async(struct pagehint_backend *backend, const struct pagehint_run *runs, uint32_t n, uint32_t flags,
			uint64_t cookie)
{
	struct ph_slot *slot = find_slot(backend);
	if (slot == NULL)
		return -EAGAIN;
	memcpy(slot->runs, runs, n * sizeof(*runs));
	slot->merge.n = n;
	slot->merge.taken = 0;
	slot->merge.merged_n = 0;
	memset(slot->merge.part, 0, n * sizeof(*slot->merge.part));
	int r = ph_merge_sort(&slot->merge, slot->runs, n);
	if (r < 0)
		return r;
	slot->inhibited = backend->gate != NULL && pagehint_gate_enter(backend->gate, NULL) < 0;
	if (slot->inhibited) {
		slot->merge.merged_n = 0;
	} else {
		r = start(backend, slot, n, flags);
		if (r < 0) {
			if (backend->gate != NULL)
				pagehint_gate_leave(backend->gate);
			return r;
		}
	}
	slot->used = 1;
	slot->cookie = cookie;
	count_in_flight(backend, n, 0);
	return 0;
}

int pagehint_backend_submit(struct pagehint_backend *backend, const struct pagehint_run *runs, uint32_t n,
			    uint32_t flags, uint64_t cookie)
{
	if (n == 0 || n > backend->max_runs || (flags & ~(PAGEHINT_DISCARD_PROBE | PAGEHINT_DISCARD_ZERO)) != 0)
		return -EINVAL;
	int r = ph_backend_check_runs(backend, runs, n);
	if (r < 0)
		return r;
	r = ph_backend_begin(backend);
	if (r < 0)
		return r;
	if ((backend->ops.caps & PAGEHINT_BACKEND_ASYNC) != 0)
		r = submit_async(backend, runs, n, flags, cookie);
	else
		r = submit_sync(backend, runs, n, flags, cookie);
	ph_backend_end(backend);
	return r;
}

/* A batch has ended: outcomes into the held place, hooks, figures, gate; the slot is free again. */
static void finish(struct pagehint_backend *backend, struct ph_slot *slot, int result, uint32_t done)
{
	struct ph_sum sum;
	uint32_t n = slot->merge.n;
	memset(&sum, 0, sizeof(sum));
	if (slot->inhibited) {
		ph_backend_keep_all(backend, slot->runs, n, PAGEHINT_WHY_INHIBITED, backend->held.outcomes, &sum);
	} else {
		(void)ph_backend_settle(backend, &slot->merge, slot->runs, result, done, backend->held.outcomes);
		for (uint32_t i = 0; i < n; i++)
			ph_sum_add(&sum, &backend->held.outcomes[i]);
		if (backend->gate != NULL)
			pagehint_gate_leave(backend->gate);
	}
	ph_backend_count_sum(backend, &sum);
	struct pagehint_outcome total = ph_sum_total(&sum);
	ph_hooks_trace(&backend->hooks, "discard", n, &total);
	hold(backend, slot->cookie, n);
	slot->used = 0;
	slot->generation++;
}

static struct ph_slot *slot_of(struct pagehint_backend *backend, uint64_t id)
{
	uint32_t index = (uint32_t)id;
	if (index >= backend->slots_n)
		return NULL;
	struct ph_slot *slot = &backend->slots[index];
	return slot->used && slot->merge.merged_n > 0 && identity(backend, slot) == id ? slot : NULL;
}

/* Brings one finished batch into the held place: 0; -EAGAIN; -EIO the implementation named a batch that is not there. */
static int collect(struct pagehint_backend *backend)
{
	for (uint32_t i = 0; i < backend->slots_n; i++)
		if (backend->slots[i].used && backend->slots[i].merge.merged_n == 0) {
			finish(backend, &backend->slots[i], 0, 0);
			return 0;
		}
	if ((backend->ops.caps & PAGEHINT_BACKEND_ASYNC) == 0)
		return -EAGAIN;
	uint64_t id = 0;
	uint32_t n = 0;
	memset(backend->got, 0, backend->max_runs * sizeof(*backend->got));
	int r = backend->ops.reap(backend->ctx, backend->max_runs, backend->got, &id, &n);
	if (r != 0)
		return r < 0 ? r : -EIO;
	struct ph_slot *slot = slot_of(backend, id);
	if (slot == NULL) {
		char text[128];
		snprintf(text, sizeof(text), "%s: reaped a batch that was never submitted: %" PRIu64, backend->ops.name,
			 id);
		ph_backend_log(backend, PAGEHINT_LOG_ERROR, text);
		return -EIO;
	}
	finish(backend, slot, 0, n);
	return 0;
}

int pagehint_backend_reap(struct pagehint_backend *backend, uint32_t max, struct pagehint_outcome *outcomes,
			  uint64_t *ret_cookie, uint32_t *ret_n)
{
	if (ret_cookie == NULL || ret_n == NULL)
		return -EINVAL;
	int r = ph_backend_begin(backend);
	if (r < 0)
		return r;
	struct ph_held *held = &backend->held;
	if (!held->used)
		r = collect(backend);
	if (r == 0 && (held->n > max || outcomes == NULL))
		r = -EINVAL;
	if (r == 0) {
		memcpy(outcomes, held->outcomes, held->n * sizeof(*outcomes));
		*ret_cookie = held->cookie;
		*ret_n = held->n;
		held->used = 0;
		count_in_flight(backend, held->n, 1);
	}
	ph_backend_end(backend);
	return r;
}
