#include "fakes/model_origin.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct model *model_new(uint64_t frames, uint32_t min_order, uint32_t order)
{
	struct model *m = calloc(1, sizeof(*m));
	if (m == NULL)
		abort();
	m->frames = frames;
	m->state = calloc(1, frames);
	m->aged = calloc(1, frames);
	m->min_order = min_order;
	m->order = order;
	if (m->state == NULL || m->aged == NULL)
		abort();
	memset(m->state, FRAME_USED, frames);
	return m;
}

void model_free(struct model *m)
{
	free(m->state);
	free(m->aged);
	free(m);
}

void model_set(struct model *m, uint64_t frame, uint64_t frames, uint8_t state)
{
	memset(m->state + frame, state, frames);
	memset(m->aged + frame, 0, frames);
}

int model_is(const struct model *m, uint64_t frame, uint64_t frames, uint8_t state)
{
	for (uint64_t i = frame; i < frame + frames; i++)
		if (m->state[i] != state)
			return 0;
	return 1;
}

int model_alloc(struct model *m, uint64_t frame, uint64_t frames)
{
	uint64_t reported = 0;
	for (uint64_t i = frame; i < frame + frames; i++) {
		if (m->state[i] != FRAME_FREE && m->state[i] != FRAME_REPORTED)
			return -1;
		reported += m->state[i] == FRAME_REPORTED;
	}
	m->handed_out += reported;
	model_set(m, frame, frames, FRAME_USED);
	return 0;
}

void model_give(struct model *m, uint64_t frame, uint64_t frames)
{
	if (!model_is(m, frame, frames, FRAME_USED))
		abort();
	model_set(m, frame, frames, FRAME_FREE);
}

uint64_t model_count(const struct model *m, uint8_t state)
{
	uint64_t n = 0;
	for (uint64_t i = 0; i < m->frames; i++)
		n += m->state[i] == state;
	return n;
}

static int fails(struct model *m)
{
	m->calls++;
	return m->fail_at != 0 && --m->fail_at == 0;
}

static int next_span(void *ctx, uint64_t from, struct pagehint_run *ret_span)
{
	struct model *m = ctx;
	uint64_t first = from;
	if (fails(m))
		return m->fail_with;
	while (first < m->frames && m->state[first] == FRAME_ABSENT)
		first++;
	if (first >= m->frames)
		return -ENOENT;
	uint64_t end = first;
	while (end < m->frames && m->state[end] != FRAME_ABSENT)
		end++;
	while (first > 0 && m->state[first - 1] != FRAME_ABSENT)
		first--; /* a span may begin before `from` */
	ret_span->frame = first;
	ret_span->frames = end - first;
	return 0;
}

/* 0 = not all free, or all reported; 1 = young; 2 = old */
static int block_age(const struct model *m, uint64_t frame, uint64_t frames)
{
	uint64_t fresh = 0, old = 0;
	for (uint64_t i = frame; i < frame + frames; i++) {
		if (m->state[i] != FRAME_FREE && m->state[i] != FRAME_REPORTED)
			return 0;
		fresh += m->state[i] == FRAME_FREE;
		old += m->state[i] == FRAME_FREE && m->aged[i];
	}
	return fresh == 0 ? 0 : old == fresh ? 2 : 1;
}

static void check_ask(struct model *m, const struct pagehint_harvest *ask)
{
	uint64_t block = UINT64_C(1) << ask->order;
	if (ask->from >= ask->to || ask->to > m->frames || ask->max_frames < block || ask->max_runs == 0 ||
	    ask->order < m->min_order || ask->max_work > 65536)
		m->unfair++;
	if (ask->order < m->min_order || ask->order > 18)
		m->unfair++;
}

