/*
 * syscalls: the manifest of every syscall that lib/base makes, as seccomp rules.
 *
 * The problem: a VMM behind seccomp dies of a call that nobody told it about. Why this shape: one constant table; a line
 * names the call, who makes it, and the one argument that tells our use from any other. C libraries choose different calls
 * for one function (fstat or newfstatat, open or openat): each that an architecture has is listed, since a rule that nobody
 * needs allows nothing dangerous and a missing one kills. int arguments are compared in their low 32 bits, because the
 * upper half of the register is not defined for them.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/ioctl.h>
#include <linux/net.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <pagehint/pagehint.h>

#define CORE PAGEHINT_SYSCALLS_CORE
#define MAP PAGEHINT_SYSCALLS_MAP
#define MADVISE PAGEHINT_SYSCALLS_MADVISE
#define PAGER PAGEHINT_SYSCALLS_PAGER
#define VHOST PAGEHINT_SYSCALLS_VHOST
#define XEN PAGEHINT_SYSCALLS_XEN
#define SHARED PAGEHINT_SYSCALLS_SHARED
#define EVERYBODY (CORE | MAP | MADVISE | PAGER | VHOST | XEN | SHARED)

#define INT_MASK UINT64_C(0xffffffff)
/* O_LARGEFILE, which musl and 32-bit libraries add; glibc hides the value where long files are the rule */
#ifdef __O_LARGEFILE
#define LARGEFILE ((uint64_t)__O_LARGEFILE)
#else
#define LARGEFILE ((uint64_t)O_LARGEFILE)
#endif

/* values of newer headers */
#define ADVICE_POPULATE_WRITE 23
#define ADVICE_DONTNEED_LOCKED 24
#define ALLOCATE 1                 /* FALLOC_FL_KEEP_SIZE */
#define PUNCH 3                    /* FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE */
#define BY_PIDFD 3                 /* P_PIDFD */
#define STATX_OWN UINT64_C(0x6800) /* AT_STATX_SYNC_TYPE and AT_NO_AUTOMOUNT, which are the C library's choice */
#define PRIVCMD_HYPERCALL 0x305000
#define PRIVCMD_MAP 0x205004

/* [call] whatever its arguments are, or with (argument number arg & mask) == value */
#define ANY(who, call)                                                      \
	{                                                                   \
		.nr = (uint32_t)SYS_##call, .backend = (who), .name = #call \
	}
#define ONLY(who, call, number, bits, wanted)                                                                      \
	{                                                                                                          \
		.value = (uint64_t)(wanted) & (bits), .mask = (bits), .nr = (uint32_t)SYS_##call, .arg = (number), \
		.backend = (who), .name = #call                                                                    \
	}

#define MAP_OWN (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)
#define OPEN_FLAGS (O_RDONLY | O_CLOEXEC)
#define OPEN_BOTH (O_RDWR | O_CLOEXEC)
#define OPEN_WRITE (O_WRONLY | O_CLOEXEC)
#define UFFD(request) ONLY(PAGER, ioctl, 1, INT_MASK, (request))

