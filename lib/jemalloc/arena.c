#include "jemalloc/extent.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pagehint/map.h>
#include <pagehint/zone.h>

#include "base/opts.h"

/* "arena.<index>.<verb>" through mallctl; 0 or -errno. */
static int arena_ctl(uint32_t arena, const char *verb, void *value, size_t bytes)
{
	char name[64];
	snprintf(name, sizeof(name), "arena.%u.%s", (unsigned)arena, verb);
	return -mallctl(name, NULL, NULL, value, bytes);
}

static int read_ctl(const char *name, void *value, size_t bytes)
{
	return -mallctl(name, value, &bytes, NULL, 0);
}

static int check_opts(const struct pagehint_jemalloc_opts *opts, bool *ret_retain)
{
	size_t page;
	if (opts->zone == NULL || opts->map == NULL || (opts->flags & ~PAGEHINT_JEMALLOC_RETAIN) != 0 ||
	    opts->reserved != 0)
		return -EINVAL;
	int error = read_ctl("arenas.page", &page, sizeof(page));
	if (error == 0)
		error = read_ctl("opt.retain", ret_retain, sizeof(*ret_retain));
	if (error != 0)
		return error;
	if ((UINT64_C(1) << pagehint_map_frame_shift(opts->map)) > page)
		return -EINVAL;
	return *ret_retain && (opts->flags & PAGEHINT_JEMALLOC_RETAIN) == 0 ? -EOPNOTSUPP : 0;
}

/* What retains would otherwise take ever larger extents in advance, and every frame of them is hidden from the reporter. */
static int limit_growth(const struct pagehint_jemalloc *jem)
{
	const uint32_t shift = pagehint_zone_granule_order(jem->opts.zone) + jem->frame_shift;
	size_t limit = (size_t)1 << (shift < 63 ? shift : 62);
	return arena_ctl(jem->arena, "retain_grow_limit", &limit, sizeof(limit));
}

int pagehint_jemalloc_new(const struct pagehint_jemalloc_opts *opts, struct pagehint_jemalloc **ret_jem)
{
	struct pagehint_jemalloc_opts mine;
	bool retain = false;
	int error = PH_OPTS_IN(mine, opts);
	if (error == 0 && ret_jem == NULL)
		error = -EINVAL;
	if (error == 0)
		error = check_opts(&mine, &retain);
	if (error != 0)
		return error;
	struct pagehint_jemalloc *jem = calloc(1, sizeof(*jem));
	if (jem == NULL)
		return -ENOMEM;
	jem->hooks = ph_jemalloc_hooks;
	jem->opts = mine;
	jem->frame_shift = pagehint_map_frame_shift(mine.map);
	extent_hooks_t *hooks = &jem->hooks;
	unsigned arena;
	size_t bytes = sizeof(arena);
	error = -mallctl("arenas.create", &arena, &bytes, &hooks, sizeof(hooks));
	if (error != 0) {
		free(jem);
		return error == -EAGAIN ? -ENOMEM : error; /* all it says when the hooks gave nothing */
	}
	jem->arena = arena;
	error = retain ? limit_growth(jem) : 0;
	if (error != 0) {
		(void)pagehint_jemalloc_free(jem);
		return error;
	}
	*ret_jem = jem;
	return 0;
}

uint32_t pagehint_jemalloc_arena(const struct pagehint_jemalloc *jem)
{
	return jem->arena;
}

static uint64_t now(const _Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

int pagehint_jemalloc_stats(const struct pagehint_jemalloc *jem, struct pagehint_jemalloc_stats *stats)
{
	const struct pagehint_jemalloc_stats mine = {
		.held = now(&jem->held) << jem->frame_shift,
		.purged = now(&jem->purged),
		.allocs = now(&jem->allocs),
		.frees = now(&jem->frees),
		.refused = now(&jem->refused),
		.purges_refused = now(&jem->purges_refused),
	};
	return PH_OPTS_OUT(stats, mine);
}

int pagehint_jemalloc_free(struct pagehint_jemalloc *jem)
{
	if (jem == NULL)
		return 0;
	/* a second call, after frames were not given back, finds no arena any more */
	const int error = jem->arena == UINT32_MAX ? 0 : arena_ctl(jem->arena, "destroy", NULL, 0);
	if (error != 0)
		return -EBUSY;
	jem->arena = UINT32_MAX;
	if (now(&jem->held) != 0)
		return -EBUSY;
	free(jem);
	return 0;
}
