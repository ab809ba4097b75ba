/* maps, backends, origins, reporters, reclaimers, policies */
#include "kinds.h"

#include <pagehint/bitmap.h>
#include <pagehint/gate.h>
#include <pagehint/host.h>
#include <pagehint/map.h>
#include <pagehint/origin.h>
#include <pagehint/policy.h>
#include <pagehint/reclaimer.h>
#include <pagehint/reporter.h>

struct pagehint_backend *some_backend(void)
{
	struct pagehint_backend *backend;
	SURE(pagehint_null_new(NULL, &backend) == 0);
	return backend;
}

struct pagehint_map *some_map(void)
{
	static struct pagehint_map *map;
	if (map == NULL)
		SURE(pagehint_map_new(NULL, &map) == 0);
	return map;
}

static int make_map(const void *opts)
{
	struct pagehint_map *map = NOTHING;
	struct pagehint_region_info info = { .struct_size = sizeof(info) };
	int r = pagehint_map_new(opts, &map);
	if (r != 0) {
		SURE(map == NOTHING);
		return r;
	}
	SURE(pagehint_map_next(map, 0, &info) == -ERANGE && pagehint_map_regions(map) == 0);
	SURE(pagehint_map_free(map) == 0);
	return 0;
}

/* ---- backends ---- */

static int discard(void *ctx, const struct pagehint_run *runs, uint32_t n, uint32_t flags,
		   struct pagehint_outcome *outcomes, uint32_t *ret_done)
{
	(void)ctx;
	(void)flags;
	for (uint32_t i = 0; i < n; i++)
		outcomes[i].asked = outcomes[i].accepted = runs[i].frames << 12;
	*ret_done = n;
	return 0;
}

static int submit(void *ctx, const struct pagehint_run *runs, uint32_t n, uint32_t flags, uint64_t cookie)
{
	(void)ctx;
	(void)runs;
	(void)n;
	(void)flags;
	(void)cookie;
	return -EAGAIN;
}

static int reap(void *ctx, uint32_t max, struct pagehint_outcome *outcomes, uint64_t *ret_cookie, uint32_t *ret_n)
{
	(void)ctx;
	(void)max;
	(void)outcomes;
	(void)ret_cookie;
	(void)ret_n;
	return -EAGAIN;
}

static int let_pass(void *ctx, const struct pagehint_run *run)
{
	(void)ctx;
	SURE(run->frames != 0);
	return 0;
}

/* One run goes through; every byte of it is accounted for. */
static void use_backend(struct pagehint_backend *backend, uint32_t shift, int wanted)
{
	const struct pagehint_run run = { 8, 4 };
	struct pagehint_outcome sum;
	uint32_t done = 0;
	if ((pagehint_backend_caps(backend) & PAGEHINT_BACKEND_ASYNC) == 0) {
		SURE(pagehint_backend_discard(backend, &run, 1, 0, NULL, &sum, &done) == wanted && done == 1);
		SURE(shift == 0 || sum.asked == run.frames << shift);
		SURE(sum.asked == sum.freed + sum.absent + sum.accepted + sum.kept + sum.lazy + sum.failed);
	} else {
		SURE(pagehint_backend_submit(backend, &run, 1, 0, 1) == -EAGAIN);
	}
	SURE(pagehint_backend_free(backend) == 0);
}

static void point_backend_ops(void *opts, uint64_t how)
{
	struct pagehint_backend_ops *o = opts;
	o->name = MAYBE(how, 0, "fuzz");
	o->discard = MAYBE(how, 1, discard);
	o->submit = MAYBE(how, 2, submit);
	o->reap = MAYBE(how, 3, reap);
	o->populate = NULL;
	o->extent = NULL;
	o->explain = NULL;
	o->destroy = NULL;
}

static int make_backend_ops(const void *opts)
{
	struct pagehint_backend *backend = NOTHING;
	int r = pagehint_backend_new(opts, NULL, NULL, &backend);
	if (r == 0)
		use_backend(backend, 12, 0);
	else
		SURE(backend == NOTHING);
	return r;
}

static struct pagehint_hooks hooks = { .struct_size = sizeof(hooks), .before_discard = let_pass };
static struct pagehint_gate *gate;

static void point_backend_opts(void *opts, uint64_t how)
{
	struct pagehint_backend_opts *o = opts;
	if (gate == NULL)
		SURE(pagehint_gate_new(&gate) == 0);
	o->gate = MAYBE(how, 0, gate);
	o->hooks = MAYBE(how, 1, &hooks);
}

