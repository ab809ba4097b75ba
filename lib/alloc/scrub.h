/*
 * scrub: which frames may hold old bytes; the inside of pagehint/scrub.h.
 *
 * One bit a frame, `unclean`, in zones with PAGEHINT_ZONE_SCRUB. It says something of frames that are not in the embedder's
 * hands: a free sets it before anybody else can have the frame, and only whoever holds the frame clears it (an allocation that
 * zeroes it, a scrub step that has isolated it, the reporter that had it discarded). So no two ever change the same bit at once.
 */
#ifndef PH_ALLOC_SCRUB_H
#define PH_ALLOC_SCRUB_H

#include <pagehint/scrub.h>

#include "alloc/zone.h"

/* Frames of one section come back from the embedder. */
void ph_scrub_set_unclean(struct pagehint_zone *z, uint32_t slot, uint32_t offset, uint32_t frames);

/* These frames, which somebody of us holds, read as zero. */
void ph_scrub_set_clean(struct pagehint_zone *z, uint32_t slot, uint32_t offset, uint32_t frames);

/* Called for every free; costs nothing in a zone that does not care. */
static inline void ph_scrub_freed(struct pagehint_zone *z, uint32_t slot, uint32_t offset, uint32_t frames)
{
	if (ph_unlikely(z->at_unclean != 0))
		ph_scrub_set_unclean(z, slot, offset, frames);
}

/* A run that the reporter has reads as zero. */
void ph_scrub_zeroed(struct pagehint_zone *z, const struct pagehint_run *run);

#endif
