/*
 * Behind a filter that is made of the manifest, and of nothing else, a pager does all that it can do; with a rule less the
 * process is killed, which shows that the filter works and that the rule is needed. Memory and files are made before.
 */
#include <signal.h>
#include <sys/wait.h>

#include "conformance/filter.h"
#include "support/naive.h"

#include <pagehint/host.h>
#include <pagehint/pagehint.h>
#include <pagehint/pager_backend.h>

#define BYTES (UINT64_C(4) << 20)
#define PAGES (BYTES / PAGE)
#define WHO (PAGEHINT_SYSCALLS_CORE | PAGEHINT_SYSCALLS_MAP | PAGEHINT_SYSCALLS_MADVISE | PAGEHINT_SYSCALLS_PAGER)
#define EXIT_REFUSED 2

#define TRY(true_when_done)            \
	do {                           \
		*line = __LINE__;      \
		if (!(true_when_done)) \
			_exit(1);      \
	} while (0)

static int *line; /* shared with children: the last step that was begun */
static int file;

static void live(struct served *s, uint32_t flags)
{
	struct pagehint_region_desc desc = { .struct_size = sizeof(desc),
					     .frames = PAGES,
					     .host_addr = (uintptr_t)s->memory,
					     .fd = s->fd,
					     .flags = PAGEHINT_REGION_UFFD_OWN };
	const struct pagehint_run run = { 0, 4 };
	struct pagehint_outcome sum;
	struct pagehint_map *map;
	struct pagehint_source *source;
	struct pagehint_backend *inner, *backend;
	uint64_t id, deadline;
	TRY(pagehint_map_new(NULL, &map) == 0 && pagehint_map_add(map, &desc, &id) == 0);
	TRY(pagehint_source_file_new(file, 0, BYTES, &source) == 0);
	struct pagehint_pager_opts opts = { .struct_size = sizeof(opts), .map = map };
	TRY(pagehint_pager_new(&opts, &s->pager) == 0);
	struct pagehint_pager_region r = {
		.struct_size = sizeof(r), .frames = PAGES, .source = source, .flags = flags
	};
	TRY(pagehint_pager_add(s->pager, &r) == 0);
	TRY(pagehint_madvise_new(map, NULL, NULL, &inner) == 0);
	TRY(pagehint_pager_backend_new(s->pager, inner, NULL, &backend) == 0);
	TRY(pagehint_pager_ensure(s->pager, 0, 8, NULL) == 0);
	TRY(pagehint_backend_discard(backend, &run, 1, 0, NULL, &sum, NULL) == 0);
	TRY(pagehint_pager_ensure(s->pager, 0, 8, NULL) == 0);
	TRY(pagehint_pager_step(s->pager, 0, 1, &deadline) == 0);
	TRY(pagehint_pager_watch(s->pager, 1, &deadline) == 0);
	TRY(pagehint_pager_fill(s->pager, UINT32_MAX, 1, BYTES / 2, NULL, &deadline) == 0);
	TRY(flags != PAGEHINT_PAGER_TRACK || pagehint_pager_clean(s->pager, 0, PAGES) == 0);
	TRY(pagehint_pager_fill(s->pager, UINT32_MAX, 1, PAGE, NULL, &deadline) == 0);
	TRY(pagehint_pager_abandon(s->pager, 0) == 0);
	TRY(pagehint_backend_free(backend) == 0 && pagehint_backend_free(inner) == 0);
	TRY(pagehint_pager_free(s->pager) == 0);
	pagehint_source_free(source);
	TRY(pagehint_map_free(map) == 0);
	_exit(0);
}

/* How a child that lives behind the filter ends. */
static int status_of(uint32_t backing, uint32_t flags, const struct left_out *out)
{
	struct served s;
	int status;
	served_memory(&s, BYTES, backing);
	if (s.fd >= 0 && (flags & PAGEHINT_PAGER_MINOR) != 0)
		assert_int_equal(pwrite(s.fd, s.memory, PAGE, 0), PAGE);
	unsigned left = make_filter(WHO, out);
	assert_true(out == NULL || left > 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (install_filter() < 0)
			_exit(EXIT_REFUSED);
		live(&s, flags);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	munmap(s.memory, s.bytes);
	if (s.fd >= 0)
		close(s.fd);
	return status;
}

static int filters_work(int status)
{
	if (!WIFEXITED(status) || WEXITSTATUS(status) != EXIT_REFUSED)
		return 1;
	printf("not applicable: no filter can be had here\n");
	return 0;
}

static void test_lives(void **state)
{
	(void)state;
	static const struct {
		uint32_t backing, flags;
	} kinds[] = {
		{ PAGEHINT_BACKING_ANON, 0 },
		{ PAGEHINT_BACKING_ANON, PAGEHINT_PAGER_TRACK },
		{ PAGEHINT_BACKING_SHARED, 0 },
		{ PAGEHINT_BACKING_SHARED, PAGEHINT_PAGER_MINOR },
	};
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		int status = status_of(kinds[i].backing, kinds[i].flags, NULL);
		if (!filters_work(status))
			return;
		if (status != 0)
			printf("kind %u: status %x at line %d\n", (unsigned)i, (unsigned)status, *line);
		assert_int_equal(status, 0);
	}
}

static void test_needs_its_rules(void **state)
{
	(void)state;
	static const struct left_out out[] = {
		{ "userfaultfd", ALL_OF }, { "ioctl", UFFDIO_API },  { "ioctl", UFFDIO_REGISTER },
		{ "ioctl", UFFDIO_COPY },  { "ioctl", UFFDIO_WAKE }, { "pread64", ALL_OF },
	};
	for (size_t i = 0; i < sizeof(out) / sizeof(out[0]); i++) {
		int status = status_of(PAGEHINT_BACKING_ANON, 0, &out[i]);
		if (!filters_work(status))
			return;
		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), SIGSYS);
	}
}

static int group_setup(void **state)
{
	(void)state;
	line = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	file = memfd_create("snapshot", MFD_CLOEXEC);
	void *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, ftruncate(file, (off_t)BYTES) == 0 ? file : -1,
			0);
	snapshot_write(at, PAGES);
	munmap(at, BYTES);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lives),
		cmocka_unit_test(test_needs_its_rules),
	};
	if (SANITIZED) {
		printf("left out: a sanitizer makes calls of its own\n");
		return 0;
	}
	if (!may_serve())
		return 77;
	return cmocka_run_group_tests(tests, group_setup, NULL);
}
