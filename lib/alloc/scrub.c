#include "alloc/scrub.h"

#include <errno.h>

#include "alloc/level.h"
#include "alloc/ops.h"
#include "base/opts.h"

#define STEP_WORDS 8192u

static ph_word *unclean_word(const struct pagehint_zone *z, uint32_t slot, uint32_t word)
{
	return &ph_zone_words(z, slot, z->at_unclean)[word];
}

/* Which frames of a word may hold old bytes? Of a zone that does not know: all. */
static uint64_t unclean_of(const struct pagehint_zone *z, uint32_t slot, uint32_t word)
{
	return z->at_unclean == 0 ? PH_FULL : atomic_load(unclean_word(z, slot, word));
}

void ph_scrub_set_unclean(struct pagehint_zone *z, uint32_t slot, uint32_t offset, uint32_t frames)
{
	for (uint32_t at = offset, end = offset + frames; at < end; at = (at | 63) + 1) {
		uint64_t mask = ph_mask(at % 64, (at | 63) + 1 < end ? 64 - at % 64 : end - at);
		ph_word *word = unclean_word(z, slot, at / 64);
		if ((atomic_load(word) & mask) != mask)
			atomic_fetch_or(word, mask);
	}
}

void ph_scrub_set_clean(struct pagehint_zone *z, uint32_t slot, uint32_t offset, uint32_t frames)
{
	if (z->at_unclean == 0)
		return;
	for (uint32_t at = offset, end = offset + frames; at < end; at = (at | 63) + 1) {
		uint64_t mask = ph_mask(at % 64, (at | 63) + 1 < end ? 64 - at % 64 : end - at);
		ph_word *word = unclean_word(z, slot, at / 64);
		if (atomic_load(word) & mask)
			atomic_fetch_and(word, ~mask);
	}
}

void ph_scrub_zeroed(struct pagehint_zone *z, const struct pagehint_run *run)
{
	PH_FOR_SECTIONS (part, run->frame, run->frames)
		ph_scrub_set_clean(z, (uint32_t)ph_zone_slot(z, part.frame), part.offset, part.frames);
}

/* The caller's scrubber, checked. */
static int read_scrubber(const struct pagehint_scrubber *from, struct pagehint_scrubber *to)
{
	int r = from == NULL ? -EINVAL : PH_OPTS_IN(*to, from);
	return r == 0 && to->zero == NULL ? -EINVAL : r;
}

static int zero(const struct pagehint_scrubber *s, uint64_t frame, uint64_t frames)
{
	int r = s->zero(s->ctx, frame, frames);
	return r > 0 ? -EINVAL : r; /* no error number */
}

/* How many frames from `at` on are all unclean (or all clean) as the first one is, up to `end`. */
static uint32_t alike(const struct pagehint_zone *z, uint32_t slot, uint32_t at, uint32_t end, int *ret_unclean)
{
	int first = (int)(unclean_of(z, slot, at / 64) >> (at % 64) & 1);
	uint32_t n = 0;
	while (at + n < end) {
		uint64_t v = unclean_of(z, slot, (at + n) / 64);
		uint32_t bit = (at + n) % 64, run = ph_run_length(first ? v : ~v, bit);
		n += run;
		if (run < 64 - bit)
			break;
	}
	*ret_unclean = first;
	return n < end - at ? n : end - at;
}

/* Zeroes what may hold old bytes of a range of one section, which is in nobody else's hands. */
static int make_clean(struct pagehint_zone *z, const struct pagehint_scrubber *s, uint32_t slot,
		      const struct ph_part *part)
{
	uint32_t end = part->offset + part->frames;
	for (uint32_t at = part->offset, n; at < end; at += n) {
		int unclean;
		n = alike(z, slot, at, end, &unclean);
		if (!unclean) {
			atomic_fetch_add_explicit(&z->spared, n, memory_order_relaxed);
			continue;
		}
		int r = zero(s, part->frame + (at - part->offset), n);
		if (r < 0)
			return r;
		ph_scrub_set_clean(z, slot, at, n);
		atomic_fetch_add_explicit(&z->zeroed, n, memory_order_relaxed);
	}
	return 0;
}

