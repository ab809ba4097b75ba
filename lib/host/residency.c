#include "host/residency.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/bits.h"

/* bits of a pagemap entry */
#define ENTRY_EXCLUSIVE (UINT64_C(1) << 56)
#define ENTRY_FILE (UINT64_C(1) << 61) /* a page of a file, shared memory included */
#define ENTRY_SWAP (UINT64_C(1) << 62)
#define ENTRY_PRESENT (UINT64_C(1) << 63)

static int load(struct ph_madvise *m, struct ph_pages *pages)
{
	uint64_t left = (pages->end - pages->addr) / m->page_bytes;
	uint32_t n = left < PH_PAGES_MAX ? (uint32_t)left : PH_PAGES_MAX;
	if (m->pagemap < 0) {
		int fd = m->sys->open(m->sys->ctx, "/proc/self/pagemap", O_RDONLY);
		if (fd < 0)
			return fd;
		m->pagemap = fd;
	}
	PH_MADVISE_COUNT(m, probe);
	int64_t got = m->sys->pread(m->sys->ctx, m->pagemap, m->entries, n * sizeof(m->entries[0]),
				    pages->addr / m->page_bytes * sizeof(m->entries[0]));
	if (got < 0)
		return (int)got;
	pages->at = 0;
	pages->n = (uint32_t)((uint64_t)got / sizeof(m->entries[0]));
	return pages->n == 0 ? -EIO : 0;
}

void ph_pages_start(struct ph_madvise *m, struct ph_pages *pages, uint64_t addr, uint64_t bytes)
{
	pages->addr = ph_round_down(addr, m->page_bytes);
	pages->end = ph_round_up(addr + bytes, m->page_bytes);
	pages->at = 0;
	pages->n = 0;
}

int ph_pages_next(struct ph_madvise *m, struct ph_pages *pages, enum ph_page *ret_page)
{
	if (pages->addr >= pages->end)
		return 0;
	if (pages->at == pages->n) {
		int r = load(m, pages);
		if (r < 0)
			return r;
	}
	uint64_t entry = m->entries[pages->at++];
	pages->addr += m->page_bytes;
	*ret_page = PH_PAGE_NONE;
	if ((entry & ENTRY_SWAP) != 0)
		*ret_page = PH_PAGE_OWN;
	else if ((entry & ENTRY_PRESENT) != 0 && (entry & ENTRY_FILE) != 0)
		*ret_page = PH_PAGE_CACHE;
	else if ((entry & ENTRY_PRESENT) != 0)
		*ret_page = (entry & ENTRY_EXCLUSIVE) != 0 ? PH_PAGE_OWN : PH_PAGE_SHARED;
	return 1;
}

/* Bytes of [from, to) that lie in [low, high). */
static uint64_t overlap(uint64_t from, uint64_t to, uint64_t low, uint64_t high)
{
	uint64_t a = from > low ? from : low, b = to < high ? to : high;
	return a < b ? b - a : 0;
}

static int by_pagemap(struct ph_madvise *m, uint64_t addr, uint64_t bytes, struct ph_residency *found)
{
	struct ph_pages pages;
	enum ph_page page = PH_PAGE_NONE;
	int r;
	ph_pages_start(m, &pages, addr, bytes);
	while ((r = ph_pages_next(m, &pages, &page)) > 0) {
		uint64_t part = overlap(pages.addr - m->page_bytes, pages.addr, addr, addr + bytes);
		if (page == PH_PAGE_OWN)
			found->own += part;
		else if (page == PH_PAGE_CACHE)
			found->cache += part;
		else if (page == PH_PAGE_SHARED)
			found->shared += part;
	}
	return r;
}

