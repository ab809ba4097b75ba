/*
 * section: frames come and go: boot memory, hotplug, holes.
 *
 * A section gets a slot when its first frame comes and loses it when its last one goes. Only one thread at a time adds,
 * removes or reserves; everybody else may go on meanwhile: frames that are not in the tree cannot be found, and frames that
 * are not out cannot be freed.
 */
#include <errno.h>

#include "alloc/level.h"
#include "alloc/ops.h"
#include "alloc/scrub.h"
#include "alloc/sets.h"

static _Atomic uint32_t *slot_entry(struct pagehint_zone *z, uint64_t frame)
{
	return (_Atomic uint32_t *)ph_zone_at(z, z->off_slots) + (frame >> PH_SECTION_SHIFT);
}

/* bits of one word of `present` that the range has; returns how many words further the next one is */
static uint64_t present_mask(uint32_t first, uint32_t end)
{
	uint32_t word_end = (first | 63) + 1;
	return ph_mask(first % 64, (end < word_end ? end : word_end) - first);
}

static int any_present(const struct pagehint_zone *z, const struct ph_part *part)
{
	int64_t slot = ph_zone_slot(z, part->frame);
	if (slot < 0)
		return 0;
	uint32_t end = (part->offset + part->frames) / PH_PRESENT_FRAMES;
	for (uint32_t i = part->offset / PH_PRESENT_FRAMES; i < end; i = (i | 63) + 1)
		if (atomic_load(&ph_zone_present(z, (uint32_t)slot)[i / 64]) & present_mask(i, end))
			return 1;
	return 0;
}

static void mark_present(struct pagehint_zone *z, uint32_t slot, const struct ph_part *part, int present)
{
	ph_word *words = ph_zone_present(z, slot);
	uint32_t end = (part->offset + part->frames) / PH_PRESENT_FRAMES;
	for (uint32_t i = part->offset / PH_PRESENT_FRAMES; i < end; i = (i | 63) + 1) {
		if (present)
			atomic_fetch_or(&words[i / 64], present_mask(i, end));
		else
			atomic_fetch_and(&words[i / 64], ~present_mask(i, end));
	}
}

static int is_empty(const struct pagehint_zone *z, uint32_t slot)
{
	const ph_word *words = ph_zone_present(z, slot);
	for (uint32_t i = 0; i < PH_L0_WORDS / 64; i++)
		if (atomic_load(&words[i]) != 0)
			return 0;
	return 1;
}

/* The lowest slot that is unused; whoever calls knows that there is one. */
static uint32_t find_slot(const struct pagehint_zone *z)
{
	uint32_t slot = (uint32_t)atomic_load(&z->no_gap_below);
	while (atomic_load(&ph_zone_head(z, slot)->number_plus1) != 0)
		slot++;
	return slot;
}

static uint32_t open_slot(struct pagehint_zone *z, uint64_t frame)
{
	uint32_t slot = find_slot(z);
	struct ph_section *head = ph_zone_head(z, slot);
	atomic_store(&z->no_gap_below, slot + 1);
	atomic_fetch_add(&z->sections, 1);
	atomic_store(&head->number_plus1, (frame >> PH_SECTION_SHIFT) + 1);
	if (atomic_load(&z->used_slots) <= slot)
		atomic_store(&z->used_slots, slot + 1);
	atomic_store(slot_entry(z, frame), slot + 1);
	return slot;
}

