/*
 * balloon: the same memory as the zone's through the balloon device: a guest's driver fills the ring, only the device is timed.
 */
#ifndef BENCH_RECLAIM_BALLOON_H
#define BENCH_RECLAIM_BALLOON_H

#include <stdint.h>

#define PAGE 4096u
#define SECTIONS 4u
#define MEMORY ((uint64_t)SECTIONS << 30)
#define BLOCK (UINT64_C(2) << 20)
#define BLOCKS (MEMORY / BLOCK)

/* reports of adjacent blocks, of every other block; inflation page by page */
void *balloon_report(void);
void *balloon_report_apart(void);
void *balloon_inflate(void);

/* n blocks of 2 MiB: CPU time of the device [ns] */
double balloon_time(void *ctx, uint64_t n);
int balloon_check(void *ctx);
void balloon_close(void *ctx);

/* CPU time of this thread */
double balloon_cpu_ns(void);

#endif
