/* Discards through the handle: what is asked below, in which order, and what the caller is told. */
#include "support/fake_backend.h"

#define PAGE UINT64_C(4096)

static struct fake_world w;

static void test_new_refuses(void **state)
{
	(void)state;
	struct pagehint_backend *b = NULL;
	fake_setup(&w);
	w.ops.discard = NULL;
	assert_int_equal(pagehint_backend_new(&w.ops, &w, &w.opts, &b), -EINVAL);
	w.ops.caps = PAGEHINT_BACKEND_ASYNC;
	w.ops.submit = fake_submit;
	assert_int_equal(pagehint_backend_new(&w.ops, &w, &w.opts, &b), -EINVAL);
	w.ops.reap = fake_reap;
	w.ops.caps = 64;
	assert_int_equal(pagehint_backend_new(&w.ops, &w, &w.opts, &b), -EINVAL);
	fake_setup(&w);
	const uint32_t bad[] = { 11, 31, UINT32_MAX };
	for (unsigned i = 0; i < 3; i++) {
		w.opts.frame_shift = bad[i];
		assert_int_equal(pagehint_backend_new(&w.ops, &w, &w.opts, &b), -EINVAL);
	}
	w.opts.frame_shift = 0;
	w.opts.flags = 1;
	assert_int_equal(pagehint_backend_new(&w.ops, &w, &w.opts, &b), -EINVAL);
	assert_int_equal(pagehint_backend_new(NULL, &w, NULL, &b), -EINVAL);
	assert_int_equal(pagehint_backend_new(&w.ops, &w, NULL, NULL), -EINVAL);
	assert_null(b);
	assert_int_equal(w.fake.destroyed, 0);
	assert_int_equal(pagehint_backend_free(NULL), 0);
}

static void test_struct_sizes(void **state)
{
	(void)state;
	struct {
		struct pagehint_backend_ops ops;
		unsigned char tail[16];
	} longer;
	struct pagehint_backend *b = NULL;
	fake_setup(&w);
	memset(&longer, 0, sizeof(longer));
	longer.ops = w.ops;
	longer.ops.struct_size = sizeof(longer);
	longer.tail[9] = 1;
	assert_int_equal(pagehint_backend_new(&longer.ops, &w.fake, NULL, &b), -E2BIG);
	longer.tail[9] = 0;
	assert_int_equal(pagehint_backend_new(&longer.ops, &w.fake, NULL, &b), 0);
	assert_int_equal(pagehint_backend_free(b), 0);
	w.ops.struct_size = offsetof(struct pagehint_backend_ops, submit); /* an older caller */
	w.opts.struct_size = offsetof(struct pagehint_backend_opts, frame_shift);
	assert_int_equal(pagehint_backend_new(&w.ops, &w.fake, &w.opts, &b), 0);
	assert_int_equal(pagehint_backend_populate(b, &(struct pagehint_run) { 1, 1 }, 1, NULL), -EOPNOTSUPP);
	assert_int_equal(pagehint_backend_free(b), 0);
}

static void test_sorts_merges_and_maps_back(void **state)
{
	(void)state;
	const struct pagehint_run runs[] = { { 30, 2 }, { 10, 1 }, { 11, 4 }, { 32, 1 }, { 9, 1 }, { 50, 5 } };
	struct pagehint_outcome out[6], sum;
	uint32_t done = 0;
	fake_setup(&w);
	struct pagehint_backend *b = fake_open(&w);
	assert_int_equal(pagehint_backend_discard(b, runs, 6, 0, out, &sum, &done), 0);
	assert_int_equal(done, 6);
	assert_int_equal(w.fake.discards, 1);
	assert_int_equal(w.fake.seen_n, 3);
	const struct pagehint_run merged[] = { { 9, 6 }, { 30, 3 }, { 50, 5 } };
	assert_memory_equal(w.fake.seen, merged, sizeof(merged));
	for (unsigned i = 0; i < 6; i++) {
		assert_adds_up(&out[i], runs[i].frames * PAGE);
		assert_int_equal(out[i].freed, runs[i].frames * PAGE);
	}
	assert_adds_up(&sum, 14 * PAGE);
	struct pagehint_backend_stats stats = { .struct_size = sizeof(stats) };
	assert_int_equal(pagehint_backend_stats(b, &stats), 0);
	assert_int_equal(stats.calls, 1);
	assert_int_equal(stats.runs, 3);
	assert_int_equal(stats.asked, 14 * PAGE);
	assert_int_equal(stats.freed, 14 * PAGE);
	fake_close(&w);
}

