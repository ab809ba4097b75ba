/*
 * Fails the k-th syscall of a discard and of a populate, for k = 1.. until nothing fails any more, on every backing.
 *
 * Whatever happens: bytes outside the runs are as they were, every run is accounted for, what is said to be gone is gone,
 * the same discard succeeds afterwards, statistics agree, and nothing stays in flight or open.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <pagehint/gate.h>

#include "support/backing.h"

#include <cmocka.h>

#include "memory/map.h"

/* The real system, with a counter and one call that fails. */
struct faulty {
	struct ph_sys sys;
	int armed; /* calls until the one that fails; 0 = none will */
	int error;
	int failed;
	int open_fds;
};

static struct faulty faulty;
static struct pagehint_gate *gate;

static int strikes(void)
{
	if (faulty.armed == 0 || --faulty.armed != 0)
		return 0;
	faulty.failed = 1;
	return 1;
}

static int faulty_madvise(void *ctx, void *addr, size_t length, int advice)
{
	return strikes() ? faulty.error : ph_sys_real.madvise(ctx, addr, length, advice);
}

static int64_t faulty_together(void *ctx, int pidfd, const struct iovec *iov, size_t n, int advice)
{
	return strikes() ? faulty.error : ph_sys_real.process_madvise(ctx, pidfd, iov, n, advice);
}

static int faulty_pidfd_open(void *ctx, int64_t pid)
{
	int r = strikes() ? faulty.error : ph_sys_real.pidfd_open(ctx, pid);
	faulty.open_fds += r >= 0;
	return r;
}

static int faulty_fallocate(void *ctx, int fd, int mode, uint64_t offset, uint64_t length)
{
	return strikes() ? faulty.error : ph_sys_real.fallocate(ctx, fd, mode, offset, length);
}

static int faulty_mmap(void *ctx, void *addr, size_t length)
{
	return strikes() ? faulty.error : ph_sys_real.mmap_fixed_anon(ctx, addr, length);
}

static int faulty_open(void *ctx, const char *path, int flags)
{
	int r = strikes() ? faulty.error : ph_sys_real.open(ctx, path, flags);
	faulty.open_fds += r >= 0;
	return r;
}

static int64_t faulty_pread(void *ctx, int fd, void *buffer, size_t length, uint64_t offset)
{
	return strikes() ? faulty.error : ph_sys_real.pread(ctx, fd, buffer, length, offset);
}

static int faulty_mincore(void *ctx, void *addr, size_t length, unsigned char *in_core)
{
	return strikes() ? faulty.error : ph_sys_real.mincore(ctx, addr, length, in_core);
}

static int64_t faulty_lseek(void *ctx, int fd, int64_t offset, int whence)
{
	return strikes() ? faulty.error : ph_sys_real.lseek(ctx, fd, offset, whence);
}

static int faulty_close(void *ctx, int fd)
{
	faulty.open_fds--;
	return ph_sys_real.close(ctx, fd);
}

/* A case that failed leaves these as they were when it did; the next one starts with new ones. */
static int start(void **state)
{
	struct subject *s = *state;
	faulty.armed = faulty.failed = faulty.open_fds = 0;
	s->sys = &faulty.sys;
	s->gate = NULL;
	if (pagehint_gate_new(&gate) < 0)
		return -1;
	s->gate = gate;
	return 0;
}

static int end(void **state)
{
	int r = subject_cleanup(state);
	if (pagehint_gate_free(gate) < 0)
		r = -1; /* held by a discard that never ended: it is left to it */
	gate = NULL;
	return r;
}

static void arm(int k, int error)
{
	faulty.armed = k;
	faulty.error = error;
	faulty.failed = 0;
}

static int all(const unsigned char *p, uint64_t bytes, unsigned char value)
{
	return p[0] == value && memcmp(p, p + 1, (size_t)bytes - 1) == 0;
}

static uint64_t frames(const struct subject *s, uint64_t units)
{
	return units * s->unit >> 12;
}

static void check_idle(const struct subject *s)
{
	struct pagehint_region_info info = { .struct_size = sizeof(info) };
	assert_int_equal(pagehint_map_lookup(s->map, FIRST_FRAME, &info), 0);
	assert_int_equal(info.in_flight, 0);
	assert_int_equal(pagehint_gate_in_flight(gate), 0);
}

