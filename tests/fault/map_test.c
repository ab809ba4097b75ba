/* Every syscall of pagehint_map_add fails once: nothing leaks, nothing is registered, the error is clear. */
#include <errno.h>
#include <setjmp.h>
#include <stdlib.h>

#include "support/region.h"

#include <cmocka.h>

#include "memory/map.h"

#define BYTES (4 * MIB)

/* The real system, whose k-th call fails. */
struct faulty {
	const struct ph_sys *real;
	uint64_t calls, fail_at; /* 0 = none */
	int opened, closed, mapped, unmapped;
	int broke_close, broke_getpid, broke_memory; /* which one it was */
};

static int fails(struct faulty *f)
{
	return ++f->calls == f->fail_at;
}

static int64_t f_getpid(void *ctx)
{
	struct faulty *f = ctx;
	if (fails(f)) {
		f->broke_getpid = 1;
		return -EIO;
	}
	return f->real->getpid(NULL);
}

static int f_open(void *ctx, const char *path, int flags)
{
	struct faulty *f = ctx;
	int fd = fails(f) ? -EIO : f->real->open(NULL, path, flags);
	f->opened += fd >= 0;
	return fd;
}

static int64_t f_read(void *ctx, int fd, void *buffer, size_t length)
{
	struct faulty *f = ctx;
	return fails(f) ? -EIO : f->real->read(NULL, fd, buffer, length);
}

/* A close that fails has closed all the same, as on Linux. */
static int f_close(void *ctx, int fd)
{
	struct faulty *f = ctx;
	int r = f->real->close(NULL, fd);
	f->closed++;
	if (!fails(f))
		return r;
	f->broke_close = 1;
	return -EIO;
}

static int f_fstat(void *ctx, int fd, struct stat *st)
{
	struct faulty *f = ctx;
	return fails(f) ? -EIO : f->real->fstat(NULL, fd, st);
}

static int f_fstatfs(void *ctx, int fd, struct statfs *st)
{
	struct faulty *f = ctx;
	return fails(f) ? -EIO : f->real->fstatfs(NULL, fd, st);
}

static int64_t f_page_size(void *ctx)
{
	struct faulty *f = ctx;
	return fails(f) ? -EIO : f->real->page_size(NULL);
}

static void *f_map_memory(void *ctx, size_t length)
{
	struct faulty *f = ctx;
	if (fails(f)) {
		f->broke_memory = 1;
		return NULL;
	}
	void *p = f->real->map_memory(NULL, length);
	f->mapped += p != NULL;
	return p;
}

static void f_unmap_memory(void *ctx, void *addr, size_t length)
{
	struct faulty *f = ctx;
	f->unmapped++;
	f->real->unmap_memory(NULL, addr, length);
}

static struct ph_sys faulty_sys(struct faulty *f)
{
	memset(f, 0, sizeof(*f));
	f->real = &ph_sys_real;
	return (struct ph_sys) {
		.ctx = f,
		.getpid = f_getpid,
		.open = f_open,
		.read = f_read,
		.close = f_close,
		.fstat = f_fstat,
		.fstatfs = f_fstatfs,
		.page_size = f_page_size,
		.map_memory = f_map_memory,
		.unmap_memory = f_unmap_memory,
	};
}

static int expected(const struct faulty *f)
{
	if (f->broke_close)
		return 0;
	if (f->broke_memory)
		return -ENOMEM;
	return f->broke_getpid ? -ENODEV : -EIO; /* who cannot tell its pid is not the owner */
}

/* Returns how many syscalls an add makes. */
static uint64_t every_call_fails_once(const struct pagehint_region_desc *d)
{
	struct faulty f;
	struct ph_sys sys = faulty_sys(&f);
	struct pagehint_map *map = NULL;
	assert_int_equal(ph_map_new_with(NULL, &sys, &map), 0);
	uint64_t k = 0, id = 0;
	for (;;) {
		const struct ph_sys *real = f.real;
		int held = f.mapped - f.unmapped;
		assert_int_equal(held, 0);
		memset(&f, 0, sizeof(f));
		f.real = real;
		f.fail_at = ++k;
		id = 42;
		int r = pagehint_map_add(map, d, &id);
		assert_int_equal(f.opened, f.closed);
		if (f.calls < k) { /* no such call: it has succeeded untroubled */
			assert_int_equal(r, 0);
			break;
		}
		assert_int_equal(r, expected(&f));
		assert_int_equal(pagehint_map_regions(map), r == 0);
		f.fail_at = 0;
		if (r == 0) {
			assert_int_equal(pagehint_map_remove(map, id), 0);
		} else {
			assert_int_equal(id, 42);
		}
	}
	f.fail_at = 0;
	assert_int_equal(pagehint_map_remove(map, id), 0);
	assert_int_equal(f.mapped, f.unmapped);
	assert_int_equal(pagehint_map_free(map), 0);
	return k - 1;
}

