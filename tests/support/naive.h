/*
 * naive: what a handler that does not know the hazards does, call by call, so that a test can show that it fails.
 */
#ifndef TESTS_SUPPORT_NAIVE_H
#define TESTS_SUPPORT_NAIVE_H

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "support/served.h"

/* A userfaultfd over memory, by the bare calls. Returns its fd. */
static inline int naive_register(void *memory, uint64_t bytes, uint64_t features, uint64_t mode)
{
	struct uffdio_api api = { .api = UFFD_API, .features = features };
	struct uffdio_register all = { .range = { (uintptr_t)memory, bytes }, .mode = mode };
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	assert_true(fd >= 0);
	assert_int_equal(ioctl(fd, UFFDIO_API, &api), 0);
	if (ioctl(fd, UFFDIO_REGISTER, &all) != 0) {
		int error = -errno;
		close(fd);
		return error;
	}
	return fd;
}

/* 0 or -errno; *ret_copied is what the kernel left in the argument. */
static inline int naive_copy(int fd, void *to, const void *from, uint64_t bytes, int64_t *ret_copied)
{
	struct uffdio_copy c = { .dst = (uintptr_t)to, .src = (uintptr_t)from, .len = bytes };
	int r = ioctl(fd, UFFDIO_COPY, &c) == 0 ? 0 : -errno;
	*ret_copied = c.copy;
	return r;
}

static inline int naive_continue(int fd, void *to, uint64_t bytes)
{
	struct uffdio_continue c = { .range = { (uintptr_t)to, bytes } };
	return ioctl(fd, UFFDIO_CONTINUE, &c) == 0 ? 0 : -errno;
}

/* One message, waited for. */
static inline struct uffd_msg naive_read(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct uffd_msg m;
	memset(&m, 0, sizeof(m));
	assert_int_equal(poll(&p, 1, 10000), 1);
	assert_int_equal(read(fd, &m, sizeof(m)), sizeof(m));
	return m;
}

static inline int naive_readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	return poll(&p, 1, 0) == 1;
}

static inline int in_core(void *memory, uint64_t page)
{
	unsigned char c = 0;
	assert_int_equal(mincore((unsigned char *)memory + page * PAGE, PAGE, &c), 0);
	return c & 1;
}

/* A thread that gives memory away, or touches it, and says when it is through. */
struct deed {
	unsigned char *at;
	uint64_t bytes;
	int advice; /* or -1: reads a word */
	uint64_t seen;
	_Atomic int done;
	pthread_t id;
};

static inline void *deed_do(void *arg)
{
	struct deed *d = arg;
	if (d->advice >= 0)
		d->seen = (uint64_t)(madvise(d->at, d->bytes, d->advice) == 0 ? 0 : errno);
	else
		d->seen = __atomic_load_n((uint64_t *)(void *)d->at, __ATOMIC_RELAXED);
	atomic_store(&d->done, 1);
	return NULL;
}

static inline void deed_start(struct deed *d, void *at, uint64_t bytes, int advice)
{
	memset(d, 0, sizeof(*d));
	d->at = at;
	d->bytes = bytes;
	d->advice = advice;
	assert_int_equal(pthread_create(&d->id, NULL, deed_do, d), 0);
}

/* What it read, or the error of its madvise. */
static inline uint64_t deed_end(struct deed *d)
{
	assert_int_equal(pthread_join(d->id, NULL), 0);
	return d->seen;
}

/* The signal that ends a child which reads a word; 0 = none, and *ret_word is what it read. */
static inline int child_reads(const void *at, uint64_t *ret_word)
{
	int pipes[2], status;
	assert_int_equal(pipe(pipes), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		signal(SIGSEGV, SIG_DFL); /* the test's own would go on with the tests */
		signal(SIGBUS, SIG_DFL);
		uint64_t word = *(const volatile uint64_t *)at;
		_exit(write(pipes[1], &word, sizeof(word)) == sizeof(word) ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status))
		assert_int_equal(read(pipes[0], ret_word, sizeof(*ret_word)), sizeof(*ret_word));
	close(pipes[0]);
	close(pipes[1]);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

#endif
