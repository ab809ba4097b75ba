/* Anonymous memory: how many calls, of which size, and what happens on kernels that refuse them. */
#include "support/fake_kernel.h"

#define AT UINT64_C(0x10000000)
#define PAGE UINT64_C(4096)
#define DONTNEED_LOCKED 24
#define MANY 2100u

static struct fake_kernel k;
static struct pagehint_map *map;
static struct pagehint_backend *backend;
static struct pagehint_run every_other[MANY];

static void start_with(const struct claim *claim, const struct pagehint_madvise_opts *opts)
{
	map = kernel_map(&k, claim);
	kernel_region(&k, map, 0, AT, UINT64_C(64) << 20, claim);
	assert_int_equal(pagehint_madvise_new(map, opts, NULL, &backend), 0);
	kernel_forget(&k);
	for (uint32_t i = 0; i < MANY; i++)
		every_other[i] = (struct pagehint_run) { 2 * i, 1 };
}

static void start(void)
{
	const struct claim anon = { .backing = PAGEHINT_BACKING_ANON };
	kernel_setup(&k);
	start_with(&anon, NULL);
}

static void stop(void)
{
	struct pagehint_region_info info = { .struct_size = sizeof(info) };
	assert_int_equal(pagehint_map_lookup(map, 0, &info), 0);
	assert_int_equal(info.in_flight, 0);
	assert_int_equal(pagehint_backend_free(backend), 0);
	assert_int_equal(pagehint_map_free(map), 0);
	assert_int_equal(k.open_fds, 0);
}

static struct pagehint_outcome discard(uint32_t n, int expected)
{
	struct pagehint_outcome sum;
	uint32_t done = 0;
	assert_int_equal(pagehint_backend_discard(backend, every_other, n, 0, NULL, &sum, &done), expected);
	assert_int_equal(done, n);
	assert_whole(&sum, n * PAGE);
	return sum;
}

static void test_the_probe_is_harmless(void **state)
{
	(void)state;
	const struct claim anon = { .backing = PAGEHINT_BACKING_ANON };
	kernel_setup(&k);
	map = kernel_map(&k, &anon);
	assert_int_equal(pagehint_madvise_new(map, NULL, NULL, &backend), 0);
	assert_int_equal(k.count[CALL_PIDFD], 1);
	assert_int_equal(k.count[CALL_TOGETHER], 1);
	assert_int_equal(k.calls[1].length, 0); /* no range at all */
	assert_int_equal(k.count[CALL_MADVISE] + k.count[CALL_MMAP] + k.count[CALL_FALLOCATE], 0);
	assert_int_equal(pagehint_backend_free(backend), 0);
	assert_int_equal(pagehint_map_free(map), 0);
	assert_int_equal(k.open_fds, 0);
}

static void test_adjacent_runs_are_one_call(void **state)
{
	(void)state;
	start();
	struct pagehint_run runs[1000];
	for (uint32_t i = 0; i < 1000; i++)
		runs[i] = (struct pagehint_run) { (i * 7) % 1000, 1 }; /* all of them, shuffled */
	assert_int_equal(pagehint_backend_discard(backend, runs, 1000, 0, NULL, NULL, NULL), 0);
	assert_int_equal(k.n, 1);
	assert_int_equal(k.calls[0].call, CALL_MADVISE);
	assert_int_equal(k.calls[0].how, MADV_DONTNEED);
	assert_int_equal(k.calls[0].addr, AT);
	assert_int_equal(k.calls[0].length, 1000 * PAGE);
	stop();
}

static void test_batches_of_1024(void **state)
{
	(void)state;
	start();
	struct pagehint_outcome sum = discard(MANY, 0);
	assert_int_equal(sum.accepted, MANY * PAGE);
	assert_int_equal(k.count[CALL_TOGETHER], 3);
	assert_int_equal(k.count[CALL_MADVISE], 0);
	assert_int_equal(k.calls[0].length, 1024);
	assert_int_equal(k.calls[1].length, 1024);
	assert_int_equal(k.calls[2].length, MANY - 2048);
	assert_int_equal(madvise_stats(backend).process_madvise, 3);
	stop();
}

