/* The map on anonymous memory: options, bad regions, lookups, counting, removal, fork. */
#include <errno.h>
#include <setjmp.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "support/region.h"

#include <cmocka.h>

#include "memory/map.h"

#define BYTES (4 * MIB)
#define FRAMES (BYTES >> 12)

struct fixture {
	struct pagehint_map *map;
	unsigned char *memory;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct pagehint_map_opts opts = { .struct_size = sizeof(opts), .max_regions = 4 };
	f->memory = anon(BYTES);
	*state = f;
	return f->memory == NULL || pagehint_map_new(&opts, &f->map) != 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;
	int r = pagehint_map_free(f->map);
	munmap(f->memory, BYTES);
	free(f);
	return r;
}

static uint64_t added(struct pagehint_map *map, uint64_t frame, void *addr, size_t bytes)
{
	struct pagehint_region_desc d = describe(frame, addr, bytes, -1);
	uint64_t id = 0;
	assert_int_equal(pagehint_map_add(map, &d, &id), 0);
	assert_int_not_equal(id, 0);
	return id;
}

static void test_options(void **state)
{
	(void)state;
	static const struct {
		struct pagehint_map_opts opts;
		int result;
	} cases[] = {
		{ { .struct_size = sizeof(struct pagehint_map_opts), .frame_shift = 11 }, -EINVAL },
		{ { .struct_size = sizeof(struct pagehint_map_opts), .frame_shift = 12 }, 0 },
		{ { .struct_size = sizeof(struct pagehint_map_opts), .frame_shift = 30 }, 0 },
		{ { .struct_size = sizeof(struct pagehint_map_opts), .frame_shift = 31 }, -EINVAL },
		{ { .struct_size = sizeof(struct pagehint_map_opts), .max_regions = 1 }, 0 },
		{ { .struct_size = sizeof(struct pagehint_map_opts), .max_regions = 65536 }, 0 },
		{ { .struct_size = sizeof(struct pagehint_map_opts), .max_regions = 65537 }, -EINVAL },
		{ { .struct_size = sizeof(struct pagehint_map_opts), .host_page_shift = 1 }, -EINVAL },
		{ { .struct_size = sizeof(struct pagehint_map_opts), .host_page_shift = 16 }, 0 },
		{ { .struct_size = sizeof(struct pagehint_map_opts), .host_page_shift = 31 }, -EINVAL },
		{ { .struct_size = sizeof(struct pagehint_map_opts), .flags = 1 }, -EINVAL },
		{ { .struct_size = 7 }, -EINVAL },
		{ { .struct_size = 8, .flags = 1 }, 0 }, /* flags lie beyond what the caller has */
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct pagehint_map *map = NULL;
		assert_int_equal(pagehint_map_new(&cases[i].opts, &map), cases[i].result);
		assert_int_equal(map != NULL, cases[i].result == 0);
		assert_int_equal(pagehint_map_free(map), 0);
	}
	struct {
		struct pagehint_map_opts opts;
		uint64_t tail;
	} longer = { .opts = { .struct_size = sizeof(longer) }, .tail = 1 };
	struct pagehint_map *map = NULL;
	assert_int_equal(pagehint_map_new(&longer.opts, &map), -E2BIG);
	assert_null(map);
	longer.tail = 0;
	assert_int_equal(pagehint_map_new(&longer.opts, &map), 0);
	assert_int_equal(pagehint_map_frame_shift(map), 12);
	assert_int_equal(pagehint_map_free(map), 0);
	assert_int_equal(pagehint_map_new(NULL, NULL), -EINVAL);
}

/* Every refusal leaves the map empty and the id untouched. */
static void refused(struct fixture *f, const struct pagehint_region_desc *d, int result)
{
	uint64_t id = 77;
	assert_int_equal(pagehint_map_add(f->map, d, &id), result);
	assert_int_equal(id, 77);
	assert_int_equal(pagehint_map_regions(f->map), 0);
}

