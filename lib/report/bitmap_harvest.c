#include <errno.h>

#include "report/bitmap_origin.h"

#define DEFAULT_WORK 65536u

/* one harvest under way */
struct harvest {
	struct ph_bitmap_origin *origin;
	const struct pagehint_harvest *ask;
	struct pagehint_run *runs;
	struct pagehint_harvested out;
	struct pagehint_run open; /* adjacent blocks that are ready; frames 0 = none */
	uint64_t work;            /* words that may still be looked at */
	int below_threshold;
	int full; /* no room for more runs or frames */
};

/* the bits of all blocks of order o that start at the bits of v */
static uint64_t spread(uint64_t v, unsigned o)
{
	for (unsigned i = 0; i < o; i++)
		v |= v << (1u << i);
	return v;
}

struct ph_bitmap_view ph_bitmap_view_word(const struct pagehint_bitmap *b, uint64_t slot, unsigned word, uint64_t mask,
					  uint32_t order)
{
	struct ph_bitmap_marks *marks = &ph_bitmap_marks(b, slot)[word];
	struct ph_bitmap_view view;
	view.free = atomic_load(&ph_bitmap_words(b, slot)[word]) & mask;
	uint64_t reported = atomic_load(&marks->reported) & view.free;
	uint64_t old = (atomic_load(&marks->looked) & view.free) | reported;
	view.whole = spread(ph_runs(view.free, order), order);
	view.old = spread(ph_runs(old, order), order);
	view.reported = spread(ph_runs(reported, order), order);
	return view;
}

/* The view of a block of several words: each set is full or empty. */
static struct ph_bitmap_view view_block(const struct pagehint_bitmap *b, uint64_t slot, unsigned word, unsigned words)
{
	struct ph_bitmap_view all = { PH_FULL, PH_FULL, PH_FULL, PH_FULL };
	for (unsigned i = 0; i < words && all.free != 0; i++) {
		struct ph_bitmap_view one = ph_bitmap_view_word(b, slot, word + i, PH_FULL, 6);
		all.free &= one.whole;
		all.old &= one.old;
		all.reported &= one.reported;
	}
	all.whole = all.free;
	return all;
}

/*
 * What the embedder handed out and freed again between the take and isolate is set, though now it is the reporter's: it must
 * not look free until it is released.
 */
static void unset(struct pagehint_bitmap *b, const struct pagehint_run *run)
{
	uint64_t end = run->frame + run->frames;
	if (ph_bitmap_find_set(b, run->frame, end) == end)
		return;
	int rc = pagehint_bitmap_clear(b, run->frame, run->frames, NULL);
	(void)rc; /* fails only when the section has gone, and the bits with it */
}

/* Takes what is ready, as far as it still is, and asks the allocator for it. What it refuses is dropped. */
static void flush(struct harvest *h)
{
	struct ph_bitmap_origin *o = h->origin;
	uint64_t block = UINT64_C(1) << h->ask->order;
	uint64_t at = h->open.frame, end = at + h->open.frames;
	uint32_t flags = PH_TAKE_REPORT | (h->ask->flags & PAGEHINT_HARVEST_NOW ? 0 : PH_TAKE_AGED);
	struct pagehint_run run;
	h->open.frames = 0;
	while (h->out.runs < h->ask->max_runs && at < end &&
	       ph_bitmap_take(o->bitmap, at, end, block, end - at, block, flags, &run) == 0) {
		at = run.frame + run.frames;
		if (o->opts.isolate(o->opts.ctx, &run) == 0) {
			unset(o->bitmap, &run);
			h->runs[h->out.runs++] = run;
			h->out.frames += run.frames;
		} else {
			o->dropped_runs++;
			o->dropped_frames += run.frames;
		}
	}
}

/* This harvest takes nothing, it only looks. */
static int only_looks(const struct harvest *h)
{
	return h->below_threshold || (h->ask->flags & PAGEHINT_HARVEST_PEEK) != 0;
}

/* n frames of blocks that are ready, in address order; returns for how many of them there is room. */
static uint64_t accept(struct harvest *h, uint64_t frame, uint64_t n)
{
	if (h->ask->flags & PAGEHINT_HARVEST_PEEK) {
		h->out.frames += n;
		return n;
	}
	if (h->below_threshold) {
		h->out.young += n;
		return n;
	}
	if (h->open.frames != 0 && h->open.frame + h->open.frames != frame)
		flush(h);
	uint64_t room = h->ask->max_frames - h->out.frames;
	room = room > h->open.frames ? room - h->open.frames : 0;
	room = ph_round_down(room, UINT64_C(1) << h->ask->order);
	if (h->out.runs == h->ask->max_runs)
		room = 0;
	if (room < n) {
		h->full = 1;
		n = room;
	}
	if (h->open.frames == 0)
		h->open.frame = frame;
	h->open.frames += n;
	return n;
}