static void mixed(struct fake *f, uint32_t i, const struct pagehint_run *run, struct pagehint_outcome *o)
{
	(void)f;
	(void)i;
	uint64_t bytes = run->frames * PAGE;
	ph_outcome_freed(o, bytes / 2 + 7);
	ph_outcome_kept(o, bytes / 4, PAGEHINT_WHY_ALIGNMENT);
	ph_outcome_failed(o, bytes - bytes / 2 - 7 - bytes / 4, PAGEHINT_WHY_SYSCALL, -EIO);
}

static void test_a_mixed_outcome_is_dealt_out_exactly(void **state)
{
	(void)state;
	const struct pagehint_run runs[] = { { 12, 1 }, { 10, 1 }, { 13, 1 }, { 11, 1 } };
	struct pagehint_outcome out[4], sum;
	fake_setup(&w);
	w.fake.answer = mixed;
	w.fake.result = -EIO;
	struct pagehint_backend *b = fake_open(&w);
	uint32_t done = 0;
	assert_int_equal(pagehint_backend_discard(b, runs, 4, 0, out, &sum, &done), -EIO);
	assert_int_equal(done, 4);
	uint64_t freed = 0, kept = 0, failed = 0;
	for (unsigned i = 0; i < 4; i++) {
		assert_adds_up(&out[i], PAGE);
		assert_int_equal(out[i].kept != 0, out[i].kept_why == PAGEHINT_WHY_ALIGNMENT);
		assert_int_equal(out[i].failed != 0, out[i].error == -EIO);
		freed += out[i].freed;
		kept += out[i].kept;
		failed += out[i].failed;
	}
	assert_int_equal(freed, 2 * PAGE + 7);
	assert_int_equal(kept, PAGE);
	assert_int_equal(failed, PAGE - 7);
	assert_int_equal(out[1].freed, PAGE); /* the front of the merged run */
	assert_int_equal(sum.freed, freed);
	assert_int_equal(sum.failed_why, PAGEHINT_WHY_SYSCALL);
	fake_close(&w);
}

static void test_merging_stops_at_regions(void **state)
{
	(void)state;
	const struct pagehint_run runs[] = { { 98, 1 },  { 99, 1 },      { 100, 1 },
					     { 101, 1 }, { 1000000, 1 }, { 1000001, 1 } };
	fake_setup(&w);
	w.fake.region_frames = 100;
	struct pagehint_backend *b = fake_open(&w);
	assert_int_equal(pagehint_backend_discard(b, runs, 6, 0, NULL, NULL, NULL), 0);
	const struct pagehint_run merged[] = { { 98, 2 }, { 100, 2 }, { 1000000, 1 }, { 1000001, 1 } };
	assert_int_equal(w.fake.seen_n, 4);
	assert_memory_equal(w.fake.seen, merged, sizeof(merged));
	fake_close(&w);
}

static void test_bad_runs_change_nothing(void **state)
{
	(void)state;
	const struct pagehint_run bad[] = { { 5, 0 },          { UINT64_MAX, 1 },       { UINT64_MAX, 2 },
					    { 1, UINT64_MAX }, { UINT64_MAX >> 12, 1 }, { 0, UINT64_MAX } };
	const struct pagehint_run overlaps[][2] = { { { 5, 2 }, { 6, 1 } },
						    { { 7, 1 }, { 7, 1 } },
						    { { 9, 1 }, { 2, 8 } } };
	struct pagehint_outcome out[2], sum;
	uint32_t done = 9;
	fake_setup(&w);
	struct pagehint_backend *b = fake_open(&w);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const struct pagehint_run runs[] = { { 1, 1 }, bad[i] };
		assert_int_equal(pagehint_backend_discard(b, runs, 2, 0, out, &sum, &done), -EINVAL);
		assert_int_equal(pagehint_backend_submit(b, runs, 2, 0, 1), -EINVAL);
		assert_int_equal(pagehint_backend_populate(b, runs, 2, &done), -EINVAL);
		assert_int_equal(done, 0);
		assert_int_equal(sum.asked, 0);
	}
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(pagehint_backend_discard(b, overlaps[i], 2, 0, out, NULL, NULL), -EINVAL);
		assert_int_equal(pagehint_backend_submit(b, overlaps[i], 2, 0, 1), -EINVAL);
	}
	assert_int_equal(pagehint_backend_discard(b, NULL, 1, 0, out, NULL, NULL), -EINVAL);
	assert_int_equal(pagehint_backend_discard(b, overlaps[0], 1, 4, out, NULL, NULL), -EINVAL);
	assert_int_equal(pagehint_backend_discard(b, NULL, 0, 0, NULL, &sum, &done), 0);
	assert_string_equal(w.fake.log, "");
	struct pagehint_backend_stats stats = { .struct_size = sizeof(stats) };
	assert_int_equal(pagehint_backend_stats(b, &stats), 0);
	assert_int_equal(stats.asked + stats.calls + stats.in_flight, 0);
	fake_close(&w);
}

