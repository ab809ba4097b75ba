/*
 * Every call that the reporter makes on the outside fails once, at its k-th time, for k = 1, 2, ... until nothing is left to
 * fail: nothing is lost, nothing comes back twice, and once the failure is over everything is reported all the same.
 */
#include <errno.h>
#include <stdlib.h>

#include "fakes/rig.h"

#define BLOCK 64u
#define BLOCKS 16u

void *__real_calloc(size_t n, size_t size);
void *__real_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_malloc(size_t size);

static unsigned fail_alloc; /* this one fails; 0 = none */

static int alloc_fails(void)
{
	return fail_alloc != 0 && --fail_alloc == 0;
}

void *__wrap_calloc(size_t n, size_t size)
{
	return alloc_fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_malloc(size_t size)
{
	return alloc_fails() ? NULL : __real_malloc(size);
}

enum whose { BACKEND, ORIGIN };

static void setup(struct rig *rig, int async)
{
	static struct pagehint_reporter_opts opts = { .struct_size = sizeof(opts), .watermark = 1 };
	struct rig_how how = { .frames = BLOCKS * BLOCK, .order = 6, .max_runs = 2, .async = async, .opts = &opts };
	rig_start(rig, &how);
	rig->fake->regions_n = 2;
	rig->fake->regions[0] = (struct fake_region) { 0, 5 * BLOCK, 4096 };
	rig->fake->regions[1] = (struct fake_region) { 6 * BLOCK, 10 * BLOCK, 4096 };
	model_set(rig->model, 12 * BLOCK, BLOCK, FRAME_ABSENT);
	for (uint64_t b = 0; b < BLOCKS; b++)
		if (b % 4 != 3 && b != 12)
			model_give(rig->model, b * BLOCK, BLOCK);
}

/* Returns 0 when there were fewer than k calls. */
static int one(enum whose whose, int async, uint64_t k, int error)
{
	struct rig rig;
	setup(&rig, async);
	uint64_t *at = whose == BACKEND ? &rig.fake->fail_at : &rig.model->fail_at;
	*at = k;
	rig.fake->fail_with = rig.model->fail_with = error;
	rig_run(&rig, 20 * SEC);
	int happened = *at == 0;
	*at = 0;
	rig_run(&rig, 60 * SEC);
	assert_int_equal(rig.model->taken, 0);
	/* three of four blocks were freed; one is absent; one lies between the regions: it is what the watermark leaves */
	uint64_t candidates = BLOCKS - BLOCKS / 4 - 1 - 1;
	assert_int_equal(model_count(rig.model, FRAME_REPORTED), candidates * BLOCK);
	rig_stop(&rig);
	return happened;
}

static void test_every_call_fails_once(void **state)
{
	(void)state;
	static const int errors[] = { -EIO, -EAGAIN, -ENODEV, -EBUSY, -ERANGE, -EINVAL, -ENOMEM };
	for (unsigned e = 0; e < sizeof(errors) / sizeof(errors[0]); e++) {
		for (int async = 0; async < 2; async++) {
			uint64_t k[2];
			for (int whose = BACKEND; whose <= ORIGIN; whose++)
				for (k[whose] = 1; one((enum whose)whose, async, k[whose], errors[e]); k[whose]++)
					;
			assert_true(k[BACKEND] > 20 && k[ORIGIN] > 20);
		}
	}
}

/* From the k-th call on everything fails, for good: the reporter stays calm, and what it holds can be drained. */
static void test_every_call_fails_from_then_on(void **state)
{
	(void)state;
	for (int async = 0; async < 2; async++) {
		for (unsigned seconds = 0; seconds < 12; seconds++) {
			struct rig rig;
			setup(&rig, async);
			rig.fake->silent = 1; /* something is in flight when the other side goes */
			rig_run(&rig, seconds * SEC);
			assert_true(!async || seconds < 2 || rig.model->taken > 0);
			rig.fake->error = -EIO;
			rig.fake->reap_error = -ENODEV;
			rig_run(&rig, 200 * SEC);
			uint64_t deadline;
			assert_int_equal(pagehint_reporter_stop(rig.rep, rig.now, &deadline), 0);
			assert_int_equal(rig.model->taken, 0);
			rig_stop(&rig);
		}
	}
}

/*
 * "Gone" was no more than a hiccup: answers to what was given up are taken all the same, so the backend has room again, everything
 * is reported, and the handle can be freed without anybody else's help.
 */
static void test_answers_to_what_was_given_up(void **state)
{
	(void)state;
	for (int async = 0; async < 2; async++) {
		struct rig rig;
		struct pagehint_backend_stats stats = { .struct_size = sizeof(stats) };
		setup(&rig, async);
		rig.fake->capacity = 2;
		rig.fake->silent = (uint32_t)async;
		rig_run(&rig, 3 * SEC);
		rig.fake->reap_error = -ENODEV;
		rig_run(&rig, 10 * SEC);
		assert_int_equal(rig.model->taken, 0);
		rig.fake->reap_error = 0;
		rig.fake->silent = 0;
		rig_run(&rig, 200 * SEC);
		assert_int_equal(model_count(rig.model, FRAME_REPORTED), (BLOCKS - BLOCKS / 4 - 2) * BLOCK);
		assert_int_equal(pagehint_backend_stats(rig.backend, &stats), 0);
		assert_int_equal(stats.in_flight, 0);
		rig_stop(&rig);
	}
}

static void test_no_memory_for_the_handles(void **state)
{
	(void)state;
	struct rig rig;
	setup(&rig, 0);
	struct pagehint_reporter *rep = (void *)&rig;
	struct pagehint_origin *origin = (void *)&rig;
	fail_alloc = 1;
	assert_int_equal(pagehint_reporter_new(rig.origin, rig.backend, NULL, &rep), -ENOMEM);
	assert_int_equal(fail_alloc, 0);
	assert_ptr_equal(rep, &rig);
	struct pagehint_origin_ops ops;
	model_ops(rig.model, &ops);
	fail_alloc = 1;
	assert_int_equal(pagehint_origin_new(&ops, rig.model, &origin), -ENOMEM);
	assert_int_equal(fail_alloc, 0);
	assert_ptr_equal(origin, &rig);
	assert_int_equal(rig.model->destroyed, 0); /* ctx is left alone */
	/* and there is no second allocation to fail, nor any later */
	fail_alloc = 2;
	assert_int_equal(pagehint_reporter_new(rig.origin, rig.backend, NULL, &rep), 0);
	assert_int_equal(fail_alloc, 1);
	uint64_t deadline = 0;
	for (int i = 0; i < 20; i++)
		assert_int_equal(pagehint_reporter_step(rep, deadline, 0, &deadline), 0);
	assert_true(rig.model->returned > 0);
	assert_int_equal(fail_alloc, 1);
	fail_alloc = 0;
	assert_int_equal(pagehint_reporter_free(rep), 0);
	rig_stop(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_call_fails_once),
		cmocka_unit_test(test_every_call_fails_from_then_on),
		cmocka_unit_test(test_answers_to_what_was_given_up),
		cmocka_unit_test(test_no_memory_for_the_handles),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
