/*
 * recover: what a host does about the one before it, which died at any moment; see evict.h.
 *
 * What `held` says is certain, but for the blocks that host_where names: of those, either the claim or put of the dead host took
 * place or not, and the guest may have had them since. They become a doubt, kept in the state until it is settled:
 *  - a frame of them that is free in the tree, or marked as out, is not with a host, and a claim and a put are one atomic: so
 *    none of them are. That can be seen while the guest works.
 *  - the opposite cannot: a guest's thread that has taken a block and not yet marked it shows nothing either. So a doubt stays,
 *    and its frames out of reach, until they show or the guest is known to be at rest. One block at the most a crash.
 */
#include <errno.h>
#include <string.h>

#include "alloc/cache.h"
#include "alloc/granules.h"
#include "alloc/level.h"
#include "alloc/summary.h"
#include "alloc/track.h"

/* What a note names; 0 = nothing that could be. */
static int read_note(const struct pagehint_zone *z, uint64_t where, uint64_t mask, struct ph_spot *ret)
{
	uint64_t slot = (where >> 32) - 1, kind = where & (UINT64_C(3) << 28);
	uint32_t level = where >> 24 & 15, index = (uint32_t)(where & 0xffffff);
	if (where == 0 || slot >= z->max_sections || level > PH_WHOLE_LEVEL || level < ph_host_level(z))
		return 0;
	if (kind == PH_WHERE_BLOCK) {
		mask = UINT64_C(1) << (index & 63);
		index >>= 6;
	}
	if (level == PH_WHOLE_LEVEL)
		index = 0;
	else if (index >= PH_L0_WORDS >> (6 * level))
		return 0;
	*ret = (struct ph_spot) { (uint32_t)slot, level, index, mask };
	return mask != 0;
}

static uint64_t granules_of(struct ph_host *h, const struct ph_spot *at, uint64_t *bits)
{
	memset(bits, 0, h->z->granule_words * sizeof(uint64_t));
	ph_host_add_granules(h->z, at->level, at->word, at->mask, bits);
	return (uint64_t)ph_popcount_all(bits, h->z->granule_words) << h->z->granule_order;
}

/* ---- does it show? ---- */

/* Is any frame of the level-0 word free in the tree or marked as out, on whatever level? */
static int word_shows(const struct pagehint_zone *z, uint32_t slot, uint32_t word, uint64_t mask)
{
	if ((atomic_load(ph_zone_level_word(z, slot, 0, word)) | atomic_load(ph_track_word0(z, slot, word))) & mask)
		return 1;
	for (uint32_t level = 1, index = word; level <= PH_WHOLE_LEVEL; level++, index >>= 6) {
		uint64_t v = atomic_load(ph_track_word(z, slot, level, index >> 6));
		if (level < PH_WHOLE_LEVEL)
			v |= atomic_load(ph_zone_level_word(z, slot, level, index >> 6));
		if (v >> (index & 63) & 1)
			return 1;
	}
	return ph_zone_is_whole(z, slot);
}

static int in_cache(const struct pagehint_zone *z, const struct pagehint_cache *c, uint32_t slot, uint32_t word,
		    uint64_t mask)
{
	uint64_t frame = ph_zone_base(z, slot) + word * UINT64_C(64);
	for (uint32_t i = 0; i < PH_CACHE_WORDS; i++)
		if (atomic_load(&c->word[i]) == ph_zone_word_name(slot, word) && atomic_load(&c->mask[i]) & mask)
			return 1;
	for (uint32_t order = 1; order <= PH_CACHE_ORDERS; order++) {
		uint64_t block = atomic_load(&c->block[order]);
		if (block != 0 && block - 1 < frame + 64 && frame < block - 1 + (UINT64_C(1) << order))
			return 1;
	}
	return 0;
}

static int word_cached(const struct pagehint_zone *z, uint32_t slot, uint32_t word, uint64_t mask)
{
	uint64_t used = atomic_load(&z->used_caches);
	for (uint32_t i = 0; i < used && i < z->max_caches; i++)
		if (in_cache(z, ph_cache_at(z, i), slot, word, mask))
			return 1;
	return 0;
}

static int shows(const struct pagehint_zone *z, uint32_t slot, const uint64_t *granules, int at_rest)
{
	uint32_t g = z->granule_order, n = ph_host_granules(z);
	for (uint32_t i = 0; i < n; i++) {
		if (!(granules[i / 64] >> (i % 64) & 1))
			continue;
		for (uint32_t at = i << g; at < (i + 1) << g; at = (at | 63) + 1) {
			uint64_t mask = ph_mask(at % 64, g < 6 ? 1u << g : 64);
			if (word_shows(z, slot, at / 64, mask) || (at_rest && word_cached(z, slot, at / 64, mask)))
				return 1;
		}
	}
	return 0;
}

/* ---- doubts ---- */

static void drop(struct ph_host *h, uint32_t i, uint64_t frames)
{
	atomic_store(&h->z->host_doubt[2 * i], 0);
	h->doubts--;
	h->doubtful -= frames;
	h->away -= frames;
}

/* They were never with a host: the guest has counted them. */
static void clear_doubt(struct ph_host *h, uint32_t i, uint64_t frames)
{
	h->put += frames;
	drop(h, i, frames);
	ph_host_tell(h);
}

