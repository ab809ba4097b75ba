/*
 * More of what userfaultfd does to who does not expect it (see pager_hazards_test.c): descriptors that close, registrations,
 * aliases, files. Forks and system calls are in pager_calls_test.c. A naive handler fails first; the pager does not.
 */
#include "support/naive.h"

#include <sys/uio.h>

#include <pagehint/host.h>
#include <pagehint/pager_backend.h>

#define PAGES 64u
#define BYTES (PAGES * PAGE)

static unsigned char *snapshot;

static int group_setup(void **state)
{
	(void)state;
	snapshot = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	snapshot_write(snapshot, PAGES);
	return 0;
}

static struct pagehint_source *serve(struct served *s, uint32_t backing, struct pagehint_pager_opts *opts,
				     uint32_t flags)
{
	struct pagehint_source *source;
	assert_int_equal(pagehint_source_memory_new(snapshot, BYTES, &source), 0);
	served_memory(s, BYTES, backing);
	served_pager(s, opts);
	struct pagehint_pager_region r = served_region(s, source, flags);
	assert_int_equal(pagehint_pager_add(s->pager, &r), 0);
	return source;
}

static void close_all(struct served *s, struct pagehint_source *source)
{
	served_close(s);
	pagehint_source_free(source);
}

/* CONTINUE where the file has no page is EFAULT, and ends the window there. */
static void test_continue_where_nothing_is(void **state)
{
	(void)state;
	struct served n;
	served_memory(&n, BYTES, PAGEHINT_BACKING_SHARED);
	assert_int_equal(pwrite(n.fd, snapshot, 2 * PAGE, 0), 2 * PAGE);
	assert_int_equal(pwrite(n.fd, snapshot + 3 * PAGE, PAGE, 3 * PAGE), PAGE);
	int fd = naive_register(n.memory, BYTES, UFFD_FEATURE_MINOR_SHMEM,
				UFFDIO_REGISTER_MODE_MINOR | UFFDIO_REGISTER_MODE_MISSING);
	assert_int_equal(naive_continue(fd, n.memory + 2 * PAGE, PAGE), -EFAULT); /* again and again */
	assert_int_equal(naive_continue(fd, n.memory + 2 * PAGE, PAGE), -EFAULT);
	close(fd);
	munmap(n.memory, BYTES);
	close(n.fd);

	struct served s;
	struct pagehint_source *source;
	assert_int_equal(pagehint_source_memory_new(snapshot, BYTES, &source), 0);
	served_memory(&s, BYTES, PAGEHINT_BACKING_SHARED);
	assert_int_equal(pwrite(s.fd, snapshot, 2 * PAGE, 0), 2 * PAGE);
	assert_int_equal(pwrite(s.fd, snapshot + 3 * PAGE, PAGE, 3 * PAGE), PAGE);
	served_pager(&s, NULL);
	struct pagehint_pager_region r = served_region(&s, source, PAGEHINT_PAGER_MINOR);
	assert_int_equal(pagehint_pager_add(s.pager, &r), 0);
	served_start(&s);
	for (uint64_t i = 0; i < PAGES; i++)
		assert_true(page_is(s.memory, i, snapshot_word(i)));
	served_stop(&s);
	assert_int_equal(atomic_load(&s.step_error), 0);
	close_all(&s, source);
}

