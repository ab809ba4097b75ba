#include "alloc/harvest.h"

#include <errno.h>

#include "alloc/cache.h"
#include "alloc/level.h"
#include "alloc/ops.h"
#include "alloc/sets.h"

#define HARVEST_WORK 65536u

int ph_harvest_next_span(const struct pagehint_zone *z, uint64_t from, struct pagehint_run *ret_span)
{
	/* the lowest section that ends after `from` and has a present frame there; slots are in no order */
	for (;;) {
		uint32_t slots = (uint32_t)atomic_load(&z->used_slots), best = 0;
		uint64_t number = UINT64_MAX;
		for (uint32_t i = 0; i < slots; i++) {
			uint64_t n = atomic_load(&ph_zone_head(z, i)->number_plus1) - 1;
			if (n < number && n >= from >> PH_SECTION_SHIFT) {
				number = n;
				best = i;
			}
		}
		if (number == UINT64_MAX)
			return -ENOENT;
		uint64_t base = number << PH_SECTION_SHIFT;
		uint32_t at = from > base ? ph_zone_offset(from) : 0;
		while (at < PAGEHINT_SECTION_FRAMES && !ph_zone_is_present(z, best, at))
			at = (at | (PH_PRESENT_FRAMES - 1)) + 1;
		uint32_t end = at;
		while (end < PAGEHINT_SECTION_FRAMES && ph_zone_is_present(z, best, end))
			end = (end | (PH_PRESENT_FRAMES - 1)) + 1;
		if (at < end) {
			*ret_span = (struct pagehint_run) { base + at, end - at };
			return 0;
		}
		from = base + PAGEHINT_SECTION_FRAMES;
	}
}

static int joins(const struct ph_reap *reap, uint64_t frame)
{
	uint32_t n = reap->ret->runs;
	return n != 0 && reap->runs[n - 1].frame + reap->runs[n - 1].frames == frame;
}

int ph_reap_has_room(const struct ph_reap *reap, uint64_t frame, uint64_t frames)
{
	return reap->ask->max_frames - reap->ret->frames >= frames &&
	       (reap->ret->runs < reap->ask->max_runs || joins(reap, frame));
}

int ph_reap_claim(const struct ph_reap *reap, const struct ph_place *p, uint64_t mask)
{
	if (!ph_level_claim(reap->z, p->slot, p->level, p->word, mask))
		return 0;
	/* what we hold keeps the section: now it is certain which one it is */
	if (ph_zone_base(reap->z, p->slot) == reap->base)
		return 1;
	if (p->level == PH_WHOLE_LEVEL)
		ph_level_put_block(reap->z, p->slot, 0, PAGEHINT_ORDER_MAX);
	else
		ph_level_put(reap->z, p->slot, p->level, p->word, mask);
	return 0;
}

void ph_reap_append(struct ph_reap *reap, uint64_t frame, uint64_t frames)
{
	atomic_fetch_add(&reap->z->isolated, frames);
	reap->ret->frames += frames;
	if (joins(reap, frame))
		reap->runs[reap->ret->runs - 1].frames += frames;
	else
		reap->runs[reap->ret->runs++] = (struct pagehint_run) { frame, frames };
}

/* The smallest block that is taken whole: the order asked for, but at least a granule. coarse.c has those above a word. */
static uint32_t unit_of(const struct ph_reap *reap)
{
	uint32_t g = reap->z->granule_order, order = reap->ask->order;
	return order <= g ? g : order;
}

/* bits of `v` that belong to aligned groups of 2^o bits that are all set */
static uint64_t in_groups(uint64_t v, uint32_t o)
{
	uint64_t out = 0;
	for (uint64_t starts = ph_runs(v, o); starts != 0; starts &= starts - 1)
		out |= ph_mask(ph_ctz(starts), 1u << o); /* o may be 6: the whole word */
	return out;
}