/* Of file pages that no memory holds: are they on swap? Counts data in [from, end) of the file, page by page. */
static int count_swapped(struct ph_madvise *m, int fd, uint64_t from, uint64_t end, uint64_t *bytes)
{
	while (from < end) {
		PH_MADVISE_COUNT(m, probe);
		int64_t data = m->sys->lseek(m->sys->ctx, fd, (int64_t)from, SEEK_DATA);
		if (data == -ENXIO)
			return 0; /* nothing but a hole up to the end of the file */
		if (data < 0)
			return (int)data;
		if ((uint64_t)data < from)
			return -EIO;
		if ((uint64_t)data >= end)
			return 0;
		from = ph_round_down((uint64_t)data, m->page_bytes) + m->page_bytes;
		*bytes += m->page_bytes;
	}
	return 0;
}

/* One stretch of at most PH_PAGES_MAX pages; *fd is opened when the first page is found that is not in memory. */
static int count_stretch(struct ph_madvise *m, const struct ph_region *region, uint64_t at, uint32_t pages, int *fd,
			 uint64_t *bytes)
{
	unsigned char *in_core = (unsigned char *)m->entries;
	PH_MADVISE_COUNT(m, probe);
	int r = m->sys->mincore(m->sys->ctx, ph_host_pointer(region->host_addr + at), pages * (size_t)m->page_bytes,
				in_core);
	for (uint32_t i = 0, n; i < pages && r == 0; i += n) {
		for (n = 1; i + n < pages && (in_core[i] & 1) == (in_core[i + n] & 1);)
			n++;
		if (in_core[i] & 1) {
			*bytes += n * m->page_bytes;
			continue;
		}
		if (*fd == -EBADF && region->fd >= 0) {
			char path[40];
			snprintf(path, sizeof(path), "/proc/self/fd/%d", region->fd);
			*fd = m->sys->open(m->sys->ctx, path, O_RDONLY);
			if (*fd < 0)
				return *fd;
		}
		uint64_t from = region->fd_offset + at + i * m->page_bytes;
		if (*fd >= 0)
			r = count_swapped(m, *fd, from, from + n * m->page_bytes, bytes);
	}
	return r;
}

static int by_file(struct ph_madvise *m, const struct ph_region *region, uint64_t at, uint64_t bytes,
		   struct ph_residency *found)
{
	uint64_t first = ph_round_down(at, m->page_bytes), end = ph_round_up(at + bytes, m->page_bytes);
	int fd = -EBADF, r = 0;
	while (first < end && r == 0) {
		uint64_t left = (end - first) / m->page_bytes;
		uint32_t pages = left < PH_PAGES_MAX ? (uint32_t)left : PH_PAGES_MAX;
		r = count_stretch(m, region, first, pages, &fd, &found->own);
		first += pages * m->page_bytes;
	}
	if (fd >= 0)
		(void)m->sys->close(m->sys->ctx, fd);
	if (found->own > bytes)
		found->own = bytes;
	return r;
}

int ph_residency(struct ph_madvise *m, const struct ph_region *region, uint64_t at, uint64_t bytes,
		 struct ph_residency *ret_residency)
{
	struct ph_residency found = { 0 };
	int r;
	if (region->backing == PAGEHINT_BACKING_GUEST_MEMFD || region->backing == PAGEHINT_BACKING_DEVICE)
		return -EOPNOTSUPP;
	if (region->backing == PAGEHINT_BACKING_SHARED)
		r = by_file(m, region, at, bytes, &found);
	else
		r = by_pagemap(m, region->host_addr + at, bytes, &found);
	if (r < 0)
		return r;
	if (region->backing == PAGEHINT_BACKING_SHARED || region->backing == PAGEHINT_BACKING_HUGETLB) {
		found.own += found.cache; /* to pagemap all of it is pages of a file; punching frees them */
		found.cache = 0;
	}
	*ret_residency = found;
	return 0;
}

uint64_t ph_residency_for(struct ph_madvise *m, const struct ph_job *job, uint64_t at, uint64_t bytes)
{
	struct ph_residency found;
	if ((job->flags & PAGEHINT_DISCARD_PROBE) == 0 || ph_residency(m, &job->region, at, bytes, &found) < 0)
		return PH_RESIDENT_UNKNOWN;
	return found.own;
}