static uint64_t ready(const struct harvest *h, const struct ph_bitmap_view *view)
{
	uint64_t fresh = view->whole & ~view->reported;
	return h->ask->flags & PAGEHINT_HARVEST_NOW ? fresh : fresh & view->old;
}

/* Blocks inside one word: [from, to) lies in it. Returns up to where it looked. */
static uint64_t look_word(struct harvest *h, uint64_t slot, uint64_t from, uint64_t to)
{
	const struct pagehint_bitmap *b = h->origin->bitmap;
	unsigned word = ph_bitmap_word_of(from);
	uint64_t base = from - from % 64;
	struct ph_bitmap_view view = ph_bitmap_view_word(b, slot, word, ph_bitmap_mask(from, to), h->ask->order);
	uint64_t take = ready(h, &view);
	for (uint64_t rest = take; rest != 0 && !h->full;) {
		unsigned first = ph_ctz(rest), n = ph_run_length(rest, first);
		uint64_t got = accept(h, base + first, n);
		if (got < n)
			to = base + first + got;
		rest &= ~ph_mask(first, n);
	}
	if (to > from) {
		uint64_t looked = ph_bitmap_mask(from, to);
		h->out.young += ph_popcount(view.whole & ~view.reported & ~take & looked);
		/* What is going to be taken gets no new mark: if it is touched before that, it must not seem old. */
		ph_bitmap_look(b, slot, word, only_looks(h) ? looked : looked & ~take);
	}
	h->work--;
	return to;
}

/* A block of several words, or the part [from, to) of one that the harvest sees. Returns up to where it looked. */
static uint64_t look_block(struct harvest *h, uint64_t slot, uint64_t from, uint64_t to)
{
	const struct pagehint_bitmap *b = h->origin->bitmap;
	uint64_t block = UINT64_C(1) << h->ask->order;
	if (to - from == block) {
		unsigned word = ph_bitmap_word_of(from);
		struct ph_bitmap_view view = view_block(b, slot, word, (unsigned)(block / 64));
		uint64_t take = ready(h, &view);
		if (take != 0 && accept(h, from, block) == 0)
			return from;
		if (take != 0 && !only_looks(h)) { /* no new mark, as in look_word */
			h->work -= h->work < block / 64 ? h->work : block / 64;
			return to;
		}
		if (take == 0 && (view.whole & ~view.reported) != 0)
			h->out.young += block;
	}
	for (uint64_t bit = from, next; bit < to; bit = next) {
		next = ph_bitmap_next(bit, 64, to);
		ph_bitmap_look(b, slot, ph_bitmap_word_of(bit), ph_bitmap_mask(bit, next));
		h->work -= h->work != 0;
	}
	return to;
}

/* [from, to) lies in one section that is present. Returns up to where it looked. */
static uint64_t look_section(struct harvest *h, uint64_t slot, uint64_t from, uint64_t to)
{
	uint64_t block = UINT64_C(1) << h->ask->order;
	uint64_t bit = from;
	while (bit < to && h->work != 0 && !h->full) {
		uint64_t next = ph_bitmap_next(bit, block < 64 ? 64 : block, to);
		bit = block <= 64 ? look_word(h, slot, bit, next) : look_block(h, slot, bit, next);
	}
	return bit;
}

static uint64_t look(struct harvest *h, uint64_t from, uint64_t to)
{
	const struct pagehint_bitmap *b = h->origin->bitmap;
	uint64_t bit = from;
	while (bit < to && h->work != 0 && !h->full) {
		uint64_t section = bit / PH_SECTION_BITS, slot = ph_bitmap_slot(b, section);
		uint64_t next = ph_bitmap_next(bit, PH_SECTION_BITS, to);
		if (slot != PH_NO_SLOT && atomic_load(&ph_bitmap_head(b, slot)->set) != 0) {
			bit = look_section(h, slot, bit, next);
			continue;
		}
		h->work--;
		if (slot == PH_NO_SLOT) {
			next = ph_bitmap_present(b, section) * PH_SECTION_BITS;
			next = next < to ? next : to;
		}
		bit = next > bit ? next : bit;
	}
	return bit;
}

int ph_bitmap_origin_harvest(void *ctx, const struct pagehint_harvest *ask, struct pagehint_run *runs,
			     struct pagehint_harvested *ret)
{
	struct ph_bitmap_origin *o = ctx;
	if (ask->from > ask->to || ask->order > PH_BITMAP_ORIGIN_MAX_ORDER || ask->order < o->opts.min_order)
		return -EINVAL;
	struct harvest h = { .origin = o, .ask = ask, .runs = runs };
	h.work = ask->max_work == 0 ? DEFAULT_WORK : ask->max_work;
	h.below_threshold = pagehint_bitmap_count(o->bitmap) < o->opts.threshold;
	uint64_t to = ask->to < o->bitmap->span ? ask->to : o->bitmap->span;
	uint64_t next = look(&h, ask->from, to);
	if (h.open.frames != 0)
		flush(&h);
	h.out.next = next < to ? next : ask->to;
	*ret = h.out;
	return 0;
}
