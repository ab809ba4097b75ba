/*
 * rss: the memory of this process outside of what it manages: what a leak would show in.
 */
#ifndef TESTS_SOAK_RSS_H
#define TESTS_SOAK_RSS_H

#include <stdint.h>

/* Not counted from now on: memory whose comings and goings are the point. Mappings never reach over its ends. */
void rss_managed(const void *at, uint64_t bytes);
/* [bytes], from /proc/self/smaps; UINT64_MAX: it cannot be read */
uint64_t rss_outside(void);
/* open descriptors of this process; UINT64_MAX: they cannot be counted */
uint64_t rss_descriptors(void);
/* 1: a sanitizer's own memory is in the figure, which says nothing then */
int rss_is_blurred(void);

#endif