uint64_t ph_reap_candidates(const struct ph_reap *reap, uint32_t slot, uint32_t i, uint64_t range, uint64_t *ret_whole)
{
	struct pagehint_zone *z = reap->z;
	uint64_t whole = ph_sets_whole(z, slot, i) & range;
	uint64_t touched = atomic_load(&ph_sets_touched(z, slot)[i]);
	uint64_t ready = whole & (atomic_load(&ph_sets_stale(z, slot)[i]) | touched);
	uint32_t g = z->granule_order;
	if (z->flags & PAGEHINT_ZONE_LADDER)
		for (uint64_t v = ready; v != 0; v &= v - 1)
			if (!ph_sets_is_dirty(z, slot, (i * 64 + ph_ctz(v)) << g, 1u << g))
				ready &= ~(v & -v); /* all its frames were discarded in pieces */
	*ret_whole = ready;
	if (!(reap->ask->flags & PAGEHINT_HARVEST_NOW))
		ready &= atomic_load(&ph_sets_aged(z, slot)[i]) & ~touched;
	if (unit_of(reap) > g && unit_of(reap) <= g + 6)
		ready = in_groups(ready, unit_of(reap) - g);
	return ready;
}

int ph_reap_keep(struct ph_reap *reap, uint32_t slot, uint32_t offset, uint32_t order)
{
	struct pagehint_zone *z = reap->z;
	uint32_t granule = offset >> z->granule_order, n = 1u << (order - z->granule_order);
	if (!(reap->ask->flags & PAGEHINT_HARVEST_NOW)) {
		for (uint32_t i = granule; i < granule + n; i += 64 - i % 64) {
			uint32_t here = n < 64 ? n : 64;
			if (atomic_load(&ph_sets_touched(z, slot)[i / 64]) & ph_mask(i % 64, here)) {
				ph_level_put_block(z, slot, offset, order);
				return 0;
			}
		}
	}
	ph_reap_append(reap, reap->base + offset, UINT64_C(1) << order);
	return 1;
}

/*
 * Takes the granules [first, first + n) of word i, in the biggest blocks that can be had. Returns how many were dealt with:
 * fewer than n when there was no more room. *taken gets those that were isolated.
 */
static uint32_t take_granules(struct ph_reap *reap, uint32_t slot, uint32_t i, uint32_t first, uint32_t n,
			      uint64_t *taken)
{
	struct pagehint_zone *z = reap->z;
	uint32_t g = z->granule_order, unit = unit_of(reap), done = 0;
	while (done < n) {
		uint32_t offset = (i * 64 + first + done) << g;
		uint64_t room = reap->ask->max_frames - reap->ret->frames, most = (uint64_t)(n - done) << g;
		if (!ph_reap_has_room(reap, reap->base + offset, UINT64_C(1) << unit))
			break;
		uint32_t order = ph_order_fitting(offset, most < room ? most : room);
		for (;; order--) {
			struct ph_place p = ph_place_of(slot, offset, order);
			if (ph_reap_claim(reap, &p, ph_order_mask(order, p.bit)) &&
			    ph_reap_keep(reap, slot, offset, order)) {
				*taken |= ph_mask(first + done, 1u << (order - g));
				break;
			}
			if (order == unit)
				break;
		}
		done += 1u << (order - g);
	}
	return done;
}

void ph_reap_write_look(struct pagehint_zone *z, uint32_t slot, uint32_t i, uint64_t seen, uint64_t taken)
{
	ph_word *touched = &ph_sets_touched(z, slot)[i], *stale = &ph_sets_stale(z, slot)[i];
	uint64_t t = atomic_load(touched) & seen;
	if (t != 0) {
		/* stale first: stale | touched must never lose a granule */
		atomic_fetch_or(stale, t);
		t = atomic_fetch_and(touched, ~seen) & seen;
		atomic_fetch_or(stale, t);
	}
	/* whole at the beginning of the next interval; what is touched from here on shows at its end */
	uint64_t whole = ph_sets_whole(z, slot, i) & seen & ~taken;
	ph_word *aged = &ph_sets_aged(z, slot)[i];
	atomic_fetch_or(aged, whole);
	atomic_fetch_and(aged, whole | ~seen);
}

