/*
 * subject_linux: the model of Linux; each thread is a CPU of its own.
 */
#include "models.h"
#include "subject.h"

static inline uint64_t take(void *state, unsigned thread, uint32_t order)
{
	struct linux_model *m = state;
	return linux_model_alloc(m, thread, order);
}

static inline int give(void *state, unsigned thread, uint64_t frame, uint32_t order)
{
	struct linux_model *m = state;
	linux_model_free(m, thread, frame, order);
	return 0;
}

#define LOOPS linux_loops
#include "loops.h"

static void *open_model(uint64_t frames, unsigned threads)
{
	(void)threads;
	return linux_model_new(frames);
}

static void close_model(void *state)
{
	linux_model_destroy(state);
}

static void drain(void *state, unsigned thread)
{
	linux_model_drain(state, thread);
}

static int huge_blocks(void *state, uint64_t *bitmap)
{
	return linux_model_huge_blocks(state, bitmap);
}

static uint64_t span(uint64_t frames)
{
	return frames;
}

const struct subject subject_linux = { .name = "linux",
				       .threads = 2,
				       .span = span,
				       .open = open_model,
				       .close = close_model,
				       .drain = drain,
				       .huge_blocks = huge_blocks,
				       .loops = &linux_loops };
