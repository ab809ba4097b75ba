#include "discard/backend.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/opts.h"
#include "discard/handle.h"

/* Hands out pieces of the one allocation; with base NULL it only adds up how much that is. */
struct carve {
	unsigned char *base;
	size_t used;
};

static void *carve(struct carve *from, size_t count, size_t size)
{
	size_t at = (from->used + 15) & ~(size_t)15;
	from->used = at + count * size;
	return from->base == NULL ? NULL : from->base + at;
}

static void carve_merge(struct carve *from, struct ph_merge *merge, size_t runs)
{
	uint32_t *order = carve(from, runs, sizeof(*merge->order));
	uint32_t *part = carve(from, runs, sizeof(*merge->part));
	struct pagehint_run *merged = carve(from, runs, sizeof(*merge->merged));
	if (from->base != NULL)
		*merge = (struct ph_merge) { .order = order, .part = part, .merged = merged };
}

/* Lays out the handle and all its arrays; twice: to measure, and for good. */
static struct pagehint_backend *lay_out(struct carve *from, uint32_t runs, uint32_t slots)
{
	struct pagehint_backend *backend = carve(from, 1, sizeof(*backend));
	struct ph_merge merge;
	memset(&merge, 0, sizeof(merge));
	carve_merge(from, backend == NULL ? &merge : &backend->merge, runs);
	void *got = carve(from, runs, sizeof(struct pagehint_outcome));
	void *outcomes = carve(from, runs, sizeof(struct pagehint_outcome));
	void *held = carve(from, runs, sizeof(struct pagehint_outcome));
	struct ph_slot *slot = carve(from, slots, sizeof(*slot));
	if (backend != NULL) {
		backend->got = got;
		backend->outcomes = outcomes;
		backend->held.outcomes = held;
		backend->slots = slot;
		backend->slots_n = slots;
		backend->max_runs = runs;
	}
	for (uint32_t i = 0; i < slots; i++) {
		void *copies = carve(from, runs, sizeof(struct pagehint_run));
		carve_merge(from, slot == NULL ? &merge : &slot[i].merge, runs);
		if (slot != NULL)
			slot[i].runs = copies;
	}
	return backend;
}

static struct pagehint_backend *allocate(const struct pagehint_backend_ops *ops)
{
	uint32_t runs = ops->max_runs == 0 ? PH_BACKEND_CHUNK : ops->max_runs;
	uint32_t slots = 0;
	if (runs > PH_BACKEND_CHUNK_MAX)
		runs = PH_BACKEND_CHUNK_MAX;
	if ((ops->caps & PAGEHINT_BACKEND_ASYNC) != 0) {
		slots = PH_BACKEND_SLOT_RUNS / runs;
		slots = slots < PH_BACKEND_SLOTS_MIN ? PH_BACKEND_SLOTS_MIN : slots;
		slots = slots > PH_BACKEND_SLOTS_MAX ? PH_BACKEND_SLOTS_MAX : slots;
	}
	struct carve measure = { 0 };
	(void)lay_out(&measure, runs, slots);
	struct carve real = { .base = calloc(1, measure.used) };
	return real.base == NULL ? NULL : lay_out(&real, runs, slots);
}

static int ops_are_whole(const struct pagehint_backend_ops *ops)
{
	if ((ops->caps & ~(PAGEHINT_BACKEND_ASYNC | PAGEHINT_BACKEND_READS_ZERO)) != 0)
		return 0;
	if ((ops->caps & PAGEHINT_BACKEND_ASYNC) != 0)
		return ops->submit != NULL && ops->reap != NULL;
	return ops->discard != NULL;
}

int ph_backend_new_with(const struct pagehint_backend_ops *ops, void *ctx, const struct pagehint_backend_opts *opts,
			const struct ph_sys *sys, struct pagehint_backend **ret_backend)
{
	struct pagehint_backend_ops table;
	struct pagehint_backend_opts how;
	struct ph_hooks hooks;
	if (ops == NULL || ret_backend == NULL)
		return -EINVAL;
	int r = PH_OPTS_IN(table, ops);
	if (r == 0)
		r = PH_OPTS_IN(how, opts);
	if (r == 0)
		r = ph_hooks_init(&hooks, how.hooks);
	if (r != 0)
		return r;
	if (how.frame_shift == 0)
		how.frame_shift = 12;
	if (!ops_are_whole(&table) || how.frame_shift < 12 || how.frame_shift > 30 || how.flags != 0)
		return -EINVAL;
	int64_t pid = sys->getpid(sys->ctx); /* who cannot tell its process would take itself for a fork, for ever */
	if (pid < 0)
		return (int)pid;
	struct pagehint_backend *backend = allocate(&table);
	if (backend == NULL)
		return -ENOMEM;
	backend->ops = table;
	if (backend->ops.name == NULL)
		backend->ops.name = "unnamed";
	backend->ctx = ctx;
	backend->sys = sys;
	backend->gate = how.gate;
	backend->hooks = hooks;
	backend->frame_shift = how.frame_shift;
	backend->pid = pid;
	*ret_backend = backend;
	return 0;
}