/* Granule order and above, one word. Returns the granules of `range` that were dealt with; the others found no room. */
static uint64_t reap_whole(struct ph_reap *reap, uint32_t slot, uint32_t i, uint64_t range, uint64_t ready,
			   uint64_t *taken)
{
	for (uint64_t wanted = ready; wanted != 0;) {
		uint32_t first = ph_ctz(wanted), n = ph_run_length(wanted, first);
		uint32_t done = take_granules(reap, slot, i, first, n, taken);
		if (done < n)
			return range & ph_low_mask(first + done);
		wanted &= ~ph_mask(first, n);
	}
	return range;
}

/* Below the granule order, one word: granules that are ready as a whole, pieces of the others, in address order. */
static uint64_t reap_pieces(struct ph_reap *reap, uint32_t slot, uint32_t i, const struct ph_part *part, uint64_t ready,
			    uint64_t young, uint64_t *taken, uint32_t *ret_next)
{
	uint32_t g = reap->z->granule_order, size = 1u << g, end = part->offset + part->frames;
	uint64_t seen = 0;
	uint32_t at = part->offset > (i * 64) << g ? part->offset : (i * 64) << g;
	while (at < end && at >> g < i * 64 + 64) {
		uint32_t bit = (at >> g) % 64, stop = ((at >> g) + 1) << g;
		if (stop > end)
			stop = end;
		int whole = stop - at == size && (ready >> bit & 1) &&
			    reap->ask->max_frames >= size; /* else it goes in pieces, too */
		/* whole, but young: it gets its time, pieces do not */
		if (!whole && (young >> bit & 1) && !(reap->ask->flags & PAGEHINT_HARVEST_NOW)) {
			seen |= UINT64_C(1) << bit;
			at = stop;
			continue;
		}
		if (whole ? take_granules(reap, slot, i, bit, 1, taken) == 0
			  : !ph_reap_fine(reap, slot, at, stop - at, &at)) {
			*ret_next = at;
			return seen;
		}
		seen |= UINT64_C(1) << bit;
		at = stop;
	}
	*ret_next = at;
	return seen;
}

/* The granules of word i that lie wholly in the part. */
static uint64_t granules_in(const struct pagehint_zone *z, const struct ph_part *part, uint32_t i)
{
	uint32_t g = z->granule_order, size = 1u << g;
	uint32_t first = (part->offset + size - 1) >> g, end = (part->offset + part->frames) >> g;
	uint32_t low = first > i * 64 ? first - i * 64 : 0, high = end > i * 64 ? end - i * 64 : 0;
	high = high > 64 ? 64 : high;
	return low < high ? ph_mask(low, high - low) : 0;
}

/* One word of granules; returns 0 and *ret_next (section offset) when it had to stop there. */
static int reap_word(struct ph_reap *reap, uint32_t slot, uint32_t i, const struct ph_part *part, uint32_t *ret_next)
{
	struct pagehint_zone *z = reap->z;
	uint32_t g = z->granule_order;
	uint64_t range = granules_in(z, part, i), unreported, taken = 0, seen = range;
	uint64_t ready = ph_reap_candidates(reap, slot, i, range, &unreported);
	int fine = reap->ask->order < g, complete = 1;
	*ret_next = (i * 64 + 64) << g;
	if (reap->ask->flags & PAGEHINT_HARVEST_PEEK) {
		reap->ret->frames += (uint64_t)ph_popcount(ready) << g;
	} else if (fine) {
		uint32_t word_end = *ret_next < part->offset + part->frames ? *ret_next : part->offset + part->frames;
		seen = reap_pieces(reap, slot, i, part, ready, unreported & ~ready, &taken, ret_next) & range;
		complete = *ret_next >= word_end;
	} else {
		seen = reap_whole(reap, slot, i, range, ready, &taken);
		complete = seen == range;
		if (!complete)
			*ret_next = (i * 64 + ph_ctz(range & ~seen)) << g;
	}
	reap->ret->young += (uint64_t)ph_popcount(unreported & ~ready & seen) << g;
	ph_reap_write_look(z, slot, i, seen, taken);
	return complete;
}

