#include "crew.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

struct member {
	loop_fn loop;
	void *state;
	struct job *job;
	unsigned thread;
	unsigned threads;
	atomic_uint *ready;
	double start, end;
};

static int cpus[CREW_MAX];
static unsigned n_cpus;

static double now(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

double crew_cpu_ns(void)
{
	return now(CLOCK_THREAD_CPUTIME_ID);
}

static void pin(unsigned member)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpus[member % n_cpus], &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/* the last ones: the first is where a machine's own work tends to be */
unsigned crew_start(void)
{
	cpu_set_t set;
	sched_getaffinity(0, sizeof(set), &set);
	for (int cpu = CPU_SETSIZE - 1; cpu >= 0 && n_cpus < CREW_MAX; cpu--)
		if (CPU_ISSET(cpu, &set))
			cpus[n_cpus++] = cpu;
	pin(0);
	return n_cpus;
}

static void *work(void *arg)
{
	struct member *m = arg;
	pin(m->thread);
	atomic_fetch_add(m->ready, 1);
	while (atomic_load(m->ready) < m->threads)
		sched_yield();
	m->start = now(CLOCK_MONOTONIC);
	m->loop(m->state, m->thread, m->job);
	m->end = now(CLOCK_MONOTONIC);
	return NULL;
}

static double run_together(loop_fn loop, void *state, struct job *jobs, unsigned threads)
{
	struct member members[CREW_MAX] = { { NULL, NULL, NULL, 0, 0, NULL, 0, 0 } };
	pthread_t ids[CREW_MAX];
	atomic_uint ready = 0;
	for (unsigned i = 0; i < threads; i++) {
		members[i] = (struct member) { loop, state, &jobs[i], i, threads, &ready, 0, 0 };
		if (pthread_create(&ids[i], NULL, work, &members[i]) != 0) {
			fprintf(stderr, "no thread is to be had\n");
			exit(1);
		}
	}
	for (unsigned i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	double start = members[0].start, end = members[0].end;
	for (unsigned i = 1; i < threads; i++) {
		start = members[i].start < start ? members[i].start : start;
		end = members[i].end > end ? members[i].end : end;
	}
	return end - start;
}

static double run(loop_fn loop, void *state, struct job *jobs, unsigned threads)
{
	if (threads > 1)
		return run_together(loop, state, jobs, threads);
	double start = crew_cpu_ns();
	loop(state, 0, &jobs[0]);
	return crew_cpu_ns() - start;
}

__attribute__((noinline)) double crew_run(loop_fn loop, void *state, struct job *jobs, unsigned threads)
{
	return run(loop, state, jobs, threads);
}

__attribute__((noinline)) void crew_prepare(loop_fn loop, void *state, struct job *jobs, unsigned threads)
{
	run(loop, state, jobs, threads);
}

void *bench_map(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return at;
}

void bench_unmap(void *at, size_t bytes)
{
	munmap(at, bytes);
}
