#include "alloc/attach.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "alloc/ops.h"
#include "alloc/zone.h"

#define GEOMETRY offsetof(struct pagehint_zone, total)

/* The shared header is read once, into memory of our own, before it is compared. */
static int is_same(const struct pagehint_zone *plan, const unsigned char *shared)
{
	unsigned char theirs[GEOMETRY];
	memcpy(theirs, shared, sizeof(theirs));
	return memcmp(plan, theirs, GEOMETRY) == 0;
}

static int check_file(const struct ph_sys *sys, int fd, uint64_t offset, uint64_t bytes)
{
	struct stat st;
	int r = sys->fstat(sys->ctx, fd, &st);
	if (r < 0)
		return r;
	return st.st_size < 0 || !ph_sum_fits(offset, bytes) || (uint64_t)st.st_size < offset + bytes ? -ERANGE : 0;
}

int ph_zone_attach_with(const struct ph_sys *sys, int fd, uint64_t offset, const struct pagehint_zone_opts *opts,
			uint32_t owner, struct pagehint_zone **ret_zone)
{
	struct pagehint_zone plan;
	void *memory;
	int r = ph_zone_plan(opts, &plan);
	if (r < 0)
		return r;
	if (!(plan.flags & PAGEHINT_ZONE_SHARED) || offset % PH_SHARED_HEAD != 0 || ret_zone == NULL)
		return -EINVAL;
	r = check_file(sys, fd, offset, plan.bytes);
	if (r == 0)
		r = sys->map_shared(sys->ctx, fd, (size_t)plan.bytes, offset, &memory);
	if (r < 0)
		return r;
	struct pagehint_zone *zone = (void *)((unsigned char *)memory + plan.lead);
	r = is_same(&plan, (const unsigned char *)zone) ? 0 : -EINVAL;
	if (r == 0)
		r = sys->mmap_fixed_anon(sys->ctx, memory, PH_SHARED_HEAD);
	if (r < 0) {
		sys->unmap_memory(sys->ctx, memory, (size_t)plan.bytes);
		return r;
	}
	plan.owner = owner;
	plan.mapped = 1;
	memcpy(zone, &plan, GEOMETRY);
	*ret_zone = zone;
	return 0;
}

int pagehint_zone_attach(int fd, uint64_t offset, const struct pagehint_zone_opts *opts, uint32_t owner,
			 struct pagehint_zone **ret_zone)
{
	return ph_zone_attach_with(&ph_sys_real, fd, offset, opts, owner, ret_zone);
}

void pagehint_zone_detach(struct pagehint_zone *zone)
{
	if (zone != NULL && zone->mapped)
		ph_sys_real.unmap_memory(ph_sys_real.ctx, (unsigned char *)zone - zone->lead, (size_t)zone->bytes);
}
