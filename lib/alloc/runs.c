/*
 * runs: ranges of frames that are not one block: as few runs as possible, adjacent frames of any number, certain frames, and
 * freeing any of them in any parts.
 */
#include <errno.h>

#include "alloc/level.h"
#include "alloc/ops.h"
#include "alloc/scrub.h"
#include "alloc/sets.h"
#include "alloc/track.h"

int ph_zone_check_range(const struct pagehint_zone *z, uint64_t frame, uint64_t frames)
{
	if (frames == 0 || !ph_sum_fits(frame, frames))
		return -EINVAL;
	if (frame + frames > z->span_sections << PH_SECTION_SHIFT)
		return -ERANGE;
	PH_FOR_SECTIONS (part, frame, frames) {
		int64_t slot = ph_zone_slot(z, part.frame);
		if (slot < 0)
			return -ERANGE;
		uint32_t end = part.offset + part.frames;
		for (uint32_t at = part.offset; at < end; at = (at | (PH_PRESENT_FRAMES - 1)) + 1)
			if (!ph_zone_is_present(z, (uint32_t)slot, at))
				return -ERANGE;
	}
	return 0;
}

void ph_zone_put_range(struct pagehint_zone *z, uint64_t frame, uint64_t frames)
{
	PH_FOR_SECTIONS (part, frame, frames)
		ph_level_put_range(z, (uint32_t)ph_zone_slot(z, part.frame), part.offset, part.frames);
}

/*
 * Others remove sections meanwhile, and give their slots to new ones: only once its frames are claimed is the section certain
 * to stay, and to be the one that was meant.
 */
static int claim_part(struct pagehint_zone *z, const struct ph_part *part, uint32_t *ret_stuck)
{
	int64_t slot = ph_zone_slot(z, part->frame);
	if (slot < 0 || ph_level_claim_range(z, (uint32_t)slot, part->offset, part->frames, ret_stuck) < 0)
		return 0;
	if (ph_zone_base(z, (uint32_t)slot) + part->offset == part->frame)
		return 1;
	ph_level_put_range(z, (uint32_t)slot, part->offset, part->frames);
	return 0;
}

int ph_zone_claim_range(struct pagehint_zone *z, uint64_t frame, uint64_t frames, uint64_t *ret_stuck)
{
	int r = 0;
	/* others must not take for gone what we may give back */
	atomic_fetch_add(&z->holding, 1);
	PH_FOR_SECTIONS (part, frame, frames) {
		uint32_t stuck = part.offset;
		if (claim_part(z, &part, &stuck))
			continue;
		if (part.frame != frame)
			ph_zone_put_range(z, frame, part.frame - frame);
		*ret_stuck = part.frame - part.offset + stuck;
		r = -EBUSY;
		break;
	}
	atomic_fetch_sub(&z->holding, 1);
	return r;
}

void ph_zone_hand_out_range(struct pagehint_zone *z, uint64_t frame, uint64_t frames)
{
	PH_FOR_SECTIONS (part, frame, frames) {
		uint32_t slot = (uint32_t)ph_zone_slot(z, part.frame);
		ph_sets_handed_range(z, slot, part.offset, part.frames);
		if (ph_zone_is_tracked(z))
			ph_track_out_range(z, slot, part.offset, part.frames);
	}
}

/* Adds a block to the runs, joined to a neighbour where there is one. Returns 0 when there is no room. */
static int append(struct pagehint_run *runs, uint32_t max_runs, uint32_t *n, uint64_t frame, uint64_t frames)
{
	for (uint32_t i = *n; i-- > 0 && *n - i <= 2;) {
		if (runs[i].frame + runs[i].frames == frame) {
			runs[i].frames += frames;
			return 1;
		}
		if (frame + frames == runs[i].frame) {
			runs[i].frame = frame;
			runs[i].frames += frames;
			return 1;
		}
	}
	if (*n == max_runs)
		return 0;
	runs[(*n)++] = (struct pagehint_run) { frame, frames };
	return 1;
}

