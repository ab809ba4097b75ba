/*
 * own: work that not every allocator can do: batches and runs (batch.c), finding free 2 MiB blocks and setting up 1.5 TiB
 * (whole.c). The steps of each are as the shim wants them; the argument of `open` is an own_plan.
 */
#ifndef BENCH_ALLOC_OWN_H
#define BENCH_ALLOC_OWN_H

#include "subject.h"

struct own_plan {
	const struct subject *who;
	uint64_t frames;
};

struct own_work {
	const char *name;
	void *(*open)(const void *plan);
	void (*prepare)(void *ctx, uint64_t n);
	double (*timed)(void *ctx, uint64_t n);
	int (*check)(void *ctx);
	void (*close)(void *ctx);
};

/* all frames in batches of 512, a batch a call; one operation = a frame. Zones only. */
extern const struct own_work own_batch_alloc, own_batch_free;

/* what is free of memory of which random halves of all 2 MiB blocks are in use, in pieces of 128 MiB (the model of Linux:
 * block by block); one operation = a frame. Zones and linux. */
extern const struct own_work own_runs_alloc, own_runs_free;

/* the free 2 MiB blocks of such memory as a bitmap; one operation = all of it. Subjects with huge_blocks. */
extern const struct own_work own_enum;

/* a new zone with all sections present; one operation = all of it. Zones only. */
extern const struct own_work own_init;

/* For both: a subject with all 2 MiB blocks allocated, a random half of them freed again; *ret_n blocks stay in hand. */
void *own_half_huge(const struct own_plan *plan, struct block *blocks, uint64_t *ret_n);

#endif
