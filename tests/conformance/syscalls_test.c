/*
 * The manifest is the whole truth: behind a filter that is made of it, and of nothing else, the library does all it can do.
 *
 * The filter kills on the first call that no rule fits, so what survives made none. The controls take a rule away: that
 * kills, at a place that is known, which shows both that the filter works and that the work needs the rule. A child tells
 * where it is through shared memory: it may not write. Its memory is made by the parent, before any filter.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pagehint/gate.h>
#include <pagehint/origin.h>
#include <pagehint/pagehint.h>
#include <pagehint/reporter.h>
#include <pagehint/zone.h>

#include "conformance/filter.h"
#include "conformance/guest_memfd.h"
#include "support/backing.h"

#include <cmocka.h>

#define EVERYBODY (PAGEHINT_SYSCALLS_CORE | PAGEHINT_SYSCALLS_MAP | PAGEHINT_SYSCALLS_MADVISE)
#define EXIT_FAILED 1  /* something below the filter gave an error */
#define EXIT_REFUSED 2 /* no filter can be had */

static struct where {
	const char *subject;
	int line; /* the last step that was begun */
	int has_userfaultfd;
} * where; /* shared with children */

/* One step of a child: where it is, and what it must give. */
#define TRY(true_when_done)                 \
	do {                                \
		where->line = __LINE__;     \
		if (!(true_when_done))      \
			_exit(EXIT_FAILED); \
	} while (0)

static void install(void)
{
	if (install_filter() < 0)
		_exit(EXIT_REFUSED);
}

static struct subject subjects[] = {
	{ .name = "anon", .kind = ANON },
	{ .name = "anon, locked", .kind = LOCKED },
	{ .name = "anon, transparent huge pages", .kind = THP },
	{ .name = "shared memfd", .kind = SHARED },
	{ .name = "shared anonymous", .kind = SHARED_ANON },
	{ .name = "hugetlb", .kind = HUGETLB },
	{ .name = "private file", .kind = FILE_PRIVATE },
	{ .name = "private memfd", .kind = MEMFD_PRIVATE },
};
#define SUBJECTS (sizeof(subjects) / sizeof(subjects[0]))
static struct subject watched = { .name = "shared memfd with a userfaultfd", .kind = SHARED };

static int guest_memfd = -1;
static int psi_pipe[2]; /* never says anything: all that a pressure file is to the library */

static struct pagehint_region_desc region_of(const struct subject *s)
{
	return (struct pagehint_region_desc) { .struct_size = sizeof(struct pagehint_region_desc),
					       .frame = FIRST_FRAME,
					       .frames = s->unit * UNITS >> 12,
					       .host_addr = (uintptr_t)s->memory,
					       .fd = s->fd };
}

static void fill(const struct subject *s)
{
	memset(s->memory, USED, (size_t)(UNITS * s->unit));
}

static void give_back(struct subject *s, struct pagehint_map *map, uint32_t how, struct pagehint_gate *gate)
{
	const uint64_t unit = s->unit >> 12;
	const struct pagehint_run runs[] = { { FIRST_FRAME + 5 * unit, unit },
					     { FIRST_FRAME + unit, unit },
					     { FIRST_FRAME + 3 * unit + 1, unit - 1 } };
	const struct pagehint_madvise_opts opts = { .struct_size = sizeof(opts), .flags = how };
	const struct pagehint_backend_opts handle = { .struct_size = sizeof(handle), .gate = gate };
	struct pagehint_backend_stats stats = { .struct_size = sizeof(stats) };
	struct pagehint_madvise_stats calls = { .struct_size = sizeof(calls) };
	struct pagehint_backend *b = NULL;
	TRY(pagehint_madvise_new(map, &opts, &handle, &b) == 0);
	for (uint32_t flags = 0; flags <= (PAGEHINT_DISCARD_PROBE | PAGEHINT_DISCARD_ZERO); flags++) {
		struct pagehint_outcome sum;
		uint64_t bytes = 0;
		if (s != &watched) /* whose faults nobody serves */
			fill(s);
		TRY(pagehint_backend_discard(b, runs, 3, flags, NULL, &sum, NULL) == 0);
		TRY(sum.failed == 0 && sum.kept != sum.asked);
		TRY(pagehint_madvise_resident(b, &runs[1], &bytes) == 0);
		TRY(s == &watched || pagehint_backend_populate(b, runs, 3, NULL) == 0);
	}
	TRY(pagehint_backend_stats(b, &stats) == 0 && stats.asked != 0);
	TRY(pagehint_madvise_stats(b, &calls) == 0);
	TRY(calls.madvise + calls.process_madvise + calls.punch + calls.remap != 0);
	TRY(pagehint_backend_free(b) == 0);
}

