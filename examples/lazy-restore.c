/*
 * lazy-restore: memory of a machine is saved, and a new process goes on with it in milliseconds, before it has been read back.
 *
 * 1. Save: of 256 MiB half is in use; what is free is not written, so the file is sparse.
 * 2. A new process maps empty memory, adds it to a pager with the file as its source, and touches a page.
 * 3. While pages come on demand and in the background, its reporter gives free memory back. Part of what was in use is freed,
 *    is discarded, and reads as zero when it is used again; the rest is as it was saved.
 *
 * Exit code 0: all of that was so. 77: this process may have no userfaultfd.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
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
#define BLOCKS 128u
#define BYTES (BLOCK * BLOCKS)
#define FRAMES (BYTES / 4096)
#define BLOCK_FRAMES (BLOCK / 4096)

/* Every error ends the example; where there is no userfaultfd it is no fault of anybody's. */
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

/* Blocks are used in turn: one is in use, the next is free. */
static int is_used(uint64_t block)
{
	return block % 2 == 0;
}

static unsigned char content(uint64_t block)
{
	return (unsigned char)(block * 7 + 1);
}

static int save(void)
{
	char path[] = "lazy-restore-XXXXXX";
	int fd = mkstemp(path);
	unsigned char *block = malloc(BLOCK);
	struct stat st;
	if (fd < 0 || block == NULL || unlink(path) != 0 || ftruncate(fd, (off_t)BYTES) != 0)
		exit(1);
	for (uint64_t i = 0; i < BLOCKS; i++) {
		memset(block, content(i), BLOCK);
		if (is_used(i) && pwrite(fd, block, BLOCK, (off_t)(i * BLOCK)) != (ssize_t)BLOCK)
			exit(1);
	}
	free(block);
	if (fsync(fd) != 0 || fstat(fd, &st) != 0)
		exit(1);
	printf("saved %u MiB of memory in a file of %u MiB\n", (unsigned)(BYTES >> 20), (unsigned)(st.st_blocks >> 11));
	return fd;
}

/* ---- the new process ---- */

struct machine {
	unsigned char *memory;
	struct pagehint_map *map;
	struct pagehint_source *source;
	struct pagehint_pager *pager;
	struct pagehint_backend *inner, *backend;
	struct pagehint_zone *zone;
	struct pagehint_origin *origin;
	struct pagehint_reporter *reporter;
	pthread_t server;
	_Atomic int stop;
};

/* Faults first; between them, what nobody has asked for yet. */
static void *serve(void *arg)
{
	struct machine *m = arg;
	struct pollfd fd = { .events = POLLIN };
	uint64_t faults_at, fill_at = 0;
	NEED(pagehint_pager_fd(m->pager, 0, &fd.fd));
	while (!atomic_load(&m->stop)) {
		(void)poll(&fd, 1, fill_at == UINT64_MAX ? 10 : 0);
		NEED(pagehint_pager_step(m->pager, 0, clock_ns(), &faults_at));
		NEED(pagehint_pager_fill(m->pager, UINT32_MAX, clock_ns(), 0, NULL, &fill_at));
	}
	return NULL;
}

static void open_memory(struct machine *m, int fd)
{
	struct pagehint_region_desc desc = {
		.struct_size = sizeof(desc), .frames = FRAMES, .fd = -1, .flags = PAGEHINT_REGION_UFFD_OWN
	};
	struct pagehint_pager_region region = { .struct_size = sizeof(region), .frames = FRAMES };
	uint64_t id;
	m->memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (m->memory == MAP_FAILED)
		exit(1);
	desc.host_addr = (uintptr_t)m->memory;
	NEED(pagehint_map_new(NULL, &m->map));
	NEED(pagehint_map_add(m->map, &desc, &id));
	NEED(pagehint_source_file_new(fd, 0, BYTES, &m->source));
	struct pagehint_pager_opts opts = { .struct_size = sizeof(opts), .map = m->map };
	NEED(pagehint_pager_new(&opts, &m->pager));
	region.source = m->source;
	NEED(pagehint_pager_add(m->pager, &region));
}

