/*
 * region: adding a region: its states, its registration shard by shard; and finding the region of an address or a frame.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include <pagehint/map.h>

#include "base/bits.h"
#include "base/opts.h"
#include "memory/map.h"
#include "pager/pager.h"

#define SHARD_UNIT (UINT64_C(2) << 20)
#define FLAGS                                                                                           \
	(PAGEHINT_PAGER_MINOR | PAGEHINT_PAGER_MISSING | PAGEHINT_PAGER_TRACK | PAGEHINT_PAGER_ATTACH | \
	 PAGEHINT_PAGER_SHARE | PAGEHINT_PAGER_KEEP_FORK)

/* What stands before the states where they are brought along: a successor must not take something else for them. */
struct head {
	uint64_t magic;
	uint64_t pages;
	uint64_t page_bytes;
	uint64_t reserved[5];
};
#define MAGIC UINT64_C(0x3173656761706870) /* "phpages1" as its writer stores numbers: another byte order differs */

/* ---- finding ---- */

uint64_t ph_range_pages(const struct ph_range *g)
{
	return g->bytes >> g->page_shift;
}

uint32_t ph_range_index(const struct pagehint_pager *p, const struct ph_range *g)
{
	return (uint32_t)(g - p->regions);
}

struct ph_range *ph_range_at(struct pagehint_pager *p, uint64_t addr)
{
	uint32_t n = atomic_load_explicit(&p->regions_n, memory_order_acquire);
	for (uint32_t i = 0; i < n; i++)
		if (addr - p->regions[i].addr < p->regions[i].bytes)
			return &p->regions[i];
	return NULL;
}

struct ph_range *ph_range_of_frame(struct pagehint_pager *p, uint64_t frame)
{
	uint32_t n = atomic_load_explicit(&p->regions_n, memory_order_acquire);
	for (uint32_t i = 0; i < n; i++)
		if (frame - p->regions[i].frame < p->regions[i].bytes >> p->frame_shift)
			return &p->regions[i];
	return NULL;
}

uint32_t ph_range_shard(const struct pagehint_pager *p, const struct ph_range *g, uint64_t page)
{
	return (uint32_t)((page << g->page_shift) / g->stripe % p->shards_n);
}

int ph_range_fd(const struct pagehint_pager *p, const struct ph_range *g, uint64_t page)
{
	return p->shards[ph_range_shard(p, g, page)].fd;
}

void ph_range_stripe(const struct ph_range *g, uint64_t page, uint64_t *first, uint64_t *end)
{
	uint64_t pages = g->stripe >> g->page_shift;
	*first = page / pages * pages;
	*end = *first + pages < ph_range_pages(g) ? *first + pages : ph_range_pages(g);
}

uint64_t ph_range_frame(const struct pagehint_pager *p, const struct ph_range *g, uint64_t page)
{
	return g->frame + (page << g->page_shift >> p->frame_shift);
}

void ph_range_span(const struct pagehint_pager *p, const struct ph_range *g, uint64_t frame, uint64_t frames,
		   uint64_t *first, uint64_t *end)
{
	uint64_t at = (frame - g->frame) << p->frame_shift;
	*first = at >> g->page_shift;
	*end = (at + (frames << p->frame_shift) + g->page_bytes - 1) >> g->page_shift;
}

void ph_range_wake(struct pagehint_pager *p, const struct ph_range *g, uint64_t first, uint64_t n)
{
	while (n > 0) {
		uint64_t low, end;
		ph_range_stripe(g, first, &low, &end);
		uint64_t part = end - first < n ? end - first : n;
		PH_PAGER_COUNT(p, wakes, 1);
		(void)ph_uffd_wake(p->sys, ph_range_fd(p, g, first), g->addr + (first << g->page_shift),
				   part << g->page_shift);
		first += part;
		n -= part;
	}
}

/* ---- adding ---- */

uint64_t pagehint_pager_state_size(uint64_t bytes, uint64_t page_bytes)
{
	if (bytes == 0 || page_bytes == 0 || bytes % page_bytes != 0)
		return 0;
	uint64_t words = (bytes / page_bytes + PH_STATE_PAGES - 1) / PH_STATE_PAGES;
	return sizeof(struct head) + words * sizeof(uint64_t);
}

