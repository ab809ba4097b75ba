/*
 * resolve: one page, whoever asks for it: a message, a signal, an exit, a range that is to be present, a fill.
 *
 * The problem: five ways in, one set of rules. Why this shape: the state of the page says what is to be done, a claim says
 * who does it, and a window around the page comes along as far as it is absent, wanted, of one kind and in one stripe.
 * Not here: messages and waiting (event.h), what happens to pages that cannot be had (fail.h).
 * Called from: event.c, inline.c, ensure.c, fill.c; from signal handlers where the source allows.
 */
#ifndef PH_PAGER_RESOLVE_H
#define PH_PAGER_RESOLVE_H

#include "pager/pager.h"

#define PH_HOW_UNKNOWN (1u << 31) /* beside the flags of a fault: nobody says which kind it is */

struct ph_ask {
	struct ph_range *range;
	uint64_t page;
	uint32_t how;       /* UFFD_PAGEFAULT_FLAG_* of the fault, or PH_HOW_UNKNOWN */
	uint32_t window;    /* pages around it, a power of two; 1 = the page alone */
	uint32_t mode;      /* PH_UFFD_DONTWAKE: the caller wakes [first, first + pages) */
	uint32_t quiet;     /* as ph_install */
	uint32_t demand;    /* a thread waits for it */
	uint32_t tries;     /* that went before */
	uint32_t moving;    /* may use the buffer that is moved in whole */
	uint32_t not_there; /* out: the file has no such page, so CONTINUE is no way */
	uint64_t first;     /* out: what was brought, page and around */
	uint64_t pages;
};

/*
 * Returns 0 the page is there; -EINPROGRESS in other hands, which will wake; -EAGAIN come again later; -EHWPOISON its content
 * is lost; -ENOENT no mapping; else what the kernel gave.
 */
int ph_resolve(struct pagehint_pager *p, struct ph_ask *ask);

/* The answer to a flight that is INSTALLING: `pages` were asked for, `bytes` came (or error). Ends the flight's pages. */
int ph_resolve_answer(struct pagehint_pager *p, struct ph_range *g, uint64_t first, uint64_t pages, const void *data,
		      uint64_t bytes, int error);

/* inline.c: the same for the calling thread, which comes back by itself. -EAGAIN also when in other hands. */
int ph_resolve_inline(struct pagehint_pager *p, struct ph_range *g, uint64_t page, uint32_t window);

/* record.c: remembers what a fault brought, where that is wanted */
void ph_record(struct pagehint_pager *p, const struct ph_range *g, uint64_t first, uint64_t pages);

#endif
