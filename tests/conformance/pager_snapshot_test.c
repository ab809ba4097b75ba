/*
 * What a snapshot needs to know, and what a vCPU's thread asks: classes of pages, writes, records, exits, huge pages, rates.
 */
#include <fcntl.h>

#include "support/naive.h"
#include "support/snapshot.h"

/* A sparse file: pages 16..31 and 48 have data. */
static int sparse_file(void)
{
	int fd = memfd_create("sparse", MFD_CLOEXEC);
	assert_int_equal(ftruncate(fd, (off_t)BYTES), 0);
	assert_int_equal(pwrite(fd, snapshot + 16 * PAGE, 16 * PAGE, 16 * PAGE), 16 * PAGE);
	assert_int_equal(pwrite(fd, snapshot + 48 * PAGE, PAGE, 48 * PAGE), PAGE);
	return fd;
}

static struct pagehint_source *open_sparse(struct served *s, int file, struct pagehint_pager_opts *opts, uint32_t flags)
{
	struct pagehint_source *source;
	assert_int_equal(pagehint_source_file_new(file, 0, BYTES, &source), 0);
	served_memory(s, BYTES, PAGEHINT_BACKING_ANON);
	served_pager(s, opts);
	struct pagehint_pager_region r = served_region(s, source, flags);
	assert_int_equal(pagehint_pager_add(s->pager, &r), 0);
	return source;
}

static void expect(struct served *s, const struct pagehint_page_run *wanted, uint32_t n)
{
	struct pagehint_page_run runs[32];
	uint32_t got = 0;
	assert_int_equal(pagehint_pager_export(s->pager, 0, runs, 32, &got), 0);
	assert_int_equal(got, n);
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(runs[i].frame, wanted[i].frame);
		assert_int_equal(runs[i].frames, wanted[i].frames);
		assert_int_equal(runs[i].what, wanted[i].what);
	}
	/* one at a time gives the same */
	uint64_t frame = 0;
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(pagehint_pager_export(s->pager, frame, runs, 1, &got), 0);
		assert_int_equal(got, 1);
		assert_int_equal(runs[0].frame, wanted[i].frame);
		frame = runs[0].frame + runs[0].frames;
	}
	assert_int_equal(pagehint_pager_export(s->pager, PAGES, runs, 1, &got), 0);
	assert_int_equal(got, 0);
}

static void test_zero_is_known(void **state)
{
	(void)state;
	struct served s;
	int file = sparse_file();
	uint64_t deadline = 0;
	struct pagehint_source *source = open_sparse(&s, file, NULL, 0);
	const struct pagehint_page_run fresh[] = { { 0, 16, PAGEHINT_PAGE_ZERO, 0 },
						   { 16, 16, PAGEHINT_PAGE_ABSENT, 0 },
						   { 32, 16, PAGEHINT_PAGE_ZERO, 0 },
						   { 48, 1, PAGEHINT_PAGE_ABSENT, 0 },
						   { 49, 15, PAGEHINT_PAGE_ZERO, 0 } };
	expect(&s, fresh, 5);
	while (deadline != UINT64_MAX)
		assert_int_equal(pagehint_pager_fill(s.pager, UINT32_MAX, 1, 0, NULL, &deadline), 0);
	const struct pagehint_page_run filled[] = { { 0, 16, PAGEHINT_PAGE_ZERO, 0 },
						    { 16, 16, PAGEHINT_PAGE_PRESENT, 0 },
						    { 32, 16, PAGEHINT_PAGE_ZERO, 0 },
						    { 48, 1, PAGEHINT_PAGE_PRESENT, 0 },
						    { 49, 15, PAGEHINT_PAGE_ZERO, 0 } };
	expect(&s, filled, 5);
	for (uint64_t i = 0; i < PAGES; i++) /* zeros were left where they are */
		assert_int_equal(in_core(s.memory, i), (i >= 16 && i < 32) || i == 48);
	served_start(&s);
	for (uint64_t i = 0; i < PAGES; i++)
		assert_true(page_is(s.memory, i, (i >= 16 && i < 32) || i == 48 ? snapshot_word(i) : 0));
	served_stop(&s);
	close_all(&s, source);
	close(file);
}

