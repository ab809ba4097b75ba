/*
 * pagehint-balloon as it is installed, with a frontend of our own: guests come and go, workers are killed under them, rubbish
 * arrives, and it ends when it is asked to. (Real guests: peers/uml.)
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <linux/sockios.h>

#include <json-c/json.h>

#include "support/vhost_talk.h"

#define MIB (UINT64_C(1) << 20)
#define REPORT 4u

static const char *program, *option; /* NULL, or one option more */

struct run {
	pid_t pid;
	int wanted; /* exit status */
	char directory[64], socket[96], control[96];
	struct frontend f;
};

static int dial(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	close(fd);
	return -1;
}

/* Asks for something. Returns the answer; NULL: nobody answered (a worker was just killed). */
static struct json_object *ask(struct run *run, const char *line)
{
	char text[1 << 16];
	size_t n = 0;
	int fd = dial(run->control);
	struct json_object *answer = NULL;
	if (fd < 0)
		return NULL;
	if (send(fd, line, strlen(line), MSG_NOSIGNAL) == (ssize_t)strlen(line)) {
		ssize_t r;
		while (n + 1 < sizeof(text) && (n == 0 || text[n - 1] != '\n') &&
		       (r = recv(fd, text + n, sizeof(text) - 1 - n, 0)) > 0)
			n += (size_t)r;
		text[n] = 0;
		answer = n > 0 ? json_tokener_parse(text) : NULL;
	}
	close(fd);
	return answer;
}

static uint64_t counter(struct run *run, const char *group, const char *name)
{
	for (int i = 0; i < 1000; i++) {
		struct json_object *answer = ask(run, "{\"command\": \"stats\"}\n"), *numbers, *value;
		if (answer != NULL) {
			assert_true(json_object_object_get_ex(answer, group, &numbers));
			assert_true(json_object_object_get_ex(numbers, name, &value));
			uint64_t n = json_object_get_uint64(value);
			json_object_put(answer);
			return n;
		}
		poll(NULL, 0, 10);
	}
	fail_msg("nobody answers");
	return 0;
}

static void wait_for(struct run *run, const char *group, const char *name, uint64_t wanted)
{
	for (int i = 0; i < 2000; i++) {
		if (counter(run, group, name) == wanted)
			return;
		poll(NULL, 0, 10);
	}
	fail_msg("%s.%s does not become %" PRIu64, group, name, wanted);
}

static int set_up(void **state)
{
	struct run *run = calloc(1, sizeof(*run));
	if (run == NULL)
		return -1;
	strcpy(run->directory, "/tmp/pagehint-balloon-XXXXXX");
	if (mkdtemp(run->directory) == NULL)
		return -1;
	snprintf(run->socket, sizeof(run->socket), "%s/vhost", run->directory);
	snprintf(run->control, sizeof(run->control), "%s/control", run->directory);
	run->pid = fork();
	if (run->pid == 0) {
		execl(program, program, "--socket", run->socket, "--control", run->control, "--user", "root", option,
		      NULL);
		_exit(127);
	}
	struct frontend *f = &run->f;
	f->wire.fd = f->channel = -1;
	for (int i = 0; i < PAGEHINT_BALLOON_Q_COUNT; i++)
		f->kick[i] = f->call[i] = -1;
	f->ram_fd = memfd_create("guest", MFD_CLOEXEC);
	f->ram = f->ram_fd < 0 || ftruncate(f->ram_fd, (off_t)FE_BYTES) != 0
			 ? MAP_FAILED
			 : mmap(NULL, FE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, f->ram_fd, 0);
	*state = run;
	if (f->ram == MAP_FAILED)
		return -1;
	for (int i = 0; i < 500 && access(run->control, F_OK) != 0; i++)
		poll(NULL, 0, 10);
	(void)counter(run, "program", "pid");
	return 0;
}

static int tear_down(void **state)
{
	struct run *run = *state;
	int status = -1;
	if (run->pid > 0) {
		kill(run->pid, SIGTERM);
		waitpid(run->pid, &status, 0);
	}
	for (int i = 0; i < PAGEHINT_BALLOON_Q_COUNT; i++)
		free(run->f.driver_memory[i]);
	munmap(run->f.ram, FE_BYTES);
	close(run->f.ram_fd);
	int left = access(run->socket, F_OK) == 0 || access(run->control, F_OK) == 0;
	rmdir(run->directory);
	int wrong = !WIFEXITED(status) || WEXITSTATUS(status) != run->wanted || left;
	free(run);
	return wrong;
}

static void begin(struct run *run)
{
	int fd = dial(run->socket);
	assert_true(fd >= 0);
	ph_vhost_wire_init(&run->f.wire, &ph_sys_real, fd);
	assert_int_equal(talk_greet(&run->f), 0);
	assert_int_equal(talk_memory(&run->f), 0);
	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(talk_ring(&run->f, i), 0);
}

static void hang_up(struct run *run)
{
	fe_hang_up(&run->f);
	run->f.wire.fd = -1;
}

