/*
 * What runs inside a guest: fill memory, or fault it in and out. One static program, as small as can be, since
 * the guest holds it in memory. It prints figures and nothing else; the host's side (uml.py) reads them from the console.
 *
 * usage: inside touch MIB                      prints the seconds that touching took
 *        inside fault TASKS (p|t) SECONDS      page_fault1: maps 128 MiB, touches every page, unmaps; prints faults
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096u
#define FAULT_BYTES ((size_t)128 << 20)
#define TASKS_MAX 64

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

static unsigned char *map(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		die("mmap");
	return p;
}

static int touch(size_t mib)
{
	double start = now();
	unsigned char *p = map(mib << 20);
	for (size_t at = 0; at < mib << 20; at += PAGE)
		p[at] = 1;
	printf("%.3f\n", now() - start);
	return 0;
}

struct task {
	double end;
	size_t bytes;
	uint64_t faults;
};

static void *fault_loop(void *arg)
{
	struct task *task = arg;
	while (now() < task->end) {
		unsigned char *p = map(task->bytes);
		for (size_t at = 0; at < task->bytes; at += PAGE)
			p[at] = 1;
		task->faults += task->bytes / PAGE;
		munmap(p, task->bytes);
	}
	return NULL;
}

/* The tasks share one mapping's worth of memory: a guest has no more, however many there are. */
static int fault(int tasks, int threads, double seconds)
{
	struct task *task =
		mmap(NULL, TASKS_MAX * sizeof(*task), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_t thread[TASKS_MAX];
	uint64_t faults = 0;
	if (task == MAP_FAILED || tasks < 1 || tasks > TASKS_MAX)
		die("tasks");
	double end = now() + seconds;
	for (int i = 0; i < tasks; i++) {
		task[i] = (struct task) { .end = end, .bytes = FAULT_BYTES / (size_t)tasks / PAGE * PAGE };
		if (threads && pthread_create(&thread[i], NULL, fault_loop, &task[i]) != 0)
			die("thread");
		if (!threads && fork() == 0) {
			fault_loop(&task[i]);
			_exit(0);
		}
	}
	for (int i = 0; i < tasks; i++)
		if (threads)
			pthread_join(thread[i], NULL);
		else
			wait(NULL);
	for (int i = 0; i < tasks; i++)
		faults += task[i].faults;
	printf("%llu\n", (unsigned long long)faults);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "touch") == 0)
		return touch((size_t)atol(argv[2]));
	if (argc == 5 && strcmp(argv[1], "fault") == 0)
		return fault(atoi(argv[2]), argv[3][0] == 't', atof(argv[4]));
	fprintf(stderr, "usage: inside touch MIB | fault TASKS (p|t) SECONDS\n");
	return 2;
}
