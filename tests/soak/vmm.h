/*
 * vmm: the host's side of the soak's machine: the device engine over the guest's memory with a madvise backend, behind a transport
 * whose registers the driver's thread calls, while kicks and the device's own work are done by a thread of its own.
 *
 * The lock is the VMM's, as one that has its device on its I/O thread needs one: calls on the device are one at a time. Rings and
 * memory are shared without it.
 */
#ifndef TESTS_SOAK_VMM_H
#define TESTS_SOAK_VMM_H

#include <pagehint/device.h>
#include <pagehint/device_control.h>
#include <pagehint/gate.h>
#include <pagehint/map.h>
#include <pagehint/virtio.h>

#include "soak.h"
#include "taker.h"

#define VMM_QUEUES 5u
#define VMM_BLOB 65536u

struct vmm {
	const char *part;
	struct taker taker; /* of the device's backend */
	struct content *content;
	unsigned char *dma; /* what driver and device share: rings and lists, pinned */
	uint64_t dma_frame, dma_bytes;
	struct pagehint_map *map;
	struct pagehint_gate *gate;
	struct pagehint_device *device;
	pthread_mutex_t lock;
	_Atomic uint32_t kicks; /* bit i: queue i */
	_Atomic uint32_t generation;
	_Atomic uint64_t now;
	struct pagehint_virtio_queue at[VMM_QUEUES]; /* queues as the driver set them up */
	uint32_t is_set[VMM_QUEUES];
	int gate_closed;
	uint64_t memory[64]; /* of the transport's handle */
	struct pagehint_virtio *virtio;
	uint64_t gone, kept; /* bytes, of the devices before this one */
	uint64_t restores, resets;
};

/* Memory [0, content's base) and the pages for rings behind it. 0 or -errno. */
int vmm_open(struct vmm *v, const char *part, struct content *content, uint64_t dma_bytes);
int vmm_turn(void *vmm, struct soak_member *m);
/* Everybody rests: nothing was dropped that a sound driver does not send, and what was asked is accounted for. */
void vmm_walk(struct vmm *v);
/* Everybody rests: the state is saved, the device freed, and another goes on with it. */
void vmm_restore(struct vmm *v);
void vmm_close(struct vmm *v);

#endif
