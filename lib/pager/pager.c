/*
 * pager: the life of a pager, and its figures.
 */
#include "pager/pager.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/bits.h"
#include "base/opts.h"
#include "memory/map.h"

#define FLAGS (PAGEHINT_PAGER_SIGBUS | PAGEHINT_PAGER_EVENT_REMOVE | PAGEHINT_PAGER_FOREIGN | PAGEHINT_PAGER_RECORD)

int ph_pager_is_owner(const struct pagehint_pager *p)
{
	return p->sys->getpid(p->sys->ctx) == p->pid;
}

static uint32_t or_default(uint32_t value, uint32_t standard)
{
	return value == 0 ? standard : value;
}

static int check(const struct pagehint_pager_opts *o)
{
	uint32_t foreign = o->flags & PAGEHINT_PAGER_FOREIGN;
	if ((o->flags & ~(uint32_t)FLAGS) != 0 || o->shards > 256 || o->max_regions > 1024)
		return -EINVAL;
	if (o->around_min > PH_WINDOW_MAX || o->around_max > PH_WINDOW_MAX || o->flights == 1 || o->flights > 64)
		return -EINVAL;
	if (or_default(o->around_min, 16) > or_default(o->around_max, PH_WINDOW_MAX) ||
	    o->stripe_bytes % PH_BUFFER_BYTES != 0 || o->record_max > (1u << 28))
		return -EINVAL;
	if (o->frame_shift != 0 && (o->frame_shift < 12 || o->frame_shift > 30))
		return -EINVAL;
	if (foreign != 0 && (o->fds == NULL || o->map != NULL || (o->flags & PAGEHINT_PAGER_SIGBUS) != 0))
		return -EINVAL;
	return 0;
}

static int take_opts(struct pagehint_pager *p, const struct pagehint_pager_opts *o)
{
	p->map = o->map;
	p->failed = o->failed;
	p->ctx = o->ctx;
	p->flags = o->flags;
	p->frame_shift = or_default(o->frame_shift, o->map != NULL ? pagehint_map_frame_shift(o->map) : 12);
	p->shards_n = or_default(o->shards, 1);
	p->regions_max = or_default(o->max_regions, 16);
	p->around_min = or_default(o->around_min, 16);
	p->around_max = or_default(o->around_max, PH_WINDOW_MAX);
	p->flights_n = or_default(o->flights, 16);
	p->record_max = (o->flags & PAGEHINT_PAGER_RECORD) != 0 ? or_default(o->record_max, 65536) : 0;
	p->stripe_bytes = o->stripe_bytes;
	p->timeout_ns = o->timeout_ns == 0 ? UINT64_C(5000000000) : o->timeout_ns;
	p->fill_rate = o->fill_rate;
	if (o->map != NULL && pagehint_map_frame_shift(o->map) != p->frame_shift)
		return -EINVAL;
	return o->map == NULL || ph_map_is_owner(o->map) ? 0 : -ENODEV;
}

/* Room for every fetch, each its own 2 MiB; the first is the one that is moved in whole, as one huge page. */
static int make_buffers(struct pagehint_pager *p)
{
	p->buffers_bytes = (p->flights_n + 2) * PH_BUFFER_BYTES;
	p->buffers = p->sys->map_memory(p->sys->ctx, (size_t)p->buffers_bytes);
	if (p->buffers == NULL)
		return -ENOMEM;
	unsigned char *at = (unsigned char *)p->buffers +
			    (ph_round_up((uintptr_t)p->buffers, PH_BUFFER_BYTES) - (uintptr_t)p->buffers);
	/* a page that a child shares cannot be moved; advice, so nothing depends on its result */
	(void)p->sys->madvise(p->sys->ctx, p->buffers, (size_t)p->buffers_bytes, MADV_DONTFORK);
	(void)p->sys->madvise(p->sys->ctx, at, PH_BUFFER_BYTES, MADV_HUGEPAGE);
	for (uint32_t i = 0; i < p->flights_n; i++)
		p->flights[i].buffer = at + i * PH_BUFFER_BYTES;
	p->zeros = at + p->flights_n * PH_BUFFER_BYTES;
	return 0;
}

