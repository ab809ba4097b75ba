#include "memory/map.h"

#include <errno.h>
#include <stdlib.h>

#include "base/bits.h"
#include "base/opts.h"
#include "memory/detect.h"
#include "memory/table.h"

#define CLAIMS (PAGEHINT_REGION_UFFD_OWN | PAGEHINT_REGION_PIN_AT_ADD)

struct pagehint_map {
	const struct ph_sys *sys;
	int64_t owner; /* pid */
	uint64_t page_bytes;
	uint32_t frame_shift;
	uint32_t reserved;
	struct ph_table *table; /* in the same allocation */
};

struct storage {
	struct pagehint_map map;
	struct ph_table table;
};

static size_t storage_bytes(void)
{
	return (size_t)ph_round_up(sizeof(struct storage), 64);
}

static int page_bytes_of(const struct ph_sys *sys, uint32_t pretended_shift, uint64_t *ret_bytes)
{
	int64_t host = sys->page_size(sys->ctx);
	if (host <= 0)
		return host < 0 ? (int)host : -EINVAL;
	uint64_t pretended = pretended_shift == 0 ? (uint64_t)host : UINT64_C(1) << pretended_shift;
	if (pretended < (uint64_t)host)
		return -EINVAL;
	*ret_bytes = pretended;
	return 0;
}

int ph_map_new_with(const struct pagehint_map_opts *opts, const struct ph_sys *sys, struct pagehint_map **ret_map)
{
	struct pagehint_map_opts o;
	uint64_t page_bytes = 0;
	int r = ret_map == NULL ? -EINVAL : PH_OPTS_IN(o, opts);
	if (r < 0)
		return r;
	uint32_t shift = o.frame_shift == 0 ? 12 : o.frame_shift, max = o.max_regions == 0 ? 64 : o.max_regions;
	if (shift < 12 || shift > 30 || max > 65536 || o.host_page_shift > 30 || o.flags != 0)
		return -EINVAL;
	r = page_bytes_of(sys, o.host_page_shift, &page_bytes);
	int64_t owner = r < 0 ? r : sys->getpid(sys->ctx);
	if (owner < 0)
		return (int)owner;
	struct storage *s = aligned_alloc(64, storage_bytes() + ph_table_bytes(max));
	if (s == NULL)
		return -ENOMEM;
	s->map.sys = sys;
	s->map.owner = owner;
	s->map.page_bytes = page_bytes;
	s->map.frame_shift = shift;
	s->map.reserved = 0;
	s->map.table = &s->table;
	ph_table_init(&s->table, (unsigned char *)s + storage_bytes(), max, shift);
	*ret_map = &s->map;
	return 0;
}

int pagehint_map_new(const struct pagehint_map_opts *opts, struct pagehint_map **ret_map)
{
	return ph_map_new_with(opts, &ph_sys_real, ret_map);
}

/* ---- the bitmap of replaced pages ---- */

static size_t replaced_bytes(const struct pagehint_map *map, const struct ph_region *r)
{
	uint64_t pages = (r->frames << map->frame_shift) / r->host_page_bytes;
	return (size_t)(ph_round_up(pages, 64) / 8);
}

static int replaced_new(const struct pagehint_map *map, struct ph_region *r)
{
	r->replaced = NULL;
	if (r->backing != PAGEHINT_BACKING_FILE_PRIVATE)
		return 0;
	r->replaced = map->sys->map_memory(map->sys->ctx, replaced_bytes(map, r));
	return r->replaced == NULL ? -ENOMEM : 0;
}

static void replaced_free(const struct pagehint_map *map, struct ph_region *r)
{
	if (r->replaced != NULL)
		map->sys->unmap_memory(map->sys->ctx, r->replaced, replaced_bytes(map, r));
}

int pagehint_map_free(struct pagehint_map *map)
{
	struct ph_region r;
	uint64_t pins, in_flight;
	if (map == NULL)
		return 0;
	for (uint64_t at = 0; ph_table_find(map->table, PH_FIND_NEXT, at, &r) == 0; at = r.frame + r.frames) {
		ph_table_counts(map->table, r.id, &pins, &in_flight);
		if (in_flight != 0)
			return -EBUSY;
	}
	for (uint64_t at = 0; ph_table_find(map->table, PH_FIND_NEXT, at, &r) == 0; at = r.frame + r.frames)
		replaced_free(map, &r);
	free(map); /* the first member of its storage */
	return 0;
}

/* ---- adding and removing ---- */

/* What can be refused without asking anybody. */
static int check_desc(const struct pagehint_map *map, const struct pagehint_region_desc *d)
{
	uint64_t most = UINT64_MAX >> map->frame_shift;
	if (d->frames == 0 || !ph_sum_fits(d->frame, d->frames) || d->frame + d->frames > most)
		return -EINVAL;
	uint64_t bytes = d->frames << map->frame_shift;
	if (bytes > INTPTR_MAX || !ph_sum_fits(d->host_addr, bytes) || d->host_addr + bytes > UINTPTR_MAX)
		return -EINVAL;
	if (d->fd_offset > INT64_MAX || d->fd_offset + bytes > INT64_MAX)
		return -EINVAL;
	if (d->fd < -1 || (d->fd == -1 && d->fd_offset != 0) || d->reserved != 0)
		return -EINVAL;
	if (d->backing >= PAGEHINT_BACKING_COUNT || (d->flags & ~CLAIMS) != 0)
		return -EINVAL;
	return 0;
}

