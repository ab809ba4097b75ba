/*
 * faulty_sys: the real system as a table of calls, each of which fails when a test says so, and an account of what was opened
 * and mapped through it.
 *
 * Every function of struct ph_sys is here, so a scenario fails at whatever it calls, also at what nobody thought of. Whether a
 * call fails is asked of `strike`, before anything is done: 0 lets it through, else it returns that (a mapping: NULL).
 * A close that fails has closed all the same, as on Linux. Unmapping cannot fail.
 */
#ifndef TESTS_SUPPORT_FAULTY_SYS_H
#define TESTS_SUPPORT_FAULTY_SYS_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/sys.h"

enum faulty_call {
	FAULTY_GETPID,
	FAULTY_CLOCK,
	FAULTY_MADVISE,
	FAULTY_PROCESS_MADVISE,
	FAULTY_PIDFD_OPEN,
	FAULTY_MINCORE,
	FAULTY_FALLOCATE,
	FAULTY_MMAP_FIXED_ANON,
	FAULTY_OPEN,
	FAULTY_READ,
	FAULTY_PREAD,
	FAULTY_LSEEK,
	FAULTY_CLOSE,
	FAULTY_FSTAT,
	FAULTY_FSTATFS,
	FAULTY_PAGE_SIZE,
	FAULTY_POLL_PRI,
	FAULTY_POLL_IN,
	FAULTY_USERFAULTFD,
	FAULTY_MPROTECT_NONE,
	FAULTY_MAP_MEMORY,
	FAULTY_MAP_SHARED,
	FAULTY_MEMFD,
	FAULTY_RECEIVE,
	FAULTY_SEND,
	FAULTY_NONBLOCK,
	FAULTY_EPOLL_NEW,
	FAULTY_EPOLL_SET,
	FAULTY_EPOLL_LOOK,
	FAULTY_WRITE,
	FAULTY_IOCTL,
	FAULTY_MAP_FILE,
	FAULTY_OPEN_WITHIN,
	FAULTY_CALLS
};

struct faulty_sys {
	struct ph_sys sys;          /* to hand out; its ctx is this struct, which must stay where it is */
	const struct ph_sys *below; /* the real one, unless a test sets another after init */
	int (*strike)(void *ctx, enum faulty_call call);
	void *ctx;
	_Atomic uint64_t calls[FAULTY_CALLS];
	_Atomic int64_t fds;    /* opened through it, and not closed */
	_Atomic int64_t mapped; /* bytes that it mapped, and did not unmap */
};

/* strike NULL: nothing fails */
void faulty_sys_init(struct faulty_sys *f, int (*strike)(void *ctx, enum faulty_call call), void *ctx);

const char *faulty_call_name(enum faulty_call call);

#endif
