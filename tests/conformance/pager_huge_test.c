/* Pages that are not 4 KiB: hugetlb, and frames that are larger than the pages of the host. */
#include <fcntl.h>

#include "support/huge_pages.h"
#include "support/served.h"

#include <pagehint/host.h>
#include <pagehint/pager_backend.h>

#define HUGE_PAGE ((uint64_t)2 << 20)
#define HUGE_PAGES 4u
#define BYTES (HUGE_PAGES * HUGE_PAGE)

struct scene {
	struct served s;
	struct pagehint_source *source;
	struct pagehint_map *map;
	struct pagehint_backend *inner, *backend;
	int file;
};

static void open_scene(struct scene *c, uint32_t backing, uint32_t frame_shift)
{
	struct pagehint_map_opts how = { .struct_size = sizeof(how), .frame_shift = frame_shift };
	struct pagehint_region_desc desc = { .struct_size = sizeof(desc), .flags = PAGEHINT_REGION_UFFD_OWN };
	uint64_t id;
	memset(c, 0, sizeof(*c));
	served_memory(&c->s, BYTES, backing);
	c->file = memfd_create("snapshot", MFD_CLOEXEC);
	assert_int_equal(ftruncate(c->file, (off_t)BYTES), 0);
	void *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, c->file, 0);
	snapshot_write(at, BYTES / PAGE);
	munmap(at, BYTES);
	desc.frames = BYTES >> frame_shift;
	desc.host_addr = (uintptr_t)c->s.memory;
	desc.fd = c->s.fd;
	assert_int_equal(pagehint_map_new(&how, &c->map), 0);
	assert_int_equal(pagehint_map_add(c->map, &desc, &id), 0);
	struct pagehint_pager_opts opts = { .map = c->map, .around_min = 4, .around_max = 4 };
	served_pager(&c->s, &opts);
	assert_int_equal(pagehint_source_file_new(c->file, 0, BYTES, &c->source), 0);
	struct pagehint_pager_region r = { .struct_size = sizeof(r),
					   .frames = BYTES >> frame_shift,
					   .source = c->source };
	assert_int_equal(pagehint_pager_add(c->s.pager, &r), 0);
	assert_int_equal(pagehint_madvise_new(c->map, NULL, NULL, &c->inner), 0);
	assert_int_equal(pagehint_pager_backend_new(c->s.pager, c->inner, NULL, &c->backend), 0);
}

static void close_scene(struct scene *c)
{
	assert_int_equal(pagehint_backend_free(c->backend), 0);
	assert_int_equal(pagehint_backend_free(c->inner), 0);
	served_close(&c->s);
	assert_int_equal(pagehint_map_free(c->map), 0);
	pagehint_source_free(c->source);
	close(c->file);
}

/* Pages [0, n) are zero, the rest is the snapshot's. */
static void expect(struct scene *c, uint64_t n)
{
	for (uint64_t i = 0; i < BYTES / PAGE; i++)
		assert_true(page_is(c->s.memory, i, i < n ? 0 : snapshot_word(i)));
}

static void test_hugetlb(void **state)
{
	(void)state;
	struct scene c;
	struct pagehint_outcome out;
	const char *why = huge_pages_borrow(HUGE_PAGES);
	if (why != NULL) {
		printf("not applicable: %s\n", why);
		return;
	}
	open_scene(&c, PAGEHINT_BACKING_HUGETLB, 12);
	served_start(&c.s);
	expect(&c, 0);
	/* less than a huge page is kept, a whole one goes, and comes back as zeros */
	const struct pagehint_run part = { 1, 511 }, more = { 0, 600 };
	assert_int_equal(pagehint_backend_discard(c.backend, &part, 1, 0, &out, NULL, NULL), 0);
	assert_int_equal(out.kept, 511 * PAGE);
	assert_int_equal(out.kept_why, PAGEHINT_WHY_ALIGNMENT);
	expect(&c, 0);
	served_stop(&c.s);
	assert_int_equal(pagehint_backend_discard(c.backend, &more, 1, 0, &out, NULL, NULL), 0);
	assert_int_equal(out.accepted, HUGE_PAGE);
	assert_int_equal(out.kept, 600 * PAGE - HUGE_PAGE);
	served_start(&c.s);
	expect(&c, 512);
	served_stop(&c.s);
	assert_int_equal(atomic_load(&c.s.step_error), 0);
	assert_int_equal(served_stats(&c.s).installed, HUGE_PAGES);
	assert_int_equal(served_stats(&c.s).zeroed, 1);
	close_scene(&c);
	huge_pages_return();
}

/* A guest of 16 KiB frames: a frame has a state, and comes and goes as a whole. */
static void frames_of_16k(uint32_t backing)
{
	struct scene c;
	struct pagehint_outcome out;
	const struct pagehint_run run = { 0, 2 };
	open_scene(&c, backing, 14);
	served_start(&c.s);
	expect(&c, 0);
	served_stop(&c.s);
	assert_int_equal(pagehint_backend_discard(c.backend, &run, 1, PAGEHINT_DISCARD_PROBE, &out, NULL, NULL), 0);
	assert_int_equal(out.freed, 8 * PAGE);
	served_start(&c.s);
	expect(&c, 8);
	served_stop(&c.s);
	assert_int_equal(served_stats(&c.s).installed, BYTES / (4 * PAGE));
	assert_int_equal(served_stats(&c.s).zeroed, 2);
	close_scene(&c);
}

static void test_large_frames(void **state)
{
	(void)state;
	frames_of_16k(PAGEHINT_BACKING_ANON);
	frames_of_16k(PAGEHINT_BACKING_SHARED);
}

/* What is kept reads as zero where that was asked for, and no page that is absent is touched for it. */
static void test_kept_is_zeroed(void **state)
{
	(void)state;
	struct scene c;
	struct pagehint_outcome out;
	const struct pagehint_run run = { 0, 4 };
	uint64_t in_flight;
	struct pagehint_region_info info = { .struct_size = sizeof(info) };
	open_scene(&c, PAGEHINT_BACKING_ANON, 12);
	assert_int_equal(pagehint_pager_ensure(c.s.pager, 0, 2, NULL), 0);
	/* pinned memory may not be touched at all, and is as it was */
	assert_int_equal(pagehint_map_lookup(c.map, 0, &info), 0);
	assert_int_equal(pagehint_map_pin(c.map, info.id, &in_flight), 0);
	assert_int_equal(pagehint_backend_discard(c.backend, &run, 1, PAGEHINT_DISCARD_ZERO, &out, NULL, NULL), 0);
	assert_int_equal(out.kept, 4 * PAGE);
	assert_int_equal(out.kept_why, PAGEHINT_WHY_PINNED);
	assert_int_equal(pagehint_map_unpin(c.map, info.id), 0);
	served_start(&c.s);
	expect(&c, 0);
	served_stop(&c.s);
	assert_int_equal(pagehint_backend_discard(c.backend, &run, 1, PAGEHINT_DISCARD_ZERO, &out, NULL, NULL), 0);
	assert_int_equal(out.accepted, 4 * PAGE);
	served_start(&c.s);
	expect(&c, 4);
	served_stop(&c.s);
	close_scene(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hugetlb),
		cmocka_unit_test(test_large_frames),
		cmocka_unit_test(test_kept_is_zeroed),
	};
	if (!may_serve())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
