/* What a probe, the demand for zeroes, and populate make of it: the kernel is pretended, the memory is real where touched. */
#include "support/fake_kernel.h"

#include <fcntl.h>
#include <stdlib.h>

#define PAGE UINT64_C(4096)
#define PAGES 64u
#define EXCLUSIVE (UINT64_C(1) << 56)
#define OF_FILE (UINT64_C(1) << 61)
#define SWAPPED (UINT64_C(1) << 62)
#define PRESENT (UINT64_C(1) << 63)
#define POPULATE_WRITE 23

static struct fake_kernel k;
static struct pagehint_map *map;
static struct pagehint_backend *backend;
static unsigned char *memory;

static void start(const struct claim *claim, uint32_t budget)
{
	struct pagehint_madvise_opts opts = { .struct_size = sizeof(opts), .mapping_budget = budget };
	kernel_setup(&k);
	memory = aligned_alloc(65536, PAGES * PAGE);
	assert_non_null(memory);
	memset(memory, 7, PAGES * PAGE);
	k.pages_from = (uintptr_t)memory;
	map = kernel_map(&k, claim);
	kernel_region(&k, map, 0, (uintptr_t)memory, PAGES * PAGE, claim);
	assert_int_equal(pagehint_madvise_new(map, &opts, NULL, &backend), 0);
	kernel_forget(&k);
}

static void stop(void)
{
	assert_int_equal(pagehint_backend_free(backend), 0);
	assert_int_equal(pagehint_map_free(map), 0);
	assert_int_equal(k.open_fds, 0);
	free(memory);
}

static struct pagehint_outcome discard(uint64_t frame, uint64_t frames, uint32_t flags)
{
	const struct pagehint_run run = { frame, frames };
	struct pagehint_outcome out;
	kernel_forget(&k);
	assert_int_equal(pagehint_backend_discard(backend, &run, 1, flags, &out, NULL, NULL), 0);
	assert_whole(&out, frames * PAGE);
	return out;
}

static int holds(uint64_t page, unsigned char value)
{
	for (uint64_t i = 0; i < PAGE; i++)
		if (memory[page * PAGE + i] != value)
			return 0;
	return 1;
}

static void test_anon_probe(void **state)
{
	(void)state;
	const struct claim anon = { .backing = PAGEHINT_BACKING_ANON };
	start(&anon, 0);
	k.pages[2] = PRESENT | EXCLUSIVE;
	k.pages[3] = SWAPPED;
	k.pages[4] = PRESENT; /* the zero page, or one that a child shares: nothing would be gained */
	struct pagehint_outcome o = discard(0, 8, PAGEHINT_DISCARD_PROBE);
	assert_int_equal(o.freed, 2 * PAGE);
	assert_int_equal(o.absent, 6 * PAGE);
	assert_string_equal(k.path, "/proc/self/pagemap");
	assert_int_equal(k.calls[1].call, CALL_PREAD);
	assert_int_equal(k.calls[2].call, CALL_MADVISE); /* the probe comes first */
	discard(0, 8, PAGEHINT_DISCARD_PROBE);
	assert_int_equal(k.count[CALL_OPEN], 0); /* opened once */
	assert_int_equal(madvise_stats(backend).probe, 2);
	o = discard(0, 8, 0);
	assert_int_equal(o.accepted, 8 * PAGE);
	assert_int_equal(k.count[CALL_PREAD], 0);
	k.error[CALL_PREAD] = -EIO; /* a probe that fails costs the distinction, not the discard */
	o = discard(0, 8, PAGEHINT_DISCARD_PROBE);
	assert_int_equal(o.accepted, 8 * PAGE);
	stop();
}