/* The map knows where it is and what backs it; what the embedder says beside must agree. */
static int look_up(struct pagehint_pager *p, const struct pagehint_pager_region *r, struct ph_range *g)
{
	struct ph_region known;
	g->addr = r->host_addr;
	g->host_bytes = r->page_bytes == 0 ? 4096 : r->page_bytes;
	g->backing = r->backing == 0 ? PAGEHINT_BACKING_ANON : r->backing;
	if (p->map == NULL)
		return r->host_addr == 0 ? -EINVAL : 0;
	if (ph_map_find(p->map, r->frame, &known) < 0 || r->frames > known.frames - (r->frame - known.frame) ||
	    known.host_addr == 0 || (known.flags & PAGEHINT_REGION_UFFD_OWN) == 0)
		return -EINVAL;
	g->addr = known.host_addr + ((r->frame - known.frame) << p->frame_shift);
	if ((r->host_addr != 0 && r->host_addr != g->addr) || (r->backing != 0 && r->backing != known.backing))
		return -EINVAL;
	g->backing = known.backing;
	if (r->page_bytes == 0)
		g->host_bytes = known.host_page_bytes;
	return 0;
}

static int describe(struct pagehint_pager *p, const struct pagehint_pager_region *r, struct ph_range *g)
{
	uint64_t most = UINT64_MAX >> p->frame_shift;
	uint32_t flags = r->flags;
	if (r->frames == 0 || r->frame > most || r->frames > most - r->frame || (flags & ~FLAGS) != 0)
		return -EINVAL;
	int e = look_up(p, r, g);
	if (e < 0)
		return e;
	g->frame = r->frame;
	g->bytes = r->frames << p->frame_shift;
	if (g->host_bytes < 4096 || (g->host_bytes & (g->host_bytes - 1)) != 0)
		return -EINVAL;
	g->page_bytes = g->host_bytes >> p->frame_shift != 0 ? g->host_bytes : UINT64_C(1) << p->frame_shift;
	if (g->page_bytes > PH_BUFFER_BYTES)
		return -EOPNOTSUPP;
	g->page_shift = ph_ctz(g->page_bytes);
	if (((g->addr | g->bytes | r->source_offset) & (g->page_bytes - 1)) != 0 || g->addr > UINTPTR_MAX - g->bytes ||
	    r->source_offset > INT64_MAX - g->bytes)
		return -EINVAL;
	if ((r->frame << p->frame_shift & (g->page_bytes - 1)) != 0)
		return -EINVAL;
	if (g->backing != PAGEHINT_BACKING_ANON && g->backing != PAGEHINT_BACKING_SHARED &&
	    g->backing != PAGEHINT_BACKING_HUGETLB && g->backing != PAGEHINT_BACKING_FILE_PRIVATE)
		return -EOPNOTSUPP;
	if ((flags & PAGEHINT_PAGER_MINOR) == 0 || r->source != NULL || (flags & PAGEHINT_PAGER_TRACK) != 0)
		flags |= PAGEHINT_PAGER_MISSING; /* or what is nowhere would be zero, or written, without a word */
	if ((p->flags & PAGEHINT_PAGER_SIGBUS) != 0 &&
	    ((flags & PAGEHINT_PAGER_TRACK) != 0 || /* a signal does not say that it was a write */
	     (r->source != NULL && (r->source->ops.caps & PAGEHINT_SOURCE_SIGNAL_SAFE) == 0)))
		return -EINVAL;
	g->flags = flags;
	g->source = r->source;
	g->offset = r->source_offset;
	g->stripe = p->stripe_bytes != 0 ? p->stripe_bytes
					 : ph_round_up((g->bytes + p->shards_n - 1) / p->shards_n, SHARD_UNIT);
	return 0;
}

static int overlaps(struct pagehint_pager *p, const struct ph_range *g)
{
	uint32_t n = atomic_load(&p->regions_n);
	for (uint32_t i = 0; i < n; i++) {
		const struct ph_range *o = &p->regions[i];
		if (g->addr < o->addr + o->bytes && o->addr < g->addr + g->bytes)
			return 1;
		if (g->frame < o->frame + (o->bytes >> p->frame_shift) &&
		    o->frame < g->frame + (g->bytes >> p->frame_shift))
			return 1;
	}
	return 0;
}

static int take_states(struct pagehint_pager *p, const struct pagehint_pager_region *r, struct ph_range *g)
{
	uint64_t need = pagehint_pager_state_size(g->bytes, g->page_bytes);
	uint32_t goes_on = g->flags & (PAGEHINT_PAGER_ATTACH | PAGEHINT_PAGER_SHARE);
	struct head *head = r->state;
	if (head == NULL) {
		if (goes_on != 0)
			return -EINVAL;
		head = p->sys->map_memory(p->sys->ctx, (size_t)need);
		if (head == NULL)
			return -ENOMEM;
		g->own = head;
		g->own_bytes = need;
	} else if (r->state_bytes < need || (uintptr_t)head % _Alignof(uint64_t) != 0) {
		return -EINVAL;
	}
	g->states.words = (_Atomic uint64_t *)(void *)(head + 1);
	g->states.pages = ph_range_pages(g);
	if (goes_on != 0)
		return head->magic == MAGIC && head->pages == g->states.pages && head->page_bytes == g->page_bytes &&
				       ph_state_find(&g->states, 0, g->states.pages, PH_STATES_NEVER) == g->states.pages
			       ? 0
			       : -EINVAL;
	head->magic = MAGIC;
	head->pages = g->states.pages;
	head->page_bytes = g->page_bytes;
	return 0;
}

