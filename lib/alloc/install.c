/*
 * install: memory behind frames before they are used, for guests whose memory cannot fault in; see pagehint/shared.h.
 *
 * Two bits a granule: evicted, set by the host when it takes the granule; filling, set by whoever installs it. Evicted goes only
 * after the hook is through: whoever sees it clear has memory. A `filling` that its owner died over is cleared by the host, when
 * it takes the granule next, or by a repair.
 */
#include <errno.h>

#include <pagehint/shared.h>

#include "alloc/evict.h"
#include "alloc/ops.h"

typedef int (*install_fn)(void *ctx, const struct pagehint_run *run);

static int install_granule(struct pagehint_zone *z, uint32_t slot, uint32_t granule, install_fn install, void *ctx)
{
	uint64_t bit = UINT64_C(1) << (granule % 64);
	ph_word *evicted = &ph_host_evicted(z, slot)[granule / 64], *filling = &ph_host_filling(z, slot)[granule / 64];
	if (!(atomic_load(evicted) & bit))
		return 0;
	if (atomic_fetch_or(filling, bit) & bit)
		return -EAGAIN;
	int r = 0;
	if (atomic_load(evicted) & bit) { /* else somebody was through just now */
		struct pagehint_run run = { ph_zone_base(z, slot) + ((uint64_t)granule << z->granule_order),
					    UINT64_C(1) << z->granule_order };
		r = install(ctx, &run);
		if (r == 0)
			atomic_fetch_and(evicted, ~bit);
	}
	atomic_fetch_and(filling, ~bit);
	return r;
}

int pagehint_zone_install(struct pagehint_zone *zone, uint64_t frame, uint64_t frames,
			  int (*install)(void *ctx, const struct pagehint_run *run), void *ctx)
{
	if (!(zone->flags & PAGEHINT_ZONE_SHARED) || install == NULL)
		return -EINVAL;
	int r = ph_zone_check_range(zone, frame, frames);
	if (r < 0)
		return r;
	PH_FOR_SECTIONS (part, frame, frames) {
		uint32_t slot = (uint32_t)ph_zone_slot(zone, part.frame), g = zone->granule_order;
		for (uint32_t i = part.offset >> g; i <= (part.offset + part.frames - 1) >> g; i++) {
			r = install_granule(zone, slot, i, install, ctx);
			if (r != 0)
				return r;
		}
	}
	return 0;
}
