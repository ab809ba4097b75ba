/*
 * process: a guest that is no guest: memory behind a zone, and somebody who gives it back, in one of four ways.
 *
 * The problem: real guests take seconds each and measure a whole kernel; the library's own share is to be had in
 * milliseconds. Why this shape: one memory, the same for all ways, so that they differ in nothing but who gives back.
 * Not here: what is done with the memory (process/work.c).
 * Owns: memory, zone, reporter, and the thread that steps it, if there is one.
 */
#ifndef BENCH_GUESTS_PROCESS_H
#define BENCH_GUESTS_PROCESS_H

#include <pthread.h>
#include <stdint.h>

#include <pagehint/backend.h>
#include <pagehint/bitmap.h>
#include <pagehint/cache.h>
#include <pagehint/map.h>
#include <pagehint/origin.h>
#include <pagehint/reporter.h>
#include <pagehint/zone.h>

#define SECOND UINT64_C(1000000000) /* ns */

enum way {
	WAY_NONE,   /* nobody gives back */
	WAY_PLAIN,  /* whatever is free, at once, a call for each 2 MiB */
	WAY_BITMAP, /* S1's bitmap: an allocator of the embedder's, a threshold, no ladder */
	WAY_OURS    /* zone and reporter with their defaults; the ladder under pressure */
};

struct host {
	enum way way;
	unsigned char *memory;
	uint64_t frames;
	int fd;
	struct pagehint_map *map;
	struct pagehint_zone *zone;
	struct pagehint_backend *inner, *backend; /* the same but in WAY_PLAIN */
	struct pagehint_bitmap *bitmap;
	pthread_mutex_t lock; /* WAY_BITMAP: lists and bits of the embedder's allocator */
	struct pagehint_origin *origin;
	struct pagehint_reporter *reporter;
	pthread_t thread;
	int stop; /* says the thread's owner, under `stopping` */
	pthread_mutex_t stopping;
	pthread_cond_t stopped;
};

/* -1 when there is no such way */
int host_way(const char *name);

/* Dies with a message when it fails: a bench has nothing better to do. */
void host_open(struct host *host, enum way way, uint64_t bytes);
/* One block of frames; `cache` is NULL where the way has none. */
uint64_t host_alloc(struct host *host, struct pagehint_cache *cache, uint32_t order);
void host_free(struct host *host, struct pagehint_cache *cache, uint64_t frame, uint32_t order);
/* Steps the reporter until it has nothing due before now_ns. Returns when it wants to be called. */
uint64_t host_step(struct host *host, uint64_t now_ns);
/* A thread that does so in real time, until host_close. */
void host_run(struct host *host);
void host_close(struct host *host);

uint64_t host_now(void);
void host_must(const char *what, int r);

#endif
