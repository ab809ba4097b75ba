/*
 * tally: how often memory was given back for nothing.
 *
 * Three sums in bytes, from nothing but what was handed out and what was given back:
 *     rereported        a whole granule, or what a run covers of one, given back again although none of its frames had been
 *                       handed out since the time before
 *     resent_untouched  single frames given back again without having been handed out since
 *     refault           handed out again after having been given back: the host has to supply them anew
 */
#ifndef GIVEBACK_TALLY_H
#define GIVEBACK_TALLY_H

#include <stdint.h>

struct pagehint_run;

struct tally {
	uint8_t *given_back; /* a byte a frame: it was given back and has not been handed out since */
	uint64_t frames;
	uint64_t rereported;
	uint64_t resent_untouched;
	uint64_t refault;
};

int tally_open(struct tally *tally, uint64_t frames);
void tally_close(struct tally *tally);
void tally_alloc(struct tally *tally, uint64_t frame, uint32_t order);
void tally_discard(struct tally *tally, const struct pagehint_run *run);

#endif
