/*
 * user-driver: drives a virtio balloon from a process, inside of a Linux guest, by what sysfs shows of the device.
 *
 * The frames that it has to give are huge pages of its own: 2 MiB each, locked, so that they stay where they are and the
 * balloon, which speaks of guest-physical addresses, can be told where that is (/proc/self/pagemap). The kernel's own
 * driver must not be bound to the device. Needs root, and free huge pages.
 *
 *     echo 0000:00:04.0 >/sys/bus/pci/drivers/virtio-pci/unbind
 *     user-driver /sys/bus/pci/devices/0000:00:04.0 64 10
 *
 * usage: user-driver DIR PAGES SECONDS    has PAGES huge pages to give, follows the target for SECONDS, and ends
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <pagehint/driver.h>
#include <pagehint/zone.h>

#include "agent/sysfs.h"

#define HUGE_BYTES (UINT64_C(2) << 20)
#define HUGE_FRAMES (HUGE_BYTES / 4096)
#define SECOND UINT64_C(1000000000)

struct user_driver {
	struct sysfs pci;
	void *virtio_memory, *memory;
	struct pagehint_virtio *virtio;
	struct pagehint_driver *driver;
	struct pagehint_zone *zone;
	struct pagehint_driver_zone from;
};

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

/* The guest-physical address of a page that is locked; 0: the kernel does not say (no root). */
static uint64_t physical(const void *page)
{
	uint64_t entry = 0;
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	off_t at = (off_t)((uintptr_t)page / (uintptr_t)sysconf(_SC_PAGESIZE) * 8);
	if (fd < 0)
		return 0;
	if (pread(fd, &entry, 8, at) != 8)
		entry = 0;
	close(fd);
	return (entry & ((UINT64_C(1) << 55) - 1)) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* One huge page, present, and where it is. */
static void *take_huge_page(uint64_t *ret_address)
{
	void *page = mmap(NULL, HUGE_BYTES, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_LOCKED | MAP_POPULATE, -1, 0);
	if (page == MAP_FAILED)
		return NULL;
	*ret_address = physical(page);
	if (*ret_address != 0)
		return page;
	munmap(page, HUGE_BYTES);
	errno = EPERM;
	return NULL;
}

/* Frames of the zone are numbered as the guest's memory is; sections come as pages turn up in them. */
static int fill_zone(struct user_driver *u, unsigned long pages)
{
	struct pagehint_zone_opts opts = { .struct_size = sizeof(opts), .max_sections = 256, .span_sections = 16384 };
	uint64_t address;
	int rc = pagehint_zone_new(&opts, &u->zone);
	for (unsigned long i = 0; i < pages && rc == 0; i++) {
		if (take_huge_page(&address) == NULL)
			return -errno;
		rc = pagehint_zone_add(u->zone, address / 4096, HUGE_FRAMES);
	}
	u->from.zone = u->zone;
	return rc;
}

static int start(struct user_driver *u)
{
	struct pagehint_driver_opts opts = { .struct_size = sizeof(opts), .poll_ns = SECOND / 100 };
	struct pagehint_driver_ops ops;
	uint64_t bytes;
	int rc = pagehint_driver_size(&opts, &bytes, &opts.dma_bytes);
	if (rc != 0 || (rc = pagehint_driver_zone_ops(&ops)) != 0)
		return rc;
	void *dma = opts.dma_bytes > HUGE_BYTES ? NULL : take_huge_page(&opts.dma_address);
	u->memory = aligned_alloc(64, (size_t)((bytes + 63) / 64 * 64));
	if (dma == NULL || u->memory == NULL)
		return -ENOMEM;
	rc = pagehint_driver_init(u->memory, bytes, dma, u->virtio, &ops, &u->from, &opts, &u->driver);
	if (rc != 0)
		return rc;
	while ((rc = pagehint_driver_start(u->driver, now_ns())) == -EAGAIN)
		(void)poll(NULL, 0, 1);
	return rc;
}

static int run(struct user_driver *u, uint64_t ns)
{
	struct pagehint_driver_stats stats = { .struct_size = sizeof(stats) };
	uint64_t end_ns = now_ns() + ns, deadline = 0, seen = UINT64_MAX;
	int rc = 0;
	while (rc == 0 && now_ns() < end_ns) {
		rc = pagehint_driver_step(u->driver, now_ns(), &deadline);
		if (pagehint_driver_stats(u->driver, &stats) == 0 && stats.held != seen)
			printf("in the balloon: %llu of %llu frames\n", (unsigned long long)(seen = stats.held),
			       (unsigned long long)stats.target);
		(void)poll(NULL, 0, 10);
	}
	return rc;
}

static void say(void *ctx, const char *text)
{
	(void)ctx;
	printf("%s\n", text);
}

int main(int argc, char **argv)
{
	static struct user_driver u;
	struct pagehint_sink sink = { .line = say };
	if (argc != 4) {
		fprintf(stderr, "usage: %s DIR PAGES SECONDS\n", argv[0]);
		return 2;
	}
	int rc = sysfs_open(&u.pci, argv[1]);
	if (rc == 0 && (u.virtio_memory = malloc((size_t)pagehint_virtio_size())) == NULL)
		rc = -ENOMEM;
	if (rc == 0)
		rc = pagehint_virtio_init_pci(u.virtio_memory, pagehint_virtio_size(), &sysfs_access, &u.pci,
					      PAGEHINT_VIRTIO_NO_VECTOR, &u.virtio);
	if (rc == 0)
		rc = fill_zone(&u, strtoul(argv[2], NULL, 10));
	if (rc == 0)
		rc = start(&u);
	if (rc == 0) {
		rc = run(&u, strtoull(argv[3], NULL, 10) * SECOND);
		pagehint_driver_explain(u.driver, &sink);
		/* the pages are the kernel's again when we end: the device must have let go before that */
		while (pagehint_driver_reset(u.driver, now_ns()) == -EAGAIN)
			(void)poll(NULL, 0, 1);
	}
	if (rc != 0)
		fprintf(stderr, "user-driver: %s: %s\n", argv[1], strerror(-rc));
	return rc != 0;
}
