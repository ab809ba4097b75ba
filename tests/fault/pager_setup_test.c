/*
 * Fails the k-th system call of setting a pager up, poisoning, and taking it down, for k = 1.. until none fails: an error is
 * told, nothing stays open or mapped, and the same succeeds afterwards. What cannot be poisoned is made inaccessible.
 */
#include <errno.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "support/snapshot.h"

#include "pager/pager.h"

static struct faulty {
	struct ph_sys sys;
	int armed, error, struck;
	int open_fds;
	int64_t mapped;
	int no_poison; /* 1: an older kernel */
} f;

static int strikes(void)
{
	if (f.armed == 0 || --f.armed != 0)
		return 0;
	f.struck = 1;
	return 1;
}

static int faulty_userfaultfd(void *ctx, int flags)
{
	int fd = strikes() ? f.error : ph_sys_real.userfaultfd(ctx, flags);
	f.open_fds += fd >= 0;
	return fd;
}

static int faulty_close(void *ctx, int fd)
{
	f.open_fds--;
	return ph_sys_real.close(ctx, fd);
}

static int64_t faulty_ioctl(void *ctx, int fd, unsigned long request, void *argument)
{
	int poison = (request & 0xff) == 0x08;
	if (poison && f.no_poison)
		return -EINVAL;
	return strikes() ? f.error : ph_sys_real.ioctl(ctx, fd, request, argument);
}

static int faulty_madvise(void *ctx, void *addr, size_t length, int advice)
{
	return strikes() ? f.error : ph_sys_real.madvise(ctx, addr, length, advice);
}

static void *faulty_map(void *ctx, size_t length)
{
	void *p = strikes() ? NULL : ph_sys_real.map_memory(ctx, length);
	f.mapped += p != NULL ? (int64_t)length : 0;
	return p;
}

static void faulty_unmap(void *ctx, void *addr, size_t length)
{
	f.mapped -= (int64_t)length;
	ph_sys_real.unmap_memory(ctx, addr, length);
}

static int group_setup(void **state)
{
	(void)snapshot_setup(state);
	f.sys = ph_sys_real;
	f.sys.userfaultfd = faulty_userfaultfd;
	f.sys.close = faulty_close;
	f.sys.ioctl = faulty_ioctl;
	f.sys.madvise = faulty_madvise;
	f.sys.map_memory = faulty_map;
	f.sys.unmap_memory = faulty_unmap;
	return 0;
}

/* Everything that a pager does with no fault of memory. Returns the first error. */
static int whole_life(struct served *s, struct pagehint_source *source)
{
	struct pagehint_pager_opts opts = { .struct_size = sizeof(opts), .shards = 3, .flags = PAGEHINT_PAGER_RECORD };
	struct pagehint_pager *pager;
	int r = ph_pager_new_with(&opts, &f.sys, &pager);
	if (r < 0)
		return r;
	struct pagehint_pager_region region = served_region(s, source, 0);
	r = pagehint_pager_add(pager, &region);
	if (r == 0)
		r = pagehint_pager_abandon(pager, 0);
	f.armed = 0;
	if (r < 0)
		assert_int_equal(pagehint_pager_abandon(pager, 1), 0);
	assert_int_equal(pagehint_pager_free(pager), 0);
	return r;
}

static void each_call(int error)
{
	struct pagehint_source *source;
	assert_int_equal(pagehint_source_memory_new(snapshot, BYTES, &source), 0);
	for (int k = 1; k < 60; k++) {
		struct served s;
		served_memory(&s, BYTES, PAGEHINT_BACKING_ANON);
		f.armed = k;
		f.error = error;
		f.struck = 0;
		int r = whole_life(&s, source), struck = f.struck;
		/* advice on the buffers is no more than that; a single EAGAIN of poisoning is tried again */
		if (r != 0)
			assert_true(struck && (r == error || r == -ENOMEM || r == -EOPNOTSUPP || r == -EINVAL));
		assert_int_equal(f.open_fds, 0);
		assert_int_equal(f.mapped, 0);
		if (r != 0)
			assert_int_equal(whole_life(&s, source), 0);
		munmap(s.memory, s.bytes);
		if (!struck) {
			assert_true(k > 10);
			break;
		}
	}
	pagehint_source_free(source);
}

