/*
 * numbering: which queue has which index on the wire, and whether somebody serves it: one table for both.
 *
 * The problem: queue indices depend on features and on whose driver it is, and a queue existed without a handler. Why this
 * shape: one row a queue with the feature that brings it; a policy says which rows take a number, the negotiated features say
 * which of them are in use. Not here: what a queue does. Owns nothing.
 */
#ifndef PH_VIRTIO_NUMBERING_H
#define PH_VIRTIO_NUMBERING_H

#include <stdint.h>

#include <pagehint/balloon.h>

/* PAGEHINT_BALLOON_Q_* of the queue with this index; -ENOENT none, or it is not in use. */
int ph_numbering_role(uint32_t policy, uint64_t offered, uint64_t negotiated, uint32_t index);

/* One above the highest index in use. */
uint32_t ph_numbering_queues(uint32_t policy, uint64_t offered, uint64_t negotiated);

#endif
