/*
 * The shim on work whose cost is known: `double` does twice the work of `single`. What the test asserts are counts, never
 * times: how often each step was called, that the rounds were interleaved, and that a failed check fails the bench.
 *
 * usage: shim_selftest [--fail-check | --fail-setup | --no-baseline | --own-clock] [arguments of every bench]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/shim.h"

#define OPS 20000u
#define BATCHES 3u

struct work {
	uint64_t sum;
	uint64_t batches;
	uint64_t prepared;
	uint64_t factor;
};

static unsigned setups[2], teardowns[2], longest_stretch, stretch, last = 2;
static int fail_check, fail_setup;

static void *begin(unsigned which)
{
	if (fail_setup && which == 1 && setups[1] == 3)
		return NULL;
	stretch = which == last ? stretch + 1 : 1;
	last = which;
	if (stretch > longest_stretch)
		longest_stretch = stretch;
	setups[which]++;
	struct work *w = calloc(1, sizeof(*w));
	if (w != NULL)
		w->factor = which + 1;
	return w;
}

static void *single_setup(void)
{
	return begin(0);
}

static void *double_setup(void)
{
	return begin(1);
}

static void *opened(const void *arg)
{
	return begin(*(const unsigned *)arg);
}

static void prepare(void *ctx, uint64_t n)
{
	struct work *w = ctx;
	(void)n;
	w->prepared++;
}

static void batch(void *ctx, uint64_t n)
{
	struct work *w = ctx;
	for (uint64_t i = 0; i < n * w->factor; i++) {
		w->sum++;
		__asm__ volatile("" : : "g"(w) : "memory");
	}
	w->batches++;
}

/* a clock of its own: one operation of factor 1 takes 1 ns */
static double timed(void *ctx, uint64_t n)
{
	struct work *w = ctx;
	batch(ctx, n);
	return (double)(n * w->factor);
}

static int check(void *ctx)
{
	struct work *w = ctx;
	if (fail_check && w->factor == 2)
		return -1;
	return w->batches == BATCHES && w->prepared == BATCHES && w->sum == BATCHES * OPS * w->factor ? 0 : -1;
}

static void teardown(void *ctx)
{
	struct work *w = ctx;
	teardowns[w->factor - 1]++;
	free(w);
}

static void summary(const struct bench_result *results, size_t n)
{
	(void)results;
	bench_publish("cases", (double)n, "cases");
	bench_publish("setups", setups[0] + setups[1], "calls");
	bench_publish("unbalanced", (double)(setups[0] - teardowns[0]) + (double)(setups[1] - teardowns[1]), "calls");
	bench_publish("longest_stretch", longest_stretch, "runs");
}

static void own_clock(struct bench_case *c)
{
	static const unsigned second = 1;
	c->setup = NULL;
	c->batch = NULL;
	c->open = opened;
	c->arg = &second;
	c->timed = timed;
}

int main(int argc, char **argv)
{
	struct bench_case cases[2] = {
		{ .name = "single",
		  .n = OPS,
		  .batches = BATCHES,
		  .setup = single_setup,
		  .prepare = prepare,
		  .batch = batch,
		  .check = check,
		  .teardown = teardown },
		{ .name = "double",
		  .baseline = "single",
		  .n = OPS,
		  .batches = BATCHES,
		  .setup = double_setup,
		  .prepare = prepare,
		  .batch = batch,
		  .check = check,
		  .teardown = teardown },
	};
	if (argc > 1 && strcmp(argv[1], "--fail-check") == 0)
		fail_check = 1;
	else if (argc > 1 && strcmp(argv[1], "--fail-setup") == 0)
		fail_setup = 1;
	else if (argc > 1 && strcmp(argv[1], "--no-baseline") == 0)
		cases[1].baseline = NULL;
	else if (argc > 1 && strcmp(argv[1], "--own-clock") == 0)
		own_clock(&cases[1]);
	else
		return bench_main(argc, argv, "shim_selftest", cases, 2, summary);
	argv[1] = argv[0];
	return bench_main(argc - 1, argv + 1, "shim_selftest", cases, 2, summary);
}
