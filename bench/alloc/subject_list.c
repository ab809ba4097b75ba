/*
 * subject_list: the list model, from one thread.
 */
#include "models.h"
#include "subject.h"

static inline uint64_t take(void *state, unsigned thread, uint32_t order)
{
	struct list_model *m = state;
	(void)thread;
	return list_model_alloc(m, order);
}

static inline int give(void *state, unsigned thread, uint64_t frame, uint32_t order)
{
	struct list_model *m = state;
	(void)thread;
	list_model_free(m, frame, order);
	return 0;
}

#define LOOPS list_loops
#include "loops.h"

static void *open_model(uint64_t frames, unsigned threads)
{
	(void)threads;
	return list_model_new(frames);
}

static void close_model(void *state)
{
	list_model_destroy(state);
}

static void drain(void *state, unsigned thread)
{
	(void)state;
	(void)thread;
}

static int huge_blocks(void *state, uint64_t *bitmap)
{
	return list_model_huge_blocks(state, bitmap);
}

static uint64_t span(uint64_t frames)
{
	return frames;
}

const struct subject subject_list = { .name = "list",
				      .threads = 1,
				      .span = span,
				      .open = open_model,
				      .close = close_model,
				      .drain = drain,
				      .huge_blocks = huge_blocks,
				      .loops = &list_loops };
