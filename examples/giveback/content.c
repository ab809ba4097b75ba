#include "content.h"

#include <errno.h>
#include <stdlib.h>

#include <pagehint/outcome.h>
#include <pagehint/run.h>

#include "backing.h"
#include "pattern.h"

enum { FRESH = 0, LIVE, FREED, GONE, UNSURE };

int content_open(struct content *content, const struct backing *backing)
{
	*content = (struct content) { .backing = backing, .frames = backing->bytes >> PAGE_SHIFT };
	content->pages = calloc((size_t)content->frames, sizeof(*content->pages));
	return content->pages ? 0 : -ENOMEM;
}

void content_close(struct content *content)
{
	free(content->pages);
	content->pages = NULL;
}

static void *page_at(const struct content *content, uint64_t frame)
{
	return content->backing->base + (frame << PAGE_SHIFT);
}

/* What the page held before it was given back, if it was. */
static int holds_last(const struct content *content, uint64_t frame, const void *page)
{
	uint64_t seed = content->pages[frame].seed;

	if (!seed)
		seed = backing_fresh_seed(content->backing, frame);
	return seed ? pattern_is(page, seed) : page_is_zero(page);
}

static void check(struct content *content, uint64_t frame)
{
	const void *page = page_at(content, frame);
	uint8_t state = content->pages[frame].state;
	int is_right;

	if (state == GONE)
		is_right = page_is_zero(page);
	else
		is_right = holds_last(content, frame, page) || (state == UNSURE && page_is_zero(page));
	content->checked++;
	if (is_right)
		return;
	if (content->corrupt++ == 0)
		content->first_corrupt = frame;
}

void content_alloc(struct content *content, uint64_t frame, uint32_t order, uint32_t id)
{
	for (uint64_t at = frame; at < frame + (UINT64_C(1) << order); at++) {
		struct page_record *record = &content->pages[at];
		void *page = page_at(content, at);

		page_touch(page);
		check(content, at);
		record->generation++;
		record->seed = pattern_seed(at, id, record->generation);
		record->state = LIVE;
		pattern_write(page, record->seed);
	}
	content->live += UINT64_C(1) << order;
}

void content_free(struct content *content, uint64_t frame, uint32_t order)
{
	for (uint64_t at = frame; at < frame + (UINT64_C(1) << order); at++) {
		check(content, at);
		content->pages[at].state = FREED;
	}
	content->live -= UINT64_C(1) << order;
}

void content_discard(struct content *content, const struct pagehint_run *run, const struct pagehint_outcome *outcome)
{
	int is_whole = outcome->kept == 0 && outcome->lazy == 0 && outcome->failed == 0;

	for (uint64_t at = run->frame; at < run->frame + run->frames; at++) {
		struct page_record *record = &content->pages[at];

		if (record->state == LIVE)
			continue;
		/* what was absent anyway may be left alone: a page that nobody wrote may go on reading the file */
		record->state = is_whole && record->seed ? GONE : record->state == GONE ? GONE : UNSURE;
	}
}

void content_check(struct content *content, uint64_t frame, uint64_t frames)
{
	for (uint64_t at = frame; at < frame + frames && at < content->frames; at++) {
		if (content->pages[at].state == LIVE)
			check(content, at);
	}
}

int content_is_written(const struct content *content, uint64_t frame)
{
	return content->pages[frame].seed != 0 && content->pages[frame].state != GONE;
}