static int allocate(struct pagehint_pager *p)
{
	p->shards = aligned_alloc(64, p->shards_n * sizeof(*p->shards));
	if (p->shards == NULL)
		return -ENOMEM;
	/* whatever fails from here on, what is taken down must have been set up */
	memset(p->shards, 0, p->shards_n * sizeof(*p->shards));
	for (uint32_t i = 0; i < p->shards_n; i++)
		p->shards[i].fd = -1;
	p->regions = calloc(p->regions_max, sizeof(*p->regions));
	p->flights = calloc(p->flights_n, sizeof(*p->flights));
	if (p->regions == NULL || p->flights == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < p->shards_n; i++) {
		p->shards[i].parked = calloc(PH_PARKED + PH_MESSAGES, sizeof(*p->shards[i].parked));
		if (p->shards[i].parked == NULL)
			return -ENOMEM;
	}
	if (p->record_max != 0 && (p->record = calloc(p->record_max, sizeof(*p->record))) == NULL)
		return -ENOMEM;
	return make_buffers(p);
}

static int open_shards(struct pagehint_pager *p, const int *fds)
{
	uint64_t agreed, need = (p->flags & PAGEHINT_PAGER_SIGBUS) != 0 ? UFFD_FEATURE_SIGBUS : 0;
	uint64_t want = UFFD_FEATURE_MISSING_HUGETLBFS | UFFD_FEATURE_MISSING_SHMEM | UFFD_FEATURE_MINOR_HUGETLBFS |
			UFFD_FEATURE_MINOR_SHMEM | UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_WP_HUGETLBFS_SHMEM |
			PH_UFFD_FEATURE_POISON | PH_UFFD_FEATURE_MOVE;
	if ((p->flags & PAGEHINT_PAGER_EVENT_REMOVE) != 0)
		need |= UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_UNMAP;
	for (uint32_t i = 0; i < p->shards_n; i++) {
		int fd = fds != NULL ? fds[i] : ph_uffd_open(p->sys, need, want, &agreed);
		if (fd < 0)
			return fds != NULL ? -EINVAL : fd;
		p->shards[i].fd = fd;
		if (fds == NULL)
			continue;
		/* it may have been agreed upon by whoever made it: then this is refused, and nothing is lost */
		struct uffdio_api api = { .api = UFFD_API, .features = need };
		(void)p->sys->ioctl(p->sys->ctx, fd, UFFDIO_API, &api);
	}
	return 0;
}

/* What was passed in stays the caller's until the pager exists. */
static void destroy(struct pagehint_pager *p, int close_fds)
{
	uint32_t regions = p->regions == NULL ? 0 : atomic_load(&p->regions_n);
	for (uint32_t i = 0; i < p->shards_n && p->shards != NULL; i++) {
		if (close_fds && p->shards[i].fd >= 0)
			(void)p->sys->close(p->sys->ctx, p->shards[i].fd);
		free(p->shards[i].parked);
	}
	for (uint32_t i = 0; i < regions; i++) {
		struct ph_range *g = &p->regions[i];
		uint64_t words = (ph_range_pages(g) + 63) / 64 * sizeof(uint64_t);
		if (g->own != NULL)
			p->sys->unmap_memory(p->sys->ctx, g->own, (size_t)g->own_bytes);
		if (atomic_load(&g->wanted) != 0)
			p->sys->unmap_memory(p->sys->ctx, (void *)atomic_load(&g->wanted), (size_t)words);
	}
	/* in a child they were never there; who cannot tell is none, or they would stay for ever */
	int64_t pid = p->sys->getpid(p->sys->ctx);
	if (p->buffers != NULL && (pid < 0 || pid == p->pid))
		p->sys->unmap_memory(p->sys->ctx, p->buffers, (size_t)p->buffers_bytes);
	free(p->prefetch);
	free(p->record);
	free(p->shards);
	free(p->flights);
	free(p->regions);
	free(p);
}

int ph_pager_new_with(const struct pagehint_pager_opts *opts, const struct ph_sys *sys,
		      struct pagehint_pager **ret_pager)
{
	struct pagehint_pager_opts o;
	int r = ret_pager == NULL ? -EINVAL : PH_OPTS_IN(o, opts);
	if (r == 0)
		r = check(&o);
	if (r < 0)
		return r;
	struct pagehint_pager *p = calloc(1, sizeof(*p));
	if (p == NULL)
		return -ENOMEM;
	p->sys = sys;
	p->pid = sys->getpid(sys->ctx);
	r = p->pid < 0 ? (int)p->pid : take_opts(p, &o);
	if (r == 0)
		r = allocate(p);
	if (r == 0)
		r = open_shards(p, o.fds);
	if (r < 0) {
		destroy(p, o.fds == NULL);
		return r;
	}
	*ret_pager = p;
	return 0;
}

