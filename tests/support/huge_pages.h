/*
 * huge_pages: 2 MiB pages of the machine, borrowed for a test and given back afterwards.
 *
 * The pool is everybody's: other tests, and the demo, borrow at the same time. So its figure is only read, added to and
 * written back with a lock on the file that has it, which is held until the pages are returned; an absolute value that was
 * read a while ago takes pages from under others, whose next touch is a SIGBUS. The lock is waited for: holders are short.
 * Owns: what it added, per process that borrowed; a child of it sees them as borrowed and must not return them.
 */
#ifndef TESTS_SUPPORT_HUGE_PAGES_H
#define TESTS_SUPPORT_HUGE_PAGES_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#define HUGE_PAGES_DIR "/sys/kernel/mm/hugepages/hugepages-2048kB/"

static struct {
	int lock;   /* open while we borrow */
	long added; /* to give back */
} huge_pages_ours = { .lock = -1 };

/* -1: no way to tell. */
static inline long huge_pages_figure(const char *path)
{
	long n = -1;
	FILE *f = fopen(path, "r");
	if (f == NULL)
		return -1;
	if (fscanf(f, "%ld", &n) != 1)
		n = -1;
	fclose(f);
	return n;
}

/* What an administrator has set: pages that are in use beyond that leave by themselves. -1: no way to tell. */
static inline long huge_pages_set(void)
{
	long all = huge_pages_figure(HUGE_PAGES_DIR "nr_hugepages");
	long surplus = huge_pages_figure(HUGE_PAGES_DIR "surplus_hugepages");
	return all < 0 || surplus < 0 ? -1 : all - surplus;
}

static inline long huge_pages_unclaimed(void)
{
	return huge_pages_figure(HUGE_PAGES_DIR "free_hugepages") - huge_pages_figure(HUGE_PAGES_DIR "resv_hugepages");
}

static inline int huge_pages_write(long n)
{
	FILE *f = fopen(HUGE_PAGES_DIR "nr_hugepages", "w");
	if (f == NULL)
		return -1;
	int r = fprintf(f, "%ld\n", n) > 0 ? 0 : -1;
	return fclose(f) == 0 ? r : -1;
}

/* Safe to call when nothing is borrowed. */
static inline void huge_pages_return(void)
{
	if (huge_pages_ours.lock < 0)
		return;
	if (huge_pages_ours.added > 0)
		(void)huge_pages_write(huge_pages_set() - huge_pages_ours.added);
	close(huge_pages_ours.lock); /* and unlocks */
	huge_pages_ours.lock = -1;
	huge_pages_ours.added = 0;
}

/* n pages that nobody else claims. NULL when they are there (or were borrowed before), else why not. */
static inline const char *huge_pages_borrow(long n)
{
	if (huge_pages_ours.lock >= 0)
		return NULL;
	int fd = open(HUGE_PAGES_DIR "nr_hugepages", O_RDONLY | O_CLOEXEC), r;
	if (fd < 0)
		return "the kernel has no huge pages of 2 MiB";
	do
		r = flock(fd, LOCK_EX);
	while (r < 0 && errno == EINTR);
	huge_pages_ours.lock = fd;
	long before = huge_pages_set(), lacking = n - huge_pages_unclaimed();
	if (r < 0 || before < 0) {
		huge_pages_return();
		return "the pool of huge pages cannot be locked";
	}
	if (lacking <= 0)
		return NULL;
	if (huge_pages_write(before + lacking) < 0) {
		huge_pages_return();
		return "reserving huge pages needs root";
	}
	huge_pages_ours.added = huge_pages_set() - before; /* the kernel gives what it can */
	if (huge_pages_unclaimed() >= n)
		return NULL;
	huge_pages_return();
	return "not enough huge pages could be reserved";
}

#endif