static void use_zone(struct pagehint_zone *zone, struct pagehint_run all)
{
	uint64_t frame = 0;
	TRY(pagehint_zone_add(zone, all.frame, all.frames) == 0);
	for (uint32_t order = 0; order <= 6; order++) {
		TRY(pagehint_zone_alloc(zone, order, &frame) == 0);
		TRY(pagehint_zone_free(zone, frame, order) == 0);
	}
}

/* A zone over the region; all of it is found, discarded and released by a reporter. */
static void report(struct subject *s, struct pagehint_map *map)
{
	struct pagehint_zone_opts zone_opts = { .struct_size = sizeof(zone_opts), .flags = PAGEHINT_ZONE_STALE };
	struct pagehint_reporter_opts opts = { .struct_size = sizeof(opts),
					       .flags = PAGEHINT_REPORTER_PROBE | PAGEHINT_REPORTER_PSI,
					       .psi_fd = psi_pipe[0] };
	struct pagehint_reporter_stats stats = { .struct_size = sizeof(stats) };
	struct pagehint_zone *zone = NULL;
	struct pagehint_origin *origin = NULL;
	struct pagehint_backend *b = NULL;
	struct pagehint_reporter *reporter = NULL;
	uint64_t now = 1, next = 0;
	zone_opts.granule_order = s->unit > 65536 ? 9 : 4;
	TRY(pagehint_zone_new(&zone_opts, &zone) == 0);
	use_zone(zone, (struct pagehint_run) { FIRST_FRAME, s->unit * UNITS >> 12 });
	TRY(pagehint_madvise_new(map, NULL, NULL, &b) == 0);
	TRY(pagehint_zone_origin_new(zone, &origin) == 0);
	TRY(pagehint_reporter_new(origin, b, &opts, &reporter) == 0);
	for (unsigned i = 0; i < 100 && stats.reported + stats.kept < s->unit * UNITS; i++) {
		TRY(pagehint_reporter_step(reporter, now, 0, &next) == 0);
		now = next != UINT64_MAX && next > now ? next : now + 1;
		TRY(pagehint_reporter_stats(reporter, &stats) == 0);
	}
	TRY(stats.reported == s->unit * UNITS);
	TRY(pagehint_reporter_stop(reporter, now, &next) == 0);
	TRY(pagehint_reporter_free(reporter) == 0);
	pagehint_origin_free(origin);
	TRY(pagehint_backend_free(b) == 0);
	pagehint_zone_destroy(zone);
}

static void work(struct subject *s)
{
	const struct pagehint_region_desc desc = region_of(s);
	struct pagehint_map *map = NULL;
	struct pagehint_gate *gate = NULL;
	uint64_t id = 0;
	where->subject = s->name;
	TRY(pagehint_gate_new(&gate) == 0);
	TRY(pagehint_map_new(NULL, &map) == 0);
	TRY(pagehint_map_add(map, &desc, &id) == 0);
	give_back(s, map, 0, gate);
	give_back(s, map, PAGEHINT_MADVISE_NO_BATCH, gate);
	give_back(s, map, PAGEHINT_MADVISE_LAZY, gate);
	report(s, map);
	TRY(pagehint_map_remove(map, id) == 0);
	TRY(pagehint_map_free(map) == 0);
	TRY(pagehint_gate_free(gate) == 0);
}

