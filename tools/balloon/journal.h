/*
 * journal: what the frontend said last of each thing, so that it can be said again to another worker.
 *
 * The problem: a frontend such as User-Mode Linux speaks once, and a worker that takes over must hear all of it. Why this shape:
 * vhost-user messages set values; the last message of each kind (a queue) is all that counts, and there is an order in which
 * they can always be said.
 * Not here: sockets. Owns: the descriptors of the messages it keeps.
 * Invariants: bounded: a place a kind, a queue, a region.
 */
#ifndef BALLOON_JOURNAL_H
#define BALLOON_JOURNAL_H

#include <stdint.h>

#include "vhost/memory.h"
#include "vhost/message.h"

#define JOURNAL_QUEUES 8u
#define JOURNAL_RING_KINDS 7u
#define JOURNAL_ONCE 6u
#define JOURNAL_PLACES (JOURNAL_ONCE + PH_VHOST_SLOTS + JOURNAL_QUEUES * JOURNAL_RING_KINDS)

struct journal {
	uint64_t protocol; /* protocol features, as last chosen */
	uint8_t used[JOURNAL_PLACES];
	struct ph_vhost_message places[JOURNAL_PLACES];
};

/*
 * Notes a message whose shape is right. Its descriptors move into the journal when it is kept.
 * Return: what is kept, valid until the next note of its kind; NULL: it is none to be said again.
 */
const struct ph_vhost_message *journal_note(struct journal *journal, const struct ph_vhost_message *message);

/* The backend answered this one: a queue that was asked for its base is stopped. */
void journal_answered(struct journal *journal, const struct ph_vhost_message *message);

/* The next message to say, from place *at on, which moves behind it; NULL: that was all. */
const struct ph_vhost_message *journal_next(const struct journal *journal, uint32_t *at);

/* 1 when the backend answers this message, with what was chosen so far. */
int journal_expects(const struct journal *journal, const struct ph_vhost_message *message);

/* Forgets everything and closes its descriptors. */
void journal_clear(struct journal *journal);

#endif