static void test_order_of_hooks(void **state)
{
	(void)state;
	const struct pagehint_run runs[] = { { 6, 1 }, { 5, 1 }, { 9, 2 } };
	struct pagehint_outcome out[3], sum;
	fake_setup(&w);
	w.fake.refuse_frame = 9;
	struct pagehint_backend *b = fake_open(&w);
	assert_int_equal(
		pagehint_backend_discard(b, runs, 3, PAGEHINT_DISCARD_PROBE | PAGEHINT_DISCARD_ZERO, out, &sum, NULL),
		0);
	assert_string_equal(w.fake.log, "before 6+1;before 5+1;before 9+2;discard 5+2;after 6+1;after 5+1;");
	assert_int_equal(w.fake.flags, PAGEHINT_DISCARD_PROBE | PAGEHINT_DISCARD_ZERO);
	assert_int_equal(out[2].kept, 2 * PAGE);
	assert_int_equal(out[2].kept_why, PAGEHINT_WHY_HOOK_REFUSED);
	assert_int_equal(sum.freed, 2 * PAGE);
	assert_int_equal(sum.kept_why, PAGEHINT_WHY_HOOK_REFUSED);
	assert_string_equal(w.fake.last_trace, "discard");
	assert_int_equal(w.fake.traces, 1);
	assert_int_equal(w.fake.trace_runs, 3);
	assert_int_equal(w.fake.trace_sum.asked, 4 * PAGE);
	/* refused altogether: nothing goes below */
	w.fake.log[0] = 0;
	assert_int_equal(pagehint_backend_discard(b, runs + 2, 1, 0, out, NULL, NULL), 0);
	assert_string_equal(w.fake.log, "before 9+2;");
	assert_int_equal(w.fake.discards, 1);
	fake_close(&w);
}

static void test_backend_that_fails_or_stops(void **state)
{
	(void)state;
	const struct pagehint_run runs[] = { { 1, 1 }, { 3, 1 }, { 5, 1 } };
	struct pagehint_outcome out[3], sum;
	uint32_t done = 0;
	fake_setup(&w);
	w.fake.short_by = 2;
	struct pagehint_backend *b = fake_open(&w);
	/* it stopped and did not say why: that is an error, too */
	assert_int_equal(pagehint_backend_discard(b, runs, 3, 0, out, &sum, &done), -EIO);
	assert_int_equal(done, 1);
	assert_int_equal(out[0].freed, PAGE);
	assert_int_equal(out[1].failed_why, PAGEHINT_WHY_NOT_TRIED);
	assert_int_equal(out[1].error, -EIO);
	assert_adds_up(&sum, 3 * PAGE);
	w.fake.result = -ENOMEM;
	assert_int_equal(pagehint_backend_discard(b, runs, 3, 0, out, &sum, &done), -ENOMEM);
	assert_int_equal(done, 1);
	assert_int_equal(out[2].error, -ENOMEM);
	w.fake.short_by = 3;
	assert_int_equal(pagehint_backend_discard(b, runs, 3, 0, out, &sum, &done), -ENOMEM);
	assert_int_equal(done, 0);
	assert_int_equal(sum.failed, 3 * PAGE);
	struct pagehint_backend_stats stats = { .struct_size = sizeof(stats) };
	assert_int_equal(pagehint_backend_stats(b, &stats), 0);
	assert_int_equal(stats.failed_by[PAGEHINT_WHY_NOT_TRIED], 7 * PAGE);
	assert_int_equal(stats.failed, 7 * PAGE);
	fake_close(&w);
}

static unsigned lie;

