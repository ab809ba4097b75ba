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
	else if ((entry & ENTRY_PRESENT) != 0 && (entry & ENTRY_EXCLUSIVE) != 0)
		*ret_page = PH_PAGE_OWN;
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
	}
	return r;
}

static int count_data(struct ph_madvise *m, int fd, uint64_t from, uint64_t end, uint64_t *ret_bytes)
{
	uint64_t bytes = 0;
	while (from < end) {
		PH_MADVISE_COUNT(m, probe);
		int64_t data = m->sys->lseek(m->sys->ctx, fd, (int64_t)from, SEEK_DATA);
		if (data == -ENXIO)
			break; /* nothing but a hole up to the end of the file */
		if (data < 0)
			return (int)data;
		if ((uint64_t)data >= end)
			break;
		int64_t hole = m->sys->lseek(m->sys->ctx, fd, data, SEEK_HOLE);
		if (hole < 0)
			return (int)hole;
		if (hole <= data)
			return -EIO;
		bytes += overlap((uint64_t)data, (uint64_t)hole, from, end);
		from = (uint64_t)hole;
	}
	*ret_bytes = bytes;
	return 0;
}

static int by_extents(struct ph_madvise *m, int region_fd, uint64_t offset, uint64_t bytes, struct ph_residency *found)
{
	char path[40];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", region_fd);
	int fd = m->sys->open(m->sys->ctx, path, O_RDONLY);
	if (fd < 0)
		return fd;
	int r = count_data(m, fd, offset, offset + bytes, &found->own);
	(void)m->sys->close(m->sys->ctx, fd);
	return r;
}

int ph_residency(struct ph_madvise *m, const struct ph_region *region, uint64_t at, uint64_t bytes,
		 struct ph_residency *ret_residency)
{
	struct ph_residency found = { 0 };
	int r;
	if (region->backing == PAGEHINT_BACKING_GUEST_MEMFD || region->backing == PAGEHINT_BACKING_DEVICE)
		return -EOPNOTSUPP;
	if (region->backing == PAGEHINT_BACKING_SHARED && region->fd >= 0)
		r = by_extents(m, region->fd, region->fd_offset + at, bytes, &found);
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
