/*
 * postcopy: memory moves to another process while that one is already running with it.
 *
 * Two processes and a socket stand for two hosts. The first holds 64 MiB, half of them in use. The region is switched over at
 * once: the second starts with empty memory, pulls each page that it touches, and has the rest sent in the background, in
 * pieces small enough that a page which is waited for comes soon. Its reporter runs from the first moment: what is free is
 * marked as removed, and never crosses the socket.
 *
 * Exit code 0: every page that is in use arrived as it was, and of the others none had to. 77: no userfaultfd here.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <pagehint/host.h>
#include <pagehint/map.h>
#include <pagehint/origin.h>
#include <pagehint/pager.h>
#include <pagehint/pager_backend.h>
#include <pagehint/reporter.h>
#include <pagehint/source.h>
#include <pagehint/zone.h>

#define BLOCK ((uint64_t)2 << 20)
#define BLOCKS 32u
#define BYTES (BLOCK * BLOCKS)
#define FRAMES (BYTES / 4096)
#define BLOCK_FRAMES (BLOCK / 4096)
#define PIECE ((uint64_t)64 << 10) /* of what is sent ahead */

struct request {
	uint64_t offset, bytes, cookie, demand;
};

static void need(int result, const char *what)
{
	if (result == 0)
		return;
	if (result == -EPERM || result == -ENOSYS) {
		printf("not applicable: this process may have no userfaultfd\n");
		exit(77);
	}
	fprintf(stderr, "%s: %s\n", what, strerror(-result));
	exit(1);
}

#define NEED(what) need((what), #what)

static uint64_t clock_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int is_used(uint64_t block)
{
	return block % 2 == 0;
}

static uint64_t content(uint64_t page)
{
	return (page + 1) * UINT64_C(0x9e3779b97f4a7c15) | 1;
}

/* All of it; 0 = the other side is gone. */
static int read_all(int fd, void *to, size_t bytes)
{
	for (size_t at = 0; at < bytes;) {
		ssize_t r = read(fd, (char *)to + at, bytes - at);
		if (r <= 0)
			return 0;
		at += (size_t)r;
	}
	return 1;
}

static void write_all(int fd, const void *from, size_t bytes)
{
	for (size_t at = 0; at < bytes;) {
		ssize_t r = write(fd, (const char *)from + at, bytes - at);
		if (r <= 0)
			exit(1);
		at += (size_t)r;
	}
}

/* ---- the first host: answers until the other has everything ---- */

static uint64_t serve_requests(int fd)
{
	unsigned char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct request r;
	uint64_t sent = 0;
	if (memory == MAP_FAILED)
		exit(1);
	for (uint64_t i = 0; i < FRAMES; i++) {
		uint64_t word = content(i);
		if (is_used(i / BLOCK_FRAMES))
			memcpy(memory + i * 4096, &word, sizeof(word));
	}
	while (read_all(fd, &r, sizeof(r))) {
		if (r.offset > BYTES || r.bytes > BYTES - r.offset) /* the peer is not to be trusted */
			exit(1);
		write_all(fd, &r, sizeof(r));
		write_all(fd, memory + r.offset, r.bytes);
		sent += r.bytes;
	}
	return sent;
}

/* ---- the second ---- */

struct host {
	int fd;
	unsigned char *memory, *arrived;
	struct pagehint_map *map;
	struct pagehint_source *source;
	struct pagehint_pager *pager;
	struct pagehint_backend *inner, *backend;
	struct pagehint_zone *zone;
	struct pagehint_origin *origin;
	struct pagehint_reporter *reporter;
	pthread_t server;
	_Atomic int ahead; /* the rest may be sent */
	_Atomic int stop;
	_Atomic uint64_t pulled, sent_ahead;
};

/* A request leaves in one write, so threads that ask at once do not mix theirs. */
static int fetch(void *ctx, struct pagehint_fetch *f)
{
	struct host *h = ctx;
	struct request r = { f->offset, f->bytes, f->cookie, f->demand };
	if (write(h->fd, &r, sizeof(r)) != sizeof(r))
		return -EIO;
	atomic_fetch_add(f->demand ? &h->pulled : &h->sent_ahead, f->bytes);
	return -EINPROGRESS;
}

static void take_answer(struct host *h)
{
	struct request r;
	if (!read_all(h->fd, &r, sizeof(r)) || r.bytes > BLOCK || !read_all(h->fd, h->arrived, r.bytes))
		exit(1);
	int e = pagehint_pager_deliver(h->pager, r.cookie, h->arrived, r.bytes, 0);
	if (e != 0 && e != -EALREADY)
		need(e, "deliver");
}

/* One thread: faults, answers, and between them one piece more of what nobody has asked for. */
static void *serve(void *arg)
{
	struct host *h = arg;
	struct pollfd fds[2] = { { .events = POLLIN }, { .fd = h->fd, .events = POLLIN } };
	uint64_t faults_at = UINT64_MAX, fill_at = 0;
	NEED(pagehint_pager_fd(h->pager, 0, &fds[0].fd));
	while (!atomic_load(&h->stop)) {
		(void)poll(fds, 2, 1);
		NEED(pagehint_pager_step(h->pager, 0, clock_ns(), &faults_at));
		if ((fds[1].revents & POLLIN) != 0)
			take_answer(h);
		else if (atomic_load(&h->ahead))
			NEED(pagehint_pager_fill(h->pager, UINT32_MAX, clock_ns(), PIECE, NULL, &fill_at));
	}
	return NULL;
}

