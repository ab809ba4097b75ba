/*
 * place: memory that is paged in, and threads that touch it.
 *
 * A round touches PLACE_PAGES pages of 4 KiB once each: disjoint parts, one a thread, or all of them by every thread from
 * another start. Thread i is pinned to the CPU that serves its part; so are the readers. Who serves is a `way`. 64 MiB, so that
 * what it costs to start 16 threads on few CPUs is little beside what they do.
 */
#ifndef BENCH_PAGING_PLACE_H
#define BENCH_PAGING_PLACE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#define PAGE 4096u
#define PLACE_PAGES 16384u
#define PLACE_BYTES ((uint64_t)PLACE_PAGES * PAGE)
#define THREADS_MAX 16u
#define READERS_MAX 16u

enum memory { MINOR, MISSING };
enum access { WRITES, READS, POPULATES };

struct place;

/* Who brings pages. open and close may be NULL: the kernel does. */
struct way {
	int (*open)(struct place *p);
	void (*close)(struct place *p);
	int (*figures)(struct place *p); /* checks what it counted; NULL = nothing to check */
};

/* A case. */
struct shape {
	enum memory memory;
	enum access access;
	unsigned threads;
	unsigned overlap; /* every thread touches every page */
	unsigned around;  /* pages, of ours */
	unsigned readers; /* of the plain handler; 0 = 1 */
	unsigned sigbus;  /* ours, inline */
	unsigned kvm;     /* vCPUs touch */
	const struct way *way;
	struct latency *latency; /* where the times of single faults go; NULL = they are not taken */
};

struct latency {
	unsigned n;
	uint32_t ns[PLACE_PAGES * 20u];
};

struct worker {
	struct place *place;
	unsigned index;
	pthread_t id;
	uint64_t start, end;
	uint64_t wrong;
};

struct place {
	struct shape shape;
	unsigned cpus;
	unsigned char *memory;
	unsigned char *alias; /* of shared memory */
	unsigned char *snapshot;
	int fd;
	pthread_barrier_t gate;
	struct worker workers[THREADS_MAX];
	pthread_t readers[READERS_MAX];
	unsigned readers_n;
	int stop[READERS_MAX]; /* eventfds */
	void *way_ctx;
	struct guest *guest;
	int failed;
};

void *place_open(const void *shape);
double place_timed(void *place, uint64_t n);
int place_check(void *place);
void place_close(void *place);

void pin_to(unsigned cpu);
uint64_t clock_ns(void);
uint64_t word_of(uint64_t page);
/* the CPU of whoever touches this page in a disjoint shape, and of the shard that has it */
unsigned cpu_of(const struct place *p, uint64_t page);

extern const struct way way_kernel, way_plain, way_ours;

#endif