#define REFUSED(result, change)                                                         \
	do {                                                                            \
		struct pagehint_region_desc d = describe(0x1000, f->memory, BYTES, -1); \
		change;                                                                 \
		refused(f, &d, result);                                                 \
	} while (0)

static void test_bad_regions(void **state)
{
	struct fixture *f = *state;
	uint64_t id;
	REFUSED(-EINVAL, d.frames = 0);
	REFUSED(-EINVAL, d.frame = UINT64_MAX - 1);
	REFUSED(-EINVAL, d.frame = UINT64_MAX >> 12);
	REFUSED(-EINVAL, d.frames = UINT64_MAX);
	REFUSED(-EINVAL, d.frames = UINT64_C(1) << 52);
	REFUSED(-EINVAL, d.host_addr = UINT64_MAX - 4095);
	REFUSED(-EINVAL, d.host_addr += 1);
	REFUSED(-EINVAL, d.host_addr += 2048);
	REFUSED(-EINVAL, d.host_addr = 0);
	REFUSED(-EINVAL, d.fd_offset = 4096);
	REFUSED(-EINVAL, d.fd = -2);
	REFUSED(-EBADF, d.fd = 1000000);
	REFUSED(-EINVAL, d.fd = STDIN_FILENO);
	REFUSED(-EINVAL, d.fd_offset = UINT64_MAX - 4095; d.fd = STDIN_FILENO);
	REFUSED(-EINVAL, d.backing = PAGEHINT_BACKING_COUNT);
	REFUSED(-EINVAL, d.flags = PAGEHINT_REGION_LOCKED);
	REFUSED(-EINVAL, d.flags = 1u << 31);
	REFUSED(-EINVAL, d.reserved = 1);
	REFUSED(-EINVAL, d.struct_size = 7);
	refused(f, NULL, -EINVAL);
	struct {
		struct pagehint_region_desc d;
		uint64_t tail;
	} longer = { .d = describe(0, f->memory, BYTES, -1), .tail = 1 };
	longer.d.struct_size = sizeof(longer);
	refused(f, &longer.d, -E2BIG);
	longer.tail = 0;
	assert_int_equal(pagehint_map_add(f->map, &longer.d, NULL), -EINVAL);
	assert_int_equal(pagehint_map_add(f->map, &longer.d, &id), 0);
}

static void test_unmapped(void **state)
{
	struct fixture *f = *state;
	unsigned char *p = anon(BYTES);
	assert_int_equal(munmap(p + BYTES / 2, 4096), 0); /* a hole in the middle */
	REFUSED(-EINVAL, d.host_addr = (uintptr_t)p);
	REFUSED(-EINVAL, d.host_addr = (uintptr_t)p + BYTES / 2; d.frames = 1);
	REFUSED(-EINVAL, d.host_addr = (uintptr_t)p + BYTES / 2 - 4096; d.frames = 2);
	REFUSED(-EINVAL, d.host_addr = (uintptr_t)p + BYTES / 2; d.frames = 2);
	added(f->map, 0, p, BYTES / 2);
	munmap(p, BYTES);
}

static void test_simulated_host_pages(void **state)
{
	(void)state;
	for (uint32_t shift = 14; shift <= 16; shift += 2) {
		struct pagehint_map_opts opts = { .struct_size = sizeof(opts), .host_page_shift = shift };
		struct pagehint_region_info info = { .struct_size = sizeof(info) };
		size_t page = (size_t)1 << shift;
		struct fixture fixture = { .memory = anon_aligned(BYTES, page) }, *f = &fixture;
		assert_int_equal(pagehint_map_new(&opts, &f->map), 0);
		REFUSED(-EINVAL, d.host_addr += 4096; d.frames = page >> 12);
		REFUSED(-EINVAL, d.frames--);
		REFUSED(-EINVAL, d.frame++);
		madvise(f->memory, BYTES, MADV_NOHUGEPAGE);
		added(f->map, 0x1000, f->memory, BYTES);
		assert_int_equal(pagehint_map_lookup(f->map, 0x1000, &info), 0);
		assert_int_equal(info.host_page_bytes, page);
		assert_int_equal(info.least_bytes, page);
		assert_int_equal(pagehint_map_free(f->map), 0);
		munmap(f->memory, BYTES);
	}
}