/* The kernel cuts one call off below 2 GiB without saying so: a batch stays under 1 GiB. */
static void test_batches_are_bounded_in_bytes(void **state)
{
	(void)state;
	const struct claim anon = { .backing = PAGEHINT_BACKING_ANON };
	const uint64_t quarter = (UINT64_C(1) << 28) / PAGE;
	kernel_setup(&k);
	map = kernel_map(&k, &anon);
	kernel_region(&k, map, 0, AT, UINT64_C(15) << 27, &anon);
	assert_int_equal(pagehint_madvise_new(map, NULL, NULL, &backend), 0);
	kernel_forget(&k);
	struct pagehint_run runs[7];
	for (uint32_t i = 0; i < 7; i++)
		runs[i] = (struct pagehint_run) { i * (quarter + 1), quarter };
	assert_int_equal(pagehint_backend_discard(backend, runs, 7, 0, NULL, NULL, NULL), 0);
	assert_int_equal(k.n, 2);
	assert_int_equal(k.calls[0].length, 4);
	assert_int_equal(k.calls[1].length, 3);
	const struct pagehint_run big[] = { { 0, 5 * quarter }, { 6 * quarter, 1 } };
	kernel_forget(&k);
	assert_int_equal(pagehint_backend_discard(backend, big, 2, 0, NULL, NULL, NULL), 0);
	assert_int_equal(k.count[CALL_MADVISE], 2);
	stop();
}

static void test_refused_at_the_start(void **state)
{
	(void)state;
	const int errors[] = { -EPERM, -EINVAL, -ENOSYS };
	const struct claim anon = { .backing = PAGEHINT_BACKING_ANON };
	for (unsigned i = 0; i < 3; i++) {
		kernel_setup(&k);
		k.error[CALL_TOGETHER] = errors[i];
		start_with(&anon, NULL);
		assert_int_equal(k.open_fds, 0); /* a pidfd that is of no use is not kept */
		discard(10, 0);
		assert_int_equal(k.count[CALL_TOGETHER], 0);
		assert_int_equal(k.count[CALL_MADVISE], 10);
		stop();
	}
	kernel_setup(&k);
	k.error[CALL_PIDFD] = -EMFILE;
	start_with(&anon, NULL);
	discard(10, 0);
	assert_int_equal(k.count[CALL_MADVISE], 10);
	stop();
	kernel_setup(&k);
	start_with(&anon, &(struct pagehint_madvise_opts) { .struct_size = 16, .flags = PAGEHINT_MADVISE_NO_BATCH });
	assert_int_equal(k.open_fds, 0);
	discard(10, 0);
	assert_int_equal(k.count[CALL_MADVISE], 10);
	stop();
}

/* A seccomp filter that came later, for example. */
static void test_refused_at_run_time(void **state)
{
	(void)state;
	const int errors[] = { -EPERM, -EINVAL, -ENOSYS };
	for (unsigned i = 0; i < 3; i++) {
		start();
		k.error[CALL_TOGETHER] = errors[i];
		struct pagehint_outcome sum = discard(10, 0);
		assert_int_equal(sum.accepted, 10 * PAGE);
		assert_int_equal(k.count[CALL_TOGETHER], 1);
		assert_int_equal(k.count[CALL_MADVISE], 10);
		k.error[CALL_TOGETHER] = 0; /* for good */
		kernel_forget(&k);
		discard(10, 0);
		assert_int_equal(k.count[CALL_TOGETHER], 0);
		assert_int_equal(k.count[CALL_MADVISE], 10);
		stop();
	}
	/* an error that passes does not end it */
	start();
	k.error[CALL_TOGETHER] = -EAGAIN;
	discard(3, 0);
	k.error[CALL_TOGETHER] = 0;
	kernel_forget(&k);
	discard(3, 0);
	assert_int_equal(k.count[CALL_TOGETHER], 1);
	assert_int_equal(k.count[CALL_MADVISE], 0);
	stop();
}

