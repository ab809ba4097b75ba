/*
 * gate.h: the inhibit gate holds every reason why nothing may be discarded now.
 *
 * The problem: post-copy, snapshots, pinning and poison each forbid discarding for a while, and each VMM forgot one. Why
 * this shape: one object, counted named reasons, and a drained test: closing stops new discards at once and says how many
 * are in flight; only when pagehint_gate_in_flight answers 0 may memory be pinned or a snapshot be taken.
 * Not here: per-region pins (map.h has them, with the same promise per region).
 */
#ifndef PAGEHINT_GATE_H
#define PAGEHINT_GATE_H

#include <stdint.h>

#include <pagehint/api.h>
#include <pagehint/sink.h>

PAGEHINT_BEGIN

struct pagehint_gate;

/* reasons; each may be closed by several parties at once and is counted */
enum {
	PAGEHINT_INHIBIT_POSTCOPY = 0,     /* pages may still be on the other host */
	PAGEHINT_INHIBIT_SNAPSHOT = 1,     /* a snapshot is being written */
	PAGEHINT_INHIBIT_PINNED = 2,       /* a device holds pages of unknown regions */
	PAGEHINT_INHIBIT_POISON = 3,       /* the guest expects its poison to survive */
	PAGEHINT_INHIBIT_CONFIDENTIAL = 4, /* memory of a confidential guest */
	PAGEHINT_INHIBIT_EMBEDDER = 5,     /* the embedder's own */
	PAGEHINT_INHIBIT_COUNT = 6
};

/** struct pagehint_gate_stats - a snapshot */
struct pagehint_gate_stats {
	uint64_t struct_size;
	uint64_t in_flight;                      /* discards inside */
	uint64_t refused;                        /* entries refused since creation */
	uint64_t closed[PAGEHINT_INHIBIT_COUNT]; /* how many hold each reason now */
};

/**
 * pagehint_gate_new - an open gate
 * @ret_gate: the gate
 * Return: 0; -EINVAL ret_gate NULL; -ENOMEM.
 * Thread: init-only.   Cost: one allocation.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_gate_new(struct pagehint_gate **ret_gate);

/**
 * pagehint_gate_free - frees it; NULL is allowed
 * Return: 0; -EBUSY discards are in flight (nothing is changed).
 * Thread: init-only.   Cost: one free.   Since: 0.1
 */
PAGEHINT_API int pagehint_gate_free(struct pagehint_gate *gate);

/**
 * pagehint_gate_close - adds one holder of a reason; no discard starts from now on
 * @gate:          the gate
 * @reason:        PAGEHINT_INHIBIT_*
 * @ret_in_flight: discards that had started before and have not ended, or NULL
 * Return: 0; -EINVAL unknown reason.
 * Thread: any.   Cost: two atomics.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_gate_close(struct pagehint_gate *gate, uint32_t reason,
							 uint64_t *ret_in_flight);

/**
 * pagehint_gate_open - removes one holder of a reason
 * @gate: the gate
 * @reason: PAGEHINT_INHIBIT_*
 * Return: 0; -EINVAL unknown reason; -EALREADY nobody holds it.
 * Thread: any.   Cost: one atomic.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_gate_open(struct pagehint_gate *gate, uint32_t reason);

/** pagehint_gate_in_flight - discards inside; 0 = drained. Thread: any.  Cost: O(1).  Since: 0.1 */
PAGEHINT_API uint64_t pagehint_gate_in_flight(const struct pagehint_gate *gate);

/** pagehint_gate_closed - bit r set = reason r is held by somebody; 0 = open. Thread: any.  Cost: O(1).  Since: 0.1 */
PAGEHINT_API uint32_t pagehint_gate_closed(const struct pagehint_gate *gate);

/**
 * pagehint_gate_enter - begins a discard of the embedder's own, or is told why not
 * @gate:       the gate
 * @ret_reason: the first reason that holds it, or NULL; written when -EBUSY
 * Return: 0 (pagehint_gate_leave must follow); -EBUSY the gate is closed.
 * Thread: any.   Cost: one or two atomics.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_gate_enter(struct pagehint_gate *gate, uint32_t *ret_reason);

/** pagehint_gate_leave - ends what pagehint_gate_enter began. Thread: any.  Cost: one atomic.  Since: 0.1 */
PAGEHINT_API void pagehint_gate_leave(struct pagehint_gate *gate);

/**
 * pagehint_gate_stats - reads the counters
 * @gate:  the gate
 * @stats: struct_size set by the caller; the rest is written
 * Return: 0; -EINVAL struct_size below 8.
 * Thread: any.   Cost: O(1).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_gate_stats(const struct pagehint_gate *gate,
							 struct pagehint_gate_stats *stats);

/** pagehint_gate_explain - one line a held reason; none when open. Thread: any.  Cost: O(reasons).  Since: 0.1 */
PAGEHINT_API void pagehint_gate_explain(const struct pagehint_gate *gate, const struct pagehint_sink *sink);

PAGEHINT_END
#endif
