/*
 * driver_numbers: which queue has which index on the wire, and how to find out what the device thinks.
 *
 * Devices number their queues before anything is negotiated, by what they offer; so which policy a device has can be seen
 * from which queues it has. Where two policies give every queue the same index it does not matter which is named.
 * Source: OASIS virtio 1.3, section 5.5.2, and the behaviour of QEMU, Firecracker, crosvm and cloud-hypervisor.
 */
#include "virtio/driver.h"

static const uint64_t feature_of[PAGEHINT_BALLOON_Q_COUNT] = {
	0, 0, PAGEHINT_BALLOON_F_STATS_VQ, PAGEHINT_BALLOON_F_FREE_PAGE_HINT, PAGEHINT_BALLOON_F_PAGE_REPORTING,
};

void ph_driver_number(uint32_t policy, uint64_t offered, uint64_t negotiated, uint32_t *ret_index)
{
	uint64_t counted = policy == PAGEHINT_BALLOON_NUMBERING_NEGOTIATED ? negotiated : offered;
	uint32_t next = 0;
	for (uint32_t q = 0; q < PAGEHINT_BALLOON_Q_COUNT; q++) {
		int is_there = feature_of[q] == 0 || (counted & feature_of[q]) != 0 ||
			       (policy == PAGEHINT_BALLOON_NUMBERING_QEMU && q == PAGEHINT_BALLOON_Q_STATS);
		ret_index[q] = is_there ? next : UINT32_MAX;
		if (is_there || policy == PAGEHINT_BALLOON_NUMBERING_SPEC)
			next++;
	}
}

uint32_t ph_driver_find_numbering(const struct pagehint_virtio *virtio, uint64_t offered)
{
	static const uint32_t policies[] = { PAGEHINT_BALLOON_NUMBERING_SPEC, PAGEHINT_BALLOON_NUMBERING_OFFERED,
					     PAGEHINT_BALLOON_NUMBERING_QEMU };
	uint32_t seen = 0, exact = PAGEHINT_BALLOON_NUMBERING_COUNT, found = PAGEHINT_BALLOON_NUMBERING_QEMU;
	for (uint32_t i = 0; i < PAGEHINT_BALLOON_Q_COUNT; i++)
		if (virtio->ops.queue_max(virtio->ctx, i) != 0)
			seen |= 1u << i;
	for (uint32_t p = 0; p < 3; p++) {
		uint32_t index[PAGEHINT_BALLOON_Q_COUNT], claimed = 0;
		ph_driver_number(policies[p], offered, 0, index);
		for (uint32_t q = 0; q < PAGEHINT_BALLOON_Q_COUNT; q++)
			if (index[q] != UINT32_MAX)
				claimed |= 1u << index[q];
		if (claimed == seen)
			exact = policies[p];
		/* with queues to spare: one beyond the dense numbers is there for those who leave gaps */
		if (policies[p] == PAGEHINT_BALLOON_NUMBERING_SPEC && (claimed & ~seen) == 0)
			found = policies[p];
	}
	return exact != PAGEHINT_BALLOON_NUMBERING_COUNT ? exact : found;
}
