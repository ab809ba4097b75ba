/* Who may come in, and when: re-entry, other threads, forks, the gate; frames of other sizes. */
#include "support/fake_backend.h"

#include <pthread.h>

#define PAGE UINT64_C(4096)

static struct fake_world w;

static struct pagehint_outcome inner_out, inner_sum;
static int inner[6];

static void call_back_in(struct fake *f)
{
	const struct pagehint_run run = { 77, 1 };
	uint64_t cookie;
	uint32_t n;
	inner[0] = pagehint_backend_discard(f->backend, &run, 1, 0, &inner_out, &inner_sum, NULL);
	inner[1] = pagehint_backend_submit(f->backend, &run, 1, 0, 0);
	inner[2] = pagehint_backend_reap(f->backend, 1, &inner_out, &cookie, &n);
	inner[3] = pagehint_backend_populate(f->backend, &run, 1, NULL);
	inner[4] = pagehint_backend_free(f->backend);
	inner[5] = 0;
	pagehint_backend_explain(f->backend, &(struct pagehint_sink) { .ctx = f, .line = NULL });
}

static void *other_thread(void *arg)
{
	struct fake *f = arg;
	const struct pagehint_run run = { 77, 1 };
	inner[5] = pagehint_backend_discard(f->backend, &run, 1, 0, &inner_out, &inner_sum, NULL);
	return NULL;
}

static void from_elsewhere(struct fake *f)
{
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, other_thread, f), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static void test_reentry(void **state)
{
	(void)state;
	const struct pagehint_run run = { 5, 1 };
	struct pagehint_outcome out;
	fake_setup(&w);
	w.fake.inside = call_back_in;
	struct pagehint_backend *b = fake_open(&w);
	assert_int_equal(pagehint_backend_discard(b, &run, 1, 0, &out, NULL, NULL), 0);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(inner[i], -EDEADLK);
	assert_int_equal(inner[4], -EBUSY);
	assert_int_equal(inner_sum.kept_why, PAGEHINT_WHY_REENTRY);
	assert_adds_up(&inner_sum, PAGE);
	assert_int_equal(out.freed, PAGE);
	assert_int_equal(w.fake.discards, 1);
	w.fake.inside = from_elsewhere;
	assert_int_equal(pagehint_backend_discard(b, &run, 1, 0, &out, NULL, NULL), 0);
	assert_int_equal(inner[5], -EBUSY);
	assert_int_equal(inner_out.failed_why, PAGEHINT_WHY_NOT_TRIED);
	/* and afterwards the door is open again */
	w.fake.inside = NULL;
	assert_int_equal(pagehint_backend_discard(b, &run, 1, 0, &out, NULL, NULL), 0);
	fake_close(&w);
}

static void test_fork(void **state)
{
	(void)state;
	const struct pagehint_run run = { 5, 3 };
	struct pagehint_outcome out, sum;
	uint64_t cookie;
	uint32_t done = 7, n;
	fake_setup(&w);
	struct pagehint_backend *b = fake_open(&w);
	w.fake.pid = 101;
	assert_int_equal(pagehint_backend_discard(b, &run, 1, 0, &out, &sum, &done), -ENODEV);
	assert_int_equal(done, 0);
	assert_int_equal(out.kept_why, PAGEHINT_WHY_FORKED);
	assert_adds_up(&sum, 3 * PAGE);
	assert_int_equal(pagehint_backend_submit(b, &run, 1, 0, 0), -ENODEV);
	assert_int_equal(pagehint_backend_reap(b, 1, &out, &cookie, &n), -ENODEV);
	assert_int_equal(pagehint_backend_populate(b, &run, 1, &done), -ENODEV);
	assert_string_equal(w.fake.log, "");
	w.fake.pid = 100;
	fake_close(&w);
}

static void test_gate(void **state)
{
	(void)state;
	const struct pagehint_run runs[] = { { 5, 1 }, { 9, 1 } };
	struct pagehint_outcome out[2], sum;
	struct pagehint_gate *gate = NULL;
	uint32_t done = 0;
	fake_setup(&w);
	assert_int_equal(pagehint_gate_new(&gate), 0);
	w.opts.gate = gate;
	struct pagehint_backend *b = fake_open(&w);
	assert_int_equal(pagehint_gate_close(gate, PAGEHINT_INHIBIT_SNAPSHOT, NULL), 0);
	assert_int_equal(pagehint_backend_discard(b, runs, 2, 0, out, &sum, &done), 0);
	assert_int_equal(done, 2);
	assert_string_equal(w.fake.log, "");
	assert_int_equal(out[1].kept_why, PAGEHINT_WHY_INHIBITED);
	assert_int_equal(sum.kept, 2 * PAGE);
	struct pagehint_backend_stats stats = { .struct_size = sizeof(stats) };
	assert_int_equal(pagehint_backend_stats(b, &stats), 0);
	assert_int_equal(stats.kept_by[PAGEHINT_WHY_INHIBITED], 2 * PAGE);
	assert_int_equal(stats.calls, 0);
	assert_int_equal(pagehint_gate_open(gate, PAGEHINT_INHIBIT_SNAPSHOT), 0);
	assert_int_equal(pagehint_backend_discard(b, runs, 2, 0, out, &sum, &done), 0);
	assert_int_equal(sum.freed, 2 * PAGE);
	assert_int_equal(pagehint_gate_in_flight(gate), 0);
	fake_close(&w);
	assert_int_equal(pagehint_gate_free(gate), 0);
}

static void test_frames_of_other_sizes(void **state)
{
	(void)state;
	const struct pagehint_run run = { 3, 5 };
	struct pagehint_outcome out;
	uint64_t frames, least;
	fake_setup(&w);
	w.opts.frame_shift = 16;
	struct pagehint_backend *b = fake_open(&w);
	assert_int_equal(pagehint_backend_discard(b, &run, 1, 0, &out, NULL, NULL), 0);
	assert_int_equal(out.asked, 5 << 16);
	assert_int_equal(pagehint_backend_extent(b, 10, &frames, &least), 0);
	assert_int_equal(frames, UINT64_MAX - 10);
	assert_int_equal(least, 1 << 16);
	fake_close(&w);
	fake_setup(&w);
	w.fake.region_frames = 100;
	b = fake_open(&w);
	assert_int_equal(pagehint_backend_extent(b, 130, &frames, &least), 0);
	assert_int_equal(frames, 70);
	assert_int_equal(least, 4096); /* at least one frame, whatever the ops say */
	assert_int_equal(pagehint_backend_extent(b, 1000000, &frames, &least), -ERANGE);
	fake_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reentry),
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_gate),
		cmocka_unit_test(test_frames_of_other_sizes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
