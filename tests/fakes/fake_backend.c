#include "fakes/fake_backend.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct fake *fake_new(struct model *model)
{
	struct fake *f = calloc(1, sizeof(*f));
	if (f == NULL)
		abort();
	f->model = model;
	f->capacity = FAKE_SLOTS;
	f->half_why = PAGEHINT_WHY_PAGE_CACHE;
	return f;
}

static int fails(struct fake *f)
{
	f->calls++;
	if (f->during != NULL)
		f->during(f->during_ctx);
	return f->fail_at != 0 && --f->fail_at == 0;
}

static void note_batch(struct fake *f, const struct pagehint_run *runs, uint32_t n, uint32_t flags)
{
	uint64_t frames = 0;
	for (uint32_t i = 0; i < n; i++) {
		f->wrong += !model_is(f->model, runs[i].frame, runs[i].frames, FRAME_TAKEN);
		frames += runs[i].frames;
	}
	f->batches++;
	f->runs += n;
	f->frames += frames;
	f->largest = frames > f->largest ? frames : f->largest;
	f->last_flags = flags;
}

static struct pagehint_outcome answer(const struct fake *f, const struct pagehint_run *run)
{
	struct pagehint_outcome o = { .asked = run->frames << 12 };
	int kept = run->frame >= f->kept_from && run->frame < f->kept_to;
	switch (kept ? (uint32_t)ANSWER_KEPT : f->answer) {
	case ANSWER_KEPT:
		o.kept = o.asked;
		o.kept_why = f->why;
		break;
	case ANSWER_FAILED:
		o.failed = o.asked;
		o.failed_why = f->why;
		o.error = -EIO;
		break;
	case ANSWER_LAZY:
		o.lazy = o.asked;
		o.lazy_why = PAGEHINT_WHY_MADV_FREE;
		break;
	case ANSWER_HALF:
		o.freed = o.asked / 2;
		o.kept = o.asked - o.freed;
		o.kept_why = f->half_why;
		break;
	case ANSWER_LIE:
		o.freed = 3 * o.asked;
		break;
	default:
		o.freed = o.asked;
	}
	return o;
}

static int discard(void *ctx, const struct pagehint_run *runs, uint32_t n, uint32_t flags,
		   struct pagehint_outcome *outcomes, uint32_t *ret_done)
{
	struct fake *f = ctx;
	uint32_t done = n > f->short_by ? n - f->short_by : 0;
	note_batch(f, runs, n, flags);
	if (fails(f))
		return f->fail_with;
	if (f->error != 0)
		return f->error;
	for (uint32_t i = 0; i < done; i++)
		outcomes[i] = answer(f, &runs[i]);
	*ret_done = done;
	return done < n ? -EIO : 0;
}

static int submit(void *ctx, const struct pagehint_run *runs, uint32_t n, uint32_t flags, uint64_t cookie)
{
	struct fake *f = ctx;
	if (fails(f))
		return f->fail_with;
	if (f->error != 0)
		return f->error;
	if (f->held_n >= f->capacity)
		return -EAGAIN;
	note_batch(f, runs, n, flags);
	struct fake_batch *batch = &f->held[f->held_n++];
	batch->id = cookie;
	batch->n = n;
	batch->frames = 0;
	memcpy(batch->runs, runs, n * sizeof(*runs));
	for (uint32_t i = 0; i < n; i++)
		batch->frames += runs[i].frames;
	f->held_frames += batch->frames;
	return 0;
}

static int reap(void *ctx, uint32_t max, struct pagehint_outcome *outcomes, uint64_t *ret_cookie, uint32_t *ret_n)
{
	struct fake *f = ctx;
	if (fails(f))
		return f->fail_with;
	if (f->reap_error != 0)
		return f->reap_error;
	if (f->invents > 0) {
		f->invents--;
		*ret_cookie = UINT64_C(0xdead00000000beef);
		*ret_n = 1;
		return 0;
	}
	if (f->silent || f->held_n == 0)
		return -EAGAIN;
	uint32_t at = f->backwards ? f->held_n - 1 : 0;
	struct fake_batch *batch = &f->held[at];
	uint32_t n = batch->n > f->short_by ? batch->n - f->short_by : 0;
	for (uint32_t i = 0; i < n && i < max; i++)
		outcomes[i] = answer(f, &batch->runs[i]);
	*ret_cookie = batch->id;
	*ret_n = n;
	f->held_frames -= batch->frames;
	memmove(batch, batch + 1, (f->held_n - at - 1) * sizeof(*batch));
	f->held_n--;
	return 0;
}

static int extent(void *ctx, uint64_t frame, uint64_t *ret_frames, uint64_t *ret_least)
{
	struct fake *f = ctx;
	f->extents++;
	if (fails(f))
		return f->fail_with;
	if (f->regions_n == 0) {
		*ret_frames = UINT64_MAX - frame;
		*ret_least = 4096;
		return 0;
	}
	for (uint32_t i = 0; i < f->regions_n; i++) {
		const struct fake_region *r = &f->regions[i];
		if (frame < r->frame || frame - r->frame >= r->frames)
			continue;
		*ret_frames = r->frames - (frame - r->frame);
		*ret_least = r->least;
		return 0;
	}
	return -ERANGE;
}

static void explain(void *ctx, const struct pagehint_sink *sink)
{
	(void)ctx;
	sink->line(sink->ctx, "fake: does as it is told");
}

static void destroy(void *ctx)
{
	free(ctx);
}

struct pagehint_backend *fake_backend(struct fake *f, int async, uint32_t max_runs, struct pagehint_gate *gate)
{
	struct pagehint_backend_ops ops = {
		.struct_size = sizeof(ops),
		.name = async ? "fake async" : "fake",
		.caps = async ? PAGEHINT_BACKEND_ASYNC : 0,
		.max_runs = max_runs,
		.extent = extent,
		.explain = explain,
		.destroy = destroy,
	};
	struct pagehint_backend_opts opts = { .struct_size = sizeof(opts), .gate = gate };
	struct pagehint_backend *backend = NULL;
	if (async) {
		ops.submit = submit;
		ops.reap = reap;
	} else {
		ops.discard = discard;
	}
	if (max_runs == 0 || max_runs > FAKE_RUNS || pagehint_backend_new(&ops, f, &opts, &backend) != 0)
		abort();
	return backend;
}
