#include "play.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <pagehint/backend.h>
#include <pagehint/origin.h>
#include <pagehint/reporter.h>
#include <pagehint/zone.h>

#include "../driver/kernel.h"
#include "account.h"

#define SECOND UINT64_C(1000000000)
#define TAIL_NS (6 * SECOND)  /* played after the end, the same for all */
#define MOST_NS (60 * SECOND) /* waited for 95% */
#define LADDER_GRANULE 9u

struct player {
	const struct source *source;
	struct setting setting;
	struct account account;
	struct figures *figures;
	uint32_t *frame_of;
	struct pagehint_zone *zone;
	struct pagehint_origin *origin;
	struct pagehint_backend *backend;
	struct pagehint_reporter *reporter;
	uint64_t next_ns; /* when the reporter wants to be called */
	uint64_t step_ns; /* CPU time in its steps */
	struct kernel *kernel;
	uint64_t now_ns;
};

static int failed(const char *what, int r)
{
	fprintf(stderr, "order: %s: %s\n", what, strerror(-r));
	return 1;
}

static uint64_t cpu_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

/* the layer below: it takes 32 runs a request, as a balloon device does */
static int discard(void *ctx, const struct pagehint_run *runs, uint32_t n, uint32_t flags,
		   struct pagehint_outcome *outcomes, uint32_t *ret_done)
{
	struct player *p = ctx;
	(void)flags;
	p->figures->requests++;
	for (uint32_t i = 0; i < n; i++) {
		account_discard(&p->account, p->now_ns, runs[i].frame, runs[i].frames);
		memset(&outcomes[i], 0, sizeof(outcomes[i]));
		outcomes[i].asked = outcomes[i].accepted = runs[i].frames << 12;
	}
	*ret_done = n;
	return 0;
}

static void kernel_reported(void *ctx, uint64_t at_ns, uint64_t frame, uint64_t frames)
{
	struct player *p = ctx;
	account_discard(&p->account, at_ns, frame, frames);
}

static int open_reporter(struct player *p)
{
	static const struct pagehint_backend_ops ops = {
		.struct_size = sizeof(ops), .name = "count", .max_runs = KERNEL_CAPACITY, .discard = discard
	};
	const struct pagehint_reporter_opts opts = { .struct_size = sizeof(opts), .interval_ns = p->setting.delay_ns };
	int r = pagehint_zone_origin_new(p->zone, &p->origin);
	r = r < 0 ? r : pagehint_backend_new(&ops, p, NULL, &p->backend);
	r = r < 0 ? r : pagehint_reporter_new(p->origin, p->backend, &opts, &p->reporter);
	if (r == 0 && p->setting.way == WAY_AT_ONCE)
		r = pagehint_reporter_pressure(p->reporter, PAGEHINT_PRESSURE_FULL, 0);
	return r;
}

/*
 * A zone ages granules of two frames or more, and reports smaller pieces only under pressure, without ageing. So order 0 at once is
 * the ladder's lowest step, and order 0 aged the smallest granule.
 */
static uint32_t granule_order(const struct setting *setting)
{
	if (setting->order != 0)
		return setting->order;
	return setting->way == WAY_AT_ONCE ? LADDER_GRANULE : 1;
}

static int open_zone(struct player *p)
{
	struct pagehint_zone_opts opts = { .struct_size = sizeof(opts), .granule_order = granule_order(&p->setting) };
	opts.max_sections = (p->source->frames + PAGEHINT_SECTION_FRAMES - 1) / PAGEHINT_SECTION_FRAMES;
	if (p->setting.order == 0 && p->setting.way == WAY_AT_ONCE)
		opts.flags = PAGEHINT_ZONE_LADDER;
	int r = pagehint_zone_new(&opts, &p->zone);
	r = r < 0 ? r : pagehint_zone_add(p->zone, 0, p->source->frames);
	return r < 0 || p->setting.way == WAY_NONE ? r : open_reporter(p);
}

static int open_player(struct player *p)
{
	p->frame_of = malloc(((size_t)p->source->ids + 1) * sizeof(*p->frame_of));
	/* what a zone remembers is told by granules, also of pieces of one; what lists remember, by blocks */
	uint32_t unit = p->setting.way == WAY_KERNEL ? p->setting.order : granule_order(&p->setting);
	if (p->frame_of == NULL || account_open(&p->account, p->source->frames, unit) < 0)
		return failed("memory", -ENOMEM);
	memset(p->frame_of, 0xff, ((size_t)p->source->ids + 1) * sizeof(*p->frame_of));
	if (p->setting.way == WAY_KERNEL) {
		p->kernel = kernel_new(p->source->frames, p->setting.order, p->setting.delay_ns);
		kernel_shuffle(p->kernel, 0x9e3779b97f4a7c15u);
		kernel_watch(p->kernel, kernel_reported, p);
		p->next_ns = UINT64_MAX;
		return 0;
	}
	int r = open_zone(p);
	if (p->reporter == NULL)
		p->next_ns = UINT64_MAX;
	return r < 0 ? failed("a guest does not come up", r) : 0;
}

