/*
 * Host pages above 4 KiB: a page goes when its last part came, and not before; a deflate, or its region's end, takes back what
 * was known of it.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "fakes/guest.h"
#include "virtio/device.h"

#define F ((uint32_t)GUEST_FREE)
#define RUN(page, pages) ((struct pagehint_run) { (page), (pages) })

static void give_and_inflate(struct guest *g, uint32_t page, uint32_t n)
{
	uint32_t *pfns = malloc(n * sizeof(*pfns));
	assert_non_null(pfns);
	for (uint32_t i = 0; i < n; i++)
		pfns[i] = page + i;
	guest_give(g, page, n);
	guest_inflate(g, pfns, n);
	free(pfns);
}

static void a_larger_host_page_goes_when_its_last_part_came(void **state)
{
	(void)state;
	for (uint32_t shift = 13; shift <= 16; shift++) {
		struct guest_how how = { .host_page_shift = shift };
		struct guest *g = guest_open(&how);
		uint32_t parts = UINT32_C(1) << (shift - 12);
		guest_boot(g, 0);
		for (uint32_t i = 0; i < parts; i++) {
			uint32_t part = (i * 5 + 3) % parts; /* in another order */
			assert_int_equal(g->n_runs, 0);
			give_and_inflate(g, F + 4 * parts + part, 1);
			guest_check(g);
			assert_int_equal(guest_stats(g).partial_pages, i + 1 == parts ? 0 : i + 1);
		}
		guest_expect(g, &RUN(F + 4 * parts, parts), 1);
		assert_true(guest_is_wiped(g, F + 4 * parts));
		guest_close(g);
	}
}

static void a_deflate_voids_the_page_it_is_a_part_of(void **state)
{
	(void)state;
	struct guest_how how = { .host_page_shift = 14 };
	struct guest *g = guest_open(&how);
	uint32_t page = F + 8, second = page + 1;
	guest_boot(g, 0);
	give_and_inflate(g, page, 3);
	guest_deflate(g, &second, 1);
	assert_int_equal(guest_stats(g).partial_pages, 0);
	give_and_inflate(g, page + 3, 1); /* would have been the last part */
	assert_int_equal(g->n_runs, 0);
	give_and_inflate(g, second, 1);
	assert_int_equal(g->n_runs, 0);
	give_and_inflate(g, page, 1);
	assert_int_equal(g->n_runs, 0);
	give_and_inflate(g, page + 2, 1);
	guest_expect(g, &RUN(page, 4), 1);
	guest_check(g);
	guest_close(g);
}

/* whole pages of a request go at once; only its edges are remembered */
static void a_request_is_cut_into_whole_host_pages(void **state)
{
	(void)state;
	struct guest_how how = { .host_page_shift = 16 };
	struct guest *g = guest_open(&how);
	guest_boot(g, 0);
	give_and_inflate(g, F + 16 + 5, 16 * 3);
	guest_expect(g, &RUN(F + 32, 32), 1);
	assert_int_equal(guest_stats(g).partial_pages, 16);
	/* the missing parts on both sides: one run each */
	give_and_inflate(g, F + 16, 5);
	struct pagehint_run expected[] = { RUN(F + 32, 32), RUN(F + 16, 16), RUN(F + 64, 16) };
	guest_expect(g, expected, 2);
	give_and_inflate(g, F + 69, 11);
	guest_expect(g, expected, 3);
	assert_int_equal(guest_stats(g).partial_pages, 0);
	guest_check(g);
	guest_close(g);
}

static void parts_that_complete_join_what_is_whole_beside_them(void **state)
{
	(void)state;
	struct guest_how how = { .host_page_shift = 14 };
	struct guest *g = guest_open(&how);
	guest_boot(g, 0);
	give_and_inflate(g, F, 2);
	give_and_inflate(g, F + 14, 2);
	give_and_inflate(g, F + 2, 12);
	guest_expect(g, &RUN(F, 16), 1);
	assert_int_equal(guest_stats(g).partial_pages, 0);
	guest_close(g);
}

