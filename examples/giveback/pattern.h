/*
 * pattern: what a page's bytes should be, from one number.
 *
 * A page of 4 KiB holds 512 words that follow from its seed; the seed follows from the frame, the allocation and how often the
 * frame was handed out, so that an old page, another frame's page and half a page are all told from the right one.
 */
#ifndef GIVEBACK_PATTERN_H
#define GIVEBACK_PATTERN_H

#include <stdint.h>

#include "sizes.h"

/* Never 0. */
uint64_t pattern_seed(uint64_t frame, uint64_t id, uint64_t generation);

void pattern_write(void *page, uint64_t seed);

int pattern_is(const void *page, uint64_t seed);

int page_is_zero(const void *page);

/*
 * Makes the host back the page with memory of its own, its content unchanged, by writing without changing anything. A read
 * would do it in two steps (the shared zero page first), and would keep transparent huge pages from forming on older kernels.
 */
void page_touch(void *page);

#endif
