/*
 * content: what every page of a backing must read, and a count of those that do not.
 *
 * The problem: a discard that hits a page in use, or one that lets old data come back, is found only by somebody who knows
 * what each page should hold. Why this shape: a record a frame, moved by the four things that can happen to a frame.
 *
 *     fresh      nobody has written it              reads what the backing began with
 *     live       allocated                          reads its pattern, whatever happens
 *     freed      was live, nobody has touched it    still reads its last pattern
 *     gone       was given back                     reads zero
 *     unsure     given back in part, or the backing said that it kept some: reads zero or what it held before
 *
 * Not here: how much was given back, and whether twice (tally.h).
 */
#ifndef GIVEBACK_CONTENT_H
#define GIVEBACK_CONTENT_H

#include <stdint.h>

struct backing;
struct pagehint_outcome;
struct pagehint_run;

struct page_record {
	uint64_t seed; /* of what it held last; 0: never written */
	uint32_t generation;
	uint8_t state;
	uint8_t reserved[3];
};

struct content {
	const struct backing *backing;
	struct page_record *pages;
	uint64_t frames;
	uint64_t live;    /* frames */
	uint64_t corrupt; /* pages that read wrong, each counted once a check */
	uint64_t checked; /* pages compared */
	uint64_t first_corrupt;
};

int content_open(struct content *content, const struct backing *backing);
void content_close(struct content *content);

/* A block was handed out: checks what its pages still hold, then writes their patterns. */
void content_alloc(struct content *content, uint64_t frame, uint32_t order, uint32_t id);

/* A block is about to be freed: checks it. */
void content_free(struct content *content, uint64_t frame, uint32_t order);

/* A run was given back with this outcome. Live pages in it stay live: the next check finds them. */
void content_discard(struct content *content, const struct pagehint_run *run, const struct pagehint_outcome *outcome);

/* Checks the live pages among these frames. */
void content_check(struct content *content, uint64_t frame, uint64_t frames);

/* Whether somebody has written the frame since it was last given back: whether it costs the host anything. */
int content_is_written(const struct content *content, uint64_t frame);

#endif
