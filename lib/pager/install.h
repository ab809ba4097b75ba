/*
 * install: puts content under pages that the caller has claimed, and gives back what could not be.
 *
 * The problem: one call of the kernel may do a part, meet a page that is there, be told to come again, or be refused for a page
 * in the middle. Why this shape: one loop that steps over what is there, goes on after a part, and ends at the first page
 * that cannot be; states are committed up to there, and the rest is released and woken, so nobody waits for it.
 * Not here: where content comes from (resolve.h). Called from: resolve.c, fill.c, inline.c.
 */
#ifndef PH_PAGER_INSTALL_H
#define PH_PAGER_INSTALL_H

#include "pager/pager.h"

enum {
	PH_INSTALL_COPY = 0,
	PH_INSTALL_ZERO = 1,
	PH_INSTALL_CONTINUE = 2,
	PH_INSTALL_MOVE = 3,
};

struct ph_install {
	struct ph_range *range;
	uint64_t first; /* page */
	uint64_t pages;
	const void *data; /* of the first page; COPY and MOVE */
	uint32_t how;     /* PH_INSTALL_* */
	uint32_t mode;    /* PH_UFFD_DONTWAKE */
	uint32_t quiet;   /* whoever waits for what is released is the caller's to know: no wake */
	uint64_t met;     /* out: pages that were there already */
};

/*
 * Installs without looking at states. Returns how many pages from the first on are settled: installed, or there already;
 * *ret_error is 0, or why it stopped: -EAGAIN come again later.
 */
uint64_t ph_install(struct pagehint_pager *p, struct ph_install *i, int *ret_error);

/*
 * The same for pages that are INFLIGHT or CLEARING and the caller's: what is CLEARING becomes zero, what is neither any more
 * is left alone. Commits what is settled, releases the rest, and wakes who waits for the rest (unless quiet).
 * Returns 0 when all is settled, else why not.
 */
int ph_install_claimed(struct pagehint_pager *p, struct ph_install *i, uint64_t *ret_settled);

/* Gives claimed pages back as they were, and wakes unless quiet. */
void ph_install_release(struct pagehint_pager *p, struct ph_range *g, uint64_t first, uint64_t pages, uint32_t quiet);

#endif