/* Reading makes nothing dirty, not even what was removed; writing does, once; cleaning begins anew. */
static void test_written(void **state)
{
	(void)state;
	struct served s;
	int file = sparse_file();
	struct pagehint_pager_opts opts = { .around_min = 16, .around_max = 16 };
	struct pagehint_source *source = open_sparse(&s, file, &opts, PAGEHINT_PAGER_TRACK);
	served_start(&s);
	assert_true(page_is(s.memory, 16, snapshot_word(16)));
	s.memory[20 * PAGE] = 1;
	s.memory[20 * PAGE + 1] = 1;
	s.memory[21 * PAGE] = 1;
	s.memory[0] = 1; /* was absent: written at once */
	served_stop(&s);
	const struct pagehint_page_run dirty[] = {
		{ 0, 1, PAGEHINT_PAGE_DIRTY, 0 },     { 1, 15, PAGEHINT_PAGE_ZERO, 0 },
		{ 16, 4, PAGEHINT_PAGE_PRESENT, 0 },  { 20, 2, PAGEHINT_PAGE_DIRTY, 0 },
		{ 22, 10, PAGEHINT_PAGE_PRESENT, 0 }, { 32, 16, PAGEHINT_PAGE_ZERO, 0 },
		{ 48, 1, PAGEHINT_PAGE_ABSENT, 0 },   { 49, 15, PAGEHINT_PAGE_ZERO, 0 },
	};
	expect(&s, dirty, 8);
	assert_int_equal(served_stats(&s).dirtied, 3);
	assert_int_equal(pagehint_pager_clean(s.pager, 0, PAGES), 0);
	served_start(&s);
	(void)page_is(s.memory, 20, 0);
	s.memory[21 * PAGE] = 2;
	served_stop(&s);
	const struct pagehint_page_run again[] = {
		{ 0, 1, PAGEHINT_PAGE_PRESENT, 0 },   { 1, 15, PAGEHINT_PAGE_ZERO, 0 },
		{ 16, 5, PAGEHINT_PAGE_PRESENT, 0 },  { 21, 1, PAGEHINT_PAGE_DIRTY, 0 },
		{ 22, 10, PAGEHINT_PAGE_PRESENT, 0 }, { 32, 16, PAGEHINT_PAGE_ZERO, 0 },
		{ 48, 1, PAGEHINT_PAGE_ABSENT, 0 },   { 49, 15, PAGEHINT_PAGE_ZERO, 0 },
	};
	expect(&s, again, 8);
	assert_int_equal(s.memory[20 * PAGE], 1);
	close_all(&s, source);
	close(file);
}

/* The order of faults of one restore is what the next one brings first, and all that it brings around. */
static void test_record(void **state)
{
	(void)state;
	struct served s;
	unsigned char blob[512], bad[512];
	uint64_t bytes = 0, small = 0, deadline, brought;
	int file = memfd_create("whole", MFD_CLOEXEC);
	assert_int_equal(pwrite(file, snapshot, BYTES, 0), BYTES);
	struct pagehint_pager_opts opts = { .flags = PAGEHINT_PAGER_RECORD, .around_min = 1, .around_max = 1 };
	struct pagehint_source *source = open_sparse(&s, file, &opts, 0);
	assert_int_equal(pagehint_pager_resolve(s.pager, s.memory + 40 * PAGE), 0);
	assert_int_equal(pagehint_pager_resolve(s.pager, s.memory + 3 * PAGE), 0);
	assert_int_equal(pagehint_pager_resolve(s.pager, s.memory + 41 * PAGE), 0);
	assert_int_equal(pagehint_pager_record(s.pager, NULL, 0, &small), 0);
	assert_int_equal(pagehint_pager_record(s.pager, blob, sizeof(blob), &bytes), 0);
	assert_int_equal(bytes, small);
	assert_int_equal(bytes, (3 + 3 + 1) * 8);
	close_all(&s, source);

	struct pagehint_pager_opts next = { .around_min = 16, .around_max = 16 };
	source = open_sparse(&s, file, &next, 0);
	assert_int_equal(pagehint_pager_record(s.pager, NULL, 0, &small), -EOPNOTSUPP);
	for (uint64_t i = 0; i < bytes; i++) { /* any byte that is wrong, and any length, is noticed */
		memcpy(bad, blob, bytes);
		bad[i] ^= 0x40;
		assert_int_equal(pagehint_pager_prefetch(s.pager, bad, bytes), -EINVAL);
		assert_int_equal(pagehint_pager_prefetch(s.pager, blob, i), -EINVAL);
	}
	assert_int_equal(pagehint_pager_prefetch(s.pager, blob, bytes), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(pagehint_pager_fill(s.pager, UINT32_MAX, 1, PAGE, &brought, &deadline), 0);
		assert_int_equal(brought, PAGE);
		assert_int_equal(in_core(s.memory, 40), 1);
		assert_int_equal(in_core(s.memory, 3), i >= 1);
		assert_int_equal(in_core(s.memory, 41), i >= 2);
	}
	/* around a fault comes what is among them, here nothing */
	assert_int_equal(pagehint_pager_resolve(s.pager, s.memory + 20 * PAGE), 0);
	assert_int_equal(in_core(s.memory, 21), 0);
	close_all(&s, source);
	close(file);
}

