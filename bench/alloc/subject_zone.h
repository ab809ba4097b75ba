/*
 * subject_zone: what the subject's state is, for the workloads that only a zone can do (own.c).
 */
#ifndef BENCH_ALLOC_SUBJECT_ZONE_H
#define BENCH_ALLOC_SUBJECT_ZONE_H

#include "subject.h"

#define ZONE_THREADS 2u

struct pagehint_zone;
struct pagehint_cache;

struct zone_subject {
	struct pagehint_zone *zone;
	struct pagehint_cache *caches[ZONE_THREADS];
	uint64_t frames;
};

/* a new zone of frames 0 .. frames - 1, all free; NULL = it failed */
struct pagehint_zone *zone_make(uint64_t frames, uint32_t flags);

#endif