static int make_run_clean(struct pagehint_zone *z, const struct pagehint_scrubber *s, uint64_t frame, uint64_t frames)
{
	int r = 0;
	PH_FOR_SECTIONS (part, frame, frames) {
		int64_t slot = ph_zone_slot(z, part.frame);
		if (r == 0)
			r = slot < 0 ? -ERANGE : make_clean(z, s, (uint32_t)slot, &part);
	}
	return r;
}

int pagehint_scrub_alloc(struct pagehint_zone *zone, uint32_t order, uint32_t flags,
			 const struct pagehint_scrubber *scrubber, uint64_t *ret_frame)
{
	struct pagehint_scrubber s;
	uint64_t frame;
	if (flags & ~PAGEHINT_ALLOC_ZERO)
		return -EINVAL;
	int r = flags & PAGEHINT_ALLOC_ZERO ? read_scrubber(scrubber, &s) : 0;
	if (r == 0)
		r = pagehint_zone_alloc(zone, order, &frame);
	if (r != 0)
		return r;
	if (flags & PAGEHINT_ALLOC_ZERO)
		r = make_run_clean(zone, &s, frame, UINT64_C(1) << order);
	if (r < 0)
		pagehint_zone_free(zone, frame, order);
	else
		*ret_frame = frame;
	return r;
}

int pagehint_scrub_runs(struct pagehint_zone *zone, const struct pagehint_scrubber *scrubber,
			const struct pagehint_run *runs, uint32_t n)
{
	struct pagehint_scrubber s;
	int r = read_scrubber(scrubber, &s);
	for (uint32_t i = 0; r == 0 && i < n; i++)
		r = ph_zone_check_range(zone, runs[i].frame, runs[i].frames);
	for (uint32_t i = 0; r == 0 && i < n; i++)
		r = make_run_clean(zone, &s, runs[i].frame, runs[i].frames);
	return r;
}

/* ---- the background ---- */

/* Up to `n` free frames of a word that are unclean, the lowest first. A look, not a promise. */
static uint64_t worth_scrubbing(const struct pagehint_zone *z, uint32_t slot, uint32_t word, uint64_t range, uint64_t n)
{
	uint64_t v = unclean_of(z, slot, word) & range, out = 0;
	if (v != 0 && !ph_level_covered(z, slot, 0, word))
		v &= atomic_load(ph_zone_level_word(z, slot, 0, word));
	for (; v != 0 && n != 0; v &= v - 1, n--)
		out |= v & -v;
	return out;
}

/* Isolates frames of a word. Others may remove the section meanwhile, and give its slot to another one: then 0. */
static int isolate(struct pagehint_zone *z, uint32_t slot, uint64_t base, uint32_t word, uint64_t mask)
{
	int got = 0;
	atomic_fetch_add(&z->holding, 1);
	if (ph_level_claim(z, slot, 0, word, mask)) {
		got = ph_zone_base(z, slot) == base;
		if (got)
			atomic_fetch_add(&z->isolated, ph_popcount(mask));
		else
			ph_level_put(z, slot, 0, word, mask);
	}
	atomic_fetch_sub(&z->holding, 1);
	return got;
}

/* Scrubs frames of one word; *ret_frames grows by what was zeroed. */
static int scrub_word(struct pagehint_zone *z, const struct pagehint_scrubber *s, uint32_t slot, uint64_t base,
		      uint32_t word, uint64_t mask, uint64_t *ret_frames)
{
	if (!isolate(z, slot, base, word, mask))
		return 0; /* somebody took of it since we looked: it is in use */
	int r = 0;
	/* what is unclean of frames that we hold does not change */
	for (uint64_t v = mask & unclean_of(z, slot, word); v != 0 && r == 0;) {
		uint32_t first = ph_ctz(v), n = ph_run_length(v, first);
		r = zero(s, base + word * UINT64_C(64) + first, n);
		v &= ~ph_mask(first, n);
		if (r < 0)
			continue;
		ph_scrub_set_clean(z, slot, word * 64 + first, n);
		atomic_fetch_add_explicit(&z->scrubbed, n, memory_order_relaxed);
		*ret_frames += n;
	}
	/* into the tree before it leaves the account, as in ph_harvest_release */
	ph_level_put(z, slot, 0, word, mask);
	atomic_fetch_sub(&z->isolated, ph_popcount(mask));
	return r;
}

