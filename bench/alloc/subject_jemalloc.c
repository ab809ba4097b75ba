/*
 * subject_jemalloc: blocks of 4 KiB << order from jemalloc, aligned to their size, out of one reserved region that nothing
 * ever touches; an arena and a cache a thread, and nothing given back to the kernel while it runs (what it would give back is
 * memory, and there is none behind the frames here).
 *
 * Not here: anything when the build found no jemalloc; then it has no loops, and the table leaves it out.
 */
#include "subject.h"

#ifdef BENCH_JEMALLOC

#include <jemalloc/jemalloc.h>
#include <stdio.h>
#include <stdlib.h>

#define FRAME_SHIFT 12u
#define SLACK 4u /* it grows in steps of its own: region over frames */
#define THREADS 2u
#define HUGE_BYTES ((uintptr_t)1 << (FRAME_SHIFT + HUGE_ORDER))

/* read by jemalloc as it starts */
extern const char *malloc_conf;
const char *malloc_conf = "dirty_decay_ms:-1,muzzy_decay_ms:-1,background_thread:false";

/* A thread's arena, in its part of the region. */
struct part {
	extent_hooks_t hooks;
	uintptr_t next;
	uintptr_t end;
	unsigned arena;
	unsigned cache;
	int flags;
};

struct arenas {
	void *memory;
	size_t bytes;
	uintptr_t base; /* frame 0; aligned as the largest block is */
	unsigned n;
	struct part parts[THREADS];
};

static inline uint64_t take(void *state, unsigned thread, uint32_t order)
{
	struct arenas *a = state;
	size_t bytes = (size_t)1 << (FRAME_SHIFT + order);
	void *at = mallocx(bytes, a->parts[thread].flags | MALLOCX_LG_ALIGN(FRAME_SHIFT + order));
	return at == NULL ? SUBJECT_NONE : ((uintptr_t)at - a->base) >> FRAME_SHIFT;
}

static inline int give(void *state, unsigned thread, uint64_t frame, uint32_t order)
{
	struct arenas *a = state;
	size_t bytes = (size_t)1 << (FRAME_SHIFT + order);
	sdallocx((void *)(a->base + (frame << FRAME_SHIFT)), bytes,
		 a->parts[thread].flags | MALLOCX_LG_ALIGN(FRAME_SHIFT + order));
	return 0;
}

#define LOOPS jemalloc_loops
#include "loops.h"

/* The next piece of the part; jemalloc serialises this for an arena. */
static void *grow(extent_hooks_t *hooks, void *wanted, size_t size, size_t alignment, bool *zero, bool *commit,
		  unsigned index)
{
	struct part *p = (struct part *)hooks;
	uintptr_t at = (p->next + alignment - 1) & ~((uintptr_t)alignment - 1);
	(void)index;
	if (wanted != NULL || at + size > p->end)
		return NULL;
	p->next = at + size;
	*zero = true;
	*commit = true;
	return (void *)at;
}

static bool keep_whole(extent_hooks_t *hooks, void *at, size_t size, size_t left, size_t right, bool committed,
		       unsigned index)
{
	(void)hooks, (void)at, (void)size, (void)left, (void)right, (void)committed, (void)index;
	return false; /* allowed */
}

static bool keep_joined(extent_hooks_t *hooks, void *a, size_t size_a, void *b, size_t size_b, bool committed,
			unsigned index)
{
	(void)hooks, (void)a, (void)size_a, (void)b, (void)size_b, (void)committed, (void)index;
	return false; /* allowed */
}

static void drain(void *state, unsigned thread)
{
	struct arenas *a = state;
	mallctl("tcache.flush", NULL, NULL, &a->parts[thread].cache, sizeof(unsigned));
}

static void close_arenas(void *state)
{
	struct arenas *a = state;
	char name[64];
	for (unsigned i = 0; i < a->n; i++)
		mallctl("tcache.destroy", NULL, NULL, &a->parts[i].cache, sizeof(unsigned));
	for (unsigned i = 0; i < a->n; i++) {
		snprintf(name, sizeof(name), "arena.%u.destroy", a->parts[i].arena);
		mallctl(name, NULL, NULL, NULL, 0);
	}
	bench_unmap(a->memory, a->bytes);
	free(a);
}

static uint64_t span(uint64_t frames)
{
	return frames * SLACK + (64u << 8); /* and 64 MiB for what small zones need beside */
}

static int open_part(struct part *p, uintptr_t start, uintptr_t end)
{
	extent_hooks_t *hooks = &p->hooks;
	size_t size = sizeof(unsigned);
	p->hooks.alloc = grow;
	p->hooks.split = keep_whole;
	p->hooks.merge = keep_joined;
	p->next = start;
	p->end = end;
	if (mallctl("arenas.create", &p->arena, &size, &hooks, sizeof(hooks)) != 0)
		return -1;
	if (mallctl("tcache.create", &p->cache, &size, NULL, 0) != 0)
		return -1;
	p->flags = MALLOCX_ARENA(p->arena) | MALLOCX_TCACHE(p->cache);
	return 0;
}

static void *open_arenas(uint64_t frames, unsigned threads)
{
	struct arenas *a = calloc(1, sizeof(*a));
	size_t part = (span(frames) / threads) << FRAME_SHIFT & ~(HUGE_BYTES - 1);
	if (a == NULL)
		return NULL;
	a->bytes = part * threads + HUGE_BYTES;
	a->memory = bench_map(a->bytes);
	a->base = ((uintptr_t)a->memory + HUGE_BYTES - 1) & ~(HUGE_BYTES - 1);
	for (; a->n < threads; a->n++) {
		uintptr_t start = a->base + a->n * part;
		if (open_part(&a->parts[a->n], start, start + part) == 0)
			continue;
		close_arenas(a);
		return NULL;
	}
	return a;
}

const struct subject subject_jemalloc = { .name = "jemalloc",
					  .threads = THREADS,
					  .span = span,
					  .open = open_arenas,
					  .close = close_arenas,
					  .drain = drain,
					  .loops = &jemalloc_loops };

#else

const struct subject subject_jemalloc = { .name = "jemalloc" };

#endif