static void test_exits(void **state)
{
	(void)state;
	struct served s;
	uint32_t action = 9;
	int file = memfd_create("whole", MFD_CLOEXEC), calls = 0, r;
	assert_int_equal(pwrite(file, snapshot, BYTES, 0), BYTES);
	struct pagehint_pager_opts opts = { .around_min = 1, .around_max = 1 };
	struct pagehint_source *source = open_sparse(&s, file, &opts, 0);
	assert_int_equal(pagehint_pager_exit(s.pager, PAGEHINT_EXIT_MEMORY_FAULT, 5 * PAGE - 4, 8, &action), 0);
	assert_int_equal(action, PAGEHINT_RETRY);
	assert_true(page_is(s.memory, 4, snapshot_word(4)) && page_is(s.memory, 5, snapshot_word(5)));
	assert_int_equal(in_core(s.memory, 6), 0);
	assert_int_equal(pagehint_pager_exit(s.pager, PAGEHINT_EXIT_MMIO, 9 * PAGE, 4, &action), 0);
	assert_int_equal(action, PAGEHINT_ACCESS);
	assert_int_equal(in_core(s.memory, 9), 1);
	assert_int_equal(pagehint_pager_exit(s.pager, PAGEHINT_EXIT_MEMORY_FAULT, BYTES, 4, &action), -ERANGE);
	assert_int_equal(pagehint_pager_exit(s.pager, PAGEHINT_EXIT_MEMORY_FAULT, BYTES - 2, 4, &action), -ERANGE);
	assert_int_equal(pagehint_pager_exit(s.pager, PAGEHINT_EXIT_MEMORY_FAULT, UINT64_MAX, 4, &action), -ERANGE);
	assert_int_equal(pagehint_pager_exit(s.pager, 3, 0, 0, &action), -EINVAL);
	/* without an address: it comes to an end, and then it was something else */
	while ((r = pagehint_pager_exit(s.pager, PAGEHINT_EXIT_EFAULT, 0, 0, &action)) == 0)
		assert_true(++calls < 100);
	assert_int_equal(r, -EFAULT);
	for (uint64_t i = 0; i < PAGES; i++)
		assert_true(in_core(s.memory, i) && page_is(s.memory, i, snapshot_word(i)));
	close_all(&s, source);
	close(file);
}

static void test_rate(void **state)
{
	(void)state;
	struct served s;
	uint64_t brought, deadline;
	int file = memfd_create("whole", MFD_CLOEXEC);
	assert_int_equal(pwrite(file, snapshot, BYTES, 0), BYTES);
	struct pagehint_pager_opts opts = { .fill_rate = 16 * PAGE }; /* a second */
	struct pagehint_source *source = open_sparse(&s, file, &opts, 0);
	assert_int_equal(pagehint_pager_fill(s.pager, UINT32_MAX, 1000, 8 * PAGE, &brought, &deadline), 0);
	assert_int_equal(brought, 8 * PAGE);
	assert_int_equal(deadline, 1000 + 500000000);
	assert_int_equal(pagehint_pager_fill(s.pager, UINT32_MAX, deadline - 1, 0, &brought, &deadline), 0);
	assert_int_equal(brought, 0);
	assert_int_equal(pagehint_pager_fill(s.pager, UINT32_MAX, deadline, 8 * PAGE, &brought, &deadline), 0);
	assert_int_equal(brought, 8 * PAGE);
	close_all(&s, source);
	close(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_zero_is_known), cmocka_unit_test(test_written), cmocka_unit_test(test_record),
		cmocka_unit_test(test_exits),         cmocka_unit_test(test_rate),
	};
	if (!may_serve())
		return 77;
	return cmocka_run_group_tests(tests, snapshot_setup, NULL);
}
