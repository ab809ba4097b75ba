/*
 * The agents of the examples, run as programs: the guest's by its own checks, Linux's in a root of files that we write, and the
 * driver of a process with a device that is a file.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *guest_agent, *linux_agent, *user_driver;
static char root[64];

/* Runs a command; returns its exit code, and what it said. */
static int run(const char *command, char *said, size_t room)
{
	FILE *from = popen(command, "re");
	assert_non_null(from);
	size_t n = fread(said, 1, room - 1, from);
	said[n] = '\0';
	int status = pclose(from);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void put(const char *path, const char *text)
{
	char full[256];
	snprintf(full, sizeof(full), "%s%s", root, path);
	FILE *to = fopen(full, "we");
	assert_non_null(to);
	assert_true(fputs(text, to) >= 0);
	assert_int_equal(fclose(to), 0);
}

static void get(const char *path, char *text, size_t room)
{
	char full[256];
	snprintf(full, sizeof(full), "%s%s", root, path);
	FILE *from = fopen(full, "re");
	assert_non_null(from);
	text[fread(text, 1, room - 1, from)] = '\0';
	fclose(from);
}

static int make_root(void **state)
{
	static const char *const dirs[] = { "/proc", "/proc/pressure", "/proc/sys",     "/proc/sys/vm",
					    "/sys",  "/sys/fs",        "/sys/fs/cgroup" };
	char full[256];
	(void)state;
	strcpy(root, "/tmp/pagehint-agent-XXXXXX");
	assert_non_null(mkdtemp(root));
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		snprintf(full, sizeof(full), "%s%s", root, dirs[i]);
		assert_int_equal(mkdir(full, 0700), 0);
	}
	put("/sys/fs/cgroup/memory.reclaim", "");
	put("/proc/sys/vm/compact_memory", "");
	return 0;
}

static int drop_root(void **state)
{
	char command[128];
	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", root);
	return system(command);
}

static void pressure(const char *avg10)
{
	char text[128];
	snprintf(text, sizeof(text), "some avg10=%s avg60=0.00 avg300=0.00 total=0\n", avg10);
	put("/proc/pressure/memory", text);
}

static int run_linux(const char *arguments, char *said, size_t room)
{
	char command[512];
	snprintf(command, sizeof(command), "%s --root %s --interval 20 %s 2>&1", linux_agent, root, arguments);
	return run(command, said, room);
}

static void test_a_guest_gives_and_takes(void **state)
{
	char said[4096];
	(void)state;
	assert_int_equal(run(guest_agent, said, sizeof(said)), 0);
	assert_non_null(strstr(said, "192 MiB are in the balloon"));
	assert_non_null(strstr(said, "after 140 MiB were freed"));
}

static void test_it_helps_while_at_ease(void **state)
{
	char said[4096], text[64];
	(void)state;
	pressure("0.40");
	assert_int_equal(run_linux("--psi 5 --compact --reclaim 1048576 --rounds 2", said, sizeof(said)), 0);
	/* reclaim comes before compaction, which then finds more */
	const char *reclaim = strstr(said, "wrote 1048576 to /sys/fs/cgroup/memory.reclaim");
	const char *compact = strstr(said, "wrote 1 to /proc/sys/vm/compact_memory");
	assert_non_null(reclaim);
	assert_non_null(compact);
	assert_true(reclaim < compact);
	get("/sys/fs/cgroup/memory.reclaim", text, sizeof(text));
	assert_string_equal(text, "1048576");
	get("/proc/sys/vm/compact_memory", text, sizeof(text));
	assert_string_equal(text, "1");
	assert_non_null(strstr(said, "round 2: at ease"));
}

static void test_it_does_nothing_that_was_not_asked_for(void **state)
{
	char said[4096], text[64];
	(void)state;
	pressure("0.40");
	assert_int_equal(run_linux("--rounds 1", said, sizeof(said)), 0);
	assert_null(strstr(said, "wrote"));
	get("/sys/fs/cgroup/memory.reclaim", text, sizeof(text));
	assert_string_equal(text, "");
	assert_int_equal(run_linux("--nonsense 1", said, sizeof(said)), 2);
	assert_int_equal(run_linux("--psi", said, sizeof(said)), 2);
}

static void test_it_holds_back_when_memory_is_short(void **state)
{
	char said[4096], text[64];
	(void)state;
	pressure("12.00");
	assert_int_equal(run_linux("--psi 5 --compact --reclaim 4096 --rounds 2", said, sizeof(said)), 0);
	assert_non_null(strstr(said, "round 2: short of memory"));
	assert_null(strstr(said, "wrote"));
	get("/proc/sys/vm/compact_memory", text, sizeof(text));
	assert_string_equal(text, "");
	/* a kernel that tells nothing is not one at ease */
	put("/proc/pressure/memory", "");
	assert_int_equal(run_linux("--psi 5 --compact --rounds 1", said, sizeof(said)), 0);
	assert_null(strstr(said, "wrote"));
	/* and a file that is not there is said, no more */
	pressure("0.00");
	char full[256];
	snprintf(full, sizeof(full), "%s/sys/fs/cgroup/memory.reclaim", root);
	assert_int_equal(unlink(full), 0);
	assert_int_equal(run_linux("--psi 5 --compact --reclaim 1 --rounds 1", said, sizeof(said)), 0);
	assert_non_null(strstr(said, "memory.reclaim: No such file"));
	assert_non_null(strstr(said, "wrote 1 to /proc/sys/vm/compact_memory"));
}

static void test_its_heap_gives_back(void **state)
{
	char said[4096];
	(void)state;
	pressure("0.00");
	assert_int_equal(run_linux("--heap 64 --rounds 8", said, sizeof(said)), 0);
	assert_non_null(strstr(said, "heap: 32768 KiB resident in use"));
	assert_non_null(strstr(said, "heap: 0 KiB resident at the end"));
}

static void test_a_driver_in_a_process(void **state)
{
	char said[4096], command[512];
	(void)state;
	snprintf(command, sizeof(command), "%s 2>&1", user_driver);
	assert_int_equal(run(command, said, sizeof(said)), 2);
	snprintf(command, sizeof(command), "%s %s 1 1 2>&1", user_driver, root);
	assert_int_equal(run(command, said, sizeof(said)), 1);
	assert_non_null(strstr(said, "No such file"));
	put("/config", "this is no configuration space"); /* a device of somebody else */
	assert_int_equal(run(command, said, sizeof(said)), 1);
	assert_non_null(strstr(said, "No such device"));
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_guest_gives_and_takes),
		cmocka_unit_test_setup_teardown(test_it_helps_while_at_ease, make_root, drop_root),
		cmocka_unit_test_setup_teardown(test_it_does_nothing_that_was_not_asked_for, make_root, drop_root),
		cmocka_unit_test_setup_teardown(test_it_holds_back_when_memory_is_short, make_root, drop_root),
		cmocka_unit_test_setup_teardown(test_its_heap_gives_back, make_root, drop_root),
		cmocka_unit_test_setup_teardown(test_a_driver_in_a_process, make_root, drop_root),
	};
	assert_int_equal(argc, 4);
	guest_agent = argv[1];
	linux_agent = argv[2];
	user_driver = argv[3];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
