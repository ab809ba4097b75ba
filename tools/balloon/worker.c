#include "worker.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "clients.h"
#include "confine.h"
#include "control.h"
#include "engine.h"
#include "report.h"

#define RETRY_NS UINT64_C(10000000) /* when the system had no memory for us */

enum { AT_VHOST, AT_CONTROL, AT_METRICS, AT_CLIENTS, POLLED = AT_CLIENTS + CLIENTS_MAX };

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static char *answer(void *ctx, enum client_kind kind, const char *line)
{
	struct engine *engine = ctx;
	engine->now_ns = now();
	return kind == CLIENT_METRICS ? report_metrics(engine) : control_answer(engine, line);
}

/* From now until the deadline, in what poll takes: never too early, at most a minute. */
static int wait_ms(uint64_t deadline)
{
	const uint64_t minute = 60000, at = now();
	if (deadline <= at)
		return 0;
	uint64_t ms = (deadline - at) / 1000000 + 1;
	return (int)(ms < minute ? ms : minute);
}

static void serve(struct clients *clients, const struct worker_sockets *sockets, const struct pollfd *fds)
{
	if (fds[AT_CONTROL].revents != 0)
		clients_accept(clients, sockets->control, CLIENT_CONTROL);
	if (fds[AT_METRICS].revents != 0)
		clients_accept(clients, sockets->metrics, CLIENT_METRICS);
	clients_serve(clients, fds + AT_CLIENTS);
}

static void loop(struct engine *engine, struct clients *clients, const struct worker_sockets *sockets)
{
	struct pollfd fds[POLLED];
	uint64_t deadline = 0;
	int r;
	while ((r = engine_step(engine, now(), &deadline)) != -ENODEV) {
		if (r != 0)
			deadline = now() + RETRY_NS;
		fds[AT_VHOST] = (struct pollfd) { .fd = pagehint_vhost_fd(engine->vhost), .events = POLLIN };
		fds[AT_CONTROL] = (struct pollfd) { .fd = sockets->control, .events = POLLIN };
		fds[AT_METRICS] = (struct pollfd) { .fd = sockets->metrics, .events = POLLIN };
		clients_poll(clients, fds + AT_CLIENTS);
		if (poll(fds, POLLED, wait_ms(deadline)) > 0)
			serve(clients, sockets, fds); /* whatever that changes is told to the guest by the next step */
	}
}

int worker_run(const struct balloon_options *options, struct balloon_state *state, const struct worker_sockets *sockets)
{
	static struct engine engine;
	static struct clients clients;
	int r = engine_open(&engine, options, state);
	if (r == 0)
		r = pagehint_vhost_attach(engine.vhost, sockets->channel);
	if (r == 0 && options->seccomp)
		r = confine_calls(CONFINE_WORKER);
	if (r != 0) {
		fprintf(stderr, "pagehint-balloon: worker: %s\n", strerror(-r));
		return WORKER_FAILED;
	}
	clients_init(&clients, answer, &engine);
	loop(&engine, &clients, sockets);
	clients_close(&clients);
	engine_close(&engine);
	return WORKER_DONE;
}
