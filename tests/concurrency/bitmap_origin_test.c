/*
 * The bitmap origin while the embedder's threads allocate and free: what is at the reporter is handed out to nobody, and no
 * frame is isolated in the same look in which it was freed. Meant for TSan, too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <pagehint/bitmap.h>
#include <pagehint/origin.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "report/origin.h"
#include "support/rounds.h"

#define SECTION ((uint64_t)PAGEHINT_BITMAP_SECTION_BITS)
#define FRAMES 2048u
#define BASE (SECTION - 1024)
#define CALLS_A_LOOK 4u
#define ENOUGH 200u
#define ORDER 7u /* blocks of two words */

enum { IN_USE, IS_FREE, AT_REPORTER };

struct allocator {
	pthread_mutex_t lock;
	struct pagehint_bitmap *bitmap;
	unsigned char frames[FRAMES];
	uint64_t freed_at[FRAMES]; /* number of the look that had begun when it was freed */
	_Atomic uint64_t looks;
	_Atomic unsigned stop;
	uint64_t wrong, too_young, isolated, refused;
};

struct worker {
	struct allocator *allocator;
	uint64_t random;
};

static unsigned long rounds = 3000;

/* Hands one block out, or takes it back, as it stands; bits and lists change under the allocator's lock. */
static void turn_over(struct allocator *a, uint64_t first, uint64_t n)
{
	pthread_mutex_lock(&a->lock);
	unsigned char is = a->frames[first];
	for (uint64_t i = first; i < first + n; i++)
		if (a->frames[i] != is || is == AT_REPORTER) {
			pthread_mutex_unlock(&a->lock);
			return;
		}
	memset(a->frames + first, is == IS_FREE ? IN_USE : IS_FREE, (size_t)n);
	for (uint64_t i = first; i < first + n; i++)
		a->freed_at[i] = atomic_load(&a->looks);
	int rc = is == IS_FREE ? pagehint_bitmap_clear(a->bitmap, BASE + first, n, NULL)
			       : pagehint_bitmap_set(a->bitmap, BASE + first, n, NULL);
	a->wrong += rc != 0;
	pthread_mutex_unlock(&a->lock);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	uint64_t look = 0, calls = 0;
	while (!atomic_load(&w->allocator->stop)) {
		if (calls >= CALLS_A_LOOK && atomic_load(&w->allocator->looks) == look) {
			sched_yield(); /* something must get old enough */
			continue;
		}
		if (atomic_load(&w->allocator->looks) != look) {
			look = atomic_load(&w->allocator->looks);
			calls = 0;
		}
		calls++;
		w->random = w->random * UINT64_C(6364136223846793005) + 1442695040888963407u;
		uint64_t n = UINT64_C(16) << (w->random >> 60) % 4;
		uint64_t first = (w->random >> 20) % (FRAMES / n) * n;
		turn_over(w->allocator, first, n);
		if ((w->random >> 40) % 4 != 0) /* most is soon turned over again, so that much is free */
			turn_over(w->allocator, first, n);
	}
	return NULL;
}

static int isolate(void *ctx, const struct pagehint_run *run)
{
	struct allocator *a = ctx;
	uint64_t first = run->frame - BASE, busy = 0;
	pthread_mutex_lock(&a->lock);
	for (uint64_t i = first; i < first + run->frames; i++) {
		a->wrong += a->frames[i] == AT_REPORTER;
		busy += a->frames[i] != IS_FREE;
	}
	for (uint64_t i = first; i < first + run->frames && busy == 0; i++) {
		/* Freed in this look, it can be ours only if that happened after its bits were taken: it was old till then. */
		a->too_young +=
			a->freed_at[i] == atomic_load(&a->looks) && pagehint_bitmap_test(a->bitmap, BASE + i) == 0;
		a->frames[i] = AT_REPORTER;
	}
	a->refused += busy != 0;
	a->isolated += busy == 0;
	pthread_mutex_unlock(&a->lock);
	return busy == 0 ? 0 : -EBUSY;
}

static void release(void *ctx, const struct pagehint_run *run, uint32_t reported)
{
	struct allocator *a = ctx;
	(void)reported;
	uint64_t first = run->frame - BASE;
	pthread_mutex_lock(&a->lock);
	for (uint64_t i = first; i < first + run->frames; i++) {
		a->wrong += a->frames[i] != AT_REPORTER;
		a->frames[i] = IS_FREE;
	}
	a->wrong += pagehint_bitmap_set(a->bitmap, run->frame, run->frames, NULL) != 0;
	pthread_mutex_unlock(&a->lock);
}

static void report(struct allocator *a, struct pagehint_origin *origin)
{
	struct pagehint_run runs[64];
	struct pagehint_harvested got;
	/* Until enough has happened; on a busy machine the others may not have run for many looks. */
	for (unsigned long i = 0; i < rounds || (a->isolated <= ENOUGH && i < rounds * 100); i++) {
		struct pagehint_harvest ask = { .from = 0,
						.to = 2 * SECTION,
						.max_frames = UINT64_MAX,
						.max_runs = 64,
						.order = i % 3 == 0 ? 4 : ORDER };
		atomic_fetch_add(&a->looks, 1);
		assert_int_equal(origin->ops.harvest(origin->ctx, &ask, runs, &got), 0);
		for (uint32_t r = 0; r < got.runs; r++)
			origin->ops.release(origin->ctx, &runs[r],
					    (i + r) % 2 ? PAGEHINT_RELEASE_REPORTED : PAGEHINT_RELEASE_KEPT);
		sched_yield();
	}
}

