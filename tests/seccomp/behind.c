/*
 * behind COMMAND.. : runs a test behind a filter of all of the manifest, made by libseccomp, and of what tests themselves need. A call
 * that is neither kills. Which arguments a call may have is asked elsewhere (conformance-*syscalls, pager_filter): here it is every
 * path of every suite that is watched for a call that nobody named.
 */
#include <errno.h>
#include <seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <pagehint/pagehint.h>

#define EVERYBODY                                                                                               \
	(PAGEHINT_SYSCALLS_CORE | PAGEHINT_SYSCALLS_MAP | PAGEHINT_SYSCALLS_MADVISE | PAGEHINT_SYSCALLS_PAGER | \
	 PAGEHINT_SYSCALLS_VHOST | PAGEHINT_SYSCALLS_XEN | PAGEHINT_SYSCALLS_SHARED)
#define RULES_MAX 200

/* What the tests do beside the library, in any way they like. */
static const char *const harness[] = {
	/* a program begins and ends, on the C library's behalf */
	"execve",
	"arch_prctl",
	"set_tid_address",
	"set_robust_list",
	"rseq",
	"prlimit64",
	"access",
	"exit",
	"exit_group",
	"getcwd",
	"readlink",
	"getdents64",
	"rt_sigaction",
	"rt_sigprocmask",
	"rt_sigreturn",
	"sigaltstack",
	"restart_syscall",
	/* the harness prints, and looks at files and memory from outside of the library */
	"write",
	"writev",
	"open",
	"openat",
	"read",
	"pread64",
	"pwrite64",
	"close",
	"lseek",
	"newfstatat",
	"fstat",
	"fstatfs",
	"statfs",
	"unlink",
	"mkdir",
	"rmdir",
	"ftruncate",
	"fallocate",
	"ioctl",
	"fcntl",
	"dup",
	"dup2",
	"mmap",
	"mprotect",
	"mremap",
	"munmap",
	"madvise",
	"mincore",
	"mlock",
	"munlock",
	"msync",
	"memfd_create",
	"userfaultfd",
	"process_madvise",
	/* its threads, children, clocks and talk */
	"clone",
	"clone3",
	"futex",
	"wait4",
	"kill",
	"tgkill",
	"getpid",
	"gettid",
	"getppid",
	"geteuid",
	"getuid",
	"sched_yield",
	"sched_getaffinity",
	"sched_setaffinity",
	"clock_nanosleep",
	"clock_gettime",
	"nanosleep",
	"pipe",
	"pipe2",
	"eventfd2",
	"poll",
	"ppoll",
	"select",
	"epoll_create1",
	"epoll_ctl",
	"epoll_wait",
	"socket",
	"socketpair",
	"bind",
	"listen",
	"accept4",
	"connect",
	"sendto",
	"sendmsg",
	"recvfrom",
	"recvmsg",
	"shutdown",
	"setsockopt",
	"getsockopt",
	"prctl",
	"seccomp",
	"umask",
	"flock",
	"pause",
	"alarm",
	"mknodat",
};

static int add_manifest(scmp_filter_ctx filter)
{
	static struct pagehint_syscall rules[RULES_MAX];
	uint32_t n = 0;
	int r = pagehint_syscalls(EVERYBODY, rules, RULES_MAX, &n);
	for (uint32_t i = 0; r == 0 && i < n && i < RULES_MAX; i++) {
		const struct scmp_arg_cmp only = { rules[i].arg, SCMP_CMP_MASKED_EQ, rules[i].mask, rules[i].value };
		r = seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, (int)rules[i].nr, rules[i].mask != 0, &only);
	}
	return n > RULES_MAX ? -E2BIG : r;
}

static int add_harness(scmp_filter_ctx filter)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < sizeof(harness) / sizeof(harness[0]); i++) {
		int nr = seccomp_syscall_resolve_name(harness[i]);
		if (nr != __NR_SCMP_ERROR && nr >= 0) /* else no call of this machine */
			r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, nr, 0);
	}
	return r;
}

int main(int argc, char **argv)
{
	const struct rlimit no_core = { 0, 0 };
	if (argc < 2) {
		fprintf(stderr, "usage: behind COMMAND..\n");
		return 2;
	}
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
	int r = filter == NULL ? -ENOMEM : add_manifest(filter);
	if (r == 0)
		r = add_harness(filter);
	if (r == 0)
		r = seccomp_load(filter);
	if (r != 0) {
		printf("not applicable: no filter here: %s\n", strerror(-r));
		return 77;
	}
	setrlimit(RLIMIT_CORE, &no_core);
	execv(argv[1], argv + 1);
	perror(argv[1]);
	return 126;
}