/* a part remembered of a region that is gone must not count for the next region at its place */
static void a_region_takes_its_parts_with_it(void **state)
{
	(void)state;
	struct guest_how how = { .host_page_shift = 14 };
	struct guest *g = guest_open(&how);
	uint32_t h = (uint32_t)GUEST_HIGH_PAGE;
	struct pagehint_region_info info = { .struct_size = sizeof(info) };
	uint64_t id;
	guest_boot(g, 0);
	give_and_inflate(g, h, 3);
	assert_int_equal(pagehint_map_lookup(g->map, h, &info), 0);
	assert_int_equal(pagehint_map_remove(g->map, g->high), 0);
	uint32_t gone = h + 3;
	guest_inflate(g, &gone, 1);
	assert_int_equal(guest_dropped(g, PAGEHINT_DEVICE_DROP_BAD_PFN), 1);
	struct pagehint_region_desc desc = { .struct_size = sizeof(desc), .frame = info.frame, .frames = info.frames };
	desc.host_addr = info.host_addr;
	desc.fd = info.fd;
	desc.fd_offset = info.fd_offset;
	assert_int_equal(pagehint_map_add(g->map, &desc, &id), 0);
	guest_inflate(g, &gone, 1);
	assert_int_equal(g->n_runs, 0);
	guest_check(g);
	guest_close(g);
}

static void a_full_table_forgets_and_never_lies(void **state)
{
	(void)state;
	struct guest_how how = { .host_page_shift = 14, .opts.partial_blocks = 2 };
	struct guest *g = guest_open(&how);
	guest_boot(g, 0);
	for (uint32_t block = 0; block < 6; block++)
		give_and_inflate(g, F + 512 * block, 3);
	assert_int_equal(guest_dropped(g, PAGEHINT_DEVICE_DROP_PARTIAL), 4);
	assert_int_equal(guest_stats(g).partial_pages, 6);
	for (uint32_t block = 0; block < 6; block++)
		give_and_inflate(g, F + 512 * block + 3, 1);
	assert_true(g->n_runs <= 2);
	for (uint32_t i = 0; i < g->n_runs; i++)
		assert_int_equal(g->runs[i].frames, 4);
	guest_check(g);
	guest_close(g);
}

static void frames_above_4_kib_are_discarded_in_their_own_unit(void **state)
{
	(void)state;
	struct guest_how how = { .host_page_shift = 14, .frame_shift = 14 };
	struct guest *g = guest_open(&how);
	guest_boot(g, 0);
	give_and_inflate(g, F + 2, 12);
	guest_expect(g, &RUN((F + 4) / 4, 2), 1);
	guest_check(g);
	assert_int_equal(guest_stats(g).freed, 8 * 4096);
	guest_close(g);
}

/* a part named again after its page went must not be remembered for the next time */
static void a_part_named_after_its_page_went_is_not_remembered(void **state)
{
	(void)state;
	struct guest_how how = { .host_page_shift = 14 };
	struct guest *g = guest_open(&how);
	uint32_t pfns[2] = { F + 8, F + 10 };
	guest_boot(g, 0);
	give_and_inflate(g, F + 9, 3);
	guest_give(g, F + 8, 1);
	guest_inflate(g, pfns, 2); /* the first completes the page, the second is in it */
	guest_expect(g, &RUN(F + 8, 4), 1);
	assert_int_equal(guest_stats(g).partial_pages, 0);
	assert_int_equal(guest_dropped(g, PAGEHINT_DEVICE_DROP_DUPLICATE), 1);
	guest_check(g);
	guest_close(g);
}

/* where larger pages lie is a question of addresses here, not of the guest's */
static void larger_pages_align_as_the_backing_does(void **state)
{
	(void)state;
	const struct ph_place place = { .id = 3, .page = 100, .pages = 40, .base = 5, .granule = 8, .host = 1 };
	struct ph_partial_page larger;
	for (uint64_t page = 100; page < 140; page++) {
		uint64_t at = page - 100 + 5;
		int whole = at / 8 * 8 >= 5 && at / 8 * 8 + 8 <= 45;
		assert_int_equal(ph_device_larger(&place, page, &larger), whole ? 0 : -1);
		assert_int_equal(larger.first, at / 8 * 8);
		assert_int_equal(larger.region, 3);
	}
	const struct ph_place small = { .id = 3, .page = 100, .pages = 4, .base = 0, .granule = 8, .host = 1 };
	assert_int_equal(ph_device_larger(&small, 100, &larger), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_larger_host_page_goes_when_its_last_part_came),
		cmocka_unit_test(a_deflate_voids_the_page_it_is_a_part_of),
		cmocka_unit_test(a_request_is_cut_into_whole_host_pages),
		cmocka_unit_test(parts_that_complete_join_what_is_whole_beside_them),
		cmocka_unit_test(a_region_takes_its_parts_with_it),
		cmocka_unit_test(a_full_table_forgets_and_never_lies),
		cmocka_unit_test(frames_above_4_kib_are_discarded_in_their_own_unit),
		cmocka_unit_test(a_part_named_after_its_page_went_is_not_remembered),
		cmocka_unit_test(larger_pages_align_as_the_backing_does),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
