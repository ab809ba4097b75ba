/*
 * linux-agent: helps a Linux guest to give memory back, where the kernel owns the balloon.
 *
 * The kernel reports free pages in whole blocks of pageblock size; what is free in smaller pieces, or full of old cache, stays
 * with the guest. This agent does three things, each only when asked for: it has memory compacted, so that free pieces become
 * blocks; it has cold memory reclaimed (memory.reclaim of a cgroup), a little each round; and it keeps a heap of its own
 * whose free blocks go back to the kernel by madvise. While the guest itself is short of memory (PSI) it does none of the first
 * two, waits longer each time, and the heap gives back everything.
 *
 * usage: linux-agent [--psi PERCENT] [--compact] [--reclaim BYTES] [--heap MIB] [--interval MS] [--rounds N] [--root DIR]
 *   --psi PERCENT    "short of memory": some avg10 of /proc/pressure/memory at or above this
 *   --compact        write 1 to /proc/sys/vm/compact_memory each round
 *   --reclaim BYTES  write BYTES to /sys/fs/cgroup/memory.reclaim each round
 *   --heap MIB       a heap of this size, filled and emptied once, to be seen at work
 *   --interval MS    between two rounds (default 2000); --rounds N: end after so many (default: never)
 *   --root DIR       stands before each path: for a container, or a test
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/heap.h"

#define BACKOFF_MOST 8u

struct options {
	double psi; /* negative: not asked for */
	const char *reclaim;
	const char *root;
	uint64_t heap_bytes;
	uint64_t interval_ns;
	unsigned long rounds; /* 0 = for ever */
	int compact;
};

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void sleep_until(uint64_t at_ns)
{
	struct timespec at = { .tv_sec = (time_t)(at_ns / 1000000000u), .tv_nsec = (long)(at_ns % 1000000000u) };
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
		;
}

/* ---- the kernel's files ---- */

/* What cannot be written is said, and is no reason to stop: the file may come with the next cgroup. */
static void write_file(const struct options *o, const char *path, const char *text)
{
	char full[512];
	snprintf(full, sizeof(full), "%s%s", o->root, path);
	int fd = open(full, O_WRONLY | O_CLOEXEC);
	/* memory.reclaim says EAGAIN when it could not reclaim all of it: that is an answer, not a failure */
	if (fd < 0 || (write(fd, text, strlen(text)) < 0 && errno != EAGAIN))
		fprintf(stderr, "linux-agent: %s: %s\n", full, strerror(errno));
	else
		printf("wrote %s to %s\n", text, path);
	if (fd >= 0)
		close(fd);
}

/* some avg10 of the pressure stall information, in percent; negative: unknown. */
static double read_pressure(const struct options *o)
{
	char full[512];
	double avg10 = -1;
	snprintf(full, sizeof(full), "%s/proc/pressure/memory", o->root);
	FILE *from = fopen(full, "re");
	if (from == NULL)
		return -1;
	if (fscanf(from, "some avg10=%lf", &avg10) != 1)
		avg10 = -1;
	fclose(from);
	return avg10;
}

/* ---- rounds ---- */

static int is_short_of_memory(const struct options *o)
{
	double pressure = o->psi < 0 ? -1 : read_pressure(o);
	if (o->psi >= 0 && pressure < 0) {
		fprintf(stderr, "linux-agent: the kernel tells no pressure: taken as short of memory\n");
		return 1;
	}
	return o->psi >= 0 && pressure >= o->psi;
}

/* Reclaim first: what it frees is then compacted together with the rest. */
static void help_the_kernel(const struct options *o)
{
	if (o->reclaim != NULL)
		write_file(o, "/sys/fs/cgroup/memory.reclaim", o->reclaim);
	if (o->compact)
		write_file(o, "/proc/sys/vm/compact_memory", "1");
}

