/*
 * zone_frames: a zone as the place where a balloon's frames come from.
 *
 * The problem: an allocator hands out the block that fits best, a balloon wants the block whose loss gains the host most.
 * Why this shape: a zone knows which granules are whole, and which of those hold no memory (reported or fresh); so granules
 * are reserved by name, and only pieces are left to the allocator, asked for in exactly the orders that lie about, so that
 * it breaks nothing larger.
 * Not here: what the frames are given to. Called from: the driver engine, through the table of pagehint/driver.h.
 */
#include <errno.h>
#include <string.h>

#include <pagehint/driver.h>
#include <pagehint/zone.h>

#include "alloc/harvest.h"
#include "base/bits.h"

#define LOOK_WORDS 64u /* granules are looked at in windows of so many words */
#define WINDOW (UINT64_C(64) * LOOK_WORDS)
#define PIECE_ORDER 4u      /* 64 KiB of 4 KiB frames: below that a fresh granule is the smaller loss */
#define PIECES_EVERY 64u    /* takes between two looks for pieces, while there are none */
#define WINDOWS_A_TAKE 256u /* a bound on one call; the cursor remembers */

struct order_of {
	struct pagehint_zone *zone;
	uint64_t left; /* frames still wanted */
	struct pagehint_run *runs;
	uint32_t max;
	uint32_t n;
};

static int is_full(const struct order_of *o)
{
	return o->left == 0 || o->n == o->max;
}

static void append(struct order_of *o, uint64_t frame, uint64_t frames)
{
	if (o->n != 0 && o->runs[o->n - 1].frame + o->runs[o->n - 1].frames == frame)
		o->runs[o->n - 1].frames += frames;
	else
		o->runs[o->n++] = (struct pagehint_run) { frame, frames };
	o->left -= frames;
}

/* Reserves `frames` of each granule of one window whose bit is set, as long as so many are wanted. */
static void take_window(struct order_of *o, const uint64_t *bits, uint64_t first, uint64_t frames)
{
	uint32_t order = pagehint_zone_granule_order(o->zone);
	for (uint32_t i = 0; i < LOOK_WORDS; i++)
		for (uint64_t word = bits[i]; word != 0 && o->left >= frames && !is_full(o); word &= word - 1) {
			uint64_t granule = first + 64 * (uint64_t)i + ph_ctz(word);
			/* somebody may have been quicker */
			if (pagehint_zone_reserve(o->zone, granule << order, frames, NULL) == 0)
				append(o, granule << order, frames);
		}
}

/*
 * Whole granules from the cursor on, and once round, `frames` of each; `reported`: 0 those that hold memory, 1 those that do
 * not.
 */
static void take_granules(struct order_of *o, uint64_t *cursor, uint64_t frames, int reported)
{
	uint32_t order = pagehint_zone_granule_order(o->zone), is_round = 0;
	uint64_t start = ph_round_down(*cursor, WINDOW), at = start;
	for (uint32_t i = 0; i < WINDOWS_A_TAKE && o->left >= frames && !is_full(o); i++) {
		uint64_t whole[LOOK_WORDS], known[LOOK_WORDS];
		struct pagehint_run span;
		if (ph_harvest_next_span(o->zone, at << order, &span) < 0) {
			if (is_round)
				return;
			is_round = 1;
			at = 0;
			continue;
		}
		if (span.frame >> order > at)
			at = ph_round_down(span.frame >> order, WINDOW);
		if ((is_round && at >= start && start != 0) ||
		    pagehint_zone_granules(o->zone, PAGEHINT_GRANULES_WHOLE, at, WINDOW, whole, LOOK_WORDS) < 0 ||
		    pagehint_zone_granules(o->zone, PAGEHINT_GRANULES_REPORTED, at, WINDOW, known, LOOK_WORDS) < 0)
			return;
		for (uint32_t w = 0; w < LOOK_WORDS; w++)
			whole[w] &= reported ? known[w] : ~known[w];
		take_window(o, whole, at, frames);
		*cursor = at;
		at += WINDOW;
	}
}

