/*
 * oracle: what perfect knowledge would have reached on the same placement, and what returning nothing costs.
 *
 * Two imaginary hosts watch the very frames that the zone hands out. One never gets anything back. The other gets a granule
 * of 2 MiB back at the moment at which it has been wholly free for one interval: no caches, no batches, no looks.
 * Residency counts in the unit in which the host gives memory (4 KiB, or a huge page).
 * Owns its records. Time is the trace's, in ns, and never falls.
 */
#ifndef GIVEBACK_ORACLE_H
#define GIVEBACK_ORACLE_H

#include <stdint.h>

struct oracle_granule {
	uint64_t free_since; /* meaningful while live is 0 */
	uint32_t live;       /* frames handed out */
	uint32_t resident;   /* units */
};

struct oracle {
	uint64_t frames;
	uint64_t unit_frames;
	uint64_t interval_ns;
	uint8_t *units; /* a byte a unit: TOUCHED ever, RESIDENT with the omniscient host */
	struct oracle_granule *granules;
	uint64_t never_bytes;    /* resident if nothing were ever returned */
	uint64_t resident_bytes; /* resident with the omniscient host, as of the last call */
};

int oracle_open(struct oracle *oracle, uint64_t frames, uint64_t unit_bytes, uint64_t interval_ns);
void oracle_close(struct oracle *oracle);
void oracle_alloc(struct oracle *oracle, uint64_t now_ns, uint64_t frame, uint32_t order);
void oracle_free(struct oracle *oracle, uint64_t now_ns, uint64_t frame, uint32_t order);

/* Brings resident_bytes up to this time; between two calls it is brought up where that matters for what follows. */
void oracle_advance(struct oracle *oracle, uint64_t now_ns);

#endif
