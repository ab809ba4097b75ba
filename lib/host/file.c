/*
 * file: private mappings of a file, for example guest memory restored from a snapshot.
 *
 * The problem: MADV_DONTNEED would bring the file's content back to a guest that had freed it. Why this shape: anonymous
 * memory is mapped over what is to go; the map remembers which pages are anonymous now, and those are freed by
 * MADV_DONTNEED from then on. Each hole costs the process mappings, of which it has few, so there is a budget; what
 * lengthens a hole that is there costs nothing.
 * Never remapped: a range registered with a userfaultfd (the registration would be lost without a word), and locked
 * memory (the lock would be).
 * With a probe, pages that were never written are left alone: the page cache is not ours, and remapping frees nothing.
 * Only a discard that must read as zero remaps those as well.
 */
#include <errno.h>
#include <sys/mman.h>

#include "base/bits.h"
#include "host/madvise.h"
#include "host/residency.h"

int ph_file_is_replaced(const struct ph_region *region, uint64_t at)
{
	uint64_t page = at / region->host_page_bytes;
	if (region->replaced == NULL)
		return 0;
	return (atomic_load(&region->replaced[page / 64]) >> (page % 64) & 1) != 0;
}

static void mark_replaced(const struct ph_region *region, uint64_t at, uint64_t bytes)
{
	uint64_t page = at / region->host_page_bytes, end = (at + bytes) / region->host_page_bytes;
	while (page < end) {
		unsigned first = (unsigned)(page % 64);
		unsigned n = end - page < 64 - first ? (unsigned)(end - page) : 64 - first;
		atomic_fetch_or(&region->replaced[page / 64], ph_mask(first, n));
		page += n;
	}
}

/* Holes that replacing this range adds: none where it touches one. */
static uint64_t holes_cut(const struct ph_madvise *m, const struct ph_region *region, uint64_t at, uint64_t bytes)
{
	uint64_t end = region->frames << m->frame_shift;
	int left = at > 0 && ph_file_is_replaced(region, at - 1);
	int right = at + bytes < end && ph_file_is_replaced(region, at + bytes);
	return left || right ? 0 : 1;
}

static void book_replaced(struct ph_job *job, uint64_t bytes, const struct ph_residency *known)
{
	if (known == NULL) {
		ph_outcome_accepted(job->outcome, bytes);
		return;
	}
	ph_outcome_freed(job->outcome, known->own);
	ph_outcome_kept(job->outcome, known->cache, PAGEHINT_WHY_PAGE_CACHE);
	ph_outcome_absent(job->outcome, bytes - known->own - known->cache);
}

/* known: what a probe said of this range, NULL without one. */
static void replace(struct ph_madvise *m, struct ph_job *job, uint64_t at, uint64_t bytes,
		    const struct ph_residency *known)
{
	const struct ph_region *region = &job->region;
	_Atomic uint64_t *used = PH_MADVISE_COUNTER(m, mappings_used);
	uint64_t cut = holes_cut(m, region, at, bytes);
	if (atomic_load(used) + cut > m->mapping_budget) {
		ph_keep(m, job, at, bytes, PAGEHINT_WHY_BUDGET);
		return;
	}
	void *addr = ph_host_pointer(region->host_addr + at);
	PH_MADVISE_COUNT(m, remap);
	int r = m->sys->mmap_fixed_anon(m->sys->ctx, addr, (size_t)bytes);
	if (r < 0) {
		ph_outcome_failed(job->outcome, bytes, PAGEHINT_WHY_SYSCALL, r);
		return;
	}
	mark_replaced(region, at, bytes);
	atomic_fetch_add(used, cut);
	/* a file's pages were small; with huge ones, giving back less than 2 MiB would free nothing. Refused where there
	 * are no huge pages at all, which is as good. */
	PH_MADVISE_COUNT(m, madvise);
	(void)m->sys->madvise(m->sys->ctx, addr, (size_t)bytes, MADV_NOHUGEPAGE);
	book_replaced(job, bytes, known);
}