int pagehint_pager_new(const struct pagehint_pager_opts *opts, struct pagehint_pager **ret_pager)
{
	struct pagehint_pager_opts o;
	int r = PH_OPTS_IN(o, opts);
	if (r < 0)
		return r;
	return ph_pager_new_with(opts, o.map != NULL ? ph_map_sys(o.map) : &ph_sys_real, ret_pager);
}

#define NOT_SETTLED (PH_SET(PH_INFLIGHT) | PH_SET(PH_CLEARING) | PH_SET(PH_ABSENT))

int pagehint_pager_free(struct pagehint_pager *pager)
{
	if (pager == NULL)
		return 0;
	uint32_t n = atomic_load(&pager->regions_n);
	for (uint32_t i = 0; i < n && ph_pager_is_owner(pager); i++) {
		struct ph_range *g = &pager->regions[i];
		/* where absent pages are zero anyway nothing is lost with the descriptor */
		uint32_t set = g->source == NULL ? NOT_SETTLED & ~PH_SET(PH_ABSENT) : NOT_SETTLED;
		if ((g->flags & PAGEHINT_PAGER_SHARE) == 0 &&
		    ph_state_find(&g->states, 0, ph_range_pages(g), set) != ph_range_pages(g))
			return -EBUSY;
	}
	destroy(pager, 1);
	return 0;
}

uint32_t pagehint_pager_shards(const struct pagehint_pager *pager)
{
	return pager->shards_n;
}

int pagehint_pager_fd(const struct pagehint_pager *pager, uint32_t shard, int *ret_fd)
{
	if (pager == NULL || ret_fd == NULL || shard >= pager->shards_n)
		return -EINVAL;
	*ret_fd = pager->shards[shard].fd;
	return 0;
}

int pagehint_pager_stats(const struct pagehint_pager *pager, struct pagehint_pager_stats *stats)
{
	uint64_t words[PH_PAGER_COUNTERS];
	struct pagehint_pager_stats now;
	for (size_t i = 0; i < PH_PAGER_COUNTERS; i++)
		words[i] = atomic_load_explicit(&pager->counters[i], memory_order_relaxed);
	memcpy(&now, words, sizeof(now));
	return PH_OPTS_OUT(stats, now);
}

static void explain_region(const struct ph_range *g, const struct pagehint_sink *sink)
{
	char text[256];
	uint64_t pages = ph_range_pages(g);
	uint64_t absent = ph_state_count(&g->states, 0, pages, PH_SET(PH_ABSENT));
	uint64_t flying = ph_state_count(&g->states, 0, pages, PH_SET(PH_INFLIGHT) | PH_SET(PH_CLEARING));
	uint64_t removed = ph_state_count(&g->states, 0, pages, PH_SET(PH_REMOVED));
	uint64_t poisoned = ph_state_count(&g->states, 0, pages, PH_SET(PH_POISONED));
	snprintf(text, sizeof(text),
		 "pager: frames from %" PRIu64 ": %" PRIu64 " pages of %" PRIu64 " bytes from %s: %" PRIu64
		 " absent, %" PRIu64 " in flight, %" PRIu64 " removed, %" PRIu64 " poisoned",
		 g->frame, pages, g->page_bytes, g->source == NULL ? "nowhere" : g->source->ops.name, absent, flying,
		 removed, poisoned);
	sink->line(sink->ctx, text);
}

void pagehint_pager_explain(const struct pagehint_pager *pager, const struct pagehint_sink *sink)
{
	char text[160];
	if (pager == NULL || sink == NULL || sink->line == NULL)
		return;
	uint32_t n = atomic_load(&pager->regions_n);
	uint32_t can = PH_UFFD_CAN_POISON;
	if (n == 0)
		sink->line(sink->ctx, "pager: no region was added");
	for (uint32_t i = 0; i < n; i++)
		explain_region(&pager->regions[i], sink);
	for (uint32_t i = 0; i < pager->shards_n; i++) {
		uint64_t stepped = atomic_load(&pager->shards[i].stepped);
		snprintf(text, sizeof(text), "pager: shard %" PRIu32 ": %s%" PRIu64 " ns", i,
			 stepped == 0 ? "never stepped; now is " : "last stepped at ",
			 stepped == 0 ? atomic_load(&pager->now) : stepped);
		sink->line(sink->ctx, text);
	}
	/* what a descriptor that was passed in agreed upon is not known; its regions say what may be done there */
	for (uint32_t i = 0; i < n; i++)
		can &= pager->regions[i].can;
	if ((can & PH_UFFD_CAN_POISON) == 0)
		sink->line(sink->ctx, "pager: the kernel cannot poison pages: what cannot be had is made inaccessible");
}
