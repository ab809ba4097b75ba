#include "report.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>

#include <pagehint/backend.h>
#include <pagehint/host.h>

/* Where a number goes. is_count: it only grows. */
struct walk {
	void *ctx;
	void (*number)(struct walk *walk, const char *group, const char *name, uint64_t value, int is_count);
};

/* A number of a struct of statistics, by its place. */
struct shown {
	const char *name;
	size_t at;
	int is_count;
};

#define SHOW(from, member, counts)                                                                    \
	{                                                                                             \
		.name = #member, .at = offsetof(struct pagehint_##from, member), .is_count = (counts) \
	}
#define COUNT(from, member) SHOW(from, member, 1)
#define GAUGE(from, member) SHOW(from, member, 0)
#define SHOWN(table) (sizeof(table) / sizeof((table)[0]))
/* a member that is added shall not be forgotten here; more: uint64_t members that are shown otherwise */
#define ALL_SHOWN(from, table, more)                                                                     \
	_Static_assert(sizeof(struct pagehint_##from) == (1 + SHOWN(table) + (more)) * sizeof(uint64_t), \
		       "a number is not shown")

static void walk_shown(struct walk *walk, const char *group, const void *numbers, const struct shown *shown, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t value;
		memcpy(&value, (const unsigned char *)numbers + shown[i].at, sizeof(value));
		walk->number(walk, group, shown[i].name, value, shown[i].is_count);
	}
}

static const struct shown vhost_shown[] = {
	GAUGE(vhost_stats, connected),      COUNT(vhost_stats, connections),    COUNT(vhost_stats, messages),
	COUNT(vhost_stats, refused),        COUNT(vhost_stats, unknown),        COUNT(vhost_stats, broken),
	COUNT(vhost_stats, kicks),          COUNT(vhost_stats, interrupts),     COUNT(vhost_stats, interrupts_lost),
	COUNT(vhost_stats, config_changes), GAUGE(vhost_stats, regions),        GAUGE(vhost_stats, memory),
	GAUGE(vhost_stats, queues_running), COUNT(vhost_stats, states_refused), GAUGE(vhost_stats, protocol_features),
};
ALL_SHOWN(vhost_stats, vhost_shown, 0);

static const struct shown device_shown[] = {
	COUNT(device_stats, kicks),
	COUNT(device_stats, popped),
	COUNT(device_stats, completed),
	COUNT(device_stats, interrupts),
	COUNT(device_stats, inflate_pages),
	COUNT(device_stats, deflate_pages),
	COUNT(device_stats, oom_pages),
	COUNT(device_stats, report_ranges),
	COUNT(device_stats, report_bytes),
	COUNT(device_stats, hint_ranges),
	COUNT(device_stats, hint_bytes),
	COUNT(device_stats, samples),
	COUNT(device_stats, batches),
	COUNT(device_stats, runs),
	COUNT(device_stats, asked),
	COUNT(device_stats, freed),
	COUNT(device_stats, absent),
	COUNT(device_stats, accepted),
	COUNT(device_stats, kept),
	COUNT(device_stats, lazy),
	COUNT(device_stats, failed),
	COUNT(device_stats, populated),
	COUNT(device_stats, populate_errors),
	COUNT(device_stats, submit_errors),
	COUNT(device_stats, rate_waits),
	COUNT(device_stats, resets),
	COUNT(device_stats, broken),
	COUNT(device_stats, log_dropped),
	GAUGE(device_stats, in_flight),
	GAUGE(device_stats, partial_pages),
};
ALL_SHOWN(device_stats, device_shown, PAGEHINT_DEVICE_DROP_COUNT);

static const struct shown progress_shown[] = {
	GAUGE(device_progress, memory_pages), GAUGE(device_progress, target_pages),
	GAUGE(device_progress, actual_pages), GAUGE(device_progress, moved_pages),
	GAUGE(device_progress, left_pages),   GAUGE(device_progress, since_ns),
	GAUGE(device_progress, still_ns),
};
ALL_SHOWN(device_progress, progress_shown, 2); /* eta_ns; state, and what is reserved beside it */

static const struct shown backend_shown[] = {
	COUNT(madvise_stats, madvise),       COUNT(madvise_stats, process_madvise), COUNT(madvise_stats, punch),
	COUNT(madvise_stats, remap),         COUNT(madvise_stats, probe),           COUNT(madvise_stats, populate),
	COUNT(madvise_stats, mappings_used),
};
ALL_SHOWN(madvise_stats, backend_shown, 0);

static void walk_vhost(struct engine *engine, struct walk *walk)
{
	struct pagehint_vhost_stats s = { .struct_size = sizeof(s) };
	if (pagehint_vhost_stats(engine->vhost, &s) == 0)
		walk_shown(walk, "vhost", &s, vhost_shown, SHOWN(vhost_shown));
}