static int make_backend_opts(const void *opts)
{
	struct pagehint_backend *backend = NOTHING;
	int r = pagehint_null_new(opts, &backend);
	if (r == 0)
		use_backend(backend, 0, 0);
	else
		SURE(backend == NOTHING);
	return r;
}

static void point_hooks(void *opts, uint64_t how)
{
	struct pagehint_hooks *o = opts;
	o->ctx = NULL;
	o->before_discard = MAYBE(how, 0, let_pass);
	o->after_discard = NULL;
	o->after_populate = MAYBE(how, 1, let_pass);
	o->log = NULL;
	o->trace = NULL;
}

static int make_hooks(const void *opts)
{
	const struct pagehint_backend_opts o = { .struct_size = sizeof(o), .hooks = opts };
	return make_backend_opts(&o);
}

static int make_madvise(const void *opts)
{
	struct pagehint_backend *backend = NOTHING;
	int r = pagehint_madvise_new(some_map(), opts, NULL, &backend);
	if (r == 0)
		use_backend(backend, 12, -ERANGE); /* the map has no region */
	else
		SURE(backend == NOTHING);
	return r;
}

/* ---- origins ---- */

static int next_span(void *ctx, uint64_t from, struct pagehint_run *ret_span)
{
	(void)ctx;
	(void)from;
	(void)ret_span;
	return -ENOENT;
}

static int harvest(void *ctx, const struct pagehint_harvest *ask, struct pagehint_run *runs,
		   struct pagehint_harvested *ret)
{
	(void)ctx;
	(void)runs;
	ret->next = ask->to;
	return 0;
}

static void release(void *ctx, const struct pagehint_run *run, uint32_t how)
{
	(void)ctx;
	(void)how;
	SURE(run->frames != 0);
}

/* A reporter turns a few times, and stops. */
static void report(struct pagehint_origin *origin, const struct pagehint_reporter_opts *opts, int must)
{
	struct pagehint_backend *backend = some_backend();
	struct pagehint_reporter *reporter;
	uint64_t now = 0, deadline = 0;
	int r = pagehint_reporter_new(origin, backend, opts, &reporter);
	SURE(r == 0 || !must);
	if (r == 0) {
		for (uint32_t i = 0; i < 4; i++) {
			SURE(pagehint_reporter_step(reporter, now, 0, &deadline) == 0);
			now = deadline == UINT64_MAX ? now : deadline;
		}
		SURE(pagehint_reporter_stop(reporter, now, &deadline) == 0 && pagehint_reporter_free(reporter) == 0);
	}
	SURE(pagehint_backend_free(backend) == 0);
}

static void point_origin(void *opts, uint64_t how)
{
	struct pagehint_origin_ops *o = opts;
	memset(&o->next_span, 0, sizeof(*o) - offsetof(struct pagehint_origin_ops, next_span));
	o->name = MAYBE(how, 0, "fuzz");
	o->next_span = (how & 6) != 0 ? next_span : NULL;
	o->harvest = (how & 24) != 0 ? harvest : NULL;
	o->release = (how & 96) != 0 ? release : NULL;
}

static int make_origin(const void *opts)
{
	struct pagehint_origin *origin = NOTHING;
	int r = pagehint_origin_new(opts, NULL, &origin);
	SURE(r == 0 || origin == NOTHING);
	if (r == 0) {
		report(origin, NULL, 0); /* of another frame size than the backend's: refused */
		pagehint_origin_free(origin);
	}
	return r;
}

static int isolate(void *ctx, const struct pagehint_run *run)
{
	(void)ctx;
	return run->frames != 0 ? 0 : -EBUSY;
}

static void release_bits(void *ctx, const struct pagehint_run *run, uint32_t reported)
{
	(void)ctx;
	(void)run;
	(void)reported;
}

static void point_bitmap_origin(void *opts, uint64_t how)
{
	struct pagehint_bitmap_origin_opts *o = opts;
	o->ctx = NULL;
	o->isolate = (how & 3) != 0 ? isolate : NULL;
	o->release = (how & 12) != 0 ? release_bits : NULL;
}

