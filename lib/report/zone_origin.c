/*
 * zone_origin: a zone as the supplier of free runs: the ops of an origin, by what alloc/harvest.h does.
 */
#include <errno.h>

#include <pagehint/origin.h>

#include "alloc/cache.h"
#include "alloc/harvest.h"
#include "alloc/scrub.h"

static void zeroed(void *ctx, const struct pagehint_run *run)
{
	ph_scrub_zeroed(ctx, run);
}

static int next_span(void *ctx, uint64_t from, struct pagehint_run *ret_span)
{
	return ph_harvest_next_span(ctx, from, ret_span);
}

static int harvest(void *ctx, const struct pagehint_harvest *ask, struct pagehint_run *runs,
		   struct pagehint_harvested *ret)
{
	return ph_harvest(ctx, ask, runs, ret);
}

static void release(void *ctx, const struct pagehint_run *run, uint32_t how)
{
	ph_harvest_release(ctx, run, how);
}

static void depart(void *ctx, uint64_t frames)
{
	ph_harvest_depart(ctx, frames);
}

static void get_free(void *ctx, uint32_t order, struct pagehint_origin_free *ret_free)
{
	ph_harvest_free(ctx, order, ret_free);
}

static void quiesce(void *ctx)
{
	ph_cache_recall(ctx, NULL);
}

static void explain(void *ctx, const struct pagehint_sink *sink)
{
	pagehint_zone_explain(ctx, sink);
}

static void destroy(void *ctx)
{
	struct pagehint_zone *zone = ctx;
	atomic_store(&zone->origin, 0);
}

int pagehint_zone_origin_new(struct pagehint_zone *zone, struct pagehint_origin **ret_origin)
{
	if (zone == NULL || ret_origin == NULL)
		return -EINVAL;
	if (zone->flags & PAGEHINT_ZONE_SHARED)
		return -EBUSY; /* its host takes what is free */
	int ladder = (zone->flags & PAGEHINT_ZONE_LADDER) != 0;
	struct pagehint_origin_ops ops = {
		.struct_size = sizeof(ops),
		.name = "zone",
		.frame_shift = zone->frame_shift,
		.min_order = ladder ? 0 : zone->granule_order,
		.order = zone->granule_order,
		.next_span = next_span,
		.harvest = harvest,
		.release = release,
		.depart = depart,
		.get_free = get_free,
		.quiesce = quiesce,
		.explain = explain,
		.destroy = destroy,
		.zeroed = zeroed,
	};
	if (atomic_exchange(&zone->origin, 1) != 0)
		return -EBUSY;
	int r = pagehint_origin_new(&ops, zone, ret_origin);
	if (r < 0)
		atomic_store(&zone->origin, 0);
	return r;
}
