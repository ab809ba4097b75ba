#include "jemalloc/extent.h"

#include <errno.h>
#include <string.h>

#include <pagehint/backend.h>
#include <pagehint/map.h>
#include <pagehint/run.h>
#include <pagehint/zone.h>

#define CROSSINGS 8u     /* ends of regions that one search steps over */
#define FREE_TRIES 1000u /* while another thread frees a part of the same block */

static struct pagehint_jemalloc *of(extent_hooks_t *hooks)
{
	return (struct pagehint_jemalloc *)hooks;
}

static void count(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* Frames back to the zone. Return: 0; the zone's error, and then they are all still out. */
static int give(struct pagehint_jemalloc *jem, uint64_t frame, uint64_t frames)
{
	const struct pagehint_run run = { .frame = frame, .frames = frames };
	int error = -EAGAIN;
	if (frames == 0)
		return 0;
	for (unsigned i = 0; i < FREE_TRIES && error == -EAGAIN; i++)
		error = pagehint_zone_free_runs(jem->opts.zone, &run, 1, NULL);
	return error;
}

/*
 * A whole block where the size is one: the zone finds it without a walk. Else first fit, which wastes nothing; a bigger block
 * cut to size would leave pieces that fit no other extent of that size.
 */
static int take(struct pagehint_jemalloc *jem, uint64_t frames, uint64_t align, uint64_t *ret_frame)
{
	const uint32_t order = (uint32_t)__builtin_ctzll(frames);
	if ((frames & (frames - 1)) == 0 && align <= frames && order <= PAGEHINT_ORDER_MAX)
		return pagehint_zone_alloc(jem->opts.zone, order, ret_frame);
	return pagehint_zone_alloc_contig(jem->opts.zone, frames, align, ret_frame);
}

/*
 * Of a run across the end of a region, what lies before the end is held and the rest given back, so that the zone shows what
 * comes after it. Return: frames held.
 */
static uint64_t hold(struct pagehint_jemalloc *jem, uint64_t frame, uint64_t frames)
{
	struct pagehint_region_info info = { .struct_size = sizeof(info) };
	uint64_t before = frames;
	if (pagehint_map_lookup(jem->opts.map, frame, &info) == 0 && info.frame + info.frames - frame < frames)
		before = info.frame + info.frames - frame;
	(void)give(jem, frame + before, frames - before); /* just taken: cannot be refused */
	return before;
}

/* A run that lies in one region. */
static int take_mapped(struct pagehint_jemalloc *jem, uint64_t frames, uint64_t align, uint64_t *ret_frame,
		       char **ret_addr)
{
	struct pagehint_run held[CROSSINGS];
	uint32_t n = 0;
	uint64_t frame = 0;
	void *addr = NULL;
	int error = -ENOSPC;
	while (n < CROSSINGS) {
		error = take(jem, frames, align, &frame);
		if (error != 0 || pagehint_map_host(jem->opts.map, frame, frames, &addr) == 0)
			break;
		held[n].frame = frame;
		held[n++].frames = hold(jem, frame, frames);
		error = -ENOSPC;
	}
	while (n > 0) {
		n--;
		(void)give(jem, held[n].frame, held[n].frames);
	}
	if (error != 0)
		return error;
	*ret_frame = frame;
	*ret_addr = addr;
	return 0;
}

/* Aligned by address, too: where a region's addresses do not go with its frame numbers, more is taken and cut. */
static int take_aligned(struct pagehint_jemalloc *jem, uint64_t frames, uint64_t align, char **ret_addr)
{
	const uint64_t align_bytes = align << jem->frame_shift;
	uint64_t frame;
	char *addr;
	int error = take_mapped(jem, frames, align, &frame, &addr);
	if (error != 0)
		return error;
	if ((uintptr_t)addr % align_bytes == 0) {
		*ret_addr = addr;
		return 0;
	}
	(void)give(jem, frame, frames);
	if (frames + align < frames)
		return -ENOSPC;
	error = take_mapped(jem, frames + align - 1, 1, &frame, &addr);
	if (error != 0)
		return error;
	const uint64_t skip = (align_bytes - (uintptr_t)addr % align_bytes) % align_bytes >> jem->frame_shift;
	(void)give(jem, frame, skip);
	(void)give(jem, frame + skip + frames, align - 1 - skip);
	*ret_addr = addr + (skip << jem->frame_shift);
	return 0;
}

static void *extent_alloc(extent_hooks_t *hooks, void *new_addr, size_t size, size_t alignment, bool *zero,
			  bool *commit, unsigned arena)
{
	struct pagehint_jemalloc *jem = of(hooks);
	const uint64_t frames = (uint64_t)size >> jem->frame_shift;
	uint64_t align = (uint64_t)alignment >> jem->frame_shift;
	char *addr;
	(void)arena;
	if (new_addr != NULL || frames == 0)
		return NULL;
	align = align == 0 ? 1 : align;
	int error = take_aligned(jem, frames, align, &addr);
	if (error != 0 && jem->opts.wanted != NULL && jem->opts.wanted(jem->opts.ctx, size, error) == 0)
		error = take_aligned(jem, frames, align, &addr);
	if (error != 0) {
		count(&jem->refused, 1);
		return NULL;
	}
	if (*zero)
		memset(addr, 0, size);
	*commit = true;
	count(&jem->held, frames);
	count(&jem->allocs, 1);
	return addr;
}

/* Return: true = refused, jemalloc keeps it. */
static bool extent_dalloc(extent_hooks_t *hooks, void *addr, size_t size, bool committed, unsigned arena)
{
	struct pagehint_jemalloc *jem = of(hooks);
	const uint64_t frames = (uint64_t)size >> jem->frame_shift;
	uint64_t frame;
	(void)committed;
	(void)arena;
	/* before it is free: whoever sees the frames in the zone may have them counted the next moment */
	atomic_fetch_sub_explicit(&jem->held, frames, memory_order_relaxed);
	if (pagehint_map_frame(jem->opts.map, addr, &frame) != 0 || give(jem, frame, frames) != 0) {
		count(&jem->held, frames);
		return true;
	}
	count(&jem->frees, 1);
	return false;
}

static void extent_destroy(extent_hooks_t *hooks, void *addr, size_t size, bool committed, unsigned arena)
{
	/* if refused, it stays held: pagehint_jemalloc_free sees that */
	(void)extent_dalloc(hooks, addr, size, committed, arena);
}

static bool extent_commit(extent_hooks_t *hooks, void *addr, size_t size, size_t offset, size_t length, unsigned arena)
{
	(void)hooks, (void)addr, (void)size, (void)offset, (void)length, (void)arena;
	return false;
}

static bool extent_decommit(extent_hooks_t *hooks, void *addr, size_t size, size_t offset, size_t length,
			    unsigned arena)
{
	(void)hooks, (void)addr, (void)size, (void)offset, (void)length, (void)arena;
	return true;
}

/* Was all of it given back, so that it reads zero? What was kept, or is lazily freed, has its old content. */
static int discard(struct pagehint_jemalloc *jem, char *addr, uint64_t frames)
{
	struct pagehint_backend *backend = jem->opts.backend;
	struct pagehint_run run = { .frames = frames };
	struct pagehint_outcome sum;
	int error = backend == NULL ? -EOPNOTSUPP : pagehint_map_frame(jem->opts.map, addr, &run.frame);
	if (error == 0 && (pagehint_backend_caps(backend) & PAGEHINT_BACKEND_READS_ZERO) == 0)
		error = -EOPNOTSUPP;
	if (error == 0)
		error = pagehint_backend_discard(backend, &run, 1, 0, NULL, &sum, NULL);
	if (error == 0 && sum.freed + sum.accepted != frames << jem->frame_shift)
		error = -EBUSY;
	return error;
}

static bool extent_purge_forced(extent_hooks_t *hooks, void *addr, size_t size, size_t offset, size_t length,
				unsigned arena)
{
	struct pagehint_jemalloc *jem = of(hooks);
	(void)size;
	(void)arena;
	if (discard(jem, (char *)addr + offset, (uint64_t)length >> jem->frame_shift) != 0) {
		count(&jem->purges_refused, 1);
		return true;
	}
	count(&jem->purged, length);
	return false;
}

static bool extent_purge_lazy(extent_hooks_t *hooks, void *addr, size_t size, size_t offset, size_t length,
			      unsigned arena)
{
	(void)hooks, (void)addr, (void)size, (void)offset, (void)length, (void)arena;
	return true;
}

/* Frames are freed in whatever pieces: nothing to do. */
static bool extent_split(extent_hooks_t *hooks, void *addr, size_t size, size_t size_a, size_t size_b, bool committed,
			 unsigned arena)
{
	(void)hooks, (void)addr, (void)size, (void)size_a, (void)size_b, (void)committed, (void)arena;
	return false;
}

/* Neighbours by address may be of two regions, whose frames are no neighbours. */
static bool extent_merge(extent_hooks_t *hooks, void *addr_a, size_t size_a, void *addr_b, size_t size_b,
			 bool committed, unsigned arena)
{
	struct pagehint_jemalloc *jem = of(hooks);
	uint64_t frame;
	void *addr;
	(void)addr_b, (void)committed, (void)arena;
	return pagehint_map_frame(jem->opts.map, addr_a, &frame) != 0 ||
	       pagehint_map_host(jem->opts.map, frame, ((uint64_t)size_a + size_b) >> jem->frame_shift, &addr) != 0;
}

const extent_hooks_t ph_jemalloc_hooks = {
	.alloc = extent_alloc,
	.dalloc = extent_dalloc,
	.destroy = extent_destroy,
	.commit = extent_commit,
	.decommit = extent_decommit,
	.purge_lazy = extent_purge_lazy,
	.purge_forced = extent_purge_forced,
	.split = extent_split,
	.merge = extent_merge,
};
