/*
 * Lookups, discards and pins against regions that come and go. Every cell of frames has a plain word that may be written only
 * by who has the cell for himself (its region is removed, or pinned and drained), and read only by who is inside: if the map
 * ever lets both in, the word is wrong, and ThreadSanitizer sees the race.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdlib.h>

#include "support/region.h"

#include <cmocka.h>

#include "memory/map.h"
#include "support/meeting.h"

#define CELLS 6
#define CHURNED 4 /* cells 0..3 come and go, the others stay and are pinned now and then */
#define SPREAD 1000
#define FRAMES 64
#define POISON UINT64_C(0xdead)
#define ROUNDS 700

struct cell {
	uint64_t word;
	_Atomic uint64_t id;
	_Atomic uint32_t inside;
};

struct test {
	struct pagehint_map *map;
	struct cell cells[CELLS];
	_Atomic uint32_t running; /* threads that have rounds to do */
	_Atomic uint64_t entered, refused, gone, faults;
};

struct worker {
	struct test *test;
	uint32_t number;
};

/* A kernel where every fd is a guest_memfd, so that adding a region needs no memory and little time. */
static int fake_fstat(void *ctx, int fd, struct stat *st)
{
	(void)ctx, (void)fd;
	memset(st, 0, sizeof(*st));
	st->st_mode = S_IFREG;
	st->st_size = (off_t)1 << 30;
	return 0;
}

static int fake_fstatfs(void *ctx, int fd, struct statfs *st)
{
	(void)ctx, (void)fd;
	memset(st, 0, sizeof(*st));
	st->f_type = 0x474d454d;
	return 0;
}

static void fault_if(struct test *t, int wrong)
{
	if (wrong)
		atomic_fetch_add(&t->faults, 1);
}

static void add_cell(struct test *t, uint32_t c)
{
	struct pagehint_region_desc d = describe((uint64_t)c * SPREAD, NULL, FRAMES << 12, 7);
	uint64_t id = 0;
	d.fd_offset = (uint64_t)c * SPREAD << 12;
	fault_if(t, pagehint_map_add(t->map, &d, &id) != 0);
	atomic_store(&t->cells[c].id, id);
}

static void alone_in(struct test *t, struct cell *cell, uint64_t word)
{
	fault_if(t, atomic_load(&cell->inside) != 0);
	cell->word = word;
}

static void *churn(void *arg)
{
	struct worker *w = arg;
	struct test *t = w->test;
	for (uint64_t round = 0; round < ROUNDS; round++) {
		uint32_t c = w->number * 2 + (round & 1);
		struct cell *cell = &t->cells[c];
		alone_in(t, cell, round);
		add_cell(t, c);
		sched_yield();
		int r;
		while ((r = pagehint_map_remove(t->map, atomic_load(&cell->id))) == -EBUSY)
			sched_yield();
		fault_if(t, r != 0);
		alone_in(t, cell, POISON);
	}
	atomic_fetch_sub(&t->running, 1);
	return NULL;
}

static void *pin(void *arg)
{
	struct worker *w = arg;
	struct test *t = w->test;
	struct pagehint_region_info info = { .struct_size = sizeof(info) };
	for (uint64_t round = 0; round < ROUNDS; round++) {
		uint32_t c = CHURNED + w->number;
		struct cell *cell = &t->cells[c];
		uint64_t id = atomic_load(&cell->id), inside = 0;
		fault_if(t, pagehint_map_pin(t->map, id, &inside) != 0);
		while (inside != 0) {
			sched_yield();
			fault_if(t, pagehint_map_lookup(t->map, (uint64_t)c * SPREAD, &info) != 0);
			inside = info.in_flight;
		}
		alone_in(t, cell, round);
		fault_if(t, pagehint_map_unpin(t->map, id) != 0);
		sched_yield();
	}
	atomic_fetch_sub(&t->running, 1);
	return NULL;
}

static void discard_in(struct test *t, uint32_t c)
{
	struct ph_region r;
	struct cell *cell = &t->cells[c];
	int e = ph_map_enter(t->map, (uint64_t)c * SPREAD + 3, FRAMES - 3, &r);
	if (e == 0) {
		atomic_fetch_add(&cell->inside, 1);
		fault_if(t, cell->word == POISON || r.frame != (uint64_t)c * SPREAD || r.frames != FRAMES ||
				    r.fd_offset != r.frame << 12);
		atomic_fetch_sub(&cell->inside, 1);
		ph_map_leave(t->map, r.id);
	}
	atomic_fetch_add(e == 0 ? &t->entered : e == -EBUSY ? &t->refused : &t->gone, 1);
	fault_if(t, e != 0 && e != -EBUSY && (e != -ERANGE || c >= CHURNED));
}

static void look_around(struct test *t)
{
	struct pagehint_region_info info = { .struct_size = sizeof(info) };
	uint32_t seen = 0;
	for (uint64_t at = 0; pagehint_map_next(t->map, at, &info) == 0; at = info.frame + info.frames) {
		fault_if(t, info.frame < at || info.frame % SPREAD != 0 || info.frames != FRAMES ||
				    info.fd_offset != info.frame << 12);
		seen += info.frame / SPREAD >= CHURNED;
	}
	fault_if(t, seen != CELLS - CHURNED); /* what stays is always found */
	uint32_t n = pagehint_map_regions(t->map);
	fault_if(t, n < CELLS - CHURNED || n > CELLS);
}

