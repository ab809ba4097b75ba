/*
 * run.h: a run is a number of adjacent frames. It is the unit everything but the allocator's fast path works in.
 *
 * A frame is 2^frame_shift bytes, 4 KiB unless the object says otherwise; frame numbers are guest-physical.
 */
#ifndef PAGEHINT_RUN_H
#define PAGEHINT_RUN_H

#include <stdint.h>

/** struct pagehint_run - frames [frame, frame + frames). frames is never 0 in a run that is handed out. */
struct pagehint_run {
	uint64_t frame;  /* first frame [frame number] */
	uint64_t frames; /* how many [frames] */
};

#endif
