/* Submit and reap, the same over synchronous and asynchronous backends. */
#include "support/fake_backend.h"

#define PAGE UINT64_C(4096)

static struct fake_world w;

static uint64_t in_flight(const struct pagehint_backend *b)
{
	struct pagehint_backend_stats stats = { .struct_size = sizeof(stats) };
	assert_int_equal(pagehint_backend_stats(b, &stats), 0);
	return stats.in_flight;
}

static void test_synchronous_holds_one_batch(void **state)
{
	(void)state;
	const struct pagehint_run runs[] = { { 6, 1 }, { 5, 1 } };
	struct pagehint_outcome out[2];
	uint64_t cookie = 0;
	uint32_t n = 0;
	fake_setup(&w);
	struct pagehint_backend *b = fake_open(&w);
	assert_int_equal(pagehint_backend_reap(b, 2, out, &cookie, &n), -EAGAIN);
	assert_int_equal(pagehint_backend_submit(b, runs, 2, 0, 42), 0);
	assert_string_equal(w.fake.log, "before 6+1;before 5+1;discard 5+2;after 6+1;after 5+1;");
	assert_int_equal(in_flight(b), 2);
	assert_int_equal(pagehint_backend_submit(b, runs, 2, 0, 43), -EAGAIN);
	assert_int_equal(pagehint_backend_free(b), -EBUSY);
	assert_int_equal(pagehint_backend_reap(b, 1, out, &cookie, &n), -EINVAL); /* too little room: nothing is lost */
	assert_int_equal(pagehint_backend_reap(b, 2, NULL, &cookie, &n), -EINVAL);
	assert_int_equal(n, 0);
	assert_int_equal(pagehint_backend_reap(b, 2, out, &cookie, &n), 0);
	assert_int_equal(cookie, 42);
	assert_int_equal(n, 2);
	assert_int_equal(out[0].freed + out[1].freed, 2 * PAGE);
	assert_int_equal(in_flight(b), 0);
	/* an error is in the outcome, since the batch was taken */
	w.fake.result = -EIO;
	w.fake.short_by = 1;
	assert_int_equal(pagehint_backend_submit(b, runs, 2, 0, 44), 0);
	assert_int_equal(pagehint_backend_reap(b, 2, out, &cookie, &n), 0);
	assert_int_equal(out[0].failed_why, PAGEHINT_WHY_NOT_TRIED);
	assert_int_equal(out[0].error, -EIO);
	fake_close(&w);
}

static void open_async(void)
{
	fake_setup(&w);
	w.ops.caps = PAGEHINT_BACKEND_ASYNC;
	w.ops.max_runs = 64;
	fake_open(&w);
}

static void test_asynchronous_in_any_order(void **state)
{
	(void)state;
	open_async();
	struct pagehint_backend *b = w.fake.backend;
	struct pagehint_outcome out[64];
	uint64_t cookie = 0;
	uint32_t n = 0, seen = 0;
	assert_int_equal(pagehint_backend_discard(b, &(struct pagehint_run) { 1, 1 }, 1, 0, out, NULL, NULL),
			 -EOPNOTSUPP);
	for (uint64_t i = 0; i < 20; i++) {
		struct pagehint_run runs[] = {
			{ 100 * i + 3, 1 }, { 100 * i + 1, 1 }, { 100 * i + 2, 1 }, { 100 * i + 9, i + 1 }
		};
		assert_int_equal(pagehint_backend_submit(b, runs, 4, PAGEHINT_DISCARD_PROBE, 1000 + i), 0);
		memset(runs, 0, sizeof(runs)); /* they were copied */
	}
	assert_int_equal(in_flight(b), 80);
	assert_int_equal(w.fake.submits, 20);
	assert_int_equal(w.fake.batch_n[0], 2);
	assert_int_equal(pagehint_backend_free(b), -EBUSY);
	assert_int_equal(pagehint_backend_reap(b, 3, out, &cookie, &n), -EINVAL);
	while (pagehint_backend_reap(b, 64, out, &cookie, &n) == 0) {
		assert_int_equal(n, 4);
		assert_int_equal(out[3].freed, (cookie - 1000 + 1) * PAGE);
		assert_int_equal(out[0].freed, PAGE);
		seen |= 1u << (cookie - 1000);
	}
	assert_int_equal(seen, (1u << 20) - 1);
	assert_int_equal(in_flight(b), 0);
	assert_int_equal(w.fake.after_n, 80);
	fake_close(&w);
}

static void test_room_is_bounded(void **state)
{
	(void)state;
	open_async();
	struct pagehint_backend *b = w.fake.backend;
	struct pagehint_outcome out[1];
	uint64_t cookie = 0;
	uint32_t n = 0, taken = 0;
	int r;
	while ((r = pagehint_backend_submit(b, &(struct pagehint_run) { taken * 2, 1 }, 1, 0, taken)) == 0)
		taken++;
	assert_int_equal(r, -EAGAIN);
	assert_int_equal(taken, 64);
	assert_int_equal(pagehint_backend_reap(b, 1, out, &cookie, &n), 0);
	assert_int_equal(pagehint_backend_submit(b, &(struct pagehint_run) { 999, 1 }, 1, 0, 999), 0);
	for (uint32_t i = 0; i < 64; i++)
		assert_int_equal(pagehint_backend_reap(b, 1, out, &cookie, &n), 0);
	assert_int_equal(pagehint_backend_reap(b, 1, out, &cookie, &n), -EAGAIN);
	struct pagehint_run too_many[65];
	for (uint32_t i = 0; i < 65; i++)
		too_many[i] = (struct pagehint_run) { i * 2, 1 };
	assert_int_equal(pagehint_backend_submit(b, too_many, 65, 0, 0), -EINVAL);
	assert_int_equal(pagehint_backend_submit(b, too_many, 0, 0, 0), -EINVAL);
	fake_close(&w);
}

