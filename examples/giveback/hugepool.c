#include "hugepool.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "backing.h"

#define POOL "/sys/kernel/mm/hugepages/hugepages-2048kB/"

#define LOCK_TRIES 600 /* a tenth of a second each */

static volatile sig_atomic_t added; /* pages that are ours to take away */
static int lock_fd = -1;            /* held while we borrow: the figure cannot be changed by two at once */

/* These two run in a signal handler as well: no stdio. */
static int read_figure(const char *path, uint64_t *ret_value)
{
	char text[32];
	ssize_t length;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t value = 0;

	if (fd < 0)
		return -errno;
	length = read(fd, text, sizeof(text));
	close(fd);
	if (length <= 0)
		return -EIO;
	for (ssize_t i = 0; i < length && text[i] >= '0' && text[i] <= '9'; i++)
		value = value * 10 + (uint64_t)(text[i] - '0');
	*ret_value = value;
	return 0;
}

static int write_figure(const char *path, uint64_t value)
{
	char text[24];
	size_t at = sizeof(text);
	ssize_t wrote;
	int fd;

	do {
		text[--at] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	wrote = write(fd, text + at, sizeof(text) - at);
	close(fd);
	return wrote == (ssize_t)(sizeof(text) - at) ? 0 : -EIO;
}

/* Everybody who borrows pages for a while locks the figure itself: it is only ever read, added to and written back. */
static int lock_pool(void)
{
	const struct timespec pause = { .tv_nsec = 100000000 };

	lock_fd = open(POOL "nr_hugepages", O_RDONLY | O_CLOEXEC);
	if (lock_fd < 0)
		return -errno;
	for (unsigned i = 0; i < LOCK_TRIES; i++) {
		if (flock(lock_fd, LOCK_EX | LOCK_NB) == 0)
			return 0;
		nanosleep(&pause, NULL);
	}
	close(lock_fd);
	lock_fd = -1;
	return -EBUSY;
}

void hugepool_release(void)
{
	uint64_t total = 0;
	uint64_t ours = (uint64_t)added;

	added = 0;
	if (ours && read_figure(POOL "nr_hugepages", &total) == 0)
		write_figure(POOL "nr_hugepages", total > ours ? total - ours : 0);
	if (lock_fd >= 0)
		close(lock_fd);
	lock_fd = -1;
}

uint64_t hugepool_added(void)
{
	return (uint64_t)added;
}

static void release_and_die(int signal_number)
{
	hugepool_release();
	signal(signal_number, SIG_DFL);
	raise(signal_number);
}

static void release_whatever_happens(void)
{
	static const int fatal[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGABRT, SIGSEGV, SIGBUS };

	atexit(hugepool_release);
	for (unsigned i = 0; i < sizeof(fatal) / sizeof(fatal[0]); i++)
		signal(fatal[i], release_and_die);
}

int hugepool_used(uint64_t *ret_pages)
{
	uint64_t total = 0;
	uint64_t unused = 0;
	int rc = read_figure(POOL "nr_hugepages", &total);

	rc = rc ? rc : read_figure(POOL "free_hugepages", &unused);
	if (!rc)
		*ret_pages = total > unused ? total - unused : 0;
	return rc;
}

int hugepool_check(uint64_t pages, uint64_t *ret_used, struct why *why)
{
	uint64_t unused = 0;
	uint64_t promised = 0;

	if (read_figure(POOL "free_hugepages", &unused) || read_figure(POOL "resv_hugepages", &promised) ||
	    hugepool_used(ret_used)) {
		snprintf(why->text, sizeof(why->text), "hugetlb: the kernel has no huge pages of 2 MiB");
		return -ENODEV;
	}
	if (unused < pages + promised) {
		snprintf(why->text, sizeof(why->text),
			 "hugetlb: %llu of %llu huge pages are free; as root: --reserve-hugetlb, or echo %llu > %s",
			 (unsigned long long)(unused - promised), (unsigned long long)pages,
			 (unsigned long long)(*ret_used + promised + pages), POOL "nr_hugepages");
		return -ENODEV;
	}
	return 0;
}

int hugepool_reserve(uint64_t pages, struct why *why)
{
	static int is_guarded;
	uint64_t total = 0;
	uint64_t unused = 0;
	uint64_t promised = 0;
	uint64_t used;
	uint64_t now = 0;
	uint64_t want;
	int rc = lock_pool();

	if (rc == -EBUSY) {
		snprintf(why->text, sizeof(why->text),
			 "hugetlb: another program has been borrowing huge pages for a minute");
		return -ENODEV;
	}
	if (rc || read_figure(POOL "nr_hugepages", &total) || read_figure(POOL "free_hugepages", &unused) ||
	    read_figure(POOL "resv_hugepages", &promised)) {
		hugepool_release();
		return hugepool_check(pages, &used, why);
	}
	if (!is_guarded)
		release_whatever_happens();
	is_guarded = 1;
	if (unused >= pages + promised)
		return 0;
	want = total + pages + promised - unused;
	rc = write_figure(POOL "nr_hugepages", want);
	if (rc) {
		snprintf(why->text, sizeof(why->text),
			 "hugetlb: huge pages cannot be reserved (%s): run as root, or have root do: echo %llu > %s",
			 strerror(-rc), (unsigned long long)want, POOL "nr_hugepages");
		hugepool_release();
		return -ENODEV;
	}
	if (read_figure(POOL "nr_hugepages", &now) == 0 && now > total)
		added = (sig_atomic_t)(now - total);
	rc = hugepool_check(pages, &used, why);
	if (rc)
		hugepool_release();
	return rc;
}
