/* A pager on hosts of pages of 4, 16 and 64 KiB: each request is of whole pages, and each page gets what the source has for it. */
#include "support/snapshot.h"

#include "memory/map.h"
#include "support/host_pages.h"

static void serve_pages(uint64_t page, uint32_t backing, uint32_t flags)
{
	struct served s;
	struct host_pages host;
	struct pagehint_map *map;
	struct pagehint_source *source;
	struct pagehint_region_desc desc = { .struct_size = sizeof(desc),
					     .frames = PAGES,
					     .flags = PAGEHINT_REGION_UFFD_OWN };
	uint64_t id;
	host_pages_setup(&host, page);
	served_memory(&s, BYTES, backing);
	desc.host_addr = (uintptr_t)s.memory;
	desc.fd = s.fd;
	assert_int_equal(ph_map_new_with(NULL, &host.sys, &map), 0);
	assert_int_equal(pagehint_map_add(map, &desc, &id), 0);
	assert_int_equal(pagehint_source_memory_new(snapshot, BYTES, &source), 0);
	struct pagehint_pager_opts opts = { .map = map, .around_min = 1, .around_max = 1 };
	served_pager(&s, &opts);
	struct pagehint_pager_region r = {
		.struct_size = sizeof(r), .frames = PAGES, .source = source, .flags = flags
	};
	/* a region that ends, or begins, inside a page */
	for (uint64_t at = 1; at < page / PAGE; at++) {
		r.frames = PAGES - at;
		assert_int_equal(pagehint_pager_add(s.pager, &r), -EINVAL);
		r.frame = at;
		assert_int_equal(pagehint_pager_add(s.pager, &r), -EINVAL);
		r.frame = 0;
	}
	r.frames = PAGES;
	assert_int_equal(pagehint_pager_add(s.pager, &r), 0);
	served_start(&s);
	for (uint64_t i = 0; i < 4 * page / PAGE; i += 3) /* faults, at any place in a page */
		assert_int_equal(*(volatile uint64_t *)(void *)(s.memory + i * PAGE + 8 * i), snapshot_word(i));
	assert_int_equal(pagehint_pager_ensure(s.pager, PAGES / 2 + 1, 1, NULL), 0);
	assert_int_equal(pagehint_pager_ensure(s.pager, PAGES - 3, 3, NULL), 0);
	for (uint64_t i = 0; i < PAGES; i++)
		assert_int_equal(*(volatile uint64_t *)(void *)(s.memory + i * PAGE), snapshot_word(i));
	served_stop(&s);
	assert_int_equal(atomic_load(&s.step_error), 0);
	assert_int_equal(served_stats(&s).faults <= BYTES / page, 1);
	assert_int_equal(host.refused, 0);
	served_close(&s);
	assert_int_equal(host.refused, 0);
	assert_true(host.let > 0);
	pagehint_source_free(source);
	assert_int_equal(pagehint_map_free(map), 0);
}

static void test_pages(void **state)
{
	(void)state;
	for (uint64_t page = 4096; page <= 65536; page *= 4) {
		if (page < (uint64_t)sysconf(_SC_PAGESIZE))
			continue;
		serve_pages(page, PAGEHINT_BACKING_ANON, 0);
		serve_pages(page, PAGEHINT_BACKING_ANON, PAGEHINT_PAGER_TRACK);
		serve_pages(page, PAGEHINT_BACKING_SHARED, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_pages) };
	if (!may_serve())
		return 77;
	return cmocka_run_group_tests(tests, snapshot_setup, NULL);
}
