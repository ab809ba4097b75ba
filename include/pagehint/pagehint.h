/*
 * pagehint.h: what the library is as a whole: its version, what was built in, and every syscall it may make.
 * It includes no other header of the library: take the ones you need.
 */
#ifndef PAGEHINT_PAGEHINT_H
#define PAGEHINT_PAGEHINT_H

#include <stdint.h>

#include <pagehint/api.h>

PAGEHINT_BEGIN

#define PAGEHINT_VERSION_MAJOR 0
#define PAGEHINT_VERSION_MINOR 1
#define PAGEHINT_VERSION_PATCH 0

/** pagehint_version - the version that is linked, as "0.1.0". Thread: any.  Cost: O(1).  Since: 0.1 */
PAGEHINT_API const char *pagehint_version(void);

/* features that may be built in */
#define PAGEHINT_FEATURE_MADVISE 1u  /* the madvise backend */
#define PAGEHINT_FEATURE_PAGER 8u    /* the pager: userfaultfd */
#define PAGEHINT_FEATURE_XEN 32u     /* pagehint_xen_open: hypercalls through privcmd */
#define PAGEHINT_FEATURE_XENCALL 64u /* built beside it: libpagehint-xen, hypercalls through libxencall */

/** pagehint_features - bits PAGEHINT_FEATURE_* of what was built in. Thread: any.  Cost: O(1).  Since: 0.1 */
PAGEHINT_API uint64_t pagehint_features(void);

/** struct pagehint_syscall - one line of the manifest: a seccomp rule. An argument is compared where its mask is not 0. */
struct pagehint_syscall {
	uint64_t value; /* (argument & mask) == value */
	uint64_t mask;
	uint32_t nr;      /* syscall number of the architecture that the library was built for */
	uint32_t arg;     /* which argument, 0..5 */
	uint32_t backend; /* PAGEHINT_SYSCALLS_* that makes it */
	uint32_t reserved;
	char name[24]; /* as in the kernel's table, for people */
};

/* who makes a syscall */
#define PAGEHINT_SYSCALLS_CORE 1u    /* creating and freeing handles, the clock, the fork check */
#define PAGEHINT_SYSCALLS_MAP 2u     /* pagehint_map_add */
#define PAGEHINT_SYSCALLS_MADVISE 4u /* the madvise backend */
#define PAGEHINT_SYSCALLS_PAGER 8u   /* a pager, and a file as its source */
#define PAGEHINT_SYSCALLS_VHOST 16u  /* the device behind a vhost-user socket */
#define PAGEHINT_SYSCALLS_SHARED 64u /* pagehint_zone_attach */
#define PAGEHINT_SYSCALLS_XEN 32u    /* pagehint_xen_open and handles made by it, own memory, the kernel's balloon */

/**
 * pagehint_syscalls - every syscall that the library makes, with the argument values it uses
 * @who:   PAGEHINT_SYSCALLS_*, or-ed
 * @rules: array of max
 * @max:   room [rules]
 * @ret_n: how many there are; more than max = call again with more room
 * A syscall is allowed when any of its rules fits. What libc does inside malloc and free (brk, mmap, munmap) is in CORE.
 * Return: 0; -EINVAL who is 0 or unknown.
 * Thread: any.   Cost: O(rules).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_syscalls(uint32_t who, struct pagehint_syscall *rules, uint32_t max,
						       uint32_t *ret_n);

PAGEHINT_END
#endif