/* One section's part; returns 0 and *ret_next (section offset) when it had to stop. */
static int reap_part(struct ph_reap *reap, uint32_t slot, const struct ph_part *part, uint32_t *ret_next)
{
	uint32_t g = reap->z->granule_order, end = part->offset + part->frames;
	uint32_t bound = reap->ask->max_work != 0 ? reap->ask->max_work : HARVEST_WORK;
	if (reap->ask->order > g + 6)
		return ph_reap_coarse(reap, slot, part, bound, ret_next);
	for (uint32_t i = (part->offset >> g) / 64; (i * 64) << g < end; i++) {
		/* a word of granules costs a word a level; pieces cost every word of level 0 */
		uint32_t cost = reap->ask->order < g ? (64u << g) / 64 : 1u << (g % 6);
		if (reap->work != 0 && reap->work + cost > bound) {
			*ret_next = (i * 64) << g > part->offset ? (i * 64) << g : part->offset;
			return 0;
		}
		reap->work += cost;
		if (!reap_word(reap, slot, i, part, ret_next))
			return 0;
	}
	return 1;
}

int ph_harvest(struct pagehint_zone *z, const struct pagehint_harvest *ask, struct pagehint_run *runs,
	       struct pagehint_harvested *ret)
{
	struct ph_reap reap = { z, ask, runs, ret, 0, 0 };
	if (ask->from > ask->to || ask->order > PAGEHINT_ORDER_MAX ||
	    (ask->order < z->granule_order && !(z->flags & PAGEHINT_ZONE_LADDER)))
		return -EINVAL;
	*ret = (struct pagehint_harvested) { .next = ask->to };
	atomic_fetch_add(&z->holding, 1);
	uint64_t end = z->span_sections << PH_SECTION_SHIFT, to = ask->to < end ? ask->to : end;
	PH_FOR_SECTIONS (part, ask->from, ask->from < to ? to - ask->from : 0) {
		int64_t slot = ph_zone_slot(z, part.frame);
		uint32_t next;
		reap.base = part.frame - part.offset;
		if (slot < 0 || reap_part(&reap, (uint32_t)slot, &part, &next))
			continue;
		ret->next = part.frame - part.offset + next;
		break;
	}
	atomic_fetch_sub(&z->holding, 1);
	return 0;
}

void ph_harvest_depart(struct pagehint_zone *z, uint64_t frames)
{
	atomic_fetch_add(&z->in_flight, frames);
	atomic_fetch_sub(&z->isolated, frames);
}

void ph_harvest_release(struct pagehint_zone *z, const struct pagehint_run *run, uint32_t how)
{
	PH_FOR_SECTIONS (part, run->frame, run->frames)
		if (how == PAGEHINT_RELEASE_REPORTED)
			ph_sets_reported(z, (uint32_t)ph_zone_slot(z, part.frame), part.offset, part.frames);
	ph_zone_put_range(z, run->frame, run->frames);
	/*
	 * Only now: whoever finds nothing in the tree must see them here. What was in flight comes back first; only this thread
	 * changes the two.
	 */
	uint64_t flying = atomic_load(&z->in_flight), back = flying < run->frames ? flying : run->frames;
	atomic_fetch_sub(&z->in_flight, back);
	atomic_fetch_sub(&z->isolated, run->frames - back);
}