/* Everything that is due until then. */
static int run_until(struct player *p, uint64_t now_ns)
{
	if (p->kernel != NULL)
		kernel_tick(p->kernel, now_ns);
	if (p->next_ns > now_ns)
		return 0;
	uint64_t start = cpu_ns();
	while (p->next_ns <= now_ns) {
		p->now_ns = p->next_ns;
		int r = pagehint_reporter_step(p->reporter, p->now_ns, 0, &p->next_ns);
		if (r < 0)
			return failed("the reporter", r);
	}
	p->step_ns += cpu_ns() - start;
	return 0;
}

static int do_alloc(struct player *p, uint64_t now_ns, uint32_t id, uint32_t order)
{
	uint64_t frame;
	if (p->kernel != NULL) {
		frame = kernel_alloc(p->kernel, order);
		if (frame == UINT64_MAX)
			return failed("the kernel's model", -ENOSPC);
	} else {
		int r = pagehint_zone_alloc(p->zone, order, &frame);
		if (r < 0)
			return failed("the zone", r);
	}
	p->frame_of[id] = (uint32_t)frame;
	account_alloc(&p->account, now_ns, frame, order);
	return 0;
}

static int do_free(struct player *p, uint64_t now_ns, uint32_t id, uint32_t order)
{
	uint64_t frame = p->frame_of[id];
	p->frame_of[id] = UINT32_MAX;
	account_free(&p->account, now_ns, order);
	if (p->kernel != NULL) {
		kernel_free(p->kernel, frame, order, now_ns);
		return 0;
	}
	int r = pagehint_zone_free(p->zone, frame, order);
	return r < 0 ? failed("the zone refuses a free", r) : 0;
}

/* What is live at the end is freed at once: the build is over. How long until 95% of what the host holds is back? */
static int wind_down(struct player *p, uint64_t end_ns)
{
	uint64_t goal, step = SECOND / 100;
	for (size_t i = 0; i < p->source->n; i++) {
		const struct source_event *e = &p->source->events[i];
		if (!e->is_free && p->frame_of[e->id] != UINT32_MAX && do_free(p, end_ns, e->id, e->order) != 0)
			return 1;
	}
	goal = p->account.held / 20;
	p->figures->to_95_s = -1;
	p->account.until_ns = end_ns + TAIL_NS;
	for (uint64_t now_ns = end_ns; now_ns <= end_ns + MOST_NS; now_ns += step) {
		if (run_until(p, now_ns) != 0)
			return 1;
		account_advance(&p->account, now_ns);
		if (p->figures->to_95_s < 0 && p->account.held <= goal)
			p->figures->to_95_s = (double)(now_ns - end_ns) / 1e9;
		if (now_ns >= end_ns + TAIL_NS && (p->figures->to_95_s >= 0 || p->setting.way == WAY_NONE))
			break;
	}
	return 0;
}

static int close_player(struct player *p)
{
	struct account *a = &p->account;
	struct figures *f = p->figures;
	int r = 0;
	if (p->kernel != NULL) {
		struct kernel_counts c = kernel_counts(p->kernel);
		f->requests = c.kicks;
		r = c.free_frames == p->source->frames ? 0 : failed("the kernel's model lost frames", -EUCLEAN);
		kernel_delete(p->kernel);
	}
	r |= pagehint_reporter_free(p->reporter) < 0 ? failed("runs are out", -EBUSY) : 0;
	r |= p->backend != NULL && pagehint_backend_free(p->backend) < 0 ? failed("a backend stays", -EBUSY) : 0;
	pagehint_origin_free(p->origin);
	if (p->zone != NULL && pagehint_zone_check(p->zone, NULL) != 0)
		r |= failed("the zone", -EUCLEAN);
	pagehint_zone_destroy(p->zone);
	f->returned = a->returned << 12;
	f->refaults = a->refaults << 12;
	f->rereported = a->rereported << 12;
	f->resent = a->resent << 12;
	f->unreturned_gibs = a->unreturned / (1 << 18);
	f->unreturned = a->never > 0 ? a->unreturned / a->never : 0;
	account_close(a);
	free(p->frame_of);
	return r;
}

int play(const struct source *source, const struct setting *setting, struct figures *ret_figures)
{
	struct player p = { .source = source, .setting = *setting, .figures = ret_figures };
	memset(ret_figures, 0, sizeof(*ret_figures));
	int r = open_player(&p);
	uint64_t start = cpu_ns(), end_ns = 0;
	for (size_t i = 0; i < source->n && r == 0; i++) {
		const struct source_event *e = &source->events[i];
		end_ns = e->ns;
		r = run_until(&p, e->ns);
		if (r == 0)
			r = e->is_free ? do_free(&p, e->ns, e->id, e->order) : do_alloc(&p, e->ns, e->id, e->order);
	}
	ret_figures->path_ns = (double)(cpu_ns() - start - p.step_ns) / (double)source->n;
	r = r != 0 ? r : wind_down(&p, end_ns);
	return close_player(&p) != 0 ? 1 : r;
}
