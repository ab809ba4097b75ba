/*
 * kernel: a userfaultfd and the memory behind it, as far as a pager can see them: pages that are there or not, what is in them,
 * threads that wait, events that are read in order. A page's content is one number.
 *
 * It is the judge, too: content that a page may not have ends the run, and so does a thread that nobody wakes. As in Linux, a
 * removal goes on when its event has been read, and installing is refused until then.
 */
#ifndef FUZZ_PAGER_KERNEL_H
#define FUZZ_PAGER_KERNEL_H

#include "base/sys.h"
#include "input.h"

#define KERNEL_BASE UINT64_C(0x600000000000)
#define KERNEL_FIRST UINT64_C(600) /* pages of a region; then a gap, then another */
#define KERNEL_GAP UINT64_C(8)
#define KERNEL_SECOND UINT64_C(64)
#define KERNEL_PAGES (KERNEL_FIRST + KERNEL_GAP + KERNEL_SECOND)

struct kernel_page {
	uint64_t content; /* 0 = zeros */
	uint8_t fd;       /* 0: not registered */
	uint8_t here, protected, poisoned, unmapped;
	uint8_t waits, queued; /* 1 reads, 2 writes */
	/* what may be there instead of the source's content */
	uint8_t removed, may_be_zero, may_be_lost, anything;
};

struct kernel_event {
	unsigned char bytes[32];
	uint64_t first, end; /* pages that go once it is read */
};

#define KERNEL_EVENTS 512u

struct kernel {
	struct ph_sys sys;
	struct kernel_page pages[KERNEL_PAGES];
	struct kernel_event events[2][KERNEL_EVENTS]; /* of each descriptor */
	uint32_t head[2], tail[2];
	uint32_t changing; /* removals that have not been read */
	uint32_t open_fds, mapped;
	uint32_t fail_after, fail_times; /* pages that are installed, then so many calls that fail */
	int fail_error;
	uint32_t odd_bytes, interrupt; /* of the next read: bytes of a message that is cut off; EINTR */
};

void kernel_open(struct kernel *k);

uint64_t kernel_source(uint64_t page); /* what the source has for a page */
int kernel_is_region(uint64_t page);

void kernel_touch(struct kernel *k, uint64_t page, int write);
/* Another process discards, or unmaps: an event comes first. */
void kernel_take_away(struct kernel *k, uint64_t first, uint64_t pages, int unmap);
/* This process does, with no event. */
void kernel_drop(struct kernel *k, uint64_t first, uint64_t pages);
/* An event of any bytes; of what it may mean nothing is judged any more. */
void kernel_forge(struct kernel *k, uint32_t fd, const unsigned char bytes[32]);
/* Threads that wait still. */
uint32_t kernel_waiting(const struct kernel *k);

#endif