/* Adds to what the statistics must come to. */
static void account(struct pagehint_outcome *total, const struct pagehint_outcome *o, uint64_t asked)
{
	assert_int_equal(o->asked, asked);
	assert_int_equal(o->freed + o->absent + o->accepted + o->kept + o->lazy + o->failed, asked);
	total->asked += o->asked;
	total->freed += o->freed;
	total->absent += o->absent;
	total->accepted += o->accepted;
	total->kept += o->kept;
	total->failed += o->failed;
}

static void check_stats(const struct subject *s, const struct pagehint_outcome *total)
{
	struct pagehint_backend_stats stats = { .struct_size = sizeof(stats) };
	assert_int_equal(pagehint_backend_stats(s->backend, &stats), 0);
	assert_int_equal(stats.asked, total->asked);
	assert_int_equal(stats.freed, total->freed);
	assert_int_equal(stats.absent, total->absent);
	assert_int_equal(stats.accepted, total->accepted);
	assert_int_equal(stats.kept, total->kept);
	assert_int_equal(stats.failed, total->failed);
	assert_int_equal(stats.in_flight, 0);
}

/* Units 1, 3 and 6 go; 3 in two runs that are merged. Returns 1 when the fault struck. */
static int discard_once(struct subject *s, int k, int error, uint32_t flags)
{
	const uint64_t half = frames(s, 1) / 2;
	const struct pagehint_run runs[] = { { FIRST_FRAME + frames(s, 6), 2 * half },
					     { FIRST_FRAME + frames(s, 3) + half, half },
					     { FIRST_FRAME + frames(s, 1), 2 * half },
					     { FIRST_FRAME + frames(s, 3), half } };
	struct pagehint_outcome out[4], sum, total = { 0 };
	uint32_t done = 0;
	memset(s->memory, USED, (size_t)(UNITS * s->unit));
	const uint64_t before = host_holds(s);
	arm(k, error);
	int r = pagehint_backend_discard(s->backend, runs, 4, flags, out, &sum, &done);
	const int struck = faulty.failed;
	arm(0, 0);
	assert_int_equal(done, 4);
	assert_int_equal(r < 0, sum.failed != 0);
	for (unsigned i = 0; i < 4; i++) {
		account(&total, &out[i], runs[i].frames << 12);
		/* what is said to be gone reads as zero (the probe may miss, the promise may not) */
		const unsigned char *at = s->memory + ((runs[i].frame - FIRST_FRAME) << 12);
		if (out[i].freed + out[i].accepted == out[i].asked)
			assert_true(all(at, out[i].asked, 0));
		else
			assert_true(all(at, out[i].asked, 0) || all(at, out[i].asked, USED));
	}
	check_idle(s);
	/* nothing is lost: the same again succeeds, and all of it leaves the host */
	assert_int_equal(pagehint_backend_discard(s->backend, runs, 4, 0, out, NULL, NULL), 0);
	for (unsigned i = 0; i < 4; i++)
		account(&total, &out[i], runs[i].frames << 12);
	assert_int_equal(before - host_holds(s), 3 * s->unit);
	for (uint64_t i = 0; i < UNITS; i++)
		assert_true(all(s->memory + i * s->unit, s->unit, i == 1 || i == 3 || i == 6 ? 0 : USED));
	check_stats(s, &total);
	check_idle(s);
	return struck;
}

static const int errors[] = { -ENOMEM, -EINVAL, -EPERM, -EAGAIN, -EIO, -ENOSYS };
#define ERRORS (sizeof(errors) / sizeof(errors[0]))

static void test_discard(void **state)
{
	struct subject *s = *state;
	const uint32_t flags[] = { 0, PAGEHINT_DISCARD_PROBE, PAGEHINT_DISCARD_PROBE | PAGEHINT_DISCARD_ZERO };
	for (unsigned f = 0; f < 3; f++)
		for (unsigned e = 0; e < ERRORS; e++) {
			int struck = 1, k = 0;
			while (struck) {
				if (!subject_open(s))
					return;
				struck = discard_once(s, ++k, errors[e], flags[f]);
				subject_close(s);
				assert_int_equal(faulty.open_fds, 0);
				assert_true(k < 100);
			}
			assert_true(k > 1); /* at least one call could fail */
		}
}