static int make_bitmap_origin(const void *opts)
{
	const struct pagehint_bitmap_opts bits = { .struct_size = sizeof(bits), .span = 100000 };
	struct pagehint_origin *origin = NOTHING;
	struct pagehint_bitmap *bitmap;
	SURE(pagehint_bitmap_new(&bits, &bitmap) == 0 && pagehint_bitmap_add(bitmap, 0, 100000) == 0);
	SURE(pagehint_bitmap_set(bitmap, 1000, 20000, NULL) == 0);
	int r = pagehint_bitmap_origin_new(bitmap, opts, &origin);
	SURE(r == 0 || origin == NOTHING);
	if (r == 0) {
		report(origin, NULL, 0);
		pagehint_origin_free(origin);
	}
	pagehint_bitmap_free(bitmap);
	return r;
}

/* ---- who takes ---- */

static int make_reporter(const void *opts)
{
	struct pagehint_zone *zone = some_zone(0, PAGEHINT_ZONE_STALE);
	struct pagehint_backend *backend = some_backend();
	struct pagehint_reporter *reporter = NOTHING;
	struct pagehint_origin *origin;
	SURE(pagehint_zone_origin_new(zone, &origin) == 0);
	int r = pagehint_reporter_new(origin, backend, opts, &reporter);
	if (r == 0) {
		SURE(pagehint_reporter_free(reporter) == 0);
		report(origin, opts, 1);
	} else {
		SURE(reporter == NOTHING);
	}
	pagehint_origin_free(origin);
	SURE(pagehint_zone_check(zone, NULL) == 0);
	pagehint_zone_destroy(zone);
	SURE(pagehint_backend_free(backend) == 0);
	return r;
}

static int make_reclaimer(const void *opts)
{
	struct pagehint_zone *zone = some_zone(0, PAGEHINT_ZONE_SHARED | PAGEHINT_ZONE_STALE);
	struct pagehint_backend *backend = some_backend();
	struct pagehint_reclaimer *reclaimer = NOTHING;
	uint64_t next = 0, got = 0;
	int r = pagehint_reclaimer_new(zone, backend, opts, &reclaimer);
	if (r == 0) {
		(void)!pagehint_reclaimer_hold(reclaimer, UINT64_C(4) << 20, &got);
		SURE(got <= UINT64_C(4) << 20 && pagehint_reclaimer_give_back(reclaimer, got, &next) == 0 &&
		     next == got);
		for (uint32_t i = 0; i < 3; i++)
			SURE(pagehint_reclaimer_step(reclaimer, i * UINT64_C(3000000000), &next) == 0);
		pagehint_reclaimer_free(reclaimer);
	} else {
		SURE(reclaimer == NOTHING);
	}
	SURE(pagehint_zone_check(zone, NULL) == 0);
	pagehint_zone_destroy(zone);
	SURE(pagehint_backend_free(backend) == 0);
	return r;
}

static int make_policy(const void *opts)
{
	static const struct pagehint_policy_guest guests[] = {
		{ .size = 1000 << 12, .held = 600 << 12, .need = 300 << 12, .floor = 100 << 12 },
		{ .size = 500 << 12, .held = 100 << 12, .flags = PAGEHINT_POLICY_NEED_UNKNOWN },
	};
	uint64_t targets[2] = { 77, 77 };
	uint32_t how = 77;
	int r = pagehint_policy_targets(opts, guests, 2, targets, &how);
	if (r == 0)
		SURE(targets[0] <= guests[0].size && targets[1] <= guests[1].size && how <= PAGEHINT_POLICY_SHORT);
	else
		SURE(targets[0] == 77 && targets[1] == 77 && how == 77);
	return r;
}

const struct kind give_kinds[] = {
	{ "map", sizeof(struct pagehint_map_opts), NULL, make_map },
	{ "backend ops", sizeof(struct pagehint_backend_ops), point_backend_ops, make_backend_ops },
	{ "backend", sizeof(struct pagehint_backend_opts), point_backend_opts, make_backend_opts },
	{ "hooks", sizeof(struct pagehint_hooks), point_hooks, make_hooks },
	{ "madvise", sizeof(struct pagehint_madvise_opts), NULL, make_madvise },
	{ "origin ops", sizeof(struct pagehint_origin_ops), point_origin, make_origin },
	{ "bitmap origin", sizeof(struct pagehint_bitmap_origin_opts), point_bitmap_origin, make_bitmap_origin },
	{ "reporter", sizeof(struct pagehint_reporter_opts), NULL, make_reporter },
	{ "reclaimer", sizeof(struct pagehint_reclaimer_opts), NULL, make_reclaimer },
	{ "policy", sizeof(struct pagehint_policy_host), NULL, make_policy },
};
const uint32_t give_kinds_n = sizeof(give_kinds) / sizeof(*give_kinds);
