#include "report/bitmap_origin.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/opts.h"

#define DEFAULT_ORDER 9u
#define DEFAULT_SHIFT 12u
#define MAX_SHIFT 30u
#define LINE 160

/* Adjacent sections are one span, so that runs go over their borders. */
static int next_span(void *ctx, uint64_t from, struct pagehint_run *ret_span)
{
	const struct ph_bitmap_origin *o = ctx;
	struct pagehint_run span, more;
	int rc = pagehint_bitmap_next_section(o->bitmap, from, &span);
	if (rc != 0)
		return rc;
	while (pagehint_bitmap_next_section(o->bitmap, span.frame + span.frames, &more) == 0 &&
	       more.frame == span.frame + span.frames)
		span.frames += more.frames;
	*ret_span = span;
	return 0;
}

/* The marks come first: as soon as the allocator has the frames it may hand them out, and that drops the marks. */
static void release(void *ctx, const struct pagehint_run *run, uint32_t how)
{
	struct ph_bitmap_origin *o = ctx;
	uint32_t reported = how == PAGEHINT_RELEASE_REPORTED;
	if (reported && run->frame < o->bitmap->span && run->frames <= o->bitmap->span - run->frame)
		ph_bitmap_report(o->bitmap, run->frame, run->frames);
	o->opts.release(o->opts.ctx, run, reported);
}

static void count_word(const struct pagehint_bitmap *b, uint64_t slot, unsigned word, uint32_t order, int in_whole,
		       struct pagehint_origin_free *sum)
{
	struct ph_bitmap_view one = ph_bitmap_view_word(b, slot, word, PH_FULL, 0);
	struct ph_bitmap_view blocks = ph_bitmap_view_word(b, slot, word, PH_FULL, order < 6 ? order : 6);
	uint64_t whole = order <= 6 ? blocks.whole : in_whole ? PH_FULL : 0;
	sum->free += ph_popcount(one.free);
	sum->reported += ph_popcount(one.reported);
	sum->below += ph_popcount(one.free & ~one.reported & ~whole);
}

static void count_section(const struct pagehint_bitmap *b, uint64_t slot, uint32_t order,
			  struct pagehint_origin_free *sum)
{
	const _Atomic uint64_t *words = ph_bitmap_words(b, slot);
	unsigned step = order <= 6 ? 1 : 1u << (order - 6);
	for (unsigned word = 0; word < PH_SECTION_WORDS; word += step) {
		int whole = 1;
		for (unsigned i = 0; i < step && whole; i++)
			whole = atomic_load(&words[word + i]) == PH_FULL;
		for (unsigned i = 0; i < step; i++)
			count_word(b, slot, word + i, order, whole, sum);
	}
}

static void get_free(void *ctx, uint32_t order, struct pagehint_origin_free *ret_free)
{
	const struct ph_bitmap_origin *o = ctx;
	const struct pagehint_bitmap *b = o->bitmap;
	struct pagehint_origin_free sum = { .struct_size = sizeof(sum) };
	if (order > PH_BITMAP_ORIGIN_MAX_ORDER)
		order = PH_BITMAP_ORIGIN_MAX_ORDER;
	for (uint64_t s = ph_bitmap_present(b, 0); s < b->sections; s = ph_bitmap_present(b, s + 1)) {
		uint64_t slot = ph_bitmap_slot(b, s);
		if (slot != PH_NO_SLOT && atomic_load(&ph_bitmap_head(b, slot)->set) != 0)
			count_section(b, slot, order, &sum);
	}
	sum.handed_out = atomic_load(&b->handed_out);
	(void)PH_OPTS_OUT(ret_free, sum); /* fails for a struct without room only, which then stays as it is */
}

static void explain(void *ctx, const struct pagehint_sink *sink)
{
	struct ph_bitmap_origin *o = ctx;
	struct pagehint_origin_free sum = { .struct_size = sizeof(sum) };
	uint64_t count = pagehint_bitmap_count(o->bitmap);
	char text[LINE];
	if (ph_bitmap_present(o->bitmap, 0) == o->bitmap->sections) /* asked of the index: others may add meanwhile */
		sink->line(sink->ctx, "bitmap: no section is present, so there is nothing to report");
	if (count < o->opts.threshold) {
		snprintf(text, sizeof(text),
			 "bitmap: %" PRIu64 " frames are marked free, fewer than the threshold of %" PRIu64
			 ": nothing is taken",
			 count, o->opts.threshold);
		sink->line(sink->ctx, text);
	}
	get_free(o, o->opts.order, &sum);
	snprintf(text, sizeof(text),
		 "bitmap: %" PRIu64 " frames are marked free, %" PRIu64 " of them reported, %" PRIu64
		 " in blocks below order %" PRIu32,
		 sum.free, sum.reported, sum.below, o->opts.order);
	sink->line(sink->ctx, text);
	if (o->dropped_runs == 0)
		return;
	snprintf(text, sizeof(text),
		 "bitmap: %" PRIu64 " runs of %" PRIu64 " frames were dropped, the allocator had some of them in use",
		 o->dropped_runs, o->dropped_frames);
	sink->line(sink->ctx, text);
}

static void destroy(void *ctx)
{
	struct ph_bitmap_origin *o = ctx;
	ph_bitmap_unwatch(o->bitmap);
	free(o);
}

static int read_opts(const struct pagehint_bitmap_origin_opts *from, struct pagehint_bitmap_origin_opts *opts)
{
	if (from == NULL)
		return -EINVAL;
	int rc = PH_OPTS_IN(*opts, from);
	if (rc != 0)
		return rc;
	if (opts->order == 0)
		opts->order = DEFAULT_ORDER;
	if (opts->frame_shift == 0)
		opts->frame_shift = DEFAULT_SHIFT;
	if (opts->isolate == NULL || opts->release == NULL || opts->flags != 0)
		return -EINVAL;
	if (opts->order > PH_BITMAP_ORIGIN_MAX_ORDER || opts->min_order > opts->order)
		return -EINVAL;
	return opts->frame_shift < DEFAULT_SHIFT || opts->frame_shift > MAX_SHIFT ? -EINVAL : 0;
}

int pagehint_bitmap_origin_new(struct pagehint_bitmap *bitmap, const struct pagehint_bitmap_origin_opts *opts,
			       struct pagehint_origin **ret_origin)
{
	struct pagehint_bitmap_origin_opts copy;
	int rc = bitmap == NULL || ret_origin == NULL ? -EINVAL : read_opts(opts, &copy);
	if (rc != 0)
		return rc;
	struct ph_bitmap_origin *o = calloc(1, sizeof(*o));
	if (o == NULL)
		return -ENOMEM;
	o->bitmap = bitmap;
	o->opts = copy;
	const struct pagehint_origin_ops ops = {
		.struct_size = sizeof(ops),
		.name = "bitmap",
		.frame_shift = copy.frame_shift,
		.min_order = copy.min_order,
		.order = copy.order,
		.next_span = next_span,
		.harvest = ph_bitmap_origin_harvest,
		.release = release,
		.get_free = get_free,
		.explain = explain,
		.destroy = destroy,
	};
	rc = ph_bitmap_watch(bitmap);
	if (rc == 0) {
		rc = pagehint_origin_new(&ops, o, ret_origin);
		if (rc != 0)
			ph_bitmap_unwatch(bitmap);
	}
	if (rc != 0)
		free(o);
	return rc;
}
