/*
 * pager_backend.h: a backend that tells a pager, then has another backend discard.
 *
 * The problem: memory that comes in lazily may be on its way while it is given away. Why this shape: the reporter and the
 * device know backends and no pagers; so the pager stands in front of a backend, as one.
 * Invariants: a discard never waits for a flight, nor for whoever serves the pager; what it marked is unmarked when it ends.
 */
#ifndef PAGEHINT_PAGER_BACKEND_H
#define PAGEHINT_PAGER_BACKEND_H

#include <stddef.h>
#include <stdint.h>

#include <pagehint/api.h>
#include <pagehint/backend.h>
#include <pagehint/pager.h>

PAGEHINT_BEGIN

/**
 * pagehint_pager_backend_new - a backend that tells a pager, then has another backend discard
 * @pager:       borrowed
 * @inner:       synchronous; borrowed, used by nobody else meanwhile
 * @opts:        NULL for defaults; frame_shift must be 0 or the pager's
 * @ret_backend: the handle
 *
 * Runs outside the pager's regions go to `inner` as they are. Inside, pages are marked, what is in flight is kept (in
 * flight), the rest goes to `inner`, and reads as zero when it is touched again. Content of a page that was in flight is
 * the source's, or zero. It never waits. PAGEHINT_DISCARD_ZERO zeroes what is present and kept; not what is in flight.
 * Return: 0; -EINVAL a pointer is NULL, frame sizes differ, or the memory is another process's; -EOPNOTSUPP inner is
 * asynchronous; -E2BIG; -ENOMEM.
 * Thread: init-only.   Cost: two allocations.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_pager_backend_new(struct pagehint_pager *pager,
								struct pagehint_backend *inner,
								const struct pagehint_backend_opts *opts,
								struct pagehint_backend **ret_backend);

PAGEHINT_END
#endif