/* Where the descriptor is closed, what was absent is zero, without a word. */
static void test_closed_descriptor(void **state)
{
	(void)state;
	struct served n;
	served_memory(&n, BYTES, PAGEHINT_BACKING_ANON);
	int fd = naive_register(n.memory, BYTES, 0, UFFDIO_REGISTER_MODE_MISSING);
	close(fd); /* its process ended, say */
	assert_true(page_is(n.memory, 3, 0));
	munmap(n.memory, BYTES);

	struct served s;
	struct pagehint_source *source = serve(&s, PAGEHINT_BACKING_ANON, NULL, PAGEHINT_PAGER_KEEP_FORK);
	uint64_t word = 0;
	assert_int_equal(pagehint_pager_ensure(s.pager, 0, 1, NULL), 0);
	assert_int_equal(pagehint_pager_free(s.pager), -EBUSY);
	assert_int_equal(pagehint_pager_abandon(s.pager, 0), 0);
	assert_int_equal(pagehint_pager_free(s.pager), 0);
	assert_true(page_is(s.memory, 0, snapshot_word(0)));
	/* what could not be brought any more is an error of whoever touches it, and of nobody else */
	assert_int_equal(child_reads(s.memory, &word), 0);
	assert_int_equal(word, snapshot_word(0));
	struct iovec iov = { s.memory + 40 * PAGE, 8 };
	int pipes[2];
	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(writev(pipes[1], &iov, 1), -1); /* in this process: not zero */
	assert_true(errno == EFAULT || errno == EHWPOISON);
	close(pipes[0]);
	close(pipes[1]);
	munmap(s.memory, s.bytes);
	pagehint_source_free(source);
}

static uint64_t mappings(void)
{
	uint64_t n = 0;
	int c;
	FILE *f = fopen("/proc/self/maps", "r");
	assert_non_null(f);
	while ((c = fgetc(f)) != EOF)
		n += c == '\n';
	fclose(f);
	return n;
}

/* Whoever unregisters each page that was removed cuts the mapping up, until the kernel refuses. */
static void test_holes(void **state)
{
	(void)state;
	struct served n;
	FILE *f = fopen("/proc/sys/vm/max_map_count", "r");
	unsigned long most = 0, i;
	if (f != NULL && fscanf(f, "%lu", &most) != 1)
		most = 0;
	if (f != NULL)
		fclose(f);
	if (most == 0 || most > 200000) {
		printf("not applicable: this machine allows %lu mappings\n", most);
		return;
	}
	uint64_t bytes = (most + 4096) * PAGE / (2 * 1024 * 1024) * (2 * 1024 * 1024);
	served_memory(&n, bytes, PAGEHINT_BACKING_ANON);
	int r = 0, fd = naive_register(n.memory, bytes, 0, UFFDIO_REGISTER_MODE_MISSING);
	for (i = 0; i < bytes / PAGE && r == 0; i += 2) {
		struct uffdio_range one = { (uintptr_t)n.memory + i * PAGE, PAGE };
		r = ioctl(fd, UFFDIO_UNREGISTER, &one) == 0 ? 0 : -errno;
	}
	assert_int_equal(r, -ENOMEM);
	close(fd);
	munmap(n.memory, bytes);

	struct served s;
	struct pagehint_map *map;
	struct pagehint_backend *inner, *backend;
	struct pagehint_outcome sum;
	uint64_t id;
	served_memory(&s, bytes, PAGEHINT_BACKING_ANON);
	struct pagehint_region_desc desc = { .struct_size = sizeof(desc),
					     .frames = bytes / PAGE,
					     .host_addr = (uintptr_t)s.memory,
					     .fd = -1,
					     .flags = PAGEHINT_REGION_UFFD_OWN };
	assert_int_equal(pagehint_map_new(NULL, &map), 0);
	assert_int_equal(pagehint_map_add(map, &desc, &id), 0);
	struct pagehint_pager_opts opts = { .map = map };
	served_pager(&s, &opts);
	struct pagehint_pager_region region = served_region(&s, NULL, 0);
	assert_int_equal(pagehint_pager_add(s.pager, &region), 0);
	assert_int_equal(pagehint_madvise_new(map, NULL, NULL, &inner), 0);
	assert_int_equal(pagehint_pager_backend_new(s.pager, inner, NULL, &backend), 0);
	uint64_t before = mappings(), removed = 0;
	static struct pagehint_run runs[1024];
	for (i = 0; i + 2048 <= bytes / PAGE; i += 2048) {
		for (uint64_t k = 0; k < 1024; k++)
			runs[k] = (struct pagehint_run) { i + 2 * k, 1 };
		assert_int_equal(pagehint_backend_discard(backend, runs, 1024, 0, NULL, &sum, NULL), 0);
		removed += sum.accepted / PAGE;
	}
	assert_true(removed > most / 2);
	assert_int_equal(served_stats(&s).removed, removed);
	assert_int_equal(mappings(), before);
	assert_int_equal(pagehint_pager_ensure(s.pager, 0, 1, NULL), 0); /* still served */
	assert_int_equal(pagehint_backend_free(backend), 0);
	assert_int_equal(pagehint_backend_free(inner), 0);
	served_close(&s);
	assert_int_equal(pagehint_map_free(map), 0);
}

