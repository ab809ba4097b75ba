/*
 * device_progress: the balloon's target and where it is on its way there.
 *
 * The problem: `actual` from the guest underflowed; slow was taken for failed, and failed for slow. Why this shape: guest
 * numbers saturate at the memory there is; progress is a page nearer than ever since the target was set; a failure is none for
 * a time. Not here: how much memory there is. Owns nothing. Unit: 4 KiB pages, ns.
 */
#ifndef PH_VIRTIO_DEVICE_PROGRESS_H
#define PH_VIRTIO_DEVICE_PROGRESS_H

#include <stdint.h>

#include <pagehint/device_control.h>

struct ph_progress {
	uint64_t target;
	uint64_t actual;
	uint64_t start; /* how far it was when the target was set */
	uint64_t best;  /* how near it came since */
	uint64_t set_ns;
	uint64_t nearer_ns;
	uint64_t stall_ns;
};

/* Returns 1 when the target is another one now. */
int ph_progress_target(struct ph_progress *p, uint64_t now_ns, uint64_t pages, uint64_t memory);
void ph_progress_actual(struct ph_progress *p, uint64_t now_ns, uint64_t pages, uint64_t memory);
void ph_progress_read(const struct ph_progress *p, uint64_t now_ns, struct pagehint_device_progress *ret);

#endif
