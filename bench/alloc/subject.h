/*
 * subject: an allocator of page frames as the workloads see it: the library, its baselines, all behind one face.
 *
 * The problem: allocators with different calls must do the same work, and the face must not cost what it is to measure.
 * Why this shape: a subject brings whole loops (loops.h makes them from its own calls), so that one indirect call starts a
 * million operations and none lies between them.
 * Not here: what work is done (workload.h), threads and clocks (crew.h).
 * Invariants: frames are numbered below span(); a block is aligned to its size; no memory is behind the frames.
 */
#ifndef BENCH_ALLOC_SUBJECT_H
#define BENCH_ALLOC_SUBJECT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define SUBJECT_NONE UINT64_MAX /* an allocation that failed */
#define NO_BLOCK 255u           /* order of an entry that holds none */
#define HUGE_ORDER 9u           /* 2 MiB */
#define GIB_FRAMES (UINT64_C(1) << 18)

/* A block in somebody's hands; 32 bits number frames up to 16 TiB. */
struct block {
	uint32_t frame;
	uint32_t order;
};

/* What one thread does in one loop. */
struct job {
	struct block *blocks;
	uint64_t n;
	uint32_t order;
	const uint8_t *orders; /* loop mix: n of them */
	atomic_uchar *owned;   /* loop live: a byte a frame, shared by all threads */
	uint64_t done;         /* blocks dealt with; set by the loop */
	uint64_t failed;       /* calls that did not do what they must; the loop adds */
};

typedef void (*loop_fn)(void *state, unsigned thread, struct job *job);

struct loops {
	loop_fn fill;  /* allocates until n or until none is left */
	loop_fn empty; /* frees all n in their order */
	loop_fn pairs; /* for each: frees it, allocates in its place */
	loop_fn churn; /* the same in batches of CHURN blocks */
	loop_fn mix;   /* for each: frees what is there, allocates orders[i] in its place */
	loop_fn live; /* as pairs, and marks in `owned` what is in hand at that very moment; two hands on one frame fail */
};

#define CHURN 512u

struct subject {
	const char *name;
	unsigned threads; /* how many may use it at once */
	uint64_t (*span)(uint64_t frames);
	void *(*open)(uint64_t frames, unsigned threads); /* all frames free; NULL = no memory */
	void (*close)(void *state);
	void (*drain)(void *state, unsigned thread); /* gives what the thread's cache holds back */
	int (*huge_blocks)(void *state,
			   uint64_t *bitmap); /* sets the bits of free 2 MiB blocks; NULL = it cannot say */
	const struct loops *loops;
};

extern const struct subject subject_zone, subject_untracked, subject_list, subject_linux, subject_jemalloc;

/* Zeroed memory that is not there until it is touched. Ends the program when there is none. */
void *bench_map(size_t bytes);
void bench_unmap(void *at, size_t bytes);

#endif
