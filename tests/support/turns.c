#include "support/turns.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "support/yield_atomics.h"

#if defined(__SANITIZE_ADDRESS__)
#define FIBERS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBERS 1
#endif
#endif
#ifdef FIBERS
#include <sanitizer/common_interface_defs.h>
#endif

#define STACK_BYTES (UINT64_C(128) << 10)
#define STACK_APART (UINT64_C(8) << 20) /* so that valgrind takes a switch for one */
#define MAX_CHOICES 65536u
#define MAX_STEPS 20000000u
#define MAX_ENDS 65536u
#define MAIN TURN_THREADS

struct choice {
	uint8_t taken, of;
};

static struct {
	/* memory */
	unsigned char *memory;
	size_t cells;
	uint8_t *readers, *writers; /* threads, a bit each, a byte a cell of 8 bytes */
	uint32_t *logged;           /* the run that wrote down a cell last */
	struct {
		uint32_t cell;
		uint64_t value;
	} * log;
	uint32_t n_log, run;
	/* turns */
	const struct turn_play *play;
	const struct turn_mutant *mutant;
	ucontext_t context[TURN_THREADS + 1];
	void *stack[TURN_THREADS];
	void *fake[TURN_THREADS + 1];
	const void *main_stack;
	size_t main_bytes;
	uint32_t current, last, live; /* who runs; who ran before; who is not through */
	uint32_t left;                /* preemptions */
	uint64_t steps;
	/* choices */
	struct choice path[MAX_CHOICES];
	uint32_t depth, length;
	int learnt, logging;
	uint64_t ends[MAX_ENDS];
	struct turn_result result;
} t = { .current = MAIN };

/* ---- memory ---- */

void turns_on(void *memory, size_t bytes)
{
	t.memory = memory;
	t.cells = bytes / 8;
	free(t.readers);
	free(t.writers);
	free(t.logged);
	free(t.log);
	t.readers = calloc(t.cells, 1);
	t.writers = calloc(t.cells, 1);
	t.logged = calloc(t.cells, sizeof(*t.logged));
	t.log = calloc(t.cells, sizeof(*t.log));
	t.run = 0;
	if (t.readers == NULL || t.writers == NULL || t.logged == NULL || t.log == NULL)
		abort();
}

static uint64_t cell_value(uint32_t cell)
{
	uint64_t v;
	memcpy(&v, t.memory + (size_t)cell * 8, 8);
	return v;
}

static uint32_t cell_of(const volatile void *p)
{
	size_t at = (size_t)((uintptr_t)p - (uintptr_t)t.memory) / 8;
	if (at >= t.cells) {
		fprintf(stderr, "turns: an atomic outside of the memory\n");
		abort();
	}
	return (uint32_t)at;
}

static void remember(uint32_t cell)
{
	if (!t.logging || t.logged[cell] == t.run)
		return;
	t.logged[cell] = t.run;
	t.log[t.n_log].cell = cell;
	t.log[t.n_log++].value = cell_value(cell);
}

static void put_back(void)
{
	for (uint32_t i = 0; i < t.n_log; i++)
		memcpy(t.memory + (size_t)t.log[i].cell * 8, &t.log[i].value, 8);
	t.n_log = 0;
	t.run++;
}

static uint64_t mix(uint64_t v)
{
	v = (v ^ v >> 31) * UINT64_C(0x7fb5d329728ea185);
	v = (v ^ v >> 27) * UINT64_C(0x81dadef4bc2dd44d);
	return v ^ v >> 33;
}

/* the memory as it is now, as a number: whatever way led there */
static uint64_t memory_mark(void)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < t.n_log; i++) {
		uint64_t now = cell_value(t.log[i].cell);
		if (now != t.log[i].value)
			sum += mix(mix(now + 1) + t.log[i].cell);
	}
	return sum;
}

/* ---- turns ---- */

