/*
 * shared: memory that belongs to a file and is freed by making a hole in it: shared memory, hugetlb, guest_memfd.
 *
 * Why two calls: fallocate works on locked memory too and needs no mapping, but sends no event to a userfaultfd; MADV_REMOVE
 * does, and needs no descriptor, but refuses locked memory. (MADV_DONTNEED returns 0 here and frees nothing.)
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "host/madvise.h"
#include "host/residency.h"

/* Somebody else's userfaultfd hands out stale pages unless it hears of the removal. */
static int must_tell(const struct ph_region *region)
{
	return (region->flags & PAGEHINT_REGION_UFFD) != 0 && region->backing != PAGEHINT_BACKING_GUEST_MEMFD;
}

static int make_hole(struct ph_madvise *m, const struct ph_region *region, uint64_t at, uint64_t bytes)
{
	if (must_tell(region) || region->fd < 0) {
		PH_MADVISE_COUNT(m, madvise);
		return m->sys->madvise(m->sys->ctx, ph_host_pointer(region->host_addr + at), (size_t)bytes,
				       MADV_REMOVE);
	}
	PH_MADVISE_COUNT(m, punch);
	return m->sys->fallocate(m->sys->ctx, region->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				 region->fd_offset + at, bytes);
}

void ph_shared_discard(struct ph_madvise *m, struct ph_job *job, uint64_t at, uint64_t bytes)
{
	const struct ph_region *region = &job->region;
	if ((region->flags & PAGEHINT_REGION_LOCKED) != 0 && (must_tell(region) || region->fd < 0)) {
		ph_keep(m, job, at, bytes, must_tell(region) ? PAGEHINT_WHY_UFFD : PAGEHINT_WHY_CANNOT);
		return;
	}
	uint64_t resident = ph_residency_for(m, job, at, bytes);
	int r = make_hole(m, region, at, bytes);
	if (r == 0)
		ph_book(job->outcome, bytes, resident);
	else if (r == -EOPNOTSUPP || r == -ENOSYS)
		ph_keep(m, job, at, bytes, PAGEHINT_WHY_CANNOT);
	else
		ph_outcome_failed(job->outcome, bytes, PAGEHINT_WHY_SYSCALL, r);
}
