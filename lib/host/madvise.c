#include "host/madvise.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/opts.h"
#include "discard/backend.h"
#include "discard/handle.h"
#include "host/residency.h"

/* Known by its address: two backends of this kind share it, nobody else has it. */
static const char name[] = "madvise";

/* Whole pages of the least size: by file offset where the file is what gets a hole, else by address. */
static void cut_to_size(const struct ph_job *job, uint64_t *ret_at, uint64_t *ret_end)
{
	const struct ph_region *region = &job->region;
	int by_file = region->fd >= 0 && region->backing != PAGEHINT_BACKING_ANON &&
		      region->backing != PAGEHINT_BACKING_FILE_PRIVATE;
	uint64_t base = by_file ? region->fd_offset : region->host_addr;
	uint64_t low = ph_round_up(base + job->at, region->least_bytes);
	uint64_t high = ph_round_down(base + job->at + job->bytes, region->least_bytes);
	*ret_at = low - base;
	*ret_end = high < low ? low - base : high - base;
}

static void discard_job(struct ph_madvise *m, struct ph_job *job)
{
	uint64_t at, end, last = job->at + job->bytes;
	if (job->region.backing == PAGEHINT_BACKING_DEVICE) {
		ph_keep(m, job, job->at, job->bytes, PAGEHINT_WHY_CANNOT);
		return;
	}
	cut_to_size(job, &at, &end);
	if (at >= last || at >= end) {
		ph_keep(m, job, job->at, job->bytes, PAGEHINT_WHY_ALIGNMENT);
		return;
	}
	ph_keep(m, job, job->at, at - job->at, PAGEHINT_WHY_ALIGNMENT);
	if (job->region.backing == PAGEHINT_BACKING_ANON)
		ph_batch_add(m, job, at, end - at);
	else if (job->region.backing == PAGEHINT_BACKING_FILE_PRIVATE)
		ph_file_discard(m, job, at, end - at);
	else
		ph_shared_discard(m, job, at, end - at);
	ph_keep(m, job, end, last - end, PAGEHINT_WHY_ALIGNMENT);
}

static void discard_run(struct ph_madvise *m, const struct pagehint_run *run, uint32_t flags,
			struct pagehint_outcome *outcome)
{
	struct ph_job job = { .bytes = run->frames << m->frame_shift, .flags = flags, .outcome = outcome };
	int r = ph_map_enter(m->map, run->frame, run->frames, &job.region);
	if (r == -EBUSY) {
		ph_outcome_kept(outcome, job.bytes, PAGEHINT_WHY_PINNED);
		return;
	}
	if (r < 0) {
		ph_outcome_failed(outcome, job.bytes, PAGEHINT_WHY_NO_REGION, -ERANGE);
		return;
	}
	job.at = (run->frame - job.region.frame) << m->frame_shift;
	discard_job(m, &job);
	if (job.in_batch)
		ph_batch_keep_entered(m, &job);
	else
		ph_map_leave(m->map, job.region.id);
}

static int madvise_discard(void *ctx, const struct pagehint_run *runs, uint32_t n, uint32_t flags,
			   struct pagehint_outcome *outcomes, uint32_t *ret_done)
{
	struct ph_madvise *m = ctx;
	int first = 0;
	for (uint32_t i = 0; i < n; i++)
		discard_run(m, &runs[i], flags, &outcomes[i]);
	ph_batch_flush(m);
	for (uint32_t i = 0; i < n && first == 0; i++)
		first = outcomes[i].error;
	*ret_done = n;
	return first;
}

static int madvise_populate(void *ctx, const struct pagehint_run *runs, uint32_t n, uint32_t *ret_done)
{
	for (*ret_done = 0; *ret_done < n; ++*ret_done) {
		int r = ph_present(ctx, &runs[*ret_done]);
		if (r < 0)
			return r;
	}
	return 0;
}

static int madvise_extent(void *ctx, uint64_t frame, uint64_t *ret_frames, uint64_t *ret_least_bytes)
{
	struct ph_madvise *m = ctx;
	struct ph_region region;
	int r = ph_map_find(m->map, frame, &region);
	if (r < 0)
		return r;
	*ret_frames = region.frames - (frame - region.frame);
	*ret_least_bytes = region.least_bytes;
	return 0;
}

static void madvise_explain(void *ctx, const struct pagehint_sink *sink)
{
	struct ph_madvise *m = ctx;
	char text[192];
	if (pagehint_map_regions(m->map) == 0)
		sink->line(sink->ctx, "madvise: the map has no region");
	pagehint_map_explain(m->map, sink);
	snprintf(text, sizeof(text), "madvise: private files are cut into %" PRIu64 " holes of %" PRIu32 " allowed",
		 (uint64_t)atomic_load(PH_MADVISE_COUNTER(m, mappings_used)), m->mapping_budget);
	sink->line(sink->ctx, text);
	if (m->batch_error != 0) {
		snprintf(text, sizeof(text), "madvise: one call a run, since process_madvise is refused (error %d)",
			 (int)m->batch_error);
		sink->line(sink->ctx, text);
	}
	if ((m->flags & PAGEHINT_MADVISE_LAZY) != 0)
		sink->line(sink->ctx, "madvise: lazy: anonymous memory counts as used until the kernel wants it");
}