/* Takes `frames` in runs, or nothing. Returns 0, -ENOSPC too little is free, 1 when they do not fit max_runs. */
static int take_in_runs(struct pagehint_zone *z, uint64_t frames, struct pagehint_run *runs, uint32_t max_runs,
			uint32_t *ret_n)
{
	uint64_t left = frames;
	uint32_t n = 0, order = ph_order_fitting(0, frames);
	int r = 0;
	/* others must not take for gone what we may give back */
	atomic_fetch_add(&z->holding, 1);
	while (left != 0 && r == 0) {
		struct ph_place p;
		uint64_t mask;
		while (UINT64_C(1) << order > left)
			order--;
		r = ph_level_take(z, order, 1, &p, &mask);
		if (r < 0 && order > 0) {
			order--;
			r = 0;
			continue;
		}
		if (r < 0)
			break;
		if (append(runs, max_runs, &n, ph_zone_base(z, p.slot) + ph_place_offset(&p), UINT64_C(1) << order)) {
			left -= UINT64_C(1) << order;
			continue;
		}
		ph_level_put_block(z, p.slot, ph_place_offset(&p), order);
		r = 1;
	}
	for (uint32_t i = 0; i < n && r != 0; i++)
		ph_zone_put_range(z, runs[i].frame, runs[i].frames);
	atomic_fetch_sub(&z->holding, 1);
	*ret_n = n;
	return r;
}

/* They could not be had. Single frames would do, so what decides is how many are free, and whether some may still come. */
static int refusal(const struct pagehint_zone *z, uint64_t frames, int fits)
{
	uint64_t put, taken, put_after;
	ph_zone_counts(z, &put, &taken);
	int enough = put - taken >= frames;
	if ((fits && enough) || atomic_load(&z->holding) != 0 || ph_cache_any_moving(z, NULL))
		return -EAGAIN;
	if (pagehint_zone_hidden(z) != 0)
		return -EAGAIN;
	/* what stopped being hidden while we asked has come in by now */
	ph_zone_counts(z, &put_after, &taken);
	return put == put_after ? -ENOSPC : -EAGAIN;
}

int pagehint_zone_alloc_runs(struct pagehint_zone *zone, uint64_t frames, struct pagehint_run *runs, uint32_t max_runs,
			     uint32_t *ret_runs)
{
	uint32_t n;
	if (frames == 0 || max_runs == 0)
		return -EINVAL;
	int r = take_in_runs(zone, frames, runs, max_runs, &n);
	if (r != 0) {
		/* what caches hold may be what is missing, or what keeps the runs short */
		ph_cache_recall(zone, NULL);
		r = take_in_runs(zone, frames, runs, max_runs, &n);
	}
	if (r != 0)
		return refusal(zone, frames, r < 0);
	for (uint32_t i = 0; i < n; i++)
		ph_zone_hand_out_range(zone, runs[i].frame, runs[i].frames);
	*ret_runs = n;
	return 0;
}

/* How many frames from `frame` on are free, over sections, at most `most`. A look, not a promise. */
static uint64_t free_run(const struct pagehint_zone *z, uint64_t frame, uint64_t most)
{
	uint64_t n = 0;
	PH_FOR_SECTIONS (part, frame, most) {
		int64_t slot = ph_zone_slot(z, part.frame);
		uint32_t here = slot < 0 ? 0 : ph_level_free_run(z, (uint32_t)slot, part.offset, part.frames);
		n += here;
		if (here < part.frames)
			break;
	}
	return n;
}

