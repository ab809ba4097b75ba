/*
 * device_sample: the guest's statistics: a list of {tag, value} in any order, and how old it is.
 *
 * The problem: hosts showed numbers hours old, or -1, as if they were known. Why this shape: known is a bit a tag; a new sample
 * replaces all of the last one; age is the reader's to judge. Not here: when to ask. Owns nothing.
 * Invariants: unknown tags are counted and skipped; a list that never ends is cut after PH_SAMPLE_ENTRIES.
 */
#ifndef PH_VIRTIO_DEVICE_SAMPLE_H
#define PH_VIRTIO_DEVICE_SAMPLE_H

#include <stdint.h>

#include <pagehint/balloon.h>

#define PH_SAMPLE_ENTRIES 256u

struct ph_sample {
	uint64_t value[PAGEHINT_BALLOON_STAT_COUNT];
	uint64_t known;
	uint64_t at_ns;    /* when it came, or came with a saved state */
	uint64_t older_ns; /* how old it was then */
	uint64_t samples;
};

/* UINT64_MAX: there is none */
uint64_t ph_sample_age(const struct ph_sample *sample, uint64_t now_ns);
/* Takes `bytes` of a list (as much of it as is wanted). Returns how many entries had an unknown tag. */
uint32_t ph_sample_take(struct ph_sample *sample, uint64_t now_ns, const uint8_t *list, uint32_t bytes);

#endif
