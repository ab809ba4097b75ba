/*
 * inflight: the area that a frontend keeps for us while we are restarted.
 *
 * The problem: a frontend that can reconnect wants to hand the next process what the last one left of each queue. Why this
 * shape: the balloon uses the buffers of a queue in the order in which they came, so the used index in the guest's memory
 * says it all, and what is not acknowledged is done again; the area holds only what the protocol asks for (features, version,
 * size and that used index, a queue), so that a frontend which refuses to work without one is served.
 * Owns: the mapping of the area; its descriptor is the frontend's, and is closed once it is mapped.
 * Invariants: nothing that stands in the area is believed.
 * Source: QEMU, docs/interop/vhost-user, "Inflight I/O tracking"
 */
#ifndef PH_VHOST_INFLIGHT_H
#define PH_VHOST_INFLIGHT_H

#include <stdint.h>

#include "base/sys.h"
#include "vhost/message.h"

#define PH_INFLIGHT_QUEUES 16u /* at the most */

struct ph_vhost_inflight {
	void *at; /* NULL = none */
	uint64_t bytes;
	uint32_t queues;
	uint32_t queue_size;
};

/*
 * A new area, zeroed, as the frontend asks for it.
 * Return: 0; -EINVAL no queue, too many, or a size that no ring has; else what memfd_create or mmap gave.
 */
int ph_vhost_inflight_make(struct ph_vhost_inflight *inflight, const struct ph_sys *sys,
			   struct ph_vhost_inflight_said *said, int *ret_fd);

/* Takes an area, and closes fd. Return: 0; -EINVAL too small, past the end of its file, misaligned; else what mmap gave. */
int ph_vhost_inflight_take(struct ph_vhost_inflight *inflight, const struct ph_sys *sys,
			   const struct ph_vhost_inflight_said *said, int fd);

void ph_vhost_inflight_drop(struct ph_vhost_inflight *inflight, const struct ph_sys *sys);

/* Notes how far a queue is. Nothing where there is no area, or not for this queue. */
void ph_vhost_inflight_note(const struct ph_vhost_inflight *inflight, uint32_t index, uint64_t features, uint16_t used);

#endif
