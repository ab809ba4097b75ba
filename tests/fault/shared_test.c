/* Every call of the system that a host of a shared zone makes fails once: a clear error, and nothing stays mapped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include "support/shared_zone.h"

#include <cmocka.h>

#include "alloc/attach.h"
#include "alloc/reclaimer.h"

/* The real system, whose k-th call fails. */
struct faulty {
	uint64_t calls, fail_at; /* 0 = none */
	uint64_t mapped;         /* bytes, of what was given and not taken back */
	int error;               /* what it failed with */
};

static int fails(struct faulty *f, int error)
{
	if (++f->calls != f->fail_at)
		return 0;
	f->error = error;
	return 1;
}

static int f_fstat(void *ctx, int fd, struct stat *st)
{
	return fails(ctx, -EIO) ? -EIO : ph_sys_real.fstat(NULL, fd, st);
}

static int f_map_shared(void *ctx, int fd, size_t length, uint64_t offset, void **ret_addr)
{
	struct faulty *f = ctx;
	int r = fails(f, -EAGAIN) ? -EAGAIN : ph_sys_real.map_shared(NULL, fd, length, offset, ret_addr);
	f->mapped += r == 0 ? length : 0;
	return r;
}

/* over a mapping that is there: nothing to add */
static int f_mmap_fixed_anon(void *ctx, void *addr, size_t length)
{
	return fails(ctx, -ENOMEM) ? -ENOMEM : ph_sys_real.mmap_fixed_anon(NULL, addr, length);
}

static void *f_map_memory(void *ctx, size_t length)
{
	struct faulty *f = ctx;
	void *memory = fails(f, -ENOMEM) ? NULL : ph_sys_real.map_memory(NULL, length);
	f->mapped += memory != NULL ? length : 0;
	return memory;
}

static void f_unmap_memory(void *ctx, void *addr, size_t length)
{
	struct faulty *f = ctx;
	f->mapped -= length;
	ph_sys_real.unmap_memory(NULL, addr, length);
}

static struct ph_sys faulty_sys(struct faulty *f)
{
	struct ph_sys sys = ph_sys_real;
	sys.ctx = f;
	sys.fstat = f_fstat;
	sys.map_shared = f_map_shared;
	sys.mmap_fixed_anon = f_mmap_fixed_anon;
	sys.map_memory = f_map_memory;
	sys.unmap_memory = f_unmap_memory;
	return sys;
}

/* What was refused must have left the zone as it was: a sound handle on it works, and its frames are all there. */
static void assert_unhurt(struct shared_zone *s)
{
	struct pagehint_zone_stats stats = { .struct_size = sizeof(stats) };
	struct pagehint_zone *again;
	assert_int_equal(pagehint_zone_attach(s->fd, 0, &s->opts, 3, &again), 0);
	assert_int_equal(pagehint_zone_check(again, NULL), 0);
	assert_int_equal(pagehint_zone_stats(again, &stats), 0);
	assert_int_equal(stats.free, SHARED_SECTION);
	pagehint_zone_detach(again);
}

static void test_attach_fails_at_every_call(void **state)
{
	struct shared_zone s;
	uint64_t failed = 0;
	(void)state;
	assert_int_equal(shared_zone_make(&s, 1, 0, 9), 0);
	for (uint64_t k = 1;; k++) {
		struct faulty f = { .fail_at = k };
		struct ph_sys sys = faulty_sys(&f);
		struct pagehint_zone *zone = (void *)&f;
		int r = ph_zone_attach_with(&sys, s.fd, 0, &s.opts, 2, &zone);
		if (f.calls < k) {
			assert_int_equal(r, 0);
			pagehint_zone_detach(zone);
			break;
		}
		assert_int_equal(r, f.error);
		assert_ptr_equal(zone, &f); /* not written */
		assert_int_equal(f.mapped, 0);
		assert_unhurt(&s);
		failed++;
	}
	assert_int_equal(failed, 3);
	shared_zone_close(&s);
}

/* What is refused before any call makes none. */
static void test_attach_refuses_without_a_call(void **state)
{
	struct shared_zone s;
	struct faulty f = { 0 };
	struct ph_sys sys = faulty_sys(&f);
	struct pagehint_zone *zone;
	(void)state;
	assert_int_equal(shared_zone_make(&s, 1, 0, 9), 0);
	assert_int_equal(ph_zone_attach_with(&sys, s.fd, 1, &s.opts, 2, &zone), -EINVAL);
	assert_int_equal(ph_zone_attach_with(&sys, s.fd, 0, &s.opts, 2, NULL), -EINVAL);
	assert_int_equal(f.calls, 0);
	/* of another zone: mapped, compared, and let go */
	struct pagehint_zone_opts other = s.opts;
	other.max_caches++;
	assert_int_equal(ftruncate(s.fd, 64 << 20), 0);
	assert_int_equal(ph_zone_attach_with(&sys, s.fd, 0, &other, 2, &zone), -EINVAL);
	assert_int_equal(f.calls, 2);
	assert_int_equal(f.mapped, 0);
	shared_zone_close(&s);
}

static void test_reclaimer_fails_at_every_call(void **state)
{
	struct shared_zone s;
	struct shared_sink sink = { .frames = SHARED_SECTION };
	struct pagehint_backend *backend;
	uint64_t failed = 0;
	(void)state;
	assert_int_equal(shared_zone_make(&s, 1, 0, 9), 0);
	assert_int_equal(shared_backend(&sink, &backend), 0);
	for (uint64_t k = 1;; k++) {
		struct faulty f = { .fail_at = k };
		struct ph_sys sys = faulty_sys(&f);
		struct pagehint_reclaimer *r = (void *)&f;
		int error = ph_reclaimer_new_with(&sys, s.zone, backend, NULL, &r);
		if (f.calls < k) {
			assert_int_equal(error, 0);
			assert_true(f.mapped > 0);
			pagehint_reclaimer_free(r);
			assert_int_equal(f.mapped, 0);
			break;
		}
		assert_int_equal(error, f.error);
		assert_ptr_equal(r, &f);
		assert_int_equal(f.mapped, 0);
		assert_unhurt(&s);
		failed++;
	}
	assert_int_equal(failed, 1);
	assert_int_equal(sink.runs, 0);
	assert_int_equal(pagehint_backend_free(backend), 0);
	shared_zone_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_attach_fails_at_every_call),
		cmocka_unit_test(test_attach_refuses_without_a_call),
		cmocka_unit_test(test_reclaimer_fails_at_every_call),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
