/*
 * Options of a zone: every field at and beyond its bounds, structs of other sizes, memory that will not do.
 */
#include "support/zone_rest.h"

#include <errno.h>
#include <stdlib.h>

#define LADDER PAGEHINT_ZONE_LADDER

struct field {
	struct pagehint_zone_opts opts;
	int expected;
};

static void test_every_field_at_and_beyond_its_bounds(void **state)
{
	(void)state;
	const uint64_t n = sizeof(struct pagehint_zone_opts);
	const struct field fields[] = {
		{ { .struct_size = n }, 0 },
		{ { .struct_size = n, .max_sections = 16384 }, 0 },
		{ { .struct_size = n, .max_sections = 16385 }, -EINVAL },
		{ { .struct_size = n, .max_sections = UINT64_MAX }, -EINVAL },
		{ { .struct_size = n, .span_sections = UINT64_C(1) << 22 }, 0 },
		{ { .struct_size = n, .span_sections = (UINT64_C(1) << 22) + 1 }, -EINVAL },
		{ { .struct_size = n, .span_sections = UINT64_MAX }, -EINVAL },
		{ { .struct_size = n, .max_sections = 3, .span_sections = 2 }, -EINVAL },
		{ { .struct_size = n, .max_sections = 3, .span_sections = 3 }, 0 },
		{ { .struct_size = n, .frame_shift = 11 }, -EINVAL },
		{ { .struct_size = n, .frame_shift = 12 }, 0 },
		{ { .struct_size = n, .frame_shift = 30 }, 0 },
		{ { .struct_size = n, .frame_shift = 31 }, -EINVAL },
		{ { .struct_size = n, .frame_shift = UINT32_MAX }, -EINVAL },
		{ { .struct_size = n, .granule_order = 1 }, 0 },
		{ { .struct_size = n, .granule_order = 18 }, 0 },
		{ { .struct_size = n, .granule_order = 19 }, -EINVAL },
		{ { .struct_size = n, .granule_order = UINT32_MAX }, -EINVAL },
		{ { .struct_size = n, .max_caches = 4096 }, 0 },
		{ { .struct_size = n, .max_caches = 4097 }, -EINVAL },
		{ { .struct_size = n, .max_caches = UINT32_MAX }, -EINVAL },
		{ { .struct_size = n, .flags = 31 & ~PAGEHINT_ZONE_UNTRACKED }, 0 },
		{ { .struct_size = n, .flags = 64 }, -EINVAL },
		{ { .struct_size = n, .flags = PAGEHINT_ZONE_SHARED | PAGEHINT_ZONE_STRICT }, 0 },
		{ { .struct_size = n, .flags = PAGEHINT_ZONE_SHARED | PAGEHINT_ZONE_SCRUB }, -EINVAL },
		{ { .struct_size = n, .flags = UINT32_C(1) << 31 }, -EINVAL },
		{ { .struct_size = n, .flags = PAGEHINT_ZONE_UNTRACKED | PAGEHINT_ZONE_STRICT }, -EINVAL },
		{ { .struct_size = n, .flags = LADDER, .granule_order = 5 }, -EINVAL },
		{ { .struct_size = n, .flags = LADDER, .granule_order = 6 }, 0 },
		{ { .struct_size = n, .flags = LADDER, .granule_order = 11 }, 0 },
		{ { .struct_size = n, .flags = LADDER, .granule_order = 12 }, -EINVAL },
		{ { .struct_size = 0 }, -EINVAL },
		{ { .struct_size = 7 }, -EINVAL },
	};
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		uint64_t bytes = 77;
		int r = pagehint_zone_size(&fields[i].opts, &bytes);
		if (r != fields[i].expected)
			print_message("row %zu\n", i);
		assert_int_equal(r, fields[i].expected);
		struct pagehint_zone *zone = (void *)&bytes;
		if (r < 0) {
			assert_int_equal(bytes, 77);
			assert_int_equal(pagehint_zone_new(&fields[i].opts, &zone), r);
			assert_ptr_equal(zone, &bytes);
			continue;
		}
		assert_true(bytes > 77);
		assert_int_equal(pagehint_zone_new(&fields[i].opts, &zone), 0);
		struct pagehint_zone_stats s = zone_at_rest(zone);
		assert_int_equal(s.total, 0);
		assert_int_equal(s.metadata_bytes, bytes);
		pagehint_zone_destroy(zone);
	}
	uint64_t bytes = 77;
	assert_int_equal(pagehint_zone_size(NULL, &bytes), -EINVAL);
	assert_int_equal(bytes, 77);
	pagehint_zone_destroy(NULL);
}

static void test_defaults_are_what_the_header_says(void **state)
{
	(void)state;
	const uint32_t granule_of_shift[][2] = { { 0, 9 },  { 12, 9 }, { 14, 7 }, { 16, 5 },
						 { 20, 1 }, { 21, 1 }, { 30, 1 } };
	for (size_t i = 0; i < sizeof(granule_of_shift) / sizeof(granule_of_shift[0]); i++) {
		struct pagehint_zone *zone = NULL;
		struct pagehint_zone_opts opts = { .struct_size = sizeof(opts), .frame_shift = granule_of_shift[i][0] };
		assert_int_equal(pagehint_zone_new(&opts, &zone), 0);
		assert_int_equal(pagehint_zone_granule_order(zone), granule_of_shift[i][1]);
		assert_int_equal(pagehint_zone_add(zone, 0, SECTION), 0);
		assert_int_equal(pagehint_zone_add(zone, SECTION, 64), -ERANGE);
		struct pagehint_cache *cache;
		for (unsigned c = 0; c < 64; c++)
			assert_int_equal(pagehint_cache_open(zone, &cache), 0);
		assert_int_equal(pagehint_cache_open(zone, &cache), -ENOSPC);
		assert_int_equal(zone_at_rest(zone).caches, 64);
		pagehint_zone_destroy(zone);
	}
}

