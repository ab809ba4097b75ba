/*
 * account: what the host holds, and what giving back cost, from nothing but what was handed out and what was given back.
 *
 * The problem: two allocators place the same work at different frames, so their figures are comparable only where they are sums.
 * Why this shape: two bits a frame (the host holds it; it was given back and not handed out since), and sums over time.
 * Not here: who allocates (play.h). Owns: the bits.
 * Invariants: time never goes back; held counts the bits; unreturned is what is held and not live.
 */
#ifndef BENCH_ORDER_ACCOUNT_H
#define BENCH_ORDER_ACCOUNT_H

#include <stdint.h>

struct account {
	uint8_t *bits;
	uint64_t frames;
	uint64_t unit; /* frames that are remembered as reported together: a granule, or a block of the least order */
	uint64_t now_ns;
	uint64_t until_ns;         /* nothing is summed over time from here on */
	uint64_t held, live, ever; /* frames; ever: that were handed out at all */
	uint64_t refaults;         /* frames handed out again after they had been given back */
	uint64_t rereported; /* frames of whole units given back although nothing of them had been handed out since */
	uint64_t resent;     /* single frames of that kind */
	uint64_t returned;   /* frames that the host held until they were given back */
	double unreturned;   /* frame-seconds held and not live */
	double never;        /* what these would be if nothing was ever given back */
};

/* 0, or -1 without memory */
int account_open(struct account *a, uint64_t frames, uint32_t order);
void account_close(struct account *a);
void account_advance(struct account *a, uint64_t now_ns);
void account_alloc(struct account *a, uint64_t now_ns, uint64_t frame, uint32_t order);
void account_free(struct account *a, uint64_t now_ns, uint32_t order);
void account_discard(struct account *a, uint64_t now_ns, uint64_t frame, uint64_t frames);

#endif