/* A pin by an id that may be gone, or gone between pinning and unpinning; never somebody else's. */
static void pin_in_passing(struct test *t, uint32_t c)
{
	uint64_t id = atomic_load(&t->cells[c].id);
	int r = pagehint_map_pin(t->map, id, NULL);
	fault_if(t, r != 0 && r != -ERANGE);
	if (r == 0) {
		r = pagehint_map_unpin(t->map, id);
		fault_if(t, r != 0 && r != -ERANGE);
	}
}

static void *use(void *arg)
{
	struct worker *w = arg;
	struct test *t = w->test;
	for (uint32_t i = w->number; atomic_load(&t->running) != 0; i++) {
		discard_in(t, i % CELLS);
		look_around(t);
		if (i % 16 == 0)
			pin_in_passing(t, i / 16 % CHURNED);
	}
	return NULL;
}

static void test_regions_come_and_go(void **state)
{
	(void)state;
	struct ph_sys sys = ph_sys_real;
	struct pagehint_map_opts opts = { .struct_size = sizeof(opts), .max_regions = CELLS };
	struct test t;
	memset(&t, 0, sizeof(t));
	sys.fstat = fake_fstat;
	sys.fstatfs = fake_fstatfs;
	assert_int_equal(ph_map_new_with(&opts, &sys, &t.map), 0);
	for (uint32_t c = CHURNED; c < CELLS; c++)
		add_cell(&t, c);
	static void *(*const bodies[])(void *) = { churn, churn, pin, pin, use, use };
	static const uint32_t numbers[] = { 0, 1, 0, 1, 0, 3 };
	pthread_t threads[6];
	struct worker workers[6];
	atomic_store(&t.running, 4);
	for (int i = 0; i < 6; i++) {
		workers[i] = (struct worker) { .test = &t, .number = numbers[i] };
		assert_int_equal(pthread_create(&threads[i], NULL, bodies[i], &workers[i]), 0);
	}
	for (int i = 0; i < 6; i++)
		pthread_join(threads[i], NULL);
	print_message("entered %llu, refused %llu, gone %llu\n", (unsigned long long)t.entered,
		      (unsigned long long)t.refused, (unsigned long long)t.gone);
	assert_int_equal(t.faults, 0);
	assert_int_equal(pagehint_map_regions(t.map), CELLS - CHURNED);
	/* nothing is left counted: all regions go, and the map with them */
	for (uint32_t c = CHURNED; c < CELLS; c++)
		assert_int_equal(pagehint_map_remove(t.map, t.cells[c].id), 0);
	assert_int_equal(pagehint_map_free(t.map), 0);
}

/*
 * Two threads meet at one region, again and again, at slightly different distances: one begins a discard, the other pins or
 * removes. They must not both succeed: a discard inside, and an answer that nobody is.
 */
struct meeting {
	struct pagehint_map *map;
	uint64_t id;
	_Atomic uint32_t round, arrived;
	int entered;
	uint64_t both, alone, discards;
};

static void *discarder(void *arg)
{
	struct meeting *m = arg;
	struct ph_region r;
	for (uint32_t round = 1; round <= MEETINGS; round++) {
		await(&m->round, round);
		stroll(round % 37);
		m->entered = ph_map_enter(m->map, 0, FRAMES, &r) == 0;
		atomic_store(&m->arrived, round);
	}
	return NULL;
}

/* Pins in even rounds, removes in odd ones; returns whether that said that nobody is inside. */
static int take_alone(struct meeting *m, uint32_t round)
{
	uint64_t inside = 1;
	if ((round & 1) != 0)
		return pagehint_map_remove(m->map, m->id) == 0;
	return pagehint_map_pin(m->map, m->id, &inside) == 0 && inside == 0;
}

static void test_meetings(void **state)
{
	(void)state;
	struct ph_sys sys = ph_sys_real;
	struct meeting m;
	struct pagehint_region_desc d = describe(0, NULL, FRAMES << 12, 7);
	pthread_t thread;
	memset(&m, 0, sizeof(m));
	sys.fstat = fake_fstat;
	sys.fstatfs = fake_fstatfs;
	assert_int_equal(ph_map_new_with(NULL, &sys, &m.map), 0);
	assert_int_equal(pthread_create(&thread, NULL, discarder, &m), 0);
	for (uint32_t round = 1; round <= MEETINGS; round++) {
		int added = pagehint_map_regions(m.map) != 0 || pagehint_map_add(m.map, &d, &m.id) == 0;
		atomic_store(&m.round, round);
		if (round % 4 < 2) /* let the other go first, also where both share a CPU */
			sched_yield();
		stroll(round % 211);
		int alone = added && take_alone(&m, round);
		await(&m.arrived, round);
		m.both += alone && m.entered;
		m.alone += (uint64_t)alone;
		m.discards += m.entered != 0;
		if (m.entered) /* stayed inside until both had looked */
			ph_map_leave(m.map, m.id);
		if ((round & 1) == 0)
			m.both += pagehint_map_unpin(m.map, m.id) != 0;
	}
	pthread_join(thread, NULL);
	print_message("%llu discards, %llu times alone\n", (unsigned long long)m.discards, (unsigned long long)m.alone);
	assert_int_equal(m.both, 0);
	assert_int_equal(pagehint_map_free(m.map), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_regions_come_and_go),
		cmocka_unit_test(test_meetings),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
