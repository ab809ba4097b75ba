/*
 * The same race with the memory in another process, which discards it and tells nobody but the kernel: the pager here gets
 * its userfaultfds, reads removals as events, and installs into that process. No content of before a removal comes back.
 *
 * The child owns the memory, its zone and its reporter; the parent serves it, and fills. Memory is mapped before the fork, so
 * addresses are the same; the parent's own copy of the mapping is not registered and not touched.
 */
#include "support/race.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <linux/userfaultfd.h>

#include <pagehint/host.h>
#include <pagehint/map.h>

#define BYTES (RACE_FRAMES * PAGE)
#define SHARDS 2

static void *snapshot;
static struct shared {
	_Atomic uint64_t wrong, looks, freed;
	_Atomic int done;
} * shared;

static uint64_t removed; /* pages, as events said */

static int group_setup(void **state)
{
	(void)state;
	snapshot = snapshot_new(RACE_FRAMES);
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return 0;
}

static void send_fds(int socket, const int *fds)
{
	char room[CMSG_SPACE(SHARDS * sizeof(int))] = { 0 }, byte = 1;
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(SHARDS * sizeof(int));
	memcpy(CMSG_DATA(c), fds, SHARDS * sizeof(int));
	if (sendmsg(socket, &m, 0) != 1)
		_exit(2);
}

static void receive_fds(int socket, int *fds)
{
	char room[CMSG_SPACE(SHARDS * sizeof(int))], byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room) };
	assert_int_equal(recvmsg(socket, &m, MSG_CMSG_CLOEXEC), 1);
	assert_int_equal(CMSG_FIRSTHDR(&m)->cmsg_len, CMSG_LEN(SHARDS * sizeof(int)));
	memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&m)), SHARDS * sizeof(int));
}

/* The process whose memory it is. */
static void child(const struct served *s, int socket, uint64_t seed)
{
	static struct race race;
	struct pagehint_region_desc desc = {
		.struct_size = sizeof(desc), .frames = RACE_FRAMES, .host_addr = (uintptr_t)s->memory, .fd = s->fd
	};
	struct pagehint_hooks hooks = { .struct_size = sizeof(hooks), .ctx = &race, .after_discard = race_after };
	struct pagehint_backend_opts how = { .struct_size = sizeof(how), .hooks = &hooks };
	struct pagehint_map *map;
	struct pagehint_backend *backend;
	uint64_t id;
	char go;
	int fds[SHARDS];
	for (int i = 0; i < SHARDS; i++) {
		fds[i] = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
		if (fds[i] < 0)
			_exit(3);
	}
	send_fds(socket, fds);
	if (read(socket, &go, 1) != 1)
		_exit(4);
	if (pagehint_map_new(NULL, &map) != 0 || pagehint_map_add(map, &desc, &id) != 0 ||
	    pagehint_madvise_new(map, NULL, &how, &backend) != 0)
		_exit(5);
	race_open(&race, s->memory, backend, 1500);
	race_run(&race, seed);
	atomic_fetch_add(&shared->wrong, atomic_load(&race.wrong));
	atomic_fetch_add(&shared->looks, atomic_load(&race.looks));
	atomic_fetch_add(&shared->freed, atomic_load(&race.freed));
	_exit(0);
}

static void one_round(uint32_t backing, uint64_t seed)
{
	struct served s;
	struct pagehint_source *source;
	int pair[2], fds[SHARDS], status;
	served_memory(&s, BYTES, backing);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		child(&s, pair[1], seed);
	receive_fds(pair[0], fds);
	struct pagehint_pager_opts opts = { .shards = SHARDS,
					    .fds = fds,
					    .around_min = 4,
					    .around_max = 32,
					    .flags = PAGEHINT_PAGER_FOREIGN | PAGEHINT_PAGER_EVENT_REMOVE };
	served_pager(&s, &opts);
	assert_int_equal(pagehint_source_memory_new(snapshot, BYTES, &source), 0);
	struct pagehint_pager_region r = served_region(&s, source, 0);
	assert_int_equal(pagehint_pager_add(s.pager, &r), 0);
	atomic_store(&s.fills, 1);
	served_start(&s);
	assert_int_equal(write(pair[0], "g", 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	served_stop(&s);
	/* once its process is gone there is nobody left to install for */
	assert_true(atomic_load(&s.step_error) == 0 || atomic_load(&s.step_error) == -ESRCH);
	removed += served_stats(&s).removed_events;
	assert_int_equal(served_stats(&s).failures, 0);
	served_close(&s);
	pagehint_source_free(source);
	close(pair[0]);
	close(pair[1]);
	assert_int_equal(atomic_load(&shared->wrong), 0);
}

static void test_anon(void **state)
{
	(void)state;
	unsigned long rounds = rounds_scaled(30);
	for (unsigned long i = 0; i < rounds; i++)
		one_round(PAGEHINT_BACKING_ANON, i + 1);
}

static void test_shared(void **state)
{
	(void)state;
	unsigned long rounds = rounds_scaled(30);
	for (unsigned long i = 0; i < rounds; i++)
		one_round(PAGEHINT_BACKING_SHARED, i + 1000);
}

static void test_sum(void **state)
{
	(void)state;
	printf("RESULT paging.race.second_process.looks %llu\n", (unsigned long long)atomic_load(&shared->looks));
	printf("RESULT paging.race.second_process.frames_freed %llu\n",
	       (unsigned long long)atomic_load(&shared->freed));
	printf("RESULT paging.race.second_process.wrong_pages %llu\n", (unsigned long long)atomic_load(&shared->wrong));
	assert_int_equal(atomic_load(&shared->wrong), 0);
	assert_true(removed > 0);
	assert_true(atomic_load(&shared->freed) > 500 && atomic_load(&shared->looks) > 5000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_anon),
		cmocka_unit_test(test_shared),
		cmocka_unit_test(test_sum),
	};
	if (!may_serve())
		return 77;
	return cmocka_run_group_tests(tests, group_setup, NULL);
}