/* "not whole host pages" -> "not_whole_host_pages" */
static void name_of(const char *text, char *name, size_t room)
{
	size_t n = 0;
	for (; *text != 0 && n + 1 < room; text++) {
		int letter = (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') ||
			     (*text >= '0' && *text <= '9');
		if (letter)
			name[n++] = *text;
		else if (n > 0 && name[n - 1] != '_')
			name[n++] = '_';
	}
	while (n > 0 && name[n - 1] == '_')
		n--;
	name[n] = 0;
}

static void walk_device(struct engine *engine, struct walk *walk)
{
	struct pagehint_device_stats s = { .struct_size = sizeof(s) };
	if (pagehint_device_stats(pagehint_vhost_device(engine->vhost), &s) != 0)
		return;
	walk_shown(walk, "device", &s, device_shown, SHOWN(device_shown));
	for (uint32_t i = 0; i < PAGEHINT_DEVICE_DROP_COUNT; i++) {
		char name[64];
		name_of(pagehint_device_drop_text(i), name, sizeof(name));
		walk->number(walk, "dropped", name, s.dropped[i], 1);
	}
}

static void walk_progress(struct engine *engine, struct walk *walk)
{
	struct pagehint_device_progress p = { .struct_size = sizeof(p) };
	if (pagehint_device_progress(pagehint_vhost_device(engine->vhost), engine->now_ns, &p) != 0)
		return;
	walk_shown(walk, "progress", &p, progress_shown, SHOWN(progress_shown));
	if (p.eta_ns != UINT64_MAX)
		walk->number(walk, "progress", "eta_ns", p.eta_ns, 0);
	walk->number(walk, "progress", "state", p.state, 0);
}

/* What the guest said last; what is not known is left out, never 0. */
static void walk_guest(struct engine *engine, struct walk *walk)
{
	static const char *const names[PAGEHINT_BALLOON_STAT_COUNT] = {
		"swap_in",     "swap_out",     "major_faults",        "minor_faults",     "free",      "total",
		"available",   "caches",       "hugetlb_allocations", "hugetlb_failures", "oom_kills", "alloc_stalls",
		"async_scans", "direct_scans", "async_reclaims",      "direct_reclaims",
	};
	struct pagehint_device_sample s = { .struct_size = sizeof(s) };
	if (pagehint_device_sample(pagehint_vhost_device(engine->vhost), engine->now_ns, &s) != 0)
		return;
	if (s.age_ns != UINT64_MAX)
		walk->number(walk, "guest", "age_ns", s.age_ns, 0);
	for (uint32_t i = 0; i < PAGEHINT_BALLOON_STAT_COUNT; i++)
		if (s.known >> i & 1)
			walk->number(walk, "guest", names[i], s.value[i], 0);
}

static void walk_rest(struct engine *engine, struct walk *walk)
{
	struct pagehint_backend *backend = pagehint_vhost_backend(engine->vhost);
	struct pagehint_madvise_stats m = { .struct_size = sizeof(m) };
	uint32_t id = 0;
	if (pagehint_madvise_stats(backend, &m) == 0)
		walk_shown(walk, "backend", &m, backend_shown, SHOWN(backend_shown));
	walk->number(walk, "hint", "state", pagehint_device_hint_state(pagehint_vhost_device(engine->vhost), &id), 0);
	walk->number(walk, "hint", "id", id, 0);
	walk->number(walk, "hint", "bytes", engine->hinted_bytes, 0);
	walk->number(walk, "hint", "ranges", engine->hinted_ranges, 0);
	walk->number(walk, "program", "pid", (uint64_t)getpid(), 0);
	walk->number(walk, "program", "restarts", engine->state->restarts, 1);
	walk->number(walk, "program", "paused", engine->state->paused, 0);
	walk->number(walk, "program", "unsaved", engine->unsaved, 1);
}

static void walk_all(struct engine *engine, struct walk *walk)
{
	walk_vhost(engine, walk);
	walk_device(engine, walk);
	walk_progress(engine, walk);
	walk_guest(engine, walk);
	walk_rest(engine, walk);
}

static void to_json(struct walk *walk, const char *group, const char *name, uint64_t value, int is_count)
{
	struct json_object *into;
	(void)is_count;
	if (!json_object_object_get_ex(walk->ctx, group, &into)) {
		into = json_object_new_object();
		json_object_object_add(walk->ctx, group, into);
	}
	json_object_object_add(into, name, json_object_new_uint64(value));
}

void report_json(struct engine *engine, struct json_object *to)
{
	struct walk walk = { to, to_json };
	walk_all(engine, &walk);
}

static void to_metric(struct walk *walk, const char *group, const char *name, uint64_t value, int is_count)
{
	fprintf(walk->ctx, "# TYPE pagehint_%s_%s%s %s\npagehint_%s_%s%s %" PRIu64 "\n", group, name,
		is_count ? "_total" : "", is_count ? "counter" : "gauge", group, name, is_count ? "_total" : "", value);
}

char *report_metrics(struct engine *engine)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	if (out == NULL)
		return NULL;
	struct walk walk = { out, to_metric };
	fputs("HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nConnection: close\r\n\r\n", out);
	walk_all(engine, &walk);
	if (fclose(out) != 0) {
		free(text);
		return NULL;
	}
	return text;
}