/* What is in use is taken out of the zone; the rest is free, and may be given back (it holds nothing yet). */
static void open_reporter(struct machine *m)
{
	struct pagehint_zone_opts zone = { .struct_size = sizeof(zone), .flags = PAGEHINT_ZONE_STALE };
	NEED(pagehint_madvise_new(m->map, NULL, NULL, &m->inner));
	NEED(pagehint_pager_backend_new(m->pager, m->inner, NULL, &m->backend));
	NEED(pagehint_zone_new(&zone, &m->zone));
	NEED(pagehint_zone_add(m->zone, 0, FRAMES));
	for (uint64_t i = 0; i < BLOCKS; i++)
		if (is_used(i))
			NEED(pagehint_zone_reserve(m->zone, i * BLOCK_FRAMES, BLOCK_FRAMES, NULL));
	NEED(pagehint_zone_origin_new(m->zone, &m->origin));
	NEED(pagehint_reporter_new(m->origin, m->backend, NULL, &m->reporter));
}

/* The reporter's own clock runs ahead here, so that the example is short. */
static uint64_t report_all(struct machine *m)
{
	struct pagehint_reporter_stats stats = { .struct_size = sizeof(stats) };
	uint64_t now = clock_ns(), deadline;
	for (unsigned i = 0; i < 1000; i++) {
		NEED(pagehint_reporter_step(m->reporter, now, 0, &deadline));
		now = deadline != UINT64_MAX && deadline > now ? deadline : now + 1000000;
	}
	while (pagehint_reporter_stop(m->reporter, now, &deadline) == -EAGAIN)
		now = deadline;
	NEED(pagehint_reporter_stats(m->reporter, &stats));
	return stats.reported;
}

static int block_is(const struct machine *m, uint64_t block, unsigned char value)
{
	const unsigned char *at = m->memory + block * BLOCK;
	for (uint64_t i = 0; i < BLOCK; i += 512)
		if (at[i] != value)
			return 0;
	return 1;
}

static int restored(int fd, uint64_t start)
{
	static struct machine m;
	int right = 1;
	open_memory(&m, fd);
	if (pthread_create(&m.server, NULL, serve, &m) != 0)
		return 1;
	right &= *(volatile unsigned char *)(m.memory + 64 * BLOCK + 12345) == content(64);
	printf("first access after %.2f ms\n", (double)(clock_ns() - start) / 1e6);
	open_reporter(&m);
	for (uint64_t i = 0; i < BLOCKS; i += 8) { /* every fourth block that was in use is not needed any more */
		const struct pagehint_run run = { i * BLOCK_FRAMES, BLOCK_FRAMES };
		NEED(pagehint_zone_free_runs(m.zone, &run, 1, NULL));
	}
	uint64_t reported = report_all(&m);
	printf("reported %u MiB while pages came in\n", (unsigned)(reported >> 20));
	for (uint64_t i = 0; i < BLOCKS; i++)
		right &= block_is(&m, i, is_used(i) && i % 8 != 0 ? content(i) : 0);
	struct pagehint_pager_stats stats = { .struct_size = sizeof(stats) };
	atomic_store(&m.stop, 1);
	pthread_join(m.server, NULL);
	NEED(pagehint_pager_stats(m.pager, &stats));
	printf("pages: %llu brought, of them %llu in the background; %llu marked as removed, %llu kept in flight\n",
	       (unsigned long long)stats.installed, (unsigned long long)stats.filled, (unsigned long long)stats.removed,
	       (unsigned long long)stats.kept_in_flight);
	printf("%s\n", right ? "every page is what it should be" : "WRONG CONTENT");
	return right && reported != 0 ? 0 : 1;
}

int main(void)
{
	int fd = save(), status;
	fflush(stdout);
	uint64_t start = clock_ns();
	pid_t pid = fork();
	if (pid == 0)
		exit(restored(fd, start));
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return 1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
