/*
 * Fails each call of the pager in each way that the kernel may, the k-th time it is made, for k = 1.. until it is not made
 * that often: no thread waits for ever (an alarm ends the test), no page is lost, none is zero that should not be.
 *
 * EEXIST comes true: the page is installed first, as if another had been faster. The embedder's answer to failures is to
 * try again, so that everything must be there in the end.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>

#include "support/snapshot.h"

#include "pager/pager.h"
#include "pager/uffd.h"

#define TRIES 12u

enum call { COPY, ZERO, CONTINUE, PROTECT, WAKE, MOVE, READ, PREAD, CALLS };

static struct faulty {
	struct ph_sys sys;
	enum call call;
	int error;
	int64_t left;      /* what stays in the argument */
	_Atomic int armed; /* calls until the one that fails */
	int times;         /* how many fail in a row */
	_Atomic int struck;
} f;

static _Atomic unsigned told;

static int strikes(enum call call)
{
	if (call != f.call)
		return 0;
	int armed = atomic_fetch_sub(&f.armed, 1);
	if (armed > 1 || armed <= 1 - f.times)
		return 0;
	atomic_fetch_add(&f.struck, 1);
	return 1;
}

static enum call call_of(unsigned long request)
{
	switch (request & 0xff) {
	case 0x03:
		return COPY;
	case 0x04:
		return ZERO;
	case 0x05:
		return MOVE;
	case 0x06:
		return PROTECT;
	case 0x07:
		return CONTINUE;
	case 0x02:
		return WAKE;
	default:
		return CALLS;
	}
}

/* Where each argument keeps its count. */
static int64_t *count_of(enum call call, void *argument)
{
	switch (call) {
	case COPY:
		return (int64_t *)&((struct uffdio_copy *)argument)->copy;
	case ZERO:
		return (int64_t *)&((struct uffdio_zeropage *)argument)->zeropage;
	case CONTINUE:
		return (int64_t *)&((struct uffdio_continue *)argument)->mapped;
	case MOVE:
		return (int64_t *)((uint64_t *)argument + 4);
	default:
		return NULL;
	}
}

/* Installs the first page for another who was faster. */
static void be_first(enum call call, int fd, void *argument)
{
	if (call == COPY) {
		struct uffdio_copy c = *(struct uffdio_copy *)argument;
		c.len = PAGE;
		c.mode |= UFFDIO_COPY_MODE_DONTWAKE;
		(void)ioctl(fd, UFFDIO_COPY, &c);
	} else if (call == ZERO) {
		struct uffdio_zeropage z = *(struct uffdio_zeropage *)argument;
		z.range.len = PAGE;
		z.mode |= UFFDIO_ZEROPAGE_MODE_DONTWAKE;
		(void)ioctl(fd, UFFDIO_ZEROPAGE, &z);
	} else if (call == CONTINUE) {
		struct uffdio_continue c = *(struct uffdio_continue *)argument;
		c.range.len = PAGE;
		c.mode |= UFFDIO_CONTINUE_MODE_DONTWAKE;
		(void)ioctl(fd, UFFDIO_CONTINUE, &c);
	}
}

static int64_t faulty_ioctl(void *ctx, int fd, unsigned long request, void *argument)
{
	enum call call = call_of(request);
	if (call == CALLS || !strikes(call))
		return ph_sys_real.ioctl(ctx, fd, request, argument);
	if (f.error == -EEXIST)
		be_first(call, fd, argument);
	if (count_of(call, argument) != NULL)
		*count_of(call, argument) = f.left;
	return f.error;
}

static int64_t faulty_read(void *ctx, int fd, void *buffer, size_t length)
{
	return strikes(READ) ? f.error : ph_sys_real.read(ctx, fd, buffer, length);
}

/* Fails, or gives less than was asked for. */
static int64_t faulty_pread(void *ctx, int fd, void *buffer, size_t length, uint64_t offset)
{
	if (!strikes(PREAD))
		return ph_sys_real.pread(ctx, fd, buffer, length, offset);
	return f.error != 0 ? f.error : ph_sys_real.pread(ctx, fd, buffer, 100, offset);
}

static uint32_t try_again(void *ctx, const struct pagehint_pager_failure *failure)
{
	(void)ctx;
	assert_true(failure->error < 0);
	atomic_fetch_add(&told, 1);
	return PAGEHINT_FAIL_RETRY;
}

static int group_setup(void **state)
{
	(void)snapshot_setup(state);
	f.sys = ph_sys_real;
	f.sys.ioctl = faulty_ioctl;
	f.sys.read = faulty_read;
	f.sys.pread = faulty_pread;
	return 0;
}

struct scene {
	const char *name;
	uint32_t backing;
	uint32_t flags;
	enum { NOWHERE, MEMORY, IN_FILE, READ_FILE } from;
	int writes; /* touches by writing */
};

