/*
 * The flush filter under threads: owners that take and give up frames in batches, CPUs that walk page tables and flush for
 * reasons of their own, stamps of many threads on the same words, sections that find their slots. Meant for TSan, too.
 * PAGEHINT_TEST_ROUNDS_PCT scales the rounds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pagehint/flush.h>
#include <pagehint/zone.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "alloc/flush.h"
#include "support/rounds.h"

#define SECTION ((uint64_t)PAGEHINT_SECTION_FRAMES)
#define CPUS 4u
#define FRAMES 256u /* few, so that owners take from each other what was just freed */
#define BATCH 16u
#define OWNERS 2u

/* The page tables are read and written without order, as a walker does; a walk and a flush of one CPU exclude each other. */
struct machine {
	struct pagehint_zone *zone;
	struct pagehint_flush *flush;
	_Atomic uint8_t pte[FRAMES];
	struct {
		pthread_mutex_t lock;
		uint8_t tlb[FRAMES];
	} cpu[CPUS];
	_Atomic uint64_t stale, refused, batches, flushes, kept;
	_Atomic int over;
};

struct worker {
	struct machine *m;
	unsigned id; /* from 1 */
	uint64_t random;
};

static unsigned long rounds = 100000;

static uint64_t draw(struct worker *w, uint64_t below)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return (w->random >> 11) % below;
}

static void expect(struct machine *m, int result)
{
	if (result != 0)
		atomic_fetch_add(&m->refused, 1);
}

static void flush_cpu(struct machine *m, uint32_t cpu, uint64_t tick)
{
	pthread_mutex_lock(&m->cpu[cpu].lock);
	memset(m->cpu[cpu].tlb, 0, FRAMES);
	pthread_mutex_unlock(&m->cpu[cpu].lock);
	expect(m, pagehint_flush_done(m->flush, cpu, tick));
}

/* A CPU looks frames up, and keeps what it finds in the page tables. */
static void walk(struct machine *m, uint32_t cpu, uint32_t frame, uint32_t n)
{
	uint64_t kept = 0;
	pthread_mutex_lock(&m->cpu[cpu].lock);
	for (; n != 0; n--, frame = (frame + 1) % FRAMES) {
		uint8_t pte = atomic_load_explicit(&m->pte[frame], memory_order_relaxed);
		if (pte != 0)
			m->cpu[cpu].tlb[frame] = pte;
		kept += pte != 0;
	}
	pthread_mutex_unlock(&m->cpu[cpu].lock);
	atomic_fetch_add_explicit(&m->kept, kept, memory_order_relaxed);
}

/* CPUs that walk to whatever is mapped, and flush now and then */
static void *cpu_thread(void *arg)
{
	struct worker *w = arg;
	struct machine *m = w->m;
	while (!atomic_load(&m->over)) {
		uint32_t cpu = (uint32_t)draw(w, CPUS);
		walk(m, cpu, (uint32_t)draw(w, FRAMES), 16);
		if (draw(w, 8) == 0)
			flush_cpu(m, cpu, pagehint_flush_tick(m->flush));
	}
	return NULL;
}

/* nobody can reach the frames now, and nobody can begin to: they are in no page table */
static void look_for_stale(struct machine *m, const uint64_t *frames, uint32_t n)
{
	for (uint32_t cpu = 0; cpu < CPUS; cpu++) {
		pthread_mutex_lock(&m->cpu[cpu].lock);
		for (uint32_t i = 0; i < n; i++)
			if (m->cpu[cpu].tlb[frames[i]] != 0)
				atomic_fetch_add(&m->stale, 1);
		pthread_mutex_unlock(&m->cpu[cpu].lock);
	}
}

static uint32_t take(struct machine *m, uint64_t *frames)
{
	struct pagehint_flush_filter filter;
	uint32_t n = 0, need = 0;
	uint64_t cpus[1];
	int r = pagehint_zone_alloc_batch(m->zone, 0, BATCH, frames, &n);
	if (r != 0 || n == 0)
		return n;
	pagehint_flush_begin(&filter);
	expect(m, pagehint_flush_add_blocks(m->flush, &filter, 0, n, frames));
	expect(m, pagehint_flush_need(m->flush, &filter, NULL, 1, cpus, &need));
	atomic_fetch_add(&m->batches, 1);
	if (need != 0) {
		uint64_t tick = pagehint_flush_tick(m->flush);
		for (uint32_t cpu = 0; cpu < CPUS; cpu++)
			if (cpus[0] >> cpu & 1)
				flush_cpu(m, cpu, tick);
		atomic_fetch_add(&m->flushes, 1);
	}
	look_for_stale(m, frames, n);
	return n;
}

