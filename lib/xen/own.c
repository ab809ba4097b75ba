#include "xen/own.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "memory/map.h"
#include "xen/abi.h"

#define ENTRY_PRESENT (UINT64_C(1) << 63)
#define ENTRY_FRAME ((UINT64_C(1) << 55) - 1)

static int read_names(struct pagehint_xen *x, uint64_t addr, uint32_t n)
{
	if (x->pagemap < 0) {
		int fd = x->sys->open(x->sys->ctx, "/proc/self/pagemap", O_RDONLY);
		if (fd < 0)
			return fd;
		x->pagemap = fd;
	}
	size_t bytes = n * sizeof(x->pagemap_entries[0]);
	int64_t got = x->sys->pread(x->sys->ctx, x->pagemap, x->pagemap_entries, bytes,
				    addr / PH_XEN_FRAME_BYTES * sizeof(x->pagemap_entries[0]));
	if (got < 0)
		return (int)got;
	return (uint64_t)got == bytes ? 0 : -EIO;
}

/* At most a batch of frames, mapped one after another. */
static void release_part(struct ph_xen_release *r, uint32_t index, uint64_t frame, uint64_t addr, uint32_t n)
{
	struct pagehint_xen *x = r->x;
	int error = read_names(x, addr, n);
	if (error < 0) {
		r->stop = ph_xen_refused(error);
		ph_xen_release_not_tried(r, index, n);
		return;
	}
	for (uint32_t i = 0; i < n; i++) {
		uint64_t name = x->pagemap_entries[i] & ENTRY_FRAME;
		if (r->stop.error != 0) {
			ph_xen_release_not_tried(r, index, n - i);
			return;
		}
		if ((x->pagemap_entries[i] & ENTRY_PRESENT) == 0) {
			ph_xen_release_kept(r, index, 1, PAGEHINT_WHY_CANNOT); /* no page to give */
		} else if (name == 0) {
			r->stop = ph_xen_refused(-EPERM); /* numbers are hidden from us */
			ph_xen_release_not_tried(r, index, n - i);
			return;
		} else {
			if ((x->flags & PAGEHINT_XEN_NO_SCRUB) == 0) {
				memset((void *)(uintptr_t)(addr + (uint64_t)i * PH_XEN_FRAME_BYTES), 0,
				       PH_XEN_FRAME_BYTES);
				x->stats.scrubbed++;
			}
			ph_xen_release_add(r, index, frame + i, name);
		}
	}
}

void ph_xen_own_release(struct ph_xen_release *r, uint32_t index, const struct pagehint_run *run)
{
	struct pagehint_xen *x = r->x;
	struct ph_region region;
	int error = ph_map_enter(x->memory, run->frame, run->frames, &region);
	if (error < 0) {
		ph_xen_release_kept(r, index, run->frames,
				    error == -EBUSY ? PAGEHINT_WHY_PINNED : PAGEHINT_WHY_NO_REGION);
		return;
	}
	if ((region.flags & PAGEHINT_REGION_LOCKED) == 0 || region.host_addr == 0) {
		ph_xen_release_kept(r, index, run->frames, PAGEHINT_WHY_CANNOT);
		ph_map_leave(x->memory, region.id);
		return;
	}
	uint64_t addr = region.host_addr + ((run->frame - region.frame) << PH_XEN_FRAME_SHIFT);
	for (uint64_t at = 0; at < run->frames;) {
		uint64_t left = run->frames - at;
		if (r->stop.error != 0) {
			ph_xen_release_not_tried(r, index, left);
			break;
		}
		uint32_t n = left < PH_XEN_BATCH ? (uint32_t)left : PH_XEN_BATCH;
		release_part(r, index, run->frame + at, addr + (at << PH_XEN_FRAME_SHIFT), n);
		at += n;
	}
	ph_xen_release_flush(r);
	ph_map_leave(x->memory, region.id);
}
