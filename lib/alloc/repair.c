/*
 * repair: makes a zone anew from what is certain, after one of its processes died in the middle of anything; see pagehint/shared.h.
 *
 * Certain are the marks of what is out, what live processes have in their caches, and what the host holds. All else that is
 * present is free. One thing is not: a process that was turning the mark of a big block into marks of its parts (to free one of
 * them) leaves frames unmarked that may be in live hands; the section's count of splits says so, and there what shows nowhere
 * is marked as out.
 */
#include <errno.h>
#include <string.h>

#include <pagehint/shared.h>

#include "alloc/cache.h"
#include "alloc/evict.h"
#include "alloc/level.h"
#include "alloc/ops.h"
#include "alloc/summary.h"
#include "alloc/track.h"
#include "base/opts.h"

struct repair {
	struct pagehint_zone *z;
	uint32_t owner;
	uint64_t total, free, sections;
	struct pagehint_repaired found;
};

static int is_dead(const struct repair *r, const struct pagehint_cache *c)
{
	return atomic_load(&c->control) != PH_CACHE_FREE && atomic_load(&c->owner) == r->owner;
}

typedef void (*word_fn)(struct repair *r, uint32_t slot, uint32_t word, uint64_t mask);

/* These frames of a dead cache are free for certain: only for the account, the tree is made anew. */
static void say_free(struct repair *r, uint32_t slot, uint32_t word, uint64_t mask)
{
	r->found.cached += ph_popcount(mask);
	if (slot < r->z->max_sections)
		atomic_fetch_or(ph_zone_level_word(r->z, slot, 0, word), mask);
}

/* The blocks of a cache, word by word. */
static void each_block(struct repair *r, const struct pagehint_cache *c, word_fn fn)
{
	for (uint32_t order = 1; order <= PH_CACHE_ORDERS; order++) {
		uint64_t first = atomic_load(&c->block[order]) - 1, end = first + (UINT64_C(1) << order);
		int64_t slot = first == UINT64_MAX ? -1 : ph_zone_slot(r->z, first);
		for (uint64_t at = first; slot >= 0 && at < end; at = (at | 63) + 1)
			fn(r, (uint32_t)slot, ph_zone_offset(at) / 64, ph_mask(at % 64, order < 6 ? 1u << order : 64));
	}
}

static void close_cache(struct repair *r, struct pagehint_cache *c)
{
	struct pagehint_zone *z = r->z;
	uint32_t lent = (uint32_t)atomic_load(&c->lent), name0 = lent;
	if (name0 == 0 && atomic_load(&c->moving) == 0)
		name0 = atomic_load(&c->word[0]);
	if (lent != 0 && (lent - 1) / PH_L0_WORDS < z->max_sections)
		atomic_fetch_and(ph_track_word0(z, (lent - 1) / PH_L0_WORDS, (lent - 1) % PH_L0_WORDS),
				 ~atomic_load(&c->mask[0]));
	for (uint32_t i = 0; i < PH_CACHE_WORDS; i++) {
		uint32_t name = i == 0 ? name0 : atomic_load(&c->word[i]);
		uint64_t mask = atomic_load(&c->mask[i]);
		if (mask != 0 && name != 0)
			say_free(r, (name - 1) / PH_L0_WORDS, (name - 1) % PH_L0_WORDS, mask);
		atomic_store(&c->mask[i], 0);
	}
	each_block(r, c, say_free);
	for (uint32_t order = 1; order <= PH_CACHE_ORDERS; order++)
		atomic_store(&c->block[order], 0);
	ph_cache_leave_words(z, c);
	atomic_store(&c->lent, 0);
	atomic_store(&c->moving, 0);
	atomic_store(&c->control, PH_CACHE_FREE);
}

static void close_caches(struct repair *r)
{
	struct pagehint_zone *z = r->z;
	for (uint32_t i = 0; i < z->max_caches; i++) {
		struct pagehint_cache *c = ph_cache_at(z, i);
		if (!is_dead(r, c))
			continue;
		close_cache(r, c);
		for (uint32_t place = 0; place < ph_lend_places(z); place++)
			if (atomic_load(ph_lend_table(z) + place) == i + 1)
				atomic_store(ph_lend_table(z) + place, 0);
	}
}

