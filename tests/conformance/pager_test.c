/*
 * Demand paging on real memory: each kind of region from each kind of source, by messages, by the thread itself, in the
 * background; what was discarded stays away; what was written is known; figures add up.
 */
#include <fcntl.h>
#include <signal.h>

#include "support/served.h"

#include <pagehint/backend.h>
#include <pagehint/host.h>

#define MIB ((uint64_t)1 << 20)
#define PAGES 1024u
#define BYTES (PAGES * PAGE)

static void *snapshot; /* BYTES of it, and a file with the same */
static int snapshot_fd = -1;

static int group_setup(void **state)
{
	(void)state;
	snapshot_fd = memfd_create("snapshot", MFD_CLOEXEC);
	if (snapshot_fd < 0 || ftruncate(snapshot_fd, (off_t)BYTES) < 0)
		return -1;
	snapshot = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, snapshot_fd, 0);
	snapshot_write(snapshot, PAGES);
	return 0;
}

static struct pagehint_source *memory_source(void)
{
	struct pagehint_source *source;
	assert_int_equal(pagehint_source_memory_new(snapshot, BYTES, &source), 0);
	return source;
}

static struct pagehint_source *file_source(void)
{
	struct pagehint_source *source;
	assert_int_equal(pagehint_source_file_new(snapshot_fd, 0, BYTES, &source), 0);
	return source;
}

static void all_pages_come(uint32_t backing, struct pagehint_source *source, uint32_t shards, uint32_t around)
{
	struct served s;
	struct pagehint_pager_opts opts = { .shards = shards, .around_min = around, .around_max = around };
	served_memory(&s, BYTES, backing);
	served_pager(&s, &opts);
	struct pagehint_pager_region r = served_region(&s, source, 0);
	assert_int_equal(pagehint_pager_add(s.pager, &r), 0);
	served_start(&s);
	for (uint64_t i = 0; i < PAGES; i++)
		assert_true(page_is(s.memory, i, snapshot_word(i)));
	served_stop(&s);
	assert_int_equal(atomic_load(&s.step_error), 0);
	struct pagehint_pager_stats stats = served_stats(&s);
	assert_int_equal(stats.installed, PAGES);
	assert_int_equal(stats.zeroed, 0);
	assert_int_equal(stats.surprises, 0);
	assert_in_range(stats.faults, PAGES / around, PAGES / around * 2);
	/* nothing is absent any more: it can go */
	assert_int_equal(pagehint_pager_free(s.pager), 0);
	for (uint64_t i = 0; i < PAGES; i++)
		assert_true(page_is(s.memory, i, snapshot_word(i)));
	munmap(s.memory, s.bytes);
	if (s.fd >= 0)
		close(s.fd);
	pagehint_source_free(source);
}

static void test_kinds(void **state)
{
	(void)state;
	for (uint32_t around = 1; around <= 16; around *= 16)
		for (uint32_t shards = 1; shards <= 2; shards++) {
			all_pages_come(PAGEHINT_BACKING_ANON, memory_source(), shards, around);
			all_pages_come(PAGEHINT_BACKING_ANON, file_source(), shards, around);
			all_pages_come(PAGEHINT_BACKING_SHARED, memory_source(), shards, around);
			all_pages_come(PAGEHINT_BACKING_SHARED, file_source(), shards, around);
		}
}

/* What is in the file is right as it is, and is only mapped. */
static void test_minor(void **state)
{
	(void)state;
	struct served s;
	served_memory(&s, BYTES, PAGEHINT_BACKING_SHARED);
	void *alias = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, s.fd, 0);
	snapshot_write(alias, PAGES);
	served_pager(&s, NULL);
	struct pagehint_pager_region r = served_region(&s, NULL, PAGEHINT_PAGER_MINOR);
	assert_int_equal(pagehint_pager_add(s.pager, &r), 0);
	served_start(&s);
	for (uint64_t i = 0; i < PAGES; i++)
		assert_true(page_is(s.memory, PAGES - 1 - i, snapshot_word(PAGES - 1 - i)));
	served_stop(&s);
	assert_int_equal(served_stats(&s).installed, PAGES);
	munmap(alias, BYTES);
	served_close(&s);
}