/* Blocks of exactly the orders [least, below) that lie about, the largest first. Returns 0 when none does, of any order. */
static int take_pieces(struct order_of *o, uint32_t least, uint32_t below)
{
	uint64_t blocks[PAGEHINT_ORDER_MAX + 1], frame, seen = 0;
	if (is_full(o))
		return 1;
	pagehint_zone_free_orders(o->zone, blocks);
	for (uint32_t order = 0; order < below; order++)
		seen |= blocks[order];
	for (uint32_t order = below; order-- > least;)
		for (; blocks[order] != 0 && o->left >= UINT64_C(1) << order && !is_full(o); blocks[order]--) {
			if (pagehint_zone_alloc(o->zone, order, &frame) != 0)
				break;
			append(o, frame, UINT64_C(1) << order);
		}
	return seen != 0;
}

/* Frames that may go: all that are free but those to be left. */
static uint64_t spare(const struct pagehint_driver_zone *from)
{
	struct pagehint_zone_stats stats = { .struct_size = sizeof(stats) };
	if (pagehint_zone_stats(from->zone, &stats) < 0 || stats.free <= from->keep)
		return 0;
	return stats.free - from->keep;
}

/* Everything but the first choice; `pieces`: whether to look for any, which means a look at the whole zone. */
static void take_the_rest(struct order_of *o, struct pagehint_driver_zone *from, int pieces)
{
	uint32_t granule = pagehint_zone_granule_order(o->zone);
	uint64_t whole = UINT64_C(1) << granule;
	if (pieces && !take_pieces(o, PIECE_ORDER < granule ? PIECE_ORDER : granule, granule)) {
		from->pause = PIECES_EVERY;
		pieces = 0;
	}
	if (o->left < whole)
		take_granules(o, &from->cursor, o->left, 0);
	take_granules(o, &from->cursor, whole, 1);
	if (pieces)
		(void)take_pieces(o, 0, granule);
	if (o->left < whole)
		take_granules(o, &from->cursor, o->left, 1);
}

static int take(void *ctx, uint32_t what_for, uint64_t frames, struct pagehint_run *runs, uint32_t max, uint32_t *ret_n)
{
	struct pagehint_driver_zone *from = ctx;
	uint64_t most = spare(from);
	struct order_of o = { .zone = from->zone, .left = frames < most ? frames : most, .runs = runs, .max = max };
	take_granules(&o, &from->cursor, UINT64_C(1) << pagehint_zone_granule_order(from->zone), 0);
	if (what_for == PAGEHINT_DRIVER_FOR_BALLOON) {
		int pieces = from->pause == 0;
		from->pause -= !pieces;
		take_the_rest(&o, from, pieces);
		if (o.n == 0 && !pieces)
			take_the_rest(&o, from, 1); /* before it is said that there is nothing */
	}
	if (o.n == 0)
		return most == 0 && pagehint_zone_hidden(from->zone) != 0 ? -EAGAIN : -ENOSPC;
	*ret_n = o.n;
	return 0;
}

static void give(void *ctx, uint32_t what_for, const struct pagehint_run *runs, uint32_t n)
{
	struct pagehint_driver_zone *from = ctx;
	uint32_t done = 0;
	(void)what_for;
	/* another thread may be inside the same block for a moment; any other refusal is impossible: the runs are ours */
	while (pagehint_zone_free_runs(from->zone, runs, n, &done) == -EAGAIN) {
		runs += done;
		n -= done;
	}
}

int pagehint_driver_zone_ops(struct pagehint_driver_ops *ret_ops)
{
	if (ret_ops == NULL)
		return -EINVAL;
	memset(ret_ops, 0, sizeof(*ret_ops));
	ret_ops->struct_size = sizeof(*ret_ops);
	ret_ops->take = take;
	ret_ops->give = give;
	return 0;
}