static void test_overlaps(void **state)
{
	struct fixture *f = *state;
	unsigned char *other = anon(BYTES);
	uint64_t id = 5, quarter = FRAMES / 4;
	size_t q = BYTES / 4;
	added(f->map, quarter, f->memory + q, BYTES / 2);
	const struct pagehint_region_desc bad[] = {
		describe(quarter, other, q, -1),                    /* frames: its start */
		describe(quarter * 3 - 1, other, q, -1),            /* its last frame */
		describe(0, other, q + 4096, -1),                   /* its first frame */
		describe(0, other, BYTES, -1),                      /* around it */
		describe(quarter + 1, other, 4096, -1),             /* inside it */
		describe(quarter, f->memory + q, BYTES / 2, -1),    /* the same again */
		describe(0x10000, f->memory, q + 4096, -1),         /* host addresses: its first page */
		describe(0x10000, f->memory + 3 * q - 4096, q, -1), /* its last page */
		describe(0x10000, f->memory, BYTES, -1),            /* around it */
		describe(0x10000, f->memory + 2 * q, 4096, -1),     /* inside it */
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(pagehint_map_add(f->map, &bad[i], &id), -EEXIST);
		assert_int_equal(id, 5);
		assert_int_equal(pagehint_map_regions(f->map), 1);
	}
	added(f->map, 0, f->memory, q); /* neighbours are no overlap */
	added(f->map, quarter * 3, f->memory + 3 * q, q);
	munmap(other, BYTES);
}

static void test_lookups(void **state)
{
	struct fixture *f = *state;
	struct pagehint_region_info info = { .struct_size = sizeof(info) };
	size_t q = BYTES / 4;
	void *addr = NULL;
	uint64_t frame = 0;
	assert_int_equal(pagehint_map_next(f->map, 0, &info), -ERANGE);
	/* added out of order, walked in order */
	added(f->map, 3000, f->memory + 3 * q, q);
	added(f->map, 1000, f->memory, q);
	uint64_t id = added(f->map, 2000, f->memory + q, q);
	assert_int_equal(pagehint_map_regions(f->map), 3);
	uint64_t at = 0;
	for (uint64_t want = 1000; want <= 3000; want += 1000) {
		assert_int_equal(pagehint_map_next(f->map, at, &info), 0);
		assert_int_equal(info.frame, want);
		at = info.frame + info.frames;
	}
	assert_int_equal(pagehint_map_next(f->map, at, &info), -ERANGE);
	assert_int_equal(pagehint_map_lookup(f->map, 999, &info), -ERANGE);
	assert_int_equal(pagehint_map_lookup(f->map, 2000 + (q >> 12), &info), -ERANGE);
	assert_int_equal(pagehint_map_lookup(f->map, 2000 + (q >> 12) - 1, &info), 0);
	assert_int_equal(info.id, id);
	assert_int_equal(info.backing, PAGEHINT_BACKING_ANON);
	assert_int_equal(info.fd, -1);
	assert_int_equal(info.pins, 0);
	assert_int_equal(info.host_addr, (uintptr_t)(f->memory + q));
	assert_int_equal(pagehint_map_host(f->map, 2010, 5, &addr), 0);
	assert_ptr_equal(addr, f->memory + q + 10 * 4096);
	assert_int_equal(pagehint_map_host(f->map, 2010, 0, &addr), -EINVAL);
	assert_int_equal(pagehint_map_host(f->map, 2010, UINT64_MAX, &addr), -EINVAL);
	assert_int_equal(pagehint_map_host(f->map, 2000, (q >> 12) + 1, &addr), -ERANGE);
	assert_int_equal(pagehint_map_frame(f->map, f->memory + q + 4095, &frame), 0);
	assert_int_equal(frame, 2000);
	assert_int_equal(pagehint_map_frame(f->map, f->memory + 2 * q, &frame), -ERANGE);
	/* as many bytes as the caller has */
	info.struct_size = 24;
	info.frames = 99;
	assert_int_equal(pagehint_map_lookup(f->map, 1000, &info), 0);
	assert_int_equal(info.frame, 1000);
	assert_int_equal(info.frames, 99);
	info.struct_size = 7;
	assert_int_equal(pagehint_map_lookup(f->map, 1000, &info), -EINVAL);
	assert_int_equal(pagehint_map_next(f->map, 1000, NULL), -EINVAL);
}