static void test_a_hole_is_diagnosed(void **state)
{
	(void)state;
	struct pagehint_outcome out[10];
	start();
	k.hole_at = AT + 8 * PAGE; /* within the fifth run */
	assert_int_equal(pagehint_backend_discard(backend, every_other, 10, 0, out, NULL, NULL), -ENOMEM);
	for (unsigned i = 0; i < 10; i++) {
		assert_whole(&out[i], PAGE);
		assert_int_equal(out[i].accepted, i == 4 ? 0 : PAGE);
	}
	assert_int_equal(out[4].failed_why, PAGEHINT_WHY_SYSCALL);
	assert_int_equal(out[4].error, -ENOMEM);
	assert_int_equal(k.count[CALL_TOGETHER], 2); /* up to it, and from behind it on */
	assert_int_equal(k.count[CALL_MADVISE], 1);
	/* at the very front: batches stay in use */
	k.hole_at = AT;
	kernel_forget(&k);
	assert_int_equal(pagehint_backend_discard(backend, every_other, 10, 0, out, NULL, NULL), -ENOMEM);
	assert_int_equal(k.count[CALL_TOGETHER], 2);
	assert_int_equal(out[0].failed, PAGE);
	stop();
}

static void test_locked_memory(void **state)
{
	(void)state;
	const struct claim locked = { .backing = PAGEHINT_BACKING_ANON, .vm_flags = "lo" };
	kernel_setup(&k);
	start_with(&locked, NULL);
	discard(10, 0);
	assert_int_equal(k.n, 1);
	assert_int_equal(k.calls[0].call, CALL_TOGETHER);
	assert_int_equal(k.calls[0].how, DONTNEED_LOCKED);
	stop();
	/* beside memory that is not: each gets its own advice */
	const struct claim plain = { .backing = PAGEHINT_BACKING_ANON };
	const uint64_t far = UINT64_C(64) << 8; /* the first frame behind the locked region */
	kernel_setup(&k);
	start_with(&locked, NULL);
	kernel_region(&k, map, far, AT + (UINT64_C(1) << 30), UINT64_C(64) << 20, &plain);
	const struct pagehint_run both[] = { { 0, 1 }, { far + 4, 1 }, { 2, 1 }, { far, 1 } };
	kernel_forget(&k);
	assert_int_equal(pagehint_backend_discard(backend, both, 4, 0, NULL, NULL, NULL), 0);
	assert_int_equal(k.n, 2);
	assert_int_equal(k.calls[0].how, DONTNEED_LOCKED);
	assert_int_equal(k.calls[0].length, 2);
	assert_int_equal(k.calls[1].how, MADV_DONTNEED);
	assert_int_equal(k.calls[1].length, 2);
	stop();
	/* locked after it was registered: found out, and no reason to give batches up */
	start();
	k.locked_at = AT + 4 * PAGE;
	struct pagehint_outcome sum = discard(10, 0);
	assert_int_equal(sum.accepted, 10 * PAGE);
	assert_int_equal(k.count[CALL_TOGETHER], 2);
	assert_int_equal(k.count[CALL_MADVISE], 2); /* DONTNEED, then DONTNEED_LOCKED */
	k.locked_at = AT;
	kernel_forget(&k);
	discard(10, 0);
	assert_int_equal(k.count[CALL_TOGETHER], 2);
	/* a kernel that knows no such advice */
	k.error[CALL_MADVISE] = -EINVAL;
	kernel_forget(&k);
	sum = discard(1, -EINVAL);
	assert_int_equal(sum.failed, PAGE);
	assert_int_equal(k.count[CALL_MADVISE], 2);
	stop();
}