static void madvise_destroy(void *ctx)
{
	struct ph_madvise *m = ctx;
	if (m->pidfd >= 0)
		(void)m->sys->close(m->sys->ctx, m->pidfd);
	if (m->pagemap >= 0)
		(void)m->sys->close(m->sys->ctx, m->pagemap);
	free(m);
}

static int init(struct ph_madvise *m, struct pagehint_map *map, const struct pagehint_madvise_opts *how)
{
	m->map = map;
	m->sys = ph_map_sys(map);
	m->frame_shift = pagehint_map_frame_shift(map);
	m->flags = how->flags;
	m->mapping_budget = how->mapping_budget == 0 ? PH_MAPPING_BUDGET : how->mapping_budget;
	m->pidfd = -1;
	m->pagemap = -1;
	int64_t page = m->sys->page_size(m->sys->ctx);
	if (page <= 0)
		return page < 0 ? (int)page : -EINVAL;
	m->page_bytes = (uint64_t)page;
	return 0;
}

static int wrap(struct ph_madvise *m, struct pagehint_backend_opts *opts, struct pagehint_backend **ret_backend)
{
	const struct pagehint_backend_ops ops = {
		.struct_size = sizeof(ops),
		.name = name,
		.caps = PAGEHINT_BACKEND_READS_ZERO,
		.max_runs = PH_BATCH_MAX,
		.discard = madvise_discard,
		.populate = madvise_populate,
		.extent = madvise_extent,
		.explain = madvise_explain,
		.destroy = madvise_destroy,
	};
	if (opts->frame_shift != 0 && opts->frame_shift != m->frame_shift)
		return -EINVAL;
	opts->struct_size = sizeof(*opts);
	opts->frame_shift = m->frame_shift;
	return ph_backend_new_with(&ops, m, opts, m->sys, ret_backend);
}

int pagehint_madvise_new(struct pagehint_map *map, const struct pagehint_madvise_opts *madvise,
			 const struct pagehint_backend_opts *opts, struct pagehint_backend **ret_backend)
{
	struct pagehint_madvise_opts how;
	struct pagehint_backend_opts handle;
	if (map == NULL || ret_backend == NULL)
		return -EINVAL;
	int r = PH_OPTS_IN(how, madvise);
	if (r == 0)
		r = PH_OPTS_IN(handle, opts);
	if (r == 0 && (how.flags & ~(PAGEHINT_MADVISE_LAZY | PAGEHINT_MADVISE_NO_BATCH)) != 0)
		r = -EINVAL;
	if (r != 0)
		return r;
	struct ph_madvise *m = calloc(1, sizeof(*m));
	if (m == NULL)
		return -ENOMEM;
	r = init(m, map, &how);
	if (r == 0)
		r = wrap(m, &handle, &m->handle);
	if (r < 0) {
		free(m);
		return r;
	}
	ph_batch_probe(m);
	*ret_backend = m->handle;
	return 0;
}

int pagehint_madvise_stats(const struct pagehint_backend *backend, struct pagehint_madvise_stats *stats)
{
	const struct ph_madvise *m = ph_backend_ctx(backend, name);
	uint64_t words[PH_MADVISE_COUNTERS];
	struct pagehint_madvise_stats now;
	if (m == NULL)
		return -EINVAL;
	for (size_t i = 0; i < PH_MADVISE_COUNTERS; i++)
		words[i] = atomic_load_explicit(&m->counters[i], memory_order_relaxed);
	memcpy(&now, words, sizeof(now));
	return PH_OPTS_OUT(stats, now);
}

static int resident_inside(struct ph_madvise *m, const struct pagehint_run *run, uint64_t *ret_bytes)
{
	struct ph_region region;
	struct ph_residency found;
	int r = ph_map_find(m->map, run->frame, &region);
	if (r == 0 && run->frames > region.frames - (run->frame - region.frame))
		r = -ERANGE;
	if (r == 0)
		r = ph_residency(m, &region, (run->frame - region.frame) << m->frame_shift,
				 run->frames << m->frame_shift, &found);
	if (r == 0)
		*ret_bytes = found.own + found.cache;
	return r;
}

int pagehint_madvise_resident(struct pagehint_backend *backend, const struct pagehint_run *run, uint64_t *ret_bytes)
{
	struct ph_madvise *m = ph_backend_ctx(backend, name);
	if (m == NULL || ret_bytes == NULL || ph_backend_check_runs(backend, run, 1) < 0)
		return -EINVAL;
	int r = ph_backend_begin(backend);
	if (r < 0)
		return r;
	r = resident_inside(m, run, ret_bytes);
	ph_backend_end(backend);
	return r;
}
