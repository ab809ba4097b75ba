#include "ground.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include <pagehint/sink.h>

#define USUAL 6u /* largest order of most blocks: two workers at their most have a fifth of a small zone */
#define LARGEST 9u

static void line(void *ctx, const char *text)
{
	(void)soak_bad(((const struct ground *)ctx)->part, "%s", text);
}

static int make_zone(struct ground *g)
{
	int r = pagehint_zone_new(&g->opts, &g->zone);
	g->total = g->content.base;
	return r < 0 ? r : pagehint_zone_add(g->zone, 0, g->content.base);
}

int ground_open(struct ground *g, const char *part, uint32_t flags, uint32_t granule_order)
{
	g->part = part;
	g->opts = (struct pagehint_zone_opts) { .struct_size = sizeof(g->opts),
						.max_sections = 1 + g->content.slots,
						.flags = flags,
						.granule_order = granule_order,
						.max_caches = 8 };
	return make_zone(g);
}

int ground_populate(struct ground *g, uint32_t workers)
{
	for (g->workers_n = 0; g->workers_n < workers; g->workers_n++) {
		struct ground_worker *w = &g->workers[g->workers_n];
		w->ground = g;
		int r = pagehint_cache_open(g->zone, &w->cache);
		if (r < 0)
			return r;
		if (soak_member_add(g->part, SOAK_WORKER, ground_turn, w) == NULL)
			return -ENOSPC;
	}
	return 0;
}

static uint64_t new_word(struct ground_worker *w, const struct soak_member *m)
{
	return (uint64_t)m->index << 48 | ++w->writes;
}

static void give_back(struct ground_worker *w, uint32_t i, struct soak_member *m)
{
	struct ground_block b = w->held[i];
	struct pagehint_run run = { b.frame, UINT64_C(1) << b.order };
	int r;
	w->held[i] = w->held[--w->n];
	content_drop(&w->ground->content, b.frame, run.frames);
	if (b.from_run)
		r = pagehint_zone_free_runs(w->ground->zone, &run, 1, NULL);
	else if (m != NULL && soak_below(&m->chance, 3) == 0)
		r = pagehint_zone_free(w->ground->zone, b.frame, b.order);
	else
		r = pagehint_cache_free(w->cache, b.frame, b.order);
	if (r != 0)
		(void)soak_bad(w->ground->part, "a free of frame %" PRIu64 " order %u gave %d", b.frame, b.order, r);
}

static int keep(struct ground_worker *w, struct soak_member *m, uint64_t frame, uint32_t order, uint32_t from_run)
{
	content_take(&w->ground->content, frame, UINT64_C(1) << order, new_word(w, m));
	w->held[w->n++] = (struct ground_block) { frame, order, from_run };
	return 1;
}

static int take_batch(struct ground_worker *w, struct soak_member *m)
{
	uint64_t frames[8];
	uint32_t n = 0, wanted = 1 + (uint32_t)soak_below(&m->chance, 8);
	int r = pagehint_zone_alloc_batch(w->ground->zone, 0, wanted, frames, &n);
	if (r != 0 && r != -ENOSPC && r != -EAGAIN)
		(void)soak_bad(w->ground->part, "a batch gave %d", r);
	for (uint32_t i = 0; i < n; i++)
		(void)keep(w, m, frames[i], 0, 0);
	return n != 0;
}

static int take(struct ground_worker *w, struct soak_member *m)
{
	uint64_t frame = 0;
	uint32_t most = soak_below(&m->chance, 16) == 0 ? LARGEST : USUAL;
	uint32_t order = soak_below(&m->chance, 4) == 0 ? (uint32_t)soak_below(&m->chance, most + 1) : 0;
	uint64_t how = soak_below(&m->chance, 8);
	int r;
	if (how == 0 && w->n + 8 < GROUND_HELD)
		return take_batch(w, m);
	if (how == 1)
		r = pagehint_zone_alloc_contig(w->ground->zone, UINT64_C(1) << order, UINT64_C(1) << order, &frame);
	else if (how < 4)
		r = pagehint_zone_alloc(w->ground->zone, order, &frame);
	else
		r = pagehint_cache_alloc(w->cache, order, &frame);
	if (r == 0)
		return keep(w, m, frame, order, how == 1);
	if (r != -ENOSPC && r != -EAGAIN)
		(void)soak_bad(w->ground->part, "an allocation of order %u gave %d", order, r);
	return 0;
}

/* What lies in sections that are about to go is given back. */
static int make_way(struct ground_worker *w, struct soak_member *m)
{
	uint32_t before = w->n;
	for (uint32_t i = w->n; i-- > 0;)
		if (atomic_load(&w->ground->leaving[w->held[i].frame / PAGEHINT_SECTION_FRAMES]))
			give_back(w, i, m);
	return before != w->n;
}

static void pause_cache(struct ground_worker *w)
{
	int r;
	(void)SOAK_MUST(w->ground->part, pagehint_cache_park(w->cache) == 0);
	while ((r = pagehint_cache_unpark(w->cache)) == -EAGAIN)
		;
	(void)SOAK_MUST(w->ground->part, r == 0);
}

int ground_turn(void *worker, struct soak_member *m)
{
	struct ground_worker *w = worker;
	uint64_t what = soak_below(&m->chance, 64);
	if (make_way(w, m))
		return 1;
	if (what == 0)
		pause_cache(w);
	else if (what == 1)
		pagehint_cache_drain(w->cache);
	/* it grows and shrinks: now most is used, now most is free */
	uint64_t wanted = m->operations / 4096 % 2 == 0 ? 48 : 16;
	if (w->n < GROUND_HELD && soak_below(&m->chance, 64) < wanted)
		return take(w, m);
	if (w->n == 0)
		return 0;
	uint32_t i = (uint32_t)soak_below(&m->chance, w->n);
	if (what < 8)
		content_look(&w->ground->content, w->held[i].frame, UINT64_C(1) << w->held[i].order);
	else
		give_back(w, i, m);
	return 1;
}

void ground_walk(struct ground *g, int lazy, uint64_t elsewhere)
{
	struct pagehint_sink sink = { .ctx = g, .line = line };
	struct pagehint_zone_stats s = { .struct_size = sizeof(s) };
	(void)SOAK_MUST(g->part, pagehint_zone_check(g->zone, &sink) == 0);
	(void)SOAK_MUST(g->part, pagehint_zone_stats(g->zone, &s) == 0);
	(void)SOAK_MUST(g->part, s.transit == 0 && s.total == g->total);
	(void)SOAK_MUST(g->part, s.free + s.cached + s.out + s.isolated + s.in_flight == s.total);
	uint64_t owned = content_walk(&g->content, lazy);
	if (s.out != owned + elsewhere)
		(void)soak_bad(g->part, "%" PRIu64 " frames are out; workers have %" PRIu64 ", others %" PRIu64, s.out,
			       owned, elsewhere);
}

void ground_go_home(struct ground *g)
{
	for (uint32_t i = 0; i < g->workers_n; i++) {
		while (g->workers[i].n != 0)
			give_back(&g->workers[i], 0, NULL);
		pagehint_cache_close(g->workers[i].cache);
		g->workers[i].cache = NULL;
	}
}

int ground_anew(struct ground *g)
{
	pagehint_zone_destroy(g->zone);
	int r = make_zone(g);
	for (uint32_t i = 0; i < g->workers_n && r == 0; i++)
		r = pagehint_cache_open(g->zone, &g->workers[i].cache);
	return r;
}