static void *owner_thread(void *arg)
{
	struct worker *w = arg;
	struct machine *m = w->m;
	uint64_t frames[BATCH];
	for (unsigned long k = 0; k < rounds; k++) {
		uint32_t n = take(m, frames);
		for (uint32_t i = 0; i < n; i++)
			atomic_store_explicit(&m->pte[frames[i]], (uint8_t)w->id, memory_order_relaxed);
		for (uint32_t i = 0; i < n; i++)
			if (draw(w, 8) == 0)
				walk(m, (uint32_t)draw(w, CPUS), (uint32_t)frames[i], 1);
		for (uint32_t i = 0; i < n; i++)
			atomic_store_explicit(&m->pte[frames[i]], 0, memory_order_relaxed);
		expect(m, pagehint_flush_freed_blocks(m->flush, 0, n, frames));
		expect(m, pagehint_zone_free_batch(m->zone, 0, n, frames, NULL));
	}
	return NULL;
}

static struct machine *make_machine(void)
{
	struct machine *m = calloc(1, sizeof(*m));
	struct pagehint_zone_opts zone = { .struct_size = sizeof(zone) };
	struct pagehint_flush_opts flush = { .struct_size = sizeof(flush), .cpus = CPUS };
	assert_non_null(m);
	assert_int_equal(pagehint_zone_new(&zone, &m->zone), 0);
	assert_int_equal(pagehint_zone_add(m->zone, 0, FRAMES), 0);
	assert_int_equal(pagehint_flush_new(&flush, &m->flush), 0);
	for (uint32_t cpu = 0; cpu < CPUS; cpu++)
		assert_int_equal(pthread_mutex_init(&m->cpu[cpu].lock, NULL), 0);
	return m;
}

