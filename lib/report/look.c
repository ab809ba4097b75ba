#include "report/look.h"

#include <errno.h>
#include <string.h>

#include "base/bits.h"

#define STRIDE_SHIFT 21u /* of 2 MiB */

void ph_look_begin(struct ph_look *look)
{
	memset(look, 0, sizeof(*look));
	look->active = 1;
}

void ph_look_advance(struct ph_look *look, uint64_t next)
{
	if (next > look->cursor)
		look->cursor = next;
}

static void spend(uint32_t *work)
{
	if (*work > 0)
		--*work;
}

/* Makes [cursor, span_end) a range of present frames. */
static int find_span(struct ph_look *look, const struct pagehint_origin *origin)
{
	struct pagehint_run span = { 0, 0 };
	if (look->cursor < look->span_end)
		return 0;
	int err = origin->ops.next_span(origin->ctx, look->cursor, &span);
	if (err == 0 &&
	    (span.frames == 0 || !ph_sum_fits(span.frame, span.frames) || span.frame + span.frames <= look->cursor))
		err = -EINVAL; /* not a span behind the cursor: going on would never end */
	if (err != 0 && err != -ENOENT) {
		look->tally.origin_errors++;
		look->tally.origin_error = err;
	}
	if (err != 0)
		return -ENOENT;
	ph_look_advance(look, span.frame);
	look->span_end = span.frame + span.frames;
	return 0;
}

static int extent(struct pagehint_backend *backend, uint64_t frame, uint64_t *ret_end, uint64_t *ret_least)
{
	uint64_t frames = 0, least = 0;
	int err = pagehint_backend_extent(backend, frame, &frames, &least);
	if (err != 0)
		return err;
	if (frames == 0)
		return -ERANGE;
	*ret_end = ph_sum_fits(frame, frames) ? frame + frames : UINT64_MAX;
	*ret_least = least;
	return 0;
}

/*
 * The first frame of a region behind `missed`, which has none; `hit` has one. Whose region the frames between have is not asked:
 * a small one that touches the larger one above it is found as well.
 */
static uint64_t region_start(struct pagehint_backend *backend, uint64_t missed, uint64_t hit, uint32_t *work)
{
	while (missed + 1 < hit) {
		uint64_t middle = missed + (hit - missed) / 2, end, least;
		spend(work);
		if (extent(backend, middle, &end, &least) == 0)
			hit = middle;
		else
			missed = middle;
	}
	return hit;
}

/* Walks over frames that no region has: 0 at a region, -ENOENT at the end of the span, -EAGAIN no work left. */
static int cross_hole(struct ph_look *look, struct pagehint_backend *backend, uint64_t stride, uint32_t *work)
{
	while (*work > 0) {
		uint64_t missed = look->cursor, end, least;
		uint64_t hit = ph_round_down(missed, stride) + stride;
		int last = hit >= look->span_end || hit < missed;
		if (last)
			hit = look->span_end - 1;
		spend(work);
		int found = hit > missed && extent(backend, hit, &end, &least) == 0;
		if (found)
			hit = region_start(backend, missed, hit, work);
		else if (last)
			hit = look->span_end;
		look->tally.no_region += hit - missed;
		ph_look_advance(look, hit);
		if (found)
			return 0;
		if (last)
			return -ENOENT;
	}
	return -EAGAIN;
}

int ph_look_window(struct ph_look *look, const struct pagehint_origin *origin, struct pagehint_backend *backend,
		   uint32_t *work, struct ph_window *ret_window)
{
	uint32_t shift = origin->ops.frame_shift;
	uint64_t stride = shift < STRIDE_SHIFT ? UINT64_C(1) << (STRIDE_SHIFT - shift) : 1;
	while (*work > 0) {
		uint64_t end, least;
		int err = find_span(look, origin);
		if (err != 0)
			return err;
		spend(work);
		err = extent(backend, look->cursor, &end, &least);
		if (err == 0) {
			ret_window->from = look->cursor;
			ret_window->to = end < look->span_end ? end : look->span_end;
			ret_window->least_bytes = least;
			return 0;
		}
		err = cross_hole(look, backend, stride, work);
		if (err == -EAGAIN)
			return err;
	}
	return -EAGAIN;
}
