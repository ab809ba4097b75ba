/*
 * take: runs of set bits that go to exactly one taker.
 *
 * The problem: a run spans many words, a word is the most that changes at once, and a taker that got half a run and then
 * finds a hole must not set bits again that somebody has cleared meanwhile (the embedder handed the frames out; a bit set
 * again would call used memory free). Why this shape: a taker first tries: it enters the bits in `tried`, then sees that they
 * are set. Only when the run is long enough it clears them in `words`. A try that fails only leaves `tried`.
 * Invariant: a bit is handed out by the taker that holds it in `tried`; it stays there until it is clear in `words`.
 */
#include <errno.h>

#include "bitmap/state.h"

struct want {
	uint64_t to;
	uint64_t least; /* multiples of align */
	uint64_t most;
	uint64_t align;
	uint32_t flags;
};

/* Takes [first, end) out of `tried`. */
static void untry(struct pagehint_bitmap *b, uint64_t first, uint64_t end)
{
	for (uint64_t bit = first, next; bit < end; bit = next) {
		uint64_t slot = ph_bitmap_slot(b, bit / PH_SECTION_BITS);
		next = ph_bitmap_next(bit, 64, end);
		if (slot != PH_NO_SLOT)
			atomic_fetch_and(&ph_bitmap_tried(b, slot)[ph_bitmap_word_of(bit)], ~ph_bitmap_mask(bit, next));
	}
}

/* Tries the bits of a mask in one word; returns those that cannot be had. None of them is in `tried` because of us. */
static uint64_t try_word(struct pagehint_bitmap *b, uint64_t slot, unsigned word, uint64_t mask, uint32_t flags)
{
	_Atomic uint64_t *tried = &ph_bitmap_tried(b, slot)[word];
	uint64_t others = atomic_fetch_or(tried, mask) & mask;
	uint64_t good = atomic_load(&ph_bitmap_words(b, slot)[word]);
	if ((flags & PH_TAKE_AGED) != 0) {
		/* Bits first, marks second: a bit that was cleared and set again has lost its mark before it was set. */
		struct ph_bitmap_marks *marks = &ph_bitmap_marks(b, slot)[word];
		good &= atomic_load(&marks->looked) | atomic_load(&marks->reported);
	}
	uint64_t bad = (mask & ~good) | others;
	if (bad != 0)
		atomic_fetch_and(tried, ~(bad & ~others));
	return bad;
}

/*
 * Tries [first, end) from its start on; returns where the adjacent bits end that are held in `tried` now, and in *ret_resume
 * where a search may go on.
 */
static uint64_t try_run(struct pagehint_bitmap *b, uint64_t first, uint64_t end, uint32_t flags, uint64_t *ret_resume)
{
	for (uint64_t bit = first, next; bit < end; bit = next) {
		uint64_t slot = ph_bitmap_slot(b, bit / PH_SECTION_BITS);
		next = ph_bitmap_next(bit, 64, end);
		if (slot == PH_NO_SLOT) {
			*ret_resume = next;
			return bit;
		}
		uint64_t mask = ph_bitmap_mask(bit, next);
		uint64_t bad = try_word(b, slot, ph_bitmap_word_of(bit), mask, flags);
		if (bad == 0)
			continue;
		unsigned hole = ph_ctz(bad);
		uint64_t beyond = mask & ~bad & ~ph_low_mask(hole);
		if (beyond != 0)
			atomic_fetch_and(&ph_bitmap_tried(b, slot)[ph_bitmap_word_of(bit)], ~beyond);
		*ret_resume = bit - bit % 64 + hole + ph_run_length(bad, hole);
		return bit - bit % 64 + hole;
	}
	*ret_resume = end;
	return end;
}

