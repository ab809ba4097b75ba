/* Memory of our own in a guest: locked, looked up in pagemap, wiped, given up, and fetched again under the same number. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include <pagehint/backend.h>
#include <pagehint/map.h>

#include "fakes/fake_xen.h"
#include "xen/reservation.h"

#define FRAMES 1536u
#define AT 5000u
#define NAME(i) (300000 + (uint64_t)(i)*7 % 1601) /* where a page lies in the guest: anywhere */
#define PAGEMAP_FD 50
#define ALONE (UINT64_C(1) << 56)
#define OTHERS UINT64_C(400000) /* a page that a fork, or everybody (the page of zeroes), has mapped, too */

static struct fake_xen fake;
static struct pagehint_map *map;
static struct pagehint_xen *xen;
static unsigned char *memory;
static uint64_t out[FRAMES], id, second;
static int opens, hidden, pagemap_error;
static unsigned absent = UINT32_MAX;
static unsigned shared_from, shared_to; /* pages that lie at OTHERS until they are written to */

/* What a write does to a page that is shared for reading: another page takes its place. */
static uint64_t entry(uint64_t i)
{
	const unsigned char *page = memory + i * 4096;
	if (i == absent)
		return 0;
	if (i >= shared_from && i < shared_to && page[0] == 0xa5)
		return UINT64_C(1) << 63 | OTHERS;
	return UINT64_C(1) << 63 | ALONE | (hidden ? 0 : NAME(i));
}

static int own_open(void *ctx, const char *path, int flags)
{
	(void)ctx;
	(void)flags;
	assert_string_equal(path, "/proc/self/pagemap");
	opens++;
	return PAGEMAP_FD;
}

static int own_close(void *ctx, int fd)
{
	(void)ctx;
	assert_int_equal(fd, PAGEMAP_FD);
	opens--;
	return 0;
}

static int64_t own_pread(void *ctx, int fd, void *buffer, size_t length, uint64_t offset)
{
	uint64_t *entries = buffer, first = offset / 8 - (uintptr_t)memory / 4096;
	(void)ctx;
	assert_int_equal(fd, PAGEMAP_FD);
	assert_true(first + length / 8 <= FRAMES);
	if (pagemap_error != 0)
		return pagemap_error;
	for (uint64_t i = 0; i < length / 8; i++)
		entries[i] = entry(first + i);
	return (int64_t)length;
}

static int64_t own_getpid(void *ctx)
{
	(void)ctx;
	return 1;
}

static const struct ph_sys sys = { .open = own_open, .close = own_close, .pread = own_pread, .getpid = own_getpid };

static int locked(void)
{
	return syscall(SYS_mlock, memory, FRAMES * 4096) == 0; /* a sanitizer's mlock does nothing */
}