static void report(struct run *run)
{
	struct frontend *f = &run->f;
	memset(f->ram + FE_DATA, 1, 4 * MIB);
	uint64_t held = fe_held(f);
	fe_submit(f, REPORT, FE_GUEST + FE_DATA, MIB, 1, 1);
	fe_kick(f, REPORT);
	assert_int_equal(talk_reap(f, REPORT), 1);
	assert_int_equal(held - fe_held(f), MIB);
}

static void kill_worker(struct run *run)
{
	uint64_t restarts = counter(run, "program", "restarts");
	assert_int_equal(kill((pid_t)counter(run, "program", "pid"), SIGKILL), 0);
	wait_for(run, "program", "restarts", restarts + 1);
}

/* Waits until the program has read all that was sent to it. */
static void wait_taken(struct run *run)
{
	int left = 1;
	for (int i = 0; i < 2000; i++) {
		assert_int_equal(ioctl(run->f.wire.fd, SIOCOUTQ, &left), 0);
		if (left == 0)
			return;
		poll(NULL, 0, 10);
	}
	fail_msg("%d bytes are not taken", left);
}

/* One guest after another; each finds the device new. */
static void test_guests(void **state)
{
	struct run *run = *state;
	for (int i = 0; i < 3; i++) {
		begin(run);
		report(run);
		assert_int_equal(counter(run, "device", "report_ranges"), 1);
		hang_up(run);
		wait_for(run, "vhost", "messages", 0);
	}
	assert_int_equal(counter(run, "program", "restarts"), 0);
}

/* Killed before, between and after requests: the rings go on where they were, and the next one's answers are right. */
static void test_workers_die(void **state)
{
	struct run *run = *state;
	begin(run);
	kill_worker(run);
	report(run);
	kill_worker(run);
	fe_submit(&run->f, REPORT, FE_GUEST + FE_DATA + MIB, MIB, 1, 2); /* nobody is told of it.. */
	kill_worker(run);
	assert_int_equal(talk_reap(&run->f, REPORT), 1); /* ..but the next worker looks */
	report(run);
	struct json_object *answer = ask(run, "{\"command\": \"target\", \"bytes\": 1048576}\n");
	assert_non_null(answer);
	json_object_put(answer);
	kill_worker(run);
	wait_for(run, "vhost", "queues_running", 5);
	assert_int_equal(counter(run, "progress", "target_pages"), MIB / 4096);
	assert_int_equal(talk_u64(&run->f, PH_VHOST_SET_VRING_CALL, REPORT, run->f.call[REPORT]), 0);
	hang_up(run);
}

/* A question whose worker dies before it answers is answered by the next. */
static void test_asked_again(void **state)
{
	struct run *run = *state;
	struct ph_vhost_message answer;
	const struct ph_vhost_vring_state which = { REPORT, 0 };
	begin(run);
	report(run);
	pid_t worker = (pid_t)counter(run, "program", "pid");
	assert_int_equal(kill(worker, SIGSTOP), 0);
	fe_send(&run->f, PH_VHOST_GET_VRING_BASE, &which, sizeof(which), -1);
	wait_taken(run);
	assert_int_equal(kill(worker, SIGKILL), 0);
	assert_int_equal(talk_answer(&run->f, &answer), 0);
	assert_int_equal(answer.request, PH_VHOST_GET_VRING_BASE);
	assert_int_equal(answer.payload[4], 1); /* where the ring stood */
	assert_int_equal(counter(run, "program", "restarts"), 1);
	kill_worker(run);
	wait_for(run, "vhost", "queues_running", 4); /* the stopped queue is not started again */
	hang_up(run);
}

/* Workers that die as fast as they are made are not made for ever. */
static void test_gives_up(void **state)
{
	struct run *run = *state;
	siginfo_t info;
	begin(run);
	for (int i = 0; i < 8; i++)
		kill_worker(run);
	run->wanted = 1;
	assert_int_equal(kill((pid_t)counter(run, "program", "pid"), SIGKILL), 0);
	assert_int_equal(waitid(P_PID, (id_t)run->pid, &info, WEXITED | WNOWAIT), 0);
	hang_up(run);
}

/* What is no message ends the connection, whole or in pieces; the next guest is served. */
static void test_rubbish(void **state)
{
	struct run *run = *state;
	static const unsigned char rubbish[][16] = {
		{ 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0 },                /* version 2 */
		{ 1, 0, 0, 0, 1, 0, 0, 0, 255, 255, 255, 255 },        /* 4 GiB follow */
		{ 11, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, 255, 0, 0, 0 }, /* no such queue, and no way to say so */
	};
	for (size_t i = 0; i < sizeof(rubbish) / sizeof(rubbish[0]); i++) {
		char byte;
		int fd = dial(run->socket);
		assert_true(fd >= 0);
		assert_int_equal(send(fd, rubbish[i], 16, 0), 16);
		if (i == 2)
			assert_int_equal(send(fd, "\0\0\0\0", 4, 0), 4);
		assert_true(recv(fd, &byte, 1, 0) <= 0);
		close(fd);
	}
	begin(run);
	report(run);
	hang_up(run);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_guests, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_workers_die, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_asked_again, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_gives_up, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_rubbish, set_up, tear_down),
	};
	if (argc < 2)
		return 2;
	program = argv[1];
	option = argv[2];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