/* Goes on as thread `to` (MAIN: as whoever called turns_explore). `gone`: we are through and never come back. */
static void hop(uint32_t to, int gone)
{
	uint32_t from = t.current;
	t.last = from;
	t.current = to;
#ifdef FIBERS
	__sanitizer_start_switch_fiber(gone ? NULL : &t.fake[from], to == MAIN ? t.main_stack : t.stack[to],
				       to == MAIN ? t.main_bytes : STACK_BYTES);
#endif
	if (gone)
		setcontext(&t.context[to]);
	else
		swapcontext(&t.context[from], &t.context[to]);
#ifdef FIBERS
	__sanitizer_finish_switch_fiber(t.fake[from], t.last == MAIN ? &t.main_stack : NULL,
					t.last == MAIN ? &t.main_bytes : NULL);
#endif
}

static uint32_t choose(uint32_t of)
{
	if (of <= 1)
		return 0;
	if (t.depth == t.length) {
		if (t.length == MAX_CHOICES) {
			fprintf(stderr, "turns: too many choices in one run\n");
			abort();
		}
		t.path[t.length++] = (struct choice) { 0, (uint8_t)of };
	}
	return t.path[t.depth++].taken;
}

/* the n-th of the live threads, `but` left out */
static uint32_t nth_live(uint32_t n, uint32_t but)
{
	for (uint32_t i = 0;; i++)
		if (t.live >> i & 1 && i != but && n-- == 0)
			return i;
}

static int is_contended(uint32_t cell)
{
	uint32_t users = t.readers[cell] | t.writers[cell];
	return t.writers[cell] != 0 && (users & (users - 1)) != 0;
}

/* An access is about to be made. */
static void touch(const volatile void *p, int writes)
{
	uint32_t cell = cell_of(p);
	if (t.current != MAIN) {
		uint8_t *users = writes ? &t.writers[cell] : &t.readers[cell], me = (uint8_t)(1u << t.current);
		if (!(*users & me)) {
			int before = is_contended(cell);
			*users |= me;
			t.learnt |= is_contended(cell) && !before;
		}
		if (++t.steps > MAX_STEPS)
			turn_fault("it does not end");
		if (t.left != 0 && is_contended(cell)) {
			uint32_t others = t.live & ~(1u << t.current);
			uint32_t n = (uint32_t)__builtin_popcount(others), c = choose(n + 1);
			if (c != 0) {
				t.left--;
				hop(nth_live(c - 1, t.current), 0);
			}
		}
	}
	if (writes)
		remember(cell);
}

static void play_part(void)
{
#ifdef FIBERS
	__sanitizer_finish_switch_fiber(NULL, t.last == MAIN ? &t.main_stack : NULL,
					t.last == MAIN ? &t.main_bytes : NULL);
#endif
	t.play->body(t.current);
	t.live &= ~(1u << t.current);
	uint32_t n = (uint32_t)__builtin_popcount(t.live);
	hop(n == 0 ? MAIN : nth_live(choose(n), MAIN), 1);
}

void turn_fault(const char *format, ...)
{
	if (!t.logging) { /* nothing is played yet */
		fprintf(stderr, "turns: %s\n", format);
		abort();
	}
	if (!t.result.faulty) {
		va_list args;
		va_start(args, format);
		vsnprintf(t.result.fault, sizeof(t.result.fault), format, args);
		va_end(args);
		t.result.faulty = 1;
	}
	if (t.current != MAIN)
		hop(MAIN, 1);
}

/* ---- the atomics ---- */

static int is_wrong(const char *func, enum turn_wrong how)
{
	return t.mutant != NULL && t.current != MAIN && t.mutant->wrong == how && strcmp(t.mutant->func, func) == 0;
}

static uint64_t value_at(const volatile void *p, uint32_t size)
{
	switch (size) {
	case 1:
		return *(const volatile uint8_t *)p;
	case 2:
		return *(const volatile uint16_t *)p;
	case 4:
		return *(const volatile uint32_t *)p;
	default:
		return *(const volatile uint64_t *)p;
	}
}

static void set_at(volatile void *p, uint32_t size, uint64_t v)
{
	switch (size) {
	case 1:
		*(volatile uint8_t *)p = (uint8_t)v;
		break;
	case 2:
		*(volatile uint16_t *)p = (uint16_t)v;
		break;
	case 4:
		*(volatile uint32_t *)p = (uint32_t)v;
		break;
	default:
		*(volatile uint64_t *)p = v;
	}
}

