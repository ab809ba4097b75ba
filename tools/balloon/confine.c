#include "confine.h"

#include <errno.h>
#include <pwd.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cap-ng.h>
#include <seccomp.h>

#include <pagehint/pagehint.h>

#define RULES_MAX 400

static int become(const char *user)
{
	errno = 0;
	const struct passwd *who = getpwnam(user);
	if (who == NULL)
		return errno != 0 ? -errno : -ENOENT;
	capng_clear(CAPNG_SELECT_BOTH);
	if (who->pw_uid == 0)
		return capng_apply(CAPNG_SELECT_BOTH) == 0 ? 0 : -EPERM;
	if (capng_change_id((int)who->pw_uid, (int)who->pw_gid, CAPNG_DROP_SUPP_GRP | CAPNG_CLEAR_BOUNDING) != 0)
		return -EPERM;
	/* a process that changed its user may not look at its own /proc/self/smaps, which says what backs the memory */
	return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0 ? 0 : -errno;
}

int confine_privileges(const char *user)
{
	int r = 0;
	if (geteuid() == 0) {
		r = become(user);
	} else if (capng_have_capabilities(CAPNG_SELECT_CAPS) > CAPNG_NONE) {
		capng_clear(CAPNG_SELECT_CAPS);
		r = capng_apply(CAPNG_SELECT_CAPS) == 0 ? 0 : -EPERM;
	}
	if (r == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		r = -errno;
	return r;
}

/* what a worker calls beside the library: its clients, its end, and the C library's own */
static const char *const worker_calls[] = {
	"poll",   "ppoll",  "ppoll_time64",   "accept4",      "recvfrom",        "recv",          "recvmsg",
	"sendto", "send",   "sendmsg",        "write",        "close",           "exit_group",    "exit",
	"getpid", "gettid", "rt_sigreturn",   "sigreturn",    "restart_syscall", "clock_gettime", "clock_gettime64",
	"brk",    "munmap", "rt_sigprocmask", "rt_sigaction", "futex",
};

/* what the keeper adds: it makes workers, and clears up after them */
static const char *const keeper_calls[] = {
	"clone",           "clone3",     "fork",  "vfork",   "wait4",    "waitpid", "waitid",  "kill",
	"tgkill",          "socketpair", "read",  "unlink",  "unlinkat", "dup",     "fcntl",   "fcntl64",
	"set_robust_list", "rseq",       "prctl", "seccomp", "mprotect", "getuid",  "geteuid", "set_tid_address",
};

/* A rule that another one contains already is no error. */
static int added(int r)
{
	return r == -EEXIST ? 0 : r;
}

static int allow_names(scmp_filter_ctx filter, const char *const *names, size_t n)
{
	int r = 0;
	for (size_t i = 0; i < n && r == 0; i++) {
		int call = seccomp_syscall_resolve_name(names[i]);
		if (call != __NR_SCMP_ERROR && call >= 0) /* negative: none of this architecture */
			r = added(seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 0));
	}
	return r;
}

/* The library's manifest. Who makes a call is not asked: all of it is linked in. */
static int allow_library(scmp_filter_ctx filter)
{
	static struct pagehint_syscall rules[RULES_MAX];
	const uint32_t who =
		PAGEHINT_SYSCALLS_CORE | PAGEHINT_SYSCALLS_MAP | PAGEHINT_SYSCALLS_MADVISE | PAGEHINT_SYSCALLS_VHOST;
	uint32_t n = 0;
	int r = pagehint_syscalls(who, rules, RULES_MAX, &n);
	if (r == 0 && n > RULES_MAX)
		r = -ENOSPC;
	for (uint32_t i = 0; i < n && r == 0; i++) {
		const struct pagehint_syscall *rule = &rules[i];
		if (rule->mask == 0)
			r = added(seccomp_rule_add(filter, SCMP_ACT_ALLOW, (int)rule->nr, 0));
		else
			r = added(seccomp_rule_add(filter, SCMP_ACT_ALLOW, (int)rule->nr, 1,
						   SCMP_CMP(rule->arg, SCMP_CMP_MASKED_EQ, rule->mask, rule->value)));
	}
	return r;
}

int confine_calls(enum confine_who who)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
	if (filter == NULL)
		return -ENOMEM;
	int r = allow_library(filter);
	if (r == 0)
		r = allow_names(filter, worker_calls, sizeof(worker_calls) / sizeof(worker_calls[0]));
	if (r == 0 && who == CONFINE_KEEPER)
		r = allow_names(filter, keeper_calls, sizeof(keeper_calls) / sizeof(keeper_calls[0]));
	if (r == 0)
		r = seccomp_load(filter);
	seccomp_release(filter);
	return r;
}