static void test_each_call(void **state)
{
	(void)state;
	each_call(-ENOMEM);
	each_call(-EINVAL);
	each_call(-EAGAIN);
	each_call(-EPERM);
}

/* A kernel without UFFDIO_POISON: whoever touches what is lost still learns it by a signal. */
static void test_without_poison(void **state)
{
	(void)state;
	struct served s;
	struct pagehint_source *source;
	int pipes[2];
	assert_int_equal(pagehint_source_memory_new(snapshot, BYTES, &source), 0);
	served_memory(&s, BYTES, PAGEHINT_BACKING_ANON);
	f.no_poison = 1;
	assert_int_equal(whole_life(&s, source), 0);
	f.no_poison = 0;
	assert_int_equal(pipe(pipes), 0);
	errno = 0;
	assert_int_equal(write(pipes[1], s.memory + 5 * PAGE, 8), -1);
	assert_int_equal(errno, EFAULT);
	close(pipes[0]);
	close(pipes[1]);
	munmap(s.memory, s.bytes);
	pagehint_source_free(source);
}

static void test_refused(void **state)
{
	(void)state;
	struct pagehint_pager *pager = NULL;
	struct served s;
	const struct pagehint_pager_opts bad[] = {
		{ .struct_size = sizeof(bad[0]), .flags = 1u << 31 },
		{ .struct_size = sizeof(bad[0]), .shards = 257 },
		{ .struct_size = sizeof(bad[0]), .around_min = 513, .around_max = 513 },
		{ .struct_size = sizeof(bad[0]), .around_min = 32, .around_max = 16 },
		{ .struct_size = sizeof(bad[0]), .flights = 1 },
		{ .struct_size = sizeof(bad[0]), .stripe_bytes = 4096 },
		{ .struct_size = sizeof(bad[0]), .frame_shift = 11 },
		{ .struct_size = sizeof(bad[0]), .flags = PAGEHINT_PAGER_FOREIGN },
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(ph_pager_new_with(&bad[i], &f.sys, &pager), -EINVAL);
		assert_null(pager);
	}
	assert_int_equal(f.open_fds, 0);
	served_memory(&s, BYTES, PAGEHINT_BACKING_ANON);
	served_pager(&s, NULL);
	struct pagehint_pager_region r = served_region(&s, NULL, 0), b;
	b = r, b.frames = 0;
	assert_int_equal(pagehint_pager_add(s.pager, &b), -EINVAL);
	b = r, b.frame = UINT64_MAX >> 12, b.frames = 2;
	assert_int_equal(pagehint_pager_add(s.pager, &b), -EINVAL);
	b = r, b.host_addr += 8;
	assert_int_equal(pagehint_pager_add(s.pager, &b), -EINVAL);
	b = r, b.flags = 1u << 30;
	assert_int_equal(pagehint_pager_add(s.pager, &b), -EINVAL);
	b = r, b.page_bytes = 12288;
	assert_int_equal(pagehint_pager_add(s.pager, &b), -EINVAL);
	b = r, b.flags = PAGEHINT_PAGER_ATTACH;
	assert_int_equal(pagehint_pager_add(s.pager, &b), -EINVAL);
	assert_int_equal(pagehint_pager_add(s.pager, &r), 0);
	assert_int_equal(pagehint_pager_add(s.pager, &r), -EEXIST);
	b = r, b.frame = PAGES * 2; /* the same memory under other frames */
	assert_int_equal(pagehint_pager_add(s.pager, &b), -EEXIST);
	served_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_call),
		cmocka_unit_test(test_without_poison),
		cmocka_unit_test(test_refused),
	};
	if (!may_serve())
		return 77;
	alarm(60);
	return cmocka_run_group_tests(tests, group_setup, NULL);
}
