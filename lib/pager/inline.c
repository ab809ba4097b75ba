/*
 * inline: a thread resolves its own fault: from its SIGBUS handler, or as a vCPU that left the guest.
 *
 * Async-signal-safe: atomics, system calls, and the source's fetch where it says that it is; no lock, no allocation.
 * Windows grow as in event.c, where faults follow each other; what follows what stands in a word a stream, since many
 * threads look there at once and none may wait.
 */
#include <errno.h>
#include <stddef.h>

#include "base/bits.h"
#include "pager/resolve.h"

/* A stream: 1 + region (12 bits) | next page (47) | log2 of the window (5). 0 = none. */
#define NEXT_BITS 47
#define LOG_BITS 5

static uint64_t stream_word(uint32_t region, uint64_t next, uint32_t window)
{
	return (uint64_t)(region + 1) << (NEXT_BITS + LOG_BITS) | (next & ph_low_mask(NEXT_BITS)) << LOG_BITS |
	       ph_ctz(window);
}

/* The window for a fault, and where the stream is to be kept. */
static uint32_t window_for(struct pagehint_pager *p, uint32_t region, uint64_t page, uint32_t *ret_slot)
{
	for (uint32_t i = 0; i < PH_INLINE_STREAMS; i++) {
		uint64_t word = atomic_load_explicit(&p->streams[i], memory_order_relaxed);
		uint64_t next = word >> LOG_BITS & ph_low_mask(NEXT_BITS), window = UINT64_C(1) << (word & 31);
		if (word >> (NEXT_BITS + LOG_BITS) != region + 1u || page - next > window / 4)
			continue;
		*ret_slot = i;
		return (uint32_t)(window * 2 < p->around_max ? window * 2 : p->around_max);
	}
	*ret_slot = (uint32_t)((page * UINT64_C(0x9e3779b97f4a7c15)) >> 59) % PH_INLINE_STREAMS;
	return p->around_min;
}

/* The largest power of two that is not above n. */
static uint32_t power_of_two(uint32_t n)
{
	while ((n & (n - 1)) != 0)
		n &= n - 1;
	return n;
}

/* Who may install pages here at all. */
static int may_resolve(const struct pagehint_pager *p)
{
	return (p->flags & (PAGEHINT_PAGER_EVENT_REMOVE | PAGEHINT_PAGER_FOREIGN)) != 0 ? -EOPNOTSUPP : 0;
}

int ph_resolve_inline(struct pagehint_pager *p, struct ph_range *g, uint64_t page, uint32_t window)
{
	struct ph_ask ask = {
		.range = g,
		.page = page,
		.how = PH_HOW_UNKNOWN,
		.quiet = (p->flags & PAGEHINT_PAGER_SIGBUS) != 0, /* nobody ever waits */
		.demand = 1,
	};
	uint32_t slot = 0, region = ph_range_index(p, g);
	int r = may_resolve(p);
	if (r < 0)
		return r;
	ask.window = window != 0 ? window : power_of_two(window_for(p, region, page, &slot));
	window = ask.window;
	atomic_fetch_add(&p->demand, 1);
	r = ph_resolve(p, &ask);
	atomic_fetch_sub(&p->demand, 1);
	if (ask.pages != 0)
		atomic_store_explicit(&p->streams[slot], stream_word(region, ask.first + ask.pages, window),
				      memory_order_relaxed);
	if (r == 0)
		PH_PAGER_COUNT(p, faults, 1);
	return r == -EINPROGRESS ? -EAGAIN : r;
}

int pagehint_pager_resolve(struct pagehint_pager *pager, const void *addr)
{
	if (pager == NULL)
		return -EINVAL;
	struct ph_range *g = ph_range_at(pager, (uintptr_t)addr);
	if (g == NULL)
		return -ERANGE;
	if (!ph_pager_is_owner(pager))
		return -ENODEV;
	return ph_resolve_inline(pager, g, ((uintptr_t)addr - g->addr) >> g->page_shift, 0);
}

/* ---- exits of a vCPU ---- */

static int resolve_gpa(struct pagehint_pager *p, uint64_t gpa, uint64_t bytes)
{
	uint64_t last = bytes == 0 ? gpa : gpa + bytes - 1;
	struct ph_range *g = ph_range_of_frame(p, gpa >> p->frame_shift);
	if (g == NULL || last < gpa || ph_range_of_frame(p, last >> p->frame_shift) != g)
		return -ERANGE;
	uint64_t base = g->frame << p->frame_shift;
	uint64_t page = (gpa - base) >> g->page_shift, end = (last - base) >> g->page_shift;
	int r = 0;
	for (uint64_t n = 0; page <= end && r == 0 && n < PH_WINDOW_MAX; page++, n++)
		r = ph_resolve_inline(p, g, page, 0);
	return r;
}

/* Brings up to 2 MiB of what is not here, from where the last exit of this kind ended. -EFAULT: there is nothing. */
static int resolve_somewhere(struct pagehint_pager *p)
{
	uint32_t set = PH_SET(PH_ABSENT) | PH_SET(PH_REMOVED), n = atomic_load(&p->regions_n), busy = 0;
	uint64_t budget = PH_BUFFER_BYTES, brought = 0;
	for (uint32_t i = 0; i < n; i++) {
		struct ph_range *g = &p->regions[i];
		uint64_t pages = ph_range_pages(g), at = 0;
		while ((at = ph_state_find(&g->states, at, pages, set)) < pages && brought < budget) {
			int r = ph_resolve_inline(p, g, at, 0);
			if (r < 0 && r != -EAGAIN)
				return r;
			busy |= r == -EAGAIN;
			at++;
			brought += g->page_bytes;
		}
		busy |= ph_state_find(&g->states, 0, pages, PH_SET(PH_INFLIGHT) | PH_SET(PH_CLEARING)) < pages;
	}
	return brought != 0 ? 0 : busy ? -EAGAIN : -EFAULT;
}

int pagehint_pager_exit(struct pagehint_pager *pager, uint32_t kind, uint64_t gpa, uint64_t bytes, uint32_t *ret_action)
{
	if (pager == NULL || ret_action == NULL || kind > PAGEHINT_EXIT_MMIO)
		return -EINVAL;
	if (!ph_pager_is_owner(pager))
		return -ENODEV;
	int r = kind == PAGEHINT_EXIT_EFAULT ? resolve_somewhere(pager) : resolve_gpa(pager, gpa, bytes);
	if (r == 0)
		*ret_action = kind == PAGEHINT_EXIT_MMIO ? PAGEHINT_ACCESS : PAGEHINT_RETRY;
	return r;
}
