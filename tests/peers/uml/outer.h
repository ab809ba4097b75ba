/*
 * outer: a backend around the library's own, through which a device can be made wrong on purpose.
 *
 * Why: a suite that finds no harm must be shown to find it when it is done. Never part of an installed program.
 * Each variant defines `wrong_discard`; the rest (extents, life) is here.
 */
#ifndef TESTS_PEERS_UML_OUTER_H
#define TESTS_PEERS_UML_OUTER_H

#include "engine.h"

#include <pagehint/backend.h>
#include <pagehint/map.h>

struct outer {
	struct pagehint_backend *inner;
	struct pagehint_map *map;
};

/* What a variant does instead of discarding one run. */
void wrong_discard(struct outer *outer, const struct pagehint_run *run);

/* The one that was made last, for variants that act at other times. */
extern struct outer *outer_latest;

/* Gives a run back for good. */
void outer_discard(struct outer *outer, const struct pagehint_run *run);

#endif
