/*
 * state: what each page of a region is, in four bits.
 *
 * The problem: faulting threads, a background fill and a discarder all want the same page, and none may wait for another.
 * Why this shape: every change is a compare-and-swap from a known state; sixteen pages share a word, so a window of 512
 * pages is claimed with 32 of them. Memory for states may be shared with a process that takes over.
 * Not here: system calls, content, who is told. Owns: nothing; the words are the region's.
 * Invariants: only who made a page INFLIGHT or CLEARING makes it something else, but for who revoked it; a page with the LEAVING
 * bit is in the hands of a discarder; PH_DIRTY stands only beside PRESENT, with or without LEAVING.
 */
#ifndef PH_PAGER_STATE_H
#define PH_PAGER_STATE_H

#include <stdatomic.h>
#include <stdint.h>

#define PH_STATE_PAGES 16u /* in a word */
#define PH_SET(state) (1u << (state))

enum {
	PH_ABSENT = 0,
	PH_INFLIGHT = 1,
	PH_PRESENT = 2,
	PH_REMOVED = 3,
	PH_LEAVING = 4,           /* a bit beside ABSENT, PRESENT and REMOVED */
	PH_POISONED = 5,          /* which INFLIGHT with that bit would be */
	PH_DIRTY = 8,             /* a bit beside PRESENT */
	PH_CLEARING = 9,          /* in flight like INFLIGHT, but removed: what comes is zero */
	PH_POISONED_LEAVING = 13, /* POISONED has the bit already */
};

/* values that no page ever has: memory in which one stands holds no states */
#define PH_STATES_NEVER (PH_SET(8) | PH_SET(11) | PH_SET(12) | PH_SET(15))

struct ph_states {
	_Atomic uint64_t *words;
	uint64_t pages;
};

/* A change: what each of the sixteen values becomes; the same = left alone. */
struct ph_change {
	uint8_t to[16];
};

extern const struct ph_change ph_change_claim;         /* ABSENT -> INFLIGHT */
extern const struct ph_change ph_change_claim_removed; /* REMOVED -> CLEARING */
extern const struct ph_change ph_change_present;       /* INFLIGHT, CLEARING -> PRESENT */
extern const struct ph_change ph_change_release;       /* INFLIGHT -> ABSENT, CLEARING -> REMOVED */
extern const struct ph_change ph_change_poisoned;      /* INFLIGHT, CLEARING -> POISONED */
extern const struct ph_change ph_change_dirty;         /* PRESENT, REMOVED -> DIRTY */
extern const struct ph_change ph_change_dirty_again;   /* PRESENT -> DIRTY */
extern const struct ph_change ph_change_clean;         /* DIRTY -> PRESENT */
extern const struct ph_change ph_change_leave;         /* LEAVING is added */
extern const struct ph_change ph_change_cancel;        /* INFLIGHT -> CLEARING */
extern const struct ph_change ph_change_stay;          /* LEAVING goes */
extern const struct ph_change ph_change_left;          /* LEAVING -> REMOVED */
extern const struct ph_change ph_change_left_some;     /* it may be gone or not: ABSENT stays so, PRESENT is DIRTY */
extern const struct ph_change ph_change_take_away;     /* anything -> REMOVED: an event said so */
extern const struct ph_change ph_change_attach;        /* nobody is left who had it in hand */

unsigned ph_state_get(const struct ph_states *s, uint64_t page);

/*
 * Changes the pages of word `word` that `mask` names (bit i = page 16 * word + i) in one step. Returns those that changed.
 */
uint32_t ph_state_word(struct ph_states *s, uint64_t word, uint32_t mask, const struct ph_change *change);

/* Changes pages [first, first + n), word by word. Returns how many changed. */
uint64_t ph_state_change(struct ph_states *s, uint64_t first, uint64_t n, const struct ph_change *change);

/* Changes adjacent pages from `first` on, as far as they change, at the most n. Returns how many. */
uint64_t ph_state_take(struct ph_states *s, uint64_t first, uint64_t n, const struct ph_change *change);

/* How many pages from `first` on, at the most n, are in one state; that state in *ret_state. */
uint64_t ph_state_run(const struct ph_states *s, uint64_t first, uint64_t n, unsigned *ret_state);

/* How many of pages [first, first + n) are in one of the states of `set` (bit v = value v). */
uint64_t ph_state_count(const struct ph_states *s, uint64_t first, uint64_t n, uint32_t set);

/* First page from `first` on, below `end`, that is in a state of `set`; end when there is none. */
uint64_t ph_state_find(const struct ph_states *s, uint64_t first, uint64_t end, uint32_t set);

#endif