static void no_translation_outlives_a_batch(void **state)
{
	(void)state;
	struct machine *m = make_machine();
	pthread_t threads[OWNERS + 2];
	struct worker workers[OWNERS + 2];
	/* just before the end of a turn, so that the clock goes over it while all run */
	atomic_store(&m->flush->clock, (UINT64_C(1) << 32) - 2000);
	for (unsigned i = 0; i < OWNERS + 2; i++) {
		workers[i] = (struct worker) { m, i + 1, 0x9e3779b97f4a7c15u * (i + 1) };
		assert_int_equal(pthread_create(&threads[i], NULL, i < OWNERS ? owner_thread : cpu_thread, &workers[i]),
				 0);
	}
	for (unsigned i = 0; i < OWNERS; i++)
		pthread_join(threads[i], NULL);
	atomic_store(&m->over, 1);
	for (unsigned i = OWNERS; i < OWNERS + 2; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(atomic_load(&m->refused), 0);
	assert_int_equal(atomic_load(&m->stale), 0);
	assert_true(atomic_load(&m->batches) > 100); /* all of this really happened */
	assert_true(atomic_load(&m->flushes) > 10);
	assert_true(atomic_load(&m->flushes) <= atomic_load(&m->batches));
	assert_true(atomic_load(&m->kept) > 100);
	assert_int_equal(pagehint_zone_check(m->zone, NULL), 0);
	for (uint32_t cpu = 0; cpu < CPUS; cpu++)
		pthread_mutex_destroy(&m->cpu[cpu].lock);
	pagehint_flush_free(m->flush);
	pagehint_zone_destroy(m->zone);
	free(m);
}

/* Each thread stamps the same words and ticks: after its own stamp a word never looks older than that. */
static void *stamper(void *arg)
{
	struct worker *w = arg;
	struct machine *m = w->m;
	for (unsigned long k = 0; k < rounds; k++) {
		struct pagehint_run run = { draw(w, 4) * SECTION + 60, 8 };
		struct pagehint_flush_filter filter;
		uint64_t before = pagehint_flush_clock(m->flush);
		if (draw(w, 3) == 0)
			before = pagehint_flush_tick(m->flush);
		expect(m, pagehint_flush_freed(m->flush, &run, 1));
		pagehint_flush_begin(&filter);
		expect(m, pagehint_flush_add(m->flush, &filter, &run, 1));
		if (filter.newest < before)
			atomic_fetch_add(&m->stale, 1);
		if (filter.newest > pagehint_flush_clock(m->flush))
			atomic_fetch_add(&m->stale, 1);
	}
	return NULL;
}

static void stamps_never_go_back(void **state)
{
	(void)state;
	for (uint64_t room = 2; room <= 4; room += 2) { /* too few slots, and enough */
		struct machine *m = calloc(1, sizeof(*m));
		struct pagehint_flush_opts opts = {
			.struct_size = sizeof(opts), .max_sections = room, .span_sections = 4, .cpus = CPUS
		};
		pthread_t threads[4];
		struct worker workers[4];
		assert_non_null(m);
		assert_int_equal(pagehint_flush_new(&opts, &m->flush), 0);
		atomic_store(&m->flush->clock, (UINT64_C(1) << 32) - 1000);
		for (unsigned i = 0; i < 4; i++) {
			workers[i] = (struct worker) { m, i + 1, 0x9e3779b97f4a7c15u * (i + 1) };
			assert_int_equal(pthread_create(&threads[i], NULL, stamper, &workers[i]), 0);
		}
		for (unsigned i = 0; i < 4; i++)
			pthread_join(threads[i], NULL);
		assert_int_equal(atomic_load(&m->refused), 0);
		assert_int_equal(atomic_load(&m->stale), 0);
		/* no slot was lost in a race for a section */
		assert_int_equal(atomic_load(&ph_flush_used(m->flush)[0]), room == 2 ? 3 : 15);
		assert_int_equal(atomic_load(&m->flush->rest) != 0, room == 2);
		pagehint_flush_free(m->flush);
		free(m);
	}
}

#define TRIES 150000u

/* One unmaps a frame and stamps it while the other begins a flush and walks to the frame: as near to each other as it gets. */
struct race {
	struct pagehint_flush *flush;
	_Atomic unsigned met;
	_Atomic uint8_t pte[TRIES];
	uint8_t walked[TRIES];
	uint64_t stamp[TRIES], tick[TRIES];
	_Atomic uint64_t refused;
};

static void meet(struct race *r, unsigned round)
{
	atomic_fetch_add(&r->met, 1);
	for (unsigned spins = 1; atomic_load(&r->met) < 2 * round; spins++)
		if (spins % 256 == 0)
			sched_yield();
}

static void dawdle(unsigned n)
{
	for (volatile unsigned i = 0; i < n; i++)
		;
}

static void *unmapper(void *arg)
{
	struct race *r = arg;
	for (unsigned i = 0; i < TRIES; i++) {
		struct pagehint_run run = { i % 4096 * 64, 1 };
		struct pagehint_flush_filter filter;
		pagehint_flush_begin(&filter);
		meet(r, i + 1);
		(void)pagehint_flush_clock(r->flush); /* at hand, so that a wrong load of it is early */
		dawdle(i % 61);
		atomic_store_explicit(&r->pte[i], 0, memory_order_relaxed);
		if (pagehint_flush_freed(r->flush, &run, 1) != 0 || pagehint_flush_add(r->flush, &filter, &run, 1) != 0)
			atomic_fetch_add(&r->refused, 1);
		r->stamp[i] = filter.newest;
	}
	return NULL;
}

static void *flusher(void *arg)
{
	struct race *r = arg;
	for (unsigned i = 0; i < TRIES; i++) {
		meet(r, i + 1);
		(void)atomic_load_explicit(&r->pte[i], memory_order_relaxed); /* a look of the kind that goes wrong */
		dawdle(i % 67);
		r->tick[i] = pagehint_flush_tick(r->flush);
		r->walked[i] = atomic_load_explicit(&r->pte[i], memory_order_relaxed);
	}
	return NULL;
}

/* A flush that is newer than the stamp does not find the frame in the page table any more. */
static void a_newer_flush_sees_the_page_table(void **state)
{
	(void)state;
	struct race *r = calloc(1, sizeof(*r));
	struct pagehint_flush_opts opts = { .struct_size = sizeof(opts), .cpus = 1 };
	pthread_t a, b;
	unsigned newer = 0;
	assert_non_null(r);
	assert_int_equal(pagehint_flush_new(&opts, &r->flush), 0);
	for (unsigned i = 0; i < TRIES; i++)
		atomic_init(&r->pte[i], 1);
	assert_int_equal(pthread_create(&a, NULL, unmapper, r), 0);
	assert_int_equal(pthread_create(&b, NULL, flusher, r), 0);
	pthread_join(a, NULL);
	pthread_join(b, NULL);
	assert_int_equal(atomic_load(&r->refused), 0);
	for (unsigned i = 0; i < TRIES; i++)
		if (r->stamp[i] < r->tick[i]) {
			newer++;
			assert_int_equal(r->walked[i], 0);
		}
	assert_true(newer > 0);
	pagehint_flush_free(r->flush);
	free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_translation_outlives_a_batch),
		cmocka_unit_test(stamps_never_go_back),
		cmocka_unit_test(a_newer_flush_sees_the_page_table),
	};
	rounds = rounds_scaled(rounds);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