static void test_shared_probe_counts_memory_and_swap(void **state)
{
	(void)state;
	const struct claim shared = { .backing = PAGEHINT_BACKING_SHARED, .fd_offset = 0x10000 };
	start(&shared, 0);
	k.extent[0].from = 0;
	k.extent[0].to = 0x10000 + 3 * PAGE;
	k.extent[1].from = 0x10000 + 5 * PAGE;
	k.extent[1].to = 0x10000 + 50 * PAGE;
	k.in_core_from =
		(uintptr_t)memory + 2 * PAGE; /* pages 2 and 3 are in memory, 1 and 5, 6, 7 on swap, 4 nowhere */
	k.in_core_to = (uintptr_t)memory + 4 * PAGE;
	struct pagehint_outcome o = discard(1, 7, PAGEHINT_DISCARD_PROBE);
	assert_int_equal(o.freed, 6 * PAGE);
	assert_int_equal(o.absent, 1 * PAGE);
	assert_int_equal(k.calls[0].call, CALL_MINCORE);
	assert_int_equal(k.calls[1].call, CALL_OPEN); /* anew: the embedder's descriptor keeps its position */
	assert_int_equal(k.calls[k.n - 1].call, CALL_FALLOCATE);
	uint64_t bytes = 0;
	assert_int_equal(pagehint_madvise_resident(backend, &(struct pagehint_run) { 48, 8 }, &bytes), 0);
	assert_int_equal(bytes, 2 * PAGE);
	assert_int_equal(pagehint_madvise_resident(backend, &(struct pagehint_run) { 60, 4 }, &bytes), 0);
	assert_int_equal(bytes, 0); /* nothing but a hole up to the end */
	k.error[CALL_LSEEK] = -EIO;
	o = discard(1, 7, PAGEHINT_DISCARD_PROBE);
	assert_int_equal(o.accepted, 7 * PAGE);
	assert_int_equal(pagehint_madvise_resident(backend, &(struct pagehint_run) { 48, 8 }, &bytes), -EIO);
	k.error[CALL_OPEN] = -EACCES;
	o = discard(1, 7, PAGEHINT_DISCARD_PROBE);
	assert_int_equal(o.accepted, 7 * PAGE);
	k.error[CALL_MINCORE] = -ENOMEM;
	o = discard(1, 7, PAGEHINT_DISCARD_PROBE);
	assert_int_equal(o.accepted, 7 * PAGE);
	k.error[CALL_MINCORE] = 0;
	k.in_core_from = (uintptr_t)memory; /* all in memory: one question, no file opened */
	k.in_core_to = (uintptr_t)memory + 64 * PAGE;
	kernel_forget(&k);
	o = discard(1, 7, PAGEHINT_DISCARD_PROBE);
	assert_int_equal(o.freed, 7 * PAGE);
	assert_int_equal(k.count[CALL_MINCORE], 1);
	assert_int_equal(k.count[CALL_OPEN] + k.count[CALL_LSEEK], 0);
	stop();
}

static void test_resident_refuses(void **state)
{
	(void)state;
	const struct claim anon = { .backing = PAGEHINT_BACKING_ANON };
	uint64_t bytes = 99;
	start(&anon, 0);
	k.pages[0] = k.pages[1] = PRESENT | EXCLUSIVE;
	assert_int_equal(pagehint_madvise_resident(backend, &(struct pagehint_run) { 1, 3 }, &bytes), 0);
	assert_int_equal(bytes, PAGE);
	bytes = 99;
	assert_int_equal(pagehint_madvise_resident(backend, &(struct pagehint_run) { PAGES - 1, 2 }, &bytes), -ERANGE);
	assert_int_equal(pagehint_madvise_resident(backend, &(struct pagehint_run) { 1, 0 }, &bytes), -EINVAL);
	assert_int_equal(pagehint_madvise_resident(backend, NULL, &bytes), -EINVAL);
	k.pid = 3;
	assert_int_equal(pagehint_madvise_resident(backend, &(struct pagehint_run) { 1, 1 }, &bytes), -ENODEV);
	k.pid = 100;
	assert_int_equal(bytes, 99);
	stop();
}

/* Pages 0..3 and 8..9 written, 4..5 clean in the page cache, 6..7 not there. */
static void make_file_pages(void)
{
	for (unsigned i = 0; i < 10; i++)
		k.pages[i] = i < 4 || i > 7 ? PRESENT | EXCLUSIVE : i < 6 ? PRESENT | OF_FILE : 0;
}