static void allocating_and_reporting_keep_out_of_each_others_way(void **state)
{
	(void)state;
	struct allocator *a = calloc(1, sizeof(*a));
	assert_non_null(a);
	pthread_mutex_init(&a->lock, NULL);
	struct pagehint_bitmap_opts bits = { .struct_size = sizeof(bits), .span = 2 * SECTION };
	assert_int_equal(pagehint_bitmap_new(&bits, &a->bitmap), 0);
	assert_int_equal(pagehint_bitmap_add(a->bitmap, 0, 2 * SECTION), 0);
	struct pagehint_bitmap_origin_opts opts = {
		.struct_size = sizeof(opts), .ctx = a, .isolate = isolate, .release = release, .order = ORDER
	};
	struct pagehint_origin *origin;
	assert_int_equal(pagehint_bitmap_origin_new(a->bitmap, &opts, &origin), 0);
	pthread_t threads[2];
	struct worker workers[2];
	for (unsigned i = 0; i < 2; i++) {
		workers[i] = (struct worker) { a, 12345u + i };
		assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
	}
	report(a, origin);
	atomic_store(&a->stop, 1);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(a->wrong, 0);
	assert_int_equal(a->too_young, 0);
	assert_true(a->isolated > ENOUGH);

	/* At rest: set bits are free frames, and the counts agree. */
	uint64_t set = 0;
	for (uint64_t i = 0; i < FRAMES; i++) {
		int bit = pagehint_bitmap_test(a->bitmap, BASE + i);
		set += (uint64_t)bit;
		assert_true(!bit || a->frames[i] == IS_FREE);
	}
	assert_int_equal(pagehint_bitmap_count(a->bitmap), set);
	pagehint_origin_free(origin);
	pagehint_bitmap_free(a->bitmap);
	pthread_mutex_destroy(&a->lock);
	free(a);
}

/* Adds and removes sections until all rounds are done. */
static void *come_and_go(void *arg)
{
	struct allocator *a = arg;
	for (unsigned long i = 0; i < rounds; i++) {
		a->wrong += pagehint_bitmap_add(a->bitmap, SECTION, SECTION) != 0;
		a->wrong += pagehint_bitmap_remove(a->bitmap, SECTION, SECTION) != 0;
	}
	atomic_store(&a->stop, 1);
	return NULL;
}

static void count_empty(void *ctx, const char *text)
{
	uint64_t *empty = ctx;
	*empty += strstr(text, "no section") != NULL;
}

/* Everything the reporter asks of an origin while sections come and go: one is always there, so it is never called empty. */
static void sections_come_and_go_while_it_is_asked(void **state)
{
	(void)state;
	struct allocator *a = calloc(1, sizeof(*a));
	assert_non_null(a);
	struct pagehint_bitmap_opts bits = { .struct_size = sizeof(bits), .span = 8 * SECTION };
	assert_int_equal(pagehint_bitmap_new(&bits, &a->bitmap), 0);
	assert_int_equal(pagehint_bitmap_add(a->bitmap, 0, SECTION), 0);
	struct pagehint_bitmap_origin_opts opts = {
		.struct_size = sizeof(opts), .ctx = a, .isolate = isolate, .release = release, .order = ORDER
	};
	struct pagehint_origin *origin;
	assert_int_equal(pagehint_bitmap_origin_new(a->bitmap, &opts, &origin), 0);
	uint64_t empty = 0, asked = 0;
	struct pagehint_sink sink = { &empty, count_empty };
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, come_and_go, a), 0);
	for (; !atomic_load(&a->stop) || asked == 0; asked++) {
		struct pagehint_run span, runs[4];
		struct pagehint_harvested got;
		struct pagehint_harvest ask = { .to = 8 * SECTION, .max_frames = 64, .max_runs = 4, .order = ORDER };
		struct pagehint_origin_free sum = { .struct_size = sizeof(sum) };
		origin->ops.explain(origin->ctx, &sink);
		origin->ops.get_free(origin->ctx, ORDER, &sum);
		assert_int_equal(origin->ops.next_span(origin->ctx, 0, &span), 0);
		assert_int_equal(origin->ops.harvest(origin->ctx, &ask, runs, &got), 0);
		assert_int_equal(got.runs, 0);
	}
	pthread_join(thread, NULL);
	assert_int_equal(a->wrong, 0);
	assert_int_equal(empty, 0);
	assert_int_equal(pagehint_bitmap_remove(a->bitmap, 0, SECTION), 0);
	origin->ops.explain(origin->ctx, &sink);
	assert_int_equal(empty, 1);
	pagehint_origin_free(origin);
	pagehint_bitmap_free(a->bitmap);
	free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(allocating_and_reporting_keep_out_of_each_others_way),
		cmocka_unit_test(sections_come_and_go_while_it_is_asked),
	};
	rounds = rounds_scaled(rounds);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