static int harvest(void *ctx, const struct pagehint_harvest *ask, struct pagehint_run *runs,
		   struct pagehint_harvested *ret)
{
	struct model *m = ctx;
	uint64_t block = UINT64_C(1) << ask->order, at = (ask->from + block - 1) / block * block;
	uint64_t words = 0, max_work = ask->max_work == 0 ? 65536 : ask->max_work;
	struct pagehint_harvested got = { .next = ask->to };
	int peek = (ask->flags & PAGEHINT_HARVEST_PEEK) != 0;
	if (m->during != NULL)
		m->during(m->during_ctx);
	if (fails(m))
		return m->fail_with;
	m->harvests++;
	m->last_order = ask->order;
	m->last_flags = ask->flags;
	check_ask(m, ask);
	for (; at + block <= ask->to; at += block) {
		int joins = got.runs > 0 && runs[got.runs - 1].frame + runs[got.runs - 1].frames == at;
		words += block >= 64 ? block / 64 : (at == ask->from || at % 64 == 0); /* a bit a frame */
		if (words > max_work) {
			got.next = at;
			break;
		}
		int age = block_age(m, at, block);
		int take = age == 2 || (age == 1 && (ask->flags & PAGEHINT_HARVEST_NOW) != 0);
		if (age != 0 && !take) {
			memset(m->aged + at, 1, block);
			got.young += block;
		}
		if (!take)
			continue;
		if (peek) {
			got.frames += block;
			continue;
		}
		if (got.frames + block > ask->max_frames || (!joins && got.runs == ask->max_runs)) {
			got.next = at;
			break;
		}
		model_set(m, at, block, FRAME_TAKEN);
		m->taken += block;
		got.frames += block;
		if (joins)
			runs[got.runs - 1].frames += block;
		else
			runs[got.runs++] = (struct pagehint_run) { at, block };
	}
	m->work += words < max_work ? words : max_work;
	*ret = got;
	return 0;
}

static void release(void *ctx, const struct pagehint_run *run, uint32_t how)
{
	struct model *m = ctx;
	if (m->during != NULL)
		m->during(m->during_ctx);
	m->calls++;
	if (run->frame + run->frames > m->frames || !model_is(m, run->frame, run->frames, FRAME_TAKEN)) {
		m->wrong++;
		return;
	}
	model_set(m, run->frame, run->frames, how == PAGEHINT_RELEASE_REPORTED ? FRAME_REPORTED : FRAME_FREE);
	m->taken -= run->frames;
	m->returned += run->frames;
}

static void depart(void *ctx, uint64_t frames)
{
	struct model *m = ctx;
	m->departed += frames;
	if (m->departed - m->returned > m->taken)
		m->wrong++;
}

static void get_free(void *ctx, uint32_t order, struct pagehint_origin_free *ret)
{
	struct model *m = ctx;
	uint64_t block = UINT64_C(1) << order;
	ret->free = model_count(m, FRAME_FREE) + model_count(m, FRAME_REPORTED);
	ret->reported = model_count(m, FRAME_REPORTED);
	ret->hidden = m->hidden;
	ret->handed_out = m->handed_out;
	ret->below = 0;
	for (uint64_t at = 0; at < m->frames; at += block) {
		uint64_t n = m->frames - at < block ? m->frames - at : block;
		if (n == block && block_age(m, at, block) != 0)
			continue;
		for (uint64_t i = at; i < at + n; i++)
			ret->below += m->state[i] == FRAME_FREE;
	}
}

static void quiesce(void *ctx)
{
	((struct model *)ctx)->quiesced++;
}

static void explain(void *ctx, const struct pagehint_sink *sink)
{
	(void)ctx;
	sink->line(sink->ctx, "model: one byte a frame");
}

static void destroy(void *ctx)
{
	((struct model *)ctx)->destroyed++;
}

void model_ops(const struct model *m, struct pagehint_origin_ops *ops)
{
	*ops = (struct pagehint_origin_ops) {
		.struct_size = sizeof(*ops),
		.name = "model",
		.min_order = m->min_order,
		.order = m->order,
		.next_span = next_span,
		.harvest = harvest,
		.release = release,
		.depart = depart,
		.get_free = get_free,
		.quiesce = quiesce,
		.explain = explain,
		.destroy = destroy,
	};
}

struct pagehint_origin *model_origin(struct model *m)
{
	struct pagehint_origin_ops ops;
	struct pagehint_origin *origin = NULL;
	model_ops(m, &ops);
	if (pagehint_origin_new(&ops, m, &origin) != 0)
		abort();
	return origin;
}
