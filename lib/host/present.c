/*
 * present: the way back: memory is there again before something that cannot fault uses it.
 *
 * MADV_POPULATE_WRITE does it in one call. Kernels before 5.14 answer EINVAL: then shared memory is allocated through its
 * file, and anything else is touched, one byte a page, by writing back what is there (so content survives, also against a
 * guest that runs). A range may be rounded outward to host pages: making more present changes no content.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>

#include "base/bits.h"
#include "host/madvise.h"

static void touch(const struct ph_madvise *m, uint64_t addr, uint64_t bytes)
{
	for (uint64_t at = 0; at < bytes; at += m->page_bytes) {
		_Atomic unsigned char *byte = ph_host_pointer(addr + at);
		unsigned char is = atomic_load(byte);
		while (!atomic_compare_exchange_weak(byte, &is, is))
			;
	}
}

static int allocate(struct ph_madvise *m, const struct ph_region *region, uint64_t at, uint64_t bytes)
{
	PH_MADVISE_COUNT(m, populate);
	return m->sys->fallocate(m->sys->ctx, region->fd, FALLOC_FL_KEEP_SIZE, region->fd_offset + at, bytes);
}

static int make_present(struct ph_madvise *m, const struct ph_region *region, uint64_t at, uint64_t bytes)
{
	uint64_t addr = region->host_addr + at;
	if (region->backing == PAGEHINT_BACKING_DEVICE)
		return 0;
	if (region->backing == PAGEHINT_BACKING_GUEST_MEMFD)
		return allocate(m, region, at, bytes);
	PH_MADVISE_COUNT(m, populate);
	int r = m->sys->madvise(m->sys->ctx, ph_host_pointer(addr), (size_t)bytes, PH_ADVICE_POPULATE_WRITE);
	if (r != -EINVAL)
		return r;
	if (region->backing == PAGEHINT_BACKING_SHARED || region->backing == PAGEHINT_BACKING_HUGETLB)
		if (region->fd >= 0)
			return allocate(m, region, at, bytes);
	touch(m, addr, bytes);
	return 0;
}

int ph_present(struct ph_madvise *m, const struct pagehint_run *run)
{
	struct ph_region region;
	int r = ph_map_enter(m->map, run->frame, run->frames, &region);
	int entered = r == 0;
	/* a pinned region takes no discard, but this is just what a pin is made for */
	if (r == -EBUSY)
		r = ph_map_find(m->map, run->frame, &region);
	if (r < 0)
		return r;
	uint64_t at = (run->frame - region.frame) << m->frame_shift, bytes = run->frames << m->frame_shift;
	uint64_t from = ph_round_down(at, region.host_page_bytes), to = ph_round_up(at + bytes, region.host_page_bytes);
	r = make_present(m, &region, from, to - from);
	if (entered)
		ph_map_leave(m->map, region.id);
	return r;
}
