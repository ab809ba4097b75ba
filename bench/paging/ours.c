/*
 * The library's pager: a userfaultfd a CPU and a thread that steps it; or, inline, threads that resolve their own SIGBUS.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <pagehint/map.h>
#include <pagehint/pager.h>
#include <pagehint/source.h>

#include "place.h"

struct ours {
	struct place *place;
	struct pagehint_pager *pager;
	struct pagehint_source *source;
	_Atomic unsigned next;
};

static struct ours *inline_pager; /* of the round that runs; the handler of a signal has no argument */

static void on_sigbus(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	int r = pagehint_pager_resolve(inline_pager->pager, info->si_addr);
	if (r != 0 && r != -EAGAIN)
		abort();
}

static void *serve(void *arg)
{
	struct ours *o = arg;
	unsigned shard = atomic_fetch_add(&o->next, 1);
	uint64_t deadline = UINT64_MAX;
	struct pollfd fds[2] = { { .events = POLLIN }, { .fd = o->place->stop[0], .events = POLLIN } };
	pin_to(shard);
	if (pagehint_pager_fd(o->pager, shard, &fds[0].fd) != 0)
		abort();
	for (;;) {
		int wait = deadline == UINT64_MAX ? -1 : 0;
		if (poll(fds, 2, wait) < 0 && errno != EINTR)
			abort();
		if (fds[1].revents != 0)
			return NULL;
		if (pagehint_pager_step(o->pager, shard, clock_ns(), &deadline) != 0)
			o->place->failed = 1;
	}
}

static int make_pager(struct ours *o, struct place *p)
{
	struct pagehint_pager_opts opts = {
		.struct_size = sizeof(opts),
		.flags = p->shape.sigbus ? PAGEHINT_PAGER_SIGBUS : 0,
		.shards = p->cpus,
		.around_min = p->shape.around,
		.around_max = p->shape.around,
	};
	struct pagehint_pager_region region = {
		.struct_size = sizeof(region),
		.frames = PLACE_PAGES,
		.host_addr = (uintptr_t)p->memory,
		.flags = p->shape.memory == MINOR ? PAGEHINT_PAGER_MINOR : 0,
		.backing = p->shape.memory == MINOR ? PAGEHINT_BACKING_SHARED : PAGEHINT_BACKING_ANON,
	};
	int r = p->snapshot == NULL ? 0 : pagehint_source_memory_new(p->snapshot, PLACE_BYTES, &o->source);
	region.source = o->source;
	if (r == 0)
		r = pagehint_pager_new(&opts, &o->pager);
	if (r == 0)
		r = pagehint_pager_add(o->pager, &region);
	if (r != 0)
		fprintf(stderr, "paging: pager: %s\n", strerror(-r));
	return r;
}

static int ours_open(struct place *p)
{
	struct ours *o = calloc(1, sizeof(*o));
	if (o == NULL)
		return -1;
	o->place = p;
	p->way_ctx = o;
	if (make_pager(o, p) != 0)
		return -1;
	if (p->shape.sigbus) {
		struct sigaction on = { .sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO | SA_NODEFER };
		inline_pager = o;
		return sigaction(SIGBUS, &on, NULL);
	}
	p->stop[0] = eventfd(0, EFD_CLOEXEC);
	p->readers_n = p->cpus;
	for (unsigned i = 0; i < p->readers_n; i++)
		if (pthread_create(&p->readers[i], NULL, serve, o) != 0)
			return -1;
	return 0;
}

static void ours_close(struct place *p)
{
	struct ours *o = p->way_ctx;
	uint64_t one = 1;
	if (!p->shape.sigbus) {
		if (write(p->stop[0], &one, sizeof(one)) != sizeof(one))
			abort();
		for (unsigned i = 0; i < p->readers_n; i++)
			pthread_join(p->readers[i], NULL);
		close(p->stop[0]);
	}
	if (pagehint_pager_free(o->pager) != 0) /* everything was touched, so nothing is absent */
		abort();
	pagehint_source_free(o->source);
	free(o);
}

/* Each page was brought once, by the pager. A thread that is woken may be here before the one that woke it has counted. */
static int ours_figures(struct place *p)
{
	struct ours *o = p->way_ctx;
	struct pagehint_pager_stats stats = { .struct_size = sizeof(stats) };
	for (unsigned tries = 0; tries < 100000 && stats.installed < PLACE_PAGES; tries++) {
		if (pagehint_pager_stats(o->pager, &stats) != 0)
			return -1;
		if (stats.installed < PLACE_PAGES)
			sched_yield();
	}
	return stats.installed == PLACE_PAGES && stats.failures == 0 && stats.surprises == 0 ? 0 : -1;
}

const struct way way_ours = { ours_open, ours_close, ours_figures };