static void liar(struct fake *f, uint32_t i, const struct pagehint_run *run, struct pagehint_outcome *o)
{
	(void)f;
	uint64_t bytes = run->frames * PAGE;
	ph_outcome_freed(o, bytes);
	if (i != 1)
		return;
	switch (lie) {
	case 0: /* more than asked */
		o->freed += 1;
		o->asked += 1;
		break;
	case 1: /* does not add up */
		o->freed -= 1;
		break;
	case 2: /* adds up only when it wraps */
		o->freed = UINT64_MAX;
		o->absent = bytes + 1;
		break;
	case 3: /* a reason that is none */
		*o = (struct pagehint_outcome) { .asked = bytes, .kept = bytes, .kept_why = PAGEHINT_WHY_COUNT };
		break;
	case 4: /* no reason */
		*o = (struct pagehint_outcome) { .asked = bytes, .failed = bytes };
		break;
	case 5: /* errors are negative */
		*o = (struct pagehint_outcome) {
			.asked = bytes, .failed = bytes, .failed_why = PAGEHINT_WHY_SYSCALL, .error = EIO
		};
		break;
	default: /* nothing filled in */
		*o = (struct pagehint_outcome) { 0 };
	}
}

static void test_backend_that_lies(void **state)
{
	(void)state;
	const struct pagehint_run runs[] = { { 1, 1 }, { 3, 1 }, { 5, 1 } };
	struct pagehint_outcome out[3], sum;
	fake_setup(&w);
	w.fake.answer = liar;
	struct pagehint_backend *b = fake_open(&w);
	for (lie = 0; lie < 7; lie++) {
		assert_int_equal(pagehint_backend_discard(b, runs, 3, 0, out, &sum, NULL), -EIO);
		assert_int_equal(out[0].freed, PAGE);
		assert_adds_up(&out[1], PAGE);
		assert_int_equal(out[1].failed_why, PAGEHINT_WHY_BACKEND_LIED);
		assert_int_equal(out[2].freed, PAGE);
	}
	w.fake.answer = NULL;
	w.fake.over_by = 1; /* claims more runs than there are: nothing of it is believed */
	assert_int_equal(pagehint_backend_discard(b, runs, 3, 0, out, &sum, NULL), -EIO);
	assert_int_equal(sum.failed, 3 * PAGE);
	w.fake.over_by = 0;
	w.fake.result = 5; /* neither 0 nor an error */
	assert_int_equal(pagehint_backend_discard(b, runs, 3, 0, out, &sum, NULL), -EIO);
	assert_int_equal(sum.failed_why, PAGEHINT_WHY_BACKEND_LIED);
	fake_close(&w);
}

static void test_chunks(void **state)
{
	(void)state;
	struct pagehint_run runs[10];
	struct pagehint_outcome out[10], sum;
	uint32_t done = 0;
	for (unsigned i = 0; i < 10; i++)
		runs[i] = (struct pagehint_run) { 2 * i, 1 };
	fake_setup(&w);
	w.ops.max_runs = 3;
	struct pagehint_backend *b = fake_open(&w);
	assert_int_equal(pagehint_backend_max_runs(b), 3);
	assert_int_equal(pagehint_backend_discard(b, runs, 10, 0, out, &sum, &done), 0);
	assert_int_equal(w.fake.discards, 4);
	assert_int_equal(done, 10);
	assert_int_equal(sum.freed, 10 * PAGE);
	/* an overlap in the last chunk is found before the first is touched */
	w.fake.discards = 0;
	struct pagehint_run twice[5] = { { 1, 1 }, { 2, 1 }, { 3, 1 }, { 4, 1 }, { 4, 1 } };
	assert_int_equal(pagehint_backend_discard(b, twice, 5, 0, out, NULL, NULL), -EINVAL);
	assert_int_equal(w.fake.discards, 0);
	/* stops at the chunk where the backend stopped; hooks hear nothing of the rest */
	w.fake.short_by = 1;
	w.fake.log[0] = 0;
	assert_int_equal(pagehint_backend_discard(b, runs, 7, 0, NULL, &sum, &done), -EIO);
	assert_int_equal(done, 2);
	assert_int_equal(sum.failed, 5 * PAGE);
	assert_null(strstr(w.fake.log, "before 6+1"));
	fake_close(&w);
	fake_setup(&w);
	b = fake_open(&w);
	assert_int_equal(pagehint_backend_max_runs(b), 1024);
	fake_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_new_refuses),
		cmocka_unit_test(test_struct_sizes),
		cmocka_unit_test(test_sorts_merges_and_maps_back),
		cmocka_unit_test(test_a_mixed_outcome_is_dealt_out_exactly),
		cmocka_unit_test(test_merging_stops_at_regions),
		cmocka_unit_test(test_bad_runs_change_nothing),
		cmocka_unit_test(test_order_of_hooks),
		cmocka_unit_test(test_backend_that_fails_or_stops),
		cmocka_unit_test(test_backend_that_lies),
		cmocka_unit_test(test_chunks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