static void test_structs_of_other_sizes(void **state)
{
	(void)state;
	struct {
		struct pagehint_zone_opts opts;
		unsigned char tail[40];
	} longer = { .opts = { .struct_size = sizeof(longer), .max_sections = 2 } };
	uint64_t bytes = 0, same = 0;
	assert_int_equal(pagehint_zone_size(&longer.opts, &bytes), 0);
	longer.opts.struct_size = sizeof(longer.opts);
	assert_int_equal(pagehint_zone_size(&longer.opts, &same), 0);
	assert_int_equal(bytes, same);
	for (size_t i = 0; i < sizeof(longer.tail); i++) {
		memset(longer.tail, 0, sizeof(longer.tail));
		longer.tail[i] = 1;
		longer.opts.struct_size = sizeof(longer);
		assert_int_equal(pagehint_zone_size(&longer.opts, &bytes), -E2BIG);
		longer.opts.struct_size = sizeof(longer.opts) + i; /* ends just before the byte */
		assert_int_equal(pagehint_zone_size(&longer.opts, &bytes), 0);
	}
	/* shorter: what is missing has its default, whatever lies there */
	struct pagehint_zone_opts shorter = { .struct_size = offsetof(struct pagehint_zone_opts, flags),
					      .max_sections = 2,
					      .flags = UINT32_MAX,
					      .max_caches = UINT32_MAX };
	assert_int_equal(pagehint_zone_size(&shorter, &bytes), 0);
	assert_int_equal(bytes, same);
	shorter = (struct pagehint_zone_opts) { .struct_size = 8, .max_sections = UINT64_MAX };
	assert_int_equal(pagehint_zone_size(&shorter, &bytes), 0);
}

static void test_memory_that_will_not_do(void **state)
{
	(void)state;
	struct pagehint_zone_opts opts = { .struct_size = sizeof(opts), .max_caches = 1 };
	struct pagehint_zone *zone = NULL;
	uint64_t bytes;
	assert_int_equal(pagehint_zone_size(&opts, &bytes), 0);
	size_t room = (size_t)(bytes + 128) / 64 * 64;
	unsigned char *memory = aligned_alloc(64, room);
	assert_non_null(memory);
	memset(memory, 0, room);
	for (unsigned off = 1; off < 64; off++)
		assert_int_equal(pagehint_zone_init(memory + off, bytes, &opts, &zone), -EINVAL);
	assert_int_equal(pagehint_zone_init(memory, bytes - 1, &opts, &zone), -EINVAL);
	assert_int_equal(pagehint_zone_init(memory, 0, &opts, &zone), -EINVAL);
	assert_int_equal(pagehint_zone_init(NULL, bytes, &opts, &zone), -EINVAL);
	assert_int_equal(pagehint_zone_init(memory, bytes, NULL, &zone), -EINVAL);
	assert_null(zone);
	for (size_t i = 0; i < room; i++)
		assert_int_equal(memory[i], 0);
	memory[bytes] = 0x5a; /* the byte behind the state stays the caller's */
	assert_int_equal(pagehint_zone_init(memory, bytes, &opts, &zone), 0);
	assert_ptr_equal(zone, memory);
	assert_int_equal(pagehint_zone_add(zone, 0, SECTION), 0);
	uint64_t frame;
	for (uint64_t i = 0; i < SECTION; i++)
		assert_int_equal(pagehint_zone_alloc(zone, 0, &frame), 0);
	assert_int_equal(pagehint_zone_alloc(zone, 0, &frame), -ENOSPC);
	assert_int_equal(zone_at_rest(zone).out, SECTION);
	assert_int_equal(memory[bytes], 0x5a);
	pagehint_zone_destroy(zone); /* not made by pagehint_zone_new: the memory stays */
	free(memory);
}

static void test_a_zone_of_another_layout_is_told(void **state)
{
	(void)state;
	struct pagehint_zone *zone = zone_full(1, 0, 9);
	unsigned char *bytes = (unsigned char *)zone;
	for (unsigned i = 0; i < 16; i++) { /* magic, layout, endianness */
		bytes[i] ^= 0xff;
		assert_int_equal(pagehint_zone_check(zone, NULL), 1);
		bytes[i] ^= 0xff;
	}
	zone_gone_home(zone);
}

static void test_metadata_is_what_the_house_promises(void **state)
{
	(void)state;
	const struct {
		uint32_t flags;
		unsigned most; /* bits for 100 frames */
	} kinds[] = { { PAGEHINT_ZONE_UNTRACKED, 120 }, { 0, 230 } };
	for (unsigned i = 0; i < 2; i++) {
		struct pagehint_zone_opts opts = { .struct_size = sizeof(opts),
						   .max_sections = 64,
						   .flags = kinds[i].flags };
		uint64_t bytes;
		assert_int_equal(pagehint_zone_size(&opts, &bytes), 0);
		assert_true(bytes * 8 * 100 <= kinds[i].most * 64 * SECTION);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_field_at_and_beyond_its_bounds),
		cmocka_unit_test(test_defaults_are_what_the_header_says),
		cmocka_unit_test(test_structs_of_other_sizes),
		cmocka_unit_test(test_memory_that_will_not_do),
		cmocka_unit_test(test_a_zone_of_another_layout_is_told),
		cmocka_unit_test(test_metadata_is_what_the_house_promises),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
