#include "outer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <pagehint/host.h>

struct outer *outer_latest;

void outer_discard(struct outer *outer, const struct pagehint_run *run)
{
	(void)!pagehint_backend_discard(outer->inner, run, 1, 0, NULL, NULL, NULL); /* where it misses, it misses */
}

/* It says that all went well: a wrong device does not know that it is. */
static int discard(void *ctx, const struct pagehint_run *runs, uint32_t n, uint32_t flags,
		   struct pagehint_outcome *outcomes, uint32_t *ret_done)
{
	(void)flags;
	for (uint32_t i = 0; i < n; i++) {
		wrong_discard(ctx, &runs[i]);
		memset(&outcomes[i], 0, sizeof(outcomes[i]));
		outcomes[i].asked = outcomes[i].accepted = runs[i].frames << 12;
	}
	*ret_done = n;
	return 0;
}

static int extent(void *ctx, uint64_t frame, uint64_t *ret_frames, uint64_t *ret_least_bytes)
{
	return pagehint_backend_extent(((struct outer *)ctx)->inner, frame, ret_frames, ret_least_bytes);
}

static void destroy(void *ctx)
{
	struct outer *outer = ctx;
	(void)pagehint_backend_free(outer->inner);
	free(outer);
}

static int make(void *ctx, struct pagehint_map *map, struct pagehint_gate *gate, struct pagehint_backend **ret_backend)
{
	static const struct pagehint_backend_ops ops = {
		.struct_size = sizeof(ops), .name = "wrong", .discard = discard, .extent = extent, .destroy = destroy
	};
	const struct pagehint_backend_opts opts = { .struct_size = sizeof(opts), .gate = gate };
	struct outer *outer = calloc(1, sizeof(*outer));
	(void)ctx;
	if (outer == NULL)
		return -ENOMEM;
	outer->map = map;
	int r = pagehint_madvise_new(map, NULL, NULL, &outer->inner);
	if (r == 0)
		r = pagehint_backend_new(&ops, outer, &opts, ret_backend);
	if (r != 0)
		destroy(outer);
	else
		outer_latest = outer;
	return r;
}

int (*const engine_backend)(void *ctx, struct pagehint_map *map, struct pagehint_gate *gate,
			    struct pagehint_backend **ret_backend) = make;
