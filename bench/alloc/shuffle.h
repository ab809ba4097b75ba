/*
 * shuffle: random order, the same for every subject: a generator of its own, so that a figure does not depend on libc's.
 */
#ifndef BENCH_ALLOC_SHUFFLE_H
#define BENCH_ALLOC_SHUFFLE_H

#include "subject.h"

#define SHUFFLE_SEED UINT64_C(0x9e3779b97f4a7c15)

/* xorshift64 (Marsaglia 2003) */
static inline uint64_t shuffle_next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	return *seed ^= *seed << 17;
}

/* 0 .. n - 1, for n below 2^32 */
static inline uint64_t shuffle_below(uint64_t *seed, uint64_t n)
{
	return ((shuffle_next(seed) >> 32) * n) >> 32;
}

static inline void shuffle_blocks(struct block *b, uint64_t n, uint64_t *seed)
{
	for (uint64_t i = 0; i < n; i++) {
		uint64_t k = i + shuffle_below(seed, n - i);
		struct block held = b[i];
		b[i] = b[k];
		b[k] = held;
	}
}

#endif
