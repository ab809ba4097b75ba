/*
 * queue: the batches that are filled or in flight, each with its runs and its cookie; room is fixed when it is made.
 *
 * The problem: a backend may answer late, out of order, twice, or with a cookie nobody gave out, and every frame must come
 * back to its owner exactly once. Why this shape: a slot is free, filled or in flight; a cookie holds the slot and a serial
 * number that is never used again, so a stale answer finds nothing.
 * Owns: nothing; the memory is the caller's. Called from: the cycle only.
 * Invariants: `frames` = sum over slots in flight; at most one slot is being filled.
 */
#ifndef PH_REPORT_QUEUE_H
#define PH_REPORT_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include <pagehint/run.h>

#define PH_QUEUE_SLOTS_MAX 64u

enum { PH_BATCH_FREE = 0, PH_BATCH_FILLED = 1, PH_BATCH_OUT = 2 };

struct ph_batch {
	uint64_t cookie;
	uint64_t frames;  /* sum of runs */
	uint64_t sent_ns; /* when it was submitted */
	uint32_t n;       /* runs */
	uint32_t state;   /* PH_BATCH_* */
	struct pagehint_run *runs;
};

struct ph_queue {
	struct ph_batch *slots;
	uint64_t frames; /* in flight */
	uint64_t serial;
	uint32_t n_slots;
	uint32_t max_runs;
	uint32_t in_flight; /* slots */
	uint32_t reserved;
};

/* bytes of memory for n_slots batches of max_runs; 0 = does not fit an address space */
size_t ph_queue_size(uint32_t n_slots, uint32_t max_runs);
/* mem: ph_queue_size bytes, 8-byte aligned, zeroed */
void ph_queue_init(struct ph_queue *queue, void *mem, uint32_t n_slots, uint32_t max_runs);

struct ph_batch *ph_queue_open(struct ph_queue *queue); /* an empty batch with a fresh cookie, NULL = no room */
void ph_queue_add(struct ph_batch *batch, const struct pagehint_run *run); /* room is the caller's care */
void ph_queue_launch(struct ph_queue *queue, struct ph_batch *batch, uint64_t now_ns);
struct ph_batch *ph_queue_find(struct ph_queue *queue, uint64_t cookie); /* in flight, or NULL */
struct ph_batch *ph_queue_oldest(const struct ph_queue *queue);          /* in flight, or NULL */
void ph_queue_close(struct ph_queue *queue, struct ph_batch *batch);     /* filled or in flight -> free */

#endif
