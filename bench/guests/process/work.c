/*
 * The work that processes do for density, memhog, fault and net. Prints figures and nothing else; process.py reads them.
 *
 * usage: process guest WAY MIB FILL   fills FILL MiB and frees it; prints the seconds that filling took; then gives back, prints
 *                                     "settled" once no more comes, and stays until its input ends
 *        process fault WAY TASKS      page_fault1: 128 MiB a frame at a time, each touched, then freed; prints frames, CPU seconds
 *        process net WAY 1            a stream over a socket of buffers of 64 KiB that are allocated and freed; the same
 */
#include "../process.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define PAIR_NS (5 * SECOND / 2) /* longer than the reporter's interval */
#define FAULT_FRAMES 32768u
#define NET_ORDER 4u
#define KEEP_EVERY 4072u /* a frame in so many stays, as in a real guest */

static struct host host;

/* Fills, frees, gives back, idles. */
static void guest(uint64_t fill)
{
	uint64_t n = fill >> 12, *frames = malloc((size_t)n * sizeof(*frames)), start = host_now();
	char line[8];
	if (frames == NULL)
		host_must("memory", -ENOMEM);
	for (uint64_t i = 0; i < n; i++) {
		frames[i] = host_alloc(&host, NULL, 0);
		host.memory[frames[i] << 12] = 1;
	}
	printf("%.6f\n", (double)(host_now() - start) / 1e9);
	fflush(stdout);
	for (uint64_t i = 0; i < n; i++)
		if (i % KEEP_EVERY != 0)
			host_free(&host, NULL, frames[i], 0);
	free(frames);
	/* time is what the reporter is told: three intervals pass at once. The ladder is climbed as the host runs short. */
	uint64_t now = host_step(&host, host_now());
	for (int looks = 0; now != UINT64_MAX && looks < 3; looks++)
		now = host_step(&host, now);
	if (host.way == WAY_OURS) {
		host_must("pressure", pagehint_reporter_pressure(host.reporter, PAGEHINT_PRESSURE_FULL, 0));
		host_step(&host, now);
	}
	printf("settled\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) != NULL)
		continue;
	_exit(0); /* a guest that ends gives everything back at once */
}

struct task {
	pthread_t thread;
	uint64_t end_ns;
	uint64_t work;
	uint64_t share;
};

static void *fault(void *arg)
{
	struct task *task = arg;
	struct pagehint_cache *cache;
	uint64_t *frames = malloc((size_t)task->share * sizeof(*frames));
	host_must("cache", frames == NULL ? -ENOMEM : pagehint_cache_open(host.zone, &cache));
	while (host_now() < task->end_ns) {
		for (uint64_t i = 0; i < task->share; i++) {
			frames[i] = host_alloc(&host, cache, 0);
			memset(host.memory + (frames[i] << 12), 0, 4096); /* as a kernel does for whom it hands it to */
		}
		for (uint64_t i = 0; i < task->share; i++)
			host_free(&host, cache, frames[i], 0);
		task->work += task->share;
	}
	pagehint_cache_close(cache);
	free(frames);
	return NULL;
}

static void *stream(void *arg)
{
	struct task *task = arg;
	struct pagehint_cache *cache;
	static char sink[65536];
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
		host_must("socketpair", -errno);
	host_must("cache", pagehint_cache_open(host.zone, &cache));
	while (host_now() < task->end_ns) {
		uint64_t frame = host_alloc(&host, cache, NET_ORDER);
		unsigned char *buffer = host.memory + (frame << 12);
		memset(buffer, (int)task->work, sizeof(sink));
		for (size_t at = 0; at < sizeof(sink);) {
			ssize_t sent = send(pair[0], buffer + at, sizeof(sink) - at, MSG_DONTWAIT);
			if (sent < 0)
				host_must("send", -errno);
			for (ssize_t left = sent; left > 0;)
				left -= recv(pair[1], sink, (size_t)left, 0);
			at += (size_t)sent;
		}
		host_free(&host, cache, frame, NET_ORDER);
		task->work++;
	}
	pagehint_cache_close(cache);
	close(pair[0]);
	close(pair[1]);
	return NULL;
}

static double cpu_s(void)
{
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void measure(void *(*work)(void *), unsigned tasks)
{
	struct task task[16] = { 0 };
	uint64_t sum = 0;
	double before = cpu_s();
	uint64_t end_ns = host_now() + PAIR_NS;
	host_run(&host);
	for (unsigned i = 0; i < tasks; i++) {
		task[i].end_ns = end_ns;
		task[i].share = FAULT_FRAMES / tasks;
		host_must("thread", -pthread_create(&task[i].thread, NULL, work, &task[i]));
	}
	for (unsigned i = 0; i < tasks; i++) {
		pthread_join(task[i].thread, NULL);
		sum += task[i].work;
	}
	printf("%llu %.6f\n", (unsigned long long)sum, cpu_s() - before);
}

int main(int argc, char **argv)
{
	int way = argc > 3 ? host_way(argv[2]) : -1, n = argc > 3 ? atoi(argv[3]) : 0;
	if (argc == 5 && way >= 0 && strcmp(argv[1], "guest") == 0) {
		host_open(&host, (enum way)way, (uint64_t)n << 20);
		guest((uint64_t)atoi(argv[4]) << 20);
	} else if (argc == 4 && way >= 0 && way != WAY_BITMAP && n > 0 && n <= 16 && strcmp(argv[1], "guest") != 0) {
		host_open(&host, (enum way)way, UINT64_C(512) << 20);
		measure(strcmp(argv[1], "net") == 0 ? stream : fault, (unsigned)n);
		host_close(&host);
	} else {
		fprintf(stderr, "usage: process guest WAY MIB FILL | fault WAY TASKS | net WAY TASKS\n");
		return 2;
	}
	return 0;
}