static int register_part(struct pagehint_pager *p, struct ph_range *g, int fd, uint64_t at, uint64_t bytes)
{
	uint64_t mode = ((g->flags & PAGEHINT_PAGER_MISSING) != 0 ? UFFDIO_REGISTER_MODE_MISSING : 0) |
			((g->flags & PAGEHINT_PAGER_MINOR) != 0 ? UFFDIO_REGISTER_MODE_MINOR : 0) |
			((g->flags & PAGEHINT_PAGER_TRACK) != 0 ? UFFDIO_REGISTER_MODE_WP : 0);
	uint32_t can = 0;
	int r = ph_uffd_register(p->sys, fd, g->addr + at, bytes, mode, &can);
	if (r < 0)
		return r == -EINVAL ? -EOPNOTSUPP : r; /* all that we say is in order, so it is this memory */
	g->can = at == 0 ? can : g->can & can;
	return 0;
}

static void unregister(struct pagehint_pager *p, const struct ph_range *g, uint64_t end)
{
	for (uint64_t at = 0; at < end; at += g->stripe)
		(void)ph_uffd_unregister(p->sys, ph_range_fd(p, g, at >> g->page_shift), g->addr + at,
					 g->bytes - at < g->stripe ? g->bytes - at : g->stripe);
}

static int register_all(struct pagehint_pager *p, struct ph_range *g)
{
	for (uint64_t at = 0; at < g->bytes; at += g->stripe) {
		uint64_t bytes = g->bytes - at < g->stripe ? g->bytes - at : g->stripe;
		int r = register_part(p, g, ph_range_fd(p, g, at >> g->page_shift), at, bytes);
		if (r < 0) {
			if ((g->flags & PAGEHINT_PAGER_ATTACH) == 0)
				unregister(p, g, at);
			return r;
		}
	}
	uint32_t need = ((g->flags & PAGEHINT_PAGER_MISSING) != 0 ? PH_UFFD_CAN_COPY : 0) |
			((g->flags & PAGEHINT_PAGER_MINOR) != 0 ? PH_UFFD_CAN_CONTINUE : 0) |
			((g->flags & PAGEHINT_PAGER_TRACK) != 0 ? PH_UFFD_CAN_PROTECT : 0);
	if ((g->can & need) == need)
		return 0;
	unregister(p, g, g->bytes);
	return -EOPNOTSUPP;
}

static int enroll(struct pagehint_pager *p, const struct pagehint_pager_region *r, struct ph_range *g)
{
	int e = take_states(p, r, g);
	if (e < 0)
		return e;
	if ((p->flags & PAGEHINT_PAGER_FOREIGN) == 0 && (g->flags & PAGEHINT_PAGER_KEEP_FORK) == 0)
		e = p->sys->madvise(p->sys->ctx, (void *)(uintptr_t)g->addr, (size_t)g->bytes, MADV_DONTFORK);
	if (e == 0)
		e = register_all(p, g);
	if (e < 0 && g->own != NULL)
		p->sys->unmap_memory(p->sys->ctx, g->own, (size_t)g->own_bytes);
	return e;
}

int pagehint_pager_add(struct pagehint_pager *pager, const struct pagehint_pager_region *region)
{
	struct pagehint_pager_region r;
	struct ph_range g;
	int e = pager == NULL || region == NULL ? -EINVAL : PH_OPTS_IN(r, region);
	if (e < 0)
		return e;
	if (!ph_pager_is_owner(pager))
		return -ENODEV;
	memset(&g, 0, sizeof(g));
	e = describe(pager, &r, &g);
	if (e < 0)
		return e;
	uint32_t n = atomic_load(&pager->regions_n);
	if (n == pager->regions_max)
		return -ENOSPC;
	if (overlaps(pager, &g))
		return -EEXIST;
	e = enroll(pager, &r, &g);
	if (e < 0)
		return e;
	pager->regions[n] = g;
	atomic_store(&pager->regions_n, n + 1);
	if ((g.flags & PAGEHINT_PAGER_ATTACH) != 0)
		(void)ph_state_change(&pager->regions[n].states, 0, g.states.pages, &ph_change_attach);
	/* a fault between its registration and now was nobody's to whoever read it: it is raised again */
	ph_range_wake(pager, &pager->regions[n], 0, g.states.pages);
	return 0;
}
