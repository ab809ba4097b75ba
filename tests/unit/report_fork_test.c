/* a reporter in the child of the process that made it: it does nothing there, and can be freed */
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fakes/rig.h"

#define BLOCKS 32u
#define BLOCK 512u /* frames of order 9 */

static const struct rig_how plain = { .frames = BLOCKS * BLOCK, .order = 9, .max_runs = 8 };
static const struct rig_how later = { .frames = BLOCKS * BLOCK, .order = 9, .max_runs = 8, .async = 1 };

static void test_a_child_after_fork_is_inert(void **state)
{
	(void)state;
	struct rig rig;
	rig_start(&rig, &plain);
	model_give(rig.model, 0, 3 * BLOCK);
	rig_step(&rig, 0);
	rig.pid = 200;
	uint64_t deadline = 99, calls = rig.model->calls;
	assert_int_equal(pagehint_reporter_step(rig.rep, 9 * SEC, 0, &deadline), -ENODEV);
	assert_int_equal(pagehint_reporter_stop(rig.rep, 9 * SEC, &deadline), -ENODEV);
	assert_int_equal(deadline, 99);
	assert_int_equal(rig.model->calls, calls);
	rig_explain(&rig);
	assert_string_equal(rig.lines[0], "forked: this reporter belongs to the parent process");
	rig.pid = 100;
	rig_run(&rig, 4 * SEC);
	assert_int_equal(rig_stats(&rig).reported, 3 * BLOCK * FRAME);
	rig_stop(&rig);
}

/* Nobody answers the child what the parent had in flight, not even from inside a step: it frees its copy all the same. */
static void free_in_a_child(void *ctx)
{
	struct rig *rig = ctx;
	if (rig->polls++ != 0)
		return;
	pid_t child = fork();
	if (child == 0) {
		rig->pid = 200;
		_exit(pagehint_reporter_free(rig->rep) == 0 ? 0 : 1);
	}
	int status = -1;
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void test_a_child_after_fork_frees_its_copy(void **state)
{
	(void)state;
	for (int inside = 0; inside < 2; inside++) {
		struct rig rig;
		rig_start(&rig, &later);
		rig.fake->silent = 1;
		model_give(rig.model, 0, 3 * BLOCK);
		if (inside) {
			rig.fake->during = free_in_a_child;
			rig.fake->during_ctx = &rig;
		}
		rig_run(&rig, 2 * SEC);
		assert_int_equal(rig_stats(&rig).in_flight, 3 * BLOCK * FRAME);
		assert_int_equal(pagehint_reporter_free(rig.rep), -EBUSY);
		if (!inside)
			free_in_a_child(&rig);
		assert_true(rig.polls > 0);
		rig.fake->during = NULL;
		rig.fake->silent = 0; /* and the parent has lost nothing */
		rig_stop(&rig);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_child_after_fork_is_inert),
		cmocka_unit_test(test_a_child_after_fork_frees_its_copy),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
