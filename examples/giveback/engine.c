#include "engine.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <pagehint/host.h>

#include "pattern.h"

static int failed(struct why *why, const char *call, int rc)
{
	if (rc)
		snprintf(why->text, sizeof(why->text), "%s: %s", call, strerror(-rc));
	return rc;
}

static int open_map(struct engine *engine, const struct backing *backing, struct why *why)
{
	struct pagehint_region_desc region = {
		.struct_size = sizeof(region),
		.frame = 0,
		.frames = backing->bytes >> PAGE_SHIFT,
		.host_addr = (uint64_t)(uintptr_t)backing->base,
		.fd = backing->fd,
		.backing = backing_claim(backing->kind),
	};
	int rc = failed(why, "pagehint_map_new", pagehint_map_new(NULL, &engine->map));

	return rc ? rc : failed(why, "pagehint_map_add", pagehint_map_add(engine->map, &region, &engine->region));
}

static int open_zone(struct engine *engine, const struct engine_ask *ask, struct why *why)
{
	uint64_t frames = ask->backing->bytes >> PAGE_SHIFT;
	struct pagehint_zone_opts opts = {
		.struct_size = sizeof(opts),
		.max_sections = (frames + PAGEHINT_SECTION_FRAMES - 1) / PAGEHINT_SECTION_FRAMES,
		.flags = ask->zone_flags,
	};
	int rc = failed(why, "pagehint_zone_new", pagehint_zone_new(&opts, &engine->zone));

	if (!rc)
		rc = failed(why, "pagehint_zone_add", pagehint_zone_add(engine->zone, 0, frames));
	if (!rc)
		rc = failed(why, "pagehint_cache_open", pagehint_cache_open(engine->zone, &engine->cache));
	return rc;
}

static int open_reporter(struct engine *engine, const struct engine_ask *ask, struct why *why)
{
	struct pagehint_reporter_opts opts = {
		.struct_size = sizeof(opts),
		.interval_ns = ask->interval_ns,
		.flags = ask->reporter_flags,
	};
	int rc = failed(why, "pagehint_zone_origin_new", pagehint_zone_origin_new(engine->zone, &engine->origin));

	return rc ? rc
		  : failed(why, "pagehint_reporter_new",
			   pagehint_reporter_new(engine->origin, engine->backend, &opts, &engine->reporter));
}

int engine_open(struct engine *engine, const struct engine_ask *ask, struct why *why)
{
	struct pagehint_backend_opts opts = { .struct_size = sizeof(opts), .hooks = ask->hooks };
	struct why ignored;
	int rc;

	*engine = (struct engine) { 0 };
	rc = open_map(engine, ask->backing, why);
	if (!rc)
		rc = failed(why, "pagehint_madvise_new",
			    pagehint_madvise_new(engine->map, NULL, &opts, &engine->backend));
	if (!rc)
		rc = open_zone(engine, ask, why);
	if (!rc)
		rc = open_reporter(engine, ask, why);
	if (rc)
		engine_close(engine, 0, &ignored);
	return rc;
}

int engine_close(struct engine *engine, uint64_t now_ns, struct why *why)
{
	uint64_t deadline;
	int rc = 0;

	if (engine->reporter) {
		rc = failed(why, "pagehint_reporter_stop", pagehint_reporter_stop(engine->reporter, now_ns, &deadline));
		rc = rc ? rc : failed(why, "pagehint_reporter_free", pagehint_reporter_free(engine->reporter));
	}
	if (rc)
		return rc; /* what it still uses must stay */
	pagehint_origin_free(engine->origin);
	pagehint_cache_close(engine->cache);
	pagehint_zone_destroy(engine->zone);
	rc = engine->backend ? failed(why, "pagehint_backend_free", pagehint_backend_free(engine->backend)) : 0;
	if (!rc)
		rc = failed(why, "pagehint_map_free", pagehint_map_free(engine->map));
	*engine = (struct engine) { 0 };
	return rc;
}