static uint64_t marked(const struct pagehint_zone *z, uint32_t slot, uint32_t word)
{
	uint64_t v = atomic_load(ph_track_word0(z, slot, word));
	for (uint32_t level = 1, index = word; level <= PH_WHOLE_LEVEL; level++, index >>= 6)
		if (atomic_load(ph_track_word(z, slot, level, index >> 6)) >> (index & 63) & 1)
			return PH_FULL;
	return v;
}

static uint64_t held(const struct pagehint_zone *z, uint32_t slot, uint32_t word)
{
	uint32_t g = z->granule_order, first = word * 64 >> g;
	uint64_t bits = atomic_load(&ph_host_held(z, slot)[first / 64]) >> (first % 64), v = 0;
	if (g >= 6)
		return bits & 1 ? PH_FULL : 0;
	for (uint32_t i = 0; i < 64u >> g; i++)
		v |= bits >> i & 1 ? ph_mask(i << g, 1u << g) : 0;
	return v;
}

static uint64_t in_tree(const struct pagehint_zone *z, uint32_t slot, uint32_t word)
{
	return ph_level_covered(z, slot, 0, word) ? PH_FULL : atomic_load(ph_zone_level_word(z, slot, 0, word));
}

/* Level 0 gets what may be free; the levels above, which a live cache's frames do not lie in, are emptied afterwards. */
static void judge_slot(struct repair *r, uint32_t slot)
{
	struct pagehint_zone *z = r->z;
	struct ph_section *head = ph_zone_head(z, slot);
	int unsure = atomic_load(&head->splits_begun) != atomic_load(&head->splits_ended);
	for (uint32_t word = 0; word < PH_L0_WORDS; word++) {
		uint64_t present = ph_zone_is_present(z, slot, word * 64) ? PH_FULL : 0, tree = in_tree(z, slot, word);
		uint64_t can_be = present & ~marked(z, slot, word) & ~held(z, slot, word);
		r->total += ph_popcount(present);
		if (unsure) {
			uint64_t nowhere = can_be & ~tree;
			for (uint32_t c = 0; c < z->max_caches && nowhere != 0; c++)
				for (uint32_t e = 0; e < PH_CACHE_WORDS; e++)
					if (atomic_load(&ph_cache_at(z, c)->word[e]) == ph_zone_word_name(slot, word))
						nowhere &= ~atomic_load(&ph_cache_at(z, c)->mask[e]);
			atomic_fetch_or(ph_track_word0(z, slot, word), nowhere);
			r->found.kept += ph_popcount(nowhere);
			can_be &= ~nowhere;
		}
		r->found.lost += ph_popcount(can_be & ~tree);
		atomic_store(ph_zone_level_word(z, slot, 0, word), can_be);
	}
	atomic_store(&head->splits_ended, atomic_load(&head->splits_begun));
	r->sections++;
}

/* A live cache has these: they are not free, and no mark stands for them but where they are lent. */
static void spare(struct repair *r, uint32_t slot, uint32_t word, uint64_t mask)
{
	ph_word *p = ph_zone_level_word(r->z, slot, 0, word);
	r->found.lost -= ph_popcount(atomic_fetch_and(p, ~mask) & mask);
}

static void spare_block(struct repair *r, uint32_t slot, uint32_t word, uint64_t mask)
{
	spare(r, slot, word, mask);
	r->found.kept -= ph_popcount(atomic_fetch_and(ph_track_word0(r->z, slot, word), ~mask) & mask);
}

static void spare_live(struct repair *r)
{
	struct pagehint_zone *z = r->z;
	for (uint32_t i = 0; i < z->max_caches; i++) {
		struct pagehint_cache *c = ph_cache_at(z, i);
		atomic_store(&c->put, 0);
		atomic_store(&c->taken, 0);
		if (atomic_load(&c->control) == PH_CACHE_FREE)
			continue;
		for (uint32_t e = 0; e < PH_CACHE_WORDS; e++) {
			uint32_t name = atomic_load(&c->word[e]) - 1;
			uint64_t mask = atomic_load(&c->mask[e]);
			if (mask != 0)
				spare(r, name / PH_L0_WORDS, name % PH_L0_WORDS, mask);
		}
		each_block(r, c, spare_block);
	}
}

