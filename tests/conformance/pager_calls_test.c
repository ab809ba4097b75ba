/*
 * What userfaultfd does to system calls, forks and moves of who does not expect it (see pager_hazards_test.c). A naive handler
 * fails first; the pager does not.
 */
#include "support/naive.h"

#include <sys/uio.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define PAGES 64u
#define BYTES (PAGES * PAGE)

static unsigned char *snapshot;

static int group_setup(void **state)
{
	(void)state;
	snapshot = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	snapshot_write(snapshot, PAGES);
	return 0;
}

static struct pagehint_source *serve(struct served *s, uint32_t backing, struct pagehint_pager_opts *opts,
				     uint32_t flags)
{
	struct pagehint_source *source;
	assert_int_equal(pagehint_source_memory_new(snapshot, BYTES, &source), 0);
	served_memory(s, BYTES, backing);
	served_pager(s, opts);
	struct pagehint_pager_region r = served_region(s, source, flags);
	assert_int_equal(pagehint_pager_add(s->pager, &r), 0);
	return source;
}

static void close_all(struct served *s, struct pagehint_source *source)
{
	served_close(s);
	pagehint_source_free(source);
}

static struct pagehint_pager *on_fault;

static void on_sigbus(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	int r = pagehint_pager_resolve(on_fault, info->si_addr);
	if (r != 0 && r != -EAGAIN)
		_exit(9);
}

/* Where faults are signals, system calls get no signal: they fail. */
static void test_system_calls_in_signal_mode(void **state)
{
	(void)state;
	struct served s;
	struct pagehint_pager_opts opts = { .flags = PAGEHINT_PAGER_SIGBUS, .around_min = 1, .around_max = 1 };
	struct pagehint_source *source = serve(&s, PAGEHINT_BACKING_ANON, &opts, 0);
	struct sigaction on = { .sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO }, old;
	int pipes[2];
	on_fault = s.pager;
	assert_int_equal(sigaction(SIGBUS, &on, &old), 0);
	assert_true(page_is(s.memory, 0, snapshot_word(0))); /* a plain access is resolved by its own thread */
	assert_int_equal(served_stats(&s).faults, 1);
	assert_int_equal(pipe(pipes), 0);
	struct iovec iov = { s.memory + PAGE, 8 };
	errno = 0;
	assert_int_equal(write(pipes[1], s.memory + PAGE, 8), -1);
	assert_int_equal(errno, EFAULT);
	assert_int_equal(writev(pipes[1], &iov, 1), -1);
	assert_int_equal(madvise(s.memory + PAGE, PAGE, MADV_POPULATE_WRITE), -1);
	assert_true(errno == EFAULT || errno == EINVAL); /* or a kernel that does not know it */
	/* made present before, all of them work */
	assert_int_equal(pagehint_pager_ensure(s.pager, 1, 4, NULL), 0);
	assert_int_equal(write(pipes[1], s.memory + PAGE, 8), 8);
	assert_int_equal(writev(pipes[1], &iov, 1), 8);
	assert_int_equal(read(pipes[0], s.memory + 2 * PAGE, 8), 8);
	assert_int_equal(memcmp(s.memory + 2 * PAGE, s.memory + PAGE, 8), 0);
	close(pipes[0]);
	close(pipes[1]);
	assert_int_equal(sigaction(SIGBUS, &old, NULL), 0);
	close_all(&s, source);
}