/* In one region, or two: the second has the frames from `border` on. */
static int setup_with(int lock, unsigned border, uint32_t flags)
{
	struct pagehint_region_desc region = { .struct_size = sizeof(region), .frame = AT, .frames = border, .fd = -1 };
	struct pagehint_xen_opts opts = { .struct_size = sizeof(opts),
					  .domid = PAGEHINT_XEN_SELF,
					  .kind = PAGEHINT_XEN_OWN,
					  .p2m = out,
					  .p2m_first = AT,
					  .p2m_frames = FRAMES };
	hidden = pagemap_error = 0;
	shared_from = shared_to = 0;
	opts.flags = flags;
	absent = UINT32_MAX;
	memory = mmap(NULL, FRAMES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(memory != MAP_FAILED);
	if (lock && !locked())
		return -1;
	memset(memory, 0xa5, FRAMES * 4096);
	region.host_addr = (uintptr_t)memory;
	fake_xen_setup(&fake, 0, 100000, 10000);
	fake.domid = PAGEHINT_XEN_SELF;
	for (unsigned i = 0; i < FRAMES; i++) {
		out[i] = PAGEHINT_XEN_NOWHERE;
		fake.present[NAME(i)] = 2;
	}
	fake.current = FRAMES;
	fake.host_total += FRAMES;
	assert_int_equal(pagehint_map_new(NULL, &map), 0);
	assert_int_equal(pagehint_map_add(map, &region, &id), 0);
	if (border < FRAMES) {
		region.frame = AT + border;
		region.frames = FRAMES - border;
		region.host_addr += (uint64_t)border * 4096;
		assert_int_equal(pagehint_map_add(map, &region, &second), 0);
	}
	opts.memory = map;
	assert_int_equal(ph_xen_new_with(&fake_xen_calls, &fake, &opts, &sys, &xen), 0);
	return 0;
}

static int setup(void **state)
{
	(void)state;
	return setup_with(1, FRAMES, 0);
}

static int setup_unlocked(void **state)
{
	(void)state;
	return setup_with(0, FRAMES, 0);
}

static int setup_no_scrub(void **state)
{
	(void)state;
	return setup_with(1, FRAMES, PAGEHINT_XEN_NO_SCRUB);
}

static int setup_two(void **state)
{
	(void)state;
	return setup_with(1, 700, 0);
}

static int teardown(void **state)
{
	(void)state;
	assert_int_equal(pagehint_xen_free(xen), 0);
	assert_int_equal(opens, 0);
	assert_int_equal(pagehint_map_free(map), 0);
	munmap(memory, FRAMES * 4096);
	fake_xen_teardown(&fake);
	return 0;
}

static int all(unsigned page, unsigned char value)
{
	const unsigned char *p = memory + (size_t)page * 4096;
	return p[0] == value && memcmp(p, p + 1, 4095) == 0;
}

static void test_there_and_back(void **state)
{
	(void)state;
	const struct pagehint_run runs[] = { { AT + 10, 600 }, { AT + 1000, 3 } }, whole = { AT, FRAMES };
	struct pagehint_outcome o[2], sum;
	assert_int_equal(pagehint_xen_reclaim(xen, runs, 2, o, &sum), 0);
	assert_int_equal(sum.freed, 603 << 12);
	assert_int_equal(fake.current, FRAMES - 603);
	for (unsigned i = 0; i < FRAMES; i++) {
		int gone = (i >= 10 && i < 610) || (i >= 1000 && i < 1003);
		assert_int_equal(fake.present[NAME(i)] == 0, gone);
		assert_int_equal(out[i] == PAGEHINT_XEN_NOWHERE, !gone);
		assert_true(all(i, gone ? 0 : 0xa5)); /* wiped through the mapping, and nothing else was */
	}
	assert_int_equal(pagehint_xen_reclaim(xen, runs, 2, o, &sum), 0);
	assert_int_equal(sum.absent, 603 << 12);
	assert_int_equal(pagehint_xen_populate(xen, &whole, 1, 0, o, &sum), 0);
	assert_int_equal(sum.accepted, 603 << 12);
	assert_int_equal(sum.kept_why, PAGEHINT_WHY_PRESENT);
	for (unsigned i = 0; i < FRAMES; i++)
		assert_true(out[i] == PAGEHINT_XEN_NOWHERE && fake.present[NAME(i)] != 0);
	fake_xen_check(&fake);
}

static void test_what_may_not_go(void **state)
{
	(void)state;
	const struct pagehint_run run = { AT, 8 }, outside = { AT + FRAMES - 4, 8 };
	struct pagehint_outcome o;
	assert_int_equal(pagehint_map_pin(map, id, NULL), 0);
	assert_int_equal(pagehint_xen_reclaim(xen, &run, 1, &o, NULL), 0);
	assert_int_equal(o.kept_why, PAGEHINT_WHY_PINNED);
	assert_int_equal(pagehint_map_unpin(map, id), 0);
	absent = 3;
	assert_int_equal(pagehint_xen_reclaim(xen, &run, 1, &o, NULL), 0);
	assert_int_equal(o.freed, 7 << 12);
	assert_int_equal(o.kept_why, PAGEHINT_WHY_CANNOT);
	assert_int_equal(pagehint_xen_populate(xen, &outside, 1, 0, &o, NULL), -ERANGE);
	assert_int_equal(pagehint_xen_reclaim(xen, &outside, 1, &o, NULL), 0);
	assert_int_equal(o.freed, 4 << 12); /* beyond the table nothing is ours */
	assert_int_equal(o.absent, 4 << 12);
}

static void test_numbers_are_hidden(void **state)
{
	(void)state;
	const struct pagehint_run run = { AT, 700 };
	struct pagehint_outcome o;
	hidden = 1; /* without the capability pagemap says 0 */
	assert_int_equal(pagehint_xen_reclaim(xen, &run, 1, &o, NULL), -EPERM);
	assert_int_equal(o.failed, 700 << 12);
	hidden = 0;
	pagemap_error = -EACCES;
	assert_int_equal(pagehint_xen_reclaim(xen, &run, 1, &o, NULL), -EACCES);
	assert_int_equal(o.failed, 700 << 12);
	assert_int_equal(fake.current, FRAMES);
	assert_true(all(0, 0xa5));
}

static void test_not_locked(void **state)
{
	(void)state;
	const struct pagehint_run run = { AT, 8 };
	struct pagehint_outcome o;
	assert_int_equal(pagehint_xen_reclaim(xen, &run, 1, &o, NULL), 0);
	assert_int_equal(o.kept, 8 << 12);
	assert_int_equal(o.kept_why, PAGEHINT_WHY_CANNOT); /* the kernel could swap it in where nothing is */
	assert_int_equal(fake.current, FRAMES);
}

/* 700 pages, of which 595 lie where a child, or everybody, has one: that page stays, whatever becomes of the others. */
static struct pagehint_outcome reclaim_shared(void)
{
	const struct pagehint_run run = { AT, 700 };
	struct pagehint_outcome o;
	fake.present[OTHERS] = 2;
	shared_from = 5;
	shared_to = 600;
	assert_int_equal(pagehint_xen_reclaim(xen, &run, 1, &o, NULL), 0);
	assert_int_equal(fake.present[OTHERS], 2);
	return o;
}

/* The wiping puts another page there, which goes. */
static void test_shared_until_written(void **state)
{
	(void)state;
	const struct pagehint_outcome o = reclaim_shared();
	assert_int_equal(o.freed, 700 << 12);
	for (unsigned i = 0; i < 700; i++)
		assert_true(out[i] == NAME(i) && fake.present[NAME(i)] == 0);
}

/* Without the wiping nothing takes its place. */
static void test_shared(void **state)
{
	(void)state;
	const struct pagehint_outcome o = reclaim_shared();
	assert_int_equal(o.freed, 105 << 12);
	assert_int_equal(o.kept, 595 << 12);
	assert_int_equal(o.kept_why, PAGEHINT_WHY_MAPPED);
}

/* A run may reach over regions; each part has the fate of its own region. */
static void test_two_regions(void **state)
{
	(void)state;
	const struct pagehint_run runs[] = { { AT + 600, 100 }, { AT + 700, 50 } }, over = { AT + 690, 20 };
	struct pagehint_outcome o[2], sum;
	struct pagehint_backend *backend = NULL;
	assert_int_equal(pagehint_xen_reclaim(xen, &over, 1, o, NULL), 0);
	assert_int_equal(o[0].freed, 20 << 12);
	assert_int_equal(pagehint_xen_populate(xen, &over, 1, 0, o, NULL), 0);
	assert_int_equal(pagehint_map_pin(map, second, NULL), 0);
	assert_int_equal(pagehint_xen_reclaim(xen, &over, 1, o, NULL), 0);
	assert_int_equal(o[0].freed, 10 << 12);
	assert_int_equal(o[0].kept, 10 << 12);
	assert_int_equal(o[0].kept_why, PAGEHINT_WHY_PINNED);
	assert_int_equal(pagehint_xen_populate(xen, &over, 1, 0, o, NULL), 0);
	/* and a backend does not make one of two */
	assert_int_equal(pagehint_xen_backend_new(xen, NULL, &backend), 0);
	assert_int_equal(pagehint_backend_discard(backend, runs, 2, 0, o, &sum, NULL), 0);
	assert_int_equal(o[0].freed, 100 << 12);
	assert_int_equal(o[1].kept, 50 << 12);
	assert_int_equal(o[1].kept_why, PAGEHINT_WHY_PINNED);
	assert_int_equal(pagehint_backend_free(backend), 0);
	assert_int_equal(pagehint_map_unpin(map, second), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_there_and_back, setup, teardown),
		cmocka_unit_test_setup_teardown(test_what_may_not_go, setup, teardown),
		cmocka_unit_test_setup_teardown(test_numbers_are_hidden, setup, teardown),
		cmocka_unit_test_setup_teardown(test_shared_until_written, setup, teardown),
		cmocka_unit_test_setup_teardown(test_shared, setup_no_scrub, teardown),
		cmocka_unit_test_setup_teardown(test_two_regions, setup_two, teardown),
		cmocka_unit_test_setup_teardown(test_not_locked, setup_unlocked, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
