#include "pager/removed.h"

#include <string.h>

#include "base/bits.h"
#include "pager/resolve.h"

uint64_t ph_removed_part(struct pagehint_pager *p, uint64_t frame, uint64_t frames, int *ret_inside)
{
	const struct ph_range *g = ph_range_of_frame(p, frame);
	uint32_t n = atomic_load_explicit(&p->regions_n, memory_order_acquire);
	uint64_t end = frame + frames;
	*ret_inside = g != NULL;
	if (g != NULL) {
		uint64_t last = g->frame + (g->bytes >> p->frame_shift);
		return (last < end ? last : end) - frame;
	}
	for (uint32_t i = 0; i < n; i++)
		if (p->regions[i].frame > frame && p->regions[i].frame < end)
			end = p->regions[i].frame;
	return end - frame;
}

/* A collector of parts: adjacent ones that are alike become one. */
struct parts {
	struct ph_leaving *at;
	uint32_t n;
	uint32_t max;
};

/* 0: there is no room for it. */
static int add(struct parts *parts, uint64_t frame, uint64_t frames, uint32_t leaves)
{
	if (frames == 0)
		return 1;
	if (parts->n != 0) {
		struct ph_leaving *last = &parts->at[parts->n - 1];
		if (last->leaves == leaves && last->frame + last->frames == frame) {
			last->frames += frames;
			return 1;
		}
	}
	if (parts->n == parts->max)
		return 0;
	parts->at[parts->n++] = (struct ph_leaving) { frame, frames, leaves, 0 };
	return 1;
}

/* Marks the pages of one word; which, is exactly what this call changed. The rest is in other hands; what is in flight is cancelled. */
static uint32_t mark(struct ph_range *g, uint64_t word, uint32_t mask)
{
	uint32_t leaving = ph_state_word(&g->states, word, mask, &ph_change_leave);
	(void)ph_state_word(&g->states, word, mask & ~leaving, &ph_change_cancel);
	return leaving;
}

static void unmark(struct ph_range *g, uint64_t word, uint32_t leaving)
{
	(void)ph_state_word(&g->states, word, leaving, &ph_change_stay);
}

/* Adds what became of a word's pages [first, end); 0: no room, and nothing of it is marked. */
static int add_word(struct pagehint_pager *p, struct ph_range *g, struct parts *parts, uint64_t first, uint64_t end)
{
	uint64_t word = first / PH_STATE_PAGES, page_frames = g->page_bytes >> p->frame_shift;
	unsigned at = first % PH_STATE_PAGES, to = at + (unsigned)(end - first);
	uint32_t leaving = mark(g, word, (uint32_t)ph_mask(at, to - at));
	struct parts before = *parts;
	uint64_t tail = parts->n == 0 ? 0 : parts->at[parts->n - 1].frames;
	while (at < to) {
		uint32_t leaves = leaving >> at & 1;
		unsigned n = 1;
		while (at + n < to && (leaving >> (at + n) & 1) == leaves)
			n++;
		if (!add(parts, ph_range_frame(p, g, word * PH_STATE_PAGES + at), n * page_frames, leaves)) {
			unmark(g, word, leaving);
			*parts = before;
			if (parts->n > 0)
				parts->at[parts->n - 1].frames = tail;
			return 0;
		}
		if (leaves)
			PH_PAGER_COUNT(p, removed, n);
		else
			PH_PAGER_COUNT(p, kept_in_flight, n);
		at += n;
	}
	return 1;
}

uint32_t ph_removed_leave(struct pagehint_pager *p, uint64_t frame, uint64_t frames, struct ph_leaving *out,
			  uint32_t max, uint64_t *ret_frames)
{
	struct ph_range *g = ph_range_of_frame(p, frame);
	struct parts parts = { out, 0, max };
	uint64_t page_frames = g->page_bytes >> p->frame_shift, base = frame - g->frame;
	uint64_t first = (base + page_frames - 1) / page_frames, end = (base + frames) / page_frames;
	uint64_t start = first < end ? ph_range_frame(p, g, first) : frame + frames;
	(void)add(&parts, frame, start - frame, PH_EDGE);
	while (first < end) {
		uint64_t to = ph_round_down(first, PH_STATE_PAGES) + PH_STATE_PAGES;
		to = to < end ? to : end;
		if (!add_word(p, g, &parts, first, to))
			break;
		first = to;
	}
	if (first >= end) {
		uint64_t done = parts.n == 0 ? frame : out[parts.n - 1].frame + out[parts.n - 1].frames;
		(void)add(&parts, done, frame + frames - done, PH_EDGE);
	}
	*ret_frames = parts.n == 0 ? 0 : out[parts.n - 1].frame + out[parts.n - 1].frames - frame;
	return parts.n;
}

void ph_removed_left(struct pagehint_pager *p, uint64_t frame, uint64_t frames, uint32_t how)
{
	static const struct ph_change *const change[] = { &ph_change_left, &ph_change_stay, &ph_change_left_some };
	struct ph_range *g = ph_range_of_frame(p, frame);
	uint64_t first, end;
	ph_range_span(p, g, frame, frames, &first, &end);
	(void)ph_state_change(&g->states, first, end - first, change[how]);
}

uint64_t ph_removed_wipe(struct pagehint_pager *p, uint64_t frame, uint64_t frames, uint64_t *ret_poisoned)
{
	struct ph_range *g = ph_range_of_frame(p, frame);
	uint64_t first, end, wiped = 0;
	ph_range_span(p, g, frame, frames, &first, &end);
	*ret_poisoned = 0;
	for (; first < end; first++) {
		unsigned state = ph_state_get(&g->states, first);
		if (state == PH_POISONED_LEAVING)
			*ret_poisoned += ph_state_change(&g->states, first, 1, &ph_change_stay) << g->page_shift;
		if (state != (PH_PRESENT | PH_LEAVING) && state != (PH_PRESENT | PH_LEAVING | PH_DIRTY))
			continue;
		/* it stays, and is mapped before it is touched: a fault here would wait for a mark that is its own */
		(void)ph_state_change(&g->states, first, 1, &ph_change_stay);
		if (ph_resolve_inline(p, g, first, 1) != 0)
			continue;
		memset((void *)(uintptr_t)(g->addr + (first << g->page_shift)), 0, (size_t)g->page_bytes);
		wiped += g->page_bytes;
	}
	return wiped;
}

/* Rounded inward: an event whose end is inside a huge page says nothing of the rest of it. */
void ph_removed_event(struct pagehint_pager *p, uint64_t start, uint64_t end)
{
	uint32_t n = atomic_load_explicit(&p->regions_n, memory_order_acquire);
	for (uint32_t i = 0; i < n; i++) {
		struct ph_range *g = &p->regions[i];
		uint64_t low = start > g->addr ? start - g->addr : 0;
		uint64_t high = end < g->addr + g->bytes ? end - g->addr : g->bytes;
		if (end <= g->addr || start >= g->addr + g->bytes)
			continue;
		low = ph_round_up(low, g->page_bytes) >> g->page_shift;
		high >>= g->page_shift;
		if (low < high)
			PH_PAGER_COUNT(p, removed_events,
				       ph_state_change(&g->states, low, high - low, &ph_change_take_away));
	}
}
