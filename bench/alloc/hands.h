/*
 * hands: the overlap check. It is told every block that is in somebody's hands and finds frames that are in two, beyond the
 * end, or in a block that is not aligned to its size. And it knows which 2 MiB blocks nobody's hand is in.
 */
#ifndef BENCH_ALLOC_HANDS_H
#define BENCH_ALLOC_HANDS_H

#include "subject.h"

struct hands;

struct hands *hands_new(uint64_t frames);
void hands_free(struct hands *h);

void hands_hold_run(struct hands *h, uint64_t frame, uint64_t frames);
void hands_hold(struct hands *h, const struct block *blocks, uint64_t n); /* entries without a block are passed over */

uint64_t hands_overlaps(const struct hands *h); /* frames and blocks that are wrong */
uint64_t hands_held(const struct hands *h);     /* frames */
int hands_touch_huge(const struct hands *h, uint64_t block);
double hands_huge_free_pct(const struct hands *h); /* free 2 MiB blocks, of as many as the free frames could make */

#endif