static const struct scene scenes[] = {
	{ "anon", PAGEHINT_BACKING_ANON, 0, MEMORY, 0 },
	{ "shared", PAGEHINT_BACKING_SHARED, 0, MEMORY, 0 },
	{ "zero", PAGEHINT_BACKING_ANON, 0, NOWHERE, 0 },
	{ "minor", PAGEHINT_BACKING_SHARED, PAGEHINT_PAGER_MINOR, IN_FILE, 0 },
	{ "tracked", PAGEHINT_BACKING_ANON, PAGEHINT_PAGER_TRACK, MEMORY, 1 },
	{ "file", PAGEHINT_BACKING_ANON, 0, READ_FILE, 0 },
};

struct opened {
	struct served s;
	struct pagehint_source *source;
	int file;
};

static void open_scene(struct opened *o, const struct scene *c)
{
	struct pagehint_pager_opts opts = {
		.struct_size = sizeof(opts), .failed = try_again, .around_min = 4, .around_max = 8
	};
	memset(o, 0, sizeof(*o));
	served_memory(&o->s, BYTES, c->backing);
	o->file = memfd_create("snapshot", MFD_CLOEXEC);
	assert_int_equal(write(o->file, snapshot, BYTES), BYTES);
	if (c->from == MEMORY)
		assert_int_equal(pagehint_source_memory_new(snapshot, BYTES, &o->source), 0);
	else if (c->from == READ_FILE)
		assert_int_equal(ph_source_file_new_with(o->file, 0, BYTES, &f.sys, &o->source), 0);
	else if (c->from == IN_FILE)
		assert_int_equal(pwrite(o->s.fd, snapshot, BYTES, 0), BYTES);
	assert_int_equal(ph_pager_new_with(&opts, &f.sys, &o->s.pager), 0);
	struct pagehint_pager_region r = served_region(&o->s, o->source, c->flags);
	assert_int_equal(pagehint_pager_add(o->s.pager, &r), 0);
}

static void close_scene(struct opened *o)
{
	served_close(&o->s);
	pagehint_source_free(o->source);
	close(o->file);
}

/* A server that goes on after an error, as an embedder would that has logged it. Its time is simulated: pauses are over at once. */
static void *stubborn(void *arg)
{
	struct served *s = arg;
	uint64_t deadline = 0, now = 1;
	struct pollfd p[2] = { { .events = POLLIN }, { .fd = s->stop_fd, .events = POLLIN } };
	assert_int_equal(pagehint_pager_fd(s->pager, 0, &p[0].fd), 0);
	for (;;) {
		int n = poll(p, 2, deadline == UINT64_MAX ? -1 : 0);
		if (n > 0 && p[1].revents != 0)
			return NULL;
		if (n == 0 && deadline > now)
			now = deadline;
		if (pagehint_pager_step(s->pager, 0, now, &deadline) != 0)
			deadline = now;
	}
}

static uint64_t expected(const struct scene *c, uint64_t page)
{
	return c->from == NOWHERE ? 0 : snapshot_word(page);
}

static void touch_all(const struct scene *c, struct served *s)
{
	for (uint64_t i = 0; i < PAGES; i++) {
		if (c->writes) /* the same word: what is there must not change by it */
			__atomic_store_n((uint64_t *)(void *)(s->memory + i * PAGE), expected(c, i), __ATOMIC_RELAXED);
		if (!page_is(s->memory, i, expected(c, i)))
			printf("%s: call %d error %d: page %u\n", c->name, f.call, f.error, (unsigned)i);
		assert_true(page_is(s->memory, i, expected(c, i)));
	}
}

/* Returns whether the fault was met at all. */
static int with_a_fault(const struct scene *c, enum call call, int error, int64_t left, int k, int times)
{
	struct opened o;
	f.call = CALLS;
	open_scene(&o, c);
	f.call = call;
	f.error = error;
	f.left = left;
	f.times = times;
	atomic_store(&f.struck, 0);
	atomic_store(&f.armed, k);
	o.s.stop_fd = eventfd(0, EFD_CLOEXEC);
	assert_int_equal(pthread_create(&o.s.threads[0], NULL, stubborn, &o.s), 0);
	touch_all(c, &o.s);
	served_stop(&o.s);
	f.call = CALLS;
	assert_int_equal(served_stats(&o.s).poisoned, 0);
	assert_int_equal(served_stats(&o.s).surprises, 0);
	close_scene(&o);
	return atomic_load(&f.struck) != 0;
}

static void each_time(const struct scene *c, enum call call, int error, int64_t left, int times)
{
	int met = 1, k;
	for (k = 1; k <= (int)TRIES && met; k++)
		met = with_a_fault(c, call, error, left, k, times);
}

