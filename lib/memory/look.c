/*
 * look: the read-only face of the map: lookups, and the lines that say what a region is.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/bits.h"
#include "base/opts.h"
#include "memory/map.h"

static int give(const struct pagehint_map *map, int found, const struct ph_region *r, struct pagehint_region_info *info)
{
	if (info == NULL || info->struct_size < sizeof(info->struct_size))
		return -EINVAL;
	if (found < 0)
		return found;
	struct pagehint_region_info i = {
		.id = r->id,
		.frame = r->frame,
		.frames = r->frames,
		.host_addr = r->host_addr,
		.fd_offset = r->fd_offset,
		.host_page_bytes = r->host_page_bytes,
		.least_bytes = r->least_bytes,
		.fd = r->fd,
		.backing = r->backing,
		.flags = r->flags,
	};
	ph_map_counts(map, r->id, &i.pins, &i.in_flight);
	return PH_OPTS_OUT(info, i);
}

int pagehint_map_lookup(const struct pagehint_map *map, uint64_t frame, struct pagehint_region_info *info)
{
	struct ph_region r;
	int found = ph_map_find(map, frame, &r);
	return give(map, found, &r, info);
}

int pagehint_map_next(const struct pagehint_map *map, uint64_t frame, struct pagehint_region_info *info)
{
	struct ph_region r;
	int found = ph_map_find_next(map, frame, &r);
	return give(map, found, &r, info);
}

int pagehint_map_host(const struct pagehint_map *map, uint64_t frame, uint64_t frames, void **ret_addr)
{
	struct ph_region r;
	if (frames == 0 || !ph_sum_fits(frame, frames))
		return -EINVAL;
	int found = ph_map_find(map, frame, &r);
	if (found < 0)
		return found;
	if (r.host_addr == 0 || frames > r.frames - (frame - r.frame))
		return -ERANGE;
	*ret_addr = (void *)(uintptr_t)(r.host_addr + ((frame - r.frame) << pagehint_map_frame_shift(map)));
	return 0;
}

int pagehint_map_frame(const struct pagehint_map *map, const void *addr, uint64_t *ret_frame)
{
	struct ph_region r;
	int found = ph_map_find_host(map, (uintptr_t)addr, &r);
	if (found < 0)
		return found;
	*ret_frame = r.frame + (((uintptr_t)addr - r.host_addr) >> pagehint_map_frame_shift(map));
	return 0;
}

const char *pagehint_map_backing_name(uint32_t backing)
{
	static const char *const names[PAGEHINT_BACKING_COUNT] = {
		"auto", "anon", "shared", "hugetlb", "file private", "guest_memfd", "device",
	};
	return backing < PAGEHINT_BACKING_COUNT ? names[backing] : "?";
}

void pagehint_map_explain(const struct pagehint_map *map, const struct pagehint_sink *sink)
{
	struct pagehint_region_info i = { .struct_size = sizeof(i) };
	char line[320];
	if (map == NULL || sink == NULL || sink->line == NULL)
		return;
	for (uint64_t at = 0; pagehint_map_next(map, at, &i) == 0; at = i.frame + i.frames) {
		snprintf(line, sizeof(line),
			 "frames 0x%" PRIx64 "+0x%" PRIx64 " at 0x%" PRIx64 ": %s%s%s%s%s, page %" PRIu64
			 ", least %" PRIu64 ", %" PRIu64 " pins, %" PRIu64 " in flight%s",
			 i.frame, i.frames, i.host_addr, pagehint_map_backing_name(i.backing),
			 (i.flags & PAGEHINT_REGION_LOCKED) != 0 ? ", locked" : "",
			 (i.flags & PAGEHINT_REGION_THP) != 0 ? ", transparent huge pages" : "",
			 (i.flags & PAGEHINT_REGION_UFFD) != 0 ? ", foreign userfaultfd" : "",
			 (i.flags & PAGEHINT_REGION_UFFD_OWN) != 0 ? ", own userfaultfd" : "", i.host_page_bytes,
			 i.least_bytes, i.pins, i.in_flight,
			 i.backing == PAGEHINT_BACKING_DEVICE ? "; never discarded: device"
			 : i.pins != 0                        ? "; not discarded while pinned"
							      : "");
		sink->line(sink->ctx, line);
	}
}