static void open_memory(struct host *h)
{
	static const struct pagehint_source_ops ops = {
		.struct_size = sizeof(ops), .name = "socket", .caps = PAGEHINT_SOURCE_ASYNC, .fetch = fetch
	};
	struct pagehint_region_desc desc = {
		.struct_size = sizeof(desc), .frames = FRAMES, .fd = -1, .flags = PAGEHINT_REGION_UFFD_OWN
	};
	struct pagehint_pager_region region = { .struct_size = sizeof(region), .frames = FRAMES };
	uint64_t id;
	h->memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	h->arrived = malloc(BLOCK);
	if (h->memory == MAP_FAILED || h->arrived == NULL)
		exit(1);
	desc.host_addr = (uintptr_t)h->memory;
	NEED(pagehint_map_new(NULL, &h->map));
	NEED(pagehint_map_add(h->map, &desc, &id));
	NEED(pagehint_source_new(&ops, h, &h->source));
	struct pagehint_pager_opts opts = { .struct_size = sizeof(opts), .map = h->map, .flights = 4 };
	NEED(pagehint_pager_new(&opts, &h->pager));
	region.source = h->source;
	NEED(pagehint_pager_add(h->pager, &region));
}

/* What is free is known at the switch; here it is every second block. */
static void open_reporter(struct host *h)
{
	struct pagehint_zone_opts zone = { .struct_size = sizeof(zone), .flags = PAGEHINT_ZONE_STALE };
	NEED(pagehint_madvise_new(h->map, NULL, NULL, &h->inner));
	NEED(pagehint_pager_backend_new(h->pager, h->inner, NULL, &h->backend));
	NEED(pagehint_zone_new(&zone, &h->zone));
	NEED(pagehint_zone_add(h->zone, 0, FRAMES));
	for (uint64_t i = 0; i < BLOCKS; i++)
		if (is_used(i))
			NEED(pagehint_zone_reserve(h->zone, i * BLOCK_FRAMES, BLOCK_FRAMES, NULL));
	NEED(pagehint_zone_origin_new(h->zone, &h->origin));
	NEED(pagehint_reporter_new(h->origin, h->backend, NULL, &h->reporter));
}

static uint64_t report(struct host *h, uint64_t *now, unsigned steps)
{
	struct pagehint_reporter_stats stats = { .struct_size = sizeof(stats) };
	uint64_t deadline;
	for (unsigned i = 0; i < steps; i++) {
		NEED(pagehint_reporter_step(h->reporter, *now, 0, &deadline));
		*now = deadline != UINT64_MAX && deadline > *now ? deadline : *now + 1000000;
	}
	NEED(pagehint_reporter_stats(h->reporter, &stats));
	return stats.reported;
}

static int page_is_right(const struct host *h, uint64_t page)
{
	uint64_t word;
	memcpy(&word, h->memory + page * 4096, sizeof(word));
	return word == content(page);
}

static int receive(int fd)
{
	static struct host h;
	uint64_t start = clock_ns(), now = start, page = 7, right = 1;
	h.fd = fd;
	open_memory(&h);
	if (pthread_create(&h.server, NULL, serve, &h) != 0)
		return 1;
	right &= (uint64_t)page_is_right(&h, 0);
	printf("first page of the other host after %.2f ms\n", (double)(clock_ns() - start) / 1e6);
	open_reporter(&h);
	uint64_t reported = report(&h, &now, 50);
	atomic_store(&h.ahead, 1);
	for (unsigned i = 0; i < 4000; i++) { /* it works, here and there, while the rest arrives */
		page = (page * 2862933555777941757u + 3037000493u) % FRAMES;
		if (is_used(page / BLOCK_FRAMES))
			right &= (uint64_t)page_is_right(&h, page);
		if (i % 500 == 0)
			reported = report(&h, &now, 5);
	}
	for (uint64_t i = 0; i < FRAMES; i++)
		if (is_used(i / BLOCK_FRAMES))
			right &= (uint64_t)page_is_right(&h, i);
	atomic_store(&h.stop, 1);
	pthread_join(h.server, NULL);
	uint64_t moved = atomic_load(&h.pulled) + atomic_load(&h.sent_ahead);
	printf("pulled %u KiB, sent ahead %u KiB; %u MiB were in use, %u MiB were reported free and stayed behind\n",
	       (unsigned)(atomic_load(&h.pulled) >> 10), (unsigned)(atomic_load(&h.sent_ahead) >> 10),
	       (unsigned)(BYTES / 2 >> 20), (unsigned)(reported >> 20));
	printf("%s\n", right ? "every page that is in use is as it was" : "WRONG CONTENT");
	return right && reported == BYTES / 2 && moved < BYTES * 6 / 10 ? 0 : 1;
}

int main(void)
{
	int pair[2], status;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
		return 1;
	pid_t pid = fork();
	if (pid == 0) {
		close(pair[0]);
		exit(receive(pair[1]));
	}
	close(pair[1]);
	if (pid < 0)
		return 1;
	(void)serve_requests(pair[0]);
	if (waitpid(pid, &status, 0) != pid)
		return 1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
