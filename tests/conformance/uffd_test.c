/*
 * Regions that a foreign userfaultfd watches: it hears of every removal, and its registration survives.
 *
 * A discard waits in the kernel until the removal event is read, so a thread reads.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include <pagehint/backend.h>
#include <pagehint/host.h>
#include <pagehint/map.h>

#define BYTES ((size_t)1 << 20)
#define PAGE UINT64_C(4096)

struct watched {
	int fd; /* of the file, -1 = anonymous */
	int uffd;
	unsigned char *memory;
	struct pagehint_map *map;
	struct pagehint_backend *backend;
	pthread_t reader;
	uint64_t removed_from, removed_to; /* by the first event */
	uint32_t events;
};

static void *read_events(void *arg)
{
	struct watched *w = arg;
	struct uffd_msg msg;
	while (read(w->uffd, &msg, sizeof(msg)) == (ssize_t)sizeof(msg)) {
		if (msg.event != UFFD_EVENT_REMOVE) { /* a fault, which ends the test: unregister, and it goes on */
			struct uffdio_range range = { (uintptr_t)w->memory, BYTES };
			ioctl(w->uffd, UFFDIO_UNREGISTER, &range);
			break;
		}
		if (w->events++ != 0)
			continue;
		w->removed_from = msg.arg.remove.start;
		w->removed_to = msg.arg.remove.end;
	}
	return NULL;
}

/* 1; 0 = this machine cannot. */
static int watch(struct watched *w)
{
	w->uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (w->uffd < 0)
		return 0;
	struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_EVENT_REMOVE };
	struct uffdio_register all = { .range = { (uintptr_t)w->memory, BYTES }, .mode = UFFDIO_REGISTER_MODE_MISSING };
	if (ioctl(w->uffd, UFFDIO_API, &api) < 0 || ioctl(w->uffd, UFFDIO_REGISTER, &all) < 0) {
		close(w->uffd);
		return 0;
	}
	return 1;
}

static int open_watched(struct watched *w, int file, int shared, uint32_t backing)
{
	struct pagehint_region_desc desc = { .struct_size = sizeof(desc), .frames = BYTES >> 12, .backing = backing };
	uint64_t id = 0;
	memset(w, 0, sizeof(*w));
	w->fd = file ? memfd_create("watched", MFD_CLOEXEC) : -1;
	if (file)
		assert_int_equal(ftruncate(w->fd, (off_t)BYTES), 0);
	w->memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
			 (shared ? MAP_SHARED : MAP_PRIVATE) | (file ? 0 : MAP_ANONYMOUS), w->fd, 0);
	assert_ptr_not_equal(w->memory, MAP_FAILED);
	memset(w->memory, 5, BYTES);
	if (!watch(w)) {
		printf("not applicable: this process may not have a userfaultfd with removal events\n");
		munmap(w->memory, BYTES);
		close(w->fd);
		return 0;
	}
	desc.host_addr = (uintptr_t)w->memory;
	desc.fd = w->fd;
	assert_int_equal(pagehint_map_new(NULL, &w->map), 0);
	assert_int_equal(pagehint_map_add(w->map, &desc, &id), 0);
	assert_int_equal(pagehint_madvise_new(w->map, NULL, NULL, &w->backend), 0);
	assert_int_equal(pthread_create(&w->reader, NULL, read_events, w), 0);
	return 1;
}

static void close_watched(struct watched *w)
{
	/* a page that is missing ends the reader */
	assert_int_equal(madvise(w->memory, PAGE, w->fd >= 0 ? MADV_REMOVE : MADV_DONTNEED), 0);
	(void)*(volatile unsigned char *)w->memory;
	assert_int_equal(pthread_join(w->reader, NULL), 0);
	close(w->uffd);
	assert_int_equal(pagehint_backend_free(w->backend), 0);
	assert_int_equal(pagehint_map_free(w->map), 0);
	munmap(w->memory, BYTES);
	if (w->fd >= 0)
		close(w->fd);
}

static void hears_of_it(int file, int shared, uint32_t backing)
{
	static struct watched w;
	const struct pagehint_run run = { 16, 8 };
	struct pagehint_outcome out;
	if (!open_watched(&w, file, shared, backing))
		return;
	assert_int_equal(pagehint_backend_discard(w.backend, &run, 1, PAGEHINT_DISCARD_PROBE, &out, NULL, NULL), 0);
	assert_int_equal(out.freed, 8 * PAGE);
	close_watched(&w); /* the reader has ended: its fields can be read */
	assert_int_equal(w.events, 2);
	assert_int_equal(w.removed_from, (uintptr_t)w.memory + 16 * PAGE);
	assert_int_equal(w.removed_to, (uintptr_t)w.memory + 24 * PAGE);
}

static void test_anon(void **state)
{
	(void)state;
	hears_of_it(0, 0, PAGEHINT_BACKING_ANON);
}

static void test_shared(void **state)
{
	(void)state;
	hears_of_it(1, 1, PAGEHINT_BACKING_SHARED);
}

/* Remapping would end the registration without a word. */
static void test_private_file_is_not_remapped(void **state)
{
	(void)state;
	static struct watched w;
	const struct pagehint_run run = { 16, 8 };
	struct pagehint_outcome out;
	if (!open_watched(&w, 1, 0, PAGEHINT_BACKING_FILE_PRIVATE))
		return;
	assert_int_equal(pagehint_backend_discard(w.backend, &run, 1, PAGEHINT_DISCARD_PROBE, &out, NULL, NULL), 0);
	assert_int_equal(out.kept, 8 * PAGE);
	assert_int_equal(out.kept_why, PAGEHINT_WHY_UFFD);
	for (uint64_t i = 0; i < BYTES; i++)
		assert_int_equal(w.memory[i], 5);
	/* still registered: the whole range can be unregistered, which ends the reader's read */
	struct uffdio_range range = { (uintptr_t)w.memory, BYTES };
	assert_int_equal(ioctl(w.uffd, UFFDIO_UNREGISTER, &range), 0);
	struct uffdio_register again = { .range = range, .mode = UFFDIO_REGISTER_MODE_MISSING };
	assert_int_equal(ioctl(w.uffd, UFFDIO_REGISTER, &again), 0);
	/* a private page that is gone, over a hole of the file, is missing */
	assert_int_equal(fallocate(w.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)PAGE), 0);
	assert_int_equal(madvise(w.memory, PAGE, MADV_DONTNEED), 0);
	(void)*(volatile unsigned char *)w.memory;
	assert_int_equal(pthread_join(w.reader, NULL), 0);
	assert_int_equal(w.events, 1); /* of our own madvise here, none of the discard */
	close(w.uffd);
	assert_int_equal(pagehint_backend_free(w.backend), 0);
	assert_int_equal(pagehint_map_free(w.map), 0);
	munmap(w.memory, BYTES);
	close(w.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_anon),
		cmocka_unit_test(test_shared),
		cmocka_unit_test(test_private_file_is_not_remapped),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