uint64_t turn_load(const volatile void *p, uint32_t size, const char *func)
{
	touch(p, 0);
	return is_wrong(func, TURN_LOADS_NOTHING) ? 0 : value_at(p, size);
}

uint64_t turn_change(volatile void *p, uint32_t size, uint32_t how, uint64_t v, const char *func)
{
	touch(p, 1);
	uint64_t old = value_at(p, size);
	const uint64_t now[] = { v, v, old + v, old - v, old | v, old & v };
	if (!is_wrong(func, TURN_WRITES_NOTHING))
		set_at(p, size, now[how]);
	return old;
}

int turn_compare_exchange(volatile void *p, uint32_t size, void *expected, uint64_t v, const char *func)
{
	touch(p, 1);
	uint64_t old = value_at(p, size);
	if (old == value_at(expected, size) || is_wrong(func, TURN_ALWAYS_EXCHANGES)) {
		set_at(p, size, v);
		return 1;
	}
	set_at(expected, size, old);
	return 0;
}

/* ---- every order ---- */

static void run_once(void)
{
	const struct turn_play *play = t.play;
	play->begin();
	t.depth = 0;
	t.steps = 0;
	t.left = play->preemptions;
	t.live = (1u << play->threads) - 1;
	for (uint32_t i = 0; i < play->threads; i++) {
		getcontext(&t.context[i]);
		t.context[i].uc_stack.ss_sp = t.stack[i];
		t.context[i].uc_stack.ss_size = STACK_BYTES;
		t.context[i].uc_link = NULL;
		makecontext(&t.context[i], play_part, 0);
	}
	hop(choose(play->threads), 0);
}

/* The next order; 0 when there is none. */
static int next_order(void)
{
	while (t.length != 0 && t.path[t.length - 1].taken + 1u == t.path[t.length - 1].of)
		t.length--;
	if (t.length == 0)
		return 0;
	t.path[t.length - 1].taken++;
	return 1;
}

static int is_new_end(uint64_t mark)
{
	uint32_t i = (uint32_t)(mark % MAX_ENDS);
	mark = mark == 0 ? 1 : mark;
	for (; t.ends[i] != 0; i = (i + 1) % MAX_ENDS)
		if (t.ends[i] == mark)
			return 0;
	if (t.result.ends + 1 == MAX_ENDS)
		return 1; /* judged again and again, then */
	t.ends[i] = mark;
	t.result.ends++;
	return 1;
}

static void make_stacks(void)
{
	if (t.stack[0] != NULL)
		return;
	unsigned char *all = mmap(NULL, TURN_THREADS * STACK_APART, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (all == MAP_FAILED)
		abort();
	for (uint32_t i = 0; i < TURN_THREADS; i++)
		t.stack[i] = all + i * STACK_APART;
}

struct turn_result turns_explore(const struct turn_play *play, const struct turn_mutant *mutant)
{
	make_stacks();
	t.play = play;
	t.mutant = mutant;
	t.current = MAIN;
	t.length = t.n_log = 0;
	t.run++;
	memset(&t.result, 0, sizeof(t.result));
	memset(t.ends, 0, sizeof(t.ends));
	memset(t.readers, 0, t.cells);
	memset(t.writers, 0, t.cells);
	t.logging = 1;
	do {
		t.learnt = 0;
		run_once();
		t.result.runs++;
		if (!t.result.faulty && is_new_end(mix(memory_mark()) + play->mark()))
			play->judge();
		put_back();
		if (t.learnt) {
			t.result.learning += t.result.runs;
			t.result.runs = t.length = 0;
		}
	} while (!t.result.faulty && ((t.learnt && t.length == 0) || next_order()));
	t.logging = 0;
	t.mutant = NULL;
	for (uint32_t i = 0; i < t.cells; i++)
		t.result.words += (uint64_t)is_contended(i);
	return t.result;
}
