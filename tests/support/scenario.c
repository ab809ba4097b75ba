#include "support/scenario.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dirent.h>
#include <pthread.h>

#define LIVE 512u

void *__real_calloc(size_t n, size_t size);
void *__real_malloc(size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void __real_free(void *p);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void __wrap_free(void *p);

static struct scenario *current; /* of which allocations are counted; NULL = of none */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *live[LIVE];

/* 1: this is the one. What else happens does not count: threads that ask now more often and now less must not shift it. */
static int strikes(struct scenario *s, enum scenario_kind kind, enum faulty_call call)
{
	if (kind != s->fail_kind || call != s->fail_call || atomic_fetch_add(&s->points, 1) + 1 != s->fail_at)
		return 0;
	s->call = call;
	atomic_store(&s->kind, kind);
	return 1;
}

/* ---- allocations ---- */

static void *born(void *p)
{
	unsigned i = 0;
	if (p == NULL || current == NULL)
		return p;
	pthread_mutex_lock(&lock);
	while (i < LIVE && live[i] != NULL)
		i++;
	if (i < LIVE)
		live[i] = p;
	pthread_mutex_unlock(&lock);
	assert_true(i < LIVE);
	return p;
}

static int is_refused(void)
{
	return current != NULL && strikes(current, SCENARIO_ALLOCATION, FAULTY_CALLS);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return is_refused() ? NULL : born(__real_calloc(n, size));
}

void *__wrap_malloc(size_t size)
{
	return is_refused() ? NULL : born(__real_malloc(size));
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
	return is_refused() ? NULL : born(__real_aligned_alloc(alignment, size));
}

void __wrap_free(void *p)
{
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; p != NULL && i < LIVE; i++)
		if (live[i] == p)
			live[i] = NULL;
	pthread_mutex_unlock(&lock);
	__real_free(p);
}

static unsigned allocated(void)
{
	unsigned n = 0;
	for (unsigned i = 0; i < LIVE; i++)
		n += live[i] != NULL;
	return n;
}

/* ---- what fails ---- */

static int on_call(void *ctx, enum faulty_call call)
{
	struct scenario *s = ctx;
	return strikes(s, SCENARIO_CALL, call) ? s->error : 0;
}

int scenario_callback(struct scenario *s)
{
	return strikes(s, SCENARIO_CALLBACK, FAULTY_CALLS) ? s->error : 0;
}

void scenario_apart(struct scenario *s, int on)
{
	current = on ? NULL : s;
}

int scenario_explains(const struct scenario *s, int error)
{
	switch (atomic_load(&s->kind)) {
	case SCENARIO_ALLOCATION:
		return error == -ENOMEM;
	case SCENARIO_CALLBACK:
		return error == s->error;
	case SCENARIO_CALL:
		/* who cannot tell its process takes itself for a fork; a mapping has no error but that there is none */
		return error == s->error || (s->call == FAULTY_GETPID && error == -ENODEV) ||
		       ((s->call == FAULTY_MAP_MEMORY || s->call == FAULTY_MAP_FILE) && error == -ENOMEM);
	default:
		return 0;
	}
}

void scenario_unexplained(const struct scenario *s, const char *what, int error)
{
	static const char *const kinds[] = { "nothing", "a call", "an allocation", "a callback" };
	fail_msg("%s gave %d; point %llu failed with %d: %s (%s)", what, error, (unsigned long long)s->fail_at,
		 s->error, kinds[atomic_load(&s->kind)], faulty_call_name(s->call));
}

/* ---- sweeps ---- */

static unsigned descriptors(void)
{
	unsigned n = 0;
	DIR *d = opendir("/proc/self/fd");
	assert_non_null(d);
	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

static void note(struct scenario *s)
{
	s->allocations += s->kind == SCENARIO_ALLOCATION;
	s->callbacks += s->kind == SCENARIO_CALLBACK;
	if (s->kind == SCENARIO_CALL)
		s->struck[s->call]++;
}

/* Returns 0 when there are fewer than k points. */
static int once(struct scenario *s, void (*run)(struct scenario *s), uint64_t k, int error)
{
	unsigned before = descriptors();
	faulty_sys_init(&s->faulty, on_call, s);
	s->sys = &s->faulty.sys;
	s->fail_at = k;
	s->error = error;
	s->call = FAULTY_CALLS;
	atomic_store(&s->points, 0);
	atomic_store(&s->kind, SCENARIO_NOTHING);
	current = s;
	run(s);
	current = NULL;
	if (allocated() != 0 || s->faulty.fds != 0 || s->faulty.mapped != 0 || descriptors() != before)
		fail_msg("point %llu (%s, error %d) leaks: %u allocations, %d descriptors, %lld bytes mapped",
			 (unsigned long long)k, faulty_call_name(s->call), error, allocated(),
			 (int)descriptors() - (int)before, (long long)s->faulty.mapped);
	note(s);
	return s->kind != SCENARIO_NOTHING;
}

/* Every one of a kind fails in its turn. Returns how many there were. */
static uint64_t sweep_kind(struct scenario *s, void (*run)(struct scenario *s), enum scenario_kind kind,
			   enum faulty_call call, int error)
{
	uint64_t k = 1;
	s->fail_kind = kind;
	s->fail_call = call;
	while (once(s, run, k, error))
		k++;
	return k - 1;
}

static void check_reached(const struct scenario *s, enum faulty_call call)
{
	if (s->struck[call] == 0)
		fail_msg("%s was never made to fail", faulty_call_name(call));
}

uint64_t scenario_sweep(struct scenario *s, void (*run)(struct scenario *s), const int *errors, unsigned n,
			const enum faulty_call *reached, unsigned n_reached)
{
	uint64_t sum = 0;
	memset(s, 0, sizeof(*s));
	for (unsigned e = 0; e < n; e++) {
		for (enum faulty_call call = 0; call < FAULTY_CALLS; call++)
			sum += sweep_kind(s, run, SCENARIO_CALL, call, errors[e]);
		sum += sweep_kind(s, run, SCENARIO_ALLOCATION, FAULTY_CALLS, errors[e]);
		sum += sweep_kind(s, run, SCENARIO_CALLBACK, FAULTY_CALLS, errors[e]);
	}
	print_message("%llu points failed: %llu allocations, %llu callbacks\n", (unsigned long long)sum,
		      (unsigned long long)s->allocations, (unsigned long long)s->callbacks);
	for (unsigned i = 0; i < n_reached; i++)
		check_reached(s, reached[i]);
	return sum;
}

struct search {
	const char *text;
	int found;
};

static void look(void *ctx, const char *line)
{
	struct search *s = ctx;
	s->found |= strstr(line, s->text) != NULL;
}

int scenario_said(void (*explain)(void *handle, const struct pagehint_sink *sink), void *handle, const char *text)
{
	struct search s = { text, 0 };
	const struct pagehint_sink sink = { .ctx = &s, .line = look };
	explain(handle, &sink);
	return s.found;
}
