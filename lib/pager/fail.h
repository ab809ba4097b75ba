/*
 * fail: pages whose content cannot be had.
 *
 * The problem: a source dies, and threads wait; the easy answers are to let them wait for ever or to give them zeros.
 * Why this shape: the embedder is asked once per failure and decides; without an answer the pages are poisoned, so whoever
 * touches them learns it by a signal. Every way ends with a wake.
 * Not here: when a fetch counts as dead (watch.c). Invariants: nothing becomes zero unless the embedder said so.
 */
#ifndef PH_PAGER_FAIL_H
#define PH_PAGER_FAIL_H

#include "pager/pager.h"

/*
 * Pages [first, first + pages) are claimed by the caller and cannot be brought. Returns 0 they are zero, as the embedder
 * wished; -EHWPOISON they are poisoned; -EAGAIN they are absent again, and are to be tried later. Wakes in any case but the
 * last, where it does so unless quiet.
 */
int ph_fail(struct pagehint_pager *p, struct ph_range *g, uint64_t first, uint64_t pages, int error, uint32_t tries,
	    uint32_t quiet);

/* Poisons claimed pages; what turns out to be there stays. 0; -EAGAIN; -EOPNOTSUPP no way to; else what the kernel gave. */
int ph_poison(struct pagehint_pager *p, struct ph_range *g, uint64_t first, uint64_t pages);

/* Tells the embedder; PAGEHINT_FAIL_*. pages 0: about the shard */
uint32_t ph_fail_tell(struct pagehint_pager *p, const struct ph_range *g, uint64_t first, uint64_t pages,
		      uint32_t shard, int error, uint32_t tries);

#endif
