#include "xen/own.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "memory/map.h"
#include "xen/abi.h"

#define ENTRY_PRESENT (UINT64_C(1) << 63)
#define ENTRY_ALONE (UINT64_C(1) << 56) /* mapped once, here; never said of the page of zeroes */
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

static int is_present(const struct pagehint_xen *x, uint32_t i)
{
	return (x->pagemap_entries[i] & ENTRY_PRESENT) != 0;
}

/*
 * Names of n pages, wiped unless that is not wanted. A write may put another page there (what a fork shares is copied, the page
 * of zeroes is replaced), so names are read again after it: the old one is somebody else's. Nothing is wiped in vain.
 */
static int wipe_and_name(struct pagehint_xen *x, uint64_t addr, uint32_t n)
{
	int r = read_names(x, addr, n);
	for (uint32_t i = 0; r == 0 && i < n; i++)
		if (is_present(x, i) && (x->pagemap_entries[i] & ENTRY_FRAME) == 0)
			r = -EPERM; /* numbers are hidden from us */
	if (r < 0 || (x->flags & PAGEHINT_XEN_NO_SCRUB) != 0)
		return r;
	for (uint32_t i = 0; i < n; i++) {
		if (!is_present(x, i))
			continue;
		memset((void *)(uintptr_t)(addr + (uint64_t)i * PH_XEN_FRAME_BYTES), 0, PH_XEN_FRAME_BYTES);
		x->stats.scrubbed++;
	}
	return read_names(x, addr, n);
}

/* At most a batch of frames, mapped one after another. */
static void release_part(struct ph_xen_release *r, uint32_t index, uint64_t frame, uint64_t addr, uint32_t n)
{
	struct pagehint_xen *x = r->x;
	int error = wipe_and_name(x, addr, n);
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
		if (!is_present(x, i) || name == 0)
			ph_xen_release_kept(r, index, 1, PAGEHINT_WHY_CANNOT); /* no page to give */
		else if ((x->pagemap_entries[i] & ENTRY_ALONE) == 0)
			ph_xen_release_kept(r, index, 1, PAGEHINT_WHY_MAPPED); /* not ours alone */
		else
			ph_xen_release_add(r, index, frame + i, name);
	}
}

/* Frames that lie in one region, or in none. */
static void release_in_region(struct ph_xen_release *r, uint32_t index, const struct pagehint_run *run)
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

void ph_xen_own_release(struct ph_xen_release *r, uint32_t index, const struct pagehint_run *run)
{
	struct pagehint_run left = *run;
	while (left.frames > 0) {
		struct ph_region region;
		uint64_t end = left.frame + left.frames;
		if (ph_map_find_next(r->x->memory, left.frame, &region) == 0) {
			uint64_t border = region.frame > left.frame ? region.frame : region.frame + region.frames;
			end = border < end ? border : end;
		}
		const struct pagehint_run part = { left.frame, end - left.frame };
		if (r->stop.error != 0)
			ph_xen_release_not_tried(r, index, part.frames);
		else
			release_in_region(r, index, &part);
		left = (struct pagehint_run) { end, left.frames - part.frames };
	}
}
