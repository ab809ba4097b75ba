/* pressure and enable come from other threads while one steps: nothing is lost, and the last word of each counts */
#include <pthread.h>
#include <stdatomic.h>

#include "fakes/rig.h"

#define BLOCK 64u
#define BLOCKS 16u
#define CALLS 20000u

struct other {
	struct pagehint_reporter *rep;
	_Atomic uint32_t *done;
	uint32_t what;
};

static void *tell(void *ctx)
{
	struct other *o = ctx;
	int wrong = 0;
	for (uint32_t i = 0; i < CALLS; i++) {
		if (o->what == 0)
			pagehint_reporter_enable(o->rep, i % 2);
		else
			wrong |= pagehint_reporter_pressure(o->rep, i % 3, i * MS);
	}
	if (o->what == 0)
		pagehint_reporter_enable(o->rep, 1);
	else
		wrong |= pagehint_reporter_pressure(o->rep, PAGEHINT_PRESSURE_SOME, 0);
	atomic_fetch_add(o->done, 1);
	return wrong ? o : NULL;
}

static void test_told_while_stepping(void **state)
{
	(void)state;
	struct rig rig;
	struct rig_how how = { .frames = BLOCKS * BLOCK, .order = 6, .max_runs = 2 };
	_Atomic uint32_t done = 0;
	pthread_t thread[2];
	struct other other[2];
	rig_start(&rig, &how);
	for (uint32_t i = 0; i < 2; i++) {
		other[i] = (struct other) { rig.rep, &done, i };
		assert_int_equal(pthread_create(&thread[i], NULL, tell, &other[i]), 0);
	}
	for (uint64_t n = 0; atomic_load(&done) < 2 || n < 1000; n++) {
		uint64_t b = n % BLOCKS * BLOCK;
		if (model_is(rig.model, b, BLOCK, FRAME_USED))
			model_give(rig.model, b, BLOCK);
		else if (n % 3 == 0)
			(void)model_alloc(rig.model, b, BLOCK);
		rig.now += 500 * MS;
		rig_step(&rig, 0);
	}
	for (int i = 0; i < 2; i++) {
		void *wrong = &rig;
		assert_int_equal(pthread_join(thread[i], &wrong), 0);
		assert_null(wrong);
	}
	rig.deadline = rig.now;
	rig_run(&rig, rig.now + 10 * SEC);
	assert_int_equal(rig_stats(&rig).pressure, PAGEHINT_PRESSURE_SOME);
	assert_int_equal(model_count(rig.model, FRAME_FREE), 0);
	rig_stop(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_told_while_stepping),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
