#include "place.h"

#include "guest.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define HUGE_PAGE ((uint64_t)2 << 20)

uint64_t clock_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void pin_to(unsigned cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	(void)sched_setaffinity(0, sizeof(set), &set); /* a figure without it is worse, not wrong */
}

uint64_t word_of(uint64_t page)
{
	return (page + 1) * UINT64_C(0x9e3779b97f4a7c15) | 1;
}

unsigned cpu_of(const struct place *p, uint64_t page)
{
	return (unsigned)(page * p->cpus / PLACE_PAGES);
}

const struct way way_kernel = { NULL, NULL, NULL };

/* ---- memory ---- */

static unsigned char *map_aligned(int flags, int fd)
{
	unsigned char *p =
		mmap(NULL, PLACE_BYTES + HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	unsigned char *at = p + (HUGE_PAGE - (uintptr_t)p % HUGE_PAGE) % HUGE_PAGE;
	munmap(p, (size_t)(at - p));
	munmap(at + PLACE_BYTES, (size_t)(p + HUGE_PAGE - at));
	at = mmap(at, PLACE_BYTES, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, 0);
	if (at == MAP_FAILED)
		return NULL;
	madvise(at, PLACE_BYTES, MADV_NOHUGEPAGE);
	return at;
}

static void write_content(unsigned char *to)
{
	for (uint64_t i = 0; i < PLACE_PAGES; i++) {
		uint64_t word = word_of(i);
		memset(to + i * PAGE, 0, PAGE);
		memcpy(to + i * PAGE, &word, sizeof(word));
	}
}

static int make_memory(struct place *p)
{
	p->fd = -1;
	if (p->shape.memory == MINOR) {
		p->fd = memfd_create("paging", MFD_CLOEXEC);
		if (p->fd < 0 || ftruncate(p->fd, (off_t)PLACE_BYTES) < 0)
			return -1;
		p->alias = map_aligned(MAP_SHARED, p->fd);
		if (p->alias == NULL)
			return -1;
		write_content(p->alias);
		p->memory = map_aligned(MAP_SHARED, p->fd);
	} else {
		p->snapshot = map_aligned(MAP_PRIVATE | MAP_ANONYMOUS, -1);
		if (p->snapshot == NULL)
			return -1;
		write_content(p->snapshot);
		p->memory = map_aligned(MAP_PRIVATE | MAP_ANONYMOUS, -1);
	}
	return p->memory == NULL ? -1 : 0;
}

/* ---- touching ---- */

static void touch(struct worker *w, uint64_t page)
{
	const struct shape *s = &w->place->shape;
	_Atomic uint64_t *at = (_Atomic uint64_t *)(void *)(w->place->memory + page * PAGE);
	/* the kernel alone brings zeros to anonymous memory; everybody else brings what was saved */
	uint64_t before = s->latency != NULL ? clock_ns() : 0;
	if (s->access == READS)
		w->wrong += atomic_load_explicit(at, memory_order_relaxed) == 1;
	else
		atomic_store_explicit(at + 1, page, memory_order_relaxed);
	if (s->latency != NULL && s->latency->n < sizeof(s->latency->ns) / sizeof(s->latency->ns[0]))
		s->latency->ns[s->latency->n++] = (uint32_t)(clock_ns() - before);
}

static void touch_all(struct worker *w)
{
	struct place *p = w->place;
	uint64_t part = PLACE_PAGES / p->shape.threads, first = w->index * part;
	if (p->shape.access == POPULATES) {
		if (madvise(p->memory + first * PAGE, part * PAGE, MADV_POPULATE_WRITE) != 0)
			w->wrong++;
		return;
	}
	if (p->guest != NULL) {
		w->wrong += guest_touch(p->guest, w->index, first, part) != 0;
		return;
	}
	if (!p->shape.overlap) {
		for (uint64_t i = 0; i < part; i++)
			touch(w, first + i);
		return;
	}
	for (uint64_t i = 0; i < PLACE_PAGES; i++)
		touch(w, (first + i) % PLACE_PAGES);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct place *p = w->place;
	pin_to(cpu_of(p, w->index * (PLACE_PAGES / p->shape.threads)));
	pthread_barrier_wait(&p->gate);
	w->start = clock_ns();
	touch_all(w);
	w->end = clock_ns();
	return NULL;
}

void *place_open(const void *shape)
{
	struct place *p = calloc(1, sizeof(*p));
	if (p == NULL)
		return NULL;
	p->shape = *(const struct shape *)shape;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	p->cpus = cpus < 1 ? 1 : cpus > READERS_MAX ? READERS_MAX : (unsigned)cpus;
	if (make_memory(p) < 0 || (p->shape.way->open != NULL && p->shape.way->open(p) < 0)) {
		fprintf(stderr, "paging: this machine cannot run this case\n");
		return NULL;
	}
	if (p->shape.kvm && (p->guest = guest_open(p->memory, PLACE_BYTES, p->shape.threads)) == NULL) {
		fprintf(stderr, "paging: no guest can be made here\n");
		return NULL;
	}
	pthread_barrier_init(&p->gate, NULL, p->shape.threads);
	return p;
}

/* From the first start to the last end. */
double place_timed(void *place, uint64_t n)
{
	struct place *p = place;
	uint64_t first = UINT64_MAX, last = 0;
	(void)n;
	for (unsigned i = 0; i < p->shape.threads; i++) {
		p->workers[i] = (struct worker) { .place = p, .index = i };
		if (pthread_create(&p->workers[i].id, NULL, work, &p->workers[i]) != 0)
			abort();
	}
	for (unsigned i = 0; i < p->shape.threads; i++) {
		pthread_join(p->workers[i].id, NULL);
		first = p->workers[i].start < first ? p->workers[i].start : first;
		last = p->workers[i].end > last ? p->workers[i].end : last;
		p->failed |= p->workers[i].wrong != 0;
	}
	return (double)(last - first);
}

/* Every page is there, and holds what it should; the readers still serve, so a page that is missing is found, too. */
int place_check(void *place)
{
	struct place *p = place;
	int own_zero = p->shape.memory == MISSING && p->shape.way == &way_kernel;
	static unsigned char in_core[PLACE_PAGES];
	if (p->failed || mincore(p->memory, PLACE_BYTES, in_core) != 0)
		return -1;
	for (uint64_t i = 0; i < PLACE_PAGES; i++) {
		uint64_t words[2];
		if ((in_core[i] & 1) == 0)
			return -1;
		memcpy(words, p->memory + i * PAGE, sizeof(words));
		if (words[0] != (own_zero ? 0 : word_of(i)) || (p->shape.access == WRITES && words[1] != i))
			return -1;
	}
	return p->shape.way->figures == NULL ? 0 : p->shape.way->figures(p);
}

void place_close(void *place)
{
	struct place *p = place;
	if (p->guest != NULL)
		guest_close(p->guest);
	if (p->shape.way->close != NULL)
		p->shape.way->close(p);
	pthread_barrier_destroy(&p->gate);
	munmap(p->memory, PLACE_BYTES);
	if (p->alias != NULL)
		munmap(p->alias, PLACE_BYTES);
	if (p->snapshot != NULL)
		munmap(p->snapshot, PLACE_BYTES);
	if (p->fd >= 0)
		close(p->fd);
	free(p);
}