int pagehint_backend_new(const struct pagehint_backend_ops *ops, void *ctx, const struct pagehint_backend_opts *opts,
			 struct pagehint_backend **ret_backend)
{
	return ph_backend_new_with(ops, ctx, opts, &ph_sys_real, ret_backend);
}

int pagehint_backend_free(struct pagehint_backend *backend)
{
	if (backend == NULL)
		return 0;
	/* what was in flight at a fork is the parent's: the child may let go of its copy */
	if (backend->sys->getpid(backend->sys->ctx) == backend->pid &&
	    (atomic_load(&backend->inside) != 0 || atomic_load(&backend->counters[PH_WORD(in_flight)]) != 0))
		return -EBUSY;
	if (backend->ops.destroy != NULL)
		backend->ops.destroy(backend->ctx);
	free(backend);
	return 0;
}

/* Where a thread's identity is a pointer or a number, it is never 0 (glibc, musl). */
static uintptr_t self(void)
{
	return (uintptr_t)pthread_self();
}

int ph_backend_begin(struct pagehint_backend *backend)
{
	uintptr_t nobody = 0, me = self();
	if (backend->sys->getpid(backend->sys->ctx) != backend->pid)
		return -ENODEV;
	if (atomic_compare_exchange_strong(&backend->inside, &nobody, me))
		return 0;
	return nobody == me ? -EDEADLK : -EBUSY;
}

void ph_backend_end(struct pagehint_backend *backend)
{
	atomic_store(&backend->inside, 0);
}

void ph_backend_count(struct pagehint_backend *backend, size_t word, uint64_t amount)
{
	atomic_fetch_add_explicit(&backend->counters[word], amount, memory_order_relaxed);
}

void ph_backend_count_sum(struct pagehint_backend *backend, const struct ph_sum *sum)
{
	PH_COUNT(backend, asked, sum->total.asked);
	PH_COUNT(backend, freed, sum->total.freed);
	PH_COUNT(backend, absent, sum->total.absent);
	PH_COUNT(backend, accepted, sum->total.accepted);
	PH_COUNT(backend, kept, sum->total.kept);
	PH_COUNT(backend, lazy, sum->total.lazy);
	PH_COUNT(backend, failed, sum->total.failed);
	for (uint32_t why = 0; why < PAGEHINT_WHY_COUNT; why++) {
		ph_backend_count(backend, PH_WORD(kept_by) + why, sum->kept_by[why]);
		ph_backend_count(backend, PH_WORD(failed_by) + why, sum->failed_by[why]);
	}
}

int pagehint_backend_stats(const struct pagehint_backend *backend, struct pagehint_backend_stats *stats)
{
	uint64_t words[PH_BACKEND_COUNTERS];
	struct pagehint_backend_stats now;
	for (size_t i = 0; i < PH_BACKEND_COUNTERS; i++)
		words[i] = atomic_load_explicit(&backend->counters[i], memory_order_relaxed);
	memcpy(&now, words, sizeof(now));
	return PH_OPTS_OUT(stats, now);
}

int pagehint_backend_extent(struct pagehint_backend *backend, uint64_t frame, uint64_t *ret_frames,
			    uint64_t *ret_least_bytes)
{
	uint64_t frames = UINT64_MAX - frame, least = 0, one = UINT64_C(1) << backend->frame_shift;
	if (backend->ops.extent != NULL) {
		int r = backend->ops.extent(backend->ctx, frame, &frames, &least);
		if (r < 0)
			return r;
	}
	*ret_frames = frames;
	*ret_least_bytes = least < one ? one : least;
	return 0;
}

uint32_t pagehint_backend_max_runs(const struct pagehint_backend *backend)
{
	return backend->max_runs;
}

const char *pagehint_backend_name(const struct pagehint_backend *backend)
{
	return backend->ops.name;
}

uint32_t pagehint_backend_caps(const struct pagehint_backend *backend)
{
	return backend->ops.caps;
}

void *ph_backend_ctx(const struct pagehint_backend *backend, const char *name)
{
	return backend != NULL && backend->ops.name == name ? backend->ctx : NULL;
}

uint32_t ph_backend_frame_shift(const struct pagehint_backend *backend)
{
	return backend->frame_shift;
}

void ph_backend_log(struct pagehint_backend *backend, uint32_t level, const char *text)
{
	uint64_t before = backend->hooks.dropped_total;
	ph_hooks_log(&backend->hooks, backend->sys, level, text);
	PH_COUNT(backend, log_dropped, backend->hooks.dropped_total - before);
}
