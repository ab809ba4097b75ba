/*
 * zone_host.h: the host of a shared zone in a play, by the host's own steps (alloc/evict.h), and what a guest asks it for. Sees
 * whether memory that the host discarded is used before it is installed, or installed twice. Does nothing on any other zone.
 */
#ifndef TESTS_SUPPORT_ZONE_HOST_H
#define TESTS_SUPPORT_ZONE_HOST_H

#include <stdint.h>

#include "support/zone_witness.h"

void host_open(struct pagehint_zone *zone);
void host_mark_start(void); /* as it is now ... */
void host_rewind(void);     /* ... and again */
uint64_t host_mark(void);   /* what it has, as a number */

/* Takes free granules, at most n: keeps them, or discards them and puts them back. */
void host_takes(uint32_t who, uint32_t n, int keeps);
/* All that it keeps goes back. */
void host_restores(void);
/* The guest wants memory behind what it has; NULL = it got nothing. */
void host_is_asked(const struct witness_held *h);

#endif
