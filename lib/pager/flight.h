/*
 * flight: a fetch under way: which pages, since when, and whose turn it is.
 *
 * The problem: a source may answer late, twice, never, or from another thread, while pages are being removed and a watch
 * loses patience. Why this shape: one word says generation and state; every turn (answered, revoked) is a compare-and-swap of
 * it, so exactly one party goes on. The generation is in the cookie: an answer to an earlier flight fits nothing.
 * Owns: its buffer. Invariants: while it is FETCHING, WAITING or INSTALLING, those of its pages that are INFLIGHT are its
 * own. A page that is discarded meanwhile is CLEARING, and still its own; one that an event removed is REMOVED, and never
 * becomes INFLIGHT again: so the states say what an answer is still good for.
 */
#ifndef PH_PAGER_FLIGHT_H
#define PH_PAGER_FLIGHT_H

#include "pager/pager.h"

/* Takes a free flight, not yet visible to anybody. first_too: may be the one for moving. NULL: all are in use. */
struct ph_flight *ph_flight_take(struct pagehint_pager *p, uint32_t first_too, uint64_t *ret_generation);

/* Pages are claimed: from now on it may be answered and revoked. Returns the cookie. */
uint64_t ph_flight_start(struct pagehint_pager *p, struct ph_flight *f, uint64_t generation, const struct ph_range *g,
			 uint64_t first, uint64_t pages);

/* 1: it was in state `from` and is in state `to` now. */
int ph_flight_turn(struct ph_flight *f, uint64_t generation, uint32_t from, uint32_t to);

/* 1: it has this generation and can be answered. */
int ph_flight_is(const struct ph_flight *f, uint64_t generation);

/* Gives it back; the cookie fits nothing any more. */
void ph_flight_end(struct ph_flight *f, uint64_t generation);

struct ph_flight *ph_flight_of(struct pagehint_pager *p, uint64_t cookie, uint64_t *ret_generation);

#endif
