/* The rules of size-prefixed structs, byte by byte. */
#include <setjmp.h>
#include <stdarg.h>

#include <sys/mman.h>
#include <unistd.h>

#include "base/opts.h"

#include <cmocka.h>

#include <pagehint/bitmap.h>
#include <pagehint/flush.h>
#include <pagehint/host.h>
#include <pagehint/map.h>
#include <pagehint/pager.h>
#include <pagehint/vhost.h>
#include <pagehint/zone.h>

/* one with each kind of prefix */
struct wide {
	uint64_t struct_size;
	uint64_t a;
	uint32_t b;
	uint32_t c;
};

struct native {
	size_t struct_size;
	uint32_t a;
	uint32_t b;
};

#define ROOM 64

static void test_in_null(void **state)
{
	(void)state;
	struct wide w;
	struct native n;
	const struct wide zero = { 0 };
	const struct native none = { 0 };
	memset(&w, 0xee, sizeof(w));
	memset(&n, 0xee, sizeof(n));
	assert_int_equal(PH_OPTS_IN(w, (const struct wide *)NULL), 0);
	assert_int_equal(PH_OPTS_IN(n, (const struct native *)NULL), 0);
	assert_memory_equal(&w, &zero, sizeof(w));
	assert_memory_equal(&n, &none, sizeof(n));
}

/* Every size from 0 to far beyond ours, with every single byte of the tail set in turn. */
static void test_in_every_size(void **state)
{
	(void)state;
	union {
		struct wide w;
		unsigned char bytes[ROOM];
	} from;
	for (uint64_t size = 0; size <= ROOM; size++) {
		memset(&from, 0, sizeof(from));
		memset(&from, 0xaa, sizeof(from.w));
		from.w.struct_size = size;
		struct wide to;
		memset(&to, 0xee, sizeof(to));
		int r = PH_OPTS_IN(to, &from.w);
		if (size < 8) {
			assert_int_equal(r, -EINVAL);
			continue;
		}
		assert_int_equal(r, 0);
		for (size_t i = 0; i < sizeof(to); i++)
			assert_int_equal(((unsigned char *)&to)[i], i < size ? from.bytes[i] : 0);
		for (size_t i = sizeof(to); i < ROOM; i++) {
			from.bytes[i] = 1;
			assert_int_equal(PH_OPTS_IN(to, &from.w), i < size ? -E2BIG : 0);
			from.bytes[i] = 0;
		}
	}
}

static void test_in_native_prefix(void **state)
{
	(void)state;
	union {
		struct native n;
		unsigned char bytes[ROOM];
	} from;
	struct native to;
	memset(&from, 0, sizeof(from));
	from.n.a = 1;
	from.n.b = 2;
	for (size_t size = 0; size <= ROOM; size += 4) { /* whole members */
		from.n.struct_size = size;
		int r = PH_OPTS_IN(to, &from.n);
		assert_int_equal(r, size < sizeof(size_t) ? -EINVAL : 0);
		if (r < 0)
			continue;
		assert_int_equal(to.a, size >= offsetof(struct native, b) ? 1 : 0);
		assert_int_equal(to.b, size >= sizeof(struct native) ? 2 : 0);
	}
	from.bytes[ROOM - 1] = 1;
	assert_int_equal(PH_OPTS_IN(to, &from.n), -E2BIG);
}

/* A size that no memory has is not walked on a machine whose pointers are shorter than the prefix. */
static void test_in_absurd_size(void **state)
{
	(void)state;
#if SIZE_MAX < UINT64_MAX
	struct wide from = { .struct_size = (uint64_t)SIZE_MAX + 1 }, to;
	assert_int_equal(PH_OPTS_IN(to, &from), -EINVAL);
	assert_int_equal(PH_OPTS_OUT(&from, to), -EINVAL);
#endif
}

static void test_out_every_size(void **state)
{
	(void)state;
	const struct wide from = {
		.struct_size = 999, .a = UINT64_C(0x1122334455667788), .b = 0x99aabbcc, .c = 0xddeeff01
	};
	for (uint64_t size = 0; size <= ROOM; size++) {
		union {
			struct wide w;
			unsigned char bytes[ROOM];
		} to, before;
		memset(&to, 0x5c, sizeof(to));
		to.w.struct_size = size;
		before = to;
		int r = PH_OPTS_OUT(&to.w, from);
		assert_int_equal(r, size < 8 ? -EINVAL : 0);
		assert_int_equal(to.w.struct_size, size); /* the caller's, not ours */
		for (size_t i = 8; i < ROOM; i++) {
			unsigned char want = before.bytes[i]; /* beyond what the caller has: untouched */
			if (r == 0 && i < size)
				want = i < sizeof(from) ? ((const unsigned char *)&from)[i] : 0;
			assert_int_equal(to.bytes[i], want);
		}
	}
	assert_int_equal(PH_OPTS_OUT((struct wide *)NULL, from), -EINVAL);
}

/* Whatever takes options: of a size that cannot be, nothing behind the size is read, though a pointer should stand there. */
static void test_a_lie_is_not_followed(void **state)
{
	static const uint64_t sizes[] = { 0, 7, PH_OPTS_MAX + 1, UINT64_MAX };
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	unsigned char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	(void)state;
	assert_true(pages != MAP_FAILED && mprotect(pages + page, page, PROT_NONE) == 0);
	void *opts = pages + page - 8;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		int wanted = sizes[i] < 8 ? -EINVAL : -E2BIG;
		struct pagehint_pager *pager = NULL;
		struct pagehint_vhost *vhost = NULL;
		struct pagehint_zone *zone = NULL;
		struct pagehint_map *map = NULL;
		struct pagehint_bitmap *bitmap = NULL;
		struct pagehint_flush *flush = NULL;
		struct pagehint_backend *backend = NULL;
		memcpy(opts, &sizes[i], 8);
		assert_int_equal(pagehint_pager_new(opts, &pager), wanted);
		assert_int_equal(pagehint_vhost_new(opts, &vhost), wanted);
		assert_int_equal(pagehint_zone_new(opts, &zone), wanted);
		assert_int_equal(pagehint_map_new(opts, &map), wanted);
		assert_int_equal(pagehint_bitmap_new(opts, &bitmap), wanted);
		assert_int_equal(pagehint_flush_new(opts, &flush), wanted);
		assert_int_equal(pagehint_null_new(opts, &backend), wanted);
	}
	munmap(pages, 2 * page);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_in_null),          cmocka_unit_test(test_in_every_size),
		cmocka_unit_test(test_in_native_prefix), cmocka_unit_test(test_in_absurd_size),
		cmocka_unit_test(test_out_every_size),   cmocka_unit_test(test_a_lie_is_not_followed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
