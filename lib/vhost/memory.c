#include "vhost/memory.h"

#include <errno.h>

#include "base/bits.h"

#define PAGE UINT64_C(4096) /* the frame of the map */

void ph_vhost_memory_init(struct ph_vhost_memory *memory, const struct ph_sys *sys, struct pagehint_map *map)
{
	memset(memory, 0, sizeof(*memory));
	memory->sys = sys;
	memory->map = map;
}

static void forget(struct ph_vhost_memory *memory, struct ph_vhost_place *place)
{
	memory->sys->unmap_memory(memory->sys->ctx, place->at, (size_t)place->said.size);
	(void)memory->sys->close(memory->sys->ctx, place->fd);
	*place = memory->places[--memory->n];
}

int ph_vhost_memory_clear(struct ph_vhost_memory *memory)
{
	while (memory->n != 0) {
		struct ph_vhost_place *last = &memory->places[memory->n - 1];
		if (pagehint_map_remove(memory->map, last->id) == -EBUSY)
			return -EAGAIN;
		forget(memory, last);
	}
	return 0;
}

static int overlap(uint64_t a, uint64_t b, uint64_t a_size, uint64_t b_size)
{
	return a < b + b_size && b < a + a_size;
}

static int is_sound(const struct ph_vhost_region *r)
{
	return r->size != 0 && (r->size | r->guest | r->offset) % PAGE == 0 && r->size <= SIZE_MAX / 2 &&
	       ph_sum_fits(r->guest, r->size) && ph_sum_fits(r->user, r->size) && ph_sum_fits(r->offset, r->size) &&
	       r->offset + r->size <= INT64_MAX;
}

static int is_free(const struct ph_vhost_memory *memory, const struct ph_vhost_region *r)
{
	for (uint32_t i = 0; i < memory->n; i++) {
		const struct ph_vhost_region *other = &memory->places[i].said;
		if (overlap(r->guest, other->guest, r->size, other->size) ||
		    overlap(r->user, other->user, r->size, other->size))
			return 0;
	}
	return 1;
}

/* What is past the end of a file cannot be touched. */
static int file_reaches(const struct ph_vhost_memory *memory, const struct ph_vhost_region *r, int fd)
{
	struct stat st;
	int e = memory->sys->fstat(memory->sys->ctx, fd, &st);
	if (e != 0)
		return e;
	return S_ISREG(st.st_mode) && st.st_size >= 0 && (uint64_t)st.st_size >= r->offset + r->size ? 0 : -EINVAL;
}

static int check(const struct ph_vhost_memory *memory, const struct ph_vhost_region *r, int fd)
{
	if (!is_sound(r))
		return -EINVAL;
	if (!is_free(memory, r))
		return -EEXIST;
	if (memory->n == PH_VHOST_SLOTS)
		return -ENOSPC;
	return file_reaches(memory, r, fd);
}

int ph_vhost_memory_add(struct ph_vhost_memory *memory, const struct ph_vhost_region *region, int fd)
{
	const struct ph_sys *sys = memory->sys;
	struct ph_vhost_place place = { .said = *region, .fd = fd };
	int r = check(memory, region, fd);
	if (r == 0)
		r = sys->map_shared(sys->ctx, fd, (size_t)region->size, region->offset, &place.at);
	if (r != 0) {
		(void)sys->close(sys->ctx, fd);
		return r;
	}
	const struct pagehint_region_desc desc = {
		.struct_size = sizeof(desc),
		.frame = region->guest / PAGE,
		.frames = region->size / PAGE,
		.host_addr = (uintptr_t)place.at,
		.fd_offset = region->offset,
		.fd = fd,
	};
	r = pagehint_map_add(memory->map, &desc, &place.id);
	if (r != 0) {
		sys->unmap_memory(sys->ctx, place.at, (size_t)region->size);
		(void)sys->close(sys->ctx, fd);
		return r;
	}
	memory->places[memory->n++] = place;
	return 0;
}

int ph_vhost_memory_remove(struct ph_vhost_memory *memory, const struct ph_vhost_region *region)
{
	for (uint32_t i = 0; i < memory->n; i++) {
		const struct ph_vhost_region *said = &memory->places[i].said;
		if (said->guest != region->guest || said->user != region->user || said->size != region->size)
			continue;
		int r = pagehint_map_remove(memory->map, memory->places[i].id);
		if (r == 0)
			forget(memory, &memory->places[i]);
		return r;
	}
	return -ERANGE;
}

static int inside(uint64_t at, uint64_t bytes, uint64_t start, uint64_t size)
{
	return at >= start && at - start < size && bytes <= size - (at - start);
}

int ph_vhost_memory_guest(const struct ph_vhost_memory *memory, uint64_t user, uint64_t bytes, uint64_t *ret_guest)
{
	for (uint32_t i = 0; i < memory->n; i++) {
		const struct ph_vhost_region *said = &memory->places[i].said;
		if (inside(user, bytes, said->user, said->size)) {
			*ret_guest = said->guest + (user - said->user);
			return 0;
		}
	}
	return -ERANGE;
}

int ph_vhost_memory_host(const struct ph_vhost_memory *memory, uint64_t guest, uint64_t bytes, void **ret_host)
{
	for (uint32_t i = 0; i < memory->n; i++) {
		const struct ph_vhost_place *place = &memory->places[i];
		if (inside(guest, bytes, place->said.guest, place->said.size)) {
			*ret_host = (unsigned char *)place->at + (guest - place->said.guest);
			return 0;
		}
	}
	return -ERANGE;
}