static void test_file_probe_leaves_clean_pages(void **state)
{
	(void)state;
	const struct claim file = { .backing = PAGEHINT_BACKING_FILE_PRIVATE };
	start(&file, 0);
	make_file_pages();
	struct pagehint_outcome o = discard(0, 10, PAGEHINT_DISCARD_PROBE);
	assert_int_equal(o.freed, 6 * PAGE);
	assert_int_equal(o.kept, 2 * PAGE);
	assert_int_equal(o.kept_why, PAGEHINT_WHY_PAGE_CACHE);
	assert_int_equal(o.absent, 2 * PAGE);
	assert_int_equal(k.count[CALL_MMAP], 2);
	assert_int_equal(k.count[CALL_PREAD], 1);
	assert_int_equal(madvise_stats(backend).mappings_used, 2);
	/* zeroes demanded: what is left of it is replaced, too, and costs no hole more */
	o = discard(4, 4, PAGEHINT_DISCARD_PROBE | PAGEHINT_DISCARD_ZERO);
	assert_int_equal(k.count[CALL_MMAP], 1);
	assert_int_equal(o.kept, 2 * PAGE);
	assert_int_equal(o.absent, 2 * PAGE);
	assert_int_equal(madvise_stats(backend).mappings_used, 2);
	stop();
}

static void test_file_probe_that_fails_half_way(void **state)
{
	(void)state;
	const struct claim file = { .backing = PAGEHINT_BACKING_FILE_PRIVATE };
	start(&file, 0);
	k.error[CALL_PREAD] = -EIO;
	struct pagehint_outcome o = discard(0, 10, PAGEHINT_DISCARD_PROBE);
	assert_int_equal(o.accepted, 10 * PAGE);
	assert_int_equal(k.count[CALL_MMAP], 1);
	stop();
}

static void test_file_zeroed_when_the_budget_is_spent(void **state)
{
	(void)state;
	const struct claim file = { .backing = PAGEHINT_BACKING_FILE_PRIVATE };
	start(&file, 1);
	make_file_pages();
	discard(60, 1, 0); /* there goes the budget */
	struct pagehint_outcome o = discard(2, 7, PAGEHINT_DISCARD_ZERO);
	assert_int_equal(k.count[CALL_MMAP], 0);
	assert_int_equal(o.kept, 7 * PAGE);
	assert_int_equal(o.kept_why, PAGEHINT_WHY_PAGE_CACHE); /* four of seven */
	for (uint64_t i = 0; i < 12; i++)
		assert_true(holds(i, i == 2 || i == 3 || i == 8 ? 0 : 7));
	struct pagehint_backend_stats stats = { .struct_size = sizeof(stats) };
	assert_int_equal(pagehint_backend_stats(backend, &stats), 0);
	assert_int_equal(stats.kept, 7 * PAGE);
	o = discard(8, 1, PAGEHINT_DISCARD_ZERO);
	assert_int_equal(o.kept_why, PAGEHINT_WHY_ZEROED);
	o = discard(2, 2, 0); /* without the demand nothing is written */
	assert_int_equal(o.kept_why, PAGEHINT_WHY_BUDGET);
	stop();
}

static void test_zeroing_a_remainder(void **state)
{
	(void)state;
	const struct claim anon = { .backing = PAGEHINT_BACKING_ANON, .host_page_shift = 14 };
	start(&anon, 0);
	for (unsigned i = 0; i < 16; i++)
		k.pages[i] = i == 9 ? 0 : PRESENT | EXCLUSIVE;
	struct pagehint_outcome o = discard(3, 8, PAGEHINT_DISCARD_ZERO); /* 4..7 whole; 3 and 8, 9, 10 remain */
	assert_int_equal(o.accepted, 4 * PAGE);
	assert_int_equal(o.kept, 3 * PAGE);
	assert_int_equal(o.kept_why, PAGEHINT_WHY_ZEROED);
	assert_int_equal(o.absent, PAGE); /* page 9 is not there: it reads as zero, and stays away */
	assert_true(holds(2, 7) && holds(3, 0) && holds(8, 0) && holds(9, 7) && holds(10, 0) && holds(11, 7));
	stop();
	const struct claim shared = { .backing = PAGEHINT_BACKING_SHARED, .host_page_shift = 14 };
	start(&shared, 0);
	k.extent[0].to = PAGES * PAGE;
	o = discard(3, 5, PAGEHINT_DISCARD_ZERO);
	assert_int_equal(o.kept_why, PAGEHINT_WHY_ZEROED);
	assert_true(holds(2, 7) && holds(3, 0) && holds(4, 7)); /* page 4 is the kernel's to punch */
	stop();
}

