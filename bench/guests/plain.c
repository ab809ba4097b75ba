/*
 * pagehint-balloon as devices are today: each reported buffer is a call of its own. What the program merges, it is told to discard
 * in pieces of 4 MiB again, which are the buffers of a driver that reports in its default order. A baseline for density and fault.
 */
#include "engine.h"

#include <string.h>

#include <pagehint/backend.h>
#include <pagehint/host.h>

#define PIECE_FRAMES (UINT64_C(4) << 20 >> 12)

void (*const engine_hinted)(uint32_t id, const struct pagehint_run *runs, uint32_t n) = NULL;

static void add(struct pagehint_outcome *to, const struct pagehint_outcome *part)
{
	to->asked += part->asked;
	to->freed += part->freed;
	to->absent += part->absent;
	to->accepted += part->accepted;
	to->lazy += part->lazy;
	to->kept += part->kept;
	to->failed += part->failed;
	to->kept_why = part->kept != 0 ? part->kept_why : to->kept_why;
	to->lazy_why = part->lazy != 0 ? part->lazy_why : to->lazy_why;
	to->failed_why = part->failed != 0 ? part->failed_why : to->failed_why;
	to->error = part->failed != 0 ? part->error : to->error;
}

static int discard_run(struct pagehint_backend *inner, const struct pagehint_run *run, uint32_t flags,
		       struct pagehint_outcome *outcome)
{
	uint64_t end = run->frame + run->frames;
	memset(outcome, 0, sizeof(*outcome));
	for (uint64_t from = run->frame; from < end;) {
		uint64_t to = (from / PIECE_FRAMES + 1) * PIECE_FRAMES;
		struct pagehint_run piece = { from, (to < end ? to : end) - from };
		struct pagehint_outcome part;
		int r = pagehint_backend_discard(inner, &piece, 1, flags, &part, NULL, NULL);
		if (r != 0)
			return r;
		add(outcome, &part);
		from = piece.frame + piece.frames;
	}
	return 0;
}

static int discard(void *ctx, const struct pagehint_run *runs, uint32_t n, uint32_t flags,
		   struct pagehint_outcome *outcomes, uint32_t *ret_done)
{
	int r = 0;
	*ret_done = 0;
	while (r == 0 && *ret_done < n) {
		r = discard_run(ctx, &runs[*ret_done], flags, &outcomes[*ret_done]);
		*ret_done += r == 0;
	}
	return r;
}

static int extent(void *ctx, uint64_t frame, uint64_t *ret_frames, uint64_t *ret_least_bytes)
{
	return pagehint_backend_extent(ctx, frame, ret_frames, ret_least_bytes);
}

static void destroy(void *ctx)
{
	(void)pagehint_backend_free(ctx);
}

static int make(void *ctx, struct pagehint_map *map, struct pagehint_gate *gate, struct pagehint_backend **ret_backend)
{
	static const struct pagehint_backend_ops ops = {
		.struct_size = sizeof(ops), .name = "plain", .discard = discard, .extent = extent, .destroy = destroy
	};
	const struct pagehint_backend_opts opts = { .struct_size = sizeof(opts), .gate = gate };
	struct pagehint_backend *inner;
	(void)ctx;
	int r = pagehint_madvise_new(map, NULL, NULL, &inner);
	if (r != 0)
		return r;
	r = pagehint_backend_new(&ops, inner, &opts, ret_backend);
	if (r != 0)
		destroy(inner);
	return r;
}

int (*const engine_backend)(void *ctx, struct pagehint_map *map, struct pagehint_gate *gate,
			    struct pagehint_backend **ret_backend) = make;
