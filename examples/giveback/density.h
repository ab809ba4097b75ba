/*
 * density: how many bits of metadata a zone needs for each frame, everything included.
 */
#ifndef GIVEBACK_DENSITY_H
#define GIVEBACK_DENSITY_H

#include "backing.h"
#include "results.h"

/* Adds zone.metadata_bits_per_frame.untracked and .tracked: a zone of many sections, granules of 2 MiB. 0 or -errno. */
int density_measure(struct results *results, struct why *why);

#endif