static void test_a_batch_that_is_not_taken_is_undone(void **state)
{
	(void)state;
	open_async();
	struct pagehint_backend *b = w.fake.backend;
	const struct pagehint_run runs[] = { { 5, 1 }, { 7, 1 } };
	w.fake.refuse_frame = 7;
	w.fake.result = -EAGAIN;
	assert_int_equal(pagehint_backend_submit(b, runs, 2, 0, 1), -EAGAIN);
	assert_string_equal(w.fake.log, "before 5+1;before 7+1;after 5+1;");
	assert_int_equal(w.fake.after[0].failed_why, PAGEHINT_WHY_NOT_TRIED);
	assert_int_equal(in_flight(b), 0);
	fake_close(&w);
}

static void test_gate_and_hooks_are_reaped_as_kept(void **state)
{
	(void)state;
	const struct pagehint_run runs[] = { { 5, 1 }, { 7, 1 } };
	struct pagehint_gate *gate = NULL;
	struct pagehint_outcome out[2];
	uint64_t cookie = 0;
	uint32_t n = 0;
	fake_setup(&w);
	assert_int_equal(pagehint_gate_new(&gate), 0);
	w.opts.gate = gate;
	w.ops.caps = PAGEHINT_BACKEND_ASYNC;
	struct pagehint_backend *b = fake_open(&w);
	assert_int_equal(pagehint_backend_submit(b, runs, 2, 0, 1), 0);
	assert_int_equal(pagehint_gate_in_flight(gate), 1); /* stays inside until its outcomes are known */
	uint64_t drained = 9;
	assert_int_equal(pagehint_gate_close(gate, PAGEHINT_INHIBIT_POSTCOPY, &drained), 0);
	assert_int_equal(drained, 1);
	assert_int_equal(pagehint_backend_submit(b, runs, 2, 0, 2), 0);
	assert_int_equal(w.fake.submits, 1);
	assert_int_equal(pagehint_backend_reap(b, 2, out, &cookie, &n), 0);
	assert_int_equal(cookie, 2);
	assert_int_equal(out[1].kept_why, PAGEHINT_WHY_INHIBITED);
	assert_int_equal(pagehint_backend_reap(b, 2, out, &cookie, &n), 0);
	assert_int_equal(cookie, 1);
	assert_int_equal(pagehint_gate_in_flight(gate), 0);
	assert_int_equal(pagehint_gate_open(gate, PAGEHINT_INHIBIT_POSTCOPY), 0);
	w.fake.refuse_frame = 5;
	assert_int_equal(pagehint_backend_submit(b, runs, 1, 0, 3), 0);
	assert_int_equal(pagehint_backend_reap(b, 2, out, &cookie, &n), 0);
	assert_int_equal(cookie, 3);
	assert_int_equal(out[0].kept_why, PAGEHINT_WHY_HOOK_REFUSED);
	assert_int_equal(pagehint_gate_in_flight(gate), 0);
	fake_close(&w);
	assert_int_equal(pagehint_gate_free(gate), 0);
}

static void test_lies_while_reaping(void **state)
{
	(void)state;
	open_async();
	struct pagehint_backend *b = w.fake.backend;
	const struct pagehint_run runs[] = { { 5, 1 }, { 7, 1 } };
	struct pagehint_outcome out[2];
	uint64_t cookie = 0;
	uint32_t n = 0;
	assert_int_equal(pagehint_backend_submit(b, runs, 2, 0, 1), 0);
	uint64_t real = w.fake.cookie[0];
	const uint64_t wrong[] = { real + 1, real + (UINT64_C(1) << 32), UINT64_MAX };
	for (unsigned i = 0; i < 3; i++) { /* a batch that was never submitted */
		w.fake.submits = 1;
		w.fake.cookie[0] = wrong[i];
		assert_int_equal(pagehint_backend_reap(b, 2, out, &cookie, &n), -EIO);
	}
	assert_int_equal(in_flight(b), 2);
	w.fake.submits = 1;
	w.fake.cookie[0] = real;
	w.fake.short_by = 1;
	assert_int_equal(pagehint_backend_reap(b, 2, out, &cookie, &n), 0);
	assert_int_equal(n, 2);
	assert_int_equal(out[0].freed, PAGE);
	assert_int_equal(out[1].failed_why, PAGEHINT_WHY_NOT_TRIED);
	w.fake.submits = 1; /* the same batch once more */
	assert_int_equal(pagehint_backend_reap(b, 2, out, &cookie, &n), -EIO);
	w.fake.submits = 0;
	w.fake.short_by = 0;
	w.fake.over_by = 1;
	assert_int_equal(pagehint_backend_submit(b, runs, 2, 0, 2), 0);
	assert_int_equal(pagehint_backend_reap(b, 2, out, &cookie, &n), 0);
	assert_int_equal(out[0].failed_why, PAGEHINT_WHY_BACKEND_LIED);
	assert_int_equal(out[1].failed_why, PAGEHINT_WHY_BACKEND_LIED);
	assert_int_equal(in_flight(b), 0);
	fake_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_synchronous_holds_one_batch),
		cmocka_unit_test(test_asynchronous_in_any_order),
		cmocka_unit_test(test_room_is_bounded),
		cmocka_unit_test(test_a_batch_that_is_not_taken_is_undone),
		cmocka_unit_test(test_gate_and_hooks_are_reaped_as_kept),
		cmocka_unit_test(test_lies_while_reaping),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
