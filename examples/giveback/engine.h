/*
 * engine: the library as a VMM puts it together: a zone whose free frames a reporter gives back through the madvise backend.
 *
 * This is the part to read when you want to use libpagehint: one region in a map, one backend, one zone with a cache, one
 * reporter. Owns what it makes; the memory is the backing's.
 */
#ifndef GIVEBACK_ENGINE_H
#define GIVEBACK_ENGINE_H

#include <stdint.h>

#include <pagehint/backend.h>
#include <pagehint/cache.h>
#include <pagehint/map.h>
#include <pagehint/origin.h>
#include <pagehint/reporter.h>
#include <pagehint/zone.h>

#include "backing.h"

struct engine {
	struct pagehint_map *map;
	uint64_t region;
	struct pagehint_backend *backend;
	struct pagehint_zone *zone;
	struct pagehint_cache *cache;
	struct pagehint_origin *origin;
	struct pagehint_reporter *reporter;
};

struct engine_ask {
	const struct backing *backing;
	const struct pagehint_hooks *hooks; /* NULL = none */
	uint64_t interval_ns;
	uint32_t zone_flags;
	uint32_t reporter_flags;
};

/* 0 or -errno with *why filled; what was made is closed again then. */
int engine_open(struct engine *engine, const struct engine_ask *ask, struct why *why);

/* 0, or -errno with *why: something would not let go, which is a defect. */
int engine_close(struct engine *engine, uint64_t now_ns, struct why *why);

#endif
