/*
 * zone_witness.h: sees what the threads of a play do with a zone, and says what cannot be right: a frame that two have, a refusal
 * though there was something all the time, a granule that the reporter forgot or took too young.
 *
 * It is told when each call begins and ends. In between nobody knows what a call has done already; so everything here gives a
 * call under way the benefit of the doubt, and what it says is wrong is wrong. All of it calls turn_fault.
 */
#ifndef TESTS_SUPPORT_ZONE_WITNESS_H
#define TESTS_SUPPORT_ZONE_WITNESS_H

#include <stdint.h>

#include <pagehint/zone.h>

#define WITNESS_HELD 256u
#define WITNESS_NOBODY 99u

enum {
	WITNESS_GONE = 0,
	WITNESS_OUT,
	WITNESS_ISOLATED,
	WITNESS_GIVING /* being given back: may be somebody else's already */
};

struct witness_held {
	uint64_t frame, frames;
	uint32_t thread; /* WITNESS_NOBODY: from before the play */
	uint32_t order;  /* above PAGEHINT_ORDER_MAX: a run */
	uint32_t what;   /* WITNESS_* */
};

/* what is held; entries are in the order in which they came */
extern struct witness_held witness_held[WITNESS_HELD];
extern uint32_t witness_n;

/* Before a play: nothing is present, nothing held. What happens up to witness_mark_start is from before. */
void witness_open(struct pagehint_zone *zone);
void witness_mark_start(void);
void witness_rewind(void); /* to witness_mark_start */

/* Has somebody any of these frames? */
int witness_is_out(uint64_t frame, uint64_t frames);

/* frames that are present and held by nobody */
uint64_t witness_unheld(void);

/*
 * A call begins that wants blocks of this order, or `contig` adjacent frames (order above PAGEHINT_ORDER_MAX); it may have up
 * to `most` frames in hand before it ends.
 */
void witness_wants(uint32_t thread, uint32_t order, uint64_t contig, uint64_t most);
/* It ended with this. */
void witness_ended(uint32_t thread, int r);
/* It got this (before witness_ended). */
void witness_got(uint32_t thread, uint64_t frame, uint64_t frames, uint32_t order);

/* The newest thing of this kind that the thread has, or the n-th from before the play; NULL = none. */
struct witness_held *witness_newest(uint32_t thread, uint32_t what);
struct witness_held *witness_old(uint32_t n);

/* It is given back: before the call, and after it. */
void witness_gives(struct witness_held *h);
void witness_gave(struct witness_held *h, int r);

/* Sections. */
void witness_adds(uint64_t frame, uint64_t frames);
void witness_added(uint64_t frame, uint64_t frames, int r);
void witness_removes(uint64_t frame, uint64_t frames);
void witness_removed(uint64_t frame, uint64_t frames, int r);

/* A look at everything has ended: what it took, one by one (`aged`: only what has aged), then the rest. */
void witness_isolated(uint32_t thread, uint64_t frame, uint64_t frames, int aged);
void witness_looked(void);
void witness_reports(uint64_t frame, uint64_t frames);

/* At the end of a run: all that the witness keeps, as a number. */
uint64_t witness_mark(void);
/* No granule that was handed out since its report is forgotten. */
void witness_check_sets(void);

#endif