/* Host pages next to each other that were all written, or all not. */
struct stretch {
	uint64_t at;
	uint64_t bytes;
	struct ph_residency found;
};

static void end_stretch(struct ph_madvise *m, struct ph_job *job, struct stretch *s)
{
	if (s->bytes != 0 && (s->found.own | s->found.shared) != 0) {
		replace(m, job, s->at, s->bytes, &s->found);
	} else {
		ph_outcome_kept(job->outcome, s->found.cache, PAGEHINT_WHY_PAGE_CACHE);
		ph_outcome_absent(job->outcome, s->bytes - s->found.cache);
	}
	*s = (struct stretch) { .at = s->at + s->bytes };
}

/* One host page, which may be several of the real ones. */
static int look_at_page(struct ph_madvise *m, struct ph_pages *pages, uint64_t host_page_bytes,
			struct ph_residency *ret_found)
{
	*ret_found = (struct ph_residency) { 0 };
	for (uint64_t seen = 0; seen < host_page_bytes; seen += m->page_bytes) {
		enum ph_page page = PH_PAGE_NONE;
		int r = ph_pages_next(m, pages, &page);
		if (r < 0)
			return r;
		ret_found->own += page == PH_PAGE_OWN ? m->page_bytes : 0;
		ret_found->cache += page == PH_PAGE_CACHE ? m->page_bytes : 0;
		ret_found->shared += page == PH_PAGE_SHARED ? m->page_bytes : 0;
	}
	return 0;
}

/* Replaces what was written and leaves the rest; where that cannot be told any more, all is replaced. */
static void replace_written(struct ph_madvise *m, struct ph_job *job, uint64_t at, uint64_t bytes)
{
	uint64_t page = job->region.host_page_bytes, end = at + bytes;
	struct stretch s = { .at = at };
	struct ph_pages pages;
	ph_pages_start(m, &pages, job->region.host_addr + at, bytes);
	for (; at < end; at += page) {
		struct ph_residency found;
		if (look_at_page(m, &pages, page, &found) < 0)
			break;
		if (s.bytes != 0 && ((s.found.own | s.found.shared) != 0) != ((found.own | found.shared) != 0))
			end_stretch(m, job, &s);
		s.bytes += page;
		s.found.own += found.own;
		s.found.shared += found.shared;
		s.found.cache += found.cache;
	}
	end_stretch(m, job, &s);
	if (at < end)
		replace(m, job, at, end - at, NULL);
}

/* Pages that have not been replaced yet. */
static void discard_original(struct ph_madvise *m, struct ph_job *job, uint64_t at, uint64_t bytes)
{
	const struct ph_region *region = &job->region;
	struct ph_residency found;
	if ((region->flags & (PAGEHINT_REGION_UFFD | PAGEHINT_REGION_UFFD_OWN)) != 0) {
		ph_keep(m, job, at, bytes, PAGEHINT_WHY_UFFD);
	} else if ((region->flags & PAGEHINT_REGION_LOCKED) != 0 || region->replaced == NULL) {
		ph_keep(m, job, at, bytes, PAGEHINT_WHY_CANNOT);
	} else if ((job->flags & PAGEHINT_DISCARD_PROBE) == 0) {
		replace(m, job, at, bytes, NULL);
	} else if ((job->flags & PAGEHINT_DISCARD_ZERO) == 0) {
		replace_written(m, job, at, bytes);
	} else {
		int known = ph_residency(m, region, at, bytes, &found) == 0;
		replace(m, job, at, bytes, known ? &found : NULL);
	}
}

void ph_file_discard(struct ph_madvise *m, struct ph_job *job, uint64_t at, uint64_t bytes)
{
	uint64_t end = at + bytes, page = job->region.host_page_bytes;
	while (at < end) {
		int replaced = ph_file_is_replaced(&job->region, at);
		uint64_t to = at + page;
		while (to < end && ph_file_is_replaced(&job->region, to) == replaced)
			to += page;
		if (replaced)
			ph_batch_add(m, job, at, to - at);
		else
			discard_original(m, job, at, to - at);
		at = to;
	}
}
