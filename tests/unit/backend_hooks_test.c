/* Populate, the limit on log lines, and what explain says. */
#include "support/fake_backend.h"

#define PAGE UINT64_C(4096)

static struct fake_world w;

static void test_populate_order(void **state)
{
	(void)state;
	const struct pagehint_run runs[] = { { 9, 1 }, { 5, 2 }, { 1, 1 } };
	uint32_t done = 0;
	fake_setup(&w);
	w.ops.max_runs = 2;
	struct pagehint_backend *b = fake_open(&w);
	assert_int_equal(pagehint_backend_populate(b, runs, 3, &done), 0);
	assert_int_equal(done, 3);
	assert_string_equal(w.fake.log, "populate 9+1;populate 5+2;mapped 9+1;mapped 5+2;populate 1+1;mapped 1+1;");
	assert_string_equal(w.fake.last_trace, "populate");
	assert_int_equal(w.fake.trace_sum.accepted, 4 * PAGE);
	struct pagehint_backend_stats stats = { .struct_size = sizeof(stats) };
	assert_int_equal(pagehint_backend_stats(b, &stats), 0);
	assert_int_equal(stats.populated, 4 * PAGE);
	assert_int_equal(stats.asked, 0);
	fake_close(&w);
}

static void test_populate_stops(void **state)
{
	(void)state;
	const struct pagehint_run runs[] = { { 9, 1 }, { 5, 2 }, { 1, 1 } };
	uint32_t done = 9;
	fake_setup(&w);
	struct pagehint_backend *b = fake_open(&w);
	w.fake.short_by = 1;
	w.fake.result = -ENOMEM;
	assert_int_equal(pagehint_backend_populate(b, runs, 3, &done), -ENOMEM);
	assert_int_equal(done, 2);
	assert_int_equal(w.fake.trace_sum.failed, PAGE);
	assert_int_equal(w.fake.trace_sum.error, -ENOMEM);
	w.fake.result = 0; /* it stopped and did not say why: nobody may map what is not there */
	assert_int_equal(pagehint_backend_populate(b, runs, 3, NULL), -EIO);
	w.fake.short_by = 0;
	w.fake.populated = 0;
	w.fake.populate_refuses_at = 1;
	assert_int_equal(pagehint_backend_populate(b, runs, 3, &done), -EFAULT);
	assert_int_equal(done, 1);
	w.fake.over_by = 1;
	assert_int_equal(pagehint_backend_populate(b, runs, 3, &done), -EIO);
	assert_int_equal(done, 0);
	fake_close(&w);
}

static void test_log_limit(void **state)
{
	(void)state;
	fake_setup(&w);
	w.fake.now = 5000000000;
	struct pagehint_backend *b = fake_open(&w);
	for (int i = 0; i < 25; i++)
		ph_backend_log(b, PAGEHINT_LOG_WARN, "again");
	assert_int_equal(w.fake.lines, 10);
	w.fake.now += 999999999;
	ph_backend_log(b, PAGEHINT_LOG_WARN, "still the same second");
	assert_int_equal(w.fake.lines, 10);
	w.fake.now += 1;
	w.fake.lines = 0;
	ph_backend_log(b, PAGEHINT_LOG_WARN, "next");
	assert_int_equal(w.fake.lines, 2); /* what was dropped, then the line */
	assert_string_equal(w.fake.last_line, "next");
	for (int i = 0; i < 25; i++)
		ph_backend_log(b, PAGEHINT_LOG_WARN, "again");
	assert_int_equal(w.fake.lines, 10); /* the line about lines is one of the ten */
	struct pagehint_backend_stats stats = { .struct_size = sizeof(stats) };
	assert_int_equal(pagehint_backend_stats(b, &stats), 0);
	assert_int_equal(stats.log_dropped, 16 + 17);
	w.fake.now += 2000000000;
	w.fake.lines = 0;
	ph_backend_log(b, PAGEHINT_LOG_WARN, "x");
	assert_int_equal(w.fake.lines, 2);
	fake_close(&w);
}

static void first_line(void *ctx, const char *text)
{
	struct fake *f = ctx;
	if (f->lines++ == 0)
		snprintf(f->last_line, sizeof(f->last_line), "%s", text);
	size_t n = strlen(f->log);
	snprintf(f->log + n, sizeof(f->log) - n, "%s\n", text);
}

static void test_explain(void **state)
{
	(void)state;
	const struct pagehint_run runs[] = { { 5, 1 }, { 7, 1 } };
	struct pagehint_gate *gate = NULL;
	fake_setup(&w);
	assert_int_equal(pagehint_gate_new(&gate), 0);
	w.opts.gate = gate;
	struct pagehint_backend *b = fake_open(&w);
	const struct pagehint_sink sink = { .ctx = &w.fake, .line = first_line };
	w.fake.refuse_frame = 5;
	w.fake.result = -EIO;
	w.fake.short_by = 1;
	assert_int_equal(pagehint_backend_discard(b, runs, 2, 0, NULL, NULL, NULL), -EIO);
	assert_int_equal(pagehint_gate_close(gate, PAGEHINT_INHIBIT_SNAPSHOT, NULL), 0);
	w.fake.log[0] = 0;
	w.fake.lines = 0;
	pagehint_backend_explain(b, &sink);
	assert_non_null(strstr(w.fake.last_line, "snapshot")); /* the gate comes first */
	assert_non_null(strstr(w.fake.log, "kept: 4096 bytes: the before_discard hook refused"));
	assert_non_null(strstr(w.fake.log, "failed: 4096 bytes: the backend stopped before it"));
	assert_non_null(strstr(w.fake.log, "last failure: frames 7 + 1"));
	assert_non_null(strstr(w.fake.log, "the fake has nothing to say"));
	w.fake.pid = 7;
	w.fake.log[0] = 0;
	pagehint_backend_explain(b, &sink);
	assert_non_null(strstr(w.fake.log, "cannot be asked now"));
	w.fake.pid = 100;
	fake_close(&w);
	assert_int_equal(pagehint_gate_free(gate), 0);
}

static void test_names_and_stats_sizes(void **state)
{
	(void)state;
	fake_setup(&w);
	w.ops.caps = PAGEHINT_BACKEND_READS_ZERO;
	struct pagehint_backend *b = fake_open(&w);
	assert_string_equal(pagehint_backend_name(b), "fake");
	assert_int_equal(pagehint_backend_caps(b), PAGEHINT_BACKEND_READS_ZERO);
	assert_ptr_equal(ph_backend_ctx(b, w.ops.name), &w.fake);
	char same[] = "fake";
	assert_null(ph_backend_ctx(b, same));
	struct pagehint_backend_stats stats = { .struct_size = 7 };
	assert_int_equal(pagehint_backend_stats(b, &stats), -EINVAL);
	stats.struct_size = 16;
	stats.runs = 77;
	assert_int_equal(pagehint_backend_stats(b, &stats), 0);
	assert_int_equal(stats.runs, 77); /* beyond what the caller has */
	fake_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_populate_order),
		cmocka_unit_test(test_populate_stops),
		cmocka_unit_test(test_log_limit),
		cmocka_unit_test(test_explain),
		cmocka_unit_test(test_names_and_stats_sizes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