static void test_populate(void **state)
{
	struct subject *s = *state;
	for (unsigned e = 0; e < ERRORS; e++) {
		int struck = 1;
		for (int k = 1; struck; k++) {
			uint32_t done = 9;
			if (!subject_open(s))
				return;
			const struct pagehint_run run = { FIRST_FRAME + frames(s, 2), frames(s, 2) };
			memset(s->memory, USED, (size_t)(UNITS * s->unit));
			const uint64_t before = host_holds(s);
			assert_int_equal(pagehint_backend_discard(s->backend, &run, 1, 0, NULL, NULL, NULL), 0);
			arm(k, errors[e]);
			int r = pagehint_backend_populate(s->backend, &run, 1, &done);
			struck = faulty.failed;
			arm(0, 0);
			assert_int_equal(done, r == 0);
			check_idle(s);
			if (r < 0)
				assert_int_equal(pagehint_backend_populate(s->backend, &run, 1, &done), 0);
			assert_int_equal(host_holds(s), before);
			for (uint64_t i = 0; i < UNITS; i++)
				assert_true(all(s->memory + i * s->unit, s->unit, i == 2 || i == 3 ? 0 : USED));
			subject_close(s);
			assert_int_equal(faulty.open_fds, 0);
		}
	}
}

/* Creation with the k-th call failing: a handle that works without batches, or an error; never a leak. */
static void test_new(void **state)
{
	struct subject *s = *state;
	for (unsigned e = 0; e < ERRORS; e++) {
		int struck = 1;
		for (int k = 1; struck; k++) {
			struct pagehint_map *map = NULL;
			struct pagehint_backend *b = NULL;
			assert_int_equal(ph_map_new_with(NULL, s->sys, &map), 0);
			arm(k, errors[e]);
			int r = pagehint_madvise_new(map, NULL, NULL, &b);
			struck = faulty.failed;
			arm(0, 0);
			assert_int_equal(r, 0);
			assert_int_equal(pagehint_backend_free(b), 0);
			assert_int_equal(pagehint_map_free(map), 0);
			assert_int_equal(faulty.open_fds, 0);
		}
	}
}

static struct subject subjects[] = {
	{ .name = "anon", .kind = ANON, .expected = PAGEHINT_BACKING_ANON },
	{ .name = "anon, locked", .kind = LOCKED, .expected = PAGEHINT_BACKING_ANON },
	{ .name = "anon, transparent huge pages", .kind = THP, .expected = PAGEHINT_BACKING_ANON },
	{ .name = "shared memfd", .kind = SHARED, .expected = PAGEHINT_BACKING_SHARED },
	{ .name = "shared anonymous", .kind = SHARED_ANON, .expected = PAGEHINT_BACKING_SHARED },
	{ .name = "hugetlb", .kind = HUGETLB, .expected = PAGEHINT_BACKING_HUGETLB },
	{ .name = "private file", .kind = FILE_PRIVATE, .expected = PAGEHINT_BACKING_FILE_PRIVATE },
	{ .name = "private memfd", .kind = MEMFD_PRIVATE, .expected = PAGEHINT_BACKING_FILE_PRIVATE },
};

#define SUBJECTS (sizeof(subjects) / sizeof(subjects[0]))

int main(void)
{
	static struct CMUnitTest tests[2 * SUBJECTS + 1];
	static char names[2 * SUBJECTS][64];
	faulty.sys = ph_sys_real;
	faulty.sys.madvise = faulty_madvise;
	faulty.sys.process_madvise = faulty_together;
	faulty.sys.pidfd_open = faulty_pidfd_open;
	faulty.sys.fallocate = faulty_fallocate;
	faulty.sys.mmap_fixed_anon = faulty_mmap;
	faulty.sys.open = faulty_open;
	faulty.sys.pread = faulty_pread;
	faulty.sys.mincore = faulty_mincore;
	faulty.sys.lseek = faulty_lseek;
	faulty.sys.close = faulty_close;
	for (size_t i = 0; i < SUBJECTS; i++) {
		snprintf(names[2 * i], sizeof(names[0]), "discard: %s", subjects[i].name);
		snprintf(names[2 * i + 1], sizeof(names[0]), "populate: %s", subjects[i].name);
		tests[2 * i] = (struct CMUnitTest) { names[2 * i], test_discard, start, end, &subjects[i] };
		tests[2 * i + 1] = (struct CMUnitTest) { names[2 * i + 1], test_populate, start, end, &subjects[i] };
	}
	tests[2 * SUBJECTS] = (struct CMUnitTest) { "new", test_new, start, end, &subjects[0] };
	return _cmocka_run_group_tests("fault", tests, 2 * SUBJECTS + 1, NULL, NULL);
}