/* Memory without an address: what takes a file alone. */
static void work_guest_memfd(void)
{
	const struct pagehint_region_desc desc = { .struct_size = sizeof(desc), .frames = 512, .fd = guest_memfd };
	const struct pagehint_run run = { 64, 64 };
	struct pagehint_map *map = NULL;
	struct pagehint_backend *b = NULL;
	struct pagehint_outcome sum;
	uint64_t id = 0;
	where->subject = "guest_memfd";
	TRY(pagehint_map_new(NULL, &map) == 0);
	TRY(pagehint_map_add(map, &desc, &id) == 0);
	TRY(pagehint_madvise_new(map, NULL, NULL, &b) == 0);
	TRY(pagehint_backend_populate(b, &run, 1, NULL) == 0);
	TRY(pagehint_backend_discard(b, &run, 1, 0, NULL, &sum, NULL) == 0 && sum.accepted == sum.asked);
	TRY(pagehint_backend_free(b) == 0);
	TRY(pagehint_map_free(map) == 0);
}

/* What a child does not inherit: locks, and the watch over memory. */
static void make_own(void)
{
	int uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .range = { (uintptr_t)watched.memory, UNITS * watched.unit },
					 .mode = UFFDIO_REGISTER_MODE_MISSING };
	where->has_userfaultfd =
		uffd >= 0 && ioctl(uffd, UFFDIO_API, &api) == 0 && ioctl(uffd, UFFDIO_REGISTER, &range) == 0;
	for (size_t i = 0; i < SUBJECTS; i++)
		if (subjects[i].kind == LOCKED && subjects[i].memory != NULL)
			TRY(mlock(subjects[i].memory, (size_t)(UNITS * subjects[i].unit)) == 0);
}

static void do_everything(void)
{
	make_own();
	install();
	for (size_t i = 0; i < SUBJECTS; i++)
		if (subjects[i].memory != NULL)
			work(&subjects[i]);
	if (where->has_userfaultfd)
		work(&watched);
	if (guest_memfd >= 0)
		work_guest_memfd();
}

/* Adding a region is the map's, giving it back is not. */
static void discard_shared(void)
{
	struct subject *s = &subjects[SHARED - ANON];
	const struct pagehint_madvise_opts opts = { .struct_size = sizeof(opts), .flags = PAGEHINT_MADVISE_NO_BATCH };
	const struct pagehint_region_desc desc = region_of(s);
	const struct pagehint_run run = { FIRST_FRAME, s->unit >> 12 };
	struct pagehint_map *map = NULL;
	struct pagehint_backend *b = NULL;
	uint64_t id = 0;
	where->subject = s->name;
	TRY(pagehint_map_new(NULL, &map) == 0);
	TRY(pagehint_madvise_new(map, &opts, NULL, &b) == 0);
	install();
	TRY(pagehint_map_add(map, &desc, &id) == 0);
	where->subject = "discard";
	TRY(pagehint_backend_discard(b, &run, 1, 0, NULL, NULL, NULL) == 0);
}

/* A zone and a backend that frees nothing are the core's; a map is not. */
static void add_region(void)
{
	const struct pagehint_zone_opts opts = { .struct_size = sizeof(opts) };
	struct pagehint_zone *zone = NULL;
	struct pagehint_map *map = NULL;
	struct pagehint_backend *b = NULL;
	const struct pagehint_region_desc desc = region_of(&subjects[0]);
	uint64_t id = 0;
	where->subject = "core";
	install();
	TRY(pagehint_zone_new(&opts, &zone) == 0);
	use_zone(zone, (struct pagehint_run) { 0, 4096 });
	pagehint_zone_destroy(zone);
	TRY(pagehint_null_new(NULL, &b) == 0);
	TRY(pagehint_backend_discard(b, &(struct pagehint_run) { 1, 1 }, 1, 0, NULL, NULL, NULL) == 0);
	TRY(pagehint_backend_free(b) == 0);
	TRY(pagehint_map_new(NULL, &map) == 0);
	where->subject = "map_add";
	TRY(pagehint_map_add(map, &desc, &id) == 0);
}