static void refuse_all(struct pagehint_map *map)
{
	for (uint64_t never = 0; never < 8; never++) {
		uint64_t in_flight = 9;
		assert_int_equal(pagehint_map_pin(map, never, &in_flight), -ERANGE);
		assert_int_equal(in_flight, 9);
		assert_int_equal(pagehint_map_unpin(map, never), -ERANGE);
		assert_int_equal(pagehint_map_remove(map, never), -ERANGE);
	}
}

static void test_ids_that_were_never_given(void **state)
{
	struct fixture *f = *state;
	refuse_all(f->map); /* a place that nobody had yet */
	uint64_t id = added(f->map, 0, f->memory, 4096);
	refuse_all(f->map);
	assert_int_equal(pagehint_map_remove(f->map, id), 0);
	refuse_all(f->map);
}

static void test_room_and_ids(void **state)
{
	struct fixture *f = *state;
	uint64_t ids[4], id = 5;
	struct pagehint_region_desc d = describe(500, f->memory + 4 * 4096, 4096, -1);
	for (uint64_t i = 0; i < 4; i++)
		ids[i] = added(f->map, i * 10, f->memory + i * 4096, 4096);
	assert_int_equal(pagehint_map_add(f->map, &d, &id), -ENOSPC);
	for (int round = 0; round < 100; round++) {
		uint64_t old = ids[2];
		assert_int_equal(pagehint_map_remove(f->map, old), 0);
		assert_int_equal(pagehint_map_regions(f->map), 3);
		ids[2] = added(f->map, 20, f->memory + 2 * 4096, 4096);
		assert_true(ids[2] > old); /* ids grow, so none ever comes again */
		/* the old name reaches nothing, though its slot is in use again */
		assert_int_equal(pagehint_map_remove(f->map, old), -ERANGE);
		assert_int_equal(pagehint_map_pin(f->map, old, NULL), -ERANGE);
		assert_int_equal(pagehint_map_unpin(f->map, old), -ERANGE);
	}
	assert_int_equal(pagehint_map_remove(f->map, 0), -ERANGE);
	assert_int_equal(pagehint_map_remove(f->map, UINT64_MAX), -ERANGE);
	assert_int_equal(pagehint_map_pin(f->map, UINT64_MAX, NULL), -ERANGE);
	assert_int_equal(pagehint_map_unpin(f->map, UINT64_MAX), -ERANGE);
}

static void test_remove_with_a_discard_inside(void **state)
{
	struct fixture *f = *state;
	struct ph_region r;
	struct pagehint_region_info info = { .struct_size = sizeof(info) };
	uint64_t id = added(f->map, 0, f->memory, BYTES / 2);
	added(f->map, FRAMES / 2, f->memory + BYTES / 2, BYTES / 2);
	assert_int_equal(ph_map_enter(f->map, 0, 0, &r), -EINVAL);
	assert_int_equal(ph_map_enter(f->map, 1, UINT64_MAX, &r), -EINVAL);
	assert_int_equal(ph_map_enter(f->map, FRAMES, 1, &r), -ERANGE);
	assert_int_equal(ph_map_enter(f->map, FRAMES / 2 - 1, 2, &r), -ERANGE); /* adjacent, but two regions */
	assert_int_equal(ph_map_enter(f->map, 3, 5, &r), 0);
	assert_int_equal(ph_map_enter(f->map, 0, FRAMES / 2, &r), 0);
	assert_int_equal(r.id, id);
	assert_null(r.replaced);
	assert_int_equal(pagehint_map_remove(f->map, id), -EBUSY);
	assert_int_equal(pagehint_map_free(f->map), -EBUSY);
	assert_int_equal(pagehint_map_lookup(f->map, 0, &info), 0);
	assert_int_equal(info.in_flight, 2);
	ph_map_leave(f->map, id);
	assert_int_equal(pagehint_map_remove(f->map, id), -EBUSY);
	ph_map_leave(f->map, id);
	assert_int_equal(pagehint_map_remove(f->map, id), 0);
	assert_int_equal(pagehint_map_lookup(f->map, 0, &info), -ERANGE);
	assert_int_equal(ph_map_enter(f->map, 3, 5, &r), -ERANGE);
}

