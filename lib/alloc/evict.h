/*
 * evict: the host's hand in a shared zone: takes wholly free granules out of the tree and puts them back, and leaves the state
 * such that whoever comes after a crash knows whose each granule is.
 *
 * The problem: the other side of the state is a guest that may write anything into it, and either side may die between any
 * two instructions. Why this shape:
 *  - The host decides by what it alone has (struct ph_host): what it took, how much, of which section. What it writes into the
 *    state is a copy for the guest, and for the next host.
 *  - It takes blocks as they lie in the tree, never a part of one: so a claim is one atomic, and there is no moment at which
 *    frames that it did not want are nowhere. What it does not want it puts back at once.
 *  - `held` (a bit a granule) says what is out of the tree by the host's doing. A claim and a put are each one atomic on
 *    another word, so for one of them at a time that bit cannot be right: host_where and host_mask name those blocks before
 *    the atomic and until the bits are right again. After a crash only they are in doubt, see recover.c.
 *  - The counts of what went out of the tree and came back are the host's own words, as those of a cache are.
 * Bounded whatever the guest writes: every index is checked or made here, no loop waits for a word to change.
 *
 * Not here: what to take and when (reclaimer.h), memory. Called from: one thread, round.c, reclaimer.c.
 * Invariants: taken - put = away + held; a granule of `mine` is counted once in away or held; `number` of a slot does not change
 * while any of it is mine, and no two slots have the same.
 */
#ifndef PH_ALLOC_EVICT_H
#define PH_ALLOC_EVICT_H

#include "alloc/zone.h"

/* blocks of one word of the tree; mask 0 = none */
struct ph_spot {
	uint32_t slot, level, word;
	uint64_t mask;
};

struct ph_host {
	struct pagehint_zone *z;
	uint64_t *mine;    /* [max_sections][granule_words] */
	uint32_t *count;   /* [max_sections] granules of it */
	uint64_t *number;  /* [max_sections] section + 1 while count is not 0 */
	uint32_t *slot_of; /* [span_sections] slot + 1 of those */
	/* scratch, granule_words each */
	uint64_t *want, *got, *claimed, *rest, *tried;
	uint64_t put, taken, begun, ended, away, held; /* frames; what the words of the zone are set to */
	uint64_t lies;                                 /* how often the state said what cannot be */
	uint64_t doubtful;                             /* frames */
	uint32_t doubts;
	struct ph_spot doubt[PH_HOST_DOUBTS];
	uint32_t top; /* slots below this may have some of mine */
};

/* bytes of the arrays, and their places in `memory` (zeroed) */
uint64_t ph_host_bytes(const struct pagehint_zone *z);
void ph_host_init(struct ph_host *h, struct pagehint_zone *z, void *memory);

/*
 * Takes what is wholly free of the granules in h->want, at most `most` [granules]. Returns how many; h->got are those. They are
 * counted as away.
 */
uint32_t ph_host_take(struct ph_host *h, uint32_t slot, uint32_t most);

/* What was taken last stays: it is counted as held. */
void ph_host_keep(struct ph_host *h, uint32_t n);

/* Granules of mine go back into the tree; they were counted in *account (h->away or h->held). */
void ph_host_release(struct ph_host *h, uint32_t slot, const uint64_t *granules, uint64_t *account);

/* The state as another host left it: 0, or -EBUSY there is no room for one more doubt (see ph_host_settle). */
int ph_host_recover(struct ph_host *h);

/*
 * Doubts that are none any longer are dropped. at_rest: nobody else is in a call on this zone, so what shows nowhere was the dead
 * host's; it goes back.
 */
void ph_host_settle(struct ph_host *h, int at_rest);

/* These were in the tree a moment ago: so they were never the dead host's. */
void ph_host_shown(struct ph_host *h, uint32_t slot, const uint64_t *granules);

/*
 * For recover.c: what lies in a place, publishing (mask 0: only merges), the words that are written for others; which section
 * a slot says that it has, and whether that can be.
 */
void ph_host_add_granules(const struct pagehint_zone *z, uint32_t level, uint32_t word, uint64_t mask, uint64_t *bits);
void ph_host_publish(struct ph_host *h, uint32_t slot, uint32_t level, uint32_t word, uint64_t mask);
void ph_host_tell(struct ph_host *h);
void ph_host_say_mine(struct ph_host *h, uint32_t slot);
void ph_host_own(struct ph_host *h, uint32_t slot, uint64_t number, const uint64_t *granules);
int ph_host_knows(const struct ph_host *h, uint32_t slot, uint64_t *ret_number);

static inline uint32_t ph_host_granules(const struct pagehint_zone *z)
{
	return PAGEHINT_SECTION_FRAMES >> z->granule_order;
}

static inline uint64_t *ph_host_mine(const struct ph_host *h, uint32_t slot)
{
	return h->mine + (uint64_t)slot * h->z->granule_words;
}

static inline ph_word *ph_host_held(const struct pagehint_zone *z, uint32_t slot)
{
	return ph_zone_words(z, slot, z->at_held);
}

static inline ph_word *ph_host_evicted(const struct pagehint_zone *z, uint32_t slot)
{
	return ph_zone_words(z, slot, z->at_evicted);
}

static inline ph_word *ph_host_filling(const struct pagehint_zone *z, uint32_t slot)
{
	return ph_zone_words(z, slot, z->at_filling);
}

/* the lowest level on which a granule is one bit or several, and how many (a power of two) */
static inline uint32_t ph_host_level(const struct pagehint_zone *z)
{
	return z->granule_order / 6;
}

static inline uint32_t ph_popcount_all(const uint64_t *bits, uint32_t words)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < words; i++)
		n += bits[i] != 0 ? ph_popcount(bits[i]) : 0;
	return n;
}

/* where: names blocks of one word by a mask, or one block; 0 = none */
#define PH_WHERE_MASK (UINT64_C(1) << 28)
#define PH_WHERE_BLOCK (UINT64_C(2) << 28)

static inline uint64_t ph_where(uint32_t slot, uint64_t kind, uint32_t level, uint32_t index)
{
	return (uint64_t)(slot + 1) << 32 | kind | (uint64_t)level << 24 | index;
}

#endif