/* What became of a child; -1: it could have no filter (said). */
static int run(void (*child)(void))
{
	const struct rlimit no_core = { 0, 0 };
	int status = 0;
	memset(where, 0, sizeof(*where));
	fflush(stdout);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		setrlimit(RLIMIT_CORE, &no_core);
		child();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_REFUSED) {
		printf("not applicable: this process may not install a seccomp filter\n");
		return -1;
	}
	return status;
}

static int killed(int status)
{
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS;
}

static void test_nothing_else_is_called(void **state)
{
	(void)state;
	make_filter(EVERYBODY, NULL);
	int status = run(do_everything);
	if (status == -1)
		return;
	if (status != 0)
		printf("%s: %s, at line %d of this test\n", where->subject, killed(status) ? "killed" : "failed",
		       where->line);
	assert_int_equal(status, 0);
	if (!where->has_userfaultfd)
		printf("not applicable: %s: refused\n", watched.name);
}

/* Each of these is needed on every machine; what the C library may do one way or the other is not among them. */
static void test_a_rule_less_kills(void **state)
{
	(void)state;
	static const struct left_out needed[] = {
		{ "getpid", ALL_OF },  { "poll", ALL_OF },    { "read", ALL_OF },
		{ "fstatfs", ALL_OF }, { "madvise", ALL_OF }, { "pidfd_open", ALL_OF },
		{ "mmap", ALL_OF },    { "pread64", ALL_OF }, { "process_madvise", MADV_DONTNEED },
		{ "fallocate", 3 },    { "lseek", ALL_OF },   { "madvise", MADV_REMOVE },
		{ "munmap", ALL_OF },  { "madvise", 23 },     { "mincore", ALL_OF },
		{ "fallocate", 1 }, /* guest_memfd alone */
	};
	const size_t n = sizeof(needed) / sizeof(needed[0]) - (guest_memfd < 0);
	for (size_t i = 0; i < n; i++) {
		if (make_filter(EVERYBODY, &needed[i]) == 0)
			continue; /* not a call of this architecture */
		int status = run(do_everything);
		if (status == -1)
			return;
		if (!killed(status))
			printf("lived without %s\n", needed[i].name);
		assert_true(killed(status));
	}
}

static void test_who_is_who(void **state)
{
	(void)state;
	make_filter(PAGEHINT_SYSCALLS_CORE | PAGEHINT_SYSCALLS_MAP, NULL);
	int status = run(discard_shared);
	if (status == -1)
		return;
	assert_true(killed(status));
	assert_string_equal(where->subject, "discard");
	make_filter(EVERYBODY, NULL);
	assert_int_equal(run(discard_shared), 0);
	make_filter(PAGEHINT_SYSCALLS_CORE, NULL);
	assert_true(killed(run(add_region)));
	assert_string_equal(where->subject, "map_add");
}

static int prepare(void **state)
{
	(void)state;
	where = mmap(NULL, sizeof(*where), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (where == MAP_FAILED || pipe2(psi_pipe, O_CLOEXEC) < 0 || !subject_prepare(&watched))
		return -1;
	guest_memfd = make_guest_memfd();
	if (guest_memfd < 0)
		printf("not applicable: KVM makes no guest_memfd here\n");
	for (size_t i = 0; i < SUBJECTS; i++)
		(void)subject_prepare(&subjects[i]); /* without memory: left out, and said */
	return 0;
}

static int clean_up(void **state)
{
	(void)state;
	for (size_t i = 0; i < SUBJECTS; i++) {
		void *subject = &subjects[i];
		subject_cleanup(&subject);
	}
	void *subject = &watched;
	return subject_cleanup(&subject);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_else_is_called),
		cmocka_unit_test(test_a_rule_less_kills),
		cmocka_unit_test(test_who_is_who),
	};
	if (SANITIZED) {
		printf("left out: a sanitizer makes calls of its own\n");
		return 0;
	}
	return cmocka_run_group_tests(tests, prepare, clean_up);
}