/* First fit by address. */
static int find_contig(struct pagehint_zone *z, uint64_t frames, uint64_t align, uint64_t *ret_frame)
{
	uint64_t end = z->span_sections << PH_SECTION_SHIFT, stuck;
	for (uint64_t at = 0; at < end && frames <= end - at;) {
		uint64_t section = at >> PH_SECTION_SHIFT << PH_SECTION_SHIFT;
		int64_t slot = ph_zone_slot(z, at);
		if (slot < 0 || ph_zone_base(z, (uint32_t)slot) != section) { /* not there, or just gone */
			at = ph_round_up(section + PAGEHINT_SECTION_FRAMES, align);
			continue;
		}
		uint64_t run = free_run(z, at, frames);
		if (run == frames && ph_zone_claim_range(z, at, frames, &stuck) == 0) {
			*ret_frame = at;
			return 0;
		}
		/* behind what is free but too short (or was taken from under us), and over what is used; always on */
		uint64_t next = at + (run == frames ? 0 : run);
		if (next < section + PAGEHINT_SECTION_FRAMES)
			next = section +
			       ph_level_skip_used(z, (uint32_t)slot, ph_zone_offset(next), PAGEHINT_SECTION_FRAMES);
		at = ph_round_up(next > at ? next : at + 1, align);
	}
	return -ENOSPC;
}

/* After it failed: recalls caches, and tells -ENOSPC from -EAGAIN as ph_zone_take_slow does. */
static int find_contig_slow(struct pagehint_zone *z, uint64_t frames, uint64_t align, uint64_t *ret_frame)
{
	for (int i = 0; i < PH_SLOW_TRIES; i++) {
		ph_cache_recall(z, NULL);
		struct ph_versions before = ph_zone_versions(z);
		if (find_contig(z, frames, align, ret_frame) == 0)
			return 0;
		if (ph_zone_nothing_moved(z, NULL, &before))
			return -ENOSPC;
	}
	return -EAGAIN;
}

int pagehint_zone_alloc_contig(struct pagehint_zone *zone, uint64_t frames, uint64_t align, uint64_t *ret_frame)
{
	if (align == 0)
		align = 1;
	if (frames == 0 || (align & (align - 1)) != 0)
		return -EINVAL;
	uint64_t frame = 0;
	if (frames > zone->span_sections << PH_SECTION_SHIFT)
		return -ENOSPC;
	int r = find_contig(zone, frames, align, &frame);
	if (r < 0)
		r = find_contig_slow(zone, frames, align, &frame);
	if (r < 0)
		return r;
	ph_zone_hand_out_range(zone, frame, frames);
	*ret_frame = frame;
	return 0;
}

static int untrack_range(struct pagehint_zone *z, uint64_t frame, uint64_t frames)
{
	int r = ph_zone_check_range(z, frame, frames);
	if (r < 0 || !ph_zone_is_tracked(z))
		return r;
	PH_FOR_SECTIONS (part, frame, frames) {
		int64_t slot = ph_zone_slot(z, part.frame);
		if (slot < 0) /* removed since we checked, so they were not out */
			return -ERANGE;
		if (!ph_track_is_out(z, (uint32_t)slot, part.offset, part.frames))
			return -EALREADY;
	}
	PH_FOR_SECTIONS (part, frame, frames) {
		r = ph_track_in_range(z, (uint32_t)ph_zone_slot(z, part.frame), part.offset, part.frames);
		if (r == 0)
			continue;
		PH_FOR_SECTIONS (back, frame, part.frame - frame)
			ph_track_out_range(z, (uint32_t)ph_zone_slot(z, back.frame), back.offset, back.frames);
		return r;
	}
	return 0;
}

int pagehint_zone_free_runs(struct pagehint_zone *zone, const struct pagehint_run *runs, uint32_t n, uint32_t *ret_done)
{
	uint32_t done = 0;
	int r = 0;
	for (; done < n; done++) {
		r = untrack_range(zone, runs[done].frame, runs[done].frames);
		if (r < 0)
			break;
		PH_FOR_SECTIONS (part, runs[done].frame, runs[done].frames)
			ph_scrub_freed(zone, (uint32_t)ph_zone_slot(zone, part.frame), part.offset, part.frames);
		ph_zone_put_range(zone, runs[done].frame, runs[done].frames);
	}
	if (ret_done != NULL)
		*ret_done = done;
	return r;
}