static void test_pins(void **state)
{
	struct fixture *f = *state;
	struct ph_region r;
	struct pagehint_region_info info = { .struct_size = sizeof(info) };
	uint64_t inside = 9, id = added(f->map, 0, f->memory, BYTES / 2);
	assert_int_equal(pagehint_map_unpin(f->map, id), -EALREADY);
	assert_int_equal(ph_map_enter(f->map, 0, 1, &r), 0);
	assert_int_equal(pagehint_map_pin(f->map, id, &inside), 0);
	assert_int_equal(inside, 1); /* one had started before */
	assert_int_equal(ph_map_enter(f->map, 0, 1, &r), -EBUSY);
	ph_map_leave(f->map, id);
	assert_int_equal(pagehint_map_pin(f->map, id, &inside), 0);
	assert_int_equal(inside, 0);
	assert_int_equal(pagehint_map_lookup(f->map, 0, &info), 0);
	assert_int_equal(info.pins, 2);
	assert_int_equal(pagehint_map_unpin(f->map, id), 0);
	assert_int_equal(ph_map_enter(f->map, 0, 1, &r), -EBUSY); /* counted */
	assert_int_equal(pagehint_map_unpin(f->map, id), 0);
	assert_int_equal(pagehint_map_unpin(f->map, id), -EALREADY);
	assert_int_equal(ph_map_enter(f->map, 0, 1, &r), 0);
	ph_map_leave(f->map, id);
	/* pinned from the start; a pin does not hold a region in the map, and dies with it */
	struct pagehint_region_desc d = describe(FRAMES, f->memory + BYTES / 2, BYTES / 2, -1);
	d.flags = PAGEHINT_REGION_PIN_AT_ADD;
	assert_int_equal(pagehint_map_add(f->map, &d, &id), 0);
	assert_int_equal(ph_map_enter(f->map, FRAMES, 1, &r), -EBUSY);
	assert_int_equal(pagehint_map_remove(f->map, id), 0);
	added(f->map, FRAMES, f->memory + BYTES / 2, BYTES / 2);
	assert_int_equal(ph_map_enter(f->map, FRAMES, 1, &r), 0);
	ph_map_leave(f->map, r.id);
}

static void test_fork(void **state)
{
	struct fixture *f = *state;
	uint64_t id = added(f->map, 0, f->memory, BYTES / 2);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct pagehint_region_desc d = describe(FRAMES, f->memory + BYTES / 2, BYTES / 2, -1);
		struct pagehint_region_info info = { .struct_size = sizeof(info) };
		uint64_t other;
		int wrong = pagehint_map_add(f->map, &d, &other) != -ENODEV;
		wrong |= pagehint_map_remove(f->map, id) != -ENODEV;
		wrong |= pagehint_map_lookup(f->map, 0, &info) != 0 || info.id != id;
		wrong |= ph_map_is_owner(f->map) != 0;
		_exit(wrong);
	}
	int status = 0;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(ph_map_is_owner(f->map), 1);
	assert_int_equal(pagehint_map_remove(f->map, id), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_options),
		cmocka_unit_test_setup_teardown(test_bad_regions, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_unmapped, set_up, tear_down),
		cmocka_unit_test(test_simulated_host_pages),
		cmocka_unit_test_setup_teardown(test_overlaps, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_lookups, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_ids_that_were_never_given, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_room_and_ids, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_remove_with_a_discard_inside, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_pins, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_fork, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
