/*
 * device_hint: the state of free page hint runs.
 *
 * The problem: a guest began a run that nobody had asked for, or went on with an old one; an id was used again while the guest
 * still had the last run under it. Why this shape: a run begins only from REQUESTED and only with its own id; ids count up, and
 * one whose run the guest has not ended with STOP is not given out again.
 * Not here: the pages, the queue. Owns nothing. Source: virtio 1.3, section 5.5.6.7.
 */
#ifndef PH_VIRTIO_DEVICE_HINT_H
#define PH_VIRTIO_DEVICE_HINT_H

#include <stdint.h>

struct ph_hint {
	uint32_t state;  /* PAGEHINT_DEVICE_HINT_* */
	uint32_t id;     /* of the last run; 0 = there was none */
	uint32_t oldest; /* the oldest run that the guest has not ended; 0 = none */
};

#define PH_HINT_FIRST 2u /* ids 0 and 1 are STOP and DONE */

/* what the config space says */
uint32_t ph_hint_cmd_id(const struct ph_hint *hint);
/* A new run. Returns 0; -EBUSY one is on; -EAGAIN every id is taken. */
int ph_hint_start(struct ph_hint *hint);
int ph_hint_stop(struct ph_hint *hint); /* -EALREADY no run is on */
int ph_hint_done(struct ph_hint *hint); /* -EALREADY it is so */
/* The guest sent an id. Returns 1 the state changed; 0 it did not; -EINVAL an id of no run that was asked for. */
int ph_hint_command(struct ph_hint *hint, uint32_t id, int auto_done);

#endif