static void build_slot(struct repair *r, uint32_t slot)
{
	struct pagehint_zone *z = r->z;
	struct ph_section *head = ph_zone_head(z, slot);
	uint64_t here = 0;
	for (uint32_t i = 0; i < PH_L1_WORDS; i++)
		atomic_store(ph_zone_level_word(z, slot, 1, i), 0);
	atomic_store(&head->level2, 0);
	atomic_fetch_and(&ph_zone_whole(z)[slot / 64], ~(UINT64_C(1) << (slot % 64)));
	for (uint32_t word = 0; word < PH_L0_WORDS; word++) {
		uint64_t v = atomic_exchange(ph_zone_level_word(z, slot, 0, word), 0);
		if (v != 0)
			ph_level_publish(z, slot, 0, word, v);
		here += ph_popcount(v);
	}
	ph_summary_mend(z, slot, 0);
	for (uint32_t i = 0; i < z->granule_words; i++)
		atomic_store(&ph_host_filling(z, slot)[i], 0);
	atomic_store(&head->ended, atomic_load(&head->begun));
	atomic_store(&head->taken, 0);
	atomic_store(&head->put, here);
	r->free += here;
}

/* A section that came or went when its process died: its slot is in use while it has frames. */
static int keep_slot(struct pagehint_zone *z, uint32_t slot)
{
	ph_word *number = &ph_zone_head(z, slot)->number_plus1;
	uint64_t n = atomic_load(number);
	if (n == 0)
		return 0;
	if (n <= z->span_sections && ph_zone_slot(z, (n - 1) << PH_SECTION_SHIFT) == (int64_t)slot)
		return 1;
	atomic_store(number, 0);
	return 0;
}

static void make_anew(struct repair *r)
{
	struct pagehint_zone *z = r->z;
	uint32_t last = UINT32_MAX;
	for (uint32_t slot = 0; slot < z->max_sections; slot++)
		if (keep_slot(z, slot))
			judge_slot(r, slot);
	spare_live(r);
	for (uint32_t slot = 0; slot < z->max_sections; slot++) {
		if (atomic_load(&ph_zone_head(z, slot)->number_plus1) == 0)
			continue;
		build_slot(r, slot);
		last = slot;
	}
	/* what the host took is away from what was put */
	if (last != UINT32_MAX)
		atomic_fetch_add(&ph_zone_head(z, last)->put, atomic_load(&z->host_taken) - atomic_load(&z->host_put));
	atomic_store(&z->total, r->total);
	atomic_store(&z->sections, r->sections);
	atomic_store(&z->no_gap_below, 0);
	atomic_store(&z->holding, 0);
}

static int let_heirs_free(struct repair *r, int (*heirs)(void *ctx, struct pagehint_run *ret_run), void *ctx)
{
	struct pagehint_run run;
	int first_error = 0;
	while (heirs != NULL && heirs(ctx, &run) == 0) {
		int error = pagehint_zone_free_runs(r->z, &run, 1, NULL);
		r->found.freed += error == 0 ? run.frames : 0;
		first_error = first_error != 0 ? first_error : error;
	}
	return first_error;
}

int pagehint_zone_repair(struct pagehint_zone *zone, uint32_t owner,
			 int (*heirs)(void *ctx, struct pagehint_run *ret_run), void *ctx,
			 struct pagehint_repaired *ret)
{
	if (!(zone->flags & PAGEHINT_ZONE_SHARED) || owner == 0)
		return -EINVAL;
	uint64_t pending = atomic_load(&zone->host_where) | atomic_load(&zone->host_away);
	for (uint32_t i = 0; i < PH_HOST_DOUBTS; i++)
		pending |= atomic_load(&zone->host_doubt[2 * i]);
	if (pending != 0)
		return -EBUSY;
	struct repair r = { .z = zone, .owner = owner };
	close_caches(&r);
	make_anew(&r);
	int error = let_heirs_free(&r, heirs, ctx);
	if (ret != NULL) {
		int bad = PH_OPTS_OUT(ret, r.found);
		error = error != 0 ? error : bad;
	}
	return error;
}
