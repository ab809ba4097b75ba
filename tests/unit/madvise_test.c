/* The one right call for each backing, counted on a pretended kernel. */
#include "support/fake_kernel.h"

#include <fcntl.h>

#define AT UINT64_C(0x40000000)
#define PAGE UINT64_C(4096)
#define HUGE_PAGE (UINT64_C(2) << 20)
#define PUNCH (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE)
#define REGION (UINT64_C(64) << 20)

static struct fake_kernel k;
static struct pagehint_map *map;
static struct pagehint_backend *backend;
static uint64_t region;

static void start(const struct claim *claim, uint32_t budget)
{
	struct pagehint_madvise_opts opts = { .struct_size = sizeof(opts), .mapping_budget = budget };
	kernel_setup(&k);
	map = kernel_map(&k, claim);
	region = kernel_region(&k, map, 0, AT, REGION, claim);
	assert_int_equal(pagehint_madvise_new(map, &opts, NULL, &backend), 0);
	kernel_forget(&k);
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

static struct pagehint_outcome discard(uint64_t frame, uint64_t frames, uint32_t flags, int expected)
{
	const struct pagehint_run run = { frame, frames };
	struct pagehint_outcome out;
	kernel_forget(&k);
	assert_int_equal(pagehint_backend_discard(backend, &run, 1, flags, &out, NULL, NULL), expected);
	assert_whole(&out, frames << pagehint_map_frame_shift(map));
	return out;
}

static void assert_call(uint32_t i, enum call call, int how, uint64_t addr, uint64_t length)
{
	assert_true(i < k.n);
	assert_int_equal(k.calls[i].call, call);
	assert_int_equal(k.calls[i].how, how);
	assert_int_equal(k.calls[i].addr, addr);
	assert_int_equal(k.calls[i].length, length);
}

static void test_shared_is_punched(void **state)
{
	(void)state;
	const struct claim shared = { .backing = PAGEHINT_BACKING_SHARED, .fd_offset = 0x10000 };
	start(&shared, 0);
	struct pagehint_outcome o = discard(3, 5, 0, 0);
	assert_int_equal(k.n, 1);
	assert_call(0, CALL_FALLOCATE, PUNCH, 0x10000 + 3 * PAGE, 5 * PAGE);
	assert_int_equal(o.accepted, 5 * PAGE);
	/* a call for each maximal run, no more */
	const struct pagehint_run runs[] = { { 9, 1 }, { 8, 1 }, { 20, 1 }, { 7, 1 }, { 21, 1 } };
	kernel_forget(&k);
	assert_int_equal(pagehint_backend_discard(backend, runs, 5, 0, NULL, NULL, NULL), 0);
	assert_int_equal(k.n, 2);
	assert_int_equal(madvise_stats(backend).punch, 3);
	k.error[CALL_FALLOCATE] = -EPERM; /* sealed */
	o = discard(3, 5, 0, -EPERM);
	assert_int_equal(o.failed_why, PAGEHINT_WHY_SYSCALL);
	assert_int_equal(o.error, -EPERM);
	k.error[CALL_FALLOCATE] = -EOPNOTSUPP;
	o = discard(3, 5, 0, 0);
	assert_int_equal(o.kept_why, PAGEHINT_WHY_CANNOT);
	stop();
	/* locked memory is punched all the same */
	const struct claim locked = { .backing = PAGEHINT_BACKING_SHARED, .vm_flags = "lo" };
	start(&locked, 0);
	discard(3, 5, 0, 0);
	assert_call(0, CALL_FALLOCATE, PUNCH, 3 * PAGE, 5 * PAGE);
	stop();
}

static void test_shared_is_removed_where_it_must(void **state)
{
	(void)state;
	const struct claim no_fd = { .backing = PAGEHINT_BACKING_SHARED, .no_fd = 1 };
	start(&no_fd, 0);
	discard(3, 5, 0, 0);
	assert_int_equal(k.n, 1);
	assert_call(0, CALL_MADVISE, MADV_REMOVE, AT + 3 * PAGE, 5 * PAGE);
	stop();
	const struct claim uffd = { .backing = PAGEHINT_BACKING_SHARED, .vm_flags = "um" };
	start(&uffd, 0);
	discard(3, 5, 0, 0);
	assert_call(0, CALL_MADVISE, MADV_REMOVE, AT + 3 * PAGE, 5 * PAGE);
	k.error[CALL_MADVISE] = -EINVAL; /* locked meanwhile: never punched instead, the other party would not know */
	struct pagehint_outcome o = discard(3, 5, 0, -EINVAL);
	assert_int_equal(o.failed, 5 * PAGE);
	assert_int_equal(k.count[CALL_FALLOCATE], 0);
	stop();
	const struct claim own = { .backing = PAGEHINT_BACKING_SHARED,
				   .vm_flags = "um",
				   .region_flags = PAGEHINT_REGION_UFFD_OWN };
	start(&own, 0);
	discard(3, 5, 0, 0);
	assert_call(0, CALL_FALLOCATE, PUNCH, 3 * PAGE, 5 * PAGE);
	stop();
	const struct claim locked[] = { { .backing = PAGEHINT_BACKING_SHARED, .no_fd = 1, .vm_flags = "lo" },
					{ .backing = PAGEHINT_BACKING_SHARED, .vm_flags = "lo um" } };
	for (unsigned i = 0; i < 2; i++) {
		start(&locked[i], 0);
		o = discard(3, 5, 0, 0);
		assert_int_equal(k.n, 0);
		assert_int_equal(o.kept_why, i == 0 ? PAGEHINT_WHY_CANNOT : PAGEHINT_WHY_UFFD);
		stop();
	}
}

static void test_hugetlb_is_punched_whole(void **state)
{
	(void)state;
	const struct claim huge = { .backing = PAGEHINT_BACKING_HUGETLB, .vm_flags = "ht", .fd_offset = 4 * HUGE_PAGE };
	start(&huge, 0);
	struct pagehint_outcome o = discard(100, 1536, 0, 0); /* two whole pages within */
	assert_int_equal(k.n, 1);
	assert_call(0, CALL_FALLOCATE, PUNCH, 5 * HUGE_PAGE, 2 * HUGE_PAGE);
	assert_int_equal(o.accepted, 2 * HUGE_PAGE);
	assert_int_equal(o.kept, 1536 * PAGE - 2 * HUGE_PAGE);
	assert_int_equal(o.kept_why, PAGEHINT_WHY_ALIGNMENT);
	o = discard(1, 511, 0, 0);
	assert_int_equal(k.n, 0);
	assert_int_equal(o.kept, 511 * PAGE);
	stop();
}

static void test_transparent_huge_pages_go_whole(void **state)
{
	(void)state;
	const struct claim anon = { .backing = PAGEHINT_BACKING_ANON, .host_page_shift = 21 };
	start(&anon, 0);
	struct pagehint_outcome o = discard(1, 1535, 0, 0);
	assert_int_equal(k.n, 1);
	assert_call(0, CALL_MADVISE, MADV_DONTNEED, AT + HUGE_PAGE, 2 * HUGE_PAGE);
	assert_int_equal(o.kept, 511 * PAGE);
	stop();
}

static void test_devices_and_guest_memfd(void **state)
{
	(void)state;
	const struct claim device = { .backing = PAGEHINT_BACKING_DEVICE };
	start(&device, 0);
	struct pagehint_outcome o = discard(3, 5, PAGEHINT_DISCARD_ZERO | PAGEHINT_DISCARD_PROBE, 0);
	assert_int_equal(k.n, 0); /* and nothing written: AT is no memory of ours */
	assert_int_equal(o.kept_why, PAGEHINT_WHY_CANNOT);
	uint64_t bytes = 0;
	assert_int_equal(pagehint_madvise_resident(backend, &(struct pagehint_run) { 1, 1 }, &bytes), -EOPNOTSUPP);
	assert_int_equal(pagehint_backend_populate(backend, &(struct pagehint_run) { 1, 1 }, 1, NULL), 0);
	assert_int_equal(k.n, 0);
	stop();
	const struct claim guest = { .backing = PAGEHINT_BACKING_GUEST_MEMFD, .vm_flags = "um" };
	start(&guest, 0);
	o = discard(3, 5, PAGEHINT_DISCARD_PROBE, 0);
	assert_int_equal(k.n, 1);
	assert_call(0, CALL_FALLOCATE, PUNCH, 3 * PAGE, 5 * PAGE);
	assert_int_equal(o.accepted, 5 * PAGE); /* no probe can tell */
	kernel_forget(&k);
	assert_int_equal(pagehint_backend_populate(backend, &(struct pagehint_run) { 3, 5 }, 1, NULL), 0);
	assert_call(0, CALL_FALLOCATE, FALLOC_FL_KEEP_SIZE, 3 * PAGE, 5 * PAGE);
	stop();
}

static void test_anon_with_a_foreign_userfaultfd(void **state)
{
	(void)state;
	const struct claim anon = { .backing = PAGEHINT_BACKING_ANON, .vm_flags = "um" };
	start(&anon, 0);
	discard(3, 5, 0, 0);
	assert_call(0, CALL_MADVISE, MADV_DONTNEED, AT + 3 * PAGE, 5 * PAGE);
	stop();
}

static void test_pinned_and_no_region(void **state)
{
	(void)state;
	const struct claim anon = { .backing = PAGEHINT_BACKING_ANON };
	start(&anon, 0);
	assert_int_equal(pagehint_map_pin(map, region, NULL), 0);
	struct pagehint_outcome o = discard(3, 5, PAGEHINT_DISCARD_ZERO, 0);
	assert_int_equal(k.n, 0);
	assert_int_equal(o.kept_why, PAGEHINT_WHY_PINNED);
	assert_int_equal(pagehint_map_unpin(map, region), 0);
	o = discard((REGION >> 12) - 1, 2, 0, -ERANGE);
	assert_int_equal(k.n, 0);
	assert_int_equal(o.failed_why, PAGEHINT_WHY_NO_REGION);
	stop();
}

static void test_simulated_pages(void **state)
{
	(void)state;
	const struct claim anon = { .backing = PAGEHINT_BACKING_ANON, .host_page_shift = 16 };
	const struct claim shared = { .backing = PAGEHINT_BACKING_SHARED, .host_page_shift = 14 };
	start(&anon, 0);
	struct pagehint_outcome o = discard(15, 34, 0, 0); /* 16..47 are two pages of 64 KiB */
	assert_call(0, CALL_MADVISE, MADV_DONTNEED, AT + 16 * PAGE, 32 * PAGE);
	assert_int_equal(o.kept, 2 * PAGE);
	stop();
	start(&shared, 0);
	o = discard(3, 6, 0, 0); /* 4..7 is one of 16 KiB */
	assert_call(0, CALL_FALLOCATE, PUNCH, 4 * PAGE, 4 * PAGE);
	assert_int_equal(o.kept, 2 * PAGE);
	stop();
	/* frames of 64 KiB on pages of 4 KiB */
	const struct claim frames = { .backing = PAGEHINT_BACKING_ANON, .frame_shift = 16 };
	start(&frames, 0);
	discard(2, 3, 0, 0);
	assert_call(0, CALL_MADVISE, MADV_DONTNEED, AT + (2 << 16), 3 << 16);
	stop();
}

static void test_private_file_is_replaced_once(void **state)
{
	(void)state;
	const struct claim file = { .backing = PAGEHINT_BACKING_FILE_PRIVATE };
	start(&file, 0);
	struct pagehint_outcome o = discard(16, 4, 0, 0);
	assert_int_equal(k.count[CALL_MMAP], 1);
	assert_call(0, CALL_MMAP, 0, AT + 16 * PAGE, 4 * PAGE);
	assert_call(1, CALL_MADVISE, MADV_NOHUGEPAGE, AT + 16 * PAGE, 4 * PAGE);
	assert_int_equal(k.n, 2);
	assert_int_equal(o.accepted, 4 * PAGE);
	discard(16, 4, 0, 0); /* now it is anonymous */
	assert_int_equal(k.n, 1);
	assert_call(0, CALL_MADVISE, MADV_DONTNEED, AT + 16 * PAGE, 4 * PAGE);
	/* part of it: two holes apart, in the middle nothing new; what is replaced goes in one batch */
	discard(40, 2, 0, 0);
	assert_int_equal(madvise_stats(backend).mappings_used, 2);
	o = discard(14, 30, 0, 0);
	assert_int_equal(k.count[CALL_MMAP], 3);
	assert_int_equal(k.count[CALL_TOGETHER], 1);
	assert_int_equal(o.accepted, 30 * PAGE);
	assert_int_equal(madvise_stats(backend).mappings_used, 2); /* all of it touches a hole */
	stop();
}

static void test_mapping_budget(void **state)
{
	(void)state;
	const struct claim file = { .backing = PAGEHINT_BACKING_FILE_PRIVATE };
	start(&file, 2);
	discard(0, 2, 0, 0);
	discard(10, 2, 0, 0);
	struct pagehint_outcome o = discard(20, 2, 0, 0);
	assert_int_equal(k.n, 0);
	assert_int_equal(o.kept, 2 * PAGE);
	assert_int_equal(o.kept_why, PAGEHINT_WHY_BUDGET);
	o = discard(12, 8, 0, 0); /* beside a hole: free of charge */
	assert_int_equal(o.accepted, 8 * PAGE);
	o = discard(20, 2, 0, 0); /* and so on */
	assert_int_equal(o.accepted, 2 * PAGE);
	assert_int_equal(madvise_stats(backend).mappings_used, 2);
	k.error[CALL_MMAP] = -ENOMEM; /* the kernel's own limit */
	o = discard(22, 1, 0, -ENOMEM);
	assert_int_equal(o.failed_why, PAGEHINT_WHY_SYSCALL);
	k.error[CALL_MMAP] = 0;
	o = discard(22, 1, 0, 0); /* it did not count as replaced */
	assert_int_equal(k.count[CALL_MMAP], 1);
	stop();
}

static void test_private_file_that_must_not_be_remapped(void **state)
{
	(void)state;
	const struct {
		struct claim claim;
		uint32_t why;
	} cases[] = {
		{ { .backing = PAGEHINT_BACKING_FILE_PRIVATE, .vm_flags = "um" }, PAGEHINT_WHY_UFFD },
		{ { .backing = PAGEHINT_BACKING_FILE_PRIVATE, .vm_flags = "uw" }, PAGEHINT_WHY_UFFD },
		{ { .backing = PAGEHINT_BACKING_FILE_PRIVATE, .region_flags = PAGEHINT_REGION_UFFD_OWN },
		  PAGEHINT_WHY_UFFD },
		{ { .backing = PAGEHINT_BACKING_FILE_PRIVATE, .vm_flags = "lo" }, PAGEHINT_WHY_CANNOT },
	};
	for (unsigned i = 0; i < 4; i++) {
		start(&cases[i].claim, 0);
		struct pagehint_outcome o = discard(3, 5, 0, 0);
		assert_int_equal(k.n, 0);
		assert_int_equal(o.kept, 5 * PAGE);
		assert_int_equal(o.kept_why, cases[i].why);
		stop();
	}
}

static void test_options(void **state)
{
	(void)state;
	const struct claim anon = { .backing = PAGEHINT_BACKING_ANON, .frame_shift = 14, .host_page_shift = 14 };
	struct pagehint_madvise_opts bad = { .struct_size = sizeof(bad), .flags = 4 };
	struct pagehint_backend_opts opts = { .struct_size = sizeof(opts), .frame_shift = 12 };
	struct pagehint_backend *b = NULL;
	kernel_setup(&k);
	map = kernel_map(&k, &anon);
	assert_int_equal(pagehint_madvise_new(map, &bad, NULL, &b), -EINVAL);
	assert_int_equal(pagehint_madvise_new(map, NULL, &opts, &b), -EINVAL);
	assert_int_equal(pagehint_madvise_new(NULL, NULL, NULL, &b), -EINVAL);
	assert_int_equal(pagehint_madvise_new(map, NULL, NULL, NULL), -EINVAL);
	assert_null(b);
	assert_int_equal(k.open_fds, 0);
	opts.frame_shift = 14;
	assert_int_equal(pagehint_madvise_new(map, NULL, &opts, &b), 0);
	assert_int_equal(pagehint_backend_max_runs(b), 1024);
	struct pagehint_madvise_stats stats = { .struct_size = 4 };
	assert_int_equal(pagehint_madvise_stats(b, &stats), -EINVAL);
	assert_int_equal(pagehint_backend_free(b), 0);
	assert_int_equal(pagehint_map_free(map), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shared_is_punched),
		cmocka_unit_test(test_shared_is_removed_where_it_must),
		cmocka_unit_test(test_hugetlb_is_punched_whole),
		cmocka_unit_test(test_transparent_huge_pages_go_whole),
		cmocka_unit_test(test_devices_and_guest_memfd),
		cmocka_unit_test(test_anon_with_a_foreign_userfaultfd),
		cmocka_unit_test(test_pinned_and_no_region),
		cmocka_unit_test(test_simulated_pages),
		cmocka_unit_test(test_private_file_is_replaced_once),
		cmocka_unit_test(test_mapping_budget),
		cmocka_unit_test(test_private_file_that_must_not_be_remapped),
		cmocka_unit_test(test_options),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