static void test_lazy(void **state)
{
	(void)state;
	const struct claim anon = { .backing = PAGEHINT_BACKING_ANON };
	struct pagehint_outcome sum;
	kernel_setup(&k);
	start_with(&anon, &(struct pagehint_madvise_opts) { .struct_size = 16, .flags = PAGEHINT_MADVISE_LAZY });
	sum = discard(10, 0);
	assert_int_equal(sum.lazy, 10 * PAGE);
	assert_int_equal(sum.lazy_why, PAGEHINT_WHY_MADV_FREE);
	assert_int_equal(k.calls[0].how, MADV_FREE);
	/* lazily freed memory keeps its content for a while: not when zeroes are demanded */
	kernel_forget(&k);
	assert_int_equal(pagehint_backend_discard(backend, every_other, 10, PAGEHINT_DISCARD_ZERO, NULL, &sum, NULL),
			 0);
	assert_int_equal(k.calls[0].how, MADV_DONTNEED);
	assert_int_equal(sum.accepted, 10 * PAGE);
	/* a kernel that refuses it */
	k.error[CALL_MADVISE] = -EINVAL;
	k.refused_advice = MADV_FREE;
	sum = discard(1, 0);
	assert_int_equal(sum.accepted, PAGE);
	stop();
}

static char said[4096];

static void append(const char *text)
{
	size_t n = strlen(said);
	snprintf(said + n, sizeof(said) - n, "%s\n", text);
}

static void keep_line(void *ctx, const char *text)
{
	(void)ctx;
	append(text);
}

static void keep_log(void *ctx, uint32_t level, const char *text)
{
	(void)ctx;
	(void)level;
	append(text);
}

static void test_what_it_says(void **state)
{
	(void)state;
	const struct claim locked = { .backing = PAGEHINT_BACKING_ANON, .vm_flags = "lo" };
	struct pagehint_hooks hooks = { .struct_size = sizeof(hooks), .log = keep_log };
	struct pagehint_backend_opts opts = { .struct_size = sizeof(opts), .hooks = &hooks };
	kernel_setup(&k);
	map = kernel_map(&k, &locked);
	assert_int_equal(pagehint_madvise_new(map, NULL, &opts, &backend), 0);
	said[0] = 0;
	const struct pagehint_sink sink = { .line = keep_line };
	pagehint_backend_explain(backend, &sink);
	assert_non_null(strstr(said, "the map has no region"));
	assert_null(strstr(said, "one call a run"));
	kernel_region(&k, map, 0, AT, UINT64_C(64) << 20, &locked);
	for (uint32_t i = 0; i < MANY; i++)
		every_other[i] = (struct pagehint_run) { 2 * i, 1 };
	said[0] = 0;
	k.hole_at = AT;
	k.error[CALL_TOGETHER] = -EPERM;
	discard(3, -ENOMEM);
	assert_non_null(strstr(said, "a hole between mappings"));
	assert_non_null(strstr(said, "process_madvise is refused (error -1)"));
	assert_non_null(strstr(said, "madvise: frames 0 + 1: 4096 bytes failed: the kernel refused (error -12)"));
	said[0] = 0;
	pagehint_backend_explain(backend, &sink);
	assert_non_null(strstr(said, "failed: 4096 bytes: the kernel refused"));
	assert_non_null(strstr(said, "anon, locked"));
	assert_non_null(strstr(said, "0 holes of 16384 allowed"));
	assert_non_null(strstr(said, "one call a run, since process_madvise is refused (error -1)"));
	stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_probe_is_harmless),
		cmocka_unit_test(test_adjacent_runs_are_one_call),
		cmocka_unit_test(test_batches_of_1024),
		cmocka_unit_test(test_batches_are_bounded_in_bytes),
		cmocka_unit_test(test_refused_at_the_start),
		cmocka_unit_test(test_refused_at_run_time),
		cmocka_unit_test(test_a_hole_is_diagnosed),
		cmocka_unit_test(test_locked_memory),
		cmocka_unit_test(test_lazy),
		cmocka_unit_test(test_what_it_says),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
