#include "snapshot.h"

#include <errno.h>
#include <fcntl.h>
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
#include <pagehint/pager.h>
#include <pagehint/pager_backend.h>
#include <pagehint/source.h>

#define HUGE_PAGE ((uint64_t)2 << 20)

static uint64_t clock_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int snapshot_temporary(void)
{
	char path[] = "/var/tmp/pagehint-bench-XXXXXX";
	int fd = mkstemp(path);
	if (fd >= 0)
		unlink(path);
	return fd;
}

unsigned char *snapshot_room(uint64_t bytes, int fd)
{
	unsigned char *p = mmap(NULL, bytes + HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	p += (HUGE_PAGE - (uintptr_t)p % HUGE_PAGE) % HUGE_PAGE;
	p = mmap(p, bytes, PROT_READ | PROT_WRITE,
		 MAP_FIXED | MAP_NORESERVE | (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED), fd, 0);
	return p == MAP_FAILED ? NULL : p;
}

int snapshot_read(int fd, unsigned char *to, uint64_t bytes)
{
	for (uint64_t at = 0; at < bytes;) {
		ssize_t r = pread(fd, to + at, bytes - at < HUGE_PAGE ? bytes - at : HUGE_PAGE, (off_t)at);
		if (r <= 0)
			return -1;
		at += (uint64_t)r;
	}
	return 0;
}

/* ---- a thread that serves ---- */

struct server {
	struct pagehint_pager *pager;
	_Atomic int stop;
	pthread_t id;
};

static void *serve(void *arg)
{
	struct server *s = arg;
	uint64_t deadline;
	struct pollfd fd = { .events = POLLIN };
	if (pagehint_pager_fd(s->pager, 0, &fd.fd) != 0)
		return NULL;
	while (!atomic_load(&s->stop)) {
		if (poll(&fd, 1, 10) < 0 && errno != EINTR)
			return NULL;
		if (pagehint_pager_step(s->pager, 0, clock_ns(), &deadline) != 0)
			return NULL;
	}
	return NULL;
}

/* ---- first access ---- */

#define SPARSE ((uint64_t)4 << 30)
#define PROBE (SPARSE / 2 + 40 * PAGE)

static int sparse_file(void)
{
	int fd = snapshot_temporary();
	unsigned char page[PAGE];
	if (fd < 0 || ftruncate(fd, (off_t)SPARSE) != 0)
		return -1;
	/* 64 MiB of data, in pieces of 64 KiB all over */
	for (uint64_t at = 0; at < SPARSE; at += SPARSE / 1024)
		for (uint64_t k = 0; k < 16; k++) {
			memset(page, (int)(at / (SPARSE / 1024) + k) | 1, PAGE);
			if (pwrite(fd, page, PAGE, (off_t)(at + k * PAGE)) != (ssize_t)PAGE)
				return -1;
		}
	memset(page, 0xa5, PAGE);
	return pwrite(fd, page, PAGE, (off_t)PROBE) == (ssize_t)PAGE ? fd : -1;
}

/* The child: everything that a restoring process does before its first page is there. */
static int first_access(int fd, uint64_t start, uint64_t *ret_ns)
{
	struct server s = { 0 };
	unsigned char *memory = snapshot_room(SPARSE, -1);
	struct pagehint_pager_region region = { .struct_size = sizeof(region),
						.frames = SPARSE / PAGE,
						.host_addr = (uintptr_t)memory };
	if (memory == NULL || pagehint_source_file_new(fd, 0, SPARSE, &region.source) != 0 ||
	    pagehint_pager_new(NULL, &s.pager) != 0 || pagehint_pager_add(s.pager, &region) != 0 ||
	    pthread_create(&s.id, NULL, serve, &s) != 0)
		return -1;
	int right = *(volatile unsigned char *)(memory + PROBE) == 0xa5;
	*ret_ns = clock_ns() - start;
	right &= *(volatile unsigned char *)(memory + SPARSE - PAGE) == 0; /* a hole */
	return right ? 0 : -1;
}

int snapshot_first_access(double *ret_ms)
{
	static int fd = -1;
	uint64_t *ns = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status = 1;
	if (fd < 0)
		fd = sparse_file();
	if (fd < 0 || ns == MAP_FAILED)
		return -1;
	uint64_t start = clock_ns();
	pid_t pid = fork();
	if (pid == 0)
		_exit(first_access(fd, start, ns) == 0 ? 0 : 1);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	*ret_ms = (double)*ns / 1e6;
	munmap(ns, PAGE);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

/* ---- the size of a snapshot ---- */

#define WHOLE ((uint64_t)1 << 30)
#define RUNS 64u

/* Writes what has content, leaves holes elsewhere. */
static int write_sparse(struct pagehint_pager *pager, const unsigned char *memory, int fd)
{
	struct pagehint_page_run runs[64];
	uint64_t frame = 0;
	uint32_t n = 0;
	if (ftruncate(fd, (off_t)WHOLE) != 0)
		return -1;
	while (pagehint_pager_export(pager, frame, runs, 64, &n) == 0 && n > 0) {
		for (uint32_t i = 0; i < n; i++) {
			uint64_t at = runs[i].frame * PAGE, left = runs[i].frames * PAGE;
			while (runs[i].what == PAGEHINT_PAGE_PRESENT && left > 0) {
				ssize_t w = pwrite(fd, memory + at, left, (off_t)at);
				if (w <= 0)
					return -1;
				at += (uint64_t)w;
				left -= (uint64_t)w;
			}
		}
		frame = runs[n - 1].frame + runs[n - 1].frames;
	}
	return 0;
}

/* Every second 8 MiB are used, and of those every second is given back again. Returns bytes that are in use at the end. */
static uint64_t use_and_give_back(unsigned char *memory, struct pagehint_backend *backend)
{
	struct pagehint_run runs[RUNS];
	struct pagehint_outcome sum;
	uint32_t n = 0;
	uint64_t used = 0, piece = WHOLE / RUNS / 2;
	for (uint32_t i = 0; i < RUNS; i++) {
		uint64_t at = i * 2 * piece;
		for (uint64_t k = 0; k < piece; k += PAGE)
			memset(memory + at + k, (int)(i + k / PAGE) | 1, PAGE);
		if (i % 2 == 0)
			runs[n++] = (struct pagehint_run) { at / PAGE, piece / PAGE };
		else
			used += piece;
	}
	if (pagehint_backend_discard(backend, runs, n, 0, NULL, &sum, NULL) != 0 || sum.kept + sum.failed != 0)
		return 0;
	return used;
}

static int same_as_memory(const unsigned char *memory, int fd)
{
	const unsigned char *file = mmap(NULL, WHOLE, PROT_READ, MAP_SHARED, fd, 0);
	int same = file != MAP_FAILED;
	for (uint64_t at = 0; at < WHOLE && same; at += 16 * PAGE)
		same = memcmp(file + at, memory + at, PAGE) == 0;
	return same;
}

int snapshot_size(double *ret_blocks_over_used)
{
	struct server s = { 0 };
	struct pagehint_map *map;
	struct pagehint_backend *inner, *backend;
	struct stat st;
	uint64_t id;
	unsigned char *memory = snapshot_room(WHOLE, -1);
	struct pagehint_region_desc desc = { .struct_size = sizeof(desc),
					     .frames = WHOLE / PAGE,
					     .host_addr = (uintptr_t)memory,
					     .fd = -1,
					     .flags = PAGEHINT_REGION_UFFD_OWN };
	struct pagehint_pager_region region = { .struct_size = sizeof(region), .frames = WHOLE / PAGE };
	if (memory == NULL || madvise(memory, WHOLE, MADV_NOHUGEPAGE) != 0 || pagehint_map_new(NULL, &map) != 0 ||
	    pagehint_map_add(map, &desc, &id) != 0 || pagehint_source_zero_new(&region.source) != 0)
		return -1;
	struct pagehint_pager_opts opts = { .struct_size = sizeof(opts), .map = map };
	if (pagehint_pager_new(&opts, &s.pager) != 0 || pagehint_pager_add(s.pager, &region) != 0 ||
	    pagehint_madvise_new(map, NULL, NULL, &inner) != 0 ||
	    pagehint_pager_backend_new(s.pager, inner, NULL, &backend) != 0 ||
	    pthread_create(&s.id, NULL, serve, &s) != 0)
		return -1;
	uint64_t used = use_and_give_back(memory, backend);
	int fd = snapshot_temporary();
	if (used == 0 || fd < 0 || write_sparse(s.pager, memory, fd) != 0 || fsync(fd) != 0 || fstat(fd, &st) != 0 ||
	    !same_as_memory(memory, fd))
		return -1;
	*ret_blocks_over_used = (double)st.st_blocks * 512 / (double)used;
	atomic_store(&s.stop, 1);
	return pthread_join(s.id, NULL); /* the rest ends with the process */
}