struct step {
	const struct pagehint_scrubber *s;
	uint64_t max_frames, frames; /* zeroed so far */
	uint32_t words;              /* that may still be looked at */
};

/* One section's part. Returns 0 or what `zero` said; *ret_next (section offset): where it stopped, the end if it did not. */
static int scrub_part(struct pagehint_zone *z, struct step *step, uint32_t slot, const struct ph_part *part,
		      uint32_t *ret_next)
{
	uint64_t base = part->frame - part->offset;
	uint32_t end = part->offset + part->frames, at = part->offset;
	int r = 0;
	while (at < end && r == 0 && step->words != 0 && step->frames < step->max_frames) {
		uint32_t stop = (at | 63) + 1 < end ? (at | 63) + 1 : end;
		uint64_t mask =
			worth_scrubbing(z, slot, at / 64, ph_mask(at % 64, stop - at), step->max_frames - step->frames);
		step->words--;
		if (mask != 0)
			r = scrub_word(z, step->s, slot, base, at / 64, mask, &step->frames);
		/* a word of which the budget left something is begun again behind that */
		at = mask != 0 && step->frames == step->max_frames ? at / 64 * 64 + 64 - (uint32_t)__builtin_clzll(mask)
								   : stop;
	}
	*ret_next = at;
	return r;
}

int pagehint_scrub_step(struct pagehint_zone *zone, const struct pagehint_scrubber *scrubber, uint64_t max_frames,
			uint64_t *cursor, uint64_t *ret_frames)
{
	struct pagehint_scrubber s;
	int r = read_scrubber(scrubber, &s);
	if (r == 0 && (max_frames == 0 || zone->at_unclean == 0))
		r = -EINVAL;
	if (r < 0)
		return r;
	struct step step = { &s, max_frames, 0, STEP_WORDS };
	uint64_t end = zone->span_sections << PH_SECTION_SHIFT, from = *cursor < end ? *cursor : 0, next = 0;
	PH_FOR_SECTIONS (part, from, end - from) {
		int64_t slot = ph_zone_slot(zone, part.frame);
		uint32_t stopped = part.offset + part.frames;
		if (slot >= 0)
			r = scrub_part(zone, &step, (uint32_t)slot, &part, &stopped);
		else
			step.words--;
		next = part.frame - part.offset + stopped;
		if (r < 0 || step.words == 0 || step.frames == max_frames)
			break;
	}
	*cursor = next < end ? next : 0;
	*ret_frames = step.frames;
	return r;
}

int pagehint_scrub_stats(const struct pagehint_zone *zone, struct pagehint_scrub_stats *stats)
{
	struct pagehint_scrub_stats s = {
		.scrubbed = atomic_load(&zone->scrubbed),
		.zeroed = atomic_load(&zone->zeroed),
		.spared = atomic_load(&zone->spared),
	};
	uint32_t slots = (uint32_t)atomic_load(&zone->used_slots);
	for (uint32_t slot = 0; slot < slots; slot++) {
		for (uint32_t w = 0; w < PH_L0_WORDS; w++) {
			uint64_t v = ph_level_covered(zone, slot, 0, w)
					     ? PH_FULL
					     : atomic_load(ph_zone_level_word(zone, slot, 0, w));
			uint64_t unclean = v == 0 ? 0 : unclean_of(zone, slot, w);
			s.unclean += ph_popcount(v & unclean);
			s.clean += ph_popcount(v & ~unclean);
		}
	}
	return PH_OPTS_OUT(stats, s);
}
