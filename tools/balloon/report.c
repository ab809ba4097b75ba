#include "report.h"

#include <inttypes.h>
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

#define COUNT(group, from, member) walk->number(walk, group, #member, (from).member, 1)
#define GAUGE(group, from, member) walk->number(walk, group, #member, (from).member, 0)

static void walk_vhost(struct engine *engine, struct walk *walk)
{
	struct pagehint_vhost_stats s = { .struct_size = sizeof(s) };
	if (pagehint_vhost_stats(engine->vhost, &s) != 0)
		return;
	GAUGE("vhost", s, connected);
	COUNT("vhost", s, messages);
	COUNT("vhost", s, refused);
	COUNT("vhost", s, unknown);
	COUNT("vhost", s, kicks);
	COUNT("vhost", s, interrupts);
	COUNT("vhost", s, interrupts_lost);
	COUNT("vhost", s, config_changes);
	GAUGE("vhost", s, regions);
	GAUGE("vhost", s, memory);
	GAUGE("vhost", s, queues_running);
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
	COUNT("device", s, popped);
	COUNT("device", s, completed);
	COUNT("device", s, inflate_pages);
	COUNT("device", s, deflate_pages);
	COUNT("device", s, oom_pages);
	COUNT("device", s, report_ranges);
	COUNT("device", s, report_bytes);
	COUNT("device", s, hint_ranges);
	COUNT("device", s, hint_bytes);
	COUNT("device", s, samples);
	COUNT("device", s, batches);
	COUNT("device", s, runs);
	COUNT("device", s, asked);
	COUNT("device", s, freed);
	COUNT("device", s, absent);
	COUNT("device", s, accepted);
	COUNT("device", s, kept);
	COUNT("device", s, failed);
	COUNT("device", s, rate_waits);
	COUNT("device", s, resets);
	COUNT("device", s, broken);
	GAUGE("device", s, in_flight);
	GAUGE("device", s, partial_pages);
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
	GAUGE("progress", p, memory_pages);
	GAUGE("progress", p, target_pages);
	GAUGE("progress", p, actual_pages);
	GAUGE("progress", p, left_pages);
	GAUGE("progress", p, still_ns);
	if (p.eta_ns != UINT64_MAX)
		GAUGE("progress", p, eta_ns);
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
		GAUGE("guest", s, age_ns);
	for (uint32_t i = 0; i < PAGEHINT_BALLOON_STAT_COUNT; i++)
		if (s.known >> i & 1)
			walk->number(walk, "guest", names[i], s.value[i], 0);
}

static void walk_rest(struct engine *engine, struct walk *walk)
{
	struct pagehint_backend *backend = pagehint_vhost_backend(engine->vhost);
	struct pagehint_madvise_stats m = { .struct_size = sizeof(m) };
	uint32_t id = 0;
	if (pagehint_madvise_stats(backend, &m) == 0) {
		COUNT("backend", m, madvise);
		COUNT("backend", m, process_madvise);
		COUNT("backend", m, punch);
		COUNT("backend", m, remap);
	}
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
