/*
 * filter: a seccomp filter that is made of the manifest, rule by rule as pagehint.h says they are meant, and of nothing else
 * but the call that ends a process. Written out in BPF, so that no library's idea of a rule stands between.
 */
#ifndef TESTS_CONFORMANCE_FILTER_H
#define TESTS_CONFORMANCE_FILTER_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <pagehint/pagehint.h>

/* a sanitizer makes calls of its own, which no manifest can name */
#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || __has_feature(address_sanitizer) || \
	__has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#define RULES_MAX 200

static struct sock_filter program[4096]; /* the kernel takes no more */
static unsigned short length;

static inline void put(uint16_t code, uint32_t k, uint8_t if_true, uint8_t if_false)
{
	program[length++] = (struct sock_filter) { code, if_true, if_false, k };
}

/* (half & mask) == value, else over `skip` instructions. Three instructions. */
static inline void compare_half(uint32_t offset, uint32_t mask, uint32_t value, uint8_t skip)
{
	put(BPF_LD | BPF_W | BPF_ABS, offset, 0, 0);
	put(BPF_ALU | BPF_AND | BPF_K, mask, 0, 0);
	put(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip);
}

static inline void put_rule(const struct pagehint_syscall *r)
{
	const int little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
	const uint32_t arg = (uint32_t)(offsetof(struct seccomp_data, args) + 8 * r->arg);
	put(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
	put(BPF_JMP | BPF_JEQ | BPF_K, r->nr, 0, 7);
	compare_half(arg + (little ? 0 : 4), (uint32_t)r->mask, (uint32_t)r->value, 4);
	compare_half(arg + (little ? 4 : 0), (uint32_t)(r->mask >> 32), (uint32_t)(r->value >> 32), 1);
	put(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
}

/* A rule to leave out: all of a name, or the one with this value. */
struct left_out {
	const char *name;
	uint64_t value;
};
#define ALL_OF UINT64_MAX

/* What one function of a C library is on one machine or another: to leave out one of a row is to leave out all of it. */
static inline int is_same_call(const char *a, const char *b)
{
	static const char *const rows[][5] = {
		{ "mmap", "mmap2" },
		{ "fstatfs", "fstatfs64" },
		{ "lseek", "_llseek" },
		{ "poll", "ppoll", "ppoll_time64" },
		{ "fcntl", "fcntl64" },
		{ "ftruncate", "ftruncate64" },
		{ "recvmsg", "socketcall" },
		{ "sendmsg", "socketcall" },
		{ "fstat", "fstat64", "newfstatat", "fstatat64", "statx" },
	};
	if (strcmp(a, b) == 0)
		return 1;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		unsigned met = 0;
		for (size_t k = 0; k < 5 && rows[i][k] != NULL; k++)
			met += (strcmp(a, rows[i][k]) == 0) + (strcmp(b, rows[i][k]) == 0);
		if (met == 2)
			return 1;
	}
	return 0;
}

static inline int is_left_out(const struct pagehint_syscall *r, const struct left_out *out)
{
	return out != NULL && is_same_call(r->name, out->name) && (out->value == ALL_OF || out->value == r->value);
}

/* The filter of `who`, but for what is left out. Returns how many rules were. */
static inline unsigned make_filter(uint32_t who, const struct left_out *out)
{
	static struct pagehint_syscall rules[RULES_MAX];
	const struct pagehint_syscall leave = { .nr = SYS_exit_group }; /* the child's own */
	uint32_t n = 0;
	unsigned left = 0;
	if (pagehint_syscalls(who, rules, RULES_MAX, &n) != 0 || n > RULES_MAX)
		abort();
	length = 0;
	for (uint32_t i = 0; i < n; i++)
		if (is_left_out(&rules[i], out))
			left++;
		else
			put_rule(&rules[i]);
	put_rule(&leave);
	put(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS, 0, 0);
	return left;
}

/* From here on, one call that no rule fits is the end of this process. -1: refused. */
static inline int install_filter(void)
{
	struct sock_fprog all = { .len = length, .filter = program };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all);
}

#endif