/* Clears bits that are held in `tried`, then lets go of them. [first, end) lies in one section. */
static uint64_t commit_part(struct pagehint_bitmap *b, uint64_t slot, uint64_t first, uint64_t end, uint32_t flags)
{
	struct ph_bitmap_head *head = ph_bitmap_head(b, slot);
	int watched = atomic_load(&b->watched) != 0;
	uint64_t cleared = 0;
	for (uint64_t bit = first, next; bit < end; bit = next) {
		next = ph_bitmap_next(bit, 64, end);
		unsigned word = ph_bitmap_word_of(bit);
		uint64_t mask = ph_bitmap_mask(bit, next);
		uint64_t old = atomic_fetch_and(&ph_bitmap_words(b, slot)[word], ~mask) & mask;
		cleared += ph_popcount(old);
		if (old != mask) /* a clear came between; it must learn that these bits are ours (see clear_word) */
			atomic_fetch_add(&head->races, 1);
		if (watched)
			ph_bitmap_unmark(b, &ph_bitmap_marks(b, slot)[word], mask, flags);
		atomic_fetch_and(&ph_bitmap_tried(b, slot)[word], ~mask);
	}
	if (cleared != 0)
		atomic_fetch_sub(&head->set, cleared);
	return cleared;
}

static void commit(struct pagehint_bitmap *b, uint64_t first, uint64_t end, uint32_t flags)
{
	uint64_t cleared = 0;
	for (uint64_t bit = first, next; bit < end; bit = next) {
		uint64_t slot = ph_bitmap_slot(b, bit / PH_SECTION_BITS);
		next = ph_bitmap_next(bit, PH_SECTION_BITS, end);
		if (slot != PH_NO_SLOT)
			cleared += commit_part(b, slot, bit, next, flags);
	}
	if (cleared != 0)
		atomic_fetch_sub(&b->count, cleared);
}

/* One attempt at the first set bits from *pos on. 1: taken; 0: not here, *pos is further on. */
static int attempt(struct pagehint_bitmap *b, uint64_t *pos, const struct want *want, struct pagehint_run *ret_run)
{
	uint64_t set = ph_bitmap_find_set(b, *pos, want->to);
	uint64_t first = ph_round_up(set, want->align);
	if (first >= want->to || want->to - first < want->least) {
		*pos = want->to;
		return 0;
	}
	uint64_t limit = want->to - first < want->most ? want->to : first + want->most;
	uint64_t clear = ph_bitmap_find_clear(b, set, limit);
	if (clear < first || clear - first < want->least) {
		*pos = clear > *pos ? clear : *pos + 1;
		return 0;
	}
	uint64_t resume;
	uint64_t got = try_run(b, first, first + ph_round_down(clear - first, want->align), want->flags, &resume);
	uint64_t keep = ph_round_down(got - first, want->align);
	if (keep < want->least)
		keep = 0;
	untry(b, first + keep, got);
	*pos = resume;
	if (keep == 0)
		return 0;
	commit(b, first, first + keep, want->flags);
	ret_run->frame = first;
	ret_run->frames = keep;
	return 1;
}

int ph_bitmap_take(struct pagehint_bitmap *b, uint64_t from, uint64_t to, uint64_t least, uint64_t most, uint64_t align,
		   uint32_t flags, struct pagehint_run *ret_run)
{
	align = align == 0 ? 1 : align;
	if (from >= to || least > to || align > to)
		return -ENOENT;
	struct want want = { .to = to, .align = align, .flags = flags };
	want.least = ph_round_up(least, align);
	want.most = ph_round_down(most < to ? most : to, align);
	if (want.most < want.least)
		return -ENOENT;
	for (uint64_t pos = from; pos < to;)
		if (attempt(b, &pos, &want, ret_run))
			return 0;
	return -ENOENT;
}

int pagehint_bitmap_take_run(struct pagehint_bitmap *bitmap, uint64_t from, uint64_t to, uint64_t least, uint64_t most,
			     uint64_t align, struct pagehint_run *ret_run)
{
	if (least == 0 || most < least || from > to)
		return -EINVAL;
	return ph_bitmap_take(bitmap, from, to < bitmap->span ? to : bitmap->span, least, most, align, 0, ret_run);
}