/* They are the dead host's: they go back into the tree. */
static void take_over(struct ph_host *h, uint32_t i, const struct ph_spot *at, uint64_t frames)
{
	uint64_t number;
	if (!ph_host_knows(h, at->slot, &number)) {
		h->lies++;
		clear_doubt(h, i, frames);
		return;
	}
	for (uint32_t w = 0; w < h->z->granule_words; w++)
		h->got[w] &= ~ph_host_mine(h, at->slot)[w];
	uint64_t ours = (uint64_t)ph_popcount_all(h->got, h->z->granule_words) << h->z->granule_order;
	h->put += frames - ours;
	ph_host_own(h, at->slot, number, h->got);
	drop(h, i, frames);
	h->away += ours;
	ph_host_tell(h);
	if (ours != 0)
		ph_host_release(h, at->slot, h->got, &h->away);
}

void ph_host_settle(struct ph_host *h, int at_rest)
{
	for (uint32_t i = 0; i < PH_HOST_DOUBTS && h->doubts != 0; i++) {
		struct ph_spot at = h->doubt[i];
		if (at.mask == 0)
			continue;
		uint64_t frames = granules_of(h, &at, h->got);
		int shown = shows(h->z, at.slot, h->got, at_rest);
		if (!shown && !at_rest)
			continue;
		h->doubt[i].mask = 0;
		if (shown)
			clear_doubt(h, i, frames);
		else
			take_over(h, i, &at, frames);
	}
}

void ph_host_shown(struct ph_host *h, uint32_t slot, const uint64_t *granules)
{
	for (uint32_t i = 0; i < PH_HOST_DOUBTS; i++) {
		struct ph_spot at = h->doubt[i];
		if (at.mask == 0 || at.slot != slot)
			continue;
		uint64_t frames = granules_of(h, &at, h->got), both = 0;
		for (uint32_t w = 0; w < h->z->granule_words; w++)
			both |= h->got[w] & granules[w];
		if (both == 0)
			continue;
		h->doubt[i].mask = 0;
		clear_doubt(h, i, frames);
	}
}

/* ---- taking over ---- */

static void load_doubt(struct ph_host *h, uint32_t i)
{
	struct ph_spot at;
	struct pagehint_zone *z = h->z;
	uint64_t frames = 0;
	if (read_note(z, atomic_load(&z->host_doubt[2 * i]), atomic_load(&z->host_doubt[2 * i + 1]), &at))
		frames = granules_of(h, &at, h->got);
	if (frames == 0) { /* nothing, or what no host writes: no doubt is left that nobody could settle */
		atomic_store(&z->host_doubt[2 * i], 0);
		return;
	}
	h->doubt[i] = at;
	h->doubts++;
	h->doubtful += frames;
	h->away += frames;
}

/* A summary may be behind, and a word full: whoever died has not come to that. */
static void mend(struct ph_host *h, uint32_t slot)
{
	ph_summary_mend(h->z, slot, ph_host_level(h->z));
	for (uint32_t level = ph_host_level(h->z); level < PH_WHOLE_LEVEL; level++) {
		for (uint32_t word = 0; word < PH_L0_WORDS >> (6 * level); word++) {
			uint64_t v = atomic_load(ph_zone_level_word(h->z, slot, level, word));
			if (v == PH_FULL)
				ph_host_publish(h, slot, level, word, 0);
		}
	}
}

static int keep_note(struct ph_host *h)
{
	struct pagehint_zone *z = h->z;
	uint64_t where = atomic_load(&z->host_where), mask = atomic_load(&z->host_mask);
	struct ph_spot at;
	if (!read_note(z, where, mask, &at)) {
		atomic_store(&z->host_where, 0);
		return 0;
	}
	for (uint32_t i = 0; i < PH_HOST_DOUBTS; i++) {
		if (h->doubt[i].mask != 0)
			continue;
		atomic_store(&z->host_doubt[2 * i + 1], mask);
		atomic_store(&z->host_doubt[2 * i], where);
		atomic_store(&z->host_where, 0);
		load_doubt(h, i);
		mend(h, at.slot); /* it may note a merge of its own */
		atomic_store(&z->host_where, 0);
		return 0;
	}
	return -EBUSY;
}

/* What is held of a slot for certain. */
static void load_slot(struct ph_host *h, uint32_t slot)
{
	struct pagehint_zone *z = h->z;
	uint64_t number, any = 0;
	for (uint32_t i = 0; i < z->granule_words; i++)
		any |= h->claimed[i] = atomic_load(&ph_host_held(z, slot)[i]) & ph_low_mask(ph_host_granules(z));
	if (any == 0)
		return;
	for (uint32_t i = 0; i < PH_HOST_DOUBTS; i++) {
		if (h->doubt[i].mask == 0 || h->doubt[i].slot != slot)
			continue;
		granules_of(h, &h->doubt[i], h->got);
		for (uint32_t w = 0; w < z->granule_words; w++)
			h->claimed[w] &= ~h->got[w];
	}
	if (!ph_host_knows(h, slot, &number)) {
		h->lies++;
		return;
	}
	if (ph_popcount_all(h->claimed, z->granule_words) != 0)
		ph_host_own(h, slot, number, h->claimed);
	else
		ph_host_say_mine(h, slot);
	h->held += (uint64_t)h->count[slot] << z->granule_order;
}

int ph_host_recover(struct ph_host *h)
{
	struct pagehint_zone *z = h->z;
	/* beyond what the dead host counted, so that nobody takes it for the same; whatever stands there will do */
	h->begun = h->ended = atomic_load(&z->host_begun) + 1;
	h->put = atomic_load(&z->host_put) + 1;
	for (uint32_t i = 0; i < PH_HOST_DOUBTS; i++)
		load_doubt(h, i);
	int r = keep_note(h);
	if (r < 0)
		return r;
	for (uint32_t slot = 0; slot < z->max_sections; slot++)
		load_slot(h, slot);
	h->taken = h->put + h->held + h->away;
	ph_host_tell(h);
	ph_host_settle(h, 0);
	return 0;
}
