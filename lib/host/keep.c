/*
 * keep: what a discard leaves where it is, and zeroing it when the caller needs zeroes.
 *
 * This is one of the few places that may touch managed memory, by name: PAGEHINT_DISCARD_ZERO. Pages that are not there
 * read as zero already and are not made present; a page of a private file that was never written is not made anonymous.
 */
#include <string.h>

#include "host/madvise.h"
#include "host/residency.h"

static int may_touch(const struct ph_region *region)
{
	return region->host_addr != 0 && region->backing != PAGEHINT_BACKING_DEVICE &&
	       region->backing != PAGEHINT_BACKING_GUEST_MEMFD;
}

/* What became of the parts, booked once at the end: an outcome names the reason of its largest part. */
struct parts {
	uint64_t zeroed;
	uint64_t cache;
	uint64_t absent;
};

static int is_zero(const unsigned char *memory, uint64_t bytes)
{
	return memory[0] == 0 && memcmp(memory, memory + 1, (size_t)bytes - 1) == 0;
}

static void keep_part(struct ph_madvise *m, const struct ph_region *region, uint64_t at, uint64_t bytes,
		      struct parts *parts)
{
	struct ph_residency found = { 0 };
	int known = ph_residency(m, region, at, bytes, &found) == 0;
	unsigned char *memory = ph_host_pointer(region->host_addr + at);
	/* what somebody else has, too, may be the zero page: writing there would only cost memory */
	if (!known || found.own != 0 || (found.shared != 0 && !is_zero(memory, bytes))) {
		memset(memory, 0, (size_t)bytes);
		parts->zeroed += bytes;
	} else if (region->backing == PAGEHINT_BACKING_FILE_PRIVATE && !ph_file_is_replaced(region, at)) {
		parts->cache += bytes;
	} else {
		parts->absent += bytes;
	}
}

void ph_keep(struct ph_madvise *m, struct ph_job *job, uint64_t at, uint64_t bytes, uint32_t why)
{
	/* by pages where pagemap answers; all at once where each answer would open a file */
	int by_pages = job->region.backing != PAGEHINT_BACKING_SHARED;
	struct parts parts = { 0 };
	if (bytes == 0)
		return;
	if ((job->flags & PAGEHINT_DISCARD_ZERO) == 0 || !may_touch(&job->region)) {
		ph_outcome_kept(job->outcome, bytes, why);
		return;
	}
	for (uint64_t end = at + bytes; at < end;) {
		uint64_t part = by_pages ? m->page_bytes - at % m->page_bytes : bytes;
		part = part < end - at ? part : end - at;
		keep_part(m, &job->region, at, part, &parts);
		at += part;
	}
	ph_outcome_kept(job->outcome, parts.zeroed, PAGEHINT_WHY_ZEROED);
	ph_outcome_kept(job->outcome, parts.cache, PAGEHINT_WHY_PAGE_CACHE);
	ph_outcome_absent(job->outcome, parts.absent);
}