static void test_installing(void **state)
{
	(void)state;
	static const struct {
		int error;
		int64_t left;
	} faults[] = {
		{ -EAGAIN, 0 },       { -EAGAIN, -EAGAIN }, { -EEXIST, -EEXIST }, { -EEXIST, 0 },       { -ENOENT, 0 },
		{ -EFAULT, -EFAULT }, { -EINTR, 0 },        { -ENOMEM, -ENOMEM }, { -ENOSPC, -ENOSPC }, { 0, 0 },
	};
	for (size_t c = 0; c < sizeof(scenes) / sizeof(scenes[0]); c++)
		for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
			for (enum call call = COPY; call <= CONTINUE; call++) {
				each_time(&scenes[c], call, faults[i].error, faults[i].left, 1);
				/* many in a row are no news, but for one that was answered by being told */
				(void)with_a_fault(&scenes[c], call, faults[i].error, faults[i].left, 2, 70);
			}
}

static void test_reading(void **state)
{
	(void)state;
	for (size_t c = 0; c < sizeof(scenes) / sizeof(scenes[0]); c++) {
		each_time(&scenes[c], READ, -EINTR, 0, 1);
		each_time(&scenes[c], READ, -EAGAIN, 0, 1);
		each_time(&scenes[c], READ, -EIO, 0, 3);
		each_time(&scenes[c], READ, -ENOMEM, 0, 1);
	}
}

static void test_waking_and_protecting(void **state)
{
	(void)state;
	for (size_t c = 0; c < sizeof(scenes) / sizeof(scenes[0]); c++) {
		each_time(&scenes[c], WAKE, -EINTR, 0, 3);
		each_time(&scenes[c], WAKE, -ENOMEM, 0, 3);
		each_time(&scenes[c], WAKE, -EAGAIN, 0, 3);
		each_time(&scenes[c], PROTECT, -EAGAIN, 0, 1);
		each_time(&scenes[c], PROTECT, -EINTR, 0, 1);
		each_time(&scenes[c], PROTECT, -ENOMEM, 0, 1);
	}
}

static void test_source(void **state)
{
	(void)state;
	const struct scene *c = &scenes[5];
	atomic_store(&told, 0);
	each_time(c, PREAD, -EIO, 0, 1); /* a window fails: its pages are tried alone, and nobody need be told */
	assert_int_equal(atomic_load(&told), 0);
	each_time(c, PREAD, -EIO, 0, 2); /* and a page alone: told, and tried again */
	assert_true(atomic_load(&told) > 0);
	each_time(c, PREAD, -EINTR, 0, 1);
	each_time(c, PREAD, -ENOMEM, 0, 4);
	each_time(c, PREAD, 0, 0, 1); /* short */
	each_time(c, PREAD, 0, 0, 50);
}

/* The background: whatever a move meets, the same pages come by copying. */
static void test_moving(void **state)
{
	(void)state;
	static const int errors[] = { -EAGAIN, -EBUSY, -EINVAL, -ENOMEM, -EINTR, -ENOENT, -EFAULT };
	const uint64_t bytes = UINT64_C(4) << 20;
	int file = memfd_create("snapshot", MFD_CLOEXEC);
	for (uint64_t at = 0; at < bytes; at += BYTES)
		assert_int_equal(pwrite(file, snapshot, BYTES, (off_t)at), BYTES);
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		for (int k = 1; k <= 2; k++) {
			struct served s;
			struct pagehint_source *source;
			struct pagehint_pager_opts opts = { .struct_size = sizeof(opts), .failed = try_again };
			uint64_t deadline = 0, now = 1;
			f.call = MOVE;
			f.error = errors[i];
			f.left = errors[i];
			f.times = 1;
			atomic_store(&f.armed, k);
			served_memory(&s, bytes, PAGEHINT_BACKING_ANON);
			assert_int_equal(pagehint_source_file_new(file, 0, bytes, &source), 0);
			assert_int_equal(ph_pager_new_with(&opts, &f.sys, &s.pager), 0);
			struct pagehint_pager_region r = served_region(&s, source, 0);
			assert_int_equal(pagehint_pager_add(s.pager, &r), 0);
			for (int calls = 0; deadline != UINT64_MAX; calls++) {
				assert_true(calls < 100);
				int e = pagehint_pager_fill(s.pager, UINT32_MAX, now, 0, NULL, &deadline);
				assert_true(e == 0 || e == f.error);
				now = deadline > now && deadline != UINT64_MAX ? deadline : now;
			}
			for (uint64_t p = 0; p < bytes / PAGE; p++)
				assert_true(page_is(s.memory, p, snapshot_word(p % PAGES)));
			f.call = CALLS;
			served_close(&s);
			pagehint_source_free(source);
		}
	close(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_installing),
		cmocka_unit_test(test_reading),
		cmocka_unit_test(test_waking_and_protecting),
		cmocka_unit_test(test_source),
		cmocka_unit_test(test_moving),
	};
	if (!may_serve())
		return 77;
	alarm(240); /* a thread that waits for ever must not */
	return cmocka_run_group_tests(tests, group_setup, NULL);
}
