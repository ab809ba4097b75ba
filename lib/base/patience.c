#include "base/patience.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KILLED_WITHIN_MS 100 /* a child that does not die in this time is left to the system */

/* of newer headers; the layout of the kernel's first struct clone_args */
#define FLAG_PIDFD UINT64_C(0x1000)
#define BY_PIDFD 3
struct child_args {
	uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
};

static int64_t now_ns(void)
{
	struct timespec t;
	return clock_gettime(CLOCK_MONOTONIC, &t) < 0 ? -1 : (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/*
 * Only system calls here: what another thread was doing at this moment is half done for ever. Whoever waits may die before it
 * can kill us: then we go, too.
 */
static void try_it(const char *path, int flags, long parent)
{
	if (syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || syscall(SYS_getppid) != parent)
		syscall(SYS_exit_group, ECANCELED);
	long fd = syscall(SYS_openat, AT_FDCWD, path, flags);
	syscall(SYS_exit_group, fd < 0 ? errno & 0xff : 0);
}

/* 0 when the child has ended, -ETIMEDOUT, or -errno. */
static int await(int pidfd, int64_t deadline)
{
	for (;;) {
		int64_t left = deadline - now_ns();
		if (left <= 0)
			return -ETIMEDOUT;
		int64_t ms = left / 1000000 + 1;
		struct pollfd p = { .fd = pidfd, .events = POLLIN, .revents = 0 };
		int r = poll(&p, 1, ms > 1000000 ? 1000000 : (int)ms);
		if (r > 0)
			return 0;
		if (r < 0 && errno != EINTR)
			return -errno;
	}
}

/* What the child came to: 0 or -errno. It has ended, or is made to. */
static int collect(int pidfd, int waited)
{
	siginfo_t info;
	memset(&info, 0, sizeof(info));
	if (waited < 0) {
		struct pollfd p = { .fd = pidfd, .events = POLLIN, .revents = 0 };
		(void)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
		(void)poll(&p, 1, KILLED_WITHIN_MS);
	}
	long r = syscall(SYS_waitid, BY_PIDFD, pidfd, &info, WEXITED | WNOHANG | __WALL, NULL);
	if (waited < 0)
		return waited;
	return r < 0 ? -errno : info.si_code == CLD_EXITED ? -info.si_status : -EINTR;
}

int ph_sys_open_within(void *ctx, const char *path, int flags, int64_t timeout_ns)
{
	(void)ctx;
	int pidfd = -1;
	struct child_args args = { .flags = FLAG_PIDFD, .pidfd = (uintptr_t)&pidfd };
	long parent = syscall(SYS_getpid);
	int64_t start = now_ns();
	int64_t deadline = start > INT64_MAX - timeout_ns ? INT64_MAX : start + timeout_ns;
	long child =
		syscall(SYS_clone3, &args, sizeof(args)); /* no signal when it ends: nobody else's wait() sees it */
	if (child < 0)
		return -errno;
	if (child == 0)
		try_it(path, flags | O_CLOEXEC, parent);
	int r = collect(pidfd, await(pidfd, deadline));
	close(pidfd);
	if (r < 0)
		return r;
	int fd = open(path, flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}