static void test_anon(void **state)
{
	(void)state;
	void *p = anon(BYTES);
	struct pagehint_region_desc d = describe(0, p, BYTES, -1);
	assert_true(every_call_fails_once(&d) >= 4); /* getpid, open, read, close */
	munmap(p, BYTES);
}

static void test_shared(void **state)
{
	(void)state;
	int fd = memfd("fault", BYTES, 0);
	void *p = map_fd(fd, BYTES, MAP_SHARED);
	struct pagehint_region_desc d = describe(0, p, BYTES, fd);
	assert_true(every_call_fails_once(&d) >= 6); /* and fstat, fstatfs */
	munmap(p, BYTES);
	close(fd);
}

static void test_private_file(void **state)
{
	(void)state;
	int fd = memfd("fault", BYTES, 0);
	void *p = map_fd(fd, BYTES, MAP_PRIVATE);
	struct pagehint_region_desc d = describe(0, p, BYTES, fd);
	assert_true(every_call_fails_once(&d) >= 7); /* and the bitmap */
	munmap(p, BYTES);
	close(fd);
}

/* The bitmap of a private file goes when the region cannot be registered, is removed, or dies with the map. */
static void test_bitmap_of_replaced_pages(void **state)
{
	(void)state;
	struct faulty f;
	struct ph_sys sys = faulty_sys(&f);
	struct pagehint_map *map = NULL;
	struct ph_region r;
	uint64_t id, other;
	int fd = memfd("fault", BYTES, 0);
	void *p = map_fd(fd, BYTES, MAP_PRIVATE);
	struct pagehint_region_desc d = describe(0, p, BYTES, fd);
	assert_int_equal(ph_map_new_with(NULL, &sys, &map), 0);
	assert_int_equal(pagehint_map_add(map, &d, &id), 0);
	assert_int_equal(pagehint_map_add(map, &d, &other), -EEXIST);
	assert_int_equal(f.mapped, 2);
	assert_int_equal(f.unmapped, 1);
	assert_int_equal(ph_map_enter(map, 0, d.frames, &r), 0);
	for (uint64_t i = 0; i < d.frames / 64; i++)
		assert_true(atomic_fetch_or(&r.replaced[i], UINT64_MAX) == 0);
	ph_map_leave(map, r.id);
	assert_int_equal(pagehint_map_remove(map, id), 0);
	assert_int_equal(f.unmapped, 2);
	assert_int_equal(pagehint_map_add(map, &d, &id), 0);
	assert_int_equal(pagehint_map_free(map), 0);
	assert_int_equal(f.mapped, 3);
	assert_int_equal(f.unmapped, 3);
	munmap(p, BYTES);
	close(fd);
}

static void test_new(void **state)
{
	(void)state;
	struct faulty f;
	struct ph_sys sys = faulty_sys(&f);
	struct pagehint_map *map = NULL;
	for (f.fail_at = 1; f.fail_at <= 2; f.fail_at++) { /* the page size, the pid */
		f.calls = 0;
		assert_int_equal(ph_map_new_with(NULL, &sys, &map), -EIO);
		assert_null(map);
	}
	f.calls = 0;
	assert_int_equal(ph_map_new_with(NULL, &sys, &map), 0);
	assert_int_equal(f.calls, 2);
	assert_int_equal(pagehint_map_free(map), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_anon),         cmocka_unit_test(test_shared),
		cmocka_unit_test(test_private_file), cmocka_unit_test(test_bitmap_of_replaced_pages),
		cmocka_unit_test(test_new),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
