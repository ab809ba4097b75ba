#include "selfcheck.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models.h"
#include "workload.h"

#define EVERY 1000u

/* The list model, but every so often an allocation answers with the frame before it once more, and loses its own. */
struct broken {
	struct list_model *model;
	uint64_t last;
	unsigned calls;
};

static inline uint64_t take(void *state, unsigned thread, uint32_t order)
{
	struct broken *b = state;
	(void)thread;
	uint64_t frame = list_model_alloc(b->model, order);
	if (++b->calls % EVERY == 0)
		return b->last;
	return b->last = frame;
}

static inline int give(void *state, unsigned thread, uint64_t frame, uint32_t order)
{
	(void)state, (void)thread, (void)frame, (void)order;
	return 0;
}

#define LOOPS broken_loops
#include "loops.h"

static void *open_broken(uint64_t frames, unsigned threads)
{
	struct broken *b = calloc(1, sizeof(*b));
	(void)threads;
	if (b != NULL)
		b->model = list_model_new(frames);
	return b;
}

static void close_broken(void *state)
{
	struct broken *b = state;
	list_model_destroy(b->model);
	free(b);
}

static void drain(void *state, unsigned thread)
{
	(void)state, (void)thread;
}

static uint64_t span(uint64_t frames)
{
	return frames;
}

static const struct subject broken = { .name = "broken",
				       .threads = 1,
				       .span = span,
				       .open = open_broken,
				       .close = close_broken,
				       .drain = drain,
				       .loops = &broken_loops };

/* Memory so large that the broken one, which frees nothing, does not run out: what is found is the overlap. */
static int broken_is_noticed(void)
{
	static const struct workload mix = { "mixed", WORK_MIX, 0, 1, 0, 0 };
	struct outcome outcome = { 0 };
	struct plan p = { &mix, &broken, &outcome, GIB_FRAMES, 1 };
	void *ctx = workload_open(&p);
	if (ctx == NULL)
		return 0;
	int r = workload_check(ctx);
	workload_close(ctx);
	return r != 0;
}

static int run_once(const struct bench_case *c)
{
	void *ctx = c->open(c->arg);
	if (ctx == NULL)
		return -1;
	if (c->prepare != NULL)
		c->prepare(ctx, c->n);
	c->timed(ctx, c->n);
	int r = c->check(ctx);
	c->teardown(ctx);
	return r;
}

int selfcheck(const struct bench_case *cases, size_t n, const char *only)
{
	unsigned run = 0, failed = 0;
	for (size_t i = 0; i < n; i++) {
		if (strncmp(cases[i].name, only, strlen(only)) != 0)
			continue;
		run++;
		if (run_once(&cases[i]) == 0)
			continue;
		failed++;
		printf("failed: %s\n", cases[i].name);
	}
	if (*only == 0 && !broken_is_noticed()) {
		failed++;
		printf("failed: an allocator that hands frames out twice was not noticed\n");
	}
	printf("%u cases, %u failed\n", run, failed);
	return failed == 0 && run != 0 ? 0 : 1;
}
