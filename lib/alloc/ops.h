/*
 * ops: what the public operations of a zone share: looking a block up, taking one when the quick way found none, claiming
 * ranges that span sections.
 */
#ifndef PH_ALLOC_OPS_H
#define PH_ALLOC_OPS_H

#include <errno.h>

#include "alloc/cache.h"
#include "alloc/track.h"
#include "alloc/zone.h"

/* The header that these options give: 0, -EINVAL, -E2BIG as pagehint_zone_size. Nothing is allocated or touched but *z. */
int ph_zone_plan(const struct pagehint_zone_opts *opts, struct pagehint_zone *z);

/*
 * Checks a block that is to be freed and takes it out of the embedder's hands; *ret_place says where it belongs. Returns 0,
 * -EINVAL, -ERANGE, -EALREADY as pagehint_zone_free.
 */
int ph_zone_untrack(struct pagehint_zone *z, uint64_t frame, uint32_t order, struct ph_place *ret_place);

/* The same for a frame at an offset of a slot that is in use: 0, -ERANGE, -EALREADY, -EINVAL. */
int ph_zone_refusal(const struct pagehint_zone *z, uint32_t slot, uint32_t offset, uint32_t order, int r);
static inline int ph_zone_untrack_frame(struct pagehint_zone *z, uint32_t slot, uint32_t offset)
{
	if (!ph_zone_is_tracked(z))
		return ph_likely(ph_zone_is_present(z, slot, offset)) ? 0 : -ERANGE;
	int r = ph_track_in(z, slot, offset, 0);
	return ph_likely(r == 0) ? 0 : ph_zone_refusal(z, slot, offset, 0, r);
}

/* pagehint_zone_alloc; `cache` (may be NULL) counts what is taken, and is drained when nothing else helps. */
int ph_zone_alloc(struct pagehint_zone *z, struct pagehint_cache *cache, uint32_t order, uint64_t *ret_frame);

#ifndef PH_SLOW_TRIES /* looks before a refusal says that it cannot tell; fewer where a test goes through every order */
#define PH_SLOW_TRIES 4
#endif

/* What changes when a look at the tree may have missed something: sums that only grow, and may wrap. */
struct ph_versions {
	uint64_t put, begun, ended;
};
struct ph_versions ph_zone_versions(const struct pagehint_zone *z);

/*
 * A look at every word, begun at `before`, found nothing. Is that the truth? Nobody holds frames that he may give back or has
 * not yet put into his cache, none are hidden (asked after that, for they end up there), and nothing came in and nothing was
 * between two levels meanwhile (asked last: whatever stopped being hidden while we asked has come in by then, and is counted).
 * `self`: the caller's own cache, or NULL.
 */
int ph_zone_nothing_moved(const struct pagehint_zone *z, const struct pagehint_cache *self,
			  const struct ph_versions *before);

/* Blocks straight from the tree, counted as taken: 0, -ENOSPC, -EAGAIN as pagehint_zone_alloc. */
int ph_zone_take(struct pagehint_zone *z, struct pagehint_cache *cache, uint32_t order, uint32_t want,
		 struct ph_place *ret, uint64_t *ret_mask);

/*
 * ph_level_search after it failed: recalls caches, tries again, and tells -ENOSPC (nothing is free, and nothing was moving
 * while we looked) from -EAGAIN (frames are hidden, or came and went). The caller counts.
 */
int ph_zone_take_slow(struct pagehint_zone *z, struct pagehint_cache *cache, uint32_t order, uint32_t want,
		      struct ph_place *ret, uint64_t *ret_mask);

/* Frames ever put into and taken out of the tree, over all sections and caches. */
void ph_zone_counts(const struct pagehint_zone *z, uint64_t *ret_put, uint64_t *ret_taken);

/* Are [frame, frame + frames) inside the span and present? 0, -EINVAL empty or wrapping, -ERANGE. */
int ph_zone_check_range(const struct pagehint_zone *z, uint64_t frame, uint64_t frames);

/* Takes a whole range, over sections, or nothing: 0, or -EBUSY and the first frame in the way (absent ones are, too). */
int ph_zone_claim_range(struct pagehint_zone *z, uint64_t frame, uint64_t frames, uint64_t *ret_stuck);

/* Puts a range that somebody of us holds back into the tree. */
void ph_zone_put_range(struct pagehint_zone *z, uint64_t frame, uint64_t frames);

/* A range goes into the embedder's hands frame by frame. */
void ph_zone_hand_out_range(struct pagehint_zone *z, uint64_t frame, uint64_t frames);

/* Calls with the parts of a range, one a section. `part` is a name, which parentheses do not take. */
/* NOLINTBEGIN(bugprone-macro-parentheses) */
#define PH_FOR_SECTIONS(part, first, n) \
	for (struct ph_part part = ph_part_first((first), (n)); part.frames != 0; part = ph_part_next(part))
/* NOLINTEND(bugprone-macro-parentheses) */

struct ph_part {
	uint64_t frame;  /* first frame of this part */
	uint64_t left;   /* frames behind this part */
	uint32_t offset; /* in its section */
	uint32_t frames; /* of this part; 0 = the range is done */
};

static inline struct ph_part ph_part_first(uint64_t frame, uint64_t frames)
{
	uint32_t offset = ph_zone_offset(frame), room = PAGEHINT_SECTION_FRAMES - offset;
	uint32_t here = frames < room ? (uint32_t)frames : room;
	struct ph_part p = { frame, frames - here, offset, here };
	return p;
}

static inline struct ph_part ph_part_next(struct ph_part p)
{
	return ph_part_first(p.frame + p.frames, p.left);
}

#endif
