/*
 * density: how many bits of metadata a zone needs for each frame, everything included.
 */
#ifndef GIVEBACK_DENSITY_H
#define GIVEBACK_DENSITY_H

#include "backing.h"
#include "results.h"

/*
 * Adds zone.metadata_bits_per_frame.untracked, .tracked (the default), .ladder and .strict (tracked, with that flag): the same
 * zone of many sections each time, granules of 2 MiB. 0 or -errno with *why.
 */
int density_measure(struct results *results, struct why *why);

#endif