static void populate(uint64_t frame, uint64_t frames, int expected)
{
	uint32_t done = 9;
	kernel_forget(&k);
	assert_int_equal(pagehint_backend_populate(backend, &(struct pagehint_run) { frame, frames }, 1, &done),
			 expected);
	assert_int_equal(done, expected == 0);
}

static void test_populate(void **state)
{
	(void)state;
	const struct claim anon = { .backing = PAGEHINT_BACKING_ANON, .host_page_shift = 14 };
	start(&anon, 0);
	populate(5, 4, 0); /* rounded outward: two pages of 16 KiB */
	assert_int_equal(k.n, 1);
	assert_int_equal(k.calls[0].how, POPULATE_WRITE);
	assert_int_equal(k.calls[0].addr, (uintptr_t)memory + 4 * PAGE);
	assert_int_equal(k.calls[0].length, 8 * PAGE);
	k.error[CALL_MADVISE] = -ENOMEM;
	populate(5, 4, -ENOMEM);
	assert_true(holds(5, 7));
	k.error[CALL_MADVISE] = -EINVAL; /* an old kernel: pages are touched, content survives */
	populate(0, PAGES, 0);
	for (uint64_t i = 0; i < PAGES; i++)
		assert_true(holds(i, 7));
	assert_int_equal(madvise_stats(backend).populate, 3);
	populate(PAGES - 1, 2, -ERANGE);
	stop();
}

/* Touching makes pages present: asked of the real kernel, through mincore of fresh memory. */
static void test_populate_by_touch_is_real(void **state)
{
	(void)state;
	const struct claim anon = { .backing = PAGEHINT_BACKING_ANON };
	unsigned char in_core[PAGES];
	start(&anon, 0);
	assert_int_equal(madvise(memory, PAGES * PAGE, MADV_DONTNEED), 0);
	k.error[CALL_MADVISE] = -EINVAL;
	populate(4, 8, 0);
	assert_int_equal(mincore(memory, PAGES * PAGE, in_core), 0);
	for (unsigned i = 0; i < PAGES; i++)
		if (i >= 4 && i < 12)
			assert_int_equal(in_core[i] & 1, 1);
	stop();
}

static void test_populate_of_shared_on_old_kernels(void **state)
{
	(void)state;
	const struct claim shared = { .backing = PAGEHINT_BACKING_SHARED, .fd_offset = 0x10000 };
	start(&shared, 0);
	k.error[CALL_MADVISE] = -EINVAL;
	populate(5, 4, 0);
	assert_int_equal(k.n, 2);
	assert_int_equal(k.calls[1].call, CALL_FALLOCATE);
	assert_int_equal(k.calls[1].how, FALLOC_FL_KEEP_SIZE);
	assert_int_equal(k.calls[1].addr, 0x10000 + 5 * PAGE);
	assert_int_equal(k.calls[1].length, 4 * PAGE);
	k.error[CALL_FALLOCATE] = -ENOSPC;
	populate(5, 4, -ENOSPC);
	stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_anon_probe),
		cmocka_unit_test(test_shared_probe_counts_memory_and_swap),
		cmocka_unit_test(test_resident_refuses),
		cmocka_unit_test(test_file_probe_leaves_clean_pages),
		cmocka_unit_test(test_file_probe_that_fails_half_way),
		cmocka_unit_test(test_file_zeroed_when_the_budget_is_spent),
		cmocka_unit_test(test_zeroing_a_remainder),
		cmocka_unit_test(test_populate),
		cmocka_unit_test(test_populate_by_touch_is_real),
		cmocka_unit_test(test_populate_of_shared_on_old_kernels),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
