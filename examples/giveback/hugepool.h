/*
 * hugepool: the machine's pool of 2 MiB pages, and borrowing from it.
 *
 * The pool is the whole machine's. What this program adds it takes away again: when it ends, and when a signal ends it.
 * Only the number that was added is subtracted, so that what others changed meanwhile stays; a lock on the figure's own file
 * (flock) keeps programs that borrow for a while out of each other's way.
 */
#ifndef GIVEBACK_HUGEPOOL_H
#define GIVEBACK_HUGEPOOL_H

#include <stdint.h>

struct why;

/* Pages of the pool that are in use. 0 or -errno. */
int hugepool_used(uint64_t *ret_pages);

/* 0 when so many pages are free, *ret_used as above; -ENODEV with *why (which says how to get them). */
int hugepool_check(uint64_t pages, uint64_t *ret_used, struct why *why);

/*
 * Adds what is missing so that so many pages are free; waits up to a minute for another borrower. hugepool_release must
 * follow. 0; -ENODEV with *why, the pool as before.
 */
int hugepool_reserve(uint64_t pages, struct why *why);

/* Pages that were added and not taken away yet: 0 when enough were free. */
uint64_t hugepool_added(void);

/* Takes away what hugepool_reserve added, if anything. */
void hugepool_release(void);

#endif
