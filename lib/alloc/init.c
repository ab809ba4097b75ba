/*
 * init: sizes, offsets, and an empty zone in somebody's memory.
 *
 * Zeroed memory is a valid empty state for everything but the header: nothing is present, nothing touched, every set says
 * "fresh". So a zone of any size is made by writing one page.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "alloc/cache.h"
#include "alloc/ops.h"
#include "alloc/zone.h"
#include "base/opts.h"
#include "base/sys.h"

#define KNOWN_FLAGS                                                                                    \
	(PAGEHINT_ZONE_UNTRACKED | PAGEHINT_ZONE_STRICT | PAGEHINT_ZONE_LADDER | PAGEHINT_ZONE_STALE | \
	 PAGEHINT_ZONE_SCRUB | PAGEHINT_ZONE_SHARED)
#define NOT_SHARED (PAGEHINT_ZONE_UNTRACKED | PAGEHINT_ZONE_LADDER | PAGEHINT_ZONE_SCRUB)
#define LADDER_MIN_GRANULE 6u
#define LADDER_MAX_GRANULE 11u

static int set_defaults(struct pagehint_zone_opts *o)
{
	if (o->frame_shift == 0)
		o->frame_shift = 12;
	if (o->frame_shift < 12 || o->frame_shift > 30)
		return -EINVAL;
	if (o->granule_order == 0)
		o->granule_order = o->frame_shift >= 20 ? 1 : 21 - o->frame_shift;
	if (o->max_sections == 0)
		o->max_sections = 1;
	if (o->span_sections == 0)
		o->span_sections = o->max_sections;
	if (o->max_caches == 0)
		o->max_caches = 64;
	if (o->flags & ~KNOWN_FLAGS || o->granule_order > PAGEHINT_ORDER_MAX || o->max_sections > 16384 ||
	    o->span_sections > UINT64_C(1) << 22 || o->max_sections > o->span_sections || o->max_caches > 4096)
		return -EINVAL;
	if (o->flags & PAGEHINT_ZONE_UNTRACKED && o->flags & PAGEHINT_ZONE_STRICT)
		return -EINVAL;
	if (o->flags & PAGEHINT_ZONE_SHARED && o->flags & NOT_SHARED)
		return -EINVAL;
	if (o->flags & PAGEHINT_ZONE_LADDER &&
	    (o->granule_order < LADDER_MIN_GRANULE || o->granule_order > LADDER_MAX_GRANULE))
		return -EINVAL;
	return 0;
}

/* hands out the next `words` of a slot */
static uint32_t next(uint32_t *at, uint32_t words, int wanted)
{
	uint32_t here = *at;
	if (!wanted)
		return 0;
	*at += words;
	return here;
}

static void lay_out_slot(struct pagehint_zone *z)
{
	int tracked = !(z->flags & PAGEHINT_ZONE_UNTRACKED), strict = (z->flags & PAGEHINT_ZONE_STRICT) != 0;
	int shared = (z->flags & PAGEHINT_ZONE_SHARED) != 0;
	uint32_t at = 0, granules = PAGEHINT_SECTION_FRAMES >> z->granule_order;
	z->granule_words = (granules + 63) / 64;
	z->level0_stride = tracked ? 2 : 1;
	next(&at, PH_L0_WORDS * z->level0_stride, 1);
	z->at_level1 = next(&at, PH_L1_WORDS, 1);
	z->at_sum0 = next(&at, PH_CLASSES * 64, 1);
	z->at_out1 = next(&at, PH_L1_WORDS, tracked);
	z->at_tail0 = next(&at, PH_L0_WORDS, strict);
	z->at_tail1 = next(&at, PH_L1_WORDS, strict);
	z->at_dirty = next(&at, PH_L0_WORDS, (z->flags & PAGEHINT_ZONE_LADDER) != 0);
	z->at_unclean = next(&at, PH_L0_WORDS, (z->flags & PAGEHINT_ZONE_SCRUB) != 0);
	z->at_stale = next(&at, z->granule_words, 1);
	z->at_touched = next(&at, z->granule_words, 1);
	z->at_aged = next(&at, z->granule_words, 1);
	z->at_held = next(&at, z->granule_words, shared);
	z->at_evicted = next(&at, z->granule_words, shared);
	z->at_filling = next(&at, z->granule_words, shared);
	z->section_words = (at + 7) / 8 * 8;
}

