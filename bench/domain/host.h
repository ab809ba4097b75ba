/*
 * host: a software model of a big host: 1.5 TiB of frames (metadata alone, no memory behind), 160 CPUs and their stamps.
 *
 * The problem: what a flush filter is worth shows only with more CPUs and more memory than any test machine has. Why a model
 * will do: the library's part, allocation and filter, is real and so is the CPU time it takes; a flush is a tick and one
 * stamp for each CPU that flushes, and is counted. What a flush costs a real machine is not in any time here.
 * Not here: what is measured, and how often (../domain.c).
 */
#ifndef BENCH_DOMAIN_HOST_H
#define BENCH_DOMAIN_HOST_H

#include <stddef.h>
#include <stdint.h>

#include <pagehint/flush.h>
#include <pagehint/zone.h>

#define HOST_GIB 1536u
#define HOST_CPUS 160u
#define HOST_CPU_WORDS ((HOST_CPUS + 63) / 64)
#define HOST_BATCH 512u /* extents of a batch: what the published systems hand out with one call */

/* who decides about flushes, and when */
enum way {
	WAY_NONE,     /* nobody: batches of extents, no filter; the baseline */
	WAY_BLOCK,    /* for each 4 KiB frame of what is allocated: the loop of 2012 */
	WAY_ALLOC,    /* for each allocation of an extent: what replaced it */
	WAY_BATCH,    /* for each batch; extents are allocated one by one, so that the filter is all that differs */
	WAY_POPULATE, /* for each batch, which is allocated as one, too: what an embedder would write */
	WAYS
};

/* what a domain has, as runs */
struct domain {
	struct pagehint_run *runs;
	size_t n, room;
	size_t at; /* a domain that dies bit by bit: the first run that is not gone */
};

struct host {
	struct pagehint_zone *zone;
	struct pagehint_flush *flush;
	uint64_t random;
	uint64_t flushes; /* asked for by the filter [flushes] */
	uint64_t batches;
	int failed;
};

/* 0, or -errno */
int host_open(struct host *h, uint64_t seed);
void host_close(struct host *h);

/*
 * Makes a domain of n extents of 2^order frames. `dying` (may be NULL) is torn down meanwhile, one extent for each that is
 * handed out.
 */
void host_create(struct host *h, struct domain *d, enum way way, uint32_t order, uint64_t n, struct domain *dying);

/* Tears a domain down, in batches of extents: unmap, stamp, free. */
void host_destroy(struct host *h, struct domain *d, uint32_t order);

/* frames that domains have, as the zone counts them */
uint64_t host_out(struct host *h);

#endif