static int run(const struct options *o, struct heap *heap)
{
	uint64_t due_ns = now_ns(), heap_ns = heap == NULL ? UINT64_MAX : 0;
	unsigned long round = 0;
	unsigned backoff = 1;
	while (o->rounds == 0 || round < o->rounds) {
		sleep_until(due_ns < heap_ns ? due_ns : heap_ns);
		uint64_t now = now_ns();
		if (now >= due_ns) {
			int is_short = is_short_of_memory(o);
			round++;
			backoff = !is_short ? 1 : backoff * 2 > BACKOFF_MOST ? BACKOFF_MOST : backoff * 2;
			due_ns = now + o->interval_ns * backoff;
			printf("round %lu: %s\n", round, is_short ? "short of memory" : "at ease");
			if (!is_short)
				help_the_kernel(o);
			else if (heap != NULL)
				heap_squeeze(heap);
		}
		if (heap != NULL && heap_step(heap, now, &heap_ns) < 0)
			return 1;
	}
	return 0;
}

/* Fills the heap, empties it, and lets the rounds show what became of it. */
static int exercise(struct heap *heap, uint64_t bytes)
{
	enum { BLOCKS = 512 };
	static void *block[BLOCKS];
	size_t n = (size_t)(bytes / 2 / HEAP_BLOCK);
	n = n > BLOCKS ? BLOCKS : n;
	for (size_t i = 0; i < n; i++) {
		block[i] = heap_alloc(heap, HEAP_BLOCK);
		if (block[i] == NULL)
			return -ENOMEM;
		memset(block[i], 0x5a, HEAP_BLOCK);
	}
	printf("heap: %llu KiB resident in use\n", (unsigned long long)(heap_resident(heap) >> 10));
	for (size_t i = 0; i < n; i++)
		heap_free(heap, block[i], HEAP_BLOCK);
	return 0;
}

static int parse(int argc, char **argv, struct options *o)
{
	*o = (struct options) { .psi = -1, .root = "", .interval_ns = UINT64_C(2000000000) };
	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : NULL;
		if (strcmp(argv[i], "--compact") == 0) {
			o->compact = 1;
			continue;
		}
		if (value == NULL)
			return -EINVAL;
		if (strcmp(argv[i], "--psi") == 0)
			o->psi = strtod(value, NULL);
		else if (strcmp(argv[i], "--reclaim") == 0)
			o->reclaim = value;
		else if (strcmp(argv[i], "--root") == 0)
			o->root = value;
		else if (strcmp(argv[i], "--heap") == 0)
			o->heap_bytes = strtoull(value, NULL, 10) << 20;
		else if (strcmp(argv[i], "--interval") == 0)
			o->interval_ns = strtoull(value, NULL, 10) * 1000000;
		else if (strcmp(argv[i], "--rounds") == 0)
			o->rounds = strtoul(value, NULL, 10);
		else
			return -EINVAL;
		i++;
	}
	return o->interval_ns == 0 ? -EINVAL : 0;
}

int main(int argc, char **argv)
{
	struct options o;
	struct heap *heap = NULL;
	if (parse(argc, argv, &o) < 0) {
		fprintf(stderr,
			"usage: %s [--psi PERCENT] [--compact] [--reclaim BYTES] [--heap MIB] [--interval MS] "
			"[--rounds N] [--root DIR]\n",
			argv[0]);
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (o.heap_bytes != 0 && (heap = heap_open(o.heap_bytes, o.interval_ns / 4)) == NULL) {
		fprintf(stderr, "linux-agent: no heap: %s\n", strerror(errno));
		return 1;
	}
	int rc = heap == NULL ? 0 : exercise(heap, o.heap_bytes) < 0;
	rc = rc ? rc : run(&o, heap);
	if (heap != NULL) {
		printf("heap: %llu KiB resident at the end\n", (unsigned long long)(heap_resident(heap) >> 10));
		heap_close(heap);
	}
	return rc;
}