static void lay_out(struct pagehint_zone *z)
{
	uint32_t lead =
		z->flags & PAGEHINT_ZONE_SHARED ? PH_SHARED_HEAD - (uint32_t)offsetof(struct pagehint_zone, total) : 0;
	uint64_t at = ph_round_up(lead + sizeof(*z), 128) -
		      lead; /* from the struct on, but aligned from the start of the state */
	z->lead = lead;
	z->bitmap_words = (uint32_t)((z->max_sections + 63) / 64);
	z->up_words = (z->bitmap_words + 63) / 64;
	lay_out_slot(z);
	z->off_caches = at;
	at += z->max_caches * sizeof(struct pagehint_cache);
	/* many more places than caches: so two of them seldom want the same */
	uint32_t places = 64;
	while (places < 8 * z->max_caches)
		places *= 2;
	z->lent_shift = 32 - ph_ctz(places);
	z->off_lent = at;
	at += ph_round_up(places * sizeof(uint16_t), 64);
	z->off_sums = at;
	at += ph_round_up((uint64_t)(PH_WHOLE_LEVEL * PH_CLASSES + 1) * z->bitmap_words * 8, 64);
	z->off_ups = at;
	at += ph_round_up((uint64_t)PH_WHOLE_LEVEL * PH_CLASSES * z->up_words * 8, 64);
	z->off_heads = at;
	at += ph_round_up(z->max_sections * sizeof(struct ph_section), 64);
	z->off_present = at;
	at += z->max_sections * PH_PRESENT_WORDS * 8;
	z->off_slots = at;
	at += ph_round_up(z->span_sections * sizeof(uint32_t), 64);
	z->off_sections = at;
	at += z->max_sections * z->section_words * 8;
	z->bytes = lead + at;
}

int ph_zone_plan(const struct pagehint_zone_opts *opts, struct pagehint_zone *z)
{
	struct pagehint_zone_opts o;
	int r = opts == NULL ? -EINVAL : PH_OPTS_IN(o, opts);
	if (r == 0)
		r = set_defaults(&o);
	if (r < 0)
		return r;
	memset(z, 0, sizeof(*z));
	z->magic = PH_ZONE_MAGIC;
	z->layout = PH_ZONE_LAYOUT;
	z->endian = PH_ZONE_ENDIAN;
	z->max_sections = o.max_sections;
	z->span_sections = o.span_sections;
	z->flags = o.flags;
	z->frame_shift = o.frame_shift;
	z->granule_order = o.granule_order;
	z->max_caches = o.max_caches;
	lay_out(z);
	return z->bytes > SIZE_MAX ? -EINVAL : 0;
}

int pagehint_zone_size(const struct pagehint_zone_opts *opts, uint64_t *ret_bytes)
{
	struct pagehint_zone z;
	int r = ph_zone_plan(opts, &z);
	if (r == 0)
		*ret_bytes = z.bytes;
	return r;
}

int pagehint_zone_init(void *mem, uint64_t bytes, const struct pagehint_zone_opts *opts,
		       struct pagehint_zone **ret_zone)
{
	struct pagehint_zone z;
	int r = ph_zone_plan(opts, &z);
	if (r < 0)
		return r;
	if (mem == NULL || (uintptr_t)mem % 64 != 0 || bytes < z.bytes)
		return -EINVAL;
	struct pagehint_zone *zone = (void *)((unsigned char *)mem + z.lead);
	memcpy(zone, &z, sizeof(z));
	*ret_zone = zone;
	return 0;
}

int pagehint_zone_new(const struct pagehint_zone_opts *opts, struct pagehint_zone **ret_zone)
{
	struct pagehint_zone *z;
	uint64_t bytes;
	int r = pagehint_zone_size(opts, &bytes);
	if (r < 0)
		return r;
	void *mem = ph_sys_real.map_memory(ph_sys_real.ctx, (size_t)bytes);
	if (mem == NULL)
		return -ENOMEM;
	r = pagehint_zone_init(mem, bytes, opts, &z);
	if (r < 0) {
		ph_sys_real.unmap_memory(ph_sys_real.ctx, mem, (size_t)bytes);
		return r;
	}
	z->from_new = 1;
	*ret_zone = z;
	return 0;
}

void pagehint_zone_destroy(struct pagehint_zone *zone)
{
	if (zone != NULL && zone->from_new)
		ph_sys_real.unmap_memory(ph_sys_real.ctx, (unsigned char *)zone - zone->lead, (size_t)zone->bytes);
}

uint32_t pagehint_zone_granule_order(const struct pagehint_zone *zone)
{
	return zone->granule_order;
}
