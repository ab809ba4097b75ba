/* The backend that frees nothing: it counts, and it says so. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <pagehint/host.h>

static void keep_last(void *ctx, const char *text)
{
	strncpy(ctx, text, 127);
}

static void test_null(void **state)
{
	(void)state;
	struct pagehint_backend_opts opts = { .struct_size = sizeof(opts), .frame_shift = 14 };
	struct pagehint_backend *b = NULL;
	const struct pagehint_run runs[] = { { 9, 1 }, { 5, 2 } };
	struct pagehint_outcome sum;
	uint32_t done = 0;
	uint64_t frames = 0, least = 0;
	char text[128] = "";
	assert_int_equal(pagehint_null_new(&opts, &b), 0);
	assert_string_equal(pagehint_backend_name(b), "null");
	assert_int_equal(pagehint_backend_caps(b) & PAGEHINT_BACKEND_READS_ZERO, 0);
	assert_int_equal(pagehint_backend_discard(b, runs, 2, PAGEHINT_DISCARD_PROBE, NULL, &sum, &done), 0);
	assert_int_equal(sum.accepted, 3 << 14);
	assert_int_equal(sum.freed, 0);
	assert_int_equal(pagehint_backend_populate(b, runs, 2, &done), 0);
	assert_int_equal(pagehint_backend_extent(b, 3, &frames, &least), 0);
	assert_int_equal(least, 1 << 14);
	struct pagehint_backend_stats stats = { .struct_size = sizeof(stats) };
	assert_int_equal(pagehint_backend_stats(b, &stats), 0);
	assert_int_equal(stats.calls, 1);
	assert_int_equal(stats.runs, 2);
	assert_int_equal(stats.populated, 3 << 14);
	pagehint_backend_explain(b, &(struct pagehint_sink) { .ctx = text, .line = keep_last });
	assert_string_equal(text, "null: this backend frees nothing");
	struct pagehint_madvise_stats other = { .struct_size = sizeof(other) };
	assert_int_equal(pagehint_madvise_stats(b, &other), -EINVAL); /* not one of these */
	assert_int_equal(pagehint_madvise_resident(b, runs, &frames), -EINVAL);
	assert_int_equal(pagehint_backend_free(b), 0);
	opts.frame_shift = 3;
	assert_int_equal(pagehint_null_new(&opts, &b), -EINVAL);
	opts.frame_shift = 0;
	assert_int_equal(pagehint_null_new(NULL, NULL), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_null) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
