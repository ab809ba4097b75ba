/*
 * origin: who supplies free runs; the inside of pagehint/origin.h.
 * Owns: a copy of the ops table. Called from: the reporter only.
 */
#ifndef PH_REPORT_ORIGIN_H
#define PH_REPORT_ORIGIN_H

#include <pagehint/origin.h>

/* The table and its ctx are read directly by the reporter: an origin has no state of its own. */
struct pagehint_origin {
	struct pagehint_origin_ops ops; /* frame_shift is never 0 here */
	void *ctx;
};

#endif