/* Windows grow where faults follow each other, and stay small where they do not. */
static void test_window(void **state)
{
	(void)state;
	struct served s;
	struct pagehint_source *source = memory_source();
	served_memory(&s, BYTES, PAGEHINT_BACKING_ANON);
	served_pager(&s, NULL);
	struct pagehint_pager_region r = served_region(&s, source, 0);
	assert_int_equal(pagehint_pager_add(s.pager, &r), 0);
	served_start(&s);
	for (uint64_t i = 0; i < PAGES / 2; i++)
		assert_true(page_is(s.memory, i, snapshot_word(i)));
	served_stop(&s);                                /* figures are complete when their thread is gone */
	assert_in_range(served_stats(&s).faults, 4, 8); /* 16, 16 (aligned to 32), 64 .. */
	struct pagehint_pager_stats before = served_stats(&s);
	served_start(&s);
	assert_true(page_is(s.memory, 900, snapshot_word(900)));
	served_stop(&s);
	assert_int_equal(served_stats(&s).installed - before.installed, 16);
	served_close(&s);
	pagehint_source_free(source);
}

static void test_fill_and_free(void **state)
{
	(void)state;
	struct served s;
	struct pagehint_source *source = file_source();
	uint64_t bytes, deadline = 0;
	served_memory(&s, BYTES, PAGEHINT_BACKING_ANON);
	served_pager(&s, NULL);
	struct pagehint_pager_region r = served_region(&s, source, 0);
	assert_int_equal(pagehint_pager_add(s.pager, &r), 0);
	assert_int_equal(pagehint_pager_free(s.pager), -EBUSY); /* or what is absent would be zero */
	for (uint64_t sum = 0; sum < BYTES; sum += bytes)
		assert_int_equal(pagehint_pager_fill(s.pager, UINT32_MAX, 1, 0, &bytes, &deadline), 0);
	assert_int_equal(pagehint_pager_fill(s.pager, UINT32_MAX, 1, 0, &bytes, &deadline), 0);
	assert_int_equal(bytes, 0);
	assert_int_equal(deadline, UINT64_MAX);
	assert_int_equal(served_stats(&s).filled, PAGES);
	for (uint64_t i = 0; i < PAGES; i++)
		assert_true(page_is(s.memory, i, snapshot_word(i)));
	assert_int_equal(pagehint_pager_free(s.pager), 0);
	munmap(s.memory, s.bytes);
	pagehint_source_free(source);
}

/* The thread of a shard brings its own pages in the background, and leaves the others'. */
static void test_fill_by_shard(void **state)
{
	(void)state;
	struct served s;
	struct pagehint_pager_opts opts = { .shards = 2, .stripe_bytes = 2 * MIB };
	struct pagehint_source *source = memory_source();
	uint64_t deadline;
	served_memory(&s, BYTES, PAGEHINT_BACKING_ANON);
	served_pager(&s, &opts);
	struct pagehint_pager_region r = served_region(&s, source, 0);
	assert_int_equal(pagehint_pager_add(s.pager, &r), 0);
	for (uint32_t i = 0; i < 2; i++) {
		uint32_t shard = 1 - i;
		for (deadline = 0; deadline != UINT64_MAX;)
			assert_int_equal(pagehint_pager_fill(s.pager, shard, 1, 0, NULL, &deadline), 0);
		assert_int_equal(served_stats(&s).filled, (i + 1) * PAGES / 2);
		for (uint64_t k = 0; k < PAGES / 2; k++)
			assert_true(page_is(s.memory, shard * (PAGES / 2) + k, snapshot_word(shard * (PAGES / 2) + k)));
	}
	served_close(&s);
	pagehint_source_free(source);
}

/* Memory that was not restored reads as zero, and a fill finds that out without a byte of it becoming the host's. */
static void test_nothing_but_zeros(void **state)
{
	(void)state;
	struct served s;
	struct pagehint_source *source;
	assert_int_equal(pagehint_source_zero_new(NULL), -EINVAL);
	assert_int_equal(pagehint_source_zero_new(&source), 0);
	served_memory(&s, BYTES, PAGEHINT_BACKING_ANON);
	served_pager(&s, NULL);
	struct pagehint_pager_region r = served_region(&s, source, 0);
	assert_int_equal(pagehint_pager_add(s.pager, &r), 0);
	assert_int_equal(pagehint_pager_ensure(s.pager, 0, 8, NULL), 0);
	served_start(&s);
	for (uint64_t i = 0; i < 64; i++)
		assert_true(page_is(s.memory, i, 0));
	served_stop(&s);
	assert_int_equal(served_stats(&s).installed, 0);
	assert_true(served_stats(&s).zeroed >= 64);
	served_close(&s);
	pagehint_source_free(source);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),         cmocka_unit_test(test_minor),
		cmocka_unit_test(test_window),        cmocka_unit_test(test_fill_and_free),
		cmocka_unit_test(test_fill_by_shard), cmocka_unit_test(test_nothing_but_zeros),
	};
	if (!may_serve())
		return 77;
	return cmocka_run_group_tests(tests, group_setup, NULL);
}