/* A write through another mapping of the file raises no event, and leaves a page that is neither. */
static void test_alias(void **state)
{
	(void)state;
	struct served n;
	int64_t copied;
	served_memory(&n, BYTES, PAGEHINT_BACKING_SHARED);
	uint64_t *alias = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, n.fd, 0);
	int fd = naive_register(n.memory, BYTES, 0, UFFDIO_REGISTER_MODE_MISSING);
	alias[1] = 42; /* the VMM writes eight bytes of a page that has not come yet */
	assert_int_equal(naive_readable(fd), 0);
	assert_int_equal(naive_copy(fd, n.memory, snapshot, PAGE, &copied), -EEXIST);
	uint64_t first;
	memcpy(&first, n.memory, sizeof(first));
	assert_int_equal(first, 0); /* the rest of it is lost */
	close(fd);
	munmap(alias, BYTES);
	munmap(n.memory, BYTES);
	close(n.fd);

	struct served s;
	struct pagehint_source *source = serve(&s, PAGEHINT_BACKING_SHARED, NULL, 0);
	alias = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, s.fd, 0);
	assert_int_equal(pagehint_pager_ensure(s.pager, 0, 1, NULL), 0);
	alias[1] = 42;
	memcpy(&first, s.memory, sizeof(first));
	assert_int_equal(first, snapshot_word(0));
	munmap(alias, BYTES);
	close_all(&s, source);
}

/* A private mapping of a disk file cannot be registered. Its content can be restored into anonymous memory. */
static void test_private_file(void **state)
{
	(void)state;
	char path[] = "pagehint-perils-XXXXXX";
	int file = mkstemp(path);
	assert_true(file >= 0);
	unlink(path);
	assert_int_equal(write(file, snapshot, BYTES), BYTES);
	void *mapped = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
	int fd = naive_register(mapped, BYTES, 0, UFFDIO_REGISTER_MODE_MISSING);
	if (fd >= 0) {
		printf("not applicable: this directory is on a file system of memory\n");
		close(fd);
		munmap(mapped, BYTES);
		close(file);
		return;
	}
	assert_int_equal(fd, -EINVAL);
	struct served s;
	struct pagehint_source *source;
	assert_int_equal(pagehint_source_file_new(file, 0, BYTES, &source), 0);
	served_memory(&s, BYTES, PAGEHINT_BACKING_ANON);
	served_pager(&s, NULL);
	struct pagehint_pager_region r = served_region(&s, source, 0);
	r.host_addr = (uintptr_t)mapped;
	assert_int_equal(pagehint_pager_add(s.pager, &r), -EOPNOTSUPP);
	r.host_addr = (uintptr_t)s.memory;
	assert_int_equal(pagehint_pager_add(s.pager, &r), 0);
	assert_int_equal(pagehint_pager_ensure(s.pager, 0, PAGES, NULL), 0);
	for (uint64_t i = 0; i < PAGES; i++)
		assert_true(page_is(s.memory, i, snapshot_word(i)));
	munmap(mapped, BYTES);
	close(file);
	close_all(&s, source);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_continue_where_nothing_is),
		cmocka_unit_test(test_closed_descriptor),
		cmocka_unit_test(test_holes),
		cmocka_unit_test(test_alias),
		cmocka_unit_test(test_private_file),
	};
	if (!may_serve())
		return 77;
	return cmocka_run_group_tests(tests, group_setup, NULL);
}
