/*
 * device_state: what is in a saved state, in the order in which it is there; written by save, read by load.
 *
 * All numbers are little-endian. A header (magic, version, length of everything), the numbers of struct ph_device_state in their
 * order, n blocks of partial pages, and the CRC-32 of all before it.
 * Why this shape: one walk over one list of members does both directions, so they cannot differ. Owns nothing.
 */
#ifndef PH_VIRTIO_DEVICE_STATE_H
#define PH_VIRTIO_DEVICE_STATE_H

#include <stdint.h>

#include <pagehint/balloon.h>

#define PH_STATE_MAGIC UINT32_C(0x44424850) /* "PHBD" */
#define PH_STATE_VERSION 1u
#define PH_STATE_HEADER 12u
#define PH_STATE_WORDS (sizeof(struct ph_device_state) / sizeof(uint64_t))
#define PH_STATE_BLOCK_WORDS 10u /* guest page of the first bit; shift | level << 32; 8 words of bits */
#define PH_STATE_CRC 4u

/* every member is a number of 64 bits, whatever it needs */
struct ph_device_state {
	uint64_t negotiated;
	uint64_t features_set;
	uint64_t numbering;
	uint64_t status;
	uint64_t broken;
	uint64_t events; /* not told yet: CONFIG and NEEDS_RESET */
	uint64_t interrupts;
	uint64_t target;
	uint64_t actual;
	uint64_t start;
	uint64_t best;
	uint64_t set_ago_ns;
	uint64_t nearer_ago_ns;
	uint64_t poison;
	uint64_t hint_state;
	uint64_t hint_id;
	uint64_t hint_oldest;
	uint64_t samples;
	uint64_t sample_age_ns;
	uint64_t sample_known;
	uint64_t sample_value[PAGEHINT_BALLOON_STAT_COUNT];
	uint64_t stats_repeat;
	uint64_t queue[PAGEHINT_BALLOON_Q_COUNT]; /* avail | used << 16 | 1 << 32; 0 = it did not run */
	uint64_t blocks;
};

#endif
