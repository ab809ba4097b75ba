/*
 * bitmaps: threads that take runs of set bits out of one bitmap and put them back, while a section of it comes and goes. Whose
 * a bit is stands beside the bitmap: never two have one, none is lost.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include <pagehint/bitmap.h>

#include "soak.h"

#define SECTION UINT64_C(32768)
#define SPAN (3 * SECTION)
#define HELD 32u
#define TAKERS 2u
#define PART "bitmap"

static struct {
	struct pagehint_bitmap *bitmap;
	_Atomic unsigned char owner[SPAN];
	_Atomic uint64_t out; /* bits that takers have */
	uint64_t present;
	int is_there; /* the last section */
	struct taker_of_bits {
		struct pagehint_run held[HELD];
		uint32_t n;
	} takers[TAKERS];
} b;

static void give(struct taker_of_bits *t, uint32_t i)
{
	struct pagehint_run run = t->held[i];
	uint64_t was = 1;
	t->held[i] = t->held[--t->n];
	for (uint64_t k = run.frame; k < run.frame + run.frames; k++)
		(void)SOAK_MUST(PART, atomic_exchange(&b.owner[k], 0) == 1);
	(void)SOAK_MUST(PART, pagehint_bitmap_set(b.bitmap, run.frame, run.frames, &was) == 0 && was == 0);
	atomic_fetch_sub(&b.out, run.frames);
}

static int take(struct taker_of_bits *t, uint64_t *chance)
{
	struct pagehint_run run;
	uint64_t from = soak_below(chance, 2 * SECTION), align = UINT64_C(1) << soak_below(chance, 8);
	uint64_t most = align * (1 + soak_below(chance, 8));
	int r = pagehint_bitmap_take_run(b.bitmap, from, 2 * SECTION, align, most, align, &run);
	if (r != 0)
		return r == -ENOENT ? 0 : soak_bad(PART, "a run was refused with %d", r);
	(void)SOAK_MUST(PART, run.frame % align == 0 && run.frames >= align && run.frames <= most);
	for (uint64_t k = run.frame; k < run.frame + run.frames; k++)
		(void)SOAK_MUST(PART, atomic_exchange(&b.owner[k], 1) == 0);
	atomic_fetch_add(&b.out, run.frames);
	t->held[t->n++] = run;
	return 1;
}

static int turn(void *ctx, struct soak_member *m)
{
	struct taker_of_bits *t = ctx;
	if (t->n < HELD && soak_below(&m->chance, 2) == 0)
		return take(t, &m->chance);
	if (t->n == 0)
		return 0;
	give(t, (uint32_t)soak_below(&m->chance, t->n));
	return 1;
}

/* The last section is this thread's alone: it comes, some bits are set and taken, it goes. */
static int plug_turn(void *ctx, struct soak_member *m)
{
	uint64_t was = 0, first = 2 * SECTION + soak_below(&m->chance, SECTION / 2),
		 n = 1 + soak_below(&m->chance, 4000);
	(void)ctx;
	if (b.is_there) {
		(void)SOAK_MUST(PART, pagehint_bitmap_remove(b.bitmap, 2 * SECTION, SECTION) == 0);
	} else {
		(void)SOAK_MUST(PART, pagehint_bitmap_add(b.bitmap, 2 * SECTION, SECTION) == 0);
		(void)SOAK_MUST(PART, pagehint_bitmap_set(b.bitmap, first, n, &was) == 0 && was == 0);
		(void)SOAK_MUST(PART, pagehint_bitmap_clear(b.bitmap, first, n, &was) == 0 && was == n);
	}
	b.is_there = !b.is_there;
	return 1;
}

static void walk(void *ctx)
{
	static uint64_t words[SPAN / 64];
	uint64_t set = 0;
	(void)ctx;
	(void)SOAK_MUST(PART, pagehint_bitmap_export(b.bitmap, 0, SPAN, words, SPAN / 64) == 0);
	for (uint64_t i = 0; i < SPAN; i++) {
		uint64_t bit = words[i / 64] >> (i % 64) & 1;
		set += bit;
		if (i < 2 * SECTION && bit == atomic_load(&b.owner[i]))
			(void)soak_bad(PART, "bit %" PRIu64 " is %s", i, bit ? "set, and somebody has it" : "lost");
	}
	(void)SOAK_MUST(PART, set == pagehint_bitmap_count(b.bitmap));
	(void)SOAK_MUST(PART, set + atomic_load(&b.out) == 2 * SECTION);
}

static void close_bitmap(void *ctx)
{
	for (uint32_t i = 0; i < TAKERS; i++)
		while (b.takers[i].n != 0)
			give(&b.takers[i], 0);
	walk(ctx);
	(void)SOAK_MUST(PART, pagehint_bitmap_count(b.bitmap) == 2 * SECTION);
	pagehint_bitmap_free(b.bitmap);
}

int soak_bitmap_open(struct soak_part *ret)
{
	struct pagehint_bitmap_opts opts = { .struct_size = sizeof(opts), .span = SPAN };
	uint64_t was;
	memset(&b, 0, sizeof(b));
	int r = pagehint_bitmap_new(&opts, &b.bitmap);
	if (r == 0)
		r = pagehint_bitmap_add(b.bitmap, 0, 2 * SECTION);
	if (r == 0)
		r = pagehint_bitmap_set(b.bitmap, 0, 2 * SECTION, &was);
	for (uint32_t i = 0; i < TAKERS && r == 0; i++)
		r = soak_member_add("bits", SOAK_WORKER, turn, &b.takers[i]) == NULL ? -ENOSPC : 0;
	if (r == 0)
		r = soak_member_add("bit sections", SOAK_WORKER, plug_turn, NULL) == NULL ? -ENOSPC : 0;
	*ret = (struct soak_part) { .name = PART, .walk = walk, .close = close_bitmap };
	return r;
}
