/*
 * balloon: a balloon device in the same process, so that a driver can be run and watched without a hypervisor.
 *
 * The problem: an example, or a bench, wants the real driver at work, and a host that can be asked what it saw. Why this
 * shape: a transport over plain variables; a notification is served at once, in the caller's thread. It has split rings, with
 * indirect tables and event suppression, and trusts the driver, as no real device may.
 * Owns: nothing but itself. Not here: what giving back means: that is `discard`.
 */
#ifndef EXAMPLES_AGENT_BALLOON_H
#define EXAMPLES_AGENT_BALLOON_H

#include <stddef.h>
#include <stdint.h>

#include <pagehint/balloon.h>
#include <pagehint/virtio.h>

#define BALLOON_RING 128u

struct balloon_queue {
	struct pagehint_virtio_queue at;
	uint16_t seen; /* entries of the available ring that were served */
	uint16_t used;
};

struct balloon_ask {
	void *ctx;
	/* these bytes of the guest are not needed any more, or (is_back) needed again */
	void (*discard)(void *ctx, uint64_t addr, uint64_t bytes, int is_back);
	unsigned char *dma; /* what driver and device share */
	uint64_t dma_address;
	uint64_t features;    /* offered; 0 = reporting, deflate on OOM, indirect tables, event suppression */
	uint32_t report_ring; /* entries; 0 = BALLOON_RING */
};

struct balloon {
	struct balloon_ask ask;
	struct balloon_queue queues[PAGEHINT_BALLOON_Q_COUNT];
	uint64_t features; /* negotiated */
	uint32_t status;
	uint32_t generation;
	uint32_t config[4]; /* num_pages, actual, .. */
	uint64_t kicks;
	uint64_t reported;              /* bytes */
	uint64_t buffers;               /* that were reported */
	uint64_t memory[64];            /* of the handle */
	struct pagehint_virtio *virtio; /* for pagehint_driver_init */
};

/* 0 or -errno */
int balloon_open(struct balloon *b, const struct balloon_ask *ask);

/* The host wants so many pages of 4 KiB. */
void balloon_want(struct balloon *b, uint32_t pages);

#endif
