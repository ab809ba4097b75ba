#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "report/queue.h"

static void test_cookies_and_room(void **state)
{
	(void)state;
	struct ph_queue q;
	void *mem = calloc(1, ph_queue_size(3, 4));
	ph_queue_init(&q, mem, 3, 4);
	struct ph_batch *b[3];
	struct pagehint_run run = { 0, 8 };
	for (int i = 0; i < 3; i++) {
		b[i] = ph_queue_open(&q);
		assert_non_null(b[i]);
		run.frame = (uint64_t)i * 100;
		ph_queue_add(b[i], &run);
		assert_null(ph_queue_find(&q, b[i]->cookie)); /* filled is not in flight */
		ph_queue_launch(&q, b[i], 10);
		assert_ptr_equal(ph_queue_find(&q, b[i]->cookie), b[i]);
	}
	assert_null(ph_queue_open(&q));
	assert_int_equal(q.in_flight, 3);
	assert_int_equal(q.frames, 24);
	assert_ptr_equal(ph_queue_oldest(&q), b[0]);

	uint64_t stale = b[1]->cookie;
	ph_queue_close(&q, b[1]); /* out of order */
	assert_null(ph_queue_find(&q, stale));
	assert_int_equal(q.frames, 16);
	struct ph_batch *again = ph_queue_open(&q);
	assert_ptr_equal(again, b[1]);
	assert_true(again->cookie != stale);
	ph_queue_launch(&q, again, 20);
	assert_null(ph_queue_find(&q, stale)); /* an answer that comes twice finds nothing */
	assert_null(ph_queue_find(&q, UINT64_MAX));
	assert_null(ph_queue_find(&q, 0));
	ph_queue_close(&q, b[0]);
	assert_ptr_equal(ph_queue_oldest(&q), b[2]);
	ph_queue_close(&q, b[2]);
	ph_queue_close(&q, again);
	assert_null(ph_queue_oldest(&q));
	assert_int_equal(q.in_flight, 0);
	assert_int_equal(q.frames, 0);
	free(mem);
}

static void test_runs_stay_as_they_are(void **state)
{
	(void)state;
	struct ph_queue q;
	void *mem = calloc(1, ph_queue_size(1, 4));
	ph_queue_init(&q, mem, 1, 4);
	struct ph_batch *b = ph_queue_open(&q);
	const struct pagehint_run runs[] = { { 0, 8 }, { 8, 8 }, { 32, 8 } };
	for (int i = 0; i < 3; i++)
		ph_queue_add(b, &runs[i]); /* adjacent, but it may be of another region */
	assert_int_equal(b->n, 3);
	assert_int_equal(b->frames, 24);
	assert_memory_equal(b->runs, runs, sizeof(runs));
	free(mem);
}

static void test_sizes(void **state)
{
	(void)state;
	assert_true(ph_queue_size(64, 1024) >= 64 * 1024 * sizeof(struct pagehint_run));
	assert_true(ph_queue_size(1, 1) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cookies_and_room),
		cmocka_unit_test(test_runs_stay_as_they_are),
		cmocka_unit_test(test_sizes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
