/*
 * The vhost-user backend behind a filter made of the manifest: a child lives in it while its parent is the frontend. That the
 * program needs no more than it says is shown with real guests in peers; here, that each rule is needed or harmless.
 */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "support/vhost_talk.h"

#include "conformance/filter.h"

#define MIB (UINT64_C(1) << 20)
#define REPORT 4u
#define WHO (PAGEHINT_SYSCALLS_CORE | PAGEHINT_SYSCALLS_MAP | PAGEHINT_SYSCALLS_MADVISE | PAGEHINT_SYSCALLS_VHOST)
#define EXIT_REFUSED 3

/* Steps without waiting until the frontend is gone. */
static void be_backend(int socket)
{
	struct pagehint_vhost *vhost = NULL;
	uint64_t deadline;
	if (install_filter() != 0)
		_exit(EXIT_REFUSED);
	if (pagehint_vhost_new(NULL, &vhost) != 0 || pagehint_vhost_attach(vhost, socket) != 0)
		_exit(1);
	while (pagehint_vhost_step(vhost, 1, &deadline, NULL) != -ENODEV)
		;
	_exit(pagehint_vhost_free(vhost) != 0);
}

/* Everything that makes a system call: memory, descriptors of both kinds, an inflight area, a report, an interrupt. */
static int be_frontend(struct frontend *f)
{
	const struct ph_vhost_inflight_said inflight = { .queues = 5, .queue_size = FE_SIZE };
	if (talk_greet(f) != 0 || talk(f, PH_VHOST_GET_INFLIGHT_FD, &inflight, sizeof(inflight), -1) != 0 ||
	    talk_memory(f) != 0 || talk_ring(f, REPORT) != 0)
		return -1;
	fe_submit(f, REPORT, FE_GUEST + FE_DATA, MIB, 1, 1);
	fe_kick(f, REPORT);
	return talk_reap(f, REPORT) == 1 ? talk_ring_word(f, PH_VHOST_GET_VRING_BASE, REPORT, 0) : -1;
}

/* What became of the backend; -1: no filter here (said). ret_done: the session went through. */
static int run(int *ret_done)
{
	const struct rlimit no_core = { 0, 0 };
	struct frontend f = { .channel = -1 };
	int pair[2], status = 0;
	f.ram_fd = memfd_create("guest", MFD_CLOEXEC);
	assert_true(f.ram_fd >= 0 && ftruncate(f.ram_fd, (off_t)FE_BYTES) == 0);
	f.ram = mmap(NULL, FE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, f.ram_fd, 0);
	assert_true(f.ram != MAP_FAILED);
	f.kick[REPORT] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	f.call[REPORT] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	fe_driver(&f, REPORT);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	fflush(stdout);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		setrlimit(RLIMIT_CORE, &no_core);
		close(pair[0]);
		be_backend(pair[1]);
	}
	close(pair[1]);
	ph_vhost_wire_init(&f.wire, &ph_sys_real, pair[0]);
	*ret_done = be_frontend(&f) == 0;
	close(pair[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	free(f.driver_memory[REPORT]);
	close(f.kick[REPORT]);
	close(f.call[REPORT]);
	munmap(f.ram, FE_BYTES);
	close(f.ram_fd);
	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_REFUSED) {
		printf("not applicable: this process may not install a seccomp filter\n");
		return -1;
	}
	return status;
}

static void test_nothing_else_is_called(void **state)
{
	int done;
	(void)state;
	make_filter(WHO, NULL);
	int status = run(&done);
	if (status == -1)
		return;
	assert_int_equal(status, 0);
	assert_true(done);
}

static void test_a_rule_less_kills(void **state)
{
	static const struct left_out needed[] = {
		{ "recvmsg", ALL_OF },      { "sendmsg", ALL_OF },       { "write", ALL_OF },
		{ "read", ALL_OF },         { "epoll_create1", ALL_OF }, { "epoll_ctl", ALL_OF },
		{ "memfd_create", ALL_OF }, { "ftruncate", ALL_OF },     { "fcntl", ALL_OF },
		{ "close", ALL_OF },        { "munmap", ALL_OF },        { "fallocate", 3 },
	};
	int done;
	(void)state;
	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		if (make_filter(WHO, &needed[i]) == 0)
			continue; /* not a call of this architecture */
		int status = run(&done);
		if (status == -1)
			return;
		if (!WIFSIGNALED(status))
			printf("lived without %s\n", needed[i].name);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_else_is_called),
		cmocka_unit_test(test_a_rule_less_kills),
	};
	if (SANITIZED) {
		printf("left out: a sanitizer makes calls of its own\n");
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
