/*
 * zone_bytes.h: what is in the frames of a play: the first ones of each section have a byte, which whoever had them has written
 * to. Nobody who wants zeroes may find anything else, and nothing is zeroed that somebody has (zone_witness.h).
 */
#ifndef TESTS_SUPPORT_ZONE_BYTES_H
#define TESTS_SUPPORT_ZONE_BYTES_H

#include <stdint.h>

#include <pagehint/scrub.h>

extern const struct pagehint_scrubber bytes_scrubber;

void bytes_open(int stale);                        /* before a play: everything is zero, or was somebody's */
void bytes_mark_start(void);                       /* as they are now ... */
void bytes_rewind(void);                           /* ... and again */
uint64_t bytes_mark(void);                         /* all of them, as a number */
void bytes_write(uint64_t frame, uint64_t frames); /* the owner, before it gives them back */
void bytes_must_be_zero(uint64_t frame, uint64_t frames);

#endif