/* A child reads zeros where its parent would have got the snapshot. */
static void test_fork(void **state)
{
	(void)state;
	struct served n;
	uint64_t word = 7;
	served_memory(&n, BYTES, PAGEHINT_BACKING_ANON);
	int fd = naive_register(n.memory, BYTES, 0, UFFDIO_REGISTER_MODE_MISSING);
	assert_int_equal(child_reads(n.memory, &word), 0);
	assert_int_equal(word, 0);
	close(fd);
	munmap(n.memory, BYTES);

	struct served s;
	struct pagehint_source *source = serve(&s, PAGEHINT_BACKING_ANON, NULL, 0);
	assert_int_equal(child_reads(s.memory, &word), SIGSEGV);
	/* and what the child does with its copy of the handle reaches nobody's memory */
	pid_t pid = fork();
	int status;
	uint64_t deadline;
	if (pid == 0)
		_exit(pagehint_pager_resolve(s.pager, s.memory) == -ENODEV &&
				      pagehint_pager_step(s.pager, 0, 1, &deadline) == -ENODEV &&
				      pagehint_pager_free(s.pager) == 0
			      ? 0
			      : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	assert_int_equal(in_core(s.memory, 0), 0);
	close_all(&s, source);
}

struct move {
	uint64_t dst, src, len, mode;
	int64_t moved;
};
#define MOVE _IOWR(UFFDIO, 0x05, struct move)

static int naive_move(int fd, void *to, void *from, uint64_t bytes)
{
	struct move m = { .dst = (uintptr_t)to, .src = (uintptr_t)from, .len = bytes };
	return ioctl(fd, MOVE, &m) == 0 ? 0 : -errno;
}

/* Pages that a child shares cannot be moved, nor pages of shared memory. The pager's own buffer is in no child. */
static void test_move(void **state)
{
	(void)state;
	struct served n, shared;
	int pipes[2], status;
	served_memory(&n, BYTES, PAGEHINT_BACKING_ANON);
	served_memory(&shared, BYTES, PAGEHINT_BACKING_SHARED);
	memset(shared.memory, 1, PAGE);
	unsigned char *staging = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(staging, 1, BYTES);
	int fd = naive_register(n.memory, BYTES, 0, UFFDIO_REGISTER_MODE_MISSING);
	int r = naive_move(fd, n.memory, staging, PAGE);
	if (r != 0) {
		printf("not applicable: this kernel moves no pages (error %d)\n", r);
		close(fd);
		return;
	}
	assert_int_equal(pipe(pipes), 0);
	pid_t pid = fork();
	char byte;
	if (pid == 0) {
		close(pipes[1]);
		_exit(read(pipes[0], &byte, 1) == 0 ? 0 : 1);
	}
	assert_int_equal(naive_move(fd, n.memory + PAGE, staging + PAGE, PAGE), -EBUSY);
	assert_int_equal(naive_move(fd, n.memory + PAGE, shared.memory, PAGE), -EINVAL);
	close(fd);

	struct served s;
	struct pagehint_source *source;
	uint64_t bytes = UINT64_C(4) << 20, brought = 0, deadline = 0;
	int file = memfd_create("snapshot", MFD_CLOEXEC);
	assert_int_equal(ftruncate(file, (off_t)bytes), 0);
	assert_int_equal(pwrite(file, snapshot, BYTES, 0), BYTES);
	for (uint64_t at = 0; at < bytes; at += BYTES)
		assert_int_equal(pwrite(file, snapshot, BYTES, (off_t)at), BYTES);
	assert_int_equal(pagehint_source_file_new(file, 0, bytes, &source), 0);
	served_memory(&s, bytes, PAGEHINT_BACKING_ANON);
	served_pager(&s, NULL);
	struct pagehint_pager_region region = served_region(&s, source, 0);
	assert_int_equal(pagehint_pager_add(s.pager, &region), 0);
	pid_t second = fork(); /* a child that lives while it fills */
	if (second == 0) {
		close(pipes[1]);
		_exit(read(pipes[0], &byte, 1) == 0 ? 0 : 1);
	}
	while (deadline != UINT64_MAX)
		assert_int_equal(pagehint_pager_fill(s.pager, UINT32_MAX, 1, 0, &brought, &deadline), 0);
	assert_int_equal(served_stats(&s).moves, 2);
	for (uint64_t i = 0; i < bytes / PAGE; i++)
		assert_true(page_is(s.memory, i, snapshot_word(i % PAGES)));
	close(pipes[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(waitpid(second, &status, 0), second);
	close(pipes[0]);
	close(file);
	close_all(&s, source);
	munmap(staging, BYTES);
	munmap(n.memory, BYTES);
	munmap(shared.memory, BYTES);
	close(shared.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_system_calls_in_signal_mode),
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_move),
	};
	if (!may_serve())
		return 77;
	return cmocka_run_group_tests(tests, group_setup, NULL);
}