int pagehint_zone_add(struct pagehint_zone *zone, uint64_t frame, uint64_t frames)
{
	if (frames == 0 || !ph_sum_fits(frame, frames) || (frame | frames) % PH_PRESENT_FRAMES != 0)
		return -EINVAL;
	if (frame + frames > zone->span_sections << PH_SECTION_SHIFT)
		return -ERANGE;
	uint64_t wanted = 0;
	PH_FOR_SECTIONS (part, frame, frames) {
		if (any_present(zone, &part))
			return -EEXIST;
		wanted += ph_zone_slot(zone, part.frame) < 0;
	}
	if (wanted > zone->max_sections - atomic_load(&zone->sections))
		return -ENOSPC;
	PH_FOR_SECTIONS (part, frame, frames) {
		int64_t slot = ph_zone_slot(zone, part.frame);
		if (slot < 0)
			slot = open_slot(zone, part.frame);
		mark_present(zone, (uint32_t)slot, &part, 1);
		if (zone->flags & PAGEHINT_ZONE_STALE)
			ph_scrub_freed(zone, (uint32_t)slot, part.offset, part.frames);
		else
			ph_scrub_set_clean(zone, (uint32_t)slot, part.offset, part.frames);
		if (zone->flags & PAGEHINT_ZONE_STALE)
			ph_sets_reset(zone, (uint32_t)slot, part.offset, part.frames, 1);
		atomic_fetch_add(&zone->total, part.frames);
		ph_level_put_range(zone, (uint32_t)slot, part.offset, part.frames);
	}
	return 0;
}

/* Claims a whole range; when some of it is not free, says how many frames are not. */
static int claim_all(struct pagehint_zone *z, uint64_t frame, uint64_t frames, uint64_t *ret_busy)
{
	uint64_t stuck;
	ph_cache_recall(z, NULL);
	if (ph_zone_claim_range(z, frame, frames, &stuck) == 0)
		return 0;
	uint64_t busy = 0;
	PH_FOR_SECTIONS (part, frame, frames) {
		uint32_t slot = (uint32_t)ph_zone_slot(z, part.frame), end = part.offset + part.frames;
		for (uint32_t at = part.offset; at < end;) {
			uint32_t run = ph_level_free_run(z, slot, at, end - at);
			at += run;
			uint32_t next = ph_level_skip_used(z, slot, at, end);
			if (next == at && run == 0)
				next++; /* free since we looked */
			busy += next - at;
			at = next;
		}
	}
	if (ret_busy != NULL)
		*ret_busy = busy != 0 ? busy : 1; /* what was in the way may have been freed since */
	return -EBUSY;
}

int pagehint_zone_remove(struct pagehint_zone *zone, uint64_t frame, uint64_t frames, uint64_t *ret_busy)
{
	int r = ph_zone_check_range(zone, frame, frames);
	if (r == 0 && (frame | frames) % PH_PRESENT_FRAMES != 0)
		r = -EINVAL;
	if (r == 0)
		r = claim_all(zone, frame, frames, ret_busy);
	if (r < 0)
		return r;
	PH_FOR_SECTIONS (part, frame, frames) {
		uint32_t slot = (uint32_t)ph_zone_slot(zone, part.frame);
		ph_sets_reset(zone, slot, part.offset, part.frames, 0);
		mark_present(zone, slot, &part, 0);
		atomic_fetch_sub(&zone->total, part.frames);
		if (is_empty(zone, slot)) {
			/* also what went in pieces smaller than a granule: the next section here is another's */
			ph_sets_reset(zone, slot, 0, PAGEHINT_SECTION_FRAMES, 0);
			atomic_store(slot_entry(zone, part.frame), 0);
			atomic_store(&ph_zone_head(zone, slot)->number_plus1, 0);
			atomic_fetch_sub(&zone->sections, 1);
			if (slot < atomic_load(&zone->no_gap_below))
				atomic_store(&zone->no_gap_below, slot);
		}
	}
	return 0;
}

int pagehint_zone_reserve(struct pagehint_zone *zone, uint64_t frame, uint64_t frames, uint64_t *ret_busy)
{
	int r = ph_zone_check_range(zone, frame, frames);
	if (r == 0)
		r = claim_all(zone, frame, frames, ret_busy);
	if (r == 0)
		ph_zone_hand_out_range(zone, frame, frames);
	return r;
}
