/*
 * loops: a subject's loops, made from its two calls. A subject includes this once, after it has defined
 *   LOOPS             the name of the table, a static const struct loops
 *   take(s, t, order)        static inline, a frame or SUBJECT_NONE
 *   give(s, t, frame, order) static inline, 0 or not
 *
 * No guard and no common code on purpose: each subject's calls must be compiled into its own loops.
 */
#include "subject.h"

static void loop_fill(void *s, unsigned t, struct job *job)
{
	struct block *b = job->blocks;
	uint64_t n = job->n, i = 0;
	uint32_t order = job->order;
	for (; i < n; i++) {
		uint64_t frame = take(s, t, order);
		if (frame == SUBJECT_NONE)
			break;
		b[i].frame = (uint32_t)frame;
		b[i].order = order;
	}
	job->done = i;
}

static void loop_empty(void *s, unsigned t, struct job *job)
{
	const struct block *b = job->blocks;
	uint64_t n = job->n, failed = 0;
	uint32_t order = job->order;
	for (uint64_t i = 0; i < n; i++)
		failed += give(s, t, b[i].frame, order) != 0;
	job->done = n;
	job->failed += failed;
}

static void loop_pairs(void *s, unsigned t, struct job *job)
{
	struct block *b = job->blocks;
	uint64_t n = job->n, failed = 0, i = 0;
	uint32_t order = job->order;
	for (; i < n; i++) {
		failed += give(s, t, b[i].frame, order) != 0;
		uint64_t frame = take(s, t, order);
		if (frame == SUBJECT_NONE)
			break;
		b[i].frame = (uint32_t)frame;
	}
	job->done = i;
	job->failed += failed;
}

static void loop_churn(void *s, unsigned t, struct job *job)
{
	struct block *b = job->blocks;
	uint64_t n = job->n, failed = 0, i = 0;
	uint32_t order = job->order;
	while (i < n) {
		uint64_t end = i + CHURN < n ? i + CHURN : n;
		for (uint64_t k = i; k < end; k++)
			failed += give(s, t, b[k].frame, order) != 0;
		for (; i < end; i++) {
			uint64_t frame = take(s, t, order);
			if (frame == SUBJECT_NONE)
				goto out;
			b[i].frame = (uint32_t)frame;
		}
	}
out:
	job->done = i;
	job->failed += failed;
}

static void loop_mix(void *s, unsigned t, struct job *job)
{
	struct block *b = job->blocks;
	const uint8_t *orders = job->orders;
	uint64_t n = job->n, failed = 0;
	for (uint64_t i = 0; i < n; i++) {
		if (b[i].order != NO_BLOCK)
			failed += give(s, t, b[i].frame, b[i].order) != 0;
		uint64_t frame = take(s, t, orders[i]);
		b[i].frame = (uint32_t)frame;
		b[i].order = frame == SUBJECT_NONE ? NO_BLOCK : orders[i];
		failed += frame == SUBJECT_NONE;
	}
	job->done = n;
	job->failed += failed;
}

static void loop_live(void *s, unsigned t, struct job *job)
{
	struct block *b = job->blocks;
	uint64_t n = job->n, failed = 0, i = 0;
	uint32_t order = job->order;
	for (; i < n; i++) {
		failed += atomic_exchange(&job->owned[b[i].frame], 0) != 1;
		failed += give(s, t, b[i].frame, order) != 0;
		uint64_t frame = take(s, t, order);
		if (frame == SUBJECT_NONE)
			break;
		failed += atomic_exchange(&job->owned[frame], 1) != 0;
		b[i].frame = (uint32_t)frame;
	}
	job->done = i;
	job->failed += failed;
}

static const struct loops LOOPS = { .fill = loop_fill,
				    .empty = loop_empty,
				    .pairs = loop_pairs,
				    .churn = loop_churn,
				    .mix = loop_mix,
				    .live = loop_live };
