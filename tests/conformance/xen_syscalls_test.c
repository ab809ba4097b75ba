/*
 * What the library does for Xen makes no call that is not in the manifest: behind a filter of PAGEHINT_SYSCALLS_CORE and _XEN, a
 * file that keeps its opener waiting is given up in time, a child process and all; with one rule less that kills.
 *
 * Where there is no Xen, hypercalls are not made: that opening it ends with -ENODEV is all that can be seen of them here.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <pagehint/pagehint.h>
#include <pagehint/xen.h>

#include "base/sys.h"
#include "conformance/filter.h"

#define EXIT_REFUSED 2 /* no filter can be had */
#define EXIT_NO_CLONE 3

static char directory[] = "/tmp/pagehint-xen-XXXXXX", path[64];

static void child(void)
{
	struct pagehint_xen_opts opts = { .struct_size = sizeof(opts), .domid = PAGEHINT_XEN_SELF };
	struct pagehint_xen *xen = NULL;
	uint64_t target = 0;
	if (install_filter() < 0)
		_exit(EXIT_REFUSED);
	int r = pagehint_xen_open(&opts, &xen);
	if (r == 0)
		r = pagehint_xen_free(xen);
	if (r != 0 && r != -ENODEV && r != -EOPNOTSUPP && r != -EACCES)
		_exit(10);
	r = pagehint_xen_get_target(&target, NULL);
	if (r != 0 && r != -ENODEV)
		_exit(11);
	r = ph_sys_real.open_within(NULL, path, O_RDONLY, 10000000);
	if (r == -ENOSYS || r == -EPERM)
		_exit(EXIT_NO_CLONE);
	if (r != -ETIMEDOUT)
		_exit(12);
	r = ph_sys_real.open_within(NULL, "/dev/null", O_RDWR, INT64_MAX);
	if (r < 0 || ph_sys_real.write(NULL, r, "x", 1) != 1 || ph_sys_real.close(NULL, r) < 0)
		_exit(13);
	_exit(0);
}

static int run(void)
{
	int status = 0;
	fflush(stdout);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		child();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void test_behind_a_filter(void **state)
{
	(void)state;
	static const struct left_out needed[] = {
		{ "clone3", ALL_OF },
		{ "pidfd_send_signal", ALL_OF },
		{ "waitid", ALL_OF },
		{ "write", ALL_OF },
	};
	make_filter(PAGEHINT_SYSCALLS_CORE | PAGEHINT_SYSCALLS_XEN, NULL);
	int status = run();
	if (WIFEXITED(status) && (WEXITSTATUS(status) == EXIT_REFUSED || WEXITSTATUS(status) == EXIT_NO_CLONE)) {
		printf("not applicable: no seccomp filter or no clone3 here\n");
		return;
	}
	assert_int_equal(status, 0);
	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		assert_true(make_filter(PAGEHINT_SYSCALLS_CORE | PAGEHINT_SYSCALLS_XEN, &needed[i]) > 0);
		status = run();
		if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS)
			printf("lived without %s\n", needed[i].name);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
	}
}

static int prepare(void **state)
{
	(void)state;
	if (mkdtemp(directory) == NULL)
		return -1;
	snprintf(path, sizeof(path), "%s/pipe", directory);
	return mkfifo(path, 0600);
}

static int clean_up(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(directory);
}

#ifndef __has_feature
#define __has_feature(x) 0
#endif

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_behind_a_filter) };
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || __has_feature(address_sanitizer) || \
	__has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
	printf("left out: a sanitizer makes calls of its own\n");
	return 0;
#endif
	return cmocka_run_group_tests(tests, prepare, clean_up);
}
