#include "naive.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backing.h"
#include "clock.h"
#include "content.h"
#include "host.h"
#include "pattern.h"

void naive_close(struct naive *naive)
{
	free(naive->items);
	free(naive->written);
	*naive = (struct naive) { 0 };
}

static int push_written(struct naive *naive, uint64_t frame, uint64_t frames)
{
	if (naive->n_written == naive->room_written) {
		size_t room = naive->room_written ? naive->room_written * 2 : 1024;
		struct pagehint_run *written = realloc(naive->written, room * sizeof(*written));

		if (!written)
			return -ENOMEM;
		naive->written = written;
		naive->room_written = room;
	}
	naive->written[naive->n_written++] = (struct pagehint_run) { frame, frames };
	return 0;
}

static int push_item(struct naive *naive, const struct naive_item *item)
{
	if (naive->n == naive->room) {
		size_t room = naive->room ? naive->room * 2 : 256;
		struct naive_item *items = realloc(naive->items, room * sizeof(*items));

		if (!items)
			return -ENOMEM;
		naive->items = items;
		naive->room = room;
	}
	naive->items[naive->n++] = *item;
	return 0;
}

void naive_record(struct naive *naive, const struct content *content, const struct pagehint_run *run)
{
	struct naive_item item = { .run = *run, .first = naive->n_written };
	uint64_t end = run->frame + run->frames;
	int rc = 0;

	for (uint64_t at = run->frame; at < end && !rc;) {
		uint64_t start = at;

		while (at < end && content_is_written(content, at))
			at++;
		if (at > start)
			rc = push_written(naive, start, at - start);
		else
			at++;
	}
	item.n = naive->n_written - item.first;
	if (rc || push_item(naive, &item))
		naive->is_short = 1;
}

/* The end of the round that begins at item `from`: the first item that has a frame of an earlier one. */
static size_t round_end(const struct naive *naive, size_t from, uint32_t *seen, uint32_t round)
{
	for (size_t i = from; i < naive->n; i++) {
		const struct pagehint_run *run = &naive->items[i].run;

		for (uint64_t at = run->frame; at < run->frame + run->frames; at++) {
			if (seen[at] == round)
				return i;
		}
		for (uint64_t at = run->frame; at < run->frame + run->frames; at++)
			seen[at] = round;
	}
	return naive->n;
}

static void write_pages(const struct naive *naive, const struct backing *backing, const struct naive_item *item)
{
	for (size_t i = item->first; i < item->first + item->n; i++) {
		const struct pagehint_run *run = &naive->written[i];

		for (uint64_t at = run->frame; at < run->frame + run->frames; at++)
			pattern_write(backing->base + (at << PAGE_SHIFT), pattern_seed(at, i, 1));
	}
}

static uint64_t count_wrong(const struct naive *naive, const struct backing *backing, const struct naive_item *item)
{
	uint64_t wrong = 0;

	for (size_t i = item->first; i < item->first + item->n; i++) {
		const struct pagehint_run *run = &naive->written[i];

		for (uint64_t at = run->frame; at < run->frame + run->frames; at++)
			wrong += !page_is_zero(backing->base + (at << PAGE_SHIFT));
	}
	return wrong;
}

static void dontneed(const struct backing *backing, const struct pagehint_run *run, struct naive_result *result)
{
	uint64_t end = run->frame + run->frames;
	uint64_t started = clock_ns();

	for (uint64_t at = run->frame; at < end;) {
		uint64_t stop = (at / GRANULE_FRAMES + 1) * GRANULE_FRAMES;

		if (stop > end)
			stop = end;
		if (madvise(backing->base + (at << PAGE_SHIFT), (stop - at) << PAGE_SHIFT, MADV_DONTNEED))
			result->refused++;
		result->calls++;
		at = stop;
	}
	result->ns += clock_ns() - started;
	result->asked_bytes += run->frames << PAGE_SHIFT;
}

static int play_round(const struct naive *naive, struct backing *backing, size_t from, size_t to,
		      struct naive_result *result)
{
	uint64_t before = 0;
	uint64_t after = 0;
	int rc;

	for (size_t i = from; i < to; i++)
		write_pages(naive, backing, &naive->items[i]);
	rc = host_bytes(backing, &before);
	for (size_t i = from; i < to && !rc; i++)
		dontneed(backing, &naive->items[i].run, result);
	rc = rc ? rc : host_bytes(backing, &after);
	if (rc)
		return rc;
	result->host_freed_bytes += before > after ? before - after : 0;
	for (size_t i = from; i < to; i++)
		result->wrong_pages += count_wrong(naive, backing, &naive->items[i]);
	return backing_reset(backing);
}

int naive_play(const struct naive *naive, struct backing *backing, struct naive_result *result, struct why *why)
{
	uint32_t *seen = calloc((size_t)(backing->bytes >> PAGE_SHIFT), sizeof(*seen));
	uint32_t round = 0;
	int rc = seen && !naive->is_short ? backing_reset(backing) : -ENOMEM;

	*result = (struct naive_result) { 0 };
	for (size_t from = 0; from < naive->n && !rc;) {
		size_t to = round_end(naive, from, seen, ++round);

		rc = play_round(naive, backing, from, to, result);
		from = to;
	}
	free(seen);
	if (rc)
		snprintf(why->text, sizeof(why->text), "%s: replaying the runs with MADV_DONTNEED: %s",
			 backing_name(backing->kind), strerror(-rc));
	return rc;
}