/* Frames, addresses and file offsets must fall on the same pages, or rounding inward would mean different bytes. */
static int check_alignment(const struct pagehint_map *map, const struct pagehint_region_desc *d, uint64_t page_bytes)
{
	uint64_t all = d->frame << map->frame_shift | d->frames << map->frame_shift | d->host_addr | d->fd_offset;
	return (all & (page_bytes - 1)) == 0 ? 0 : -EINVAL;
}

static int describe(const struct pagehint_map *map, const struct pagehint_region_desc *d, struct ph_region *r)
{
	struct ph_detected found;
	int e = check_desc(map, d);
	if (e == 0)
		e = check_alignment(map, d, map->page_bytes);
	if (e == 0 && !ph_map_is_owner(map))
		e = -ENODEV;
	if (e == 0)
		e = ph_detect(map->sys, d, d->frames << map->frame_shift, map->page_bytes, &found);
	if (e == 0)
		e = check_alignment(map, d, found.host_page_bytes);
	if (e != 0)
		return e;
	/* a userfaultfd that the caller serves is nobody else's */
	if ((d->flags & PAGEHINT_REGION_UFFD_OWN) != 0)
		found.flags = (found.flags & ~PAGEHINT_REGION_UFFD) | PAGEHINT_REGION_UFFD_OWN;
	*r = (struct ph_region) {
		.frame = d->frame,
		.frames = d->frames,
		.host_addr = d->host_addr,
		.fd_offset = d->fd_offset,
		.host_page_bytes = found.host_page_bytes,
		.least_bytes = found.least_bytes,
		.fd = d->fd,
		.backing = found.backing,
		.flags = found.flags,
	};
	return 0;
}

int pagehint_map_add(struct pagehint_map *map, const struct pagehint_region_desc *desc, uint64_t *ret_id)
{
	struct pagehint_region_desc d;
	struct ph_region region;
	if (map == NULL || desc == NULL || ret_id == NULL)
		return -EINVAL;
	int r = PH_OPTS_IN(d, desc);
	if (r == 0)
		r = describe(map, &d, &region);
	if (r == 0)
		r = replaced_new(map, &region);
	if (r != 0)
		return r;
	r = ph_table_add(map->table, &region, (d.flags & PAGEHINT_REGION_PIN_AT_ADD) != 0, ret_id);
	if (r < 0)
		replaced_free(map, &region);
	return r;
}

int pagehint_map_remove(struct pagehint_map *map, uint64_t id)
{
	struct ph_region region;
	if (!ph_map_is_owner(map))
		return -ENODEV;
	int r = ph_table_remove(map->table, id, &region);
	if (r == 0)
		replaced_free(map, &region);
	return r;
}

int pagehint_map_pin(struct pagehint_map *map, uint64_t id, uint64_t *ret_in_flight)
{
	uint64_t in_flight;
	int r = ph_table_pin(map->table, id, &in_flight);
	if (r == 0 && ret_in_flight != NULL)
		*ret_in_flight = in_flight;
	return r;
}

int pagehint_map_unpin(struct pagehint_map *map, uint64_t id)
{
	return ph_table_unpin(map->table, id);
}

/* ---- for the backends ---- */

int ph_map_find(const struct pagehint_map *map, uint64_t frame, struct ph_region *ret_region)
{
	return ph_table_find(map->table, PH_FIND_FRAME, frame, ret_region);
}

int ph_map_find_next(const struct pagehint_map *map, uint64_t frame, struct ph_region *ret_region)
{
	return ph_table_find(map->table, PH_FIND_NEXT, frame, ret_region);
}

int ph_map_find_host(const struct pagehint_map *map, uint64_t addr, struct ph_region *ret_region)
{
	return ph_table_find(map->table, PH_FIND_HOST, addr, ret_region);
}

void ph_map_counts(const struct pagehint_map *map, uint64_t id, uint64_t *ret_pins, uint64_t *ret_in_flight)
{
	ph_table_counts(map->table, id, ret_pins, ret_in_flight);
}

int ph_map_enter(struct pagehint_map *map, uint64_t frame, uint64_t frames, struct ph_region *ret_region)
{
	struct ph_region region;
	if (frames == 0 || !ph_sum_fits(frame, frames))
		return -EINVAL;
	int r = ph_map_find(map, frame, &region);
	if (r == 0 && frames > region.frames - (frame - region.frame))
		r = -ERANGE;
	if (r == 0)
		r = ph_table_enter(map->table, region.id);
	if (r == 0)
		*ret_region = region;
	return r;
}

void ph_map_leave(struct pagehint_map *map, uint64_t id)
{
	ph_table_leave(map->table, id);
}

const struct ph_sys *ph_map_sys(const struct pagehint_map *map)
{
	return map->sys;
}

int ph_map_is_owner(const struct pagehint_map *map)
{
	return map->sys->getpid(map->sys->ctx) == map->owner;
}

uint32_t pagehint_map_frame_shift(const struct pagehint_map *map)
{
	return map->frame_shift;
}

uint32_t pagehint_map_regions(const struct pagehint_map *map)
{
	return ph_table_regions(map->table);
}
