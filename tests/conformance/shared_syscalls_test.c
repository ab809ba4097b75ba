/* A guest and a host of a shared zone behind a filter that is made of the manifest: attach, allocate, take, give back, let go. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "support/shared_zone.h"

#include <cmocka.h>

#include "conformance/filter.h"

#define WHO (PAGEHINT_SYSCALLS_CORE | PAGEHINT_SYSCALLS_SHARED)
#define EXIT_REFUSED 2

#define TRY(true_when_done)            \
	do {                           \
		*line = __LINE__;      \
		if (!(true_when_done)) \
			_exit(1);      \
	} while (0)

static int *line; /* shared with children: the last step that was begun */

static void live(const struct shared_zone *s)
{
	struct shared_sink sink = { .frames = SHARED_SECTION };
	struct pagehint_zone *zone;
	struct pagehint_backend *backend;
	struct pagehint_reclaimer *host;
	uint64_t frame, bytes, next;
	TRY(pagehint_zone_attach(s->fd, 0, &s->opts, 2, &zone) == 0);
	TRY(pagehint_zone_alloc(zone, 9, &frame) == 0 && pagehint_zone_free(zone, frame, 9) == 0);
	TRY(shared_backend(&sink, &backend) == 0);
	TRY(pagehint_reclaimer_new(zone, backend, NULL, &host) == 0);
	TRY(pagehint_reclaimer_reclaim(host, 2 * SHARED_MB, &bytes) == 0 && bytes == 2 * SHARED_MB);
	TRY(pagehint_reclaimer_hold(host, 4 * SHARED_MB, &bytes) == 0 && bytes == 4 * SHARED_MB);
	TRY(pagehint_reclaimer_step(host, 1, &next) == 0);
	TRY(pagehint_reclaimer_give_back(host, 4 * SHARED_MB, &bytes) == 0 && bytes == 4 * SHARED_MB);
	TRY(pagehint_zone_check(zone, NULL) == 0);
	TRY(sink.asked != 0 && sink.refused == 0);
	pagehint_reclaimer_free(host);
	TRY(pagehint_backend_free(backend) == 0);
	pagehint_zone_detach(zone);
}

/* What became of a child; -1: no filter here (said). */
static int run(uint32_t who, const struct left_out *out)
{
	const struct rlimit no_core = { 0, 0 };
	struct shared_zone s;
	int status = 0;
	assert_int_equal(shared_zone_make(&s, 1, 0, 9), 0);
	make_filter(who, out);
	fflush(stdout);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		setrlimit(RLIMIT_CORE, &no_core);
		if (install_filter() < 0)
			_exit(EXIT_REFUSED);
		live(&s);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	shared_zone_close(&s);
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
	int status = run(WHO, NULL);
	if (status != 0 && status != -1)
		printf("status %x at line %d of this test\n", (unsigned)status, *line);
	assert_true(status == 0 || status == -1);
}

static void test_a_rule_less_kills(void **state)
{
	static const struct left_out needed[] = { { "mmap", ALL_OF }, { "munmap", ALL_OF }, { "fstat", ALL_OF } };
	(void)state;
	int status = run(PAGEHINT_SYSCALLS_CORE, NULL);
	assert_true(status == -1 || killed(status));
	for (size_t i = 0; status != -1 && i < sizeof(needed) / sizeof(needed[0]); i++) {
		status = run(WHO, &needed[i]);
		if (!killed(status))
			printf("lived without %s\n", needed[i].name);
		assert_true(killed(status));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_else_is_called),
		cmocka_unit_test(test_a_rule_less_kills),
	};
	line = mmap(NULL, sizeof(*line), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (line == MAP_FAILED)
		return 1;
	if (SANITIZED) {
		printf("left out: a sanitizer makes calls of its own\n");
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