static const struct pagehint_syscall manifest[] = {
	/* the fork check and the clock (mostly answered by the vDSO, without a call) */
	ANY(CORE, getpid),
#ifdef SYS_clock_gettime
	ONLY(CORE, clock_gettime, 0, INT_MASK, CLOCK_MONOTONIC),
#endif
#ifdef SYS_clock_gettime64
	ONLY(CORE, clock_gettime64, 0, INT_MASK, CLOCK_MONOTONIC),
#endif

/* a look at a pressure file descriptor, never waiting */
#ifdef SYS_poll
	ONLY(CORE, poll, 2, INT_MASK, 0),
#endif
#ifdef SYS_ppoll
	ONLY(CORE, ppoll, 1, INT_MASK, 1),
#endif
#ifdef SYS_ppoll_time64
	ONLY(CORE, ppoll_time64, 1, INT_MASK, 1),
#endif

	/* malloc and free of the C library: memory, its locks, its seed, how many arenas there are to be */
	ANY(CORE, brk),
	ANY(CORE, munmap),
	ANY(CORE, mremap),
	ANY(CORE, mprotect),
#ifdef SYS_mmap
	ONLY(CORE, mmap, 3, INT_MASK, MAP_PRIVATE | MAP_ANONYMOUS),
	ONLY(CORE, mmap, 3, INT_MASK, MAP_OWN),
#endif
#ifdef SYS_mmap2
	ONLY(CORE, mmap2, 3, INT_MASK, MAP_PRIVATE | MAP_ANONYMOUS),
	ONLY(CORE, mmap2, 3, INT_MASK, MAP_OWN),
#endif
	ONLY(CORE, madvise, 2, INT_MASK, MADV_DONTNEED),
	ONLY(CORE, madvise, 2, INT_MASK, MADV_FREE),
#ifdef SYS_futex
	ONLY(CORE, futex, 1, INT_MASK, FUTEX_WAIT_PRIVATE),
	ONLY(CORE, futex, 1, INT_MASK, FUTEX_WAKE_PRIVATE),
#endif
#ifdef SYS_futex_time64
	ONLY(CORE, futex_time64, 1, INT_MASK, FUTEX_WAIT_PRIVATE),
	ONLY(CORE, futex_time64, 1, INT_MASK, FUTEX_WAKE_PRIVATE),
#endif
	ONLY(CORE, getrandom, 2, INT_MASK, GRND_NONBLOCK),
	ANY(CORE, sched_getaffinity),

/* /proc/self/smaps, /sys/kernel/mm/transparent_hugepage and /proc/self/pagemap; which path a filter cannot see */
#ifdef SYS_open
	ONLY(MAP | MADVISE | PAGER, open, 1, INT_MASK & ~LARGEFILE, OPEN_FLAGS),
#endif
	ONLY(MAP | MADVISE | PAGER, openat, 2, INT_MASK & ~LARGEFILE, OPEN_FLAGS),
#ifdef SYS_fcntl /* musl sets FD_CLOEXEC once more, for kernels that did not know O_CLOEXEC */
	ONLY(MAP | MADVISE | PAGER | XEN, fcntl, 1, INT_MASK, F_SETFD),
#endif
#ifdef SYS_fcntl64
	ONLY(MAP | MADVISE | PAGER | XEN, fcntl64, 1, INT_MASK, F_SETFD),
#endif
	ANY(MAP | PAGER, read),
	ANY(MAP | MADVISE | PAGER, close),

	/* what a frontend sends, and what it is told */
	ANY(VHOST, recvmsg),
	ANY(VHOST, sendmsg),
#ifdef SYS_socketcall /* both, by their numbers, where a C library counts on old kernels */
	ONLY(VHOST, socketcall, 0, INT_MASK, SYS_RECVMSG),
	ONLY(VHOST, socketcall, 0, INT_MASK, SYS_SENDMSG),
#endif
	ANY(VHOST, read),
	ANY(VHOST, write),
	ANY(VHOST, close),
	ONLY(VHOST, epoll_create1, 0, INT_MASK, EPOLL_CLOEXEC),
	ANY(VHOST, epoll_ctl),
#ifdef SYS_epoll_wait
	ONLY(VHOST, epoll_wait, 3, INT_MASK, 0),
#endif
	ONLY(VHOST, epoll_pwait, 3, INT_MASK, 0),

/* what stands behind an fd */
#ifdef SYS_fstat
	ANY(MAP | VHOST | SHARED, fstat),
#endif
#ifdef SYS_fstat64
	ANY(MAP | VHOST | SHARED, fstat64),
#endif
#ifdef SYS_newfstatat
	ONLY(MAP | VHOST | SHARED, newfstatat, 3, INT_MASK, AT_EMPTY_PATH),
#endif
#ifdef SYS_fstatat64
	ONLY(MAP | VHOST | SHARED, fstatat64, 3, INT_MASK, AT_EMPTY_PATH),
#endif
#ifdef SYS_statx
	ONLY(MAP | VHOST | SHARED, statx, 2, INT_MASK & ~STATX_OWN, AT_EMPTY_PATH),
#endif
#ifdef SYS_fstatfs
	ANY(MAP, fstatfs),
#endif
#ifdef SYS_fstatfs64
	ANY(MAP, fstatfs64),
#endif

/* that a frontend's descriptor never makes us wait, and its area cannot be taken away under us */
#ifdef SYS_fcntl
	ONLY(VHOST, fcntl, 1, INT_MASK, F_GETFL),
	ONLY(VHOST, fcntl, 1, INT_MASK, F_SETFL),
	ONLY(VHOST, fcntl, 1, INT_MASK, F_ADD_SEALS),
#endif
#ifdef SYS_fcntl64
	ONLY(VHOST, fcntl64, 1, INT_MASK, F_GETFL),
	ONLY(VHOST, fcntl64, 1, INT_MASK, F_SETFL),
	ONLY(VHOST, fcntl64, 1, INT_MASK, F_ADD_SEALS),
#endif

	/* giving back, and the way back */
	ONLY(MADVISE, madvise, 2, INT_MASK, MADV_DONTNEED),
	ONLY(MADVISE, madvise, 2, INT_MASK, ADVICE_DONTNEED_LOCKED),
	ONLY(MADVISE, madvise, 2, INT_MASK, MADV_FREE),
	ONLY(MADVISE, madvise, 2, INT_MASK, MADV_REMOVE),
	ONLY(MADVISE, madvise, 2, INT_MASK, MADV_NOHUGEPAGE),
	ONLY(MADVISE, madvise, 2, INT_MASK, ADVICE_POPULATE_WRITE),
	ONLY(MADVISE, process_madvise, 3, INT_MASK, MADV_DONTNEED),
	ONLY(MADVISE, process_madvise, 3, INT_MASK, ADVICE_DONTNEED_LOCKED),
	ONLY(MADVISE, process_madvise, 3, INT_MASK, MADV_FREE),
	ONLY(MADVISE, pidfd_open, 1, INT_MASK, 0),
	ONLY(MADVISE, fallocate, 1, INT_MASK, PUNCH),
	ONLY(MADVISE, fallocate, 1, INT_MASK, ALLOCATE),

/* a bitmap of the map's own; what a guest or another process shares; fresh pages over what was given back or is ours */
#ifdef SYS_mmap
	ONLY(MAP, mmap, 3, INT_MASK, MAP_OWN),
	ONLY(VHOST | SHARED, mmap, 3, INT_MASK, MAP_SHARED | MAP_NORESERVE),
	ONLY(MADVISE | SHARED, mmap, 3, INT_MASK, MAP_OWN | MAP_FIXED),
#endif
#ifdef SYS_mmap2
	ONLY(MAP, mmap2, 3, INT_MASK, MAP_OWN),
	ONLY(VHOST | SHARED, mmap2, 3, INT_MASK, MAP_SHARED | MAP_NORESERVE),
	ONLY(MADVISE | SHARED, mmap2, 3, INT_MASK, MAP_OWN | MAP_FIXED),
#endif
	ANY(MAP | VHOST | SHARED, munmap),

	/* the area that a frontend keeps over a restart */
	ANY(VHOST, memfd_create),
#ifdef SYS_ftruncate
	ANY(VHOST, ftruncate),
#endif
#ifdef SYS_ftruncate64
	ANY(VHOST, ftruncate64),
#endif

/* the residency probe */
#ifdef SYS_pread64
	ANY(MADVISE | PAGER, pread64),
#endif
	ANY(MADVISE, mincore),
#ifdef SYS_lseek
	ONLY(MADVISE | PAGER, lseek, 2, INT_MASK, SEEK_DATA),
	ONLY(PAGER, lseek, 2, INT_MASK, SEEK_HOLE),
#endif
#ifdef SYS__llseek
	ONLY(MADVISE | PAGER, _llseek, 4, INT_MASK, SEEK_DATA),
	ONLY(PAGER, _llseek, 4, INT_MASK, SEEK_HOLE),
#endif

	/* paging: the descriptor (by its call, or by its device where that is refused), and what is asked of it */
	ANY(PAGER, userfaultfd),
#ifdef SYS_open
	ONLY(PAGER, open, 1, INT_MASK & ~LARGEFILE, OPEN_BOTH),
#endif
	ONLY(PAGER, openat, 2, INT_MASK & ~LARGEFILE, OPEN_BOTH),
	UFFD(_IO(0xAA, 0x00)), /* USERFAULTFD_IOC_NEW */
	UFFD(UFFDIO_API),
	UFFD(UFFDIO_REGISTER),
	UFFD(UFFDIO_UNREGISTER),
	UFFD(UFFDIO_WAKE),
	UFFD(UFFDIO_COPY),
	UFFD(UFFDIO_ZEROPAGE),
	UFFD(UFFDIO_WRITEPROTECT),
	UFFD(UFFDIO_CONTINUE),
	UFFD(_IOWR(0xAA, 0x08, uint64_t[4])), /* UFFDIO_POISON */
	UFFD(_IOWR(0xAA, 0x05, uint64_t[5])), /* UFFDIO_MOVE */
	ONLY(PAGER, madvise, 2, INT_MASK, MADV_DONTFORK),
	ONLY(PAGER, madvise, 2, INT_MASK, MADV_HUGEPAGE),
	ONLY(PAGER, mprotect, 2, INT_MASK, PROT_NONE),

/* Xen: devices, sysfs and pagemap; buffers and foreign frames are mappings of the devices */
#ifdef SYS_open
	ONLY(XEN, open, 1, INT_MASK & ~LARGEFILE, OPEN_FLAGS),
	ONLY(XEN, open, 1, INT_MASK & ~LARGEFILE, OPEN_BOTH),
	ONLY(XEN, open, 1, INT_MASK & ~LARGEFILE, OPEN_WRITE),
#endif
	ONLY(XEN, openat, 2, INT_MASK & ~LARGEFILE, OPEN_FLAGS),
	ONLY(XEN, openat, 2, INT_MASK & ~LARGEFILE, OPEN_BOTH),
	ONLY(XEN, openat, 2, INT_MASK & ~LARGEFILE, OPEN_WRITE),
	ANY(XEN, read),
	ANY(XEN, write),
	ANY(XEN, close),
	ANY(XEN, munmap),
	ONLY(XEN, ioctl, 1, INT_MASK, PRIVCMD_HYPERCALL),
	ONLY(XEN, ioctl, 1, INT_MASK, PRIVCMD_MAP),
#ifdef SYS_mmap
	ONLY(XEN, mmap, 3, INT_MASK, MAP_SHARED),
#endif
#ifdef SYS_mmap2
	ONLY(XEN, mmap2, 3, INT_MASK, MAP_SHARED),
#endif
#ifdef SYS_pread64
	ANY(XEN, pread64),
#endif

	/* a child process tries to open what may keep us waiting; it is waited for until the deadline, and killed then */
	ANY(XEN, clone3),
	ONLY(XEN, prctl, 0, INT_MASK, PR_SET_PDEATHSIG),
	ANY(XEN, getppid),
	ANY(XEN, exit_group),
	ONLY(XEN, pidfd_send_signal, 1, INT_MASK, SIGKILL),
	ONLY(XEN, waitid, 0, INT_MASK, BY_PIDFD),
#ifdef SYS_poll
	ONLY(XEN, poll, 1, INT_MASK, 1),
#endif
#ifdef SYS_ppoll
	ONLY(XEN, ppoll, 1, INT_MASK, 1),
#endif
#ifdef SYS_ppoll_time64
	ONLY(XEN, ppoll_time64, 1, INT_MASK, 1),
#endif
};

int pagehint_syscalls(uint32_t who, struct pagehint_syscall *rules, uint32_t max, uint32_t *ret_n)
{
	uint32_t n = 0;
	if (who == 0 || (who & ~EVERYBODY) != 0 || ret_n == NULL || (rules == NULL && max != 0))
		return -EINVAL;
	for (uint32_t i = 0; i < sizeof(manifest) / sizeof(manifest[0]); i++) {
		if ((manifest[i].backend & who) == 0)
			continue;
		if (n < max)
			rules[n] = manifest[i];
		n++;
	}
	*ret_n = n;
	return 0;
}
